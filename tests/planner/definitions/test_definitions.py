"""Stored definitions (views, defaults), EXECUTE parameters, session values, deep nesting."""

from __future__ import annotations

import pytest

from planner.analyze import analyze, bind_execute, define_view
from planner.definitions.defaults import bind_default, stored_default
from planner.errors import (
    DatatypeMismatch,
    DuplicateColumn,
    FeatureNotSupported,
    GroupingError,
    SqlSyntaxError,
    StatementTooComplex,
    UndefinedColumn,
    UndefinedParameter,
)
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal
from planner.resolution.session_values import session_values, substitute
from planner.statements.records import CreateView, Execute
from planner.syntax.parse import split_and_parse
from planner.types.types import (
    BOOL,
    DATE,
    FLOAT4,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    numeric_typmod,
)
from storage.catalog.model import CatalogUpdate, Column
from storage.timestamps.csn import Csn
from tests.planner.support import context_of, corpus_context, create


def view_text(sql: str) -> str:
    """The stored text of the view that `sql` creates."""
    statement = analyze(split_and_parse(sql)[0], corpus_context())
    assert isinstance(statement, CreateView)
    return define_view(statement, corpus_context()).definition


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select * from u", "SELECT u.a, u.x, u.y, u.z FROM public.u"),
        ("select q.*, 1 as one from (select a from t) q", "SELECT q.a, 1 AS one FROM (SELECT t.a FROM public.t) q"),
        ("select a from t natural join (select 1 as a) q", "SELECT t.a FROM public.t JOIN (SELECT 1 AS a) q USING (a)"),
        ("with r as (select a from u) select * from r", "WITH r AS (SELECT u.a FROM public.u) SELECT r.a FROM r"),
        ("select relname from pg_class", "SELECT pg_class.relname FROM pg_catalog.pg_class"),
        ("select b as x from t order by x", "SELECT t.b AS x FROM public.t ORDER BY x"),
    ],
)
def test_a_view_is_stored_with_every_name_qualified(query: str, expected: str) -> None:
    assert view_text(f"create view w as {query}") == expected


def test_a_view_does_not_see_columns_added_later() -> None:
    context = corpus_context()
    catalog = create(context.catalog, "create view w as select * from u natural join (select 1::bigint as a) q;")
    old = catalog.relation(2200, "u")
    assert old is not None
    new = type(old)(
        **{name: getattr(old, name) for name in old.__struct_fields__ if name != "columns"},
        columns=(*old.columns, Column(attnum=9, name="added", type_oid=INT4)),
    )
    catalog = catalog.apply(
        [CatalogUpdate(record=old, diff=-1), CatalogUpdate(record=new, diff=1)], Csn(catalog.csn + 1)
    )
    bound = analyze(split_and_parse("select * from w")[0], context_of(catalog))
    assert isinstance(bound, BoundQuery)
    assert [field.name for field in bound.rel.fields] == ["a", "x", "y", "z"]


def test_a_view_refuses_what_postgresql_refuses() -> None:
    with pytest.raises(DuplicateColumn, match='column "a" specified more than once'):
        view_text("create view w as select a, a from t")
    with pytest.raises(UndefinedParameter, match=r"there is no parameter \$1"):
        view_text("create view w as select $1::int")
    with pytest.raises(SqlSyntaxError, match="CREATE VIEW specifies more column names than columns"):
        view_text("create view w(p, q) as select 1")


def test_defaults() -> None:
    context = corpus_context()
    bound = bind_default("1", "c", SqlType(NUMERIC, numeric_typmod(5, 2)), context)
    assert bound.rel.fields[0].type.oid == NUMERIC
    with pytest.raises(DatatypeMismatch) as caught:
        bind_default("now()", "c", SqlType(INT4), context)
    assert caught.value.message == (
        'column "c" is of type integer but default expression is of type timestamp with time zone'
    )
    with pytest.raises(FeatureNotSupported, match="cannot use column reference in DEFAULT expression"):
        bind_default("a", "c", SqlType(INT4), context)
    with pytest.raises(FeatureNotSupported, match="cannot use subquery in DEFAULT expression"):
        bind_default("1 + (SELECT 1)", "c", SqlType(INT4), context)
    with pytest.raises(GroupingError, match="aggregate functions are not allowed in DEFAULT expressions"):
        bind_default("sum(1)", "c", SqlType(INT4), context)


