# make run        start the web app with the sessions of this computer, or with samples if there are none
# make test       run all tests; SHUFFLE=1 runs them in random order
# make test-fast  run the quick tests, which need no browser, server or agent
#                 UNSPOOL_TEST_ALL=1 runs all cases of tests that otherwise run only a sample
# make check      check style and types, and run all tests; do this before a commit
# make docs       build the documentation in build/site, and check its links
# make faults     make the file system and the database fail at every call in turn; `make test` runs a sample
# make fuzz       look for files that cannot be read, for an hour or for SECONDS
# make bench      measure speed and memory, as ratios
# make regen      regenerate golden files, the published schemas and the outputs in the documentation
# make record     record the installed agents, and report what is new in their formats

PROCESSORS := $(shell nproc 2>/dev/null || echo 2)
# One worker per processor computes, while the others wait for browsers, servers and agents: see tests/scheduling.py.
WORKERS ?= $(shell echo $$((2 * $(PROCESSORS) + 1)))
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) $(if $(SHUFFLE),,-p no:randomly)
# Slow tests are skipped, too.
FAST = not (browser or server or agent or slow)

# Tests start hundreds of programs, and each would compile all of unspool again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-fast check faults docs fuzz bench regen record postgres browser agents sandbox java clean

run: .venv/.run
	@$(BIN)/unspool serve --or-samples

test: .venv/.dev postgres browser agents sandbox java
	$(PYTEST)

# None of these tests wait, so more workers would only take time to start.
test-fast: WORKERS = $(PROCESSORS)
test-fast: .venv/.dev
	$(PYTEST) -m "$(FAST)"

check: .venv/.dev postgres browser agents sandbox java
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST)

faults: .venv/.dev
	UNSPOOL_TEST_FAULTS=0 $(PYTEST) tests/ingest/test_file_faults.py tests/store/test_faults.py \
		tests/store/test_database_faults.py tests/store/test_postgres_faults.py \
		tests/store/backends/test_postgres_migrations.py

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

# Each new failure is printed with a home under build/fuzz that reproduces it.
fuzz: SECONDS ?= 3600
fuzz: .venv/.dev
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

bench: .venv/.dev
	$(BIN)/python -m bench

regen: .venv/.dev
	$(BIN)/python -m tests.regen

record: .venv/.dev
	$(BIN)/python -m tools.record

postgres:
	@sh tests/get-postgres.sh

browser:
	@sh tests/get-browser.sh

agents:
	@sh tests/get-gemini.sh

sandbox:
	@sh tests/get-sandbox.sh

java:
	@sh tests/get-java.sh

.venv/.run: requirements/run.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing unspool and its dependencies into .venv (only the first time):"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-deps -r requirements/run.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/dev.txt
	@touch $@

.venv/.docs: requirements/docs.txt .venv/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

clean:
	rm -rf .venv build dist
