# Everything here works from a fresh clone on a machine with make and Python >= 3.11.

.DEFAULT_GOAL := help
SHELL := /bin/sh
MAKEFLAGS += --no-print-directory

# Tests start many processes, and without bytecode each compiles all modules anew.
unexport PYTHONDONTWRITEBYTECODE

# The first of these that is new enough; `make PYTHON=/path/to/python ...` overrides it.
CANDIDATES := python3 python3.13 python3.12 python3.11 python
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in $(CANDIDATES); do \
	"$$p" -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.installed
TESTED := $(VENV)/.installed-test
DOCUMENTED := $(VENV)/.installed-docs

# Many tests wait, so three processes keep two cores busy; `make test WORKERS=0` runs them in one process.
WORKERS ?= 3
# More for the program that runs: `make test ARGS="-k servers"`, `make bench ARGS=--json`,
# `make chaos ARGS="--database sqlite --seed 7"`.
ARGS ?=

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | \
		while IFS="$$(printf '\t')" read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: $(RUNTIME) ## Play a long real conversation through the embedded stack, with a verdict
	@$(BIN)/afterturn demo

.PHONY: up
up: $(RUNTIME) ## Run workers, reconciler and schedule in one process (Ctrl-C stops it)
	@$(BIN)/afterturn up

.PHONY: lint
lint: $(TESTED) ## Check style, format, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

.PHONY: test
test: lint ## Lint, then run what every change must pass, on real servers (about 10 minutes)
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

# What `make test` leaves out for the sake of time; see tests/tiers.py. Takes hours.
.PHONY: soak
soak: lint ## For maintainers, before a release: everything on both databases, long chaos, all bars
	@$(BIN)/pytest --soak -n $(WORKERS) --dist loadgroup $(ARGS)
	@$(BIN)/python -m tests.chaos --database postgresql
	@$(BIN)/python -m tests.chaos --database sqlite
	@$(BIN)/python -m tests.benchmarks --archive with

.PHONY: mutants
mutants: $(TESTED) ## For maintainers: break the product in twenty ways, and see which tests notice
	@$(BIN)/python -m tests.mutations $(ARGS)

.PHONY: docs
docs: reference ## Build the documentation into folder site; a warning fails
	@$(BIN)/zensical build --strict --clean
	@echo "Built site/index.html."

.PHONY: reference
reference: $(DOCUMENTED) ## Write docs/reference anew from the code
	@$(BIN)/python -m docs.gen

.PHONY: chaos
chaos: $(TESTED) ## Kill, hang and restart everything at random for long, and print the tally
	@$(BIN)/python -m tests.chaos $(ARGS)

.PHONY: bench
bench: $(TESTED) ## Measure the figures of tests/benchmarks; status 1 when a bar is missed
	@$(BIN)/python -m tests.benchmarks $(ARGS)

.PHONY: bench-archive
bench-archive: $(TESTED) ## Measure searching an archive of a million messages
	@$(BIN)/python -m tests.benchmarks --archive only $(ARGS)

# Each is made once and then left alone. The folder is closed; the files in it can be read by the
# accounts of the services, which are nobody on this host.
SECRETS ?= secrets

.PHONY: secrets
secrets: ## Make up the passwords that compose.yaml wants, in folder secrets
	@mkdir -p $(SECRETS) && chmod 700 $(SECRETS)
	@word() { "$(PYTHON)" -c 'import secrets; print(secrets.token_hex(24))'; }; \
	keep() { [ -e $(SECRETS)/$$1 ] || { printf '%s\n' "$$2" > $(SECRETS)/$$1; \
		chmod 444 $(SECRETS)/$$1; echo "Made $(SECRETS)/$$1."; }; }; \
	keep postgres_password "$$(word)"; keep redis_password "$$(word)"; \
	keep web_people "afterturn:$$(word)"; keep openai_api_key ""; keep openrouter_api_key ""

.PHONY: clean
clean: ## Remove the environment, caches and builds
	rm -rf $(VENV) build dist site .cache *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: lock
lock: $(BIN)/python ## For maintainers: renew the lock files (UPGRADE=1 takes newer versions)
	@set -e; tool=$$(mktemp -d); trap 'rm -rf "$$tool"' EXIT; \
	$(BIN)/python -m venv "$$tool"; \
	"$$tool/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9; \
	lock() { "$$tool/bin/uv" pip compile pyproject.toml --quiet --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --group build \
		$(if $(UPGRADE),--upgrade) "$$@"; }; \
	lock -o requirements.lock; \
	lock --extra test -c requirements.lock -o requirements-test.lock; \
	lock --extra docs -c requirements-test.lock -o requirements-docs.lock
	@echo "Renewed requirements.lock, requirements-test.lock and requirements-docs.lock."

# What is installed is exactly what the lock files name, and a change of either installs anew.
# The build tools are locked too, so building the project fetches nothing.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_SELF = $(PIP_INSTALL) --no-deps --no-build-isolation --editable .

$(BIN)/python:
	$(if $(PYTHON),,$(error Python 3.11 or newer is needed and none of "$(CANDIDATES)" is one. \
		Install one, or name it: make PYTHON=/path/to/python))
	@"$(PYTHON)" -c '$(NEW_ENOUGH)' || \
		{ echo "$(PYTHON) is not Python 3.11 or newer; name one that is: make PYTHON=..." >&2; exit 1; }
	@echo "Setting up $(VENV) with $$("$(PYTHON)" --version) ..."
	@"$(PYTHON)" -m venv --clear $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot make virtual environments: install its venv module" \
		"(on Debian: apt install python3-venv)." >&2; exit 1; }

$(RUNTIME): $(BIN)/python requirements.lock pyproject.toml
	@echo "Installing what requirements.lock names ..."
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL_SELF)
	@touch $@

$(TESTED): $(BIN)/python requirements-test.lock pyproject.toml
	@echo "Installing what requirements-test.lock names ..."
	@$(PIP_INSTALL) --require-hashes -r requirements-test.lock
	@$(INSTALL_SELF)
	@touch $(RUNTIME) $@

$(DOCUMENTED): $(RUNTIME) requirements-docs.lock
	@echo "Installing what requirements-docs.lock names ..."
	@$(PIP_INSTALL) --require-hashes -r requirements-docs.lock
	@touch $@
