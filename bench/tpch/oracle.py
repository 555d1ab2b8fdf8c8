"""The independent answers: the same data and queries on a real PostgreSQL."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg

from bench.tpch.load import copy_tables, create_tables, queries

INDEXES = (
    "CREATE INDEX ON lineitem (l_partkey, l_suppkey)",
    "CREATE INDEX ON lineitem (l_orderkey)",
    "CREATE INDEX ON orders (o_orderkey)",
    "CREATE INDEX ON orders (o_custkey)",
    "CREATE INDEX ON partsupp (ps_partkey, ps_suppkey)",
    "CREATE INDEX ON part (p_partkey)",
    "CREATE INDEX ON supplier (s_suppkey)",
)
Row = tuple[Any, ...]


def answers(dsn: str, data: Path) -> dict[int, list[Row]]:
    """Loads `data` into the PostgreSQL at `dsn` and returns each query's rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        create_tables(connection)
        copy_tables(connection, data, progress=lambda *_: None)
        for statement in (*INDEXES, "ANALYZE"):
            connection.execute(statement)
        return {number: connection.execute(text).fetchall() for number, text in queries()}


def difference(ours: list[Row], theirs: list[Row]) -> str | None:
    """The first difference between two results as a sentence, or None when they are equal.

    Rows are compared in order. Numbers must be equal; trailing zeros of a numeric do not count.
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} rows where PostgreSQL has {len(theirs)}"
    for index, (left, right) in enumerate(zip(ours, theirs, strict=True)):
        if len(left) != len(right):
            return f"row {index + 1} has {len(left)} columns where PostgreSQL has {len(right)}"
        for column, (mine, other) in enumerate(zip(left, right, strict=True)):
            same_kind = type(mine) is type(other) or {type(mine), type(other)} <= {int, Decimal}
            if mine != other or not same_kind:
                return f"row {index + 1}, column {column + 1}: {mine!r} where PostgreSQL has {other!r}"
    return None
