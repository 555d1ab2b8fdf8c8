"""Which large objects there are, who owns them, and who may do what with them: the rows of ``metadata``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.access.acls import default_entries, entry_of, held, shown_entries
from adapter.access.membership import has_privileges_of, is_superuser
from adapter.access.roles import predefined
from adapter.execution.statement import Running
from adapter.plans.predicates import Comparison
from adapter.queries.by_index.key_scan import rows_by_key_values, rows_in_range
from adapter.queries.large_objects.tables import METADATA, Table, Tables, schema_of, tables_for, tables_in
from adapter.store_errors import CONCURRENT_DDL, serialization_failure
from adapter.transactions.claims import Absent
from adapter.transactions.commit_request import TableRead
from adapter.transactions.decided_rows import DELETED, Replacement
from adapter.transactions.pending import UNREAD, Touched
from adapter.transactions.transaction import NeedsSnapshot
from planner.errors import InsufficientPrivilege, UndefinedObject, UniqueViolation
from storage.catalog.acl import AclEntry
from storage.catalog.model import WHOLE, CatalogSnapshot, Comment
from storage.catalog.record import LARGE_OBJECT_COMMENTS
from storage.errors import AsOfNotReadable, UnknownShard
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.ranges import KeyRange
from storage.shards.parts import ROW_ID

KIND = "L"
"""Of large objects, as `storage.catalog.acl` has kinds."""


class LargeObject(Struct, frozen=True, kw_only=True):
    """A row of ``metadata``. `acl`: None for the default privileges."""

    row_id: int
    oid: int
    owner: int
    acl: tuple[AclEntry, ...] | None = None

    @property
    def entries(self) -> tuple[AclEntry, ...]:
        """The privileges on it."""
        return default_entries(KIND, self.owner) if self.acl is None else self.acl


def known_tables(running: Running) -> Tables | None:
    """The tables, if the database has them; the transaction has a snapshot. Raises NeedsSnapshot."""
    transaction = running.transaction
    if transaction.snapshot is None or transaction.state in UNREAD:
        raise NeedsSnapshot
    return tables_in(transaction.catalog)


async def find(running: Running, oid: int) -> LargeObject | None:
    """The large object with this oid; that it is there, or is not, has been read. Raises NeedsSnapshot, 40001."""
    tables = known_tables(running)
    if tables is None:
        return None
    table = tables.metadata
    try:
        found = await rows_by_key_values(
            running.services.env, running.transaction, table.relation, table.index, [(oid,)], table.columns
        )
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error
    _record(running, table, (Comparison("c1", "=", oid),))
    rows = _rows(found)
    return rows[0] if rows else None


async def all_of(running: Running) -> list[LargeObject]:
    """All large objects of the database, by oid. Raises as `find`."""
    tables = known_tables(running)
    if tables is None:
        return []
    found = await _all_in(running, tables.metadata)
    _record(running, tables.metadata, ())
    return found


async def all_elsewhere(running: Running, whole: CatalogSnapshot) -> dict[int, list[LargeObject]]:
    """The large objects of the other databases in `whole`, by the databases' oids. What others do to them meanwhile is
    no conflict, as with other objects of other databases. Raises as `find`."""
    known_tables(running)
    found = {}
    for database, catalog in sorted(whole.databases.items()):
        if database not in (WHOLE, running.session.database_oid) and (tables := tables_in(catalog)) is not None:
            found[database] = await _all_in(running, tables.metadata)
    return found


async def _all_in(running: Running, table: Table) -> list[LargeObject]:
    try:
        found = await rows_in_range(
            running.services.env, running.transaction, table.relation, table.index, KeyRange(), table.columns
        )
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error
    return _rows(found)


def _record(running: Running, table: Table, needed: tuple[Comparison, ...]) -> None:
    transaction = running.transaction
    transaction.rely_on([table.relation], to_read=True)
    snapshot = transaction.snapshot
    assert snapshot is not None
    if not transaction.is_own_table(table.relation):
        transaction.record_read(
            TableRead(relation_oid=table.relation.oid, shard=table.shard, as_of=snapshot.csn, conjunctions=(needed,))
        )


def _rows(found: Found) -> list[LargeObject]:
    oids, owners, acls = (column.to_pylist() for column in found.rows.columns)
    return [
        LargeObject(
            row_id=row_id, oid=oid, owner=owner, acl=None if acl is None else tuple([entry_of(e, {}) for e in acl])
        )
        for row_id, oid, owner, acl in zip(found.row_ids.tolist(), oids, owners, acls, strict=True)
    ]


def missing(oid: int) -> UndefinedObject:
    """42704."""
    return UndefinedObject(f"large object {oid} does not exist")


async def require(running: Running, oid: int) -> LargeObject:
    """The large object with this oid. 42704."""
    found = await find(running, oid)
    if found is None:
        raise missing(oid)
    return found


def require_privileges(running: Running, large_object: LargeObject, letters: str) -> None:
    """42501 unless the current role has all of these privileges, or `lo_compat_privileges` asks for none."""
    if running.session.values.flat["lo_compat_privileges"] == "on":
        return
    rights = running.session.rights(running.transaction.catalog)
    if rights.is_superuser:
        return
    own = held(large_object.entries, rights.roles, large_object.owner, KIND)
    if not own.issuperset(letters):
        raise InsufficientPrivilege(f"permission denied for large object {large_object.oid}")


def require_owner(running: Running, large_object: LargeObject, *, compatible: bool = False) -> None:
    """42501 unless the current role may do what the owner may; if `compatible`, `lo_compat_privileges` waives it."""
    if compatible and running.session.values.flat["lo_compat_privileges"] == "on":
        return
    catalog, role = running.transaction.catalog, running.session.values.identity.current
    if not is_superuser(catalog, role) and not has_privileges_of(catalog, role, large_object.owner):
        raise InsufficientPrivilege(f"must be owner of large object {large_object.oid}")


async def metadata_rows(running: Running, catalog: CatalogSnapshot) -> list[Mapping[str, Any]]:
    """The rows of pg_largeobject_metadata."""
    names = {role.oid: role.name for role in (*predefined().values(), *catalog.roles.records.values())}
    return [
        {
            "oid": each.oid,
            "lomowner": each.owner,
            "lomacl": None if each.acl is None else shown_entries(each.acl, names),
        }
        for each in await all_of(running)
    ]


_comments: tuple[object, Mapping[int, Comment]] = (None, {})
"""The comments on large objects by their oids, in a catalog."""


def comment_on(catalog: CatalogSnapshot, oid: int) -> Comment | None:
    """The comment on a large object."""
    global _comments
    records, found = _comments
    if records is not catalog.records:
        found = {
            record.object_oid - LARGE_OBJECT_COMMENTS: record
            for record in catalog.all()
            if isinstance(record, Comment) and record.object_oid > LARGE_OBJECT_COMMENTS
        }
        _comments = (catalog.records, found)
    return found.get(oid)


# ---------------------------------------------------------------- changes


async def create(running: Running, oid: int) -> int:
    """Make a large object of the current role, with an oid that no other has if `oid` is 0. 23505."""
    tables = await _tables_to_write(running, "lo_create()")
    if oid:
        if await find(running, oid) is not None:
            raise _exists(oid)
    else:
        await running.services.provide_oids()
        oid = running.services.allocate_oid()
        while await find(running, oid) is not None:
            await running.services.provide_oids()
            oid = running.services.allocate_oid()
    owner = running.session.values.identity.current
    _write(running, tables.metadata, LargeObject(row_id=0, oid=oid, owner=owner))
    transaction, table = running.transaction, tables.metadata
    if not transaction.is_own_table(table.relation):
        assert transaction.snapshot is not None
        transaction.claim(
            Absent(
                shard=table.shard,
                index=table.index,
                keys=(pa.array([oid], table.columns[0].type),),
                as_of=transaction.snapshot.csn,
                violation=lambda _: _exists(oid),
                unique=True,
            )
        )
    touch(running, oid, Touched())
    return oid


def _exists(oid: int) -> UniqueViolation:
    return UniqueViolation(
        f'duplicate key value violates unique constraint "{METADATA}_oid_index"',
        detail=f"Key (oid)=({oid}) already exists.",
    )


async def _tables_to_write(running: Running, what: str) -> Tables:
    if running.transaction.looks_back:
        running.transaction.check_writable(what)
    known_tables(running)
    return await tables_for(running)


def touched(running: Running, oid: int) -> Touched | None:
    """What the transaction has written of a large object; None when it has not."""
    return running.transaction.pending.large_objects.touched.get(oid)


def touch(running: Running, oid: int, state: Touched | None) -> None:
    """Note how a large object ends now; None: it is gone."""
    transaction = running.transaction
    known = transaction.pending.large_objects
    after = known.touched.delete(oid) if oid in known.touched else known.touched
    if state is not None:
        after = after.set(oid, state)
    transaction.pending = replace(transaction.pending, large_objects=replace(known, touched=after))


async def begin_to_write(running: Running, oid: int) -> bool:
    """Replace the row of a large object, so that nobody else can write to it beside this transaction; whether that has
    been done before. 42704."""
    if touched(running, oid) is not None:
        return True
    tables = await _tables_to_write(running, "lowrite()")
    known = await require(running, oid)
    change(running, tables, known, known)
    return False


def change(running: Running, tables: Tables, old: LargeObject, new: LargeObject | None) -> None:
    """Replace the row of a large object, or remove it."""
    table, transaction = tables.metadata, running.transaction
    txn = transaction.writable(running.services.env, table.shard)
    txn.delete(table.shard, _batch(table, [old]).add_column(0, ROW_ID, pa.array([old.row_id], pa.int64())))
    transaction.rely_on([table.relation])
    first = DELETED if new is None else _write(running, table, new)
    gone = np.array([old.row_id], np.int64)
    transaction.replace_rows(Replacement(relation_oid=table.relation.oid, shard=table.shard, old=gone, first=first))


def _write(running: Running, table: Table, new: LargeObject) -> int:
    transaction = running.transaction
    transaction.rely_on([table.relation])
    return transaction.writable(running.services.env, table.shard).write(table.shard, _batch(table, [new]))


def _batch(table: Table, rows: list[LargeObject]) -> pa.RecordBatch:
    values: list[list[Any]] = [
        [row.oid for row in rows],
        [row.owner for row in rows],
        [None if row.acl is None else shown_entries(row.acl, {}) for row in rows],
    ]
    return pa.RecordBatch.from_pydict(
        dict(zip(table.names, values, strict=True)), schema=schema_of(table.relation.columns)
    )
