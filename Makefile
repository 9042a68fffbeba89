# The few verbs of this project. `make` alone explains them.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup check test demo chaos bench

help:  ## explain the verbs
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(READY)  ## make .venv with everything pinned in requirements.lock

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(RUN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

check: $(READY)  ## format, lint and types: changes nothing
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy

test: $(READY)  ## all tests, on real servers that they start and stop themselves
	$(RUN)/python -m pytest

demo: $(READY)  ## the log at work on embedded servers; KEEP=1 leaves them running
	$(RUN)/python examples/log/demo.py $(if $(KEEP),--keep)

chaos: $(READY)  ## kill writers and consumers with -9 many times; nothing lost, nothing doubled
	$(RUN)/python bench/chaos_log.py

bench: $(READY)  ## side by side with bare clients, in one run
	$(RUN)/python bench/log.py
