"""information_schema.routines and information_schema.parameters of functions and procedures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from adapter.access.acls import entries_of
from adapter.execution_context import Row
from adapter.system_catalogs.information_schema.privileges import shown_grant
from adapter.system_catalogs.information_schema.tables import YES_NO, object_name, relation_name
from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.content import Content
from adapter.system_catalogs.objects.definitions import format_type
from adapter.system_catalogs.objects.function_rows import user_row
from adapter.system_catalogs.objects.functions import argument_default
from adapter.system_catalogs.objects.objects import PG_CLASS, PG_PROC, CatalogObjects
from adapter.system_catalogs.objects.seers import SEEN_BY, SHOWN_TO, grants, having
from adapter.system_catalogs.pg_catalog.object_rows import pg_depend
from planner.catalog_data import content as catalog_data
from storage.catalog.model import PG_CATALOG_OID, Relation
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.routines import Function

_MODES = {"i": "IN", "o": "OUT", "b": "INOUT", "v": "IN", "t": "OUT"}
_TYPES = {"f": "FUNCTION", "p": "PROCEDURE"}


def _functions(objects: CatalogObjects) -> list[dict[str, Any]]:
    """The rows of pg_proc."""
    return [*_built_in(), *(user_row(record) for record in objects.functions)]


@cache
def _built_in() -> tuple[dict[str, Any], ...]:
    data = builtin_columns("pg_proc")
    return tuple(dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True))


def _specific(objects: CatalogObjects, row: dict[str, Any]) -> Row:
    schema = objects.schema_name_by_oid.get(row["pronamespace"])
    return object_name(objects, "specific", schema, f"{row['proname']}_{row['oid']}")


def _data_type(objects: CatalogObjects, oid: int) -> str:
    if objects.element_type(oid):
        return "ARRAY"
    named = objects.type(oid)
    return format_type(objects, oid) if named is not None and named.namespace == PG_CATALOG_OID else "USER-DEFINED"


def _udt(objects: CatalogObjects, prefix: str, oid: int) -> Row:
    named = objects.type(oid)
    if named is None:
        return {}
    return object_name(objects, prefix, objects.schema_name_by_oid.get(named.namespace), named.name)


def routines(objects: CatalogObjects) -> Content:
    """Functions and procedures."""
    languages = dict(
        zip(catalog_data.columns("pg_language")["oid"], catalog_data.columns("pg_language")["lanname"], strict=True)
    )
    rows: list[Row] = []
    for row in _functions(objects):
        language = languages[row["prolang"]]
        result: Row = {}
        if row["prokind"] != "p":
            result = {
                **_udt(objects, "type_udt", row["prorettype"]),
                "data_type": _data_type(objects, row["prorettype"]),
                "dtd_identifier": "0",
            }
        rows.append(
            {
                **_specific(objects, row),
                **object_name(objects, "routine", objects.schema_name_by_oid.get(row["pronamespace"]), row["proname"]),
                **result,
                "routine_type": _TYPES.get(row["prokind"]),
                "routine_body": "SQL" if language == "sql" else "EXTERNAL",
                "routine_definition": row["prosrc"],
                "external_name": row["prosrc"] if language == "c" else None,
                "external_language": language.upper(),
                "parameter_style": "GENERAL",
                "is_deterministic": YES_NO[row["provolatile"] == "i"],
                "sql_data_access": "MODIFIES",
                "is_null_call": None if row["prokind"] == "p" else YES_NO[row["proisstrict"]],
                "schema_level_routine": "YES",
                "max_dynamic_result_sets": 0,
                "security_type": "DEFINER" if row["prosecdef"] else "INVOKER",
                "as_locator": "NO",
                "is_udt_dependent": "NO",
                SEEN_BY: _callers(objects, row),
                SHOWN_TO: frozenset({row["proowner"]}),
            }
        )
    return Content(rows=rows)


def parameters(objects: CatalogObjects) -> Content:
    """Arguments and OUT columns of functions and procedures."""

    def rows() -> Iterator[Row]:
        for row in _functions(objects):
            types = row["proallargtypes"] or row["proargtypes"]
            modes = row["proargmodes"] or ["i"] * len(types)
            names = row["proargnames"] or [""] * len(types)
            specific = _specific(objects, row)
            seen = {SEEN_BY: _callers(objects, row), SHOWN_TO: frozenset({row["proowner"]})}
            for position, (oid, mode, name) in enumerate(zip(types, modes, names, strict=True), 1):
                yield {
                    **specific,
                    **_udt(objects, "udt", oid),
                    "ordinal_position": position,
                    "parameter_mode": _MODES[mode],
                    "is_result": "NO",
                    "as_locator": "NO",
                    "parameter_name": name or None,
                    "data_type": _data_type(objects, oid),
                    "dtd_identifier": str(position),
                    "parameter_default": argument_default(objects, row["oid"], position),
                    **seen,
                }

    return Content(rows=list(rows()))


def _callers(objects: CatalogObjects, row: dict[str, Any]) -> frozenset[int]:
    return having(objects.snapshot, "f", row["oid"], row["proowner"], "X")


def routine_privileges(objects: CatalogObjects) -> Content:
    """EXECUTE on functions and procedures."""

    def rows() -> Iterator[Row]:
        for row in _functions(objects):
            owner = row["proowner"]
            schema = objects.schema_name_by_oid.get(row["pronamespace"])
            common = {
                **_specific(objects, row),
                **object_name(objects, "routine", schema, row["proname"]),
            }
            for grant in grants(objects, entries_of(objects.snapshot, "f", row["oid"], owner), owner, "X"):
                yield {**common, **shown_grant(grant)}

    return Content(rows=list(rows()))


# ---------------------------------------------------------------- what routines use


def _uses(objects: CatalogObjects, catalog: int) -> Iterator[tuple[Row, int, int]]:
    """What functions refer to in a catalog, by their standard bodies and the defaults of their parameters: the columns
    that name the function, the oid of what it uses and the attnum of a column, or 0."""
    names = {
        function.oid: {
            **_specific(objects, row),
            **object_name(objects, "routine", objects.schema_name_by_oid.get(function.schema), function.name),
        }
        for function in objects.functions
        for row in (user_row(function),)
    }
    for row in pg_depend(objects).rows:
        if row["classid"] == PG_PROC and row["refclassid"] == catalog and row["objid"] in names:
            yield names[row["objid"]], row["refobjid"], row["refobjsubid"]


def routine_table_usage(objects: CatalogObjects) -> Content:
    """Tables and views that functions use."""
    rows = {
        (common["specific_name"], oid): {**common, **relation_name(objects, table), SEEN_BY: frozenset({table.owner})}
        for common, oid, _ in _uses(objects, PG_CLASS)
        if isinstance(table := objects.snapshot.get(oid), Relation) and table.kind in ("r", "v", "f", "p")
    }
    return Content(rows=list(rows.values()))


def routine_column_usage(objects: CatalogObjects) -> Content:
    """Columns of tables and views that functions use."""
    return Content(
        rows=[
            {
                **common,
                **relation_name(objects, table),
                "column_name": column.name,
                SEEN_BY: frozenset({table.owner}),
            }
            for common, oid, attnum in _uses(objects, PG_CLASS)
            if isinstance(table := objects.snapshot.get(oid), Relation) and table.kind in ("r", "v", "f", "p")
            for column in table.live_columns()
            if column.attnum == attnum
        ]
    )


def routine_sequence_usage(objects: CatalogObjects) -> Content:
    """Sequences that functions use."""
    return Content(
        rows=[
            {
                **common,
                **object_name(objects, "sequence", objects.schema_name_by_oid.get(used.schema), used.name),
                SEEN_BY: frozenset({used.owner}),
            }
            for common, oid, _ in _uses(objects, PG_CLASS)
            if isinstance(used := objects.snapshot.get(oid), SequenceRecord)
        ]
    )


def routine_routine_usage(objects: CatalogObjects) -> Content:
    """Functions that functions use."""
    return Content(
        rows=[
            {
                **{name: value for name, value in common.items() if name.startswith("specific_")},
                **object_name(
                    objects, "routine", objects.schema_name_by_oid.get(used.schema), f"{used.name}_{used.oid}"
                ),
                SEEN_BY: frozenset({used.owner}),
            }
            for common, oid, _ in _uses(objects, PG_PROC)
            if isinstance(used := objects.snapshot.get(oid), Function)
        ]
    )
