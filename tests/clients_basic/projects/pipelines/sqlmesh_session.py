"""What SQLMesh sees: `sqlmesh_session.py URL FEATURE` prints it. Its project is written to the folder where it runs."""

import logging
import os
import pathlib
import sys
from urllib.parse import urlsplit

os.environ |= {"SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true", "MAX_FORK_WORKERS": "1"}

from sqlmesh import Context
from sqlmesh.core.config import (
    Config,
    GatewayConfig,
    ModelDefaultsConfig,
    PostgresConnectionConfig,
)
from sqlmesh.core.console import NoopConsole, set_console
from sqlmesh.utils.errors import SQLMeshError

HERE = pathlib.Path("project")
NOW = "2024-03-01"

ORDERS = """
MODEL (name shop.orders, kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2024-02-25', cron '@daily',
    grain id, audits (not_null(columns := (id, day)), unique_values(columns := (id))), description 'what was ordered');
SELECT (EXTRACT(DAY FROM d) * 10 + n)::INT AS id, d::DATE AS day, ('c' || n)::TEXT AS customer,
    (n * 1.5)::DECIMAL(10, 2) AS price
FROM GENERATE_SERIES(@start_ds::DATE, @end_ds::DATE, INTERVAL '1 day') AS d CROSS JOIN GENERATE_SERIES(1, 3) AS n
WHERE d::DATE BETWEEN @start_ds AND @end_ds
"""
CUSTOMERS = """
MODEL (name shop.customers, kind FULL, columns (customer TEXT, orders BIGINT, total DECIMAL(12, 2)), audits (positive));
SELECT customer, COUNT(*) AS orders, SUM(price)::DECIMAL(12, 2) AS total FROM shop.orders GROUP BY customer;
AUDIT (name positive);
SELECT * FROM @this_model WHERE total <= 0
"""
SEED = "MODEL (name shop.names, kind SEED (path '../seeds/names.csv'), columns (customer TEXT, name TEXT, since DATE));"
SHOWN = """
MODEL (name shop.shown, kind VIEW);
SELECT n.name, c.orders, c.total FROM shop.customers AS c JOIN shop.names AS n USING (customer)
"""
KEYED = """
MODEL (name shop.keyed, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer));
SELECT customer, MAX(id) AS last FROM shop.orders GROUP BY customer
"""
KEPT = """
MODEL (name shop.kept, kind SCD_TYPE_2_BY_COLUMN (unique_key customer, columns [orders]));
SELECT customer, orders::INT AS orders FROM shop.customers
"""
TEST = """
test_customers:
  model: shop.customers
  inputs:
    shop.orders:
      rows:
        - {id: 1, day: 2024-02-01, customer: a, price: 1.5}
        - {id: 2, day: 2024-02-01, customer: a, price: 2.5}
  outputs:
    query:
      rows:
        - {customer: a, orders: 2, total: 4.0}
"""


def write(**models):
    """Files of models."""
    for name in ("models", "seeds", "tests"):
        (HERE / name).mkdir(parents=True, exist_ok=True)
    for name, text in models.items():
        (HERE / "models" / f"{name}.sql").write_text(text, encoding="utf-8")
    (HERE / "seeds" / "names.csv").write_text(
        'customer,name,since\nc1,it\'s Ann,2020-02-29\nc2,Bob,\nc3,"C, y",2021-01-01\n', encoding="utf-8"
    )
    (HERE / "tests" / "test_customers.yaml").write_text(TEST, encoding="utf-8")


def context():
    """The project, whose state is in the same database."""
    parts = urlsplit(sys.argv[1])
    connection = PostgresConnectionConfig(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password="",
        database=parts.path[1:],
        concurrent_tasks=4,
    )
    config = Config(
        gateways={"ours": GatewayConfig(connection=connection, test_connection=connection)},
        default_gateway="ours",
        model_defaults=ModelDefaultsConfig(dialect="postgres", start="2024-02-25"),
    )
    return Context(paths=[str(HERE)], config=config)


def show(project, sql):
    """What the server has."""
    for row in project.engine_adapter.fetchall(sql):
        print(*row)


def plan():
    """A first plan, and nothing left to change."""
    write(orders=ORDERS, customers=CUSTOMERS, names=SEED, shown=SHOWN, keyed=KEYED, kept=KEPT)
    project = context()
    project.plan("prod", auto_apply=True, no_prompts=True, execution_time=NOW)
    again = context().plan("prod", no_prompts=True, execution_time=NOW, auto_apply=False)
    print(again.has_changes, again.requires_backfill)
    show(project, "SELECT * FROM shop.shown ORDER BY 1")
    show(project, "SELECT count(*), min(day), max(day), sum(price) FROM shop.orders")
    show(project, "SELECT * FROM shop.keyed ORDER BY 1")
    show(project, "SELECT customer, orders, valid_to FROM shop.kept ORDER BY 1")
    show(project, "SELECT count(*) FROM sqlmesh._snapshots")
    print(sorted(project.engine_adapter.columns("shop.customers").items(), key=str))
    print(project.fetchdf("SELECT name, total FROM shop.shown ORDER BY name").to_dict("records"))


def develop():
    """An environment of its own with a changed model, promoted; what differs; an older state restated."""
    project = context()
    write(keyed=KEYED.replace("AS last", "AS last, COUNT(*) AS many"))
    project = context()
    project.plan("dev", auto_apply=True, no_prompts=True, execution_time=NOW, include_unmodified=False)
    show(project, "SELECT * FROM shop__dev.keyed ORDER BY 1")
    show(
        project,
        "SELECT table_schema, table_name, table_type FROM information_schema.tables "
        "WHERE table_schema LIKE 'shop%' ORDER BY 1, 2",
    )
    print(bool(project.table_diff("prod", "dev", select_models=["shop.keyed"], on=["customer"], show=False)))
    project.plan("prod", auto_apply=True, no_prompts=True, execution_time=NOW)
    show(project, "SELECT * FROM shop.keyed ORDER BY 1")
    project.plan(
        "prod",
        restate_models=["shop.orders"],
        start="2024-02-28",
        end="2024-02-29",
        auto_apply=True,
        no_prompts=True,
        execution_time=NOW,
    )
    show(project, "SELECT count(*), sum(price) FROM shop.orders")


def run():
    """Days that have come since, audits, tests, and an end to what is no longer used."""
    project = context()
    project.run("prod", execution_time="2024-03-04", end="2024-03-03", ignore_cron=True)
    show(project, "SELECT count(*), max(day) FROM shop.orders")
    show(project, "SELECT * FROM shop.shown ORDER BY 1")
    show(project, "SELECT customer, orders, valid_to IS NULL FROM shop.kept ORDER BY 1, 2")
    project.audit("2024-02-25", "2024-03-03", execution_time="2024-03-04")
    result = project.test()
    print(result.testsRun, len(result.failures), len(result.errors))
    project.invalidate_environment("dev")
    project.run_janitor(ignore_ttl=True)
    show(project, "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'shop__dev'")


def failure():
    """A model whose audit fails changes nothing."""
    write(customers=CUSTOMERS.replace("total <= 0", "total > 0"))
    try:
        context().plan("prod", auto_apply=True, no_prompts=True, execution_time="2024-03-04")
    except SQLMeshError as error:
        print(type(error).__name__)
    show(context(), "SELECT count(*) FROM shop.customers")


logging.disable(logging.CRITICAL)
set_console(NoopConsole())
{"plan": plan, "develop": develop, "run": run, "failure": failure}[sys.argv[2]]()
