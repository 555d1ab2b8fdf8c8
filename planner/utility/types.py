"""CREATE TYPE, and ALTER TYPE of enums."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.errors import FeatureNotSupported
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, qualified_name, statement_title
from planner.syntax.parse import Parsed, Tree
from planner.utility.tables import column_definition


def _create_composite(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    name = qualified_name(tree.typevar, parsed)
    attributes = [column_definition(node.column_def, parsed, name.name)[0] for node in tree.coldeflist]
    return st.CreateComposite(name=name, attributes=tuple(attributes))


def _unsupported(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if tree.kind != pb.OBJECT_TYPE:
        raise FeatureNotSupported(f"{statement_title(parsed)} is not supported")
    if not tree.definition:
        raise FeatureNotSupported("shell types are not supported")
    raise FeatureNotSupported("CREATE TYPE of base types is not supported")


def _create_enum(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.CreateEnum(name=name_from_list(tree.type_name), labels=tuple(value.string.sval for value in tree.vals))


def _alter_enum(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    name = name_from_list(tree.type_name)
    if tree.old_val:
        return st.RenameEnumValue(name=name, label=tree.old_val, new_label=tree.new_val)
    return st.AddEnumValue(
        name=name,
        label=tree.new_val,
        neighbor=tree.new_val_neighbor or None,
        after=tree.new_val_is_after,
        if_not_exists=tree.skip_if_new_val_exists,
    )


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "composite_type_stmt": _create_composite,
    "define_stmt": _unsupported,
    "create_enum_stmt": _create_enum,
    "alter_enum_stmt": _alter_enum,
}
"""By kind of parse tree: what makes its statement."""
