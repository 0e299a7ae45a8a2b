PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint

# One virtual environment for everything, made once and again when the requirements change.
$(VENV)/installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/rlx --config=experiments/configs/quickstart/arithmetic.py --workdir=runs/quickstart

test: $(VENV)/installed
	$(BIN)/pytest --numprocesses 2 --dist loadfile -m 'not slow'

test-slow: $(VENV)/installed
	$(BIN)/pytest -m slow

lint: $(VENV)/installed
	$(BIN)/ruff check .
