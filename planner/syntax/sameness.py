"""Whether two texts are the same statements to PostgreSQL: their parse trees are compared.

Where a construct stands in its text is no part of it. `same` asks for the same tree otherwise; `means_the_same` also
takes for equal what PostgreSQL's analysis makes equal and printers of SQL like to write in another way:

- ``+ x`` and ``x``; ``- 1`` as an operator and as a number;
- ``x NOT IN (...)``, ``NOT LIKE``, ``NOT ILIKE``, ``NOT SIMILAR TO``, ``NOT BETWEEN``, ``!~``, ``!~*`` and NOT in front
  of the other operator;
- ``now()`` and CURRENT_TIMESTAMP, ``current_schema()`` and CURRENT_SCHEMA;
- the name of a type with ``pg_catalog.`` in front and without.
"""

from __future__ import annotations

from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, subtrees

_PLACES = ("location", "stmt_len", "list_start", "list_end")
"""The ends of the names of fields that say where something stands."""

_POSITIVE = {"<>": "=", "!~~": "~~", "!~~*": "~~*", "!~": "~", "!~*": "~*"}
_NEGATABLE = {pb.AEXPR_IN, pb.AEXPR_LIKE, pb.AEXPR_ILIKE, pb.AEXPR_SIMILAR}
_BETWEEN = {
    pb.AEXPR_NOT_BETWEEN: (pb.AEXPR_BETWEEN, "BETWEEN"),
    pb.AEXPR_NOT_BETWEEN_SYM: (pb.AEXPR_BETWEEN_SYM, "BETWEEN SYMMETRIC"),
}
_KEYWORDS = {"now": pb.SVFOP_CURRENT_TIMESTAMP, "current_schema": pb.SVFOP_CURRENT_SCHEMA}


def same(one: Tree, other: Tree) -> bool:
    """Whether two parse trees are alike. Both lose their locations."""
    return bool(_without_places(one) == _without_places(other))


def means_the_same(one: Tree, other: Tree) -> bool:
    """Whether PostgreSQL makes the same of two parse trees. Changes both."""
    return bool(_simplified(_without_places(one)) == _simplified(_without_places(other)))


def _without_places(tree: Tree) -> Tree:
    for message in subtrees(tree):
        for descriptor, _ in message.ListFields():
            if descriptor.name.endswith(_PLACES):
                message.ClearField(descriptor.name)
    return tree


def _simplified(tree: Tree) -> Tree:
    # Inner constructs first: `subtrees` gives a message before what is inside it.
    for message in reversed(list(subtrees(tree))):
        kind = message.DESCRIPTOR.name
        if kind == "TypeName" and len(message.names) > 1 and message.names[0].string.sval == "pg_catalog":
            del message.names[0]
        if kind != "Node":
            continue
        match message.WhichOneof("node"):
            case "a_expr":
                _simplify_operation(message)
            case "func_call":
                _simplify_call(message)
    return tree


def _simplify_operation(node: Tree) -> None:
    operation = node.a_expr
    name = operation.name[-1].string.sval
    if operation.kind == pb.AEXPR_OP and len(operation.name) == 1 and not operation.HasField("lexpr"):
        if name == "+":
            _replace(node, operation.rexpr)
        elif name == "-" and operation.rexpr.a_const.WhichOneof("val") in ("ival", "fval"):
            number = pb.Node()
            number.CopyFrom(operation.rexpr)
            if number.a_const.HasField("ival"):
                number.a_const.ival.ival *= -1
            else:
                number.a_const.fval.fval = "-" + number.a_const.fval.fval
            _replace(node, number)
    elif operation.kind in _BETWEEN:
        _negate(node, *_BETWEEN[operation.kind])
    elif name in _POSITIVE and (operation.kind in _NEGATABLE or (operation.kind == pb.AEXPR_OP and "~" in name)):
        _negate(node, operation.kind, _POSITIVE[name])


def _simplify_call(node: Tree) -> None:
    call = node.func_call
    if len(call.funcname) == 1 and not call.args and call.funcname[0].string.sval in _KEYWORDS:
        keyword = pb.Node()
        keyword.sqlvalue_function.op = _KEYWORDS[call.funcname[0].string.sval]
        keyword.sqlvalue_function.typmod = -1
        _replace(node, keyword)


def _negate(node: Tree, kind: int, name: str) -> None:
    """Makes `node` NOT in front of itself with another operator."""
    inner = pb.Node()
    inner.CopyFrom(node)
    inner.a_expr.kind = kind
    inner.a_expr.name[-1].string.sval = name
    node.Clear()
    node.bool_expr.boolop = pb.NOT_EXPR
    node.bool_expr.args.append(inner)


def _replace(node: Tree, by: Tree) -> None:
    kept = pb.Node()
    kept.CopyFrom(by)
    node.CopyFrom(kept)
