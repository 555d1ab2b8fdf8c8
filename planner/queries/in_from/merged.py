"""What qualifies the columns that JOIN USING merges."""

from __future__ import annotations

from collections.abc import Sequence

from planner.ir.nodes import ColumnRef
from planner.resolution.statement import Level, NsColumn
from planner.syntax.parse import Tree
from planner.types.user_types import STORED_SCHEMA

MERGED = f"{STORED_SCHEMA}_merged_"
"""What the names begin with that stored statements have, and nobody has written."""


def merged_alias(level: Level, tree: Tree, merged: Sequence[NsColumn]) -> str | None:
    """The name that qualifies the merged columns of a join, None where it has none. Where one of them is neither side's
    column, what is written out gets one: a column beside the join may be called the same, or be called so later."""
    if tree.HasField("join_using_alias"):
        name: str = tree.join_using_alias.aliasname
        return name
    statement = level.statement
    stored = statement.definition is not None and statement.view_depth == 0 and statement.notes is not None
    if not stored or tree.HasField("alias") or all(isinstance(each.expr, ColumnRef) for each in merged):
        return None
    assert statement.notes is not None
    return f"{MERGED}{len(statement.notes.merged) + 1}"
