"""USAGE of types: needed by who makes something whose columns, parameters or values are of them."""

from __future__ import annotations

from collections.abc import Iterable

from adapter.access.privileges import Rights
from planner.errors import InsufficientPrivilege
from planner.types.derived_oids import row_type_oid
from planner.types.type_names import element_of, format_type
from storage.catalog.model import CatalogRecord, DomainType, Relation
from storage.catalog.routines import Function
from storage.catalog.types import UserRange


def require_types(rights: Rights, removed: Iterable[CatalogRecord], added: Iterable[CatalogRecord]) -> None:
    """42501 when records that come have a type on which the role has no USAGE, and that those which go do not have."""
    if rights.is_superuser or not any(acl.kind == "T" for acl in rights.catalog.acls.all()):
        return
    before = {oid for record in removed for oid in _types(record)}
    for record in added:
        for oid in _types(record):
            if oid not in before and not rights.may("T", oid, "U"):
                raise InsufficientPrivilege(f"permission denied for type {format_type(element_of(oid) or oid)}")


def _types(record: CatalogRecord) -> list[int]:
    match record:
        case Relation():
            of_type = [row_type_oid(record.of_type)] if record.of_type else []
            return [*of_type, *(column.type_oid for column in record.live_columns())]
        case DomainType():
            return [record.base_oid]
        case UserRange():
            return [record.subtype]
        case Function():
            oids = [*(parameter.type_oid for parameter in record.parameters), record.result]
            return [oid for oid in oids if oid]
        case _:
            return []
