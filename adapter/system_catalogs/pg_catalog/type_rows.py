"""pg_type and pg_enum: the types that are built in and those of users."""

from __future__ import annotations

from collections.abc import Iterator

from adapter.execution_context import Row
from adapter.system_catalogs.objects.content import Content, template
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.catalog_data import content as catalog_data
from planner.types import derived_oids
from planner.types.user_types import UserType, array_name
from storage.catalog.model import ENUM_SPACING, EnumType, Relation

_ENUM_FUNCTIONS = {"typinput": 3506, "typoutput": 3507, "typreceive": 3532, "typsend": 3533}


def pg_type(objects: CatalogObjects) -> Content:
    """The built-in types, and those of users with the arrays over them."""
    rows: list[Row] = []
    records: list[UserType] = [*objects.relations, *objects.enums]
    for record in records:
        rows.append(_type_row(record))
        rows.append(_array_row(record))
    return Content(columns=catalog_data.columns("pg_type"), rows=rows)


def _common(record: UserType) -> Row:
    return {"typnamespace": record.schema, "typowner": record.owner}


def _type_row(record: UserType) -> Row:
    own = {
        **_common(record),
        "oid": derived_oids.row_type_oid(record.oid),
        "typname": record.name,
        "typarray": derived_oids.array_type_oid(record.oid),
    }
    if isinstance(record, Relation):
        return {**template("pg_type", "typname", "pg_am"), **own, "typrelid": record.oid}
    return {
        **template("pg_type", "typname", "int4"),
        **own,
        **_ENUM_FUNCTIONS,
        "typtype": "e",
        "typcategory": "E",
        "typispreferred": False,
    }


def _array_row(record: UserType) -> Row:
    return {
        **template("pg_type", "typname", "_pg_am"),
        **_common(record),
        "oid": derived_oids.array_type_oid(record.oid),
        "typname": array_name(record.name),
        "typelem": derived_oids.row_type_oid(record.oid),
        "typalign": "i" if isinstance(record, EnumType) else "d",
    }


def pg_enum(objects: CatalogObjects) -> Content:
    """The values of enums. A value that came between two others has the number between theirs."""

    def rows() -> Iterator[Row]:
        for enum in objects.enums:
            for label in enum.labels:
                yield {
                    "oid": label.oid,
                    "enumtypid": derived_oids.row_type_oid(enum.oid),
                    "enumsortorder": label.position / ENUM_SPACING,
                    "enumlabel": label.name,
                }

    return Content(rows=list(rows()))
