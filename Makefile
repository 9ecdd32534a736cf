# Everything a contributor runs. Needs Python 3.11 or newer, make and git; works in .venv, offline once installed.
#
#   make test ARGS="-k fusion -x"  hands ARGS to pytest (-n 0: in one process; -m slow: the slow tests only)
#   make test-all MODELS=1         with a real embedding model, too
#   make PYTHON=python3.12 test    makes .venv with that Python
#
# AIRW_DATA names a folder of data sets for the tests that use them; AIRW_REQUIRE_ALL=1 turns skips into failures.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# A stamp is younger than pyproject.toml as long as what it stands for is installed.
READY := $(VENV)/.ready

# The tests start many processes: without compiled modules each one would compile the library again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format docs bench bench-editions quality dist clean
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: export AIRW_HOME := .demo
demo: $(READY)-airw ## build a corpus of 233 linked documents and walk it
	$(BIN)/airw build examples/data/eips --name eips --embedder light
	$(BIN)/airw traverse eips "how do wallets sign typed structured data" --policy eager --start 1 --set select_k=none --node-budget 30

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test test-all: export HF_HUB_OFFLINE := 1
test-all: $(READY)-docs
test test-all: $(READY)-dev $(if $(filter-out 0,$(MODELS)),$(READY)-models)

test: ## run the quick tests, linters and docs included, on all cores
	$(PYTEST) -m "not slow" $(ARGS)

test-all: ## run every test, with all the examples that Hypothesis draws
	$(PYTEST) --hypothesis-profile full $(ARGS)

lint: $(READY)-dev ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports

docs: $(READY)-docs ## write the site of the documentation to build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

format: $(READY)-dev ## rewrite the code in the one style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(READY)-bench ## run the benchmarks, print their tables and write benchmarks.json
	AIRW_BENCH_RESULTS=benchmarks.json $(BIN)/python -m pytest tests/benchmarks -o python_files='bench_*.py' --timeout=0 -q -s $(ARGS)

bench-editions: $(READY)-bench ## run this edition beside the first one, and print the ratios
	$(BIN)/python -m tests.benchmarks.editions $(ARGS)

QUALITY := $(BIN)/python -m tests.benchmarks.quality

quality: $(READY)-bench $(READY)-models ## measure what searches and walks find, and fill docs/quality.md
	$(QUALITY) all --vectors vectors.db
	$(QUALITY) page

dist: $(READY)-dev ## build the packages of a release in dist, and check what an index asks of them
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

clean: ## remove what the other targets made, but for .venv
	rm -rf .demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find airw tests examples -name __pycache__ -type d -exec rm -rf {} +

$(READY)-pip:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else \
	"airw needs Python 3.11 or newer and this is %d.%d; name another one: make PYTHON=python3.12" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet "pip>=25.1" # the first that knows dependency groups
	@touch $@

$(READY)-airw: pyproject.toml | $(READY)-pip
	@echo "Installing airw ..."
	@$(PIP) install --quiet --editable .
	@touch $@

$(READY)-dev: pyproject.toml | $(READY)-airw
	@echo "Installing the tools for tests and linting ..."
	@$(PIP) install --quiet --group test --group lint
	@touch $@

$(READY)-docs: pyproject.toml | $(READY)-dev
	@$(PIP) install --quiet --group docs
	@touch $@

$(READY)-bench: pyproject.toml | $(READY)-dev
	@$(PIP) install --quiet --group bench
	@touch $@

# PyPI's torch for Linux needs several gigabytes of GPU libraries, which no test uses. Where pip finds a CPU build
# (find-links, an extra index) that one is taken; where it does not, we stop here and say so.
$(READY)-models: pyproject.toml | $(READY)-dev
	$(PIP) install --group models
	@! $(PIP) freeze | grep '^nvidia-' || { echo 'torch came with GPU libraries. For the CPU build:' \
	'$(PIP) install --force-reinstall torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu,' \
	'and uninstall the packages above.' >&2; exit 1; }
	@touch $@
