"""Statements about objects of many kinds: CREATE SCHEMA and INDEX, DROP, TRUNCATE, COMMENT."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.definitions.deparse import expression_text
from planner.errors import FeatureNotSupported
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, qualified_name, role_name
from planner.syntax.parse import Parsed, Tree
from planner.utility.object_kinds import OBJECT_KINDS


def _create_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    owner = role_name(tree.authrole) if tree.HasField("authrole") else None
    return st.CreateSchema(
        name=tree.schemaname or owner or "",
        if_not_exists=tree.if_not_exists,
        owner=owner,
        elements=tuple(parsed.part(node) for node in tree.schema_elts),
    )


def _create_index(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    columns = tuple(node.index_elem.name or expression_text(node.index_elem.expr) for node in tree.index_params)
    return st.CreateIndex(
        name=tree.idxname or None,
        table=qualified_name(tree.relation, parsed),
        columns=columns,
        unique=tree.unique,
        concurrently=tree.concurrent,
        if_not_exists=tree.if_not_exists,
    )


def _drop(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = OBJECT_KINDS.get(tree.remove_type)
    if kind is None:
        raise FeatureNotSupported(f"{' '.join(parsed.source.split()[:2]).upper()} is not supported")
    names = []
    for node in tree.objects:
        which = node.WhichOneof("node")
        if which == "list":
            names.append(name_from_list(node.list.items))
        elif which == "string":
            names.append(st.QualifiedName(name=node.string.sval))
        elif which == "type_name":
            names.append(name_from_list(node.type_name.names))
        elif which == "object_with_args":
            names.append(name_from_list(node.object_with_args.objname))
    return st.Drop(kind=kind, names=tuple(names), if_exists=tree.missing_ok, cascade=tree.behavior == pb.DROP_CASCADE)


def _truncate(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.Truncate(
        tables=tuple(qualified_name(node.range_var, parsed) for node in tree.relations),
        restart_identity=tree.restart_seqs,
        cascade=tree.behavior == pb.DROP_CASCADE,
    )


def _comment(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = OBJECT_KINDS.get(tree.objtype, "object")
    node = tree.object
    which = node.WhichOneof("node")
    # In libpg_query's tree COMMENT IS NULL and IS '' look alike; PostgreSQL treats an empty comment as none.
    text = tree.comment or None
    relation: st.QualifiedName | None = None
    if which == "list":
        parts = list(node.list.items)
        if kind in ("column", "constraint", "trigger", "rule", "policy") and len(parts) > 1:
            relation = name_from_list(parts[:-1])
            return st.Comment(kind=kind, name=parts[-1].string.sval, relation=relation, text=text)
        relation = name_from_list(parts)
        return st.Comment(kind=kind, name=relation.name, relation=relation, text=text)
    if which == "string":
        return st.Comment(kind=kind, name=node.string.sval, relation=None, text=text)
    if which == "type_name":
        relation = name_from_list(node.type_name.names)
    elif which == "object_with_args":
        relation = name_from_list(node.object_with_args.objname)
    return st.Comment(kind=kind, name=relation.name if relation else "", relation=relation, text=text)


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_schema_stmt": _create_schema,
    "index_stmt": _create_index,
    "drop_stmt": _drop,
    "truncate_stmt": _truncate,
    "comment_stmt": _comment,
}
"""By kind of parse tree: what makes its statement."""
