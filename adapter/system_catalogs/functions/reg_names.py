"""Input and output of the oid aliases: regclass, regtype, regproc, regprocedure, regoper, regoperator, regnamespace,
regrole, regcollation, regconfig, regdictionary (PostgreSQL, "Object Identifier Types")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.objects.definitions import format_type, qualified_relation_name
from adapter.system_catalogs.objects.functions import function_row, function_signature
from adapter.system_catalogs.objects.objects import (
    builtin_operators,
    builtin_operators_by_name,
)
from planner.catalog_data import content as catalog_data
from planner.common_errors import (
    improper_relation_name,
    invalid_name,
    invalid_type_name,
    missing_function,
    missing_operator,
    missing_relation,
    missing_role,
    missing_schema,
    other_database,
)
from planner.errors import (
    AmbiguousFunction,
    InvalidName,
    InvalidSchemaName,
    InvalidTextRepresentation,
    SqlError,
    UndefinedFunction,
    UndefinedObject,
    UndefinedTable,
)
from planner.resolution.reg_types import check_operands
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from planner.types.type_names import UnknownName, lookup_type, resolve_type_name
from storage.catalog.model import INFORMATION_SCHEMA_OID, PG_CATALOG_OID
from storage.catalog.temporary import is_temporary


def split_name(text: str) -> list[str]:
    """The parts of a dotted name, folded and unquoted like PostgreSQL's stringToQualifiedNameList.

    Raises 42602 for text that is no such name.
    """
    parts: list[str] = []
    position, length = 0, len(text)

    def skip_blanks() -> None:
        nonlocal position
        while position < length and text[position].isspace():
            position += 1

    while True:
        skip_blanks()
        if position < length and text[position] == '"':
            part = ""
            position += 1
            while True:
                end = text.find('"', position)
                if end < 0:
                    raise invalid_name()
                part += text[position:end]
                position = end + 1
                if position < length and text[position] == '"':
                    part += '"'
                    position += 1
                else:
                    break
            if not part:
                raise invalid_name()
        else:
            start = position
            while position < length and text[position] != "." and not text[position].isspace():
                position += 1
            part = text[start:position].lower()
            if not part:
                raise invalid_name()
        parts.append(part)
        skip_blanks()
        if position == length:
            return parts
        if text[position] != ".":
            raise invalid_name()
        position += 1


def namespace_oid(context: Entered, name: str) -> int:
    """The schema called `name`; 3F000 when there is none."""
    schema = context.objects.snapshot.schema(name)
    if schema is None:
        raise missing_schema(name)
    return schema.oid


def _relation_parts(context: Entered, text: str) -> list[str]:
    parts = split_name(text)
    if len(parts) > 3:
        raise improper_relation_name(".".join(parts))
    if len(parts) == 3:
        if parts[0] != context.objects.database:
            raise other_database(".".join(parts))
        parts = parts[1:]
    return parts


def relation_oid(context: Entered, text: str) -> int:
    """The relation that `text` names, as regclass input finds it; 42P01 when there is none."""
    parts = _relation_parts(context, text)
    names = context.objects.relation_by_name
    if len(parts) == 2:
        found = names.get((namespace_oid(context, parts[0]), parts[1]))
    else:
        found = next((names[key] for key in ((schema, parts[0]) for schema in context.path) if key in names), None)
    if found is None:
        raise missing_relation(".".join(parts))
    return found.oid


def type_oid(context: Entered, text: str) -> int:
    """The type that `text` names; 42704 when there is none, 42601 when it is no type name."""
    try:
        parts = split_name(text.strip())
    except InvalidName:
        parts = []
    if 1 <= len(parts) <= 2:
        row = lookup_type(tuple(parts))
        if row is not None and (row.namespace != INFORMATION_SCHEMA_OID or len(parts) == 2):
            return row.oid
        if len(parts) == 2:
            namespace_oid(context, parts[0])
    try:
        parsed = split_and_parse(f"SELECT NULL::{text}")[0]
    except SqlError as error:
        raise invalid_type_name(text) from error
    cast = parsed.tree.target_list[0].res_target.val.type_cast
    try:
        return resolve_type_name(cast.type_name, parsed, located=False).declared_oid
    except UnknownName as error:
        raise error.judged(context.objects.snapshot, context.objects.database) from None


def _in_path(context: Entered, parts: Sequence[str], candidates: Sequence[int]) -> list[int]:
    places = {oid: named.namespace for oid in candidates if (named := context.objects.function(oid)) is not None}
    if len(parts) == 1:
        path = [schema for schema in context.path if not is_temporary(schema)]
        return [oid for schema in path for oid in candidates if places[oid] == schema]
    wanted = namespace_oid(context, parts[-2])
    return [oid for oid in candidates if places[oid] == wanted]


def function_oid(context: Entered, text: str) -> int:
    """The one function called `text`; 42883 when there is none, 42725 when there are several."""
    parts = split_name(text)
    found = _in_path(context, parts, context.objects.functions_named(parts[-1]))
    if not found:
        raise missing_function(text)
    if len(found) > 1:
        raise AmbiguousFunction(f'more than one function named "{text}"')
    return found[0]


def _split_arguments(context: Entered, text: str) -> tuple[str, list[int]]:
    """Name and argument types of ``name(type, type)``; the type `none` is 0."""
    name, parenthesis, rest = text.partition("(")
    if not parenthesis:
        raise InvalidTextRepresentation("expected a left parenthesis")
    if not rest.rstrip().endswith(")"):
        raise InvalidTextRepresentation("expected a right parenthesis")
    body = rest.rstrip()[:-1].strip()
    arguments: list[int] = []
    if body:
        depth, start = 0, 0
        for position, character in enumerate(body + ","):
            if character == "(":
                depth += 1
            elif character == ")":
                depth -= 1
            elif character == "," and depth == 0:
                item = body[start:position].strip()
                arguments.append(0 if item.lower() == "none" else type_oid(context, item))
                start = position + 1
    return name.strip(), arguments


def procedure_oid(context: Entered, text: str) -> int:
    """The function ``name(types)``; 42883 when there is none."""
    name, arguments = _split_arguments(context, text)
    parts = split_name(name)
    for oid in _in_path(context, parts, context.objects.functions_named(parts[-1])):
        row = function_row(context.objects, oid)
        if row is not None and row["proargtypes"] == arguments:
            return oid
    raise missing_function(text)


def operator_oid(context: Entered, text: str) -> int:
    """The one operator called `text`."""
    schema, _, symbol = text.strip().rpartition(".")
    if schema:
        namespace_oid(context, split_name(schema)[-1])
    found = builtin_operators_by_name().get(symbol, ())
    if not found:
        raise missing_operator(text)
    if len(found) > 1:
        raise AmbiguousFunction(f"more than one operator named {text}")
    return found[0]


def operator_signature_oid(context: Entered, text: str) -> int:
    """The operator ``symbol(left,right)``."""
    name, arguments = _split_arguments(context, text)
    check_operands(len(arguments))
    schema, _, symbol = name.rpartition(".")
    operators = builtin_operators()
    for oid in builtin_operators_by_name().get(symbol, ()) if schema in ("", "pg_catalog") else ():
        _, left, right = operators[oid]
        if arguments == [left, right]:
            return oid
    raise missing_operator(text)


def _single_name(text: str) -> str:
    parts = split_name(text)
    if len(parts) != 1:
        raise invalid_name()
    return parts[0]


def role_oid(context: Entered, name: str) -> int:
    """The role called `name`; 42704 when there is none."""
    for oid, role in context.objects.role_names.items():
        if role == name:
            return oid
    raise missing_role(name)


def _named_row(relation: str, column: str, what: str) -> Callable[[Entered, str], int]:
    def find(context: Entered, text: str) -> int:
        parts = split_name(text)
        schema = PG_CATALOG_OID if len(parts) == 1 else namespace_oid(context, parts[-2])
        data = catalog_data.columns(relation)
        try:
            found: int = data["oid"][data[column].index(parts[-1] if schema == PG_CATALOG_OID else "")]
        except ValueError:
            raise UndefinedObject(f'{what} "{text}" does not exist') from None
        return found

    return find


text_search_parser_oid = _named_row("pg_ts_parser", "prsname", "text search parser")

_INPUT: Mapping[str, Callable[[Entered, str], int]] = {
    "regclass": relation_oid,
    "regtype": type_oid,
    "regproc": function_oid,
    "regprocedure": procedure_oid,
    "regoper": operator_oid,
    "regoperator": operator_signature_oid,
    "regnamespace": lambda context, text: namespace_oid(context, _single_name(text)),
    "regrole": lambda context, text: role_oid(context, _single_name(text)),
    "regcollation": _named_row("pg_collation", "collname", "collation"),
    "regconfig": _named_row("pg_ts_config", "cfgname", "text search configuration"),
    "regdictionary": _named_row("pg_ts_dict", "dictname", "text search dictionary"),
}


def reg_input(context: Entered, kind: str, text: str) -> int:
    """The oid that `text` means for the alias type `kind`: a number, ``-`` (0) or a name. Raises as the type's input
    function does when there is no such object."""
    if text == "-" and kind not in ("regoperator",):
        return 0
    if text.isascii() and text.isdigit():
        return int(text)
    return _INPUT[kind](context, text)


def to_reg(context: Entered, kind: str, text: str) -> int | None:
    """to_regclass and its like: None instead of an error for an object that does not exist, and for a number."""
    if text == "-" or (text.isascii() and text.isdigit()):
        return None
    try:
        return _INPUT[kind](context, text)
    except (UndefinedTable, UndefinedObject, UndefinedFunction, AmbiguousFunction, InvalidSchemaName):
        return None


def _function_name(context: Entered, oid: int) -> str | None:
    named = context.objects.function(oid)
    if named is None:
        return None
    name = quote_identifier(named.name)
    unique = len(_in_path(context, [named.name], context.objects.functions_named(named.name))) == 1
    if unique and named.namespace in context.path:
        return name
    return f"{context.objects.schema_name_by_oid.get(named.namespace, '')}.{name}"


def _operator_name(oid: int) -> str | None:
    operator = builtin_operators().get(oid)
    if operator is None:
        return None
    symbol = operator[0]
    return symbol if len(builtin_operators_by_name()[symbol]) == 1 else f"pg_catalog.{symbol}"


def _operator_signature(context: Entered, oid: int) -> str | None:
    operator = builtin_operators().get(oid)
    if operator is None:
        return None
    symbol, left, right = operator
    left_name = format_type(context.objects, left) if left else "NONE"
    return f"{symbol}({left_name},{format_type(context.objects, right)})"


def _static_name(relation: str, column: str, oid: int) -> str | None:
    data = catalog_data.columns(relation)
    names = dict(zip(data["oid"], data[column], strict=True))
    return quote_identifier(names[oid]) if oid in names else None


def _known_relation(context: Entered, oid: int) -> str | None:
    if context.objects.relation(oid) is None:
        return None
    return qualified_relation_name(context.objects, oid, context.path, numbered=True)


def _known_type(context: Entered, oid: int) -> str | None:
    if context.objects.type(oid) is None:
        return None
    return format_type(context.objects, oid, None, context.path)


def _known_schema(context: Entered, oid: int) -> str | None:
    name = context.objects.schema_name_by_oid.get(oid)
    return None if name is None else quote_identifier(name)


def _known_role(context: Entered, oid: int) -> str | None:
    name = context.objects.role_names.get(oid)
    return None if name is None else quote_identifier(name)


_OUTPUT: Mapping[str, Callable[[Entered, int], str | None]] = {
    "regclass": _known_relation,
    "regtype": _known_type,
    "regproc": _function_name,
    "regprocedure": lambda context, oid: function_signature(context.objects, oid),
    "regoper": lambda context, oid: _operator_name(oid),
    "regoperator": _operator_signature,
    "regnamespace": _known_schema,
    "regrole": _known_role,
    "regcollation": lambda context, oid: _static_name("pg_collation", "collname", oid),
    "regconfig": lambda context, oid: _static_name("pg_ts_config", "cfgname", oid),
    "regdictionary": lambda context, oid: _static_name("pg_ts_dict", "dictname", oid),
}


def reg_output(context: Entered, kind: str, oid: int) -> str:
    """The text of an alias type's value: ``-`` for 0, the object's name, or the number when there is no object."""
    if oid == 0:
        return "0" if kind in ("regoper", "regoperator") else "-"
    return _OUTPUT[kind](context, oid) or str(oid)
