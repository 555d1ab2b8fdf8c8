"""The types that name catalog objects (regclass, regtype, regproc, ...): text to oid while binding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.catalog_data.content import columns, system_indexes
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
    InvalidTextRepresentation,
    SqlSyntaxError,
    TooManyArguments,
    UndefinedObject,
    UndefinedParameter,
)
from planner.functions import registry
from planner.functions.own_routines import own_routines_named
from planner.resolution.required import closed_schema
from planner.syntax.names import qualifier
from planner.syntax.parse import split_and_parse
from planner.types.system_relations import OWN_SCHEMA
from planner.types.table_indexes import index_called
from planner.types.type_names import UnknownName, resolve_type_name
from planner.types.types import (
    REGCLASS,
    REGCOLLATION,
    REGCONFIG,
    REGDICTIONARY,
    REGNAMESPACE,
    REGOPERATOR,
    REGPROC,
    REGPROCEDURE,
    REGROLE,
    REGTYPE,
)
from storage.catalog.access import Role
from storage.catalog.model import PG_CATALOG_OID, Schema

if TYPE_CHECKING:
    from planner.resolution.statement import BindContext


def resolve_reg(context: BindContext, oid: int, text: str) -> int:
    """The oid of the object that `text` names, for one of `REG_TYPES`. A number is taken as it is, `-` is 0.

    Raises 42P01, 42704, 42883, 42725 or 3F000 as PostgreSQL's input functions do.
    """
    stripped = text.strip()
    if stripped.isdigit():
        return int(stripped)
    if stripped == "-":
        return 0
    if oid == REGCLASS:
        return _relation(context, stripped)
    if oid == REGTYPE:
        return _type(context, stripped)
    if oid == REGNAMESPACE:
        return _schema(context, single_name(stripped)).oid
    if oid == REGROLE:
        name = single_name(stripped)
        for record in context.catalog.all():
            if isinstance(record, Role) and record.name == name:
                return record.oid
        raise missing_role(name)
    if oid in (REGPROC, REGPROCEDURE):
        return _function(context, stripped, with_arguments=oid == REGPROCEDURE)
    if oid == REGCOLLATION:
        return _by_name(context, "pg_collation", "collname", stripped, "collation")
    if oid == REGCONFIG:
        return _by_name(context, "pg_ts_config", "cfgname", stripped, "text search configuration")
    if oid == REGDICTIONARY:
        return _by_name(context, "pg_ts_dict", "dictname", stripped, "text search dictionary")
    return _operator(context, stripped, with_arguments=oid == REGOPERATOR)


def _schema(context: BindContext, name: str) -> Schema:
    schema = context.catalog.schema(name)
    if schema is None:
        raise missing_schema(name)
    return schema


def _open_schema(context: BindContext, name: str) -> Schema:
    schema = _schema(context, name)
    if name in context.closed_schemas:
        raise closed_schema(name)
    return schema


def _schema_oid(context: BindContext, parts: list[str]) -> int:
    """The schema in a name; pg_catalog, where everything is, when it has none."""
    schema = qualifier(parts, context.database)
    return PG_CATALOG_OID if schema is None else _open_schema(context, schema).oid


def single_name(text: str) -> str:
    """The name of what has no schema. Raises 42602."""
    parts = split_name(text)
    if len(parts) != 1:
        raise invalid_name()
    return parts[0]


def split_name(text: str) -> list[str]:
    """The parts of a possibly qualified name, folded and unquoted (stringToQualifiedNameList). Raises 42602."""
    parts: list[str] = []
    index, length = 0, len(text)
    while True:
        while index < length and text[index].isspace():
            index += 1
        if index < length and text[index] == '"':
            index += 1
            start_parts: list[str] = []
            while True:
                end = text.find('"', index)
                if end < 0:
                    raise invalid_name()
                start_parts.append(text[index:end])
                index = end + 1
                if index < length and text[index] == '"':
                    start_parts.append('"')
                    index += 1
                    continue
                break
            part = "".join(start_parts)
            if not part:
                raise invalid_name()
        else:
            start = index
            while index < length and text[index] != "." and not text[index].isspace():
                index += 1
            part = text[start:index].lower()
            if not part:
                raise invalid_name()
        parts.append(part)
        while index < length and text[index].isspace():
            index += 1
        if index >= length:
            return parts
        if text[index] != ".":
            raise invalid_name()
        index += 1


def _relation(context: BindContext, text: str) -> int:
    parts = split_name(text)
    if len(parts) > 3:
        raise improper_relation_name(".".join(parts))
    if len(parts) == 3:
        if parts[0] != context.database:
            raise other_database(".".join(parts))
        parts = parts[1:]
    if len(parts) == 2:
        _open_schema(context, parts[0])
    found = find_relation_oid(context, parts[0] if len(parts) == 2 else None, parts[-1])
    if found is None:
        raise missing_relation(".".join(parts))
    return found


def find_relation_oid(context: BindContext, schema: str | None, name: str) -> int | None:
    """The oid of a table, view, sequence, index or system relation; `schema` None searches the path."""
    for candidate in (schema,) if schema is not None else context.searched_schemas():
        system = context.system_relations.lookup(candidate, name)
        if system is not None:
            return system.oid
        if candidate == "pg_catalog" and name in system_indexes():
            return system_indexes()[name]
        record = context.catalog.schema(candidate)
        if record is not None:
            oid = context.catalog.relation_names.get((record.oid, name))
            if oid is not None:
                return oid
            index = index_called(context.catalog, record.oid, name)
            if index is not None:
                return index.oid
    return None


def _type(context: BindContext, text: str) -> int:
    try:
        parsed = split_and_parse(f"SELECT NULL::{text}")
    except SqlSyntaxError:
        raise invalid_type_name(text) from None
    tree = parsed[0].tree.target_list[0].res_target.val if len(parsed) == 1 else None
    if tree is None or not tree.HasField("type_cast"):
        raise invalid_type_name(text)
    try:
        return resolve_type_name(tree.type_cast.type_name, parsed[0], located=False).declared_oid
    except UnknownName as error:
        raise error.judged(context.catalog, context.database) from None


def _function(context: BindContext, text: str, *, with_arguments: bool) -> int:
    name = text
    arguments: list[int] | None = None
    if with_arguments:
        if "(" not in text:
            raise _invalid("expected a left parenthesis")
        if not text.endswith(")"):
            raise _invalid("expected a right parenthesis")
        name, _, rest = text[:-1].partition("(")
        arguments = [_type(context, part.strip()) for part in rest.split(",")] if rest.strip() else []
    parts = split_name(name)
    schema = qualifier(parts, context.database)
    found = _procedures(parts[-1]) if _schema_oid(context, parts) == PG_CATALOG_OID else []
    if schema == OWN_SCHEMA:
        found = [(each.oid, list(each.input_types)) for each in own_routines_named(parts[-1])]
    for path in context.called_schemas() if schema is None else (schema,):
        record = context.catalog.schema(path)
        own = () if record is None else context.catalog.functions(record.oid, parts[-1])
        taken = [types for _, types in found]
        found += [(f.oid, list(f.input_types)) for f in own if list(f.input_types) not in taken]
    if arguments is not None:
        found = [entry for entry in found if entry[1] == arguments]
    if not found:
        raise missing_function(text)
    if len(found) > 1:
        raise AmbiguousFunction(f'more than one function named "{".".join(parts)}"')
    return found[0][0]


def _procedures(name: str) -> list[tuple[int, list[int]]]:
    data = columns("pg_proc")
    return [
        (oid, list(args))
        for oid, proname, namespace, args in zip(
            data["oid"], data["proname"], data["pronamespace"], data["proargtypes"], strict=True
        )
        if proname == name and namespace == PG_CATALOG_OID
    ]


def _operator(context: BindContext, text: str, *, with_arguments: bool) -> int:
    symbol = text
    wanted: list[int] | None = None
    if with_arguments:
        symbol, parenthesis, rest = text.removesuffix(")").partition("(")
        if not parenthesis:
            raise _invalid("expected a left parenthesis")
        if not text.endswith(")"):
            raise _invalid("expected a right parenthesis")
        check_operands(len(rest.split(",")))
        wanted = [0 if part.strip().lower() == "none" else _type(context, part.strip()) for part in rest.split(",")]
    schema, _, symbol = symbol.strip().rpartition(".")
    known = not schema or _operators_in(context, schema, exact=with_arguments)
    data = columns("pg_operator")
    found = [
        oid
        for oid, name, left, right in zip(data["oid"], data["oprname"], data["oprleft"], data["oprright"], strict=True)
        if known and name == symbol and (wanted is None or wanted == [left, right])
    ]
    if not found:
        raise missing_operator(text)
    if len(found) > 1:
        raise AmbiguousFunction(f"more than one operator named {text}")
    return int(found[0])


def check_operands(count: int) -> None:
    """Raise unless an operator is named with the types of two operands: 42P02, 54023."""
    if count < 2:
        raise UndefinedParameter(
            "missing argument", hint="Use NONE to denote the missing argument of a unary operator."
        )
    if count > 2:
        raise TooManyArguments("too many arguments", hint="Provide two argument types for operator.")


def _operators_in(context: BindContext, qualifiers: str, *, exact: bool) -> bool:
    """Whether the qualified name's schema is that of the operators; 3F000 for one that does not exist, unless the
    operator is named `exact`ly, with its arguments."""
    schema = qualifier([*split_name(qualifiers), ""], context.database)
    if schema is not None and not exact:
        _schema(context, schema)
    return schema in (None, "pg_catalog")


def _by_name(context: BindContext, relation: str, column: str, text: str, what: str) -> int:
    parts = split_name(text)
    known = _schema_oid(context, parts) == PG_CATALOG_OID
    data = columns(relation)
    for oid, candidate in zip(data["oid"], data[column], strict=True):
        if known and candidate == parts[-1]:
            return int(oid)
    raise UndefinedObject(f'{what} "{text}" does not exist')


def _invalid(message: str) -> SqlSyntaxError:
    return InvalidTextRepresentation(message)  # type: ignore[return-value]


__all__ = ["find_relation_oid", "registry", "resolve_reg", "split_name"]
