# Recovery Desk: every command of the workshop. `make` alone, or `make help`, lists them.

VENV := .venv
PY := $(VENV)/bin/python
DJANGO := $(PY) manage.py
PIP := PIP_USER=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Debian packages behind the suites for real Slurm, accounting, Redis, PostgreSQL, a real browser and a newer Debian.
SYSTEM_PACKAGES := slurm-wlm munge slurmdbd slurm-wlm-mysql-plugin mariadb-server slurmrestd slurm-wlm-jwt-plugin \
	redis-server chromium postgresql mmdebstrap openssl

# `make check` judges the settings as a production site would set them.
PRODUCTION := RECOVERY_DEBUG=false RECOVERY_DATA_DIR=var/check RECOVERY_ALLOWED_HOSTS=desk.example.org \
	RECOVERY_SECRET_KEY=0123456789-only-for-this-check-abcdefghijklmnopqrstuvwxyz

.DEFAULT_GOAL := help
.PHONY: help venv dev-venv demo demo-slurm test coverage test-newslurm torture check bench lock stop clean system-packages

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: venv ## Try it: simulated cluster, web, worker and broker on this machine; Ctrl-C stops all
	@$(DJANGO) demo

demo-slurm: venv ## The same on a real Slurm (Debian packages slurm-wlm and munge)
	@$(DJANGO) demo --slurm

test: dev-venv system-packages ## Run every test; as root on Debian installs the system packages that they need
	@$(PY) -m tests

coverage: dev-venv system-packages ## Run every test and tell which lines they reached; takes twice as long
	@$(PY) -m tests --coverage

test-newslurm: dev-venv system-packages ## The back ends on Slurm 26.05 with pyslurm (RELEASE=24.11: on that), in a chroot (root, Debian)
	@$(PY) -m tests.newslurm $(if $(RELEASE),--release $(RELEASE))

torture: dev-venv system-packages ## Bad weather, then a kill at every write, commit and call of every action (hours)
	@$(PY) -m tests.postgres -m pytest -m torture tests/e2e
	@$(PY) -m tests.postgres -m pytest -m "one_database and not machine" --timeout=600 tests/pipeline tests/api tests/dashboard
	@folder=$$(mktemp -d) && chmod 755 $$folder && $(PY) -m recovery.demo.lab up $$folder/lab --accounting && \
	  $(PY) -m tests.torture --lab $$folder/lab --processes 4; status=$$?; \
	  $(PY) -m recovery.demo.lab wipe $$folder/lab; rm -rf $$folder; exit $$status
	@$(PY) -m tests.torture

check: dev-venv ## Lint, types, import contracts, migrations, OpenAPI, production settings
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(DJANGO) makemigrations --check --dry-run
	$(DJANGO) spectacular --validate --fail-on-warn --file var/openapi.yaml
	$(PRODUCTION) $(DJANGO) check --deploy --fail-level WARNING

bench: dev-venv ## Measure; prints JSON
	@$(PY) -m benchmarks

# pip alone says far too much or nothing at all: at a terminal, dots tell that it is at work.
install = if [ -t 1 ]; then (while :; do printf .; sleep 1; done) & dots=$$!; fi; \
	$(PIP) $(PY) -m pip install -qq --require-hashes -r $(1); status=$$?; \
	[ -z "$$dots" ] || { kill $$dots; echo; }; exit $$status

venv: $(VENV)/.installed ## Make .venv from requirements.lock, by hash

dev-venv: $(VENV)/.installed-dev ## Make .venv from requirements-dev.lock: also tests, lint and types

$(VENV)/.installed: requirements.lock | $(PY)
	@echo "Installing the locked packages into $(VENV): about a minute, once."
	@$(call install,requirements.lock)
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock | $(PY)
	@echo "Installing the locked packages for development into $(VENV): about two minutes, once."
	@$(call install,requirements-dev.lock)
	@touch $@ $(VENV)/.installed

# PYTHON=/path/to/python3 chooses another interpreter. Some systems ship Python without the module that puts pip into
# an environment: another pip on the machine does as well.
$(PY):
	@for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Recovery Desk needs Python 3.11 or newer and finds none. Install one, or name it: make demo PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)."; \
	if "$$found" -c 'import ensurepip, venv' 2>/dev/null; then "$$found" -m venv --clear $(VENV); \
	elif "$$found" -c 'import venv, pip' 2>/dev/null; then \
	  "$$found" -m venv --clear --without-pip $(VENV) && $(PIP) "$$found" -m pip --python $(PY) install --quiet pip; \
	else \
	  echo "$$found has no venv module. On Debian and Ubuntu: apt-get install python3-venv. Else name another one: make demo PYTHON=/path/to/python3" >&2; exit 1; \
	fi

# Tests start their own servers; that a package's service may start at its installation does no harm.
system-packages:
	@command -v dpkg-query >/dev/null || exit 0; \
	for package in $(SYSTEM_PACKAGES); do \
	  dpkg-query -W -f '$${Status}' $$package 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$package"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" != 0 ]; then \
	  echo "Not root, so not installed, and the tests that need them are left out:$$missing"; exit 0; \
	fi; \
	echo "Installing$$missing."; \
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1; \
	apt-get update -qq && apt-get install -qq --no-install-recommends $$missing </dev/null

lock: ## Write both lock files from pyproject.toml; UPGRADE=--upgrade takes the newest versions of everything
	@mkdir -p var && $(PY) -m venv var/lock && $(PIP) var/lock/bin/python -m pip install --quiet uv
	var/lock/bin/uv pip compile $(LOCK) -o requirements.lock pyproject.toml
	var/lock/bin/uv pip compile $(LOCK) -o requirements-dev.lock --group dev pyproject.toml

LOCK := $(UPGRADE) --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url

stop: ## Stop what a demo left running because it was killed
	@[ ! -x $(PY) ] || [ ! -d var ] || $(PY) -m recovery.demo.stop var

clean: stop ## Remove what the tools and the demo left behind; .venv stays
	rm -rf var .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache htmlcov
	rm -f .coverage .coverage.*
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
