"""pg_type, pg_enum and pg_range: the types that are built in and those of users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from adapter.execution_context import Row
from adapter.system_catalogs.objects.content import Content, template
from adapter.system_catalogs.objects.definitions import shown_expression
from adapter.system_catalogs.objects.objects import CatalogObjects
from planner.catalog_data import content as catalog_data
from planner.types import derived_oids
from planner.types.type_names import type_row
from planner.types.type_scope import UserType
from planner.types.types import column_type
from planner.types.user_types import array_name, type_row_of
from storage.catalog.model import DomainType, EnumType, Relation
from storage.catalog.types import ENUM_SPACING, BaseType, UserRange

_ENUM_FUNCTIONS = {"typinput": 3506, "typoutput": 3507, "typreceive": 3532, "typsend": 3533}

_COMPOSITE_FUNCTIONS = {"typinput": 2290, "typoutput": 2291, "typreceive": 2402, "typsend": 2403}


def pg_type(objects: CatalogObjects) -> Content:
    """The built-in types, and those of users with the arrays over them."""
    rows: list[Row] = []
    records: list[UserType] = [
        *objects.relations,
        *objects.enums,
        *objects.domains,
        *objects.ranges,
        *objects.base_types,
    ]
    for record in records:
        rows.append(_domain_row(objects, record) if isinstance(record, DomainType) else _type_row(record))
        rows.append(_array_row(objects, record))
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
    if isinstance(record, UserRange):
        like = "nummultirange" if record.is_multirange else "numrange"
        align = "d" if _alignment(record.subtype) == "d" else "i"
        return {**template("pg_type", "typname", like), **own, "typalign": align}
    if isinstance(record, BaseType):
        layout = type_row_of(record)
        return {
            **template("pg_type", "typname", "text"),
            **own,
            "typcategory": layout.category,
            "typispreferred": False,
            "typcollation": layout.collation,
        }
    return {
        **template("pg_type", "typname", "int4"),
        **own,
        **_ENUM_FUNCTIONS,
        "typtype": "e",
        "typcategory": "E",
        "typispreferred": False,
    }


@cache
def _rows_by_oid() -> Mapping[int, Row]:
    data = catalog_data.columns("pg_type")
    return {values[0]: dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)}


def _domain_row(objects: CatalogObjects, domain: DomainType) -> Row:
    base_oid = column_type(domain.base_oid).oid
    built_in = _rows_by_oid().get(base_oid)
    layout = type_row(base_oid)
    assert layout is not None
    if built_in is None:
        built_in = {
            **template("pg_type", "typname", "int4" if layout.byval else "_int4"),
            "typalign": "i" if layout.byval or objects.element_type(base_oid) else "d",
            "typcategory": layout.category,
            **(_ENUM_FUNCTIONS if layout.type == "e" else _COMPOSITE_FUNCTIONS if layout.type == "c" else {}),
        }
    return {
        **built_in,
        **_common(domain),
        "oid": derived_oids.row_type_oid(domain.oid),
        "typname": domain.name,
        "typtype": "d",
        "typispreferred": False,
        "typrelid": 0,
        "typsubscript": 0,
        "typelem": 0,
        "typarray": derived_oids.array_type_oid(domain.oid),
        "typinput": 2597,
        "typreceive": 2598,
        "typmodin": 0,
        "typmodout": 0,
        "typnotnull": domain.not_null,
        "typbasetype": domain.base_oid,
        "typtypmod": domain.typmod,
        "typndims": 1 if objects.element_type(domain.base_oid) else 0,
        "typcollation": domain.collation,
        "typdefaultbin": domain.default,
        "typdefault": None if domain.default is None else shown_expression(objects, 0, domain.default),
    }


def _array_row(objects: CatalogObjects, record: UserType) -> Row:
    return {
        **template("pg_type", "typname", "_pg_am"),
        **_common(record),
        "oid": derived_oids.array_type_oid(record.oid),
        "typname": array_name(objects.snapshot, record.schema, record.name),
        "typelem": derived_oids.row_type_oid(record.oid),
        "typalign": _array_alignment(record),
        "typcollation": type_row_of(record).collation,
    }


def _array_alignment(record: UserType) -> str:
    if isinstance(record, (DomainType, UserRange)):
        of = record.base_oid if isinstance(record, DomainType) else record.subtype
        return "d" if _alignment(of) == "d" else "i"
    return "i" if isinstance(record, (EnumType, BaseType)) else "d"


def _alignment(oid: int) -> str | None:
    data = _rows_by_oid().get(column_type(oid).oid)
    return None if data is None else str(data["typalign"])


def pg_range(objects: CatalogObjects) -> Content:
    """The built-in ranges and those of users."""
    rows: list[Row] = [
        {
            "rngtypid": derived_oids.row_type_oid(record.oid),
            "rngsubtype": record.subtype,
            "rngmultitypid": derived_oids.row_type_oid(record.multirange),
            "rngcollation": record.collation,
            "rngsubopc": record.operator_class,
            "rngcanonical": 0,
            "rngsubdiff": record.difference,
        }
        for record in objects.ranges
        if not record.is_multirange
    ]
    return Content(columns=catalog_data.columns("pg_range"), rows=rows)


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
