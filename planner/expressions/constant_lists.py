"""Long IN lists of constants, taken as one array: `x IN (1, 2, ...)` is `x = ANY ('{1,2,...}')`.

So a list of any length is one node for all that comes after. PostgreSQL does the same with every list of constants
(transformAExprIn); here short ones stay lists, whose items an engine's kept plan can take as values.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.ir.nodes import Literal, QuantifiedArray, Scalar
from planner.ir.written import InArray
from planner.resolution.operators import BOOLEAN, array_operator
from planner.resolution.statement import Level
from planner.syntax.parse import Tree
from planner.types.type_names import array_of
from planner.types.types import INT2, INT4, INT8, TEXT, VARCHAR, SqlType, column_type

MIN_ITEMS = 200
"""Items of a list that is worth it."""


def constant_list(
    level: Level, left: Scalar, nodes: Sequence[Tree], *, negated: bool, location: int
) -> QuantifiedArray | None:
    """`left [NOT] IN (nodes)`; None when the list is short, or not of integers or texts alone."""
    if len(nodes) < MIN_ITEMS:
        return None
    oid = left.type.oid
    values: list[object] | None = None
    if oid in (INT2, INT4, INT8):
        element, values = INT4, _integers(nodes)
    elif oid in (TEXT, VARCHAR):
        element, values = TEXT, _texts(nodes)
    if values is None:
        return None
    array = Literal(value=tuple(values), type=column_type(array_of(element)))
    symbol = "<>" if negated else "="
    arg, operator, array_ = array_operator(level, (symbol,), left, array, location)
    result = QuantifiedArray(
        arg=arg, operator=operator, quantifier="all" if negated else "any", array=array_, type=BOOLEAN
    )
    form = InArray(
        arg=arg,
        items=tuple([Literal(value=value, type=SqlType(element)) for value in values]),
        element=element,
        compared=operator.args[1],
        symbol=symbol,
        negated=negated,
    )
    level.statement.written_as(result, form)
    return result


def _integers(nodes: Sequence[Tree]) -> list[object] | None:
    values: list[object] = []
    for node in nodes:
        constant = node.a_const
        if constant.WhichOneof("val") != "ival":
            return None
        values.append(constant.ival.ival)
    return values


def _texts(nodes: Sequence[Tree]) -> list[object] | None:
    values: list[object] = []
    for node in nodes:
        constant = node.a_const
        if constant.WhichOneof("val") != "sval":
            return None
        values.append(constant.sval.sval)
    return values
