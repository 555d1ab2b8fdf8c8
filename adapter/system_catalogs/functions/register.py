"""The catalog functions as functions of the local engine, called ``tg_<name>``.

Their forms are in `planner.functions.families.catalog`. Where `Udf.context` is set the first argument is the token of
the execution (`contexts`). All are strict: a NULL argument gives NULL without a call, unless `nullable` says that the
function looks at NULLs itself. Types are DuckDB's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from adapter.access.row_security import is_subject
from adapter.system_catalogs.functions import addresses, descriptions, identities, privileges, properties, reg_names
from adapter.system_catalogs.functions.contexts import Entered, current
from adapter.system_catalogs.functions.function_text import function_body, function_definition, rule_definition
from adapter.system_catalogs.functions.shown_names import shown_condition, shown_default, shown_view
from adapter.system_catalogs.objects import definitions
from adapter.system_catalogs.objects.builtin import builtin_columns, builtin_relations
from adapter.system_catalogs.objects.definitions import format_type
from adapter.system_catalogs.objects.functions import (
    argument_default,
    expressions_of,
    function_arguments,
    function_result,
    is_hidden,
)
from adapter.system_catalogs.objects.index_definitions import index_definition
from adapter.system_catalogs.objects.statistics_definitions import (
    statistics_columns,
    statistics_definition,
    statistics_expressions,
)
from adapter.system_catalogs.relations.session import pg_settings, pg_timezone_abbrevs, pg_timezone_names
from planner.catalog_data import content as catalog_data
from planner.common_errors import missing_column, unknown_setting
from planner.errors import InvalidParameterValue, SqlError, UndefinedObject
from planner.syntax.identifiers import quote_identifier
from planner.types.type_scope import types_of
from planner.types.types import REG_TYPES
from planner.types.user_types import type_in
from planner.values.output_style import written_for
from storage.catalog.model import PG_CATALOG_OID, Relation
from storage.catalog.record import ExtendedStatistics
from storage.catalog.routines import Function
from storage.catalog.temporary import is_temporary
from storage.clock import SystemClock

DuckConnection: TypeAlias = Any
OID = "BIGINT"
TEXT = "VARCHAR"
BOOL = "BOOLEAN"
INT4 = "INTEGER"
_DEFAULT_TABLESPACE = 1663
PAGE_BYTES = 8192
"""PostgreSQL's pages, in which pg_class.relpages counts."""


class Udf(Struct, frozen=True, kw_only=True):
    """One function: argument types without the token, result type, and what computes it."""

    args: tuple[str, ...]
    result: str
    call: Callable[..., Any]
    context: bool = True
    nullable: bool = False


def _visible(context: Entered, kind: str, oid: int) -> bool | None:
    """pg_`kind`_is_visible: NULL for an oid without object."""
    objects = context.objects
    if kind == "table":
        if objects.relation(oid) is None:
            return None
        return oid in objects.visible_relations(context.path)
    if kind == "type":
        named = objects.type(oid)
        if named is None:
            return None
        return named.namespace in context.path and not _shadowed_type(context, named.namespace, named.name)
    if kind == "function":
        function = objects.function(oid)
        if function is None:
            return None
        own = objects.snapshot.get(oid)
        return (
            function.namespace in context.path
            and not is_temporary(function.namespace)
            and not (isinstance(own, Function) and is_hidden(objects, own, context.path))
        )
    if kind == "statistics_obj":
        statistics = objects.snapshot.get(oid)
        if not isinstance(statistics, ExtendedStatistics):
            return None
        return statistics.schema in context.path and not is_temporary(statistics.schema)
    relation = _NAMED_IN_CATALOG[kind]
    if not catalog_data.has_data(relation) or oid not in builtin_columns(relation)["oid"]:
        return None
    return PG_CATALOG_OID in context.path


def _shadowed_type(context: Entered, namespace: int, name: str) -> bool:
    for earlier in context.path[: context.path.index(namespace)]:
        if (earlier, name) in catalog_data.type_by_name() or type_in(context.objects.snapshot, earlier, name):
            return True
    return False


_NAMED_IN_CATALOG = {
    "collation": "pg_collation",
    "conversion": "pg_conversion",
    "opclass": "pg_opclass",
    "operator": "pg_operator",
    "opfamily": "pg_opfamily",
    "ts_config": "pg_ts_config",
    "ts_dict": "pg_ts_dict",
    "ts_parser": "pg_ts_parser",
    "ts_template": "pg_ts_template",
}


