# `make recommend` and `make test` are all that a newcomer needs: python3 and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
TEST := $(VENV)/.installed-test
# Each worker begins with a block of neighbours, which share fixtures, and takes from others at the end.
PARALLEL = -n auto --dist worksteal

.PHONY: recommend test test-nightly quick fuzz check lint types structure format constraints release site goldens goldens-accept bench bench-full rehearse clean

recommend: $(RUN)  ## set up and run the main job on shipped data
	$(BIN)/placer recommend --model roberta-xlm --budget 5/h

test: $(TEST)  ## set up and pass all tests but those of test-nightly
	$(BIN)/python -m pytest $(PARALLEL) -m 'not nightly'

test-nightly: $(TEST)  ## what the nearest test of each run shows on a smaller scale, once a day
	$(BIN)/python -m pytest $(PARALLEL) -m nightly

quick: $(TEST)  ## the tests without those marked slow, under 3 minutes
	$(BIN)/python -m pytest $(PARALLEL) -m 'not slow and not nightly'

goldens: $(TEST)  ## compare outputs with the frozen ones: all, or those whose names begin with NAMES
	PYTHONPATH=tests $(BIN)/python -m goldens $(NAMES)

goldens-accept: $(TEST)  ## freeze outputs as they are now, all or NAMES
	PYTHONPATH=tests $(BIN)/python -m goldens --accept $(NAMES)

fuzz: $(TEST)  ## the tests whose examples are drawn, with examples that nobody tried before
	$(BIN)/python -m pytest $(PARALLEL) -m hypothesis --hypothesis-profile drawn

check: lint types test  ## linters, types, tests: what CI runs

lint: $(TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST)
	$(BIN)/mypy

structure: $(TEST)  ## floors, rooms a level, upward imports, circles, lines
	$(BIN)/python tests/structure.py

format: $(TEST)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

site: $(TEST)  ## build the documentation site, warnings as errors: build/site/index.html
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees . build/site

# One set of versions for all extras, so that extras can be installed together; each file is its part.
DATE ?= $(shell date -u +%F)
EXTRAS = $(shell $(BIN)/python -c "import tomllib; \
  print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies'])")
PIN = $(BIN)/uv pip compile --quiet --python-version 3.11 --no-annotate \
	--exclude-newer $(DATE) --custom-compile-command 'make constraints DATE=$(DATE)' pyproject.toml
LOCK = $(PIN) --universal
# What a release is installed with: hashes of every extra that runs without PyTorch, and of PyTorch for
# CPUs on Linux. TORCH says where that build lies.
HASHED = constraints/hashed
RELEASED = aws calibrate cpsat dask milp online openapi otel report serve
TORCH ?= --torch-backend cpu

constraints: $(VENV)/bin/python  ## pin the newest releases of DATE (today) for each extra: constraints/*.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	rm -f constraints/*.txt
	$(LOCK) --all-extras -c constraints/held.in -o constraints/all.txt
	$(LOCK) -c constraints/all.txt -o constraints/placer.txt
	set -e; for extra in $(EXTRAS); do \
	  $(LOCK) --extra $$extra -c constraints/all.txt -o constraints/$$extra.txt; done
	$(LOCK) --generate-hashes $(RELEASED:%=--extra %) -c constraints/all.txt -o $(HASHED)/placer.txt
	$(PIN) --python-platform x86_64-manylinux_2_28 --generate-hashes --extra profile $(TORCH) \
	  -c constraints/all.txt -o $(HASHED)/torch-cpu.txt
	$(BIN)/python .ci/licences.py > $(HASHED)/licences.md

BENCH = $(BIN)/python tests/benchmarks

# Two builds of one commit are equal, byte by byte: files have the time of the commit.
release: $(TEST)  ## build and check sdist and wheel: dist/
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

bench: $(TEST)  ## quick benchmarks, about 10 minutes: docs/benchmarks/results.md
	$(BENCH)/solving.py --quick --by-strategy --check
	$(BENCH)/solving.py --quick --by-strategy --local-steps 64 --check
	$(BENCH)/solving.py --quick --by-strategy --huge --check
	$(BENCH)/solving.py --sizes book --time-limit 3 --by-strategy --check
	$(BENCH)/main_job.py --write
	$(BENCH)/report.py

rehearse: $(TEST)  ## check shaped links, rehearse six plans through them, about 4 minutes: root (or user namespaces) and a quiet machine
	$(BENCH)/shaped_links.py
	$(BENCH)/rehearsing.py

bench-full: $(TEST)  ## all benchmarks, some hours on a quiet machine
	$(BENCH)/solving.py --by-strategy --check
	$(BENCH)/solving.py --by-strategy --local-steps 64 --check
	$(BENCH)/solving.py --by-strategy --huge --check
	$(BENCH)/solving.py --sizes book --time-limit 12 --by-strategy --check
	$(BENCH)/solving.py --sizes book --time-limit 12 --by-strategy --local-steps 64 --check
	$(BENCH)/main_job.py --write
	$(BENCH)/report.py

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "placer needs Python 3.11 or newer; try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo 'no venv module: apt-get install python3-venv, then again' >&2; exit 2; }

$(RUN): $(VENV)/bin/python pyproject.toml constraints/placer.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints/placer.txt -e .
	touch $@

# To compile all 20,000 files of the packages takes a minute; Python compiles those that it loads.
$(TEST): $(VENV)/bin/python pyproject.toml constraints/test.txt
	$(BIN)/python .ci/install.py
	touch $@ $(RUN)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