@pytest.mark.parametrize(
    ("written", "type", "kept"),
    [
        ("'it''s'", TEXT, "'it''s'::text"),
        ("'ab'", VARCHAR, "'ab'::character varying"),
        ("'5'", INT4, "5"),
        ("-1", INT8, "'-1'::integer"),
        ("-1.50", NUMERIC, "'-1.50'::numeric"),
        ("'yes'", BOOL, "true"),
        ("'nan'", FLOAT4, "'NaN'::real"),
        ("'01/02/2020'", DATE, "'2020-01-02'::date"),
        ("'x'::varchar", TEXT, "'x'::character varying"),
        ("'now'", TIMESTAMPTZ, "'now'"),
        ("NULL", TEXT, None),
        ("1 + 2", INT4, "(1 + 2)"),
        ("5", INT8, "5"),
        ("lower('A') || 1", VARCHAR, "(lower('A'::text) || 1)"),
        ("now() + '1 day'", TIMESTAMPTZ, "(now() + '1 day'::interval)"),
        ("current_date", DATE, "CURRENT_DATE"),
    ],
)
def test_defaults_that_are_constants_are_kept_as_postgresql_prints_them(
    written: str, type: int, kept: str | None
) -> None:
    assert stored_default(written, "c", SqlType(type), corpus_context()) == kept


def execute(sql: str) -> Execute:
    """An EXECUTE statement."""
    statement = analyze(split_and_parse(sql)[0], corpus_context())
    assert isinstance(statement, Execute)
    return statement


def test_execute_casts_its_parameters() -> None:
    bound = bind_execute(execute("execute p(1 + 1, 'x')"), [SqlType(INT8), SqlType(TEXT)], corpus_context())
    assert [field.type.oid for field in bound.rel.fields] == [INT8, TEXT]
    with pytest.raises(SqlSyntaxError) as caught:
        bind_execute(execute("execute p(1)"), [SqlType(INT8), SqlType(TEXT)], corpus_context())
    assert caught.value.detail == "Expected 2 parameters but got 1."
    with pytest.raises(DatatypeMismatch) as mismatch:
        bind_execute(execute("execute p(now())"), [SqlType(INT4)], corpus_context())
    assert mismatch.value.message == (
        "parameter $1 of type timestamp with time zone cannot be coerced to the expected type integer"
    )


def test_session_values_are_found_and_replaced() -> None:
    sql = "select now(), current_user, current_setting('TimeZone'), current_setting('x.y', true) from t"
    bound = analyze(split_and_parse(sql)[0], corpus_context())
    names = session_values(bound)
    assert names == {"now", "current_user", "setting:TimeZone", "setting_or_null:x.y"}
    replaced = substitute(bound, {name: Literal(value="v", type=SqlType(TEXT)) for name in names})
    assert session_values(replaced) == frozenset()
    assert isinstance(replaced, BoundQuery)
    assert isinstance(replaced.rel, ir.Project)
    assert replaced.rel.exprs[0] == Literal(value="v", type=SqlType(TIMESTAMPTZ))


def test_long_chains_are_bound() -> None:
    sql = "select " + " || ".join(["'a'"] * 800)
    assert isinstance(analyze(split_and_parse(sql)[0], corpus_context()), BoundQuery)


def test_endless_nesting_is_an_error_not_a_crash() -> None:
    sql = "select " + "+".join(["1"] * 60_000)
    with pytest.raises((StatementTooComplex, SqlSyntaxError)):
        analyze(split_and_parse(sql)[0], corpus_context())


def test_positions_count_characters_of_the_whole_string() -> None:
    _, second = split_and_parse("select 'é', 1; select nope")
    with pytest.raises(UndefinedColumn) as caught:
        analyze(second, corpus_context())
    assert caught.value.position == 23
