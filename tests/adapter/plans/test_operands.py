"""What of a query's conditions is worked out before it runs, and what that is for those who look at conditions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import pytest

from adapter.plans.computed.row_values import Given
from adapter.plans.operands import Operands
from adapter.plans.plan_cache import Plan, make_plan
from adapter.plans.predicates import Comparison, bind_templates
from planner.definitions.expression_text import expression_text
from planner.ir import nodes as ir
from planner.ir.rewrite import walk
from planner.syntax.parse import split_and_parse
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.model import CatalogSnapshot
from tests.planner.support import context_of, corpus_context, create

NOW = datetime(2024, 3, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def catalog() -> CatalogSnapshot:
    table = "create table k (id int primary key, n numeric, s text, at timestamptz, ts timestamp, d date)"
    return create(corpus_context().catalog, table)


def plan_of(catalog: CatalogSnapshot, condition: str) -> Plan:
    return make_plan(split_and_parse(f"select * from k where {condition}")[0], context_of(catalog), ())


def comparisons(plan: Plan, params: Sequence[ir.Literal], zone: str = "UTC") -> Sequence[Comparison]:
    operands = plan.operands
    assert operands is not None
    values = operands.at_once(Given(tuple(params), NOW, NOW, zone))
    assert values is not None
    ((conjunction,),) = bind_templates(operands.templates, values).values()
    return conjunction


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("id = 5 + 1", [("=", 6)]),
        ("5 + 1 > id", [("<", 6)]),
        ("id in (1, 2 + 3)", [("in", (1, 5))]),
        ("s = 'a' || 'b'", [("=", "ab")]),
        ("s like 'a' || 'b%'", [(">=", "ab"), ("<", "ac")]),
        ("at > now()", [(">", NOW)]),
        ("at > now() - interval '1 hour'", [(">", datetime(2024, 3, 31, 11, tzinfo=UTC))]),
        ("at > now() - interval '1 month'", [(">", datetime(2024, 2, 29, 12, tzinfo=UTC))]),
        ("d >= current_date - 1", [(">=", date(2024, 3, 30))]),
        ("d between current_date - 1 and current_date", [(">=", date(2024, 3, 30)), ("<=", date(2024, 3, 31))]),
        ("at > '2024-01-01'::date + 30", [(">", datetime(2024, 1, 31, tzinfo=UTC))]),
        ("ts >= '2024-01-01'::date", [(">=", datetime(2024, 1, 1))]),  # noqa: DTZ001 - a timestamp has no zone
        ("d >= now()", [(">=", date(2024, 3, 30))]),
        ("d < now()", [("<=", date(2024, 4, 1))]),
        ("d = now()", [(">=", date(2024, 3, 30)), ("<=", date(2024, 4, 1))]),
        ("not (id > 2 + 3)", [("<=", 5)]),
    ],
)
def test_operands_are_constants(catalog: CatalogSnapshot, condition: str, found: list[tuple[str, Any]]) -> None:
    assert [(each.op, each.value) for each in comparisons(plan_of(catalog, condition), ())] == found


def test_days_and_months_are_those_of_the_session(catalog: CatalogSnapshot) -> None:
    (found,) = comparisons(plan_of(catalog, "at > now() - interval '1 day'"), (), "Europe/Berlin")
    assert found.value == datetime(2024, 3, 30, 13, tzinfo=UTC)


def test_parameters_are_part_of_them(catalog: CatalogSnapshot) -> None:
    params = (
        ir.Literal(value=NOW, type=SqlType(t.TIMESTAMPTZ)),
        ir.Literal(value=ir.Interval(0, 1, 0), type=SqlType(t.INTERVAL)),
    )
    (found,) = comparisons(plan_of(catalog, "at >= $1::timestamptz - $2::interval"), params)
    assert found.value == datetime(2024, 3, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "condition",
    [
        "id = 5",
        "id = $1",
        "id = id + 1",
        "n > random()",
        "at < clock_timestamp()",
        "id = (select 5) + 1",
        "false and id = 1 / 0",
        "case when id > 0 then id = 5 + 1 end",
        "id in (select 5 + 1)",
        "s is null",
    ],
)
def test_others_are_left(catalog: CatalogSnapshot, condition: str) -> None:
    assert plan_of(catalog, condition).operands is None


def test_what_never_changes_is_worked_out_once(catalog: CatalogSnapshot) -> None:
    operands = plan_of(catalog, "id = 5 + 1 and id < $1 + 1").operands
    assert operands is not None
    given = Given((ir.Literal(value=7, type=SqlType(t.INT4)),), NOW, NOW, "UTC")
    assert operands.at_once(given) is not None
    assert list(operands.known) == [0]
    assert shown(operands) == "((id = 6) AND (id < ($1 + 1)))"


def shown(operands: Operands) -> str:
    (node,) = [node for node in walk(operands.query.rel) if isinstance(node, ir.Filter)]
    names = {field.id: field.name for field in node.fields}
    return expression_text(operands.shown(node.condition), names)
