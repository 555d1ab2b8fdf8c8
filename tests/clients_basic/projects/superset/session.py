"""A session of Superset's API: what it prints is compared between the servers. argv: the database's URL, a port."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from typing import Any

URL, BASE = sys.argv[1], f"http://127.0.0.1:{sys.argv[2]}/api/v1"
HEADERS = {"Content-Type": "application/json"}


def ask(method: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{BASE}{path}", data, HEADERS, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return {"status": error.code, "errors": json.loads(error.read() or b"null")}


def show(*values: object) -> None:
    print(json.dumps(values, sort_keys=True, default=str))


login = ask("POST", "/security/login", {"username": "admin", "password": "admin", "provider": "db", "refresh": True})
HEADERS["Authorization"] = f"Bearer {login['access_token']}"

show(ask("POST", "/database/test_connection/", {"sqlalchemy_uri": URL, "database_name": "test"}))
database = ask(
    "POST",
    "/database/",
    {
        "database_name": "warehouse",
        "sqlalchemy_uri": URL,
        "expose_in_sqllab": True,
        "allow_ctas": True,
        "allow_dml": True,
        "allow_cvas": True,
    },
)["id"]


def run(sql: str, **more: object) -> Any:
    found = ask(
        "POST", "/sqllab/execute/", {"database_id": database, "sql": sql, "schema": "shop", "runAsync": False, **more}
    )
    if "data" not in found:
        errors = found.get("errors", found)
        show(sql[:40], errors.get("errors", errors) if isinstance(errors, dict) else errors)
        return found
    show(
        sql[:40],
        [(c["column_name"], c["type"], c["type_generic"], c["is_dttm"]) for c in found["columns"]],
        found["data"],
    )
    return found


run("CREATE SCHEMA shop", schema="public")
run(
    "CREATE TABLE shop.orders (id int PRIMARY KEY, customer text NOT NULL, amount numeric(10, 2), at timestamp,"
    " day date, ok boolean, tags text[], doc jsonb)"
)
run(
    "INSERT INTO shop.orders SELECT g, 'c' || g % 5, g * 1.25, timestamp '2024-01-01' + g * interval '9 hours',"
    " date '2024-01-01' + g, g % 3 = 0, array['t' || g], jsonb_build_object('g', g) FROM generate_series(1, 400) g"
)
run("CREATE VIEW shop.totals AS SELECT customer, sum(amount) AS total FROM shop.orders GROUP BY customer")
run("SELECT * FROM orders ORDER BY id LIMIT 3")
run("SELECT 1 AS a; SELECT 'two' AS b, now() IS NULL AS c")
run("SELECT nothing FROM orders")
run("SELECT * FROM orders WHERE id > 390", select_as_cta=True, ctas_method="TABLE", tmp_table_name="copied")
run("SELECT count(*) AS copied FROM copied")
# Tidegate's own schema is in every database.
show(sorted(set(ask("GET", f"/database/{database}/schemas/")["result"]) - {"tidegate"}))
show(ask("GET", f"/database/{database}/tables/?q=(schema_name:shop)"))
show(ask("GET", f"/database/{database}/table_metadata/?name=orders&schema=shop"))
show(ask("GET", f"/database/{database}/select_star/orders/shop/"))
dataset = ask("POST", "/dataset/", {"database": database, "schema": "shop", "table_name": "orders"})["id"]
described = ask("GET", f"/dataset/{dataset}")["result"]
show(
    [
        (c["column_name"], c["type"], c["type_generic"], c["is_dttm"])
        for c in sorted(described["columns"], key=lambda c: c["column_name"])
    ]
)
SUM = {"expressionType": "SIMPLE", "column": {"column_name": "amount"}, "aggregate": "SUM", "label": "total"}


def chart(**query: object) -> None:
    found = ask(
        "POST",
        "/chart/data",
        {
            "datasource": {"id": dataset, "type": "table"},
            "force": True,
            "result_format": "json",
            "result_type": "full",
            "queries": [{"row_limit": 100, **query}],
        },
    )
    if "result" not in found:
        show(found)
        return
    for result in found["result"]:
        show(result["colnames"], result["coltypes"], result["rowcount"], result["data"], result["error"])


chart(columns=["customer"], metrics=[SUM, "count"], orderby=[["customer", True]])
for grain in ("P1M", "P1W", "P3M", "PT1H"):
    axis = {
        "timeGrain": grain,
        "columnType": "BASE_AXIS",
        "sqlExpression": "at",
        "label": "at",
        "expressionType": "SQL",
    }
    chart(
        columns=[axis],
        metrics=[SUM],
        granularity="at",
        time_range="2024-01-01 : 2024-02-15",
        orderby=[["total", False]],
        extras={"time_grain_sqla": grain},
        row_limit=5,
    )
chart(
    columns=["customer", "ok"],
    metrics=[SUM],
    orderby=[["customer", True], ["ok", True]],
    filters=[
        {"col": "customer", "op": "IN", "val": ["c1", "c2"]},
        {"col": "amount", "op": ">", "val": 10},
        {"col": "customer", "op": "ILIKE", "val": "C%"},
    ],
)
chart(
    columns=["customer"],
    metrics=[SUM],
    series_limit=2,
    series_columns=["customer"],
    orderby=[["total", False]],
    extras={"having": "SUM(amount) > 100", "where": "id < 300"},
)
chart(columns=["id", "customer", "tags", "doc"], orderby=[["id", True]], row_limit=2, row_offset=3)
slice_ = ask(
    "POST",
    "/chart/",
    {
        "slice_name": "totals",
        "datasource_id": dataset,
        "datasource_type": "table",
        "viz_type": "table",
        "params": json.dumps({"groupby": ["customer"]}),
    },
)["id"]
board = ask("POST", "/dashboard/", {"dashboard_title": "Shop", "slug": "shop", "published": True})["id"]
show(
    ask("PUT", f"/chart/{slice_}", {"dashboards": [board], "owners": []}).get("result", {}).get("dashboards")
    is not None
)
show([c["slice_name"] for c in ask("GET", f"/dashboard/{board}/charts")["result"]])
show(ask("GET", "/dashboard/")["count"], ask("GET", "/chart/")["count"], ask("GET", "/dataset/")["count"])
show(ask("DELETE", f"/dashboard/{board}"), ask("DELETE", f"/chart/{slice_}"), ask("DELETE", f"/dataset/{dataset}"))
show(len(ask("GET", "/log/?q=(page_size:100)").get("result", [])) > 10)
