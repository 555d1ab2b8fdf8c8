"""CREATE and ALTER SEQUENCE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from planner.common_errors import redundant_options
from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.statements import records as st
from planner.syntax.names import name_from_list, qualified_name
from planner.syntax.parse import Parsed, Tree
from planner.types.type_names import resolve_type_name


def sequence_options(options: Any, parsed: Parsed, *, of_column: bool = False) -> st.SequenceOptions:
    """The options of CREATE and ALTER SEQUENCE and of identity columns. 42601 for one that is given twice, and for one
    that says of the sequence `of_column` what the column does."""
    given: dict[str, Any] = {}
    there = {"as"} if of_column else set[str]()
    for node in options:
        element = node.def_elem
        name = element.defname
        if name in there:
            raise redundant_options(parsed.position(element.location))
        there.add(name)
        has_value = element.HasField("arg")
        if name == "as":
            given["type"] = resolve_type_name(element.arg.type_name, parsed)
        elif name == "sequence_name":
            given["name"] = name_from_list(element.arg.list.items)
        elif name == "owned_by":
            given["owned_by"] = tuple(item.string.sval for item in element.arg.list.items)
        elif name == "cycle":
            given["cycle"] = bool(element.arg.boolean.boolval)
        elif name == "restart":
            given["restart"] = True
            given["restart_with"] = _integer(element) if has_value else None
        elif name in ("minvalue", "maxvalue"):
            long = "minimum" if name == "minvalue" else "maximum"
            if has_value:
                given[long] = _integer(element)
            else:
                given[f"no_{long}"] = True
        elif name in ("start", "increment", "cache"):
            given[name] = _integer(element)
        else:
            raise FeatureNotSupported(f'sequence option "{name}" is not supported')
    return st.SequenceOptions(**given)


def _integer(element: Tree) -> int:
    if element.arg.HasField("float"):
        return int(element.arg.float.fval)
    return int(element.arg.integer.ival)


def _create_sequence(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    for node in tree.options:
        if node.def_elem.defname == "sequence_name":
            position = parsed.position(node.def_elem.location)
            raise SqlSyntaxError("invalid sequence option SEQUENCE NAME", position=position)
    return st.CreateSequence(
        name=qualified_name(tree.sequence, parsed),
        options=sequence_options(tree.options, parsed),
        if_not_exists=tree.if_not_exists,
        temporary=tree.sequence.relpersistence == "t",
    )


def _alter_sequence(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    return st.AlterSequence(
        name=qualified_name(tree.sequence, parsed),
        options=sequence_options(tree.options, parsed),
        if_exists=tree.missing_ok,
    )


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_seq_stmt": _create_sequence,
    "alter_seq_stmt": _alter_sequence,
}
"""By kind of parse tree: what makes its statement."""
