"""Relations made of queries: CREATE TABLE AS, SELECT INTO, views, materialized views."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.errors import FeatureNotSupported
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import qualified_name
from planner.syntax.parse import Parsed, Tree
from planner.utility.tables import on_commit


def _create_table_as(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    into = tree.into
    return st.CreateTableAs(
        name=qualified_name(into.rel, parsed),
        query=parsed.part(tree.query),
        column_names=tuple(node.string.sval for node in into.col_names),
        if_not_exists=tree.if_not_exists,
        with_data=not into.skip_data,
        temporary=into.rel.relpersistence == "t",
        materialized_view=tree.objtype == pb.OBJECT_MATVIEW,
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
    if tree.with_check_option not in (0, pb.NO_CHECK_OPTION):
        raise FeatureNotSupported("WITH CHECK OPTION is not supported")
    return st.CreateView(
        name=qualified_name(tree.view, parsed),
        query=parsed.part(tree.query),
        column_names=tuple(node.string.sval for node in tree.aliases),
        or_replace=tree.replace,
        temporary=tree.view.relpersistence == "t",
    )


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_table_as_stmt": _create_table_as,
    "refresh_mat_view_stmt": _refresh,
    "view_stmt": _create_view,
}
"""By kind of parse tree: what makes its statement."""