def _format_type(context: Entered, oid: int | None, typmod: int | None) -> str | None:
    return None if oid is None else format_type(context.objects, oid, typmod, context.path)


def _user_name(context: Entered, oid: int) -> str:
    return context.objects.role_names.get(oid) or f"unknown (OID={oid})"


def _view(context: Entered, oid: int, pretty: bool, wrap: int) -> str | None:
    """pg_get_viewdef."""
    names = _names_of_objects(context)
    return definitions.view_definition(context.objects, oid, context.path, pretty=bool(pretty), wrap=wrap, names=names)


def _names_of_objects(context: Entered) -> Callable[[int, int], str]:
    """What regclass and the like show."""
    return lambda type_oid, oid: reg_names.reg_output(context, REG_TYPES[type_oid], oid)


def _view_of_name(context: Entered, name: str, pretty: bool) -> str | None:
    return _view(context, reg_names.relation_oid(context, name), pretty, 0)


def _expression(context: Entered, text: str, relation: int, pretty: bool) -> str:
    """pg_get_expr."""
    names = _names_of_objects(context)

    def shown(part: str) -> str:
        return definitions.shown_expression(
            context.objects, relation, part, pretty=pretty, names=names, path=context.path
        )

    # pg_proc has the defaults of a function together.
    return shown(text) if relation else ", ".join(map(shown, expressions_of(text)))


def _serial_sequence(context: Entered, table: str, column: str) -> str | None:
    """pg_get_serial_sequence: the sequence that the column owns, qualified."""
    objects = context.objects
    oid = reg_names.relation_oid(context, table)
    named = objects.relation(oid)
    relation = objects.snapshot.get(oid)
    attnum: int | None = None
    if isinstance(relation, Relation):
        found = relation.column(column)
        attnum = None if found is None else found.attnum
    elif oid in {row.oid for row in builtin_relations()}:
        row = next(row for row in builtin_relations() if row.oid == oid)
        attnum = next((i for i, item in enumerate(row.columns, 1) if item.name == column), None)
    if attnum is None:
        name = table if named is None else named.name
        raise missing_column(name, column)
    for sequence in objects.sequences:
        if sequence.owned_by == (oid, attnum):
            return definitions.qualified_relation_name(objects, sequence.oid, None)
    return None


def _type_list(context: Entered, oids: Sequence[int]) -> str:
    return ", ".join(format_type(context.objects, oid) for oid in oids)


def _relation_size(context: Entered, oid: int) -> int | None:
    """Bytes of a relation; 0 for what has no storage, None for what does not exist."""
    if context.objects.relation(oid) is None:
        return None
    return 0 if context.facts is None else context.facts.relation_size(oid)


def _fork_size(context: Entered, oid: int, fork: str) -> int | None:
    """Bytes of a fork of a relation: nothing is stored in others than the main one. 22023 for one that is none."""
    size = _relation_size(context, oid)
    if size is not None and fork not in ("main", "fsm", "vm", "init"):
        raise InvalidParameterValue("invalid fork name", hint='Valid fork names are "main", "fsm", "vm", and "init".')
    return size if size is None or fork == "main" else 0


def _tuples(context: Entered, oid: int, known: float) -> float:
    """pg_class.reltuples; `known` is what is said of a relation that has no rows of its own."""
    rows = None if context.facts is None else context.facts.relation_rows(oid)
    return known if rows is None else float(rows)


