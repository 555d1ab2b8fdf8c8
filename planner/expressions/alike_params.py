"""Parameters by the thousand: what binding one of them gave is what binding the others of its kind gives.

VALUES and IN with 32,767 parameters bind as many expressions that differ in a number only.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from planner.ir.nodes import Cast, Param, Scalar
from planner.resolution.statement import Statement
from planner.syntax.parse import Tree
from planner.types.types import UNKNOWN


def with_param(model: Scalar, param: Param) -> Scalar | None:
    """`model`, which is a parameter or casts of one, with `param` in its place; None when it is anything else."""
    if isinstance(model, Param):
        return replace(model, index=param.index)
    if isinstance(model, Cast):
        inner = with_param(model.arg, param)
        return None if inner is None else replace(model, arg=inner)
    return None


MAX_PARAM = 65_535
"""The largest number of a parameter (PostgreSQL's)."""


class AlikeParams:
    """Binds the items of rows by `bind_item(column, node)`, and parameters of one column and one declared type once."""

    def __init__(self, statement: Statement, bind_item: Callable[[int, Tree], Scalar]) -> None:
        self._statement = statement
        self._bind_item = bind_item
        self._models: dict[tuple[int, int], Scalar] = {}
        """By column and the oid of the parameter's type before it was bound."""

    def bind(self, column: int, node: Tree) -> Scalar:
        """The item `node` of `column`. Raises what `bind_item` raises."""
        if not node.HasField("param_ref") or self._statement.arguments is not None:
            return self._bind_item(column, node)
        number = node.param_ref.number
        types = self._statement.param_types
        known = types.get(number)
        oid = UNKNOWN if known is None else known.oid
        model = self._models.get((column, oid))
        if model is not None:
            found = with_param(model, Param(index=number, type=model.type))
            inner = found
            while isinstance(inner, Cast):
                inner = inner.arg
            if found is not None and inner is not None and 1 <= number <= MAX_PARAM:
                types[number] = inner.type
                return found
        bound = self._models[column, oid] = self._bind_item(column, node)
        return bound
