"""The families of routines, each a module with the forms of its routines."""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms import Form
from planner.functions.routines import routines

_TYPES = frozenset(
    "bool bytea char name int8 int2 int4 text oid json float4 float8 bpchar varchar date time timestamp timestamptz "
    "interval numeric uuid jsonb regclass regtype regproc regnamespace regrole regprocedure record any anyelement "
    "anyarray anynonarray anycompatible anycompatiblearray anycompatiblenonarray void int2vector oidvector "
    "pg_node_tree xid char[] name[] text[] oid[] int4[] float8[]".split()
)
_NAMES = frozenset(
    """
    = <> < > <= >= + - * / % ^ |/ ||/ @ & | # ~ << >> ~~ !~~ ~~* !~~* !~ !~* ~* || @> <@ && -> ->> #> #>> ? ?& ?| ^@ #-
    avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp cume_dist dense_rank every json_agg
    json_object_agg jsonb_agg jsonb_object_agg max min mode percent_rank percentile_cont percentile_disc rank
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop
    stddev_samp string_agg sum var_pop var_samp variance array_agg
    first_value lag last_value lead nth_value ntile row_number
    generate_series generate_subscripts json_array_elements json_array_elements_text json_each json_each_text
    json_object_keys jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys
    regexp_matches regexp_split_to_table string_to_table unnest pg_get_keywords pg_options_to_table
    pg_timezone_names pg_timezone_abbrevs pg_show_all_settings pg_lock_status pg_listening_channels
    abs acos acosd acosh age array_append array_cat array_dims array_length array_lower array_ndims
    array_position array_positions array_prepend array_remove array_replace array_to_json array_to_string
    array_upper ascii asin asind asinh atan atan2 atan2d atand atanh bit_count bit_length btrim cardinality cbrt ceil
    ceiling char_length character_length chr clock_timestamp col_description concat concat_ws convert_from convert_to
    cos cosd cosh cot cotd current_database current_query current_schema current_schemas current_setting current_user
    date date_bin date_part date_trunc decode degrees div encode exp extract factorial floor format format_type gcd
    gen_random_uuid get_bit get_byte getdatabaseencoding has_any_column_privilege has_column_privilege
    has_database_privilege has_function_privilege has_schema_privilege has_sequence_privilege has_table_privilege
    has_tablespace_privilege has_type_privilege has_language_privilege initcap isfinite json_array_length
    json_build_array json_build_object json_extract_path json_extract_path_text json_object json_strip_nulls
    json_typeof jsonb_array_length jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_extract_path_text
    jsonb_insert jsonb_object jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_typeof justify_days justify_hours
    justify_interval lcm left length like lower ln log log10 lpad ltrim make_date make_interval make_time
    make_timestamp make_timestamptz md5 min_scale mod now num_nonnulls num_nulls numeric obj_description octet_length
    overlaps overlay parse_ident pg_advisory_lock pg_advisory_unlock pg_advisory_unlock_all pg_backend_pid
    pg_cancel_backend pg_terminate_backend pg_char_to_encoding pg_client_encoding pg_collation_for
    pg_collation_is_visible pg_column_size pg_conf_load_time pg_conversion_is_visible pg_database_size
    pg_describe_object pg_encoding_max_length pg_encoding_to_char pg_function_is_visible pg_get_constraintdef
    pg_get_expr pg_get_function_arguments pg_get_function_identity_arguments pg_get_function_result
    pg_get_function_arg_default pg_get_function_sqlbody pg_get_functiondef pg_get_indexdef pg_get_partkeydef
    pg_get_partition_constraintdef pg_get_ruledef pg_get_serial_sequence pg_get_statisticsobjdef_columns
    pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role pg_indexes_size pg_is_in_recovery
    pg_is_other_temp_schema pg_my_temp_schema pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible
    pg_partition_root pg_postmaster_start_time pg_relation_filenode pg_relation_filepath pg_relation_size
    pg_relation_is_publishable pg_relation_is_updatable pg_column_is_updatable pg_size_bytes pg_size_pretty pg_sleep
    pg_stat_get_numscans pg_statistics_obj_is_visible pg_table_is_visible pg_table_size pg_tablespace_location
    pg_tablespace_size pg_total_relation_size pg_trigger_depth pg_ts_config_is_visible pg_ts_dict_is_visible
    pg_ts_parser_is_visible pg_ts_template_is_visible pg_type_is_visible pg_typeof pg_jit_available
    pg_blocking_pids pg_try_advisory_lock pg_sequence_last_value pg_index_column_has_property pg_identify_object
    pi position pow power quote_ident quote_literal quote_nullable radians random regexp_count regexp_instr
    regexp_like regexp_match regexp_replace regexp_split_to_array regexp_substr repeat replace reverse right round
    row_security_active row_to_json rpad rtrim scale session_user set_config sha224 sha256 sha384 sha512
    shobj_description sign sin sind sinh split_part sqrt starts_with statement_timestamp string_to_array strpos substr
    substring tan tand tanh text timezone timeofday to_char to_date to_hex to_json to_jsonb to_number to_regclass
    to_regnamespace to_regproc to_regprocedure to_regrole to_regtype to_regoper to_regoperator to_timestamp
    transaction_timestamp translate trim_array trim_scale trunc txid_current txid_current_if_assigned upper version
    width_bucket bpchar varchar name int2 int4 int8 float4 float8 oid timestamp timestamptz time interval bool
    inet_client_addr inet_client_port inet_server_addr inet_server_port acldefault oidvectortypes similar_to_escape
    like_escape unistr normalize is_normalized
    """.split()
)


def all_forms() -> Mapping[str, Form]:
    """Every routine's form, by its key (planner.functions.registry)."""
    given: dict[str, Form] = {}
    for key in routines():
        name, _, arguments = key.rpartition("(")
        if name in _NAMES and all(type in _TYPES for type in arguments[:-1].split(",") if type):
            given[key] = Form()
    return given
