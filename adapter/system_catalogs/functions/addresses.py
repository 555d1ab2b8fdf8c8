"""pg_get_object_address: objects by the lists of names that pg_identify_object_as_address gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from adapter.system_catalogs.functions.contexts import Entered
from adapter.system_catalogs.functions.identities import DEFAULTS_OF, OF_METHODS, STATIC, class_oid
from adapter.system_catalogs.functions.reg_names import namespace_oid, relation_oid, role_oid, type_oid
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.definitions import column_name, column_number, format_type
from adapter.system_catalogs.objects.functions import function_row
from adapter.system_catalogs.objects.objects import (
    PG_ATTRDEF,
    PG_AUTHID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DATABASE,
    PG_EXTENSION,
    PG_FOREIGN_DATA_WRAPPER,
    PG_FOREIGN_SERVER,
    PG_NAMESPACE,
    PG_POLICY,
    PG_PROC,
    PG_REWRITE,
    PG_STATISTIC_EXT,
    PG_TYPE,
    PLPGSQL_OID,
    builtin_operators,
    builtin_operators_by_name,
)
from planner.common_errors import missing_database, missing_operator
from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedObject,
    WrongObjectType,
)
from planner.extensions.available import PLPGSQL
from planner.syntax.identifiers import quote_identifier
from planner.types import derived_oids
from storage.catalog.model import PG_CATALOG_OID
from storage.catalog.outside import LAKE_WRAPPER, LAKE_WRAPPER_OID

Names: TypeAlias = Sequence[str]
Place: TypeAlias = tuple[int, int, int]
"""A catalog's oid, an object's, and the number of a column or 0."""

_RELATIONS = {"table": "r", "index": "i", "sequence": "S", "view": "v", "materialized view": "m", "foreign table": "f"}
_UNSUPPORTED = frozenset(
    {
        "toast table", "composite type", "index column", "sequence column", "toast table column", "view column",
        "materialized view column", "composite type column",
    }
)  # fmt: skip
_ABSENT = frozenset({"event trigger", "publication", "subscription", "parameter ACL"})
"""Sorts of objects, known by a name, of which there are none here."""
_UNNAMED = frozenset(
    {
        "large object", "transform", "operator of access method", "function of access method", "publication relation",
        "publication namespace",
    }
)  # fmt: skip
_BY_TYPE = frozenset({"type", "cast", "domain constraint"})
"""What is named by a type."""
_OF_TYPES = frozenset({"aggregate", "function", "procedure", "operator", "cast"})
"""What has types as arguments."""
_WITH_ONE = frozenset({"domain constraint", "cast", "default acl", "user mapping"})


def object_address(
    context: Entered, kind: str, names: Sequence[str | None], args: Sequence[str | None]
) -> dict[str, int]:
    """pg_get_object_address. Raises 22023 for lists that name nothing of that sort, and what looking it up raises."""
    find = _FINDERS.get(kind)
    if kind in _UNSUPPORTED:
        raise InvalidParameterValue(f'unsupported object type "{kind}"')
    if kind in _UNNAMED:
        raise FeatureNotSupported(f'addresses of objects of type "{kind}" are not supported')
    if find is None and kind not in _ABSENT:
        raise InvalidParameterValue(f'unrecognized object type "{kind}"')
    if kind in _BY_TYPE:
        _require_length("name", names, 1)
    checked = _without_nulls(names)
    if not checked:
        raise InvalidParameterValue("name list length must be at least 1")
    given = _without_nulls(args)
    if kind in _BY_TYPE:
        type_oid(context, checked[0])
    if kind in _OF_TYPES:
        for each in given:
            type_oid(context, each)
    if kind == "user mapping":
        _require_length("name", checked, 1)
    if kind in _WITH_ONE:
        _require_length("argument", given, 1)
    if kind in OF_METHODS and len(checked) < 2:
        raise InvalidParameterValue("name list length must be at least 2")
    if kind == "operator":
        _require_length("argument", given, 2)
    if kind in _SINGLE or kind in _ABSENT:
        _require_length("name", checked, 1)
    if find is None:
        raise UndefinedObject(f'{kind} "{checked[0]}" does not exist')
    class_id, oid, subid = find(context, kind, checked, given)
    return {"classid": class_id, "objid": oid, "objsubid": subid}


def _without_nulls(items: Sequence[str | None]) -> list[str]:
    found = [item for item in items if item is not None]
    if len(found) < len(items):
        raise InvalidParameterValue("name or argument lists may not contain nulls")
    return found


def _require_length(what: str, items: Sequence[object], length: int) -> None:
    if len(items) != length:
        raise InvalidParameterValue(f"{what} list length must be exactly {length}")


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _dotted(names: Names) -> str:
    return ".".join(map(quote_identifier, names))


def _relation(context: Entered, kind: str, names: Names, args: Names) -> Place:
    oid = relation_oid(context, _dotted(names))
    named = context.objects.relation(oid)
    if named is not None and named.kind != _RELATIONS[kind]:
        raise WrongObjectType(f'"{named.name}" is not {_with_article(kind)}')
    return PG_CLASS, oid, 0


def _attnum(context: Entered, relation: int, name: str) -> int | None:
    number = column_number(context.objects, relation, name)
    # A view has no columns of the system.
    return number if number and column_name(context.objects, relation, number) == name else None


def _column(context: Entered, kind: str, names: Names, args: Names) -> Place:
    if len(names) < 2:
        raise SqlSyntaxError("column name must be qualified")
    oid = relation_oid(context, _dotted(names[:-1]))
    number = _attnum(context, oid, names[-1])
    if number is None:
        raise UndefinedColumn(f'column "{names[-1]}" of relation "{".".join(names[:-1])}" does not exist')
    return PG_CLASS, oid, number


def _default(context: Entered, kind: str, names: Names, args: Names) -> Place:
    if len(names) < 2:
        raise SqlSyntaxError("column name must be qualified")
    oid = relation_oid(context, _dotted(names[:-1]))
    number = _attnum(context, oid, names[-1])
    for default, (relation, column) in context.objects.defaults.items():
        if (relation.oid, column.attnum) == (oid, number):
            return PG_ATTRDEF, default, 0
    where = f'column "{names[-1]}" of relation "{".".join(names[:-1])}"'
    raise UndefinedColumn(f"default value for {where} does not exist")


def _of_relation(context: Entered, kind: str, names: Names, args: Names) -> Place:
    if len(names) < 2:
        raise SqlSyntaxError("must specify relation and object name")
    relation, name = relation_oid(context, _dotted(names[:-1])), names[-1]
    snapshot = context.objects.snapshot
    if kind == "table constraint":
        for constraint in snapshot.constraints(relation):
            if constraint.name == name:
                return PG_CONSTRAINT, constraint.oid, 0
    elif kind == "policy":
        for policy in snapshot.policies.of(relation).policies:
            if policy.name == name:
                return PG_POLICY, policy.oid, 0
    elif kind == "rule":
        named = context.objects.relation(relation)
        if name == "_RETURN" and named is not None and named.kind in "vm":
            return PG_REWRITE, derived_oids.rule_oid(relation), 0
    what = "relation" if kind == "rule" else "table"
    raise UndefinedObject(f'{kind.removeprefix("table ")} "{name}" for {what} "{names[-2]}" does not exist')


def _type(context: Entered, kind: str, names: Names, args: Names) -> Place:
    return PG_TYPE, type_oid(context, names[0]), 0


def _domain_constraint(context: Entered, kind: str, names: Names, args: Names) -> Place:
    oid = type_oid(context, names[0])
    found = context.objects.type(oid)
    if found is not None and found.kind != "d":
        schema = context.objects.schema_name_by_oid.get(found.namespace, "")
        raise WrongObjectType(f'"{schema}.{found.name}" is not a domain')
    for check, domain in context.objects.domain_checks.values():
        if derived_oids.row_type_oid(domain.oid) == oid and check.name == args[0]:
            return PG_CONSTRAINT, check.oid, 0
    name = format_type(context.objects, oid, None, context.path)
    raise UndefinedObject(f'constraint "{args[0]}" for domain {name} does not exist')


def _schemas(context: Entered, names: Names) -> Sequence[int]:
    """Where something of these names may be, in order."""
    return context.path if len(names) == 1 else (namespace_oid(context, names[-2]),)


def _routine(context: Entered, kind: str, names: Names, args: Names) -> Place:
    objects = context.objects
    types = [type_oid(context, each) for each in args]
    shown = f"{'.'.join(names)}({', '.join(format_type(objects, each, None, context.path) for each in types)})"
    rows = [row for oid in objects.functions_named(names[-1]) if (row := function_row(objects, oid)) is not None]
    for schema in _schemas(context, names):
        for row in rows:
            if row["pronamespace"] == schema and list(row["proargtypes"]) == types:
                is_right = (row["prokind"] == "p") == (kind == "procedure")
                if kind == "aggregate" and row["prokind"] != "a":
                    raise WrongObjectType(f"function {shown} is not an aggregate")
                if not is_right:
                    raise WrongObjectType(f"{shown} is not {_with_article(kind)}")
                return PG_PROC, row["oid"], 0
    raise UndefinedFunction(f"{kind} {shown} does not exist")


def _operator(context: Entered, kind: str, names: Names, args: Names) -> Place:
    types = [type_oid(context, each) for each in args]
    schemas, known = _schemas(context, names), builtin_operators()
    for oid in builtin_operators_by_name().get(names[-1], ()) if PG_CATALOG_OID in schemas else ():
        if list(known[oid][1:]) == types:
            return class_oid("pg_operator"), oid, 0
    left, right = (format_type(context.objects, each, None, context.path) for each in types)
    raise missing_operator(f"{left} {'.'.join(names)} {right}")


def _cast(context: Entered, kind: str, names: Names, args: Names) -> Place:
    source, target = type_oid(context, names[0]), type_oid(context, args[0])
    data = builtin_columns("pg_cast")
    for oid, *types in zip(data["oid"], data["castsource"], data["casttarget"], strict=True):
        if types == [source, target]:
            return class_oid("pg_cast"), oid, 0
    shown = [format_type(context.objects, each, None, context.path) for each in (source, target)]
    raise UndefinedObject(f"cast from type {shown[0]} to type {shown[1]} does not exist")


def _static(context: Entered, kind: str, names: Names, args: Names) -> Place:
    catalog, name, schema = STATIC[kind]
    schemas = _schemas(context, names) if schema else ()
    data = builtin_columns(catalog)
    for place, oid in enumerate(data["oid"]):
        if data[name][place] == names[-1] and (not schema or data[schema][place] in schemas):
            return class_oid(catalog), oid, 0
    encoding = ' for encoding "UTF8"' if kind == "collation" else ""
    raise UndefinedObject(f'{kind} "{".".join(names)}"{encoding} does not exist')


def _of_method(context: Entered, kind: str, names: Names, args: Names) -> Place:
    catalog, name, schema, method = OF_METHODS[kind]
    _, method_oid, _ = _static(context, "access method", names[:1], ())
    schemas = _schemas(context, names[1:])
    data = builtin_columns(catalog)
    for place, oid in enumerate(data["oid"]):
        if (data[name][place], data[method][place]) == (names[-1], method_oid) and data[schema][place] in schemas:
            return class_oid(catalog), oid, 0
    raise UndefinedObject(f'{kind} "{".".join(names[1:])}" does not exist for access method "{names[0]}"')


def _single(context: Entered, kind: str, names: Names, args: Names) -> Place:
    """What has no schema."""
    objects, (name,) = context.objects, names
    match kind:
        case "schema":
            return PG_NAMESPACE, namespace_oid(context, name), 0
        case "role":
            return PG_AUTHID, role_oid(context, name), 0
        case "database":
            found = next((each.oid for each in objects.databases if each.name == name), None)
            if found is None:
                raise missing_database(name)
            return PG_DATABASE, found, 0
        case "extension":
            known = {PLPGSQL.name: PLPGSQL_OID, **{each.name: each.oid for each in objects.extensions}}
            class_id = PG_EXTENSION
        case "server":
            known, class_id = {each.name: each.oid for each in objects.foreign_servers}, PG_FOREIGN_SERVER
        case _:
            known, class_id = {LAKE_WRAPPER: LAKE_WRAPPER_OID}, PG_FOREIGN_DATA_WRAPPER
    if name not in known:
        raise UndefinedObject(f'{kind} "{name}" does not exist')
    return class_id, known[name], 0


def _statistics(context: Entered, kind: str, names: Names, args: Names) -> Place:
    for schema in _schemas(context, names):
        for each in context.objects.statistics:
            if (each.schema, each.name) == (schema, names[-1]):
                return PG_STATISTIC_EXT, each.oid, 0
    raise UndefinedObject(f'{kind} "{".".join(names)}" does not exist')


def _mapping(context: Entered, kind: str, names: Names, args: Names) -> Place:
    from adapter.system_catalogs.pg_catalog.foreign_rows import pg_user_mapping

    objects, user, server = context.objects, names[0], args[0]
    roles = {"public": 0, **{name: oid for oid, name in objects.role_names.items()}}
    if user in roles:
        _, server_oid, _ = _single(context, "server", (server,), ())
        for row in pg_user_mapping(objects).rows:
            if (row["umuser"], row["umserver"]) == (roles[user], server_oid):
                return class_oid("pg_user_mapping"), row["oid"], 0
    raise UndefinedObject(f'user mapping for user "{user}" on server "{server}" does not exist')


def _default_acl(context: Entered, kind: str, names: Names, args: Names) -> Place:
    from adapter.system_catalogs.pg_catalog.privilege_rows import pg_default_acl

    objects = context.objects
    if args[0] not in DEFAULTS_OF:
        valid = ", ".join(f'"{each}"' for each in DEFAULTS_OF)
        raise InvalidParameterValue(
            f'unrecognized default ACL object type "{args[0]}"', hint=f"Valid object types are {valid}."
        )
    for row in pg_default_acl(objects).rows:
        role, schema = objects.role_names[row["defaclrole"]], objects.schema_name_by_oid.get(row["defaclnamespace"])
        if [role, *([] if schema is None else [schema])] == list(names[:2]) and row["defaclobjtype"] == args[0]:
            return class_oid("pg_default_acl"), row["oid"], 0
    inside = f' in schema "{names[1]}"' if len(names) > 1 else ""
    raise UndefinedObject(f'default ACL for user "{names[0]}"{inside} on {DEFAULTS_OF[args[0]]} does not exist')


_SINGLE = frozenset(
    {
        "schema", "role", "database", "extension", "server", "foreign-data wrapper",
        *(kind for kind, (_, _, schema) in STATIC.items() if not schema),
    }
)  # fmt: skip
_Finder: TypeAlias = Callable[[Entered, str, Names, Names], Place]
_FINDERS: Mapping[str, _Finder] = {
    **dict.fromkeys(_RELATIONS, _relation),
    **dict.fromkeys(("table column", "foreign table column"), _column),
    "default value": _default,
    **dict.fromkeys(("table constraint", "rule", "trigger", "policy"), _of_relation),
    "type": _type,
    "domain constraint": _domain_constraint,
    **dict.fromkeys(("function", "procedure", "aggregate"), _routine),
    "operator": _operator,
    "cast": _cast,
    **dict.fromkeys(OF_METHODS, _of_method),
    **dict.fromkeys(STATIC, _static),
    **dict.fromkeys(("schema", "role", "database", "extension", "server", "foreign-data wrapper"), _single),
    "statistics object": _statistics,
    "user mapping": _mapping,
    "default acl": _default_acl,
}
"""What finds the objects of each sort that exists here."""
