# The task runner. `make help` lists what there is.
.DEFAULT_GOAL := help
SHELL := bash
PY := .venv/bin/python
SEEDS ?= 2000
ROUNDS ?= 50
PROCESSES ?= 2
CLIENT_LOCKS := asyncpg browser dbt django dlt pgcli psycopg psycopg2 sqlalchemy sqlalchemy14 sqlmesh superset dataframes odbc
LOCK := .venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header

.PHONY: help setup setup-dev serve test check unit demo tpcds job cluster clouds bench simulate slt isolation regress crash audit rolling random-sessions histories large memory random-changes clients clients-basic generate walks lock clean

help: ## List the tasks
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Set up what the server needs (.venv, and a Java runtime where none is found)
	@scripts/setup.sh run

setup-dev: ## Set up what the tests need as well
	@scripts/setup.sh dev

serve: setup ## Set up what is missing and start the server (TIDEGATE_* variables are passed through)
	@exec .venv/bin/tidegate serve $(ARGS)

test: setup-dev check ## Set up what is missing and pass all the tests, in PROCESSES processes side by side
	$(PY) -m pytest -n $(PROCESSES) --dist loadfile $(ARGS)

check: setup-dev ## Lint, format check and strict types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

unit: setup-dev ## Only the fast tests, without Spark
	$(PY) -m pytest tests/planner tests/storage tests/frontend tests/architecture $(ARGS)

slt: setup-dev ## Run our sqllogictest suites on PostgreSQL and on both engines, with those that take long on Spark
	LONG_TESTS=1 $(PY) -m pytest tests/sqllogictest/test_suites.py $(ARGS)

isolation: setup-dev ## Run PostgreSQL's isolation specs and Hermitage's anomalies on PostgreSQL 15 and us; writes their pages
	@scripts/postgres-tests.sh
	$(PY) -m tests.isolation $(ARGS)
	$(PY) -m tests.isolation.hermitage

regress: setup-dev ## Run PostgreSQL's regression SQL against PostgreSQL 15 and us; writes docs/regression.md
	@scripts/postgres-tests.sh
	$(PY) -m tests.regression $(ARGS)

crash: setup-dev ## kill -9 of servers under load, ROUNDS rounds on SQLite and on PostgreSQL, a second server alive in half
	$(PY) -m tests.faults.rounds --store sqlite --rounds $(ROUNDS) $(ARGS)
	$(PY) -m tests.faults.rounds --store postgres --rounds $(ROUNDS) $(ARGS)

random-sessions: setup-dev ## Random sessions on one server, two, two workers, ROUNDS kills each; writes into docs/isolation.md
	$(PY) -m tests.faults.random_sessions --rounds $(ROUNDS) $(ARGS)

audit: setup-dev ## Keys, locks and hot rows from 32 clients under kill -9, mutated servers too; writes docs/audit.md
	$(PY) -m tests.faults.audit --rounds $(ROUNDS) $(ARGS)

histories: setup-dev ## Histories with views, subscriptions and the past at each level; random sessions in all forms; mistakes; kills
	LONG_TESTS=1 $(PY) -m pytest tests/faults/test_history_in_views.py tests/faults/test_random_sessions.py tests/faults/test_audit.py tests/faults/test_kill.py $(ARGS)

rolling: setup-dev ## Restart servers one after the other under load, ROUNDS times; writes it into docs/several-servers.md
	$(PY) -m tests.faults.rolling --rounds $(ROUNDS) $(ARGS)

large: setup-dev ## Large statements on PostgreSQL and on us, what they take and who waits; writes docs/large-statements.md
	$(PY) -m bench.large $(ARGS)

memory: setup-dev ## What statements take of memory as their rows grow; writes docs/memory.md
	$(PY) -m bench.memory $(ARGS)

random-changes: setup-dev ## 50,000 random changes of tables with constraints on PostgreSQL and on us
	$(PY) -m tests.differential.random_constraints $(ARGS)

generate: setup-dev ## 50,000 random queries on PostgreSQL and on us, 50,000 pairs that must agree; writes docs/generated-statements.md
	$(PY) -m tests.generated $(ARGS)

clients: setup-dev ## The own test suites of clients against PostgreSQL 15 and us; writes docs/clients.md
	$(PY) -m tests.client_suites $(ARGS)

clients-basic: setup-dev ## dbt and other tools, installed and run against PostgreSQL 15 and us; writes docs/clients-basic.md
	$(PY) -m tests.clients_basic $(ARGS)

demo: setup-dev ## TPC-H at scale factor 0.1: load by COPY, run and check the 22 queries on both engines
	$(PY) -m bench.demo $(ARGS)

tpcds: setup-dev ## TPC-DS at scale factor 0.01: load by COPY, check the 99 queries on both engines; writes docs/tpcds.md
	$(PY) -m bench.tpcds $(ARGS)

job: setup-dev ## The Join Order Benchmark's shape: check a query of each family on both engines; writes docs/join-order.md
	$(PY) -m bench.job $(ARGS)

cluster: setup-dev ## TPC-H on a Spark cluster with an object store, and what dies in the middle
	$(PY) -m bench.cluster $(ARGS)

clouds: setup-dev ## The blob store's contract, and a Spark cluster, on emulators of Azure's and Google's object stores
	CLOUD_EMULATORS=1 $(PY) -m pytest -q tests/storage/stores/test_blob_conformance.py tests/faults/test_spark_clouds.py $(ARGS)

bench: setup-dev ## Run a benchmark against its peers: make bench NAME=reads
	@test -n "$(NAME)" || { echo "make bench NAME=...; there are: $$(ls bench | sed -n 's/^bench_\(.*\)\.py$$/\1/p' | xargs)"; exit 2; }
	$(PY) -m bench.bench_$(NAME) $(ARGS)

simulate: setup-dev ## Run SEEDS seeded schedules of the storage simulation
	$(PY) -m tests.simulation --seeds $(SEEDS) $(ARGS)

walks: setup-dev ## Count the modules that a SELECT and an INSERT ... SELECT go through
	$(PY) tests/architecture/walks.py $(ARGS)

lock: setup-dev ## Write the lock files anew from pyproject.toml
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) pyproject.toml --group dev -o requirements-dev.lock
	$(LOCK) --group java -o requirements-java.lock
	$(LOCK) --group ducklake -o requirements-ducklake.lock
	$(LOCK) --group iceberg -o requirements-iceberg.lock
	$(LOCK) --group tpcds -o requirements-tpcds.lock
	$(LOCK) --group connect -c requirements.lock -o requirements-connect.lock
	for name in $(CLIENT_LOCKS); do $(LOCK) tests/clients_basic/locks/$$name.in -o tests/clients_basic/locks/$$name.txt; done

clean: ## Remove the environment and everything built
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis .cache
