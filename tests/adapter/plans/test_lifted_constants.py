"""A text with new constants stands for one template only where that changes nothing but values."""

from __future__ import annotations

import pytest

from adapter.plans.lifted_constants import Templates, split_text
from adapter.plans.plan_cache import PlanCache
from planner.analyze import BindContext
from planner.types import types as t
from tests.planner.support import context_of, corpus_context, create


@pytest.fixture(scope="module")
def context() -> BindContext:
    catalog = corpus_context().catalog
    sql = "create table k (id bigint primary key, n int, label text, c char(3), at date, v varchar(5))"
    return context_of(create(catalog, sql))


@pytest.mark.parametrize(
    ("text", "template", "values"),
    [
        ("select * from k where id = 5", "select * from k where id = $1", (5,)),
        ("INSERT INTO k VALUES (-1, 2.5, 'it''s', 1e3)", "INSERT INTO k VALUES ($1, 2.5, $2, 1e3)", (-1, "it's")),
        ("update k set n = n + -5 - 3 where id=-7", "update k set n = n + $1 - $2 where id=$3", (-5, 3, -7)),
        ("select n -5 from k", "select n -$1 from k", (5,)),
        ("delete from k2 where \"a 1'\" = 'x' and c3 = 4;", 'delete from k2 where "a 1\'" = $1 and c3 = $2;', ("x", 4)),
        ("select E'a', b'1', n'x', 7 from k", "select E'a', b'1', n'x', $1 from k", (7,)),
        ("select 'a', '' from k", "select $1, $2 from k", ("a", "")),
        ("select 5 from k order\nby 2 limit 3", "select $1 from k order\nby 2 limit 3", (5,)),
        ("select 3000000000, 99999999999999999999", "select $1, 99999999999999999999", (3000000000,)),
    ],
)
def test_a_text_is_split_by_its_tokens(text: str, template: str, values: tuple[object, ...]) -> None:
    split = split_text(text)
    assert split is not None
    assert (split.template, split.values) == (template, values)


@pytest.mark.parametrize(
    "text",
    [
        "select 1; select 2",
        "select $1, 2",
        "select 1 -- one",
        "select /* one */ 1",
        "select 'a\\b'",
        "set a = 1",
        "select now()",
        "vacuum",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert split_text(text) is None


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("select label, 'x', 7 from k where id = 5", (t.TEXT, t.INT4, t.INT4)),
        ("select label from k where id = 5000000000", (t.INT8,)),
        ("update k set n = n + 3, label = 'x' where id = 5 and label <> 'y'", (t.INT4, t.TEXT, t.INT4, t.TEXT)),
        ("delete from k where id = 5 returning n", (t.INT4,)),
        ("select label from k where id between 5 and 6 limit 7", (t.INT4, t.INT4, t.INT4)),
        ("select label from k where id = 5 order by 1 limit 2", (t.INT4,)),
        ("select label, count(*) from k where id = 5 Group  BY 1", (t.INT4,)),
        ("insert into k values (1, 2, 'x', null, null, 'v') returning id", (t.INT4, t.INT4, t.TEXT, t.VARCHAR)),
    ],
)
def test_constants_are_parameters_of_their_types(context: BindContext, text: str, declared: tuple[int, ...]) -> None:
    templates = Templates(PlanCache())
    for _ in range(2):
        lifted = templates.lift(text, context)
        assert lifted is not None
        assert lifted.declared == declared
        assert tuple(param.type.oid for param in lifted.params) == declared


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "select label from k where n = 5",
        "select label from k where id = '5'",
        "select label from k where id = 5 and c = 'x'",
        "select date '2024-01-01' from k where id = 5",
        "select label::varchar(5) from k where id = 5",
        "insert into k (id, at) values (1, '2024-01-01')",
        "insert into k (id, c) values (1, 'x')",
        "insert into k (id) values (5 + 1)",
        "insert into k (id) values (5 +",
        "update nowhere set n = 5 where id = 6",
    ],
)
def test_where_more_than_values_would_change(context: BindContext, text: str) -> None:
    assert Templates(PlanCache()).lift(text, context) is None
