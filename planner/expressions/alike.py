"""Whether two expressions are the same but for the numbers of what they define inside themselves.

Columns, common tables and named values get a new number each time a text is bound, so that a subquery which stands in
the select list and again in GROUP BY is not equal to itself. Source of the rule: PostgreSQL's equal(), which looks for
expressions in GROUP BY, DISTINCT and ORDER BY.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from planner.ir import nodes as ir
from planner.ir.rewrite import RELATIONS, walk

_DEFINES = {ir.CommonTable: "table", ir.Let: "value", ir.ForEach: "value", ir.DomainValue: "value"}
_REFERS = {ir.ColumnRef: ("column", "id"), ir.LetValue: ("value", "id"), ir.CteScan: ("table", "cte")}
_MAKES = {ir.FunctionScan: ("ordinality",), ir.Scan: ("row_id",)}
"""Numbers of columns beside `fields`, where there are such columns."""


def is_alike(left: ir.Scalar, right: ir.Scalar) -> bool:
    """Whether the expressions would be equal if what is defined inside of them had the same numbers. Where one of them
    does not define anything (`has_own`), `==` says so and is cheaper."""
    return _same(left, right, {})


def has_own(expr: ir.Scalar) -> bool:
    """Whether columns, common tables or values are defined inside an expression."""
    return any(type(part) in RELATIONS or type(part) in _DEFINES for part in walk(expr))


def _same(left: Any, right: Any, numbers: dict[tuple[str, int], int]) -> bool:
    """`numbers`: by kind and number in `left`, what has been found to be its number in `right`."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple):
        return len(left) == len(right) and all(
            _same(one, other, numbers) for one, other in zip(left, right, strict=True)
        )
    if not isinstance(left, Struct):
        return bool(left == right)
    if isinstance(left, ir.Field):
        numbers["column", left.id] = right.id
        return bool(left.type == right.type)
    own = None
    if type(left) in _DEFINES:
        own = "id"
        numbers[_DEFINES[type(left)], left.id] = right.id  # type: ignore[attr-defined]
    elif type(left) in _REFERS:
        kind, own = _REFERS[type(left)]
        number = getattr(left, own)
        if numbers.get((kind, number), number) != getattr(right, own):
            return False
    for name in _MAKES.get(type(left), ()):
        if (getattr(left, name) is None) != (getattr(right, name) is None):
            return False
    skipped = (own, *_MAKES.get(type(left), ()))
    return all(
        _same(getattr(left, name), getattr(right, name), numbers)
        for name in left.__struct_fields__
        if name not in skipped
    )
