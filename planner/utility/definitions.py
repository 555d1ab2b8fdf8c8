"""From parse trees to statements about tables, views, schemas and the like (PostgreSQL's DDL)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.statements import records as st
from planner.syntax.parse import Parsed, Tree
from planner.utility import alterations, objects, queries, sequences, tables
from planner.utility.queries import select_into

DDL: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    **tables.BUILDERS,
    **queries.BUILDERS,
    **sequences.BUILDERS,
    **objects.BUILDERS,
    **alterations.BUILDERS,
}
"""By kind of parse tree: what makes its statement."""

__all__ = ["DDL", "select_into"]
