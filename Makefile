# Everything runs in .venv/, which is made on first use. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -type f -not -name '*.pyc')

.PHONY: demo test test-native fuzz lint format clean
.DELETE_ON_ERROR:

demo: .venv/.package
	$(BIN)/python examples/demo.py

test: .venv/.test
	$(BIN)/python -m pytest -n 2

# The C kernel under the address, undefined-behaviour and thread sanitisers; needs a compiler.
test-native:
	native/run_tests.sh

# Damaged input of every kind, about three minutes; `make fuzz MINUTES=60` for the long campaign.
MINUTES ?= 3
fuzz: .venv/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --minutes $(MINUTES)

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist

# torch first and by its pin: a range alone may pull another build of gigabytes.
.venv/.python: constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt torch
	touch $@

# The wheel, not the source tree: what is tested is what users install.
.venv/.package: .venv/.python pyproject.toml $(SOURCES)
	$(BIN)/pip uninstall --quiet --yes elmokit
	$(BIN)/pip install --quiet -c constraints.txt '.[plot]'
	touch $@

.venv/.test: .venv/.package
	$(BIN)/pip install --quiet -c constraints.txt --group test '.[arrow,hub,plot,tasks,zstd]'
	touch $@

.venv/.lint: .venv/.test
	$(BIN)/pip install --quiet -c constraints.txt --group lint
	touch $@
