# Every target sets up what it needs in .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.PHONY: demo test browser java lint docs bench hostile reproduce lock test-lowest clean

$(READY): pyproject.toml requirements-dev.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	$(BIN)/sfumato warm --quiet
	touch $@

demo: $(READY)
	$(BIN)/sfumato demo --out demo --overwrite

test: $(READY) browser java
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Chromium for the workbench's journeys, where it is missing and may be installed; else they are skipped, and say so.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null 2>&1 \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { apt-get -qq update; apt-get -qq install -y chromium; } >/dev/null 2>&1; } \
	|| echo "no browser: the workbench's journeys will be skipped (apt-get install chromium)"

# Java for the engine on Spark, where it is missing and may be installed; else its test is skipped, and says so.
java:
	@command -v java >/dev/null 2>&1 || [ -n "$$JAVA_HOME" ] \
	|| { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { apt-get -qq update; apt-get -qq install -y openjdk-17-jre-headless; } >/dev/null 2>&1; } \
	|| echo "no Java: nothing will be tried on Spark (apt-get install openjdk-17-jre-headless)"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict   # --quiet would hide warnings from --strict
	@echo "the site is in site/index.html"

bench: $(READY)
	@set -e; for script in $$(ls benchmarks/*.py | grep -v -e harness.py -e hostile.py); do echo "== $$script"; $(BIN)/python $$script; done

# Kills, mutations, damaged files, odd frames and values recovered through rules, with counts.
hostile: $(READY)
	$(BIN)/python benchmarks/hostile.py

reproduce: $(READY)
	$(BIN)/sfumato reproduce

lock: $(READY)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev --no-header --no-annotate --no-emit-index-url pyproject.toml --output-file requirements-dev.lock

# The lower bounds in pyproject.toml, tested for real.
test-lowest:
	test -x .venv-lowest/bin/python || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable '.[dev]'
	.venv-lowest/bin/python -m pytest -n $(WORKERS) --dist worksteal

clean:
	rm -rf .venv .venv-lowest site demo out .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
