PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# What needs other packages, and has a target of its own.
ELSEWHERE := --ignore=tests/parity --ignore=tests/accelerators

COLABS ?= $(basename $(notdir $(wildcard colabs/*.py)))

.PHONY: demo test test-part test-slow test-claims test-changed test-parity test-faults test-accelerators test-gpu lint docs colabs

# One virtual environment for everything, made once and again when the requirements change.
$(VENV)/installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

# torch is only for the tests that compare with it. (PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
# takes wheels without CUDA, a tenth of the size.)
$(VENV)/installed-parity: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[parity]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/rlx --config=quickstart/arithmetic --workdir=runs/quickstart

# With a flag that halves the time of compiling, where jaxlib knows it. Slow tests learn for long: they run as a
# user's programs do.
test: $(VENV)/installed
	XLA_FLAGS="$$($(BIN)/python tests/xla_flags.py)" $(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder -m 'not slow' $(ELSEWHERE)

# A few minutes of it, for another Python: make test-part PYTHON=python3.13 VENV=.venv-3.13
test-part: $(VENV)/installed
	XLA_FLAGS="$$($(BIN)/python tests/xla_flags.py)" $(BIN)/pytest --numprocesses 2 --dist loadfile -m 'not slow' \
	  tests/test_commands.py tests/test_config.py tests/test_step.py tests/test_types.py tests/losses tests/advantages tests/kernels

test-slow: $(VENV)/installed
	$(BIN)/pytest -m slow $(ELSEWHERE)

# What papers claim, run again from nothing: all that docs/claims.md does not have, or CLAIMS="S063 S074"; SHARD=1/4.
test-claims: $(VENV)/installed
	$(BIN)/python -m rlx.experiments.claim_tests --claims $(CLAIMS) --shard $(or $(SHARD),1/1)

# Ten minutes of them, of those whose code has changed; which, the day draws.
test-changed: $(VENV)/installed
	$(BIN)/python -m rlx.experiments.claim_tests --changed --minutes 10

# Hundreds of runs that are killed, stopped and damaged; hours, and it goes on where it was stopped.
test-faults: $(VENV)/installed
	$(BIN)/python -m rlx.testing.faults --out=docs/reliability.md

# Weights, logits, generation and adapters against transformers and torch.
test-parity: $(VENV)/installed-parity
	$(BIN)/pytest -m parity tests/parity

# Programs and kernels compiled for TPUs and GPUs that are not here, by their own compilers (4 GB of packages).
$(VENV)/installed-accelerators: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[tpu,gpu]'
	touch $@

test-accelerators: $(VENV)/installed-accelerators
	JAX_PLATFORMS=cpu TPU_SKIP_MDS_QUERY=1 JAX_DISABLE_MOST_OPTIMIZATIONS=0 \
	  XLA_FLAGS="--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0" $(BIN)/pytest -m accelerators tests/accelerators

# On an NVIDIA GPU that is here.
$(VENV)/installed-gpu: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[gpu]'
	touch $@

test-gpu: $(VENV)/installed-gpu
	JAX_DISABLE_MOST_OPTIMIZATIONS=0 XLA_PYTHON_CLIENT_PREALLOCATE=false $(BIN)/pytest -m gpu tests/accelerators

# The documents as pages, in site/.
$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --quiet

# The notebooks from their sources, executed: all, or `make colabs COLABS='tour offline'`. (The warning is of tqdm,
# where ipywidgets are missing.)
colabs: $(VENV)/installed
	$(BIN)/jupytext --quiet --update --to ipynb $(COLABS:%=colabs/%.py)
	PYTHONWARNINGS=ignore:IProgress $(BIN)/jupyter-execute --inplace $(COLABS:%=colabs/%.ipynb)

lint: $(VENV)/installed
	$(BIN)/ruff check .
