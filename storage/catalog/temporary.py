"""The temporary objects of one session: catalog records that no store and no other session ever hears of.

They are laid over the shared catalog: what `TemporaryObjects.over` gives is the catalog as the session sees it, with
its own temporary schema. That schema is also found as ``pg_temp``, whatever its number is.

Temporary objects have oids of their own range, so that an oid tells what is temporary, and shards that are never
registered (`storage.ids.is_temporary`): their rows are those of a storage transaction which does not end before its
session does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from immutables import Map
from msgspec.structs import replace

from storage.catalog.access import Policy, RowSecurity
from storage.catalog.acl import Acl
from storage.catalog.model import (
    CatalogRecord,
    CatalogSnapshot,
    CatalogUpdate,
    Comment,
    Constraint,
    DomainType,
    EnumType,
    Index,
    Relation,
    Schema,
    Sequence,
)
from storage.catalog.record import TEMPORARY_SCHEMA, ExtendedStatistics
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange

FIRST_TEMPORARY_OID = 300_000_000
"""Temporary objects have oids from here; those of other objects are below. Other processes may give out the same."""

LAST_TEMPORARY_OID = 399_999_999


class TemporaryObjects:
    """The temporary objects of a session, an immutable value. `on_commit` holds what happens to a table (by oid) when
    a transaction commits: ``delete`` its rows, or ``drop`` it."""

    __slots__ = ("_above", "_below", "on_commit", "records")

    def __init__(self, records: Map[int, CatalogRecord] = Map(), on_commit: Map[int, str] = Map()) -> None:
        self.records = records
        self.on_commit = on_commit
        self._below: CatalogSnapshot | None = None
        self._above: CatalogSnapshot | None = None

    def apply(self, updates: Iterable[CatalogUpdate]) -> TemporaryObjects:
        """The objects after `updates`; retractions take effect before additions. Raises ValueError when one does not
        fit."""
        records, on_commit = self.records, self.on_commit
        for update in sorted(updates, key=lambda update: update.diff):
            record = update.record
            if update.diff == -1:
                if records.get(record.oid) != record:
                    raise ValueError(f"retraction of a record that is not there: {record!r}")
                records = records.delete(record.oid)
            else:
                if record.oid in records:
                    raise ValueError(f"oid {record.oid} is taken")
                records = records.set(record.oid, record)
        return TemporaryObjects(records, _of_live(on_commit, records))

    def at_commit(self, table: int, action: str) -> TemporaryObjects:
        """The objects when `action` is what happens to `table` at the end of a transaction."""
        return TemporaryObjects(self.records, self.on_commit.set(table, action))

    def without(self, doomed: Collection[int]) -> TemporaryObjects:
        """The objects that are left without those whose oids are `doomed`, and what depends on these."""
        gone = set(doomed)
        while True:
            more = {record.oid for record in self.records.values() if record.oid not in gone and _needs(record, gone)}
            if not more:
                break
            gone |= more
        records = self.records
        for oid in gone & set(records):
            records = records.delete(oid)
        return TemporaryObjects(records, _of_live(self.on_commit, records))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but the schema."""
        return all(isinstance(record, Schema) for record in self.records.values())

    def over(
        self, catalog: CatalogSnapshot, fitted: Callable[[Relation, CatalogSnapshot], Relation]
    ) -> CatalogSnapshot:
        """`catalog` with the temporary objects. The same value as long as both are the same. `fitted` gives a relation
        whose columns have the forms (`Column.form`) that their types have in a catalog."""
        if self._above is None or self._below is not catalog:
            above = catalog.apply([CatalogUpdate(record, 1) for record in self.records.values()], catalog.csn)
            for record in self.records.values():
                now = fitted(record, above) if isinstance(record, Relation) else record
                if now is not record:
                    # NOTE: retractions are of records as this catalog has them.
                    self.records = self.records.set(record.oid, now)
                    above = above.apply([CatalogUpdate(record, -1), CatalogUpdate(now, 1)], catalog.csn)
            names = above.schema_names
            for record in self.records.values():
                if isinstance(record, Schema):
                    names = names.set((record.database, TEMPORARY_SCHEMA), record.oid)
            self._below, self._above = catalog, replace(above, schema_names=names)
        return self._above


def is_temporary(oid: int) -> bool:
    """Whether the object with this oid is temporary."""
    return FIRST_TEMPORARY_OID <= oid <= LAST_TEMPORARY_OID


def _of_live(on_commit: Map[int, str], records: Map[int, CatalogRecord]) -> Map[int, str]:
    for oid in [oid for oid in on_commit if oid not in records]:
        on_commit = on_commit.delete(oid)
    return on_commit


def _needs(record: CatalogRecord, gone: set[int]) -> bool:
    """Whether `record` cannot be without one of the objects `gone`."""
    match record:
        case Relation():
            return record.schema in gone or not gone.isdisjoint(record.depends_on)
        case EnumType() | DomainType() | UserRange() | BaseType():
            return record.schema in gone
        case Function():
            return record.schema in gone or not gone.isdisjoint(record.depends_on)
        case Sequence():
            return record.schema in gone or (record.owned_by is not None and record.owned_by[0] in gone)
        case Constraint():
            return record.relation in gone or record.foreign_relation in gone
        case Index() | Policy() | RowSecurity():
            return record.relation in gone
        case ExtendedStatistics():
            return record.schema in gone or record.relation in gone
        case Comment() | Acl():
            return record.object_oid in gone
        case _:
            return False