def _pages(context: Entered, oid: int, known: int) -> int:
    """pg_class.relpages, in pages of PostgreSQL's size."""
    size = 0 if context.facts is None else context.facts.relation_size(oid)
    return -(-size // PAGE_BYTES) if size else known


def _indexes_size(context: Entered, oid: int) -> int | None:
    """Bytes of all indexes of a table; None for what does not exist."""
    if context.objects.relation(oid) is None:
        return None
    facts = context.facts
    return (
        0 if facts is None else sum(facts.relation_size(i.oid) for i, _ in context.objects.indexes if i.relation == oid)
    )


def _database_size(context: Entered, target: str) -> int | None:
    """Bytes of all tables; `target` is the database as `_target` gives it. None for an oid that no database has."""
    database = _target(target)
    oid = privileges.database_oid(context, database) if isinstance(database, str) else database
    if all(known.oid != oid for known in context.objects.databases):
        return None
    return 0 if context.facts is None else context.facts.database_size(oid)


def _listening_channels(context: Entered) -> list[str]:
    return [] if context.facts is None else list(context.facts.listening_channels())


def _blocking_pids(context: Entered, pid: int) -> list[int]:
    return [] if context.facts is None else list(context.facts.blocking_pids(pid))


def _target(text: str) -> str | int:
    """An object argument as the forms pass it: ``n`` and a name, or ``o`` and an oid."""
    return text[1:] if text.startswith("n") else int(text[1:])


def _has_privilege(context: Entered, kind: str, role: str, target: str, wanted: str) -> bool | None:
    user = None if role == "c" else _target(role)
    return privileges.has_privilege(context, kind, user, _target(target), wanted)


def _has_parameter_privilege(context: Entered, role: str, name: str, wanted: str) -> bool:
    return privileges.has_parameter_privilege(context, None if role == "c" else _target(role), name, wanted)


def _row_security_active(context: Entered, target: str) -> bool | None:
    table = _target(target)
    oid = reg_names.relation_oid(context, table) if isinstance(table, str) else table
    catalog = context.objects.snapshot
    record = catalog.get(oid)
    if not isinstance(record, Relation):
        return False if context.objects.relation(oid) is not None else None
    return is_subject(catalog, record, context.user_oid)


def _has_column_privilege(context: Entered, role: str, table: str, column: str, wanted: str) -> bool | None:
    user = None if role == "c" else _target(role)
    return privileges.has_column_privilege(context, user, _target(table), _target(column), wanted)


def _updatable(context: Entered, oid: int) -> int:
    """pg_relation_is_updatable: the bits for INSERT, UPDATE and DELETE."""
    return definitions.updatable_events(context.objects, oid)


def _column_updatable(context: Entered, oid: int, attnum: int) -> bool:
    """pg_column_is_updatable."""
    return attnum > 0 and definitions.is_updatable(definitions.updatable_events(context.objects, oid, attnum))


def _publishable(context: Entered, oid: int) -> bool | None:
    named = context.objects.relation(oid)
    return None if named is None else named.kind == "r" and isinstance(context.objects.snapshot.get(oid), Relation)


def _filenode(context: Entered, oid: int) -> int | None:
    named = context.objects.relation(oid)
    return oid if named is not None and named.kind in ("r", "m", "i", "S") else None


def _current_setting(context: Entered, name: str, missing_ok: bool) -> str | None:
    """current_setting of a name that is not a constant, as SHOW gives it."""
    value = None if context.facts is None else context.facts.setting(name)
    if value is None and not missing_ok:
        raise unknown_setting(name)
    return value


def _options(options: Sequence[str]) -> list[dict[str, str | None]]:
    rows: list[dict[str, str | None]] = []
    for option in options:
        name, equals, value = option.partition("=")
        rows.append({"option_name": name, "option_value": value if equals else None})
    return rows


def _keywords() -> list[dict[str, Any]]:
    data = catalog_data.columns("keywords")
    return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]


def _token_types(context: Entered, parser: str) -> list[dict[str, Any]]:
    """ts_token_type. `parser` is its name behind an n, or its oid behind an o."""
    oid = int(parser[1:]) if parser[0] == "o" else reg_names.text_search_parser_oid(context, parser[1:])
    if oid not in catalog_data.columns("pg_ts_parser")["oid"]:
        raise UndefinedObject(f"cache lookup failed for text search parser {oid}")
    data = catalog_data.columns("ts_token_types")
    return [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]


def _encoding_number(name: str) -> int:
    wanted = "".join(character for character in name.lower() if character.isalnum())
    aliases = {"unicode": "utf8", "utf8": "utf8"}
    for number, known in catalog_data.encodings().items():
        if "".join(c for c in known.lower() if c.isalnum()) == aliases.get(wanted, wanted):
            return number
    return -1


def _zone_names(context: Entered) -> list[Mapping[str, Any]]:
    now_ms = SystemClock().now_ms() if context.facts is None else context.facts.now_ms()
    return list(pg_timezone_names(now_ms).rows)


def _settings(context: Entered) -> list[Mapping[str, Any]]:
    rows = [] if context.facts is None else context.facts.rows("pg_settings")
    names = catalog_data.columns("pg_settings")
    return [{name: row.get(name) for name in names} for row in pg_settings(rows).rows]


def _relation_of_filenode(context: Entered, tablespace: int, filenode: int) -> int | None:
    """pg_filenode_relation: a relation's file number is its oid here, in the default tablespace (0, or by its oid)."""
    return _filenode(context, filenode) if tablespace in (0, _DEFAULT_TABLESPACE) else None


