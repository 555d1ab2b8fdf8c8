"""The functions over the system catalogs, all on the local engine.

Those that need the catalog or the session are functions of the local engine called ``tg_<name>``
(adapter.system_catalogs.functions.register), which get the execution's token, ``{token}`` in a template, as their
first argument. What cannot exist here (triggers, partitions, recovery, log files, temporary
schemas) has the answer that PostgreSQL gives where there is none. A set-returning function's form is a list, of structs
where it has several columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from planner.extensions.available import AVAILABLE
from planner.functions.forms.form import Form, local_only
from planner.types.types import REG_TYPES

_SIMPLE = {
    "format_type(oid,int4)": "tg_format_type({token}, {0}, {1})",
    "pg_get_userbyid(oid)": "tg_get_userbyid({token}, {0})",
    "pg_get_expr(pg_node_tree,oid)": "tg_get_expr({token}, {0}, {1}, FALSE)",
    "pg_get_expr(pg_node_tree,oid,bool)": "tg_get_expr({token}, {0}, {1}, {2})",
    "current_setting(text)": "tg_current_setting({token}, {0}, FALSE)",
    "current_setting(text,bool)": "tg_current_setting({token}, {0}, {1})",
    "pg_get_constraintdef(oid)": "tg_get_constraintdef({token}, {0}, FALSE)",
    "pg_get_constraintdef(oid,bool)": "tg_get_constraintdef({token}, {0}, {1})",
    "pg_get_statisticsobjdef(oid)": "tg_get_statisticsobjdef({token}, {0})",
    "pg_get_statisticsobjdef_columns(oid)": "tg_get_statisticsobjdef_columns({token}, {0})",
    "pg_get_statisticsobjdef_expressions(oid)": "tg_get_statisticsobjdef_expressions({token}, {0})",
    "pg_get_indexdef(oid)": "tg_get_indexdef({token}, {0}, 0, FALSE)",
    "pg_get_indexdef(oid,int4,bool)": "tg_get_indexdef({token}, {0}, {1}, {2})",
    "pg_get_viewdef(oid)": "tg_get_viewdef({token}, {0}, FALSE, 0)",
    "pg_get_viewdef(oid,bool)": "tg_get_viewdef({token}, {0}, {1}, 0)",
    "pg_get_viewdef(oid,int4)": "tg_get_viewdef({token}, {0}, TRUE, {1})",
    "pg_get_viewdef(text)": "tg_get_viewdef_of_name({token}, {0}, FALSE)",
    "pg_get_viewdef(text,bool)": "tg_get_viewdef_of_name({token}, {0}, {1})",
    "pg_get_ruledef(oid)": "tg_get_ruledef({token}, {0}, FALSE)",
    "pg_get_ruledef(oid,bool)": "tg_get_ruledef({token}, {0}, {1})",
    "pg_get_functiondef(oid)": "tg_get_functiondef({token}, {0})",
    "pg_get_function_sqlbody(oid)": "tg_get_function_sqlbody({token}, {0})",
    "pg_get_function_arg_default(oid,int4)": "tg_get_function_arg_default({token}, {0}, {1})",
    "pg_get_function_arguments(oid)": "tg_get_function_arguments({token}, {0}, FALSE)",
    "pg_get_function_identity_arguments(oid)": "tg_get_function_arguments({token}, {0}, TRUE)",
    "pg_get_function_result(oid)": "tg_get_function_result({token}, {0})",
    "pg_get_serial_sequence(text,text)": "tg_get_serial_sequence({token}, {0}, {1})",
    "oidvectortypes(oidvector)": "tg_oidvectortypes({token}, {0})",
    "obj_description(oid,name)": "tg_obj_description({token}, {0}, {1})",
    "obj_description(oid)": "tg_any_description({token}, {0})",
    "shobj_description(oid,name)": "tg_shobj_description({token}, {0}, {1})",
    "col_description(oid,int4)": "tg_col_description({token}, {0}, {1})",
    "pg_describe_object(oid,oid,int4)": "tg_describe_object({token}, {0}, {1}, {2})",
    "pg_identify_object(oid,oid,int4)": "tg_identify_object({token}, {0}, {1}, {2})",
    "pg_identify_object_as_address(oid,oid,int4)": "tg_address_of_object({token}, {0}, {1}, {2})",
    "pg_get_object_address(text,text[],text[])": "tg_object_address({token}, {0}, {1}, {2})",
    "acldefault(char,oid)": "tg_acldefault({token}, {0}, {1})",
    "aclexplode(aclitem[])": "tg_aclexplode({token}, {0})",
    "pg_options_to_table(text[])": "tg_options_to_table({0})",
    "pg_get_keywords()": "tg_keywords()",
    "ts_token_type(oid)": "tg_token_types({token}, 'o' || {0})",
    "ts_token_type(text)": "tg_token_types({token}, 'n' || {0})",
    "pg_timezone_names()": "tg_timezone_names({token})",
    "pg_timezone_abbrevs()": "tg_timezone_abbrevs()",
    "pg_show_all_settings()": "tg_show_all_settings({token})",
    "pg_encoding_to_char(int4)": "tg_encoding_to_char({0})",
    "pg_char_to_encoding(name)": "tg_char_to_encoding({0})",
    "pg_relation_size(regclass)": "tg_relation_size({token}, {0})",
    "pg_relation_size(regclass,text)": "tg_fork_size({token}, {0}, {1})",
    "pg_table_size(regclass)": "tg_relation_size({token}, {0})",
    "pg_total_relation_size(regclass)": "(tg_relation_size({token}, {0}) + tg_indexes_size({token}, {0}))",
    "pg_indexes_size(regclass)": "tg_indexes_size({token}, {0})",
    "pg_database_size(name)": "tg_database_size({token}, 'n' || {0})",
    "pg_listening_channels()": "tg_listening_channels({token})",
    "pg_blocking_pids(int4)": "tg_blocking_pids({token}, {0})",
    "pg_isolation_test_session_is_blocked(int4,int4[])": "list_has_any(tg_blocking_pids({token}, {0}), {1})",
    "pg_database_size(oid)": "tg_database_size({token}, 'o' || {0})",
    "pg_relation_filenode(regclass)": "tg_relation_filenode({token}, {0})",
    "pg_relation_is_updatable(regclass,bool)": (
        "CASE WHEN {1} IS NOT NULL THEN tg_relation_is_updatable({token}, {0}) END"
    ),
    "pg_column_is_updatable(regclass,int2,bool)": (
        "CASE WHEN {2} IS NOT NULL THEN tg_column_is_updatable({token}, {0}, {1}) END"
    ),
    "pg_relation_is_publishable(regclass)": "tg_relation_is_publishable({token}, {0})",
    "pg_index_column_has_property(regclass,int4,text)": "tg_index_column_has_property({token}, {0}, {1}, {2})",
    "pg_index_has_property(regclass,text)": "tg_index_has_property({token}, {0}, {1})",
    "brin_summarize_new_values(regclass)": "tg_index_upkeep({token}, {0}, 'brin', 0, 0)",
    "brin_summarize_range(regclass,int8)": "tg_index_upkeep({token}, {0}, 'brin', {1}, 4294967295)",
    "brin_desummarize_range(regclass,int8)": (
        "CASE WHEN tg_index_upkeep({token}, {0}, 'brin', {1}, 4294967294) = 0 THEN '' END"
    ),
    "gin_clean_pending_list(regclass)": "CAST(tg_index_upkeep({token}, {0}, 'gin', 0, 0) AS BIGINT)",
    "pg_indexam_has_property(oid,text)": "tg_indexam_has_property({token}, {0}, {1})",
    "pg_get_replica_identity_index(regclass)": "tg_replica_identity_index({token}, {0})",
    "pg_sequence_parameters(oid)": "tg_sequence_parameters({token}, {0})",
    "pg_settings_get_flags(text)": "tg_setting_flags({token}, {0})",
    "pg_collation_actual_version(oid)": "tg_collation_version({token}, {0})",
    "pg_current_logfile(text)": "tg_current_logfile({token}, {0})",
    "pg_filenode_relation(oid,oid)": "tg_filenode_relation({token}, {0}, {1})",
    "pg_tablespace_databases(oid)": "tg_tablespace_databases({token}, {0})",
    "_pg_expandarray(anyarray)": "list_transform({0}, lambda x, i: {'x': x, 'n': CAST(i AS INTEGER)})",
}

_NULL_TEXT = "CAST(NULL AS VARCHAR)"

_PG_CATALOG = "'pg_catalog'"
_AVAILABLE = ", ".join(f"ROW('{e.name}', '{e.version}', '{e.comment}')" for e in AVAILABLE.values())
_VERSIONS = ", ".join(
    f"ROW('{e.name}', '{e.version}', TRUE, TRUE, {e.relocatable}, "
    f"{'NULL' if e.relocatable else _PG_CATALOG}, NULL, '{e.comment}')"
    for e in AVAILABLE.values()
)

_ABSENT = {
    "pg_get_triggerdef(oid)": _NULL_TEXT,
    "pg_get_triggerdef(oid,bool)": _NULL_TEXT,
    "pg_get_partkeydef(oid)": _NULL_TEXT,
    "pg_get_partition_constraintdef(oid)": _NULL_TEXT,
    "pg_relation_filepath(regclass)": _NULL_TEXT,
    "pg_tablespace_location(oid)": "CASE WHEN {0} IS NOT NULL THEN '' END",
    "pg_is_in_recovery()": "FALSE",
    "pg_last_wal_receive_lsn()": _NULL_TEXT,
    "pg_last_wal_replay_lsn()": _NULL_TEXT,
    "pg_last_xact_replay_timestamp()": "CAST(NULL AS TIMESTAMPTZ)",
    "pg_current_logfile()": _NULL_TEXT,
    "pg_extension_update_paths(name)": 'CAST([] AS STRUCT("source" VARCHAR, target VARCHAR, path VARCHAR)[])',
    "pg_indexam_progress_phasename(oid,int8)": _NULL_TEXT,
    "pg_get_publication_tables(text)": "CAST([] AS STRUCT(relid BIGINT, attrs VARCHAR, qual VARCHAR)[])",
    "pg_show_replication_origin_status()": (
        "CAST([] AS STRUCT(local_id BIGINT, external_id VARCHAR, remote_lsn VARCHAR, local_lsn VARCHAR)[])"
    ),
    "pg_is_other_temp_schema(oid)": "CASE WHEN {0} IS NOT NULL THEN FALSE END",
    "pg_jit_available()": "FALSE",
    "age(xid)": "CASE WHEN {0} < 3 THEN CAST(2147483647 AS INTEGER) WHEN {0} >= 3 THEN CAST(0 AS INTEGER) END",
    "pg_trigger_depth()": "CAST(0 AS INTEGER)",
    "pg_safe_snapshot_blocking_pids(int4)": "CASE WHEN {0} IS NOT NULL THEN CAST([] AS INTEGER[]) END",
    "pg_stat_get_numscans(oid)": "CASE WHEN {0} IS NOT NULL THEN CAST(0 AS BIGINT) END",
    "pg_partition_root(regclass)": "CAST(NULL AS BIGINT)",
    "pg_partition_ancestors(regclass)": "CAST([] AS BIGINT[])",
    "pg_partition_tree(regclass)": (
        "CAST([] AS STRUCT(relid BIGINT, parentrelid BIGINT, isleaf BOOLEAN, level INTEGER)[])"
    ),
    "pg_available_extensions()": (
        f"CAST([{_AVAILABLE}] AS STRUCT(name VARCHAR, default_version VARCHAR, comment VARCHAR)[])"
    ),
    "pg_available_extension_versions()": (
        f"CAST([{_VERSIONS}] AS STRUCT(name VARCHAR, version VARCHAR, superuser BOOLEAN, trusted BOOLEAN, "
        'relocatable BOOLEAN, "schema" VARCHAR, requires VARCHAR[], comment VARCHAR)[])'
    ),
}

_VISIBILITY = (
    "table",
    "type",
    "function",
    "collation",
    "conversion",
    "opclass",
    "operator",
    "opfamily",
    "statistics_obj",
    "ts_config",
    "ts_dict",
    "ts_parser",
    "ts_template",
)

_PRIVILEGES = ("database", "function", "language", "schema", "sequence", "table", "tablespace", "type", "server")


def _tagged(type: str, place: int) -> str:
    """An object argument for a privilege function: its name or its oid, told apart by a letter."""
    return f"('{'o' if type in ('oid', 'int2') else 'n'}' || {{{place}}})"


def _privilege_forms() -> Iterator[tuple[str, str]]:
    for kind in (*_PRIVILEGES, "foreign_data_wrapper", "any_column"):
        for target in ("oid", "text"):
            yield (
                f"has_{kind}_privilege({target},text)",
                f"tg_has_privilege({{token}}, '{kind}', 'c', {_tagged(target, 0)}, {{1}})",
            )
            for role in ("name", "oid"):
                yield (
                    f"has_{kind}_privilege({role},{target},text)",
                    f"tg_has_privilege({{token}}, '{kind}', {_tagged(role, 0)}, {_tagged(target, 1)}, {{2}})",
                )
    for table in ("oid", "text"):
        for column in ("int2", "text"):
            yield (
                f"has_column_privilege({table},{column},text)",
                f"tg_has_column_privilege({{token}}, 'c', {_tagged(table, 0)}, {_tagged(column, 1)}, {{2}})",
            )
            for role in ("name", "oid"):
                yield (
                    f"has_column_privilege({role},{table},{column},text)",
                    f"tg_has_column_privilege({{token}}, {_tagged(role, 0)}, {_tagged(table, 1)}, "
                    f"{_tagged(column, 2)}, {{3}})",
                )
    yield "has_parameter_privilege(text,text)", "tg_has_parameter_privilege({token}, 'c', {0}, {1})"
    for role in ("name", "oid"):
        yield (
            f"has_parameter_privilege({role},text,text)",
            f"tg_has_parameter_privilege({{token}}, {_tagged(role, 0)}, {{1}}, {{2}})",
        )
    for target in ("name", "oid"):
        yield (
            f"pg_has_role({target},text)",
            f"tg_has_privilege({{token}}, 'role', 'c', {_tagged(target, 0)}, {{1}})",
        )
        for role in ("name", "oid"):
            yield (
                f"pg_has_role({role},{target},text)",
                f"tg_has_privilege({{token}}, 'role', {_tagged(role, 0)}, {_tagged(target, 1)}, {{2}})",
            )


def _all() -> Iterator[tuple[str, str]]:
    yield from _SIMPLE.items()
    yield from _ABSENT.items()
    yield from _privilege_forms()
    for kind in _VISIBILITY:
        yield f"pg_{kind}_is_visible(oid)", f"tg_is_visible({{token}}, '{kind}', {{0}})"
    for target in ("oid", "text"):
        yield f"row_security_active({target})", f"tg_row_security_active({{token}}, {_tagged(target, 0)})"
    for kind in REG_TYPES.values():
        if kind not in ("regconfig", "regdictionary"):
            yield f"to_{kind}(text)", f"tg_to_{kind}({{token}}, {{0}})"


FORMS: Mapping[str, Form] = {key: local_only(template) for key, template in _all()}
"""The forms by registry key."""
