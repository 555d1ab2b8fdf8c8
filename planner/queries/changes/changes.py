"""Which statements change rows, and what binds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.ir.bound import BoundChange
from planner.queries.changes.dml import bind_delete, bind_insert, bind_update
from planner.queries.changes.merge import bind_merge
from planner.resolution.statement import Level
from planner.syntax.parse import Tree

CHANGES: Mapping[str, Callable[[Level, Tree], BoundChange]] = {
    "insert_stmt": bind_insert,
    "update_stmt": bind_update,
    "delete_stmt": bind_delete,
    "merge_stmt": bind_merge,
}
"""What binds each kind of them, in a level of its own."""


def bind_change(level: Level, node: Tree) -> BoundChange:
    """A statement that changes rows, inside another one."""
    kind = node.WhichOneof("node")
    return CHANGES[kind](level, getattr(node, kind))
