"""A string constant never changes the SQL around it, whatever it looks like."""

from __future__ import annotations

import pytest

from planner.analyze import analyze
from planner.dialects.engine_name import EngineName
from planner.dialects.of_engine import dialect_of
from planner.ir.bound import BoundQuery
from planner.lowering.lower import lower
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn
from tests.planner.support import context_of, create

CONTEXT = context_of(create(CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1)), "CREATE TABLE t (a text)"))

WORDS = (
    "SELECT", "(SELECT 1", "error(", "raise_error(", " DESC", "random()", "rand(", "tg_initcap(", "grouping(",
    "LATERAL ", "t1.c2", "{0}", "{1}", "AS t9", "'", "((", "))", "\x01", "NULL", "e -> e",
)  # fmt: skip

QUERIES = (
    "SELECT left(a || {}, length(a) - 3) FROM t",
    "SELECT y, y || y FROM (SELECT a || {} AS y FROM t) s",
    "SELECT a FROM t WHERE a || {} = ANY (ARRAY[{}, a])",
    "SELECT a FROM t WHERE a || {} IN (SELECT {} || a FROM t)",
    "SELECT a FROM t WHERE split_part(a, {}, 2) IN ({}, 'a')",
    "SELECT row_number() OVER (PARTITION BY a || {} ORDER BY a || {} DESC) FROM t",
    "SELECT a || {}, count(*) FROM t GROUP BY ROLLUP (a) HAVING a || {} <> {}",
    "SELECT DISTINCT ON (a || {}) a, {} FROM t ORDER BY a || {}, a DESC",
    "SELECT a FROM t ORDER BY a || {} FETCH FIRST 2 ROWS WITH TIES",
    "SELECT a FROM t ORDER BY (SELECT a || {}), a",
    "SELECT string_agg(a || {}, {} ORDER BY a || {} DESC), array_agg({} || a) FROM t",
    "SELECT jsonb_agg(a || {} ORDER BY a), json_object_agg(a || {}, {}) FROM t",
    "SELECT sum(length(a || {})) FILTER (WHERE a <> {}) OVER () FROM t",
    "SELECT x.a FROM t x LEFT JOIN t y ON x.a || {} = y.a CROSS JOIN LATERAL (SELECT x.a || {} AS z) s",
    "SELECT a FROM t LIMIT length({})",
    "SELECT (a, {}), ROW({}, a)::text, CASE a WHEN {} THEN 1 ELSE 2 END, coalesce(a, {}) FROM t",
    "SELECT greatest(a::char(9), {}), nullif(a, {}), (ARRAY[{}, a])[length(a)], ARRAY(SELECT a || {} FROM t) FROM t",
    "SELECT a || {} FROM t UNION SELECT {} EXCEPT SELECT a FROM t ORDER BY 1",
    "WITH c AS (SELECT a || {} AS a FROM t) SELECT * FROM c, generate_series(1, length({}))",
)


def sql(query: str, constant: str, engine: EngineName) -> str:
    """The engine's SQL for `query` with `constant` in its places, the constant's literal replaced."""
    quoted = "'" + constant.replace("'", "''") + "'"
    (parsed,) = split_and_parse(query.replace("{}", quoted))
    bound = analyze(parsed, CONTEXT)
    assert isinstance(bound, BoundQuery)
    return lower(bound.rel, engine).sql.replace(dialect_of(engine).string(constant), "<constant>")


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("query", QUERIES)
def test_constants_do_not_change_the_sql_around_them(query: str, engine: EngineName) -> None:
    for word in WORDS:
        assert sql(query, word, engine) == sql(query, "x" * len(word), engine)
