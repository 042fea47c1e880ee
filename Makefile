# `make` alone lists what there is. Needs only Python 3.11 or later and make; everything is installed in .venv.

PYTHON ?= python3
SPEC   ?= specs/paper/figure2.yaml
VENV   := .venv
BIN    := $(VENV)/bin
# touched when everything is installed; older than what it depends on: installed again
READY  := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint lock clean

help:
	@echo 'make demo    set up, run the headline experiment and write its report (SPEC=... for another)'
	@echo 'make test    set up, then lint and the whole test suite (TESTS=... for a part)'
	@echo 'make lint    set up, then ruff and mypy'
	@echo 'make lock    renew requirements.lock from what pyproject.toml allows'
	@echo 'make clean   remove .venv and every cache; runs in outputs/ stay'
	@echo
	@echo 'Set-up is an environment in .venv, made with $(PYTHON) (PYTHON=... for another, 3.11 or later).'

demo: $(READY)
	@echo '==> Running $(SPEC)'
	@output=$$($(BIN)/attndyn run $(SPEC)) && run=$$(echo "$$output" | tail -n 1) && \
	echo '==> Writing the report' && \
	report=$$($(BIN)/attndyn report "$$run" | tail -n 1) && test -f "$$report" && \
	echo && echo "The run is in    $$run" && echo "Its report is    $$report  (open it in a browser)"

# one thread a worker: more would only compete for the cores that the workers share
test: lint
	@echo '==> Testing'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto -m 'not slow and not gpu' $(TESTS)

lint: $(READY)
	@echo '==> Linting'
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(READY): pyproject.toml requirements.lock | $(BIN)/pip
	@echo '==> Installing into $(VENV) (a few minutes the first time)'
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo 'attndyn needs Python 3.11 or later, and $(PYTHON) is not; try make PYTHON=/path/to/python3.12'; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	{ echo '$(PYTHON) cannot make environments; install the package python3-venv of your system'; exit 1; }
	@echo '==> Making $(VENV)'
	$(PYTHON) -m venv $(VENV)

lock:
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet '.[dev]'
	@{ echo '# Exact versions of everything that attndyn[dev] needs; renew with: make lock'; \
	build/lock/bin/python -m pip freeze --exclude attndyn | \
	sed -E "s/^(cupy-cuda12x|cuda-pathfinder)==.*/&; platform_system != 'Darwin'/; s/^(torch==[^+]*)\+.*/\1/"; } > build/lock.txt
	mv build/lock.txt requirements.lock
	rm -rf build/lock

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache
	find engine plugins tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
