"""Which module makes the rows of which system relation.

A relation that is in none of these tables and has no generated data is empty: its feature (triggers, publications,
text search configurations of users, ...) does not exist here, and its queries find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adapter.system_catalogs.information_schema import keys as information_schema_keys
from adapter.system_catalogs.information_schema import privileges as information_schema_privileges
from adapter.system_catalogs.information_schema import routines as information_schema_routines
from adapter.system_catalogs.information_schema import tables as information_schema
from adapter.system_catalogs.information_schema import types as information_schema_types
from adapter.system_catalogs.information_schema.privileges import of_roles
from adapter.system_catalogs.objects.content import Builder
from adapter.system_catalogs.objects.functions import pg_proc
from adapter.system_catalogs.pg_catalog import (
    catalog_views,
    class_rows,
    extension_rows,
    foreign_rows,
    object_rows,
    operator_rows,
    policy_rows,
    privilege_rows,
    shared_rows,
    statistics_rows,
    type_rows,
)
from adapter.system_catalogs.pg_catalog.privilege_rows import with_column_privileges, with_privileges
from planner.types.system_relations import OWN_SCHEMA

PG_CATALOG: Mapping[str, Builder] = {
    "pg_attrdef": class_rows.pg_attrdef,
    "pg_attribute": with_column_privileges(class_rows.pg_attribute),
    "pg_class": with_privileges(class_rows.pg_class, "relacl"),
    "pg_constraint": class_rows.pg_constraint,
    "pg_index": class_rows.pg_index,
    "pg_rewrite": class_rows.pg_rewrite,
    "pg_sequence": class_rows.pg_sequence,
    "pg_language": with_privileges(privilege_rows.built_in("pg_language"), "lanacl"),
    "pg_tablespace": with_privileges(privilege_rows.built_in("pg_tablespace"), "spcacl"),
    "pg_default_acl": privilege_rows.pg_default_acl,
    "pg_parameter_acl": privilege_rows.pg_parameter_acl,
    "pg_type": with_privileges(type_rows.pg_type, "typacl"),
    "pg_enum": type_rows.pg_enum,
    "pg_range": type_rows.pg_range,
    "pg_cast": operator_rows.pg_cast,
    "pg_opclass": operator_rows.pg_opclass,
    "pg_operator": operator_rows.pg_operator,
    "pg_opfamily": operator_rows.pg_opfamily,
    "pg_foreign_data_wrapper": with_privileges(foreign_rows.pg_foreign_data_wrapper, "fdwacl"),
    "pg_foreign_server": with_privileges(foreign_rows.pg_foreign_server, "srvacl"),
    "pg_foreign_table": foreign_rows.pg_foreign_table,
    "pg_user_mapping": foreign_rows.pg_user_mapping,
    "pg_auth_members": object_rows.pg_auth_members,
    "pg_authid": object_rows.pg_authid,
    "pg_database": with_privileges(object_rows.pg_database, "datacl"),
    "pg_db_role_setting": object_rows.pg_db_role_setting,
    "pg_depend": object_rows.pg_depend,
    "pg_description": object_rows.pg_description,
    "pg_available_extension_versions": extension_rows.pg_available_extension_versions,
    "pg_available_extensions": extension_rows.pg_available_extensions,
    "pg_extension": extension_rows.pg_extension,
    "pg_init_privs": extension_rows.pg_init_privs,
    "pg_namespace": with_privileges(object_rows.pg_namespace, "nspacl"),
    "pg_policies": policy_rows.pg_policies,
    "pg_policy": policy_rows.pg_policy,
    "pg_statistic_ext": statistics_rows.pg_statistic_ext,
    "pg_shdepend": shared_rows.pg_shdepend,
    "pg_shdescription": object_rows.pg_shdescription,
    "pg_group": catalog_views.pg_group,
    "pg_indexes": catalog_views.pg_indexes,
    "pg_matviews": catalog_views.pg_matviews,
    "pg_roles": catalog_views.pg_roles,
    "pg_proc": with_privileges(pg_proc, "proacl"),
    "pg_shadow": catalog_views.pg_shadow,
    "pg_tables": catalog_views.pg_tables,
    "pg_user": catalog_views.pg_user,
    "pg_views": catalog_views.pg_views,
    "pg_stat_xact_all_tables": catalog_views.all_table_statistics,
    "pg_stat_xact_sys_tables": catalog_views.system_table_statistics,
    "pg_stat_xact_user_tables": catalog_views.user_table_statistics,
    "pg_statio_all_tables": catalog_views.all_table_statistics,
    "pg_statio_sys_tables": catalog_views.system_table_statistics,
    "pg_statio_user_tables": catalog_views.user_table_statistics,
    "pg_statio_all_indexes": catalog_views.all_index_statistics,
    "pg_statio_sys_indexes": catalog_views.system_index_statistics,
    "pg_statio_user_indexes": catalog_views.user_index_statistics,
}

INFORMATION_SCHEMA: Mapping[str, Builder] = {
    "administrable_role_authorizations": information_schema_privileges.administrable_role_authorizations,
    "applicable_roles": information_schema_privileges.applicable_roles,
    "character_sets": information_schema.character_sets,
    "check_constraints": information_schema_keys.check_constraints,
    "collation_character_set_applicability": information_schema.collation_character_set_applicability,
    "collations": information_schema.collations,
    "column_column_usage": information_schema.column_column_usage,
    "attributes": information_schema_types.attributes,
    "column_domain_usage": information_schema_types.column_domain_usage,
    "column_privileges": information_schema_privileges.column_privileges,
    "column_udt_usage": information_schema_types.column_udt_usage,
    "columns": information_schema.columns,
    "constraint_column_usage": information_schema_keys.constraint_column_usage,
    "constraint_table_usage": information_schema_keys.constraint_table_usage,
    "domain_constraints": information_schema_types.domain_constraints,
    "domain_udt_usage": information_schema_types.domain_udt_usage,
    "domains": information_schema.domains,
    "element_types": information_schema_types.element_types,
    "foreign_data_wrappers": foreign_rows.foreign_data_wrappers,
    "foreign_server_options": foreign_rows.foreign_server_options,
    "foreign_servers": foreign_rows.foreign_servers,
    "foreign_table_options": foreign_rows.foreign_table_options,
    "foreign_tables": foreign_rows.foreign_tables,
    "user_mappings": foreign_rows.user_mappings,
    "enabled_roles": information_schema_privileges.enabled_roles,
    "information_schema_catalog_name": information_schema.information_schema_catalog_name,
    "key_column_usage": information_schema_keys.key_column_usage,
    "parameters": information_schema_routines.parameters,
    "referential_constraints": information_schema_keys.referential_constraints,
    "role_column_grants": of_roles(information_schema_privileges.column_privileges),
    "role_table_grants": of_roles(information_schema_privileges.table_privileges),
    "role_routine_grants": of_roles(information_schema_routines.routine_privileges),
    "role_udt_grants": of_roles(information_schema_privileges.udt_privileges),
    "role_usage_grants": of_roles(information_schema_privileges.usage_privileges),
    "routine_column_usage": information_schema_routines.routine_column_usage,
    "routine_privileges": information_schema_routines.routine_privileges,
    "routine_routine_usage": information_schema_routines.routine_routine_usage,
    "routine_sequence_usage": information_schema_routines.routine_sequence_usage,
    "routine_table_usage": information_schema_routines.routine_table_usage,
    "routines": information_schema_routines.routines,
    "schemata": information_schema.schemata,
    "sequences": information_schema.sequences,
    "table_constraints": information_schema_keys.table_constraints,
    "table_privileges": information_schema_privileges.table_privileges,
    "tables": information_schema.tables,
    "udt_privileges": information_schema_privileges.udt_privileges,
    "usage_privileges": information_schema_privileges.usage_privileges,
    "user_defined_types": information_schema_privileges.user_defined_types,
    "view_column_usage": information_schema.view_column_usage,
    "view_table_usage": information_schema.view_table_usage,
    "views": information_schema.views,
}

STATIC_PG_CATALOG = frozenset(
    {
        "pg_aggregate",
        "pg_am",
        "pg_amop",
        "pg_amproc",
        "pg_collation",
        "pg_conversion",
        "pg_language",
        "pg_tablespace",
        "pg_ts_config",
        "pg_ts_config_map",
        "pg_ts_dict",
        "pg_ts_parser",
        "pg_ts_template",
    }
)
"""Relations whose generated data is all that they hold."""

SHOWN_TO_FEWER: Mapping[str, Sequence[str]] = {
    "parameters": ("parameter_default",),
    "routines": ("routine_definition",),
    "views": ("view_definition",),
}
"""Columns of views of information_schema that are NULL for some who see the row."""

STATIC_INFORMATION_SCHEMA = frozenset({"sql_features", "sql_implementation_info", "sql_parts", "sql_sizing"})


def builder(schema: str, name: str) -> Builder | None:
    """The builder of a relation whose rows follow from the catalog, or None."""
    return (PG_CATALOG if schema == "pg_catalog" else INFORMATION_SCHEMA).get(name)


def is_static(schema: str, name: str) -> bool:
    """Whether the relation's rows are the same in every catalog (its generated data, or none)."""
    return builder(schema, name) is None and not is_session_relation(schema, name)


SESSION_RELATIONS = frozenset(
    {
        "pg_cursors",
        "pg_file_settings",
        "pg_hba_file_rules",
        "pg_largeobject_metadata",
        "pg_ident_file_mappings",
        "pg_locks",
        "pg_prepared_statements",
        "pg_prepared_xacts",
        "pg_sequences",
        "pg_settings",
        "pg_stat_activity",
        "pg_stat_all_indexes",
        "pg_stat_all_tables",
        "pg_stat_database",
        "pg_stat_gssapi",
        "pg_stat_progress_cluster",
        "pg_stat_progress_copy",
        "pg_stat_ssl",
        "pg_stat_sys_indexes",
        "pg_stat_sys_tables",
        "pg_stat_user_indexes",
        "pg_stat_user_tables",
        "pg_statistic",
        "pg_stats",
        "pg_timezone_abbrevs",
        "pg_timezone_names",
        "pg_user_mappings",
        "user_mapping_options",
    }
)


def is_session_relation(schema: str, name: str) -> bool:
    """Whether the rows depend on sessions or on the time, so that they are made anew for each statement."""
    return schema == OWN_SCHEMA or (schema in ("pg_catalog", "information_schema") and name in SESSION_RELATIONS)
