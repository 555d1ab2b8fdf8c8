"""Which queries are known as readings of one key: the others go to engines."""

from __future__ import annotations

import pytest

from adapter.plans.key_reads import KeyRead
from adapter.plans.plan_cache import make_plan
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot
from tests.planner.support import context_of, corpus_context, create

TABLES = (
    "create table k (id int primary key, t text, n numeric(8,2), f float8, at timestamptz, u uuid, unique (t, n))",
    "create table plain (id int)",
)


@pytest.fixture(scope="module")
def catalog() -> CatalogSnapshot:
    catalog = corpus_context().catalog
    for sql in TABLES:
        catalog = create(catalog, sql)
    return catalog


def key_read(catalog: CatalogSnapshot, sql: str) -> KeyRead | None:
    return make_plan(split_and_parse(sql)[0], context_of(catalog), ()).key_read


@pytest.mark.parametrize(
    "sql",
    [
        "select * from k where id = 1",
        "select id + 1, t || 'x', n * 2.5, f - 1, at, now() from k where 1 = id and t > 'a' and u is null",
        "update k set n = n + $1 where id = $2 returning n",
        "update k set at = now() where id = 3 and t is not null",
        "delete from k where id = $1",
    ],
)
def test_the_rows_of_a_key_need_no_engine(catalog: CatalogSnapshot, sql: str) -> None:
    read = key_read(catalog, sql)
    assert read is not None
    assert read.constraint.kind == "p"


@pytest.mark.parametrize(
    "sql",
    [
        "select * from plain where id = 1",
        "select * from k",
        "select * from k where id > 1",
        "select * from k where id = 1 or id = 2",
        "select * from k where id = id",
        "select * from k where t = 'x'",
        "select count(*) from k where id = 1",
        "select * from k where id = 1 limit 1",
        "select distinct t from k where id = 1",
        "select * from k where id = 1 for update",
        "select random() from k where id = 1",
        "select clock_timestamp() from k where id = 1",
        "select sqrt(f) from k where id = 1",
        "select id from k where id = 1 and f < 2",
        "select at + interval '1 day' from k where id = 1",
        "select a.id from k a, k b where a.id = 1 and b.id = 1",
        "select (select 1) from k where id = 1",
        "update k set t = p.id::text from plain p where k.id = 1",
    ],
)
def test_what_is_more_than_that_goes_to_an_engine(catalog: CatalogSnapshot, sql: str) -> None:
    assert key_read(catalog, sql) is None


def test_a_key_of_several_columns_has_its_own_order(catalog: CatalogSnapshot) -> None:
    catalog = create(catalog, "create table pair (a int, b int, primary key (b, a))")
    read = key_read(catalog, "select * from pair where a = 1 and b = 2")
    assert read is not None
    assert read.key(()) == (2, 1)
