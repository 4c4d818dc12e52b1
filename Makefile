# The two commands: `make demo` and `make test`. Both begin with `make setup`.
SHELL := /bin/bash
PYTHON ?= python3
export UV_PYTHON_DOWNLOADS := never
# pip trusts the system's certificate authorities, a proxy's own among them; uv does when it is told to.
export UV_SYSTEM_CERTS := $(if $(wildcard /etc/ssl/certs/*.crt /etc/pki/tls/certs/*.crt /etc/ssl/cert.pem),true,false)
# uv installs packages as source: where their bytecode may not be kept, each of a test run's hundreds of
# processes compiles all that it imports anew, which takes as long as the tests.
unexport PYTHONDONTWRITEBYTECODE
UV := .tools/bin/uv
RUN := .venv/bin/python
INSTALL := $(UV) pip install --quiet --python .venv --require-hashes --build-constraints requirements-build.txt

.PHONY: setup setup-dev demo test test-all test-costs test-quick faults soak explore mutants query-counts lint types locks bench benchmark compose-proof crate-proof docs screenshots references

setup: .venv/.ready

demo: setup
	@exec $(RUN) -m standalone.demo

# Runs pytest with the first argument, and meanwhile what the second names.
define run_tests
	@$(MAKE) --no-print-directory $(2) & beside=$$!; \
	$(RUN) -m pytest $(1); tests=$$?; \
	wait "$$beside" || { echo "$(2): see above"; exit 1; }; \
	exit "$$tests"
endef

# Before each push. Four processes, on two cores too: three of them mostly wait for the labs of their
# tests.
test: setup-dev lint
	$(call run_tests,-n 4 -m "not thorough",types)

# Every test, and three times as many inputs for each property: before a release, and after a change
# of what only these tests try (tests/thorough.py).
test-all: export HYPOTHESIS_PROFILE := all
test-all: setup-dev .venv/.ready-docs lint
	$(call run_tests,-n 4,types)

# How much processor time each test takes: tests/costs.txt, which says what `make test` leaves to test-all.
test-costs: setup-dev .venv/.ready-docs
	@$(RUN) -m pytest -n 2 -p tests.measure_costs

# Before each commit: what needs no cluster, no browser and little time (tests/costs.txt), and of tests
# with many cases some of them. `make types` is a command of its own: in a fresh clone it takes half as
# long as these tests.
test-quick: setup-dev
	$(call run_tests,-n 2 -m "not lab and not browser and not slow and not thorough",lint)

# Faults on purpose, with what is promised checked after each: docs/reliability.md. One after the other;
# ONLY="point or valkey" takes those of these names.
faults: setup-dev
	@$(RUN) -m pytest -n 0 -p no:randomly -m "faults or not soak" $(if $(ONLY),-k "$(ONLY)") tests/faults

# Many one-second jobs on the lab and a random fault every 10 s; prints a table. JOBS=200 SEED=7 choose.
soak: setup-dev
	@JOBS=$(or $(JOBS),2000) SEED=$(SEED) $(RUN) -m pytest -q -n 0 -m soak tests/faults

# Properties that hold for every input, tried with new inputs, ten times as many as `make test` tries;
# and sweeps over whole products, of which `make test` tries each part once.
explore: setup-dev
	@HYPOTHESIS_PROFILE=explore $(RUN) -m pytest -n 2 -m "not lab and not browser" $$(git grep -l "^from hypothesis\|^import hypothesis\|import EXPLORES" -- tests)

# Changes the code in one place at a time and prints what no test notices: docs/mutants.md.
# All takes nights; SAMPLE=100 tries so many of each package, PACKAGES="planning scripts" only those,
# CHILDREN=2 two at the same time.
mutants: setup-dev
	@$(RUN) -m tests.mutants $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) \
		$(if $(CHILDREN),--children $(CHILDREN)) $(PACKAGES)

# How often each page asks PostgreSQL, written anew: look at the difference before you commit it.
query-counts: setup-dev
	@QUERY_COUNTS=write $(RUN) -m pytest -q -n 0 -p no:randomly tests/dashboard/test_query_counts.py

# The documents as a site of its own, in var/docs: Sphinx, of which nothing else needs the packages. A
# warning, as of a link that leads nowhere, is an error.
docs: .venv/.ready-docs
	@.venv/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -c docs/site -d var/docs-cache docs var/docs
	@echo "docs: var/docs/index.html"

# Pictures of pages, docs/pictures/, of made-up data: look at the difference before you commit it.
screenshots: setup-dev
	@SCREENSHOTS=write $(RUN) -m pytest -q -n 0 -p no:randomly -m "" tests/dashboard/docs/test_screenshots_browser.py

# The documents that are made from the code: the reference of the API and that of its client.
references: setup-dev
	@$(RUN) -m tests.references

setup-dev: .venv/.ready-dev
	@tests/system-packages

lint: setup-dev
	@.venv/bin/ruff check --quiet . && .venv/bin/ruff format --quiet --check .
	@git ls-files -z 'templates/*.html' | xargs -0 -r .venv/bin/djade --target-version 5.2 --check
	@git ls-files -z '*.sh' .ci/run tests/system-packages lab/apt-get | xargs -0 -r .venv/bin/shellcheck
	@echo "lint: clean"

types: setup-dev
	@SECRET_KEY=types DATABASE_URL=postgresql:///types .venv/bin/mypy

# New versions: edit pyproject.toml or lab/image/*.in, run this, look at the difference.
locks: .tools/bin/uv
	$(UV) pip compile pyproject.toml --extra embedded --universal --generate-hashes --no-header --upgrade --quiet -o requirements.lock
	$(UV) pip compile pyproject.toml --extra embedded --extra dev -c requirements.lock --universal --generate-hashes --no-header --upgrade --quiet -o requirements-dev.lock
	$(UV) pip compile pyproject.toml --extra docs -c requirements-dev.lock --universal --generate-hashes --no-header --upgrade --quiet -o requirements-docs.lock
	cd lab/image && ../../$(UV) pip compile tensorflow.in --python-version 3.11 --universal --generate-hashes --no-header --upgrade --quiet -o tensorflow.lock
	cd lab/image && ../../$(UV) pip compile numpy.in -c tensorflow.lock --python-version 3.11 --universal --generate-hashes --no-header --upgrade --quiet -o numpy.lock
	cd lab/image && ../../$(UV) pip compile horovod.in --python-version 3.11 --universal --generate-hashes --no-header --upgrade --quiet -o horovod.lock
	cd lab/image && ../../$(UV) pip compile torch.in -c tensorflow.lock --python-version 3.11 --universal --generate-hashes --no-header --upgrade --quiet -o torch.lock
	cd lab/image && ../../$(UV) pip compile benchmarks.in --python-version 3.11 --universal --generate-hashes --no-header --upgrade --quiet -o benchmarks.lock

# The community's validator on the crate of BUNDLE, a zip file: its thirty packages are needed nowhere else.
crate-proof: .tools/bin/uv
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m zipfile -e "$(BUNDLE)" "$$folder" && \
	  $(UV) run --no-project --with roc-validator==0.13.0 --with rocrate==0.10.0 python -m tests.crate_proof "$$folder"/*/data

bench: setup-dev
	@for program in benchmarks/recorder.py benchmarks/comparison_page.py benchmarks/catalogue.py benchmarks/remote_commands.py benchmarks/staging.py benchmarks/tree_hash.py benchmarks/preflight.py benchmarks/launch_to_verdict.py benchmarks/figures.py; do echo "== $$program"; $(RUN) "$$program" || exit 1; done

# How fast the pages are on a site of 100,000 runs, and beside those of MLflow and Aim: a quarter of an
# hour, packages from PyPI, and Chromium. Fewer runs: RUNS=1000.
benchmark: setup-dev
	@for program in pages lists first_paint peers_pages; do echo "== $$program"; $(RUN) benchmarks/$$program.py $(RUNS) || exit 1; done

# Brings docker-compose.yml up on a Docker engine of its own, from stand-ins for base images: half an
# hour, as root. FROM=COMMIT is the version that is upgraded: docs/compose.md.
compose-proof: setup-dev
	@$(RUN) -m tests.compose $(if $(FROM),--from $(FROM))

# --target needs neither a virtual environment nor leave to change the system's Python (PEP 668).
# The interpreter itself, not a version manager's shim of it: pyenv's rehashes after every pip, under
# a lock that a killed shell leaves behind.
.tools/bin/uv:
	@echo "Installing uv into .tools/"
	@PIP_ROOT_USER_ACTION=ignore "$$($(PYTHON) -c 'import sys; print(sys.executable)')" -m pip install --quiet --disable-pip-version-check --no-warn-script-location --target .tools uv

.venv/.ready: requirements.lock requirements-build.txt | .tools/bin/uv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tare needs Python 3.11 or later; set PYTHON=/path/to/python3.")'
	@echo "Installing Tare's packages into .venv/"
	@test -x .venv/bin/python || $(UV) venv --quiet --python "$$(command -v $(PYTHON))" .venv
	@$(INSTALL) -r requirements.lock
	@touch $@

.venv/.ready-dev: requirements-dev.lock .venv/.ready
	@echo "Installing the packages that the tests need into .venv/"
	@$(INSTALL) -r requirements-dev.lock
	@touch $@

.venv/.ready-docs: requirements-docs.lock .venv/.ready
	@echo "Installing Sphinx into .venv/"
	@$(INSTALL) -r requirements-docs.lock
	@touch $@
