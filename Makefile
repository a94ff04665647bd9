# Every target installs its dependencies in .venv, so each works on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-all test-oldest test-extras campaign check bench docs reproduce readings clean

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# Two processes of one thread each: more threads would compete for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: $(VENV)/.test
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.test
	$(PYTEST)

# The oldest versions that pyproject.toml allows, in an environment of their own.
OLDEST := .venv-oldest
test-oldest: $(OLDEST)/.test
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow"

# The wheel in new environments: the core, then each extra alone.
test-extras: $(VENV)/.demo
	$(INSTALL) build
	$(BIN)/python -m tests.each_extra

# Random calls and commands for ten minutes; SEED=8 tries others.
SEED ?= 7
campaign: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.campaign --seconds 600 --seed $(SEED)

check: $(VENV)/.check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.run

# The tables and the page of docs/reproduction.md; existing rows are not computed again.
reproduce: $(VENV)/.demo
	$(BIN)/parafair reproduce all --n-jobs -1 --format png \
	    --out docs/data/reproduction --page docs/reproduction.md --force

# The tables and the page of docs/readings.md, on a GPU.
readings: $(VENV)/.demo
	$(BIN)/parafair reproduce readings --device cuda --n-jobs -1 \
	    --out docs/data/readings --page docs/readings.md --force

# The site, with the scripts of the gallery run; those that have not changed are not run again.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going docs site
	$(BIN)/python docs/links.py site

clean:
	rm -rf $(VENV) $(OLDEST) site demo docs/api docs/gallery

# The package with all extras; dependency groups need a recent pip.
$(VENV)/.demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(INSTALL) --editable ".[all]"
	touch $@

$(VENV)/.test $(VENV)/.check $(VENV)/.docs $(VENV)/.bench: $(VENV)/.%: $(VENV)/.demo
	$(INSTALL) --group $*
	touch $@

$(OLDEST)/.test: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check "pip>=25.1"
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check \
	    --constraint constraints-oldest.txt --editable ".[all]" --group test
	touch $@
