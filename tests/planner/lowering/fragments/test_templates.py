"""Filling templates: what is repeated is evaluated once, what cannot be is refused."""

from __future__ import annotations

import pytest

from planner.dialects.engine_name import EngineName
from planner.dialects.quoting import quoted
from planner.errors import FeatureNotSupported
from planner.functions.forms.form import SessionSettings
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, column, made, simple
from planner.lowering.fragments.templates import calls_python, fill

COLUMN = column("t1", "c2")
RANDOM = Fragment("random()", volatile=True)
SUBQUERY = Fragment("(SELECT 1 AS c3)", subquery=True)
IN_PYTHON = Fragment("tg_upper(t1.c2)", python=True)
LONG = Fragment("concat(" + ", ".join(["t1.c2"] * 12) + ")")
ENGINES: tuple[EngineName, ...] = ("local", "spark")


def context(engine: EngineName) -> Context:
    return Context(engine, frozenset(), (), SessionSettings())


@pytest.mark.parametrize("engine", ENGINES)
def test_places_are_filled(engine: EngineName) -> None:
    filled = fill(context(engine), "({0} + {1} * {0})", [COLUMN, simple("3")])
    assert filled == Fragment("(t1.c2 + 3 * t1.c2)")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("repeated", [RANDOM, LONG])
def test_what_costs_or_changes_is_bound_to_a_name(engine: EngineName, repeated: Fragment) -> None:
    filled = fill(context(engine), "CASE WHEN {0} > {1} THEN {0} END", [repeated, COLUMN])
    assert filled.sql.count(repeated.sql) == 1
    assert filled.volatile == repeated.volatile
    assert "CASE WHEN v1 > t1.c2 THEN v1 END" in filled.sql


def test_a_subquery_is_the_value_of_a_binding_where_the_engine_takes_it() -> None:
    filled = fill(context("local"), "CASE WHEN {0} > {1} THEN {0} END", [RANDOM, SUBQUERY])
    assert filled.sql.endswith("lambda v1: CASE WHEN v1.a0 > v1.a1 THEN v1.a0 END)[1]")
    assert filled.subquery
    assert filled.volatile


def test_a_subquery_is_repeated_where_it_may_stand_in_no_binding() -> None:
    filled = fill(context("spark"), "CASE WHEN {0} > 1 THEN {0} END", [SUBQUERY])
    assert filled.sql == "CASE WHEN (SELECT 1 AS c3) > 1 THEN (SELECT 1 AS c3) END"


@pytest.mark.parametrize("args", [[RANDOM, SUBQUERY], [made("(SELECT rand())", RANDOM, SUBQUERY), COLUMN]])
def test_what_would_be_evaluated_twice_is_refused(args: list[Fragment]) -> None:
    with pytest.raises(FeatureNotSupported, match="a volatile expression in this place"):
        fill(context("spark"), "CASE WHEN {0} > {1} THEN {0} END", args)


def test_what_the_engine_itself_evaluates_twice_is_bound() -> None:
    assert fill(context("local"), "({0} IN (1, 2))", [RANDOM], repeats=0).sql == (
        "list_transform([random()], lambda v1: (v1 IN (1, 2)))[1]"
    )
    assert fill(context("local"), "({0} IN (1, 2))", [COLUMN], repeats=0).sql == "(t1.c2 IN (1, 2))"


def test_no_lambda_of_spark_calls_python() -> None:
    filled = fill(context("spark"), "CASE WHEN {0} > 1 THEN {1} ELSE {0} END", [LONG, IN_PYTHON])
    assert filled.sql == (
        f"transform(array(named_struct('a0', {LONG}, 'a1', tg_upper(t1.c2))), "
        "v1 -> CASE WHEN v1.a0 > 1 THEN v1.a1 ELSE v1.a0 END)[0]"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_only_code_counts(engine: EngineName) -> None:
    ctx = context(engine)
    constant = fill(ctx, f"({{0}} || {quoted(ctx.dialect.string('error( tg_upper( {0} {1}'))})", [COLUMN])
    assert constant.sql == "(t1.c2 || 'error( tg_upper( {0} {1}')"
    assert constant == Fragment(constant.sql)
    assert fill(ctx, f"CASE WHEN {{0}} THEN {ctx.dialect.raise_sql('22003', 'x')} END", [COLUMN]).may_raise
    assert calls_python("tg_upper({0})", ctx.dialect)
    assert not calls_python(ctx.dialect.string("tg_upper(")[:-1] + "'", ctx.dialect)


@pytest.mark.parametrize("text", ["\x01", "\x01{", "{0}\x01"])
def test_no_text_of_a_user_stands_for_a_brace(text: str) -> None:
    ctx = context("local")
    assert fill(ctx, quoted(ctx.dialect.string(text)), []).sql == f"'{text}'"
