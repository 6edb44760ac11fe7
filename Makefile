# Two commands matter: `make demo` runs the main job, `make test` passes the tests. Each does all of its own set-up.

UV := $(shell command -v uv 2>/dev/null || echo .venv-uv/bin/uv)
RUN := $(UV) run --no-sync
WITH_TOOLS := scripts/with_tools.sh
TWO := -n 2 --dist loadfile --no-loadscope-reorder # whole files, those with long tests first (compat_tests/order.py)

PORTABLE := tests/storage_backends tests/gateway/cli tests/gateway/config tests/gateway/server tests/gateway/testing \
  tests/gateway/test_network.py tests/gateway/test_hidden_facilities.py tests/gateway/test_portable_forms.py

# Python keeps what it has compiled, also pytest's form of the tests: each process of a run starts in half the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-python setup-spark demo pipeline-demo sql-demo cluster-demo test test-unit test-fast test-rest test-portable test-all compat-sql compat-cluster torture lint bench simulate simulate-cores clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: setup-python ## what make test-unit needs: the locked packages; other targets install what else they use, and say so

setup-spark: setup-python ## what the examples with Spark need besides: Java and Spark's connector
	@$(WITH_TOOLS) spark -- true

setup-python:
	@command -v $(UV) >/dev/null 2>&1 || { echo "uv is missing: installing it with pip into .venv-uv"; \
	  python3 -m venv .venv-uv && .venv-uv/bin/pip install --quiet uv; }
	@$(UV) sync --quiet --locked --all-extras

demo: setup-python ## a broker, 336,776 flights, three consumers of which one is killed, Spark: all counts must agree
	@$(WITH_TOOLS) $(RUN) python -m examples.flights

pipeline-demo: setup-python ## the flights through the whole pipeline: tables, SQL, a topic again, a mirror, an audit
	@$(WITH_TOOLS) $(RUN) python -m examples.flights_pipeline

sql-demo: setup-python ## the flights in SQL: a topic in SQLite, and transactions of a PostgreSQL that append
	@scripts/ensure_postgres.sh >/dev/null
	@$(RUN) python -m examples.flights_sql

cluster-demo: setup-python ## three brokers under load, the leader killed and started again: nothing lost, a plot of it
	@$(RUN) python -m examples.cluster

test: setup-python ## the main promise: unit, properties, simulation, stores, and clients against Odradek and a real Kafka
	@echo "make test: tiers unit and core; with set-up about 12 minutes on two processors (make test-all runs every test)"
	@$(WITH_TOOLS) kafka postgres containers -- $(RUN) pytest tests compat_tests $(TWO) -m "unit or core"

test-unit: setup-python ## what needs nothing but Python
	@echo "make test-unit: the tier unit; about eight minutes on two processors"
	@$(RUN) pytest tests compat_tests $(TWO) -m unit

test-fast: test-unit ## the same as test-unit, its name of today

test-rest: setup-python ## what make test leaves out, in half an hour
	@echo "make test-rest: the tier rest; about half an hour on two processors"
	@$(WITH_TOOLS) spark kcat go postgres containers -- $(RUN) pytest tests compat_tests $(TWO) -m rest --durations 15

test-portable: setup-python ## the tests of stores, network, broker, plugin and commands again, with the forms for other systems
	@echo "make test-portable: what only Linux has is hidden (docs/platforms.md); about three minutes on two processors"
	@ODRADEK_HIDDEN_FACILITIES=all $(RUN) pytest $(PORTABLE) $(TWO) -m "unit or core"

test-all: setup-python ## every test
	@echo "make test-all: every test; about 40 minutes on two processors"
	@$(WITH_TOOLS) spark kcat go postgres containers -- $(RUN) pytest tests compat_tests $(TWO) --durations 15

compat-sql: setup-python ## every client against a real Kafka and Odradek over SQLite, then over PostgreSQL
	@status=0; for store in sqlite postgres; do \
	  ODRADEK_COMPAT_STORAGE=$$store $(WITH_TOOLS) $(RUN) pytest compat_tests $(TWO) || status=1; done; exit $$status

compat-cluster: setup-python ## all requests and the clients' cases over three nodes beside three of Kafka
	@ODRADEK_CLUSTER_CLIENTS=all $(WITH_TOOLS) $(RUN) pytest compat_tests/test_cluster_*.py

torture: setup-python ## the long form of the tests that have one: random faults, kills and frames for as long as it takes
	@ODRADEK_LONG_TESTS=1 $(WITH_TOOLS) $(RUN) pytest -m torture --timeout=3600

simulate: setup-python ## many simulated clusters under faults; SEEDS=1-100, MINUTES=1 and JOBS=2 change which, how long, how many at once
	@$(RUN) odradek simulate --seeds $(or $(SEEDS),1-50) --minutes $(or $(MINUTES),1) \
	  --jobs $(or $(JOBS),$(shell getconf _NPROCESSORS_ONLN))

simulate-cores: setup-python ## many simulations of the quorum and of replication alone; HOURS=1, SEED=0 and JOBS=2 change how long, where, how many at once
	@$(RUN) python tests/simulation/cores/campaign.py --hours $(or $(HOURS),1) --from-seed $(or $(SEED),0) \
	  --jobs $(or $(JOBS),$(shell getconf _NPROCESSORS_ONLN))

lint: setup-python ## style, types and import contracts
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@printf '%s\n' Linux Darwin Windows | xargs -P 2 -I {} $(RUN) pyright --pythonplatform {}
	@$(RUN) lint-imports

bench: setup-python ## produce, consume, latency, memory and start-up, as ratios against a real Kafka
	@$(WITH_TOOLS) $(RUN) python -m benchmarks

clean: ## remove what the other targets made
	rm -rf .venv .venv-uv .cache demo-output .pytest_cache .ruff_cache .hypothesis .import_linter_cache
