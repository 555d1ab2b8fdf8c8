"""Which views with GROUP BY follow from the change under them and their stored rows alone."""

from __future__ import annotations

import pytest

from planner.definitions.maintained.increments import Change
from planner.definitions.maintained.sums import sums_of
from planner.ir.bound import BoundQuery
from planner.ir.nodes import OneRow
from planner.types import types as t
from storage.catalog.model import Column, Relation

TABLE = Relation(
    oid=1,
    name="a",
    schema=2200,
    owner=10,
    kind="r",
    columns=(
        Column(attnum=1, name="k", type_oid=t.INT4),
        Column(attnum=2, name="n", type_oid=t.INT4, not_null=True),
        Column(attnum=3, name="v", type_oid=t.INT4),
        Column(attnum=4, name="f", type_oid=t.FLOAT8, not_null=True),
        Column(attnum=5, name="x", type_oid=t.NUMERIC, not_null=True),
        Column(attnum=6, name="b", type_oid=t.INT8, not_null=True),
    ),
)


def _change(targets: str, types: list[int], rest: str = "GROUP BY a.k") -> Change | None:
    columns = tuple(Column(attnum=n, name=f"c{n}", type_oid=oid) for n, oid in enumerate(types, 1))
    view = Relation(
        oid=9,
        name="w",
        schema=2200,
        owner=10,
        kind="m",
        columns=columns,
        definition=f"SELECT {targets} FROM public.a a {rest}",
    )
    return sums_of(view, "public", BoundQuery(rel=OneRow()), {("public", "a"): 1}, {1}, {1: TABLE})


@pytest.mark.parametrize(
    ("targets", "types"),
    [
        ("a.k, count(*)", [t.INT4, t.INT8]),
        ("a.k, count(*), sum(a.n)", [t.INT4, t.INT8, t.INT8]),
        ("a.k, count(*), sum(a.b), avg(a.b)", [t.INT4, t.INT8, t.NUMERIC, t.NUMERIC]),
        ("a.k, count(*), sum(a.v), count(a.v)", [t.INT4, t.INT8, t.INT8, t.INT8]),
    ],
)
def test_the_table_is_not_read(targets: str, types: list[int]) -> None:
    found = _change(targets, types)
    assert found is not None
    text = found.text + "".join(step for _, step in found.steps)
    assert "delta of 1" in text
    assert "public.a " not in text
    assert "before of" not in text


@pytest.mark.parametrize(
    ("targets", "types", "rest"),
    [
        ("a.k, sum(a.n)", [t.INT4, t.INT8], "GROUP BY a.k"),
        ("a.k, count(*), sum(a.v)", [t.INT4, t.INT8, t.INT8], "GROUP BY a.k"),
        ("a.k, count(*), sum(a.f)", [t.INT4, t.INT8, t.FLOAT8], "GROUP BY a.k"),
        ("a.k, count(*), sum(a.x)", [t.INT4, t.INT8, t.NUMERIC], "GROUP BY a.k"),
        ("a.k, count(*), avg(a.n)", [t.INT4, t.INT8, t.NUMERIC], "GROUP BY a.k"),
        ("a.k, count(*), max(a.n)", [t.INT4, t.INT8, t.INT4], "GROUP BY a.k"),
        ("a.k, count(*), count(DISTINCT a.n)", [t.INT4, t.INT8, t.INT8], "GROUP BY a.k"),
        ("a.k, count(*) + 1", [t.INT4, t.INT8], "GROUP BY a.k"),
        ("a.x, count(*)", [t.NUMERIC, t.INT8], "GROUP BY a.x"),
        ("count(*)", [t.INT8], "GROUP BY a.k"),
        ("a.k, count(*)", [t.INT4, t.INT8], "GROUP BY a.k HAVING count(*) > 1"),
        ("count(*)", [t.INT8], ""),
    ],
)
def test_what_is_not_known_of_a_group_is_read(targets: str, types: list[int], rest: str) -> None:
    assert _change(targets, types, rest) is None
