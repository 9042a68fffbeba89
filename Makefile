# The few verbs of this project. `make` alone explains them.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup check test test-pipelines test-others demo chaos bench

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

# Pipelines are tested in a process of their own: PySpark has one JVM a process, and it should be theirs.
# It works the cores while the other one waits for servers, so they run at once; each tells all when it ends.
PIPELINES := tests/process tests/run tests/sink tests/testing

test: $(READY)  ## all tests, on real servers that they start and stop themselves
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target test-pipelines test-others

test-pipelines: $(READY)
	$(RUN)/python -m pytest $(PIPELINES)

test-others: $(READY)
	$(RUN)/python -m pytest $(PIPELINES:%=--ignore=%)

demo: $(READY)  ## the log and a bank's pipelines at work; KEEP=1 leaves the log's broker running
	$(RUN)/python examples/log/demo.py $(if $(KEEP),--keep)
	$(RUN)/python examples/bank/bank_demo.py

chaos: $(READY)  ## kill writers, consumers, drivers, workers and brokers with -9; nothing lost, nothing doubled
	$(RUN)/python bench/chaos_log.py
	$(RUN)/python -m bench.chaos_pipelines

bench: $(READY)  ## side by side with bare clients and hand-written PySpark, in one run
	$(RUN)/python bench/log.py
	$(RUN)/python -m bench.pipelines
	$(RUN)/python -m bench.latency
	$(RUN)/python -m bench.windows
	$(RUN)/python -m bench.adaptive
	$(RUN)/python -m bench.sliding
