# Two commands are all the set-up there is: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed
	$(BIN)/weatherpp demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest

lint: $(VENV)/.installed-lint
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-test
	$(BIN)/python benchmarks/crps.py
	$(BIN)/python benchmarks/samples.py

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
