"""Which queries are known as readings by keys and ranges of keys: the others go to engines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adapter.plans.computed.row_values import Given
from adapter.plans.key_reads import KeyRead
from adapter.plans.plan_cache import make_plan
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot
from tests.planner.support import context_of, corpus_context, create

NOW = datetime(2026, 1, 1, tzinfo=UTC)

TABLES = (
    "create table k (id int primary key, t text, n numeric(8,2), f float8, at timestamptz, u uuid, unique (t, n))",
    "create table plain (id int)",
    "create table pair (a int, b int, v text, primary key (b, a))",
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
        "select * from k where id = 1 or id = 2",
        "select * from k where id in ($1, $2, 3) and t is null",
        "select * from k where id = any ($1)",
        "select count(*), sum(n), max(at) filter (where t > 'a') from k where id = 1",
        "select * from k where id = 1 limit 1",
        "select * from k where t = 'x' and n = 2.5",
        "select at + interval '1 day' from k where id = 1",
        "select * from k where id = length($1) + 5",
        "select a from pair where b = 1 and a in (1, 2)",
    ],
)
def test_the_rows_of_a_key_need_no_engine(catalog: CatalogSnapshot, sql: str) -> None:
    read = key_read(catalog, sql)
    assert read is not None
    assert read.access.whole
    assert read.first is None


@pytest.mark.parametrize(
    ("sql", "is_cut"),
    [
        ("select * from k where id > 1", False),
        ("select * from k where id between $1 and $1 + 99", False),
        ("select sum(id), count(distinct t), min(at) from k where id >= 1 and 100 > id", False),
        ("select distinct t from k where id between 1 and 9 order by t desc nulls last limit 3", False),
        ("select t, count(*) from k where id < 9 group by t having count(*) > 1 order by 2, t", False),
        ("select id from k where id > $1 and u is null order by id limit 10", False),
        ("select * from k where t = 'x'", False),
        ("select * from k where t = 'x' and id > 4 order by at limit 1", False),
        ("update k set n = n + 1 where id between 1 and 9", False),
        ("select * from k order by id desc limit 10", True),
        ("select id, t from k where id > $1 order by id limit $2 offset 3", True),
        ("select * from k where id > 5 limit 2", True),
        ("select v from pair where b = 4 order by a desc limit 1", True),
        ("select v from pair where b = 4 order by v limit 1", False),
        ("select v from pair order by a limit 1", None),
        ("select v from pair where a = 4", None),
        ("select t from k order by t limit 5", True),
        ("select t from k order by t nulls first limit 5", None),
    ],
)
def test_the_rows_of_a_range_need_no_engine(catalog: CatalogSnapshot, sql: str, is_cut: bool | None) -> None:
    read = key_read(catalog, sql)
    assert (read is None) == (is_cut is None)
    if read is not None:
        assert not read.access.whole
        assert (read.first is not None) == is_cut


@pytest.mark.parametrize(
    "sql",
    [
        "select * from plain where id = 1",
        "select * from k",
        "select * from k where id = id",
        "select * from k where id > f",
        "select avg(id) from k where id = 1",
        "select sum(f) from k where id > 1",
        "select distinct f from k where id > 1",
        "select id from k where id > 1 order by f",
        "select id, row_number() over () from k where id > 1",
        "select * from k where id = 1 for update",
        "select random() from k where id = 1",
        "select clock_timestamp() from k where id = 1",
        "select sqrt(f) from k where id = 1",
        "select id from k where id = 1 and f < 2",
        "select at - now() from k where id = 1",
        "select a.id from k a, k b where a.id = 1 and b.id = 1",
        "select (select 1) from k where id = 1",
        "update k set t = p.id::text from plain p where k.id = 1",
    ],
)
def test_what_is_more_than_that_goes_to_an_engine(catalog: CatalogSnapshot, sql: str) -> None:
    assert key_read(catalog, sql) is None


def test_a_key_of_several_columns_has_its_own_order(catalog: CatalogSnapshot) -> None:
    read = key_read(catalog, "select * from pair where a = 1 and b = 2")
    assert read is not None
    assert list(read.access.keys(Given((), NOW, NOW))) == [(2, 1)]
