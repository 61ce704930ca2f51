# Everything runs in .venv/, which is made on first use. PYTHON chooses the interpreter.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := $(shell find src -type f -not -name '*.pyc')

.PHONY: demo test test-long test-isa test-everywhere test-native fuzz wheel lint format clean
.DELETE_ON_ERROR:

demo: .venv/.package
	$(BIN)/elmokit demo

test: .venv/.test
	$(BIN)/python -m pytest -n 2

# Further cases of the slowest tests, which do not fit into ten minutes.
test-long: .venv/.test
	$(BIN)/python -m pytest -n 2 -m long

INSTRUCTION_SETS = $$($(BIN)/python -c "from elmokit.engine import native; \
	    print(*native.available(), 'none')")

# The engines with each instruction set of this machine, and without the kernel.
test-isa: .venv/.test
	for isa in $(INSTRUCTION_SETS); do \
	    echo "ELMOKIT_ISA=$$isa"; \
	    ELMOKIT_ISA=$$isa $(BIN)/python -m pytest -n 2 -q -m 'not slow and not long' \
	        tests/engine || exit 1; \
	done

# The whole suite with each of them, each with one thread and with two; stops at the first failure.
# `make test-everywhere KEEP_GOING=1` goes through all of them; TESTS chooses some of the tests.
TESTS ?=
test-everywhere: .venv/.test
	@failed=0; \
	for isa in $(INSTRUCTION_SETS); do for threads in 1 2; do \
	    printf '%s' "ELMOKIT_ISA=$$isa ELMOKIT_TEST_THREADS=$$threads: "; \
	    if ELMOKIT_ISA=$$isa ELMOKIT_TEST_THREADS=$$threads \
	        $(BIN)/python -m pytest -n 2 -q $(TESTS) > .venv/test-everywhere.log 2>&1; \
	    then tail -n 1 .venv/test-everywhere.log; \
	    else echo failed; cat .venv/test-everywhere.log; failed=1; \
	        [ -n "$(KEEP_GOING)" ] || exit 1; \
	    fi; \
	done; done; \
	exit $$failed

# The C kernel under the address, undefined-behaviour and thread sanitisers; needs a compiler.
test-native:
	native/run_tests.sh

# Damaged input of every kind, about three minutes; `make fuzz MINUTES=60` for the long campaign.
MINUTES ?= 3
fuzz: .venv/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --minutes $(MINUTES)

# dist/: an sdist and a manylinux wheel, both tried in a new venv without a compiler.
wheel: .venv/.wheel
	PYTHON=$(BIN)/python scripts/wheel.sh

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
	$(BIN)/pip install --quiet -c constraints.txt '.[ko,plot]'
	touch $@

.venv/.test: .venv/.package
	$(BIN)/pip install --quiet -c constraints.txt --group test '.[arrow,generate,hub,ko,plot,tasks,zstd]'
	touch $@

.venv/.lint: .venv/.test
	$(BIN)/pip install --quiet -c constraints.txt --group lint
	touch $@

.venv/.wheel: .venv/.python pyproject.toml
	$(BIN)/pip install --quiet -c constraints.txt --group wheel
	touch $@
