"""Constants that a relation's source holds: so few that many scans of it stay as cheap as one."""

from __future__ import annotations

from planner.analyze import analyze
from planner.ir.bound import BoundQuery
from planner.lowering.fragments.context import MAX_CONSTANTS
from planner.lowering.lower import LoweredQuery, lower
from planner.syntax.parse import split_and_parse
from storage.catalog.model import CatalogSnapshot
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn
from tests.planner.support import context_of, create

CONTEXT = context_of(create(CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1)), "CREATE TABLE t (a int)"))


def union_of(count: int) -> LoweredQuery:
    (parsed,) = split_and_parse(" UNION ALL ".join([f"SELECT a FROM t WHERE a = {n}" for n in range(count)]))
    bound = analyze(parsed, CONTEXT)
    assert isinstance(bound, BoundQuery)
    return lower(bound.rel, "local", frozenset(bound.relations), ())


def held(query: LoweredQuery) -> int:
    return sum([len(constants) for constants in query.constants.values()])


def test_a_source_holds_few_constants() -> None:
    assert held(union_of(3)) == 3
    assert held(union_of(500)) <= MAX_CONSTANTS
    assert len(union_of(1_000).sql) < 2.2 * len(union_of(500).sql)
