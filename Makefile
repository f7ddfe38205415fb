# Two commands are all the set-up there is: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed
	$(BIN)/weatherpp demo

test: $(VENV)/.installed-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/crps.py --out build/bench/crps.json
	$(BIN)/python benchmarks/memory.py --out build/bench/memory.json
	$(BIN)/python benchmarks/samples.py --out build/bench/samples.json
	$(BIN)/python benchmarks/ingest.py --out build/bench/ingest.json
	$(BIN)/python benchmarks/maps.py --out build/bench/maps.json
	$(BIN)/python benchmarks/nightly.py --out build/bench/nightly.json
	$(BIN)/python benchmarks/results.py build/results.json build/bench/*.json

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) torch
	$(PIP_INSTALL) --editable .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP_INSTALL) --editable '.[test]'
	touch $@

$(VENV)/.installed-lint: $(VENV)/.installed
	$(PIP_INSTALL) --editable '.[lint,test]'
	touch $@

clean:
	rm -rf $(VENV) build dist
