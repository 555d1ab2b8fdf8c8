"""Functions and procedures, built in and of users: their rows of pg_proc, and their arguments and results as text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.definitions import shown_expression
from adapter.system_catalogs.objects.function_rows import user_row
from adapter.system_catalogs.objects.objects import CatalogObjects, builtin_functions_by_name, static_row
from planner.catalog_data import content as catalog_data
from planner.definitions.expression_text import ObjectNames
from planner.syntax.identifiers import quote_identifier
from planner.types import type_names
from planner.types.user_types import function_name
from storage.catalog.model import INFORMATION_SCHEMA_OID, OWN_SCHEMA_OID, PG_CATALOG_OID
from storage.catalog.routines import Function


def function_row(objects: CatalogObjects, oid: int) -> Mapping[str, Any] | None:
    """The row of pg_proc of any function; None when there is none."""
    record = objects.snapshot.get(oid)
    if isinstance(record, Function):
        return user_row(record)
    position = static_row("pg_proc", "oid").get(oid)
    if position is None:
        return None
    return {name: values[position] for name, values in builtin_columns("pg_proc").items()}


def pg_proc(objects: CatalogObjects) -> Content:
    """Functions, those of users after the built-in ones."""
    return Content(columns=builtin_columns("pg_proc"), rows=[user_row(record) for record in objects.functions])


def function_arguments(
    objects: CatalogObjects, oid: int, names: ObjectNames | None = None, *, identity: bool = False
) -> str | None:
    """pg_get_function_arguments, or, for `identity`, without defaults as ALTER FUNCTION needs them. `names` is what
    regclass and the like show."""
    row = function_row(objects, oid)
    if row is None:
        return None
    types = row["proallargtypes"] or row["proargtypes"]
    modes = row["proargmodes"] or ["i"] * len(types)
    called = row["proargnames"] or [""] * len(types)
    defaults = [] if identity else _defaults(objects, oid, row, names)
    inputs = [position for position, mode in enumerate(modes) if mode in "ibv"]
    default_of = dict(zip(inputs[len(inputs) - len(defaults) :], defaults, strict=True))
    ordered_set_split = _direct_arguments(oid) if row["prokind"] == "a" else None
    is_procedure = row["prokind"] == "p"
    parts: list[str] = []
    for position, (type_oid, mode, name) in enumerate(zip(types, modes, called, strict=True)):
        if mode == "t":
            continue
        prefix = {"o": "OUT ", "b": "INOUT ", "v": "VARIADIC "}.get(mode, "IN " if is_procedure else "")
        text = prefix + (quote_identifier(name) + " " if name else "") + type_names.format_type(type_oid)
        if position in default_of:
            text += f" DEFAULT {default_of[position]}"
        parts.append(text)
    if ordered_set_split is not None:
        direct = parts[:ordered_set_split]
        ordered = parts[ordered_set_split:] or parts[-1:]
        return f"{', '.join(direct)} ORDER BY {', '.join(ordered)}".lstrip()
    return ", ".join(parts)


def argument_default(objects: CatalogObjects, oid: int, number: int, names: ObjectNames | None = None) -> str | None:
    """pg_get_function_arg_default: the default of the parameter with this number, from 1, or None."""
    row = function_row(objects, oid)
    defaults = [] if row is None else _defaults(objects, oid, row, names)
    if row is None or not defaults:
        return None
    modes = row["proargmodes"] or ["i"] * len(row["proargtypes"])
    if not 1 <= number <= len(modes) or modes[number - 1] not in "ibv":
        return None
    place = sum(mode in "ibv" for mode in modes[:number]) - 1
    first = len(row["proargtypes"]) - len(defaults)
    return defaults[place - first] if place >= first else None


def _defaults(objects: CatalogObjects, oid: int, row: Mapping[str, Any], names: ObjectNames | None) -> list[str]:
    """The defaults of the last parameters of a function, as they are shown."""
    record = objects.snapshot.get(oid)
    if isinstance(record, Function):
        kept = [each.default for each in record.inputs if each.default is not None]
        return [shown_expression(objects, 0, text, names=names) for text in kept]
    return expressions_of(row["proargdefaults"]) if row["proargdefaults"] else []


@cache
def _aggregates() -> Mapping[int, tuple[str, int]]:
    data = catalog_data.columns("pg_aggregate")
    return {
        oid: (kind, direct)
        for oid, kind, direct in zip(data["aggfnoid"], data["aggkind"], data["aggnumdirectargs"], strict=True)
    }


def _direct_arguments(oid: int) -> int | None:
    kind, direct = _aggregates().get(oid, ("n", 0))
    return direct if kind != "n" else None


def expressions_of(text: str) -> list[str]:
    """The expressions of a list like ``'{}'::jsonb, false``, split at the commas outside quotes and parentheses."""
    parts, depth, quoted, start = [], 0, False, 0
    for position, character in enumerate(text):
        if character == "'":
            quoted = not quoted
        elif not quoted and character in "([{":
            depth += 1
        elif not quoted and character in ")]}":
            depth -= 1
        elif character == "," and not quoted and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    return parts


def function_result(objects: CatalogObjects, oid: int) -> str | None:
    """pg_get_function_result: None for procedures and unknown functions."""
    row = function_row(objects, oid)
    if row is None or row["prokind"] == "p":
        return None
    modes, types, names = row["proargmodes"], row["proallargtypes"], row["proargnames"]
    if modes is not None and "t" in modes:
        columns = [
            f"{quote_identifier(name)} {type_names.format_type(type_oid)}"
            for name, type_oid, mode in zip(names, types, modes, strict=True)
            if mode == "t"
        ]
        return f"TABLE({', '.join(columns)})"
    return ("SETOF " if row["proretset"] else "") + type_names.format_type(row["prorettype"])


def is_hidden(objects: CatalogObjects, record: Function, path: tuple[int, ...]) -> bool:
    """Whether a function with the same arguments comes earlier in the search path."""
    for schema in path[: path.index(record.schema)]:
        if any(other.input_types == record.input_types for other in objects.snapshot.functions(schema, record.name)):
            return True
        if schema == PG_CATALOG_OID:
            types = builtin_columns("pg_proc")["proargtypes"]
            rows = (static_row("pg_proc", "oid")[oid] for oid in builtin_functions_by_name().get(record.name, ()))
            if any(tuple(types[row]) == record.input_types for row in rows):
                return True
    return False


def function_signature(objects: CatalogObjects, oid: int) -> str | None:
    """``name(type,type)`` as regprocedure prints it."""
    row = function_row(objects, oid)
    if row is None:
        return None
    arguments = ",".join(type_names.format_type(type_oid) for type_oid in row["proargtypes"])
    if isinstance(objects.snapshot.get(oid), Function):
        return f"{function_name(oid)}({arguments})"
    prefix = {INFORMATION_SCHEMA_OID: "information_schema.", OWN_SCHEMA_OID: "tidegate."}.get(row["pronamespace"], "")
    return f"{prefix}{quote_identifier(row['proname'])}({arguments})"
