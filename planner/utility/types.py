"""CREATE TYPE and ALTER TYPE of enums."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.statements import records as st
from planner.syntax.names import name_from_list
from planner.syntax.parse import Parsed, Tree


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
    "create_enum_stmt": _create_enum,
    "alter_enum_stmt": _alter_enum,
}
"""By kind of parse tree: what makes its statement."""
