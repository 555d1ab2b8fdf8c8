"""STORAGE and COMPRESSION of columns, which PostgreSQL checks and nothing here heeds."""

from __future__ import annotations

from planner.catalog_data.content import columns
from planner.errors import FeatureNotSupported, InvalidParameterValue
from planner.types.type_names import format_type
from planner.types.types import under_domain
from planner.types.user_types import enum_of

_STORAGES = frozenset({"plain", "external", "extended", "main"})
_METHODS = frozenset({"pglz", "lz4"})


def check_storage(type_oid: int, storage: str) -> None:
    """What a column of the type with this oid may be told by SET STORAGE. Raises 22023, 0A000."""
    if storage.lower() not in _STORAGES:
        raise InvalidParameterValue(f'invalid storage type "{storage}"')
    if storage.lower() != "plain" and not _is_toastable(type_oid):
        raise FeatureNotSupported(f"column data type {format_type(type_oid)} can only have storage PLAIN")


def check_compression(type_oid: int, method: str) -> None:
    """What a column of the type with this oid may be told by COMPRESSION. Raises 22023, 0A000."""
    if method == "default":
        return
    if not _is_toastable(type_oid):
        raise FeatureNotSupported(f"column data type {format_type(type_oid)} does not support compression")
    if method not in _METHODS:
        raise InvalidParameterValue(f'invalid compression method "{method}"')


def _is_toastable(type_oid: int) -> bool:
    """Whether values of the type may be kept apart from their rows. Those of users are, but for enums."""
    base = under_domain(type_oid)
    data = columns("pg_type")
    if base in data["oid"]:
        return bool(data["typstorage"][data["oid"].index(base)] != "p")
    return enum_of(base) is None
