"""Statements about servers of foreign data, user mappings and foreign tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from planner.common_errors import repeated_column
from planner.errors import DuplicateObject, FeatureNotSupported, WrongObjectType
from planner.statements import foreign as ft
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import qualified_name, role_name
from planner.syntax.options import option_text
from planner.syntax.parse import Parsed, Tree
from planner.utility.tables import column_definition

_CONSTRAINTS = {"p": "primary key", "u": "unique", "f": "foreign key", "x": "exclusion"}


def given_options(nodes: Iterable[Tree]) -> ft.GivenOptions:
    """OPTIONS (...) of CREATE. 42710 for one that is given twice."""
    found: dict[str, str] = {}
    for node in nodes:
        name = node.def_elem.defname
        if name in found:
            raise DuplicateObject(f'option "{name}" provided more than once')
        found[name] = option_text(node.def_elem) or ""
    return tuple(found.items())


def option_changes(nodes: Iterable[Tree]) -> tuple[ft.OptionChange, ...]:
    """OPTIONS (...) of ALTER."""
    changes = []
    for node in nodes:
        element = node.def_elem
        if element.defaction == pb.DEFELEM_DROP:
            changes.append(ft.OptionChange(action="drop", name=element.defname))
            continue
        changes.append(
            ft.OptionChange(
                action="set" if element.defaction == pb.DEFELEM_SET else "add",
                name=element.defname,
                value=option_text(element) or "",
            )
        )
    return tuple(changes)


def _create_server(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return ft.CreateServer(
        name=tree.servername,
        wrapper=tree.fdwname,
        type=tree.servertype or None,
        version=tree.version or None,
        options=given_options(tree.options),
        if_not_exists=tree.if_not_exists,
    )


def _alter_server(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return ft.AlterServer(
        name=tree.servername,
        version=tree.version or None,
        has_version=tree.has_version,
        changes=option_changes(tree.options),
    )


def _mapped_role(tree: Tree) -> str | None:
    return None if tree.user.roletype == pb.ROLESPEC_PUBLIC else role_name(tree.user)


def _create_mapping(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return ft.CreateUserMapping(
        role=_mapped_role(tree),
        server=tree.servername,
        options=given_options(tree.options),
        if_not_exists=tree.if_not_exists,
    )


def _alter_mapping(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return ft.AlterUserMapping(role=_mapped_role(tree), server=tree.servername, changes=option_changes(tree.options))


def _drop_mapping(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return ft.DropUserMapping(role=_mapped_role(tree), server=tree.servername, if_exists=tree.missing_ok)


def _create_table(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    base = tree.base_stmt
    if base.HasField("partspec") or base.HasField("partbound"):
        raise FeatureNotSupported("partitioned tables are not supported")
    if base.inh_relations:
        raise FeatureNotSupported("table inheritance is not supported")
    columns: list[st.ColumnDefinition] = []
    options: list[tuple[str, ft.GivenOptions]] = []
    for node in base.table_elts:
        if node.WhichOneof("node") == "table_like_clause":
            raise FeatureNotSupported(
                "LIKE is not supported for creating foreign tables",
                position=parsed.position(node.table_like_clause.relation.location),
            )
        if node.WhichOneof("node") != "column_def":
            raise FeatureNotSupported("constraints of foreign tables are not supported")
        column, own = column_definition(node.column_def, parsed, base.relation.relname)
        for constraint in own:
            kind = _CONSTRAINTS.get(constraint.kind)
            if kind is not None:
                raise FeatureNotSupported(
                    f"{kind} constraints are not supported on foreign tables", position=constraint.position
                )
            raise FeatureNotSupported("check constraints of foreign tables are not supported")
        if column.serial or column.identity or column.generation is not None:
            raise FeatureNotSupported(f'column "{column.name}" of a foreign table cannot have values of its own')
        if any(column.name == other.name for other in columns):
            raise repeated_column(column.name)
        columns.append(column)
        if node.column_def.fdwoptions:
            options.append((column.name, given_options(node.column_def.fdwoptions)))
    if base.constraints:
        raise FeatureNotSupported("constraints of foreign tables are not supported")
    if base.relation.relpersistence != "p":
        raise WrongObjectType("foreign tables cannot be temporary or unlogged")
    return ft.CreateForeignTable(
        name=qualified_name(base.relation, parsed),
        server=tree.servername,
        columns=tuple(columns),
        column_options=tuple(options),
        options=given_options(tree.options),
        if_not_exists=base.if_not_exists,
    )


def _import_schema(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    everything = tree.list_type == pb.FDW_IMPORT_SCHEMA_ALL
    return ft.ImportForeignSchema(
        remote=tree.remote_schema,
        server=tree.server_name,
        schema=tree.local_schema,
        tables=None if everything else tuple(node.range_var.relname for node in tree.table_list),
        but=tree.list_type == pb.FDW_IMPORT_SCHEMA_EXCEPT,
        options=given_options(tree.options),
    )


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_foreign_server_stmt": _create_server,
    "alter_foreign_server_stmt": _alter_server,
    "create_user_mapping_stmt": _create_mapping,
    "alter_user_mapping_stmt": _alter_mapping,
    "drop_user_mapping_stmt": _drop_mapping,
    "create_foreign_table_stmt": _create_table,
    "import_foreign_schema_stmt": _import_schema,
}
"""By kind of parse tree: what makes its statement."""
