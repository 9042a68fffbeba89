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

# The tests run in three processes at once: each waits more than it works, for servers or for one batch
# after another. A file that is in neither list runs among the others. Spark in a process is one JVM's.
PROGRAMS := tests/docs tests/examples tests/log/test_chaos.py tests/run/test_chaos.py tests/run/test_cluster.py \
            tests/capture/test_chaos.py
PIPELINES := tests/process tests/run tests/testing tests/cli/test_run.py
# Java lives for seconds here: compiling with all of its art would cost more than it brings.
PYTEST := JDK_JAVA_OPTIONS="$$JDK_JAVA_OPTIONS -XX:TieredStopAtLevel=1" $(RUN)/python -m pytest

test: $(READY)  ## all tests, on real servers that they start and stop themselves
	@$(MAKE) --no-print-directory --jobs=3 --keep-going --output-sync=target $(TESTS)

TESTS := test-programs test-pipelines test-others
.PHONY: $(TESTS)

test-programs: $(READY)
	$(PYTEST) $(PROGRAMS)

test-pipelines: $(READY)
	$(PYTEST) $(PIPELINES) $(PROGRAMS:%=--ignore=%)

test-others: $(READY)
	$(PYTEST) $(PIPELINES:%=--ignore=%) $(PROGRAMS:%=--ignore=%)

demo: $(READY)  ## a bank from its database to its alerts, with a crash; KEEP=1 leaves its servers running
	$(RUN)/python examples/bank/bank_demo.py $(if $(KEEP),--keep)

chaos: $(READY)  ## kill everything with -9, from writers to databases; nothing lost, nothing doubled
	$(RUN)/python bench/chaos_log.py
	$(RUN)/python -m bench.chaos_pipelines
	$(RUN)/python -m bench.chaos_capture

bench: $(READY)  ## side by side with bare clients and hand-written PySpark, in one run
	$(RUN)/python bench/log.py
	$(RUN)/python -m bench.pipelines
	$(RUN)/python -m bench.latency
	$(RUN)/python -m bench.windows
	$(RUN)/python -m bench.adaptive
	$(RUN)/python -m bench.sliding
	$(RUN)/python -m bench.capture
