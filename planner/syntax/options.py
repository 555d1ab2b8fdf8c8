"""The values of options in parse trees (DefElem), as PostgreSQL's defGetString and defGetBoolean read them."""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import FeatureNotSupported, SqlSyntaxError
from planner.syntax.parse import Tree


def option_text(element: Tree) -> str | None:
    """The value of a DefElem as text, None when it has none."""
    if not element.HasField("arg"):
        return None
    kind = element.arg.WhichOneof("node")
    value = getattr(element.arg, kind)
    if kind == "string":
        return str(value.sval)
    if kind == "integer":
        return str(value.ival)
    if kind == "float":
        return str(value.fval)
    if kind == "boolean":
        return "true" if value.boolval else "false"
    if kind == "type_name":
        return ".".join(name.string.sval for name in value.names)
    if kind == "list":
        return ", ".join(item.string.sval for item in value.items)
    if kind == "a_star":
        return "*"
    raise SqlSyntaxError(f'unexpected value of option "{element.defname}"')


def option_or_true(element: Tree) -> str:
    """The value of a DefElem as text, ``true`` when it has none."""
    text = option_text(element)
    return "true" if text is None else text


def storage_parameter(element: Tree) -> tuple[str, str]:
    """What WITH (...) says of a relation: a name, with its namespace (``toast.autovacuum_enabled``), and a value."""
    name = f"{element.defnamespace}.{element.defname}" if element.defnamespace else str(element.defname)
    return name, option_or_true(element)


def relation_parameters(nodes: Sequence[Tree]) -> tuple[tuple[str, str], ...]:
    """What WITH (...) says of a new table. Raises 0A000 for OIDs; that there are none goes without saying."""
    found = []
    for node in nodes:
        element = node.def_elem
        if element.defname != "oids" or element.defnamespace:
            found.append(storage_parameter(element))
        elif option_flag(element):
            raise FeatureNotSupported("tables declared WITH OIDS are not supported")
    return tuple(found)


def option_flag(element: Tree) -> bool:
    """The value of a DefElem as a boolean, by PostgreSQL's defGetBoolean: no value means true."""
    text = option_text(element)
    if text is None:
        return True
    folded = text.lower()
    if folded in ("true", "on", "1"):
        return True
    if folded in ("false", "off", "0"):
        return False
    raise SqlSyntaxError(f"{element.defname} requires a Boolean value")


def boolean_value(text: str) -> bool | None:
    """What PostgreSQL's parse_bool reads; None for what is no boolean."""
    folded = text.lower()
    if folded in ("on", "1"):
        return True
    if folded in ("off", "of", "0"):
        return False
    words = {"true": True, "false": False, "yes": True, "no": False}
    return next((value for word, value in words.items() if folded and word.startswith(folded)), None)