def _databases_in(context: Entered, tablespace: int) -> list[int]:
    """pg_tablespace_databases: all of them lie in the default tablespace."""
    return [known.oid for known in context.objects.databases] if tablespace == _DEFAULT_TABLESPACE else []


_ACL_ROW = "STRUCT(grantor BIGINT, grantee BIGINT, privilege_type VARCHAR, is_grantable BOOLEAN)[]"
_INTERVAL = "STRUCT(months INTEGER, days INTEGER, micros BIGINT)"
_ZONE_ROW = f'STRUCT("name" VARCHAR, abbrev VARCHAR, utc_offset {_INTERVAL}, is_dst BOOLEAN)[]'
_ABBREVIATION_ROW = f"STRUCT(abbrev VARCHAR, utc_offset {_INTERVAL}, is_dst BOOLEAN)[]"
_SETTING_ROW = (
    'STRUCT("name" VARCHAR, setting VARCHAR, unit VARCHAR, category VARCHAR, short_desc VARCHAR, extra_desc VARCHAR, '
    '"context" VARCHAR, vartype VARCHAR, "source" VARCHAR, min_val VARCHAR, max_val VARCHAR, enumvals VARCHAR[], '
    "boot_val VARCHAR, reset_val VARCHAR, sourcefile VARCHAR, sourceline INTEGER, pending_restart BOOLEAN)[]"
)
_SEQUENCE_ROW = (
    "STRUCT(start_value BIGINT, minimum_value BIGINT, maximum_value BIGINT, increment BIGINT, cycle_option BOOLEAN, "
    "cache_size BIGINT, data_type BIGINT)"
)
_KEYWORD_ROW = "STRUCT(word VARCHAR, catcode VARCHAR, barelabel BOOLEAN, catdesc VARCHAR, baredesc VARCHAR)[]"
_TOKEN_TYPE_ROW = "STRUCT(tokid INTEGER, alias VARCHAR, description VARCHAR)[]"
_IDENTITY = 'STRUCT("type" VARCHAR, "schema" VARCHAR, "name" VARCHAR, "identity" VARCHAR)'
_NAMES = 'STRUCT("type" VARCHAR, object_names VARCHAR[], object_args VARCHAR[])'
_PLACE = "STRUCT(classid BIGINT, objid BIGINT, objsubid INTEGER)"

