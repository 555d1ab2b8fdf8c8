"""Functions of the system catalogs and of the session.

They are computed by functions that the adapter registers with the local engine, named ``tg_<name>``; the first argument
is the execution's context token. `CONTEXT_FUNCTIONS` lists them with their argument and result types.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms import CallSite, Form, both, local_only
from planner.functions.routines import routines

_WITH_CONTEXT = """
format_type(oid,int4) pg_get_expr(pg_node_tree,oid) pg_get_expr(pg_node_tree,oid,bool) pg_get_userbyid(oid)
pg_get_viewdef(oid) pg_get_viewdef(oid,bool) pg_get_viewdef(oid,int4) pg_get_viewdef(text) pg_get_viewdef(text,bool)
pg_get_constraintdef(oid) pg_get_constraintdef(oid,bool) pg_get_indexdef(oid) pg_get_indexdef(oid,int4,bool)
pg_get_triggerdef(oid) pg_get_triggerdef(oid,bool) pg_get_ruledef(oid) pg_get_ruledef(oid,bool) pg_get_functiondef(oid)
pg_get_function_arguments(oid) pg_get_function_identity_arguments(oid) pg_get_function_result(oid)
pg_get_function_arg_default(oid,int4) pg_get_function_sqlbody(oid) pg_get_partkeydef(oid)
pg_get_partition_constraintdef(oid) pg_get_statisticsobjdef_columns(oid) pg_get_serial_sequence(text,text)
pg_table_is_visible(oid) pg_type_is_visible(oid) pg_function_is_visible(oid) pg_operator_is_visible(oid)
pg_opclass_is_visible(oid) pg_opfamily_is_visible(oid) pg_collation_is_visible(oid) pg_conversion_is_visible(oid)
pg_statistics_obj_is_visible(oid) pg_ts_config_is_visible(oid) pg_ts_dict_is_visible(oid) pg_ts_parser_is_visible(oid)
pg_ts_template_is_visible(oid)
obj_description(oid) obj_description(oid,name) col_description(oid,int4) shobj_description(oid,name)
has_table_privilege(text,text) has_table_privilege(oid,text) has_table_privilege(name,text,text)
has_table_privilege(name,oid,text) has_schema_privilege(text,text) has_schema_privilege(oid,text)
has_schema_privilege(name,text,text) has_schema_privilege(name,oid,text) has_database_privilege(text,text)
has_database_privilege(oid,text) has_database_privilege(name,text,text) has_database_privilege(name,oid,text)
has_column_privilege(text,text,text) has_column_privilege(oid,text,text) has_column_privilege(oid,int2,text)
has_any_column_privilege(text,text) has_any_column_privilege(oid,text) has_function_privilege(oid,text)
has_function_privilege(text,text) has_sequence_privilege(text,text) has_sequence_privilege(oid,text)
has_type_privilege(oid,text) has_type_privilege(text,text) has_language_privilege(oid,text)
has_language_privilege(text,text) has_tablespace_privilege(text,text) has_tablespace_privilege(oid,text)
pg_has_role(name,text) pg_has_role(oid,text) pg_has_role(name,name,text) pg_has_role(name,oid,text)
pg_has_role(oid,oid,text)
to_regclass(text) to_regtype(text) to_regnamespace(text) to_regrole(text) to_regproc(text) to_regprocedure(text)
to_regoper(text) to_regoperator(text)
pg_relation_size(regclass) pg_relation_size(regclass,text) pg_table_size(regclass) pg_total_relation_size(regclass)
pg_indexes_size(regclass) pg_database_size(name) pg_database_size(oid) pg_tablespace_size(oid) pg_tablespace_size(name)
pg_relation_filenode(regclass) pg_relation_filepath(regclass) pg_relation_is_publishable(regclass)
pg_relation_is_updatable(regclass,bool) pg_column_is_updatable(regclass,int2,bool)
pg_describe_object(oid,oid,int4) pg_sequence_last_value(regclass) pg_index_column_has_property(regclass,int4,text)
pg_stat_get_numscans(oid) oidvectortypes(oidvector) row_security_active(oid) row_security_active(text)
current_schema() current_schemas(bool) current_database() current_setting(text) current_setting(text,bool)
pg_client_encoding() version() pg_postmaster_start_time() pg_conf_load_time() pg_backend_pid() current_query()
"""
"""Functions whose answer depends on the catalog snapshot, the search path, the user or the settings."""

_SESSION_VALUES = {
    "now()": "CAST(now() AS TIMESTAMPTZ)", "transaction_timestamp()": "now()", "statement_timestamp()": "now()",
    "clock_timestamp()": "now()",
}  # fmt: skip
"""The binder replaces these by session values; the forms serve where one is left."""

_CONSTANTS = {
    "pg_is_in_recovery()": "FALSE", "pg_jit_available()": "FALSE", "pg_trigger_depth()": "0",
    "pg_is_other_temp_schema(oid)": "CASE WHEN {0} IS NOT NULL THEN FALSE END", "pg_my_temp_schema()": "CAST(0 AS BIGINT)",
    "pg_tablespace_location(oid)": "CASE WHEN {0} IS NOT NULL THEN '' END", "getdatabaseencoding()": "'UTF8'",
    "inet_server_port()": "CAST(NULL AS INTEGER)",
    "inet_client_port()": "CAST(NULL AS INTEGER)",
    "txid_current_if_assigned()": "CAST(NULL AS BIGINT)", "pg_partition_root(regclass)": "CASE WHEN {0} IS NULL THEN NULL ELSE CAST(NULL AS BIGINT) END",
    "pg_blocking_pids(int4)": "CAST([] AS INTEGER[])",
    "pg_encoding_to_char(int4)": "CASE {0} WHEN 6 THEN 'UTF8' WHEN 0 THEN 'SQL_ASCII' WHEN 8 THEN 'LATIN1' ELSE '' END",
    "pg_char_to_encoding(name)": "CASE replace(replace(upper({0}), '-', ''), '_', '') WHEN 'UTF8' THEN 6 WHEN 'UNICODE' THEN 6 "
    "WHEN 'SQLASCII' THEN 0 WHEN 'LATIN1' THEN 8 ELSE -1 END",
    "pg_encoding_max_length(int4)": "CASE {0} WHEN 6 THEN 4 WHEN 0 THEN 1 WHEN 8 THEN 1 END",
    "pg_size_pretty(int8)": "tg_size_pretty({0})", "pg_size_bytes(text)": "tg_size_bytes({0})",
}  # fmt: skip


def _context(name: str, arity: int) -> Form:
    args = "".join(f", {{{index}}}" for index in range(arity))

    def template(site: CallSite) -> str:
        token = site.settings.token.replace("'", "''")
        return f"tg_{name}('{token}'{args})" if arity != 1 else f"tg_{name}('{token}'{args})"

    return local_only(template)


def _typeof(site: CallSite) -> str:
    return f"CASE WHEN {{0}} IS NULL THEN CAST({site.arg_types[0].oid} AS BIGINT) ELSE CAST({site.arg_types[0].oid} AS BIGINT) END"


def _nulls(sign: str) -> Form:
    def template(site: CallSite) -> str:
        terms = " + ".join(f"CASE WHEN {{{i}}} IS {sign}NULL THEN 1 ELSE 0 END" for i in range(len(site.arg_types)))
        return f"({terms})"

    return both(template)


def context_keys() -> tuple[str, ...]:
    """The keys of the functions that take a context token; each is called as ``tg_<name>(token, ...)``."""
    return tuple(_WITH_CONTEXT.split())


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    known = routines()
    for key in context_keys():
        name = key.partition("(")[0]
        given[key] = _context(name, len(known[key].signature.args))
    for key, sql in {**_SESSION_VALUES, **_CONSTANTS}.items():
        given[key] = local_only(sql)
    given["current_user()"] = given["session_user()"] = local_only(
        lambda site: "tg_current_user('" + site.settings.token.replace("'", "''") + "')"
    )
    given["pg_typeof(any)"] = both(_typeof)
    given["num_nulls(any)"] = _nulls("")
    given["num_nonnulls(any)"] = _nulls("NOT ")
    given["gen_random_uuid()"] = Form(local="CAST(uuid() AS VARCHAR)", spark="uuid()")
    given["txid_current()"] = local_only("tg_txid_current('')")
    return given
