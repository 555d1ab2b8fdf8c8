"""tidegate.lineage: which columns of tables a view's columns come from."""

from __future__ import annotations

from tests.adapter.harness import connect, open_server

SETUP = """
create schema shop;
create table shop.orders (id int primary key, customer int, amount numeric, placed date);
create table customers (id int, name text, country text);
create view big_orders as
  select o.id, o.amount * 2 as doubled, c.name || ' (' || c.country || ')' as who
  from shop.orders o join customers c on c.id = o.customer where o.amount > 100;
create materialized view stored as select who, doubled from big_orders
"""

LINEAGES = [
    ("select id, amount from shop.orders", {"id": {"orders.id"}, "amount": {"orders.amount"}}),
    (
        "select * from big_orders",
        {"id": {"orders.id"}, "doubled": {"orders.amount"}, "who": {"customers.name", "customers.country"}},
    ),
    ("select who from stored", {"who": {"stored.who"}}),
    (
        "select customer, sum(amount) as total, count(*) as n from shop.orders group by 1",
        {"customer": {"orders.customer"}, "total": {"orders.amount"}},
    ),
    ("select id from shop.orders union all select id from customers", {"id": {"orders.id", "customers.id"}}),
    ("with t as (select placed as p from shop.orders) select p, 1 as one from t", {"p": {"orders.placed"}}),
    (
        "with recursive r(n, x) as (select id, amount from shop.orders union all select n + 1, x from r where n < 5) "
        "select * from r",
        {"n": {"orders.id"}, "x": {"orders.amount"}},
    ),
    (
        "select (select max(placed) from shop.orders o where o.customer = c.id) as last from customers c",
        {"last": {"orders.placed"}},
    ),
    ("select exists (select 1 from shop.orders) as any_there, name from customers", {"name": {"customers.name"}}),
    (
        "select rank() over (order by id) as place, lag(name) over (order by id) as before from customers",
        {"before": {"customers.name"}},
    ),
    (
        "select percentile_cont(0.5) within group (order by amount) as middle from shop.orders",
        {"middle": {"orders.amount"}},
    ),
    (
        "select case when country = 'x' then name else 'none' end as shown from customers",
        {"shown": {"customers.country", "customers.name"}},
    ),
    ("select v.a, o.id from (values (1), (2)) v(a), shop.orders o", {"id": {"orders.id"}}),
    ("select g from generate_series(1, 3) g", {}),
    ("select distinct on (country) name from customers order by country", {"name": {"customers.name"}}),
]


async def test_lineage() -> None:
    async with open_server() as server:
        client = await connect(server)
        await client.run(SETUP)
        for query, expected in LINEAGES:
            await client.run(f"create view v as {query}")
            found: dict[str, set[str]] = {}
            for column, name in await client.rows(
                "select column_name, source_name || '.' || source_column from tidegate.lineage('v')"
            ):
                found.setdefault(column, set()).add(name)
            assert found == expected, query
            await client.run("drop view v")


async def test_of_all_views() -> None:
    """What reads a column, however many views are between."""
    async with open_server() as server:
        client = await connect(server)
        await client.run(SETUP)
        rows = await client.rows(
            "select viewname, column_name from tidegate.view_lineage "
            "where source = 'shop.orders'::regclass and source_column = 'amount' order by 1"
        )
        assert rows == [("big_orders", "doubled"), ("stored", "doubled")]
