"""Queries that must agree with themselves, whatever the tables hold.

Ternary logic partitioning (TLP; Rigger and Su, OOPSLA 2020): the rows of a query are those for which a condition is
true, false and unknown, put together. NoREC (ESEC/FSE 2020): a condition that a WHERE clause may decide in any clever
way is counted where nothing can be clever.
"""

from __future__ import annotations

from msgspec import Struct

from tests.generated.queries import Queries


class Pair(Struct, frozen=True):
    """Two queries with the same rows, in any order."""

    first: str
    second: str


def partitioned(queries: Queries) -> Pair:
    """A query without a condition, and its three parts."""
    source = queries.source(1, ())
    condition = queries.condition(source.items, 1)
    targets = ", ".join(f"{item.text} as c{number}" for number, item in enumerate(source.items))
    query = f"select {targets} from {source.text}"
    parts = (f"({condition})", f"not ({condition})", f"({condition}) is null")
    return Pair(query, " union all ".join(f"{query} where {part}" for part in parts))


def counted(queries: Queries) -> Pair:
    """How many rows fulfil a condition: counted by WHERE, and by asking each row."""
    source = queries.source(1, ())
    condition = queries.condition(source.items, 1)
    asked = f"select count(*) filter (where c) from (select ({condition}) as c from {source.text}) asked"
    return Pair(f"select count(*) from {source.text} where {condition}", asked)