UDFS: Mapping[str, Udf] = {
    "tg_format_type": Udf(args=(OID, INT4), result=TEXT, call=_format_type, nullable=True),
    "tg_is_visible": Udf(args=(TEXT, OID), result=BOOL, call=_visible),
    "tg_get_userbyid": Udf(args=(OID,), result=TEXT, call=_user_name),
    "tg_get_constraintdef": Udf(
        args=(OID, BOOL),
        result=TEXT,
        call=lambda c, oid, pretty: definitions.constraint_definition(
            c.objects, oid, c.path, pretty=pretty, names=_names_of_objects(c)
        ),
    ),
    "tg_get_expr": Udf(
        args=(TEXT, OID, BOOL),
        result=TEXT,
        call=_expression,
    ),
    "tg_get_indexdef": Udf(
        args=(OID, INT4, BOOL),
        result=TEXT,
        call=lambda c, oid, column, pretty: index_definition(
            c.objects, oid, column, c.path if pretty else None, pretty=bool(pretty), names=_names_of_objects(c)
        ),
    ),
    "tg_get_statisticsobjdef": Udf(
        args=(OID,),
        result=TEXT,
        call=lambda c, oid: statistics_definition(c.objects, oid, c.path, _names_of_objects(c)),
    ),
    "tg_get_statisticsobjdef_columns": Udf(
        args=(OID,), result=TEXT, call=lambda c, oid: statistics_columns(c.objects, oid, _names_of_objects(c))
    ),
    "tg_get_statisticsobjdef_expressions": Udf(
        args=(OID,),
        result="VARCHAR[]",
        call=lambda c, oid: statistics_expressions(c.objects, oid, _names_of_objects(c)),
    ),
    "tg_shown_view": Udf(args=(TEXT, TEXT, TEXT), result=TEXT, call=shown_view),
    "tg_shown_condition": Udf(args=(TEXT, TEXT, TEXT), result=TEXT, call=shown_condition),
    "tg_shown_default": Udf(args=(TEXT, TEXT, TEXT, TEXT), result=TEXT, call=shown_default),
    "tg_get_viewdef": Udf(args=(OID, BOOL, INT4), result=TEXT, call=_view),
    "tg_get_viewdef_of_name": Udf(args=(TEXT, BOOL), result=TEXT, call=_view_of_name),
    "tg_get_ruledef": Udf(
        args=(OID, BOOL),
        result=TEXT,
        call=lambda c, oid, pretty: rule_definition(c.objects, oid, c.path, pretty=bool(pretty)),
    ),
    "tg_get_functiondef": Udf(
        args=(OID,),
        result=TEXT,
        call=lambda c, oid: function_definition(c.objects, oid, c.path, _names_of_objects(c)),
    ),
    "tg_get_function_arguments": Udf(
        args=(OID, BOOL),
        result=TEXT,
        call=lambda c, oid, identity: function_arguments(c.objects, oid, _names_of_objects(c), identity=identity),
    ),
    "tg_get_function_result": Udf(args=(OID,), result=TEXT, call=lambda c, oid: function_result(c.objects, oid)),
    "tg_get_function_arg_default": Udf(
        args=(OID, INT4),
        result=TEXT,
        call=lambda c, oid, number: argument_default(c.objects, oid, number, _names_of_objects(c)),
    ),
    "tg_get_function_sqlbody": Udf(
        args=(OID,), result=TEXT, call=lambda c, oid: function_body(c.objects, oid, c.path, _names_of_objects(c))
    ),
    "tg_get_serial_sequence": Udf(args=(TEXT, TEXT), result=TEXT, call=_serial_sequence),
    "tg_oidvectortypes": Udf(args=("BIGINT[]",), result=TEXT, call=_type_list),
    "tg_obj_description": Udf(args=(OID, TEXT), result=TEXT, call=descriptions.object_description),
    "tg_any_description": Udf(args=(OID,), result=TEXT, call=descriptions.any_description),
    "tg_shobj_description": Udf(args=(OID, TEXT), result=TEXT, call=descriptions.shared_description),
    "tg_col_description": Udf(args=(OID, INT4), result=TEXT, call=descriptions.column_description),
    "tg_describe_object": Udf(args=(OID, OID, INT4), result=TEXT, call=descriptions.describe_object),
    "tg_identify_object": Udf(args=(OID, OID, INT4), result=_IDENTITY, call=identities.identify_object),
    "tg_address_of_object": Udf(args=(OID, OID, INT4), result=_NAMES, call=identities.address_of_object),
    "tg_object_address": Udf(args=(TEXT, "VARCHAR[]", "VARCHAR[]"), result=_PLACE, call=addresses.object_address),
    "tg_has_privilege": Udf(args=(TEXT, TEXT, TEXT, TEXT), result=BOOL, call=_has_privilege),
    "tg_has_parameter_privilege": Udf(args=(TEXT, TEXT, TEXT), result=BOOL, call=_has_parameter_privilege),
    "tg_has_column_privilege": Udf(args=(TEXT, TEXT, TEXT, TEXT), result=BOOL, call=_has_column_privilege),
    "tg_row_security_active": Udf(args=(TEXT,), result=BOOL, call=_row_security_active),
    "tg_acldefault": Udf(args=(TEXT, OID), result="VARCHAR[]", call=privileges.default_acl),
    "tg_aclexplode": Udf(args=("VARCHAR[]",), result=_ACL_ROW, call=privileges.explode_acl),
    "tg_relation_size": Udf(args=(OID,), result="BIGINT", call=_relation_size),
    "tg_fork_size": Udf(args=(OID, TEXT), result="BIGINT", call=_fork_size),
    "tg_reltuples": Udf(args=(OID, "FLOAT"), result="FLOAT", call=_tuples),
    "tg_relpages": Udf(args=(OID, INT4), result=INT4, call=_pages),
    "tg_indexes_size": Udf(args=(OID,), result="BIGINT", call=_indexes_size),
    "tg_database_size": Udf(args=(TEXT,), result="BIGINT", call=_database_size),
    "tg_relation_filenode": Udf(args=(OID,), result=OID, call=_filenode),
    "tg_relation_is_updatable": Udf(args=(OID,), result=INT4, call=_updatable),
    "tg_column_is_updatable": Udf(args=(OID, INT4), result=BOOL, call=_column_updatable),
    "tg_relation_is_publishable": Udf(args=(OID,), result=BOOL, call=_publishable),
    "tg_index_column_has_property": Udf(args=(OID, INT4, TEXT), result=BOOL, call=properties.index_column_property),
    "tg_index_has_property": Udf(args=(OID, TEXT), result=BOOL, call=properties.index_property),
    "tg_index_upkeep": Udf(args=(OID, TEXT, "BIGINT", "BIGINT"), result=INT4, call=properties.index_upkeep),
    "tg_indexam_has_property": Udf(args=(OID, TEXT), result=BOOL, call=properties.method_property),
    "tg_replica_identity_index": Udf(args=(OID,), result=OID, call=properties.replica_identity_index),
    "tg_sequence_parameters": Udf(args=(OID,), result=_SEQUENCE_ROW, call=properties.sequence_parameters),
    "tg_setting_flags": Udf(args=(TEXT,), result="VARCHAR[]", call=properties.setting_flags),
    "tg_collation_version": Udf(args=(OID,), result=TEXT, call=properties.collation_version),
    "tg_current_logfile": Udf(args=(TEXT,), result=TEXT, call=properties.current_log_file),
    "tg_filenode_relation": Udf(args=(OID, OID), result=OID, call=_relation_of_filenode),
    "tg_tablespace_databases": Udf(args=(OID,), result="BIGINT[]", call=_databases_in),
    "tg_listening_channels": Udf(args=(), result="VARCHAR[]", call=_listening_channels),
    "tg_blocking_pids": Udf(args=(INT4,), result="INTEGER[]", call=_blocking_pids),
    "tg_current_setting": Udf(args=(TEXT, BOOL), result=TEXT, call=_current_setting),
    "tg_options_to_table": Udf(
        args=("VARCHAR[]",),
        result="STRUCT(option_name VARCHAR, option_value VARCHAR)[]",
        call=_options,
        context=False,
    ),
    "tg_keywords": Udf(args=(), result=_KEYWORD_ROW, call=_keywords, context=False),
    "tg_token_types": Udf(args=(TEXT,), result=_TOKEN_TYPE_ROW, call=_token_types),
    "tg_timezone_names": Udf(args=(), result=_ZONE_ROW, call=_zone_names),
    "tg_timezone_abbrevs": Udf(
        args=(), result=_ABBREVIATION_ROW, call=lambda: list(pg_timezone_abbrevs().rows), context=False
    ),
    "tg_show_all_settings": Udf(args=(), result=_SETTING_ROW, call=_settings),
    "tg_encoding_to_char": Udf(
        args=(INT4,), result=TEXT, call=lambda number: catalog_data.encodings().get(number, ""), context=False
    ),
    "tg_char_to_encoding": Udf(args=(TEXT,), result=INT4, call=_encoding_number, context=False),
    "tg_quote_ident": Udf(args=(TEXT,), result=TEXT, call=quote_identifier, context=False),
    **{
        f"tg_{kind}_in": Udf(
            args=(TEXT,), result=OID, call=lambda c, text, kind=kind: reg_names.reg_input(c, kind, text)
        )
        for kind in REG_TYPES.values()
    },
    **{
        f"tg_{kind}_out": Udf(
            args=(OID,), result=TEXT, call=lambda c, oid, kind=kind: reg_names.reg_output(c, kind, oid)
        )
        for kind in REG_TYPES.values()
    },
    **{
        f"tg_to_{kind}": Udf(args=(TEXT,), result=OID, call=lambda c, text, kind=kind: reg_names.to_reg(c, kind, text))
        for kind in REG_TYPES.values()
    },
}


def _with_context(udf: Udf) -> Callable[..., Any]:
    def call(*values: Any) -> Any:
        token, *args = values
        if not udf.nullable and any(arg is None for arg in args):
            return None
        context = current(token)
        try:
            with types_of(context.objects.snapshot, context.search_path), written_for(context.settings):
                return udf.call(context, *args)
        except SqlError as error:
            context.error = error
            raise

    return call


def _without_context(udf: Udf) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return None if any(arg is None for arg in args) else udf.call(*args)

    return call


def _signature(count: int) -> inspect.Signature:
    """A signature with `count` parameters; the engine asks for it and does not take ``*args``."""
    kind = inspect.Parameter.POSITIONAL_ONLY
    return inspect.Signature([inspect.Parameter(f"a{number}", kind) for number in range(count)])


def register(connection: DuckConnection) -> None:
    """Defines all of `UDFS` in the connection's database."""
    for name, udf in UDFS.items():
        function = (_with_context if udf.context else _without_context)(udf)
        args = [TEXT, *udf.args] if udf.context else list(udf.args)
        function.__signature__ = _signature(len(args))  # type: ignore[attr-defined]
        connection.create_function(name, function, args, udf.result, null_handling="special")
