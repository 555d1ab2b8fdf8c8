"""Statements about objects of many kinds: CREATE SCHEMA, INDEX and POLICY, DROP, TRUNCATE, COMMENT."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from planner.definitions.deparse import expression_text
from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, oid_text, qualified_name, role_name, strings
from planner.syntax.object_kinds import OBJECT_KINDS
from planner.syntax.options import option_or_true, storage_parameter
from planner.syntax.parse import Parsed, Tree
from planner.utility.routines import ROUTINES, dropped_routine, routine_name


def _create_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    owner = role_name(tree.authrole) if tree.HasField("authrole") else None
    return st.CreateSchema(
        name=tree.schemaname,
        if_not_exists=tree.if_not_exists,
        owner=owner,
        elements=tuple(parsed.part(node) for node in tree.schema_elts),
    )


def _create_index(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreateIndex(
        name=tree.idxname or None,
        table=qualified_name(tree.relation, parsed),
        method=tree.access_method or "btree",
        elements=tuple(index_element(node.index_elem, parsed) for node in tree.index_params),
        include=tuple(index_element(node.index_elem, parsed) for node in tree.index_including_params),
        predicate=parsed.expression(tree.where_clause) if tree.HasField("where_clause") else None,
        unique=tree.unique,
        nulls_not_distinct=tree.nulls_not_distinct,
        concurrently=tree.concurrent,
        if_not_exists=tree.if_not_exists,
        tablespace=tree.table_space or None,
        options=tuple(storage_parameter(node.def_elem) for node in tree.options),
    )


def index_element(tree: Tree, parsed: Parsed) -> st.IndexElement:
    """An IndexElem."""
    written = parsed.expression(tree.expr) if tree.HasField("expr") else None
    return st.IndexElement(
        name=tree.name or None,
        expression=written,
        text=tree.name if written is None else expression_text(tree.expr),
        collation=strings(tree.collation),
        operator_class=strings(tree.opclass),
        class_options=tuple((node.def_elem.defname, option_or_true(node.def_elem)) for node in tree.opclassopts),
        descending={pb.SORTBY_ASC: False, pb.SORTBY_DESC: True}.get(tree.ordering),
        nulls_first={pb.SORTBY_NULLS_FIRST: True, pb.SORTBY_NULLS_LAST: False}.get(tree.nulls_ordering),
    )


def _create_policy(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreatePolicy(
        name=tree.policy_name,
        table=qualified_name(tree.table, parsed),
        command=tree.cmd_name,
        permissive=tree.permissive,
        roles=_policy_roles(tree.roles),
        using=parsed.expression(tree.qual) if tree.HasField("qual") else None,
        check=parsed.expression(tree.with_check) if tree.HasField("with_check") else None,
    )


def _alter_policy(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.AlterPolicy(
        name=tree.policy_name,
        table=qualified_name(tree.table, parsed),
        roles=_policy_roles(tree.roles),
        using=parsed.expression(tree.qual) if tree.HasField("qual") else None,
        check=parsed.expression(tree.with_check) if tree.HasField("with_check") else None,
    )


def _policy_roles(nodes: Iterable[Tree]) -> tuple[str | None, ...]:
    """Names of roles, None for PUBLIC."""
    specs = [node.role_spec for node in nodes]
    return tuple(None if spec.roletype == pb.ROLESPEC_PUBLIC else role_name(spec) for spec in specs)


_NAMELESS = re.compile(r"\bstatistics\s+(?:if\s+not\s+exists\s+)?(\(|on\b)", re.IGNORECASE)


def _create_statistics(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if not tree.defnames:
        # Only later versions choose a name.
        found = _NAMELESS.search(parsed.text, parsed.start)
        token, place = ("on", None) if found is None else (found[1], found.start(1) + 1)
        raise SqlSyntaxError(f'syntax error at or near "{token}"', position=place)
    return st.CreateStatistics(
        name=name_from_list(tree.defnames),
        kinds=strings(tree.stat_types),
        elements=tuple(_statistics_element(node.stats_elem, parsed) for node in tree.exprs),
        tables=tuple(
            qualified_name(node.range_var, parsed) if node.HasField("range_var") else None for node in tree.relations
        ),
        if_not_exists=tree.if_not_exists,
    )


def _statistics_element(tree: Tree, parsed: Parsed) -> st.IndexElement:
    if not tree.HasField("expr"):
        return st.IndexElement(name=tree.name, text=tree.name)
    return st.IndexElement(expression=parsed.expression(tree.expr), text=expression_text(tree.expr))


def _alter_statistics(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    target = tree.stxstattarget.integer.ival if tree.HasField("stxstattarget") else -1
    return st.AlterStatistics(name=name_from_list(tree.defnames), target=target, if_exists=tree.missing_ok)


def _drop(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = OBJECT_KINDS.get(tree.remove_type)
    if kind is None:
        raise FeatureNotSupported(f"{' '.join(parsed.source.split()[:2]).upper()} is not supported")
    if kind in ROUTINES:
        routines = tuple(
            dropped_routine(node.object_with_args, kind, parsed, if_exists=tree.missing_ok) for node in tree.objects
        )
        return st.Drop(
            kind=kind,
            names=tuple(routine.name for routine in routines),
            if_exists=tree.missing_ok,
            cascade=tree.behavior == pb.DROP_CASCADE,
            routines=routines,
        )
    names = []
    for node in tree.objects:
        which = node.WhichOneof("node")
        if which == "list":
            names.append(name_from_list(node.list.items))
        elif which == "string":
            names.append(st.QualifiedName(name=node.string.sval))
        elif which == "type_name":
            names.append(_type_name(node.type_name))
        elif which == "object_with_args":
            names.append(name_from_list(node.object_with_args.objname))
    return st.Drop(
        kind=kind,
        names=tuple(names),
        if_exists=tree.missing_ok,
        cascade=tree.behavior == pb.DROP_CASCADE,
        concurrently=tree.concurrent,
    )


def _type_name(node: Tree) -> st.QualifiedName:
    """The name of a type, an array by its own name."""
    name = name_from_list(node.names)
    return replace(name, name=f"_{name.name}") if node.array_bounds else name


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
    if kind in ROUTINES:
        routine = routine_name(node.object_with_args, kind, parsed)
        return st.Comment(kind=kind, name=routine.name.name, relation=routine.name, text=text, routine=routine)
    relation: st.QualifiedName | None = None
    if which == "list":
        parts = list(node.list.items)
        if tree.objtype == pb.OBJECT_DOMCONSTRAINT:
            domain = name_from_list(parts[0].type_name.names)
            return st.Comment(kind="domain constraint", name=parts[1].string.sval, relation=domain, text=text)
        if kind in ("column", "constraint", "trigger", "rule", "policy") and len(parts) > 1:
            relation = name_from_list(parts[:-1])
            return st.Comment(kind=kind, name=parts[-1].string.sval, relation=relation, text=text)
        relation = name_from_list(parts)
        return st.Comment(kind=kind, name=relation.name, relation=relation, text=text)
    if which == "string":
        return st.Comment(kind=kind, name=node.string.sval, relation=None, text=text)
    if kind == "large object":
        return st.Comment(kind=kind, name=oid_text(node), relation=None, text=text)
    if which == "type_name":
        relation = name_from_list(node.type_name.names)
    elif which == "object_with_args":
        relation = name_from_list(node.object_with_args.objname)
    return st.Comment(kind=kind, name=relation.name if relation else "", relation=relation, text=text)


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_schema_stmt": _create_schema,
    "index_stmt": _create_index,
    "create_stats_stmt": _create_statistics,
    "alter_stats_stmt": _alter_statistics,
    "create_policy_stmt": _create_policy,
    "alter_policy_stmt": _alter_policy,
    "drop_stmt": _drop,
    "truncate_stmt": _truncate,
    "comment_stmt": _comment,
}
"""By kind of parse tree: what makes its statement."""
