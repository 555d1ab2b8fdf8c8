"""Constant parts of a query for which Spark would call a function in Python (``int4range(1, 5)``): their values are put
in their place. PostgreSQL works them out as well when it plans (eval_const_expressions), or could.

Spark evaluates such a call in a process beside it, once for each row, and fails on a condition of a join that holds one
inside of another: it takes the inner one, which reads no column, for one of the left side's rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from adapter.plans.computed.folded_constants import MAX_PARTS, constant_parts, one_row
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import transform
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging

MAX_QUERIES = 512
"""Queries known, as many as an engine knows."""

MAX_LOOKED_AT = 1000
"""Constant parts of a query that are looked at. Those after them stay calls."""

MAX_CHARS = 4096
"""A longer value stays a call."""


class PythonConstants:
    """Queries with such parts. Belongs to the event loop."""

    def __init__(self) -> None:
        self._known: BoundedMap[int, PythonParts] = aging(BoundedMap(max_entries=MAX_QUERIES))
        """By identity of the query, which an entry keeps alive."""

    def of(self, query: BoundQuery, settings: Mapping[str, str]) -> PythonParts | None:
        """Those of `query` under a session's `settings`, the same mapping as long as they are the same; None when they
        are not known yet."""
        known = self._known.get(id(query))
        return known if known is not None and known.query is query and known.settings is settings else None

    def keep(self, parts: PythonParts) -> None:
        """Notes what has been found of a query."""
        self._known.put(id(parts.query), parts)


class PythonParts:
    """Those of one query under some settings; finding them takes a while where the query is long. `done` is the query
    with their values, as soon as they are known."""

    def __init__(self, query: BoundQuery, settings: Mapping[str, str]) -> None:
        self.query = query
        self.settings = settings
        self.done: BoundQuery | None = None
        # A server that only the local engine's simple statements are sent to never loads the lowering.
        from planner.lowering.lower import calls_python

        parts = constant_parts(query)[:MAX_LOOKED_AT]
        found = [(expr, part) for expr, part in parts if calls_python(part, "spark")][:MAX_PARTS]
        # NOTE: known by identity, for constants that are equal need not be the same (0.0 and -0.0).
        self._exprs = [expr for expr, _ in found]
        self._parts = [part for _, part in found]
        if not found:
            self.done = query

    def asked(self) -> BoundQuery:
        """The query whose one row is their values."""
        return one_row(self._parts)

    def leave(self) -> BoundQuery:
        """The query as it is, since they cannot be worked out beforehand."""
        self.done = self.query
        return self.query

    def put(self, values: Sequence[Any]) -> BoundQuery:
        """The query with these values of its parts, as `ir.Literal` has them."""
        known = {
            id(expr): ir.Literal(value=value, type=expr.type)
            for expr, value in zip(self._exprs, values, strict=True)
            if len(repr(value)) <= MAX_CHARS
        }
        rel = transform(self.query.rel, lambda node: known.get(id(node)))
        self.done = replace(self.query, rel=rel)
        return self.done
