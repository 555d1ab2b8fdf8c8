"""Relations made of queries: CREATE TABLE AS, SELECT INTO, views, materialized views."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.errors import InvalidParameterValue
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import qualified_name
from planner.syntax.options import option_text, relation_parameters, storage_parameter
from planner.syntax.parse import Parsed, Tree
from planner.utility.tables import check_place, on_commit


def _create_table_as(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    into = tree.into
    check_place(into.access_method, into.table_space_name)
    return st.CreateTableAs(
        name=qualified_name(into.rel, parsed),
        query=parsed.part(tree.query),
        column_names=tuple(node.string.sval for node in into.col_names),
        if_not_exists=tree.if_not_exists,
        with_data=not into.skip_data,
        temporary=into.rel.relpersistence == "t",
        materialized_view=tree.objtype == pb.OBJECT_MATVIEW,
        unlogged=into.rel.relpersistence == "u",
        options=relation_parameters(into.options),
        on_commit=on_commit(into.on_commit),
    )


def select_into(parsed: Parsed) -> st.CreateTableAs:
    """SELECT ... INTO as the CREATE TABLE AS that it is. `parsed.tree` is a SelectStmt with an INTO clause."""
    node = pb.Node()
    node.select_stmt.CopyFrom(parsed.tree)
    leftmost = node.select_stmt
    while leftmost.HasField("larg"):
        leftmost = leftmost.larg
    into = pb.IntoClause()
    into.CopyFrom(leftmost.into_clause)
    leftmost.ClearField("into_clause")
    return st.CreateTableAs(
        name=qualified_name(into.rel, parsed),
        query=parsed.part(node),
        temporary=into.rel.relpersistence == "t",
        select_into=True,
    )


def _refresh(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.RefreshMaterializedView(
        name=qualified_name(tree.relation, parsed), concurrently=tree.concurrent, with_data=not tree.skip_data
    )


def _create_view(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreateView(
        name=qualified_name(tree.view, parsed),
        query=parsed.part(tree.query),
        column_names=tuple(node.string.sval for node in tree.aliases),
        or_replace=tree.replace,
        temporary=tree.view.relpersistence == "t",
        check_option=_check_option(tree),
        options=tuple(
            storage_parameter(node.def_elem) for node in tree.options if node.def_elem.defname != "check_option"
        ),
    )


def _check_option(tree: Tree) -> str | None:
    """What WITH CHECK OPTION, or the option `check_option`, says. Raises 22023 for another value."""
    option = {pb.LOCAL_CHECK_OPTION: "local", pb.CASCADED_CHECK_OPTION: "cascaded"}.get(tree.with_check_option)
    for node in tree.options:
        element = node.def_elem
        if element.defname != "check_option":
            continue
        option = checked_check_option(option_text(element))
    return option


def checked_check_option(value: str | None) -> str:
    """A value for the option `check_option` of a view. Raises 22023 for what is none."""
    if value not in ("local", "cascaded"):
        raise InvalidParameterValue(
            f'invalid value for enum option "check_option": {value}',
            detail='Valid values are "local" and "cascaded".',
        )
    return value


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_table_as_stmt": _create_table_as,
    "refresh_mat_view_stmt": _refresh,
    "view_stmt": _create_view,
}
"""By kind of parse tree: what makes its statement."""
