"""What an output column is called when the query does not say (PostgreSQL's FigureColname)."""

from __future__ import annotations

from typing import Any

from planner.ir.nodes import Scalar, ScalarSubquery
from planner.syntax.later_grammar import JSON_CALLS
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree

NO_NAME = "?column?"

_SQL_VALUES = {
    pb.SVFOP_CURRENT_DATE: "current_date",
    pb.SVFOP_CURRENT_TIME: "current_time",
    pb.SVFOP_CURRENT_TIME_N: "current_time",
    pb.SVFOP_CURRENT_TIMESTAMP: "current_timestamp",
    pb.SVFOP_CURRENT_TIMESTAMP_N: "current_timestamp",
    pb.SVFOP_LOCALTIME: "localtime",
    pb.SVFOP_LOCALTIME_N: "localtime",
    pb.SVFOP_LOCALTIMESTAMP: "localtimestamp",
    pb.SVFOP_LOCALTIMESTAMP_N: "localtimestamp",
    pb.SVFOP_CURRENT_ROLE: "current_role",
    pb.SVFOP_CURRENT_USER: "current_user",
    pb.SVFOP_USER: "user",
    pb.SVFOP_SESSION_USER: "session_user",
    pb.SVFOP_CURRENT_CATALOG: "current_catalog",
    pb.SVFOP_CURRENT_SCHEMA: "current_schema",
}


def column_name(node: Tree, scalar: Scalar | None = None) -> str:
    """The name of the column for an expression `Node`; `scalar` is what it was bound to, where known."""
    if isinstance(scalar, ScalarSubquery) and node.HasField("sub_link"):
        return scalar.rel.fields[0].name
    return _figure(node)[0] or NO_NAME


def _figure(node: Tree) -> tuple[str | None, int]:
    """A name and how good it is: 2 a name of its own, 1 a type or `case`, 0 none."""
    kind = node.WhichOneof("node")
    if kind is None:
        return None, 0
    tree = getattr(node, kind)
    if kind == "column_ref":
        for field in reversed(tree.fields):
            if field.HasField("string"):
                return field.string.sval, 2
        return None, 0
    if kind == "a_indirection":
        for step in reversed(tree.indirection):
            if step.HasField("string"):
                return step.string.sval, 2
        return _figure(tree.arg)
    if kind == "func_call":
        return tree.funcname[len(tree.funcname) - 1].string.sval, 2
    if kind in JSON_CALLS:
        return JSON_CALLS[kind], 2
    if kind == "a_expr":
        return ("nullif", 2) if tree.kind == pb.AEXPR_NULLIF else (None, 0)
    if kind == "type_cast":
        name, strength = _figure(tree.arg)
        if strength <= 1:
            names = tree.type_name.names
            return names[len(names) - 1].string.sval, 1
        return name, strength
    if kind == "collate_clause":
        return _figure(tree.arg)
    if kind == "sub_link":
        return _sub_link(tree)
    if kind == "case_expr":
        name, strength = _figure(tree.defresult) if tree.HasField("defresult") else (None, 0)
        return ("case", 1) if strength <= 1 else (name, strength)
    if kind == "sqlvalue_function":
        return _SQL_VALUES[tree.op], 2
    if kind == "min_max_expr":
        return ("greatest" if tree.op == pb.IS_GREATEST else "least"), 2
    fixed = _FIXED.get(kind)
    return (fixed, 2) if fixed is not None else (None, 0)


_FIXED = {
    "merge_support_func": "merge_action",
    "a_array_expr": "array",
    "row_expr": "row",
    "coalesce_expr": "coalesce",
    "grouping_func": "grouping",
    "xml_serialize": "xmlserialize",
}


def _sub_link(tree: Any) -> tuple[str | None, int]:
    if tree.sub_link_type == pb.EXISTS_SUBLINK:
        return "exists", 2
    if tree.sub_link_type == pb.ARRAY_SUBLINK:
        return "array", 2
    if tree.sub_link_type != pb.EXPR_SUBLINK:
        return None, 0
    select = tree.subselect.select_stmt
    while select.HasField("larg"):
        select = select.larg
    if select.values_lists:
        return "column1", 2
    if not select.target_list:
        return None, 0
    target = select.target_list[0].res_target
    return target.name or _figure(target.val)[0] or NO_NAME, 2
