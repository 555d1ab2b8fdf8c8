"""What a database has from outside, as the catalog has it: extensions, servers of foreign data, and foreign tables."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from storage.catalog.record import Record

Options: TypeAlias = tuple[tuple[str, str], ...]
"""What OPTIONS (...) says: names and values, in order."""

LAKE_WRAPPER = "lake"
"""The one foreign-data wrapper that there is, in every database."""

LAKE_WRAPPER_OID = 15900


class Extension(Record, frozen=True, kw_only=True, tag="extension"):
    """A row of pg_extension."""

    name: str
    schema: int
    owner: int
    version: str
    members: tuple[int, ...] = ()
    """Oids of the types and functions that it has made, in their order: they go with it, and not without it."""


class UserMapping(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role shows to a foreign server (a row of pg_user_mapping). `oid` is its own over its life."""

    oid: int
    role: int
    """0: whoever has none of its own."""
    options: Options = ()

    def __repr__(self) -> str:
        return f"UserMapping(oid={self.oid}, role={self.role})"  # Without the secrets.


class ForeignServer(Record, frozen=True, kw_only=True, tag="foreign_server"):
    """A row of pg_foreign_server, with its user mappings."""

    name: str
    owner: int
    kind: str | None = None
    """What TYPE says."""
    version: str | None = None
    options: Options = ()
    mappings: tuple[UserMapping, ...] = ()
    """In the order of their oids."""
    database: int

    def mapping(self, role: int) -> UserMapping | None:
        """The mapping made for `role` itself, 0 for PUBLIC; None when there is none."""
        return next((mapping for mapping in self.mappings if mapping.role == role), None)


class ForeignTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the catalog has of a foreign table besides what every relation has (a row of pg_foreign_table)."""

    server: int
    options: Options = ()
    columns: tuple[tuple[int, Options], ...] = ()
    """The options of columns, by attnum (pg_attribute.attfdwoptions)."""

    def column_options(self, attnum: int) -> Options:
        """The options of the column `attnum`."""
        return next((options for number, options in self.columns if number == attnum), ())
