"""Walking and rewriting the IR: generic over its node types, which are frozen structs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from planner.ir import bound
from planner.ir import nodes as ir
from planner.types.signature import Volatility
from planner.types.types import SqlType

_NO_NODES = frozenset({"type", "signature", "equals", "operator", "operators", "name", "names", "kind", "fields"})
_PLAIN = frozenset({
    "int", "str", "bool", "int | None", "str | None", "LockStrength | None", "LockWait", "Signature", "SqlType",
})  # fmt: skip

_NODES: dict[type, tuple[str, ...]] = {
    cls: tuple(
        name for name in cls.__struct_fields__ if name not in _NO_NODES and cls.__annotations__[name] not in _PLAIN
    )
    for cls in (*vars(ir).values(), *vars(bound).values())
    if isinstance(cls, type)
    and issubclass(cls, Struct)
    and cls not in (Struct, ir.Field, ir.Origin, ir.Interval, ir.Literal)
}
"""The attributes of each node class that may hold other nodes."""

RELATIONS: frozenset[type] = frozenset(get_args(ir.Rel))
"""The classes of relations."""

_T = TypeVar("_T")


def transform(node: _T, replace_node: Callable[[Any], Any | None]) -> _T:
    """`node` with every part for which `replace_node` gives something other than None replaced by that (top down;
    a replacement is not visited again). Untouched parts are shared."""
    result: _T = _transform(node, replace_node)
    return result


def _transform(node: Any, replace_node: Callable[[Any], Any | None]) -> Any:
    if isinstance(node, tuple):
        items = [_transform(item, replace_node) for item in node]
        if all(new is old for new, old in zip(items, node, strict=True)):
            return node
        return tuple(items)
    attributes = _NODES.get(type(node))
    if attributes is None:
        if isinstance(node, ir.Literal):
            found = replace_node(node)
            return node if found is None else found
        return node
    replacement = replace_node(node)
    if replacement is not None:
        return replacement
    changes = {}
    for name in attributes:
        old = getattr(node, name)
        if old is None or isinstance(old, (str, bool, int)):
            continue
        new = _transform(old, replace_node)
        if new is not old:
            changes[name] = new
    return replace(node, **changes) if changes else node


def walk(node: Any) -> Iterator[Any]:
    """Every node in `node` (a scalar, a relation or a tuple of them), itself first, subqueries included."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(reversed(current))
            continue
        if type(current) in _NODES:
            yield current
            stack.extend(_reversed_parts(current))
        elif isinstance(current, ir.Literal):
            yield current


def _reversed_parts(node: Any) -> list[Any]:
    """What the attributes of a node hold that may be nodes, the last one first."""
    values = [getattr(node, name) for name in reversed(_NODES.get(type(node), ()))]
    return [value for value in values if value is not None and not isinstance(value, (str, bool, int))]


def children(node: Any) -> Iterator[Any]:
    """The nodes directly in `node`, which is one: relations, scalars, and what holds some of these together."""
    stack = _reversed_parts(node)
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(reversed(current))
        elif isinstance(current, Struct):
            yield current


def outermost_relations(node: Any) -> Iterator[ir.Rel]:
    """The relations inside a scalar or a tuple, without those inside them; of a relation its inputs and the subqueries
    of its own expressions."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, tuple):
            stack.extend(reversed(current))
            continue
        if type(current) in RELATIONS and current is not node:
            yield current
        else:
            stack.extend(_reversed_parts(current))


def column_ids(node: Any) -> Iterator[int]:
    """The ids of all columns that `node` refers to."""
    for part in walk(node):
        if isinstance(part, ir.ColumnRef):
            yield part.id


def conjuncts(scalar: ir.Scalar) -> tuple[ir.Scalar, ...]:
    """The conditions that have to hold all."""
    if isinstance(scalar, ir.BoolOp) and scalar.op == "and":
        return tuple([inner for arg in scalar.args for inner in conjuncts(arg)])
    return (scalar,)


def is_correlated(rel: ir.Rel) -> bool:
    """Whether a subquery refers to columns of the queries around it."""
    own = {field.id for part in walk(rel) if type(part) in RELATIONS for field in part.fields}
    return any(id not in own for id in column_ids(rel))


def column_uses(node: object, inside: bool = False) -> Iterator[tuple[int, bool]]:
    """Every column reference in an expression, with whether it is inside a subquery."""
    if isinstance(node, ir.ColumnRef):
        yield node.id, inside
    elif isinstance(node, tuple):
        for item in node:
            yield from column_uses(item, inside)
    elif isinstance(node, Struct) and not isinstance(node, (SqlType, ir.Field, ir.Literal, ir.Param)):
        nested = inside or isinstance(node, _SUBQUERIES)
        for name in _field_names(type(node)):
            value = getattr(node, name)
            if isinstance(value, (tuple, Struct)):
                yield from column_uses(value, nested)


_SUBQUERIES = (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)
_NAMES: dict[type, tuple[str, ...]] = {}
_SKIPPED = frozenset({"type", "signature", "fields", "operator", "operators", "equals", "origin"})


def _field_names(cls: type[Struct]) -> tuple[str, ...]:
    names = _NAMES.get(cls)
    if names is None:
        names = tuple([name for name in cls.__struct_fields__ if name not in _SKIPPED])
        _NAMES[cls] = names
    return names


def is_volatile(node: Any) -> bool:
    """Whether evaluating `node` twice could give two values."""
    return any(isinstance(part, ir.Call) and part.signature.volatility is Volatility.VOLATILE for part in walk(node))
