"""Rows of pg_attribute: what follows of a column from its type."""

from __future__ import annotations

from adapter.execution_context import Row
from planner.catalog_data import content as catalog_data
from planner.catalog_data.content import TypeRow
from planner.types.type_names import element_of, type_row
from planner.types.types import column_type
from planner.types.user_types import enum_of


def _type_layout(type_oid: int) -> TypeRow:
    """Length and so on of a column's type; of one that is gone those of record."""
    return type_row(type_oid) or catalog_data.types()[2249]


_ALIGN_STORAGE: dict[int, tuple[str, str]] = {}


def _align_storage(type_oid: int) -> tuple[str, str]:
    if not _ALIGN_STORAGE:
        data = catalog_data.columns("pg_type")
        for oid, align, storage in zip(data["oid"], data["typalign"], data["typstorage"], strict=True):
            _ALIGN_STORAGE[oid] = (align, storage)
    type_oid = column_type(type_oid).oid
    if enum_of(type_oid) is not None:
        return "i", "p"
    return _ALIGN_STORAGE.get(type_oid, ("i" if enum_of(element_of(type_oid)) is not None else "d", "x"))


def attribute_row(
    relation_oid: int,
    attnum: int,
    name: str,
    type_oid: int,
    *,
    typmod: int = -1,
    stattarget: int = -1,
    **values: object,
) -> Row:
    """The row of a column: what follows from its type, and `values`."""
    layout = _type_layout(type_oid)
    align, storage = _align_storage(type_oid)
    return {
        "attrelid": relation_oid,
        "attname": name,
        "atttypid": type_oid,
        "attstattarget": stattarget,
        "attlen": layout.len,
        "attnum": attnum,
        "attndims": 1 if layout.category == "A" else 0,
        "attcacheoff": -1,
        "atttypmod": typmod,
        "attbyval": layout.byval,
        "attalign": align,
        "attstorage": storage,
        "attcompression": "",
        "attnotnull": False,
        "atthasdef": False,
        "atthasmissing": False,
        "attidentity": "",
        "attgenerated": "",
        "attisdropped": False,
        "attislocal": True,
        "attinhcount": 0,
        "attcollation": layout.collation,
        **values,
    }
