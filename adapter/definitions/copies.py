"""CALL tidegate.clone_table('t', 'name') and CALL tidegate.undrop_table('t'): tables that get the files of others.

A clone is what CREATE TABLE name (LIKE t INCLUDING ALL) makes, with the rows of `t` as the statement sees them. A table
that was dropped comes back as it was when that happened, with the oids that it had: definition, constraints, indexes,
sequences, policies, privileges and comments. What other objects had to do with it does not: foreign keys of it and to
it, and views that CASCADE dropped. Its rows are those of the dropped shard, which is kept as its retention says.

Neither copies a file (`storage.reading.copies`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from adapter.access.ownership import require_owner
from adapter.access.roles import role_with
from adapter.access.row_security import is_subject
from adapter.definitions.common.catalog_changes import change, check_free_row_type, new_shard_id
from adapter.definitions.common.table_rows import make_shard
from adapter.definitions.dependents import notify
from adapter.definitions.sequences import restarted
from adapter.definitions.tables import make_table
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema, find_relation
from adapter.execution.statement import Running
from adapter.queries.acting.sequences import positions_of
from adapter.store_errors import CONCURRENT_DDL, serialization_failure, too_old
from adapter.transactions.commit_request import TableRead
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from adapter.transactions.pending import UNREAD
from adapter.transactions.transaction import NeedsSnapshot
from planner.errors import (
    DuplicateTable,
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    UndefinedTable,
    WrongObjectType,
)
from planner.statements import records as st
from planner.syntax.qualified_names import QualifiedName
from planner.types import derived_oids
from planner.types.table_indexes import is_taken
from planner.types.user_types import mentioned, types_used
from storage.catalog.access import PUBLIC, Policy, RowSecurity
from storage.catalog.acl import Acl
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Comment, Constraint, Index, Relation, Sequence
from storage.catalog.record import ExtendedStatistics, Record
from storage.errors import AsOfNotReadable, UnknownShard
from storage.ids import is_temporary
from storage.reading.copies import copy_rows
from storage.shards.shard import ShardSnapshot
from storage.timestamps.csn import Csn

_ALL = frozenset({"comments", "constraints", "defaults", "generated", "identity", "indexes", "statistics", "storage"})


# ---------------------------------------------------------------- clones


def _require_snapshot(running: Running) -> None:
    """Begin again with the newest snapshot where the statement was to be worked out from what is known here."""
    if running.transaction.state in UNREAD:
        raise NeedsSnapshot


async def clone_table(running: Running, statement: st.CloneTable) -> None:
    """CALL tidegate.clone_table. Raises what CREATE TABLE does, 42809 for what is no table, 42501 for who may not read
    it whole, and 55000 for one that the transaction has changed."""
    transaction, env = running.transaction, running.services.env
    _require_snapshot(running)
    catalog = own_catalog(running)
    source = find_relation(running, catalog, statement.table)
    await transaction.lock(((tags.relation(source.oid), Mode.ACCESS_SHARE),))
    if source.kind != "r" or source.shard is None:
        raise WrongObjectType(f'"{source.name}" is not a table')
    if is_temporary(source.shard):
        raise FeatureNotSupported(f'temporary table "{source.name}" cannot be cloned')
    if is_subject(catalog, source, running.session.values.identity.current):
        raise InsufficientPrivilege(
            f'rows of table "{source.name}" are hidden by its row-level security',
            hint="Who is not subject to it may clone the table.",
        )
    if transaction.txn is not None and source.shard in transaction.txn.shards:
        raise ObjectNotInPrerequisiteState(
            f'cannot clone table "{source.name}" because this transaction has changed it',
            hint="Commit first.",
        )
    like = st.LikeClause(table=statement.table, including=_ALL)
    made = await make_table(running, st.CreateTable(name=statement.name, columns=(), likes=(like,)), exact=True)
    assert made is not None
    if made.shard is None or is_temporary(made.shard):
        raise FeatureNotSupported("a clone cannot be a temporary table")
    assert transaction.snapshot is not None
    csn = transaction.snapshot.csn
    read = TableRead(relation_oid=source.oid, shard=source.shard, as_of=csn, conjunctions=((),))
    transaction.record_read(read)
    try:
        transaction.held.append(await env.leases.hold((source.shard,), csn))
        snapshot = await env.reader.snapshot(source.shard, csn)
    except (UnknownShard, AsOfNotReadable) as error:
        raise serialization_failure(CONCURRENT_DDL) from error
    await _fill(running, made, snapshot)
    await _go_on_numbering(running, source, made)


async def _fill(running: Running, relation: Relation, snapshot: ShardSnapshot) -> None:
    assert relation.shard is not None
    env = running.services.env
    txn = running.transaction.writable(env, relation.shard)
    await copy_rows(env.reader, env.sharing, txn, snapshot, relation.shard)


async def _go_on_numbering(running: Running, source: Relation, made: Relation) -> None:
    """Let the identity columns of the clone go on where those of its source are."""
    catalog = own_catalog(running)
    for old, new in zip(source.columns, made.columns, strict=True):
        model, own = catalog.get(old.sequence or 0), catalog.get(new.sequence or 0)
        if not isinstance(model, Sequence) or not isinstance(own, Sequence):
            continue
        last, called = await positions_of(running, model).last_value(model)
        following = last + model.increment if called else last
        if not model.minimum <= following <= model.maximum:
            following = model.start if model.cycle else last
        change(running, removed=[own], added=[restarted(running, own, following)])


# ---------------------------------------------------------------- dropped tables


async def undrop_table(running: Running, statement: st.UndropTable) -> None:
    """CALL tidegate.undrop_table: the one of that name that was dropped last. Raises 42P01 when none is kept, 42501 for
    who did not own it, 42P07 when a name is taken, and 55000 when something that it needs is gone."""
    transaction, env = running.transaction, running.services.env
    _require_snapshot(running)
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.table)
    await transaction.lock(
        ((tags.name(transaction.locks.owner.database_oid, schema.oid, statement.table.name), Mode.ACCESS_EXCLUSIVE),)
    )
    found = await _dropped(running, schema.oid, statement.table)
    if found is None:
        raise UndefinedTable(f'no dropped table "{statement.table}" is kept', position=statement.table.position)
    relation, then, csn = found
    require_owner(catalog, running.session.values.identity.current, relation)
    shard = relation.shard
    assert shard is not None
    try:
        transaction.held.append(await env.leases.hold((shard,), csn))
        snapshot = await env.reader.snapshot(shard, csn)
    except (UnknownShard, AsOfNotReadable) as error:
        raise too_old(error) from error
    records = _restored(running, then, relation)
    relation = next(record for record in records if isinstance(record, Relation))
    # NOTE: first what has an owner. Privileges by default would come to it otherwise than it had them.
    change(running, added=[record for record in records if not isinstance(record, Acl)])
    _give_back(running, [record for record in records if isinstance(record, Acl)], records)
    make_shard(running, relation)
    await _fill(running, relation, snapshot)


async def _dropped(running: Running, schema: int, name: QualifiedName) -> tuple[Relation, CatalogSnapshot, Csn] | None:
    """The table of this name that was dropped last, with the catalog before that and its CSN."""
    env, current = running.services.env, own_catalog(running)
    forgotten = sorted(env.cache.state.forgotten.items(), key=lambda item: item[1], reverse=True)
    whole: CatalogSnapshot | None = None
    at = Csn(0)
    for shard, csn in forgotten:
        if csn != at:
            at = csn
            try:
                whole = await env.catalog.snapshot_at(Csn(csn - 1))
            except AsOfNotReadable:
                return None  # What was dropped before is older still.
            await asyncio.sleep(0)
        then = None if whole is None else whole.databases.get(current.database)
        record = None if then is None else then.get(then.relation_names.get((schema, name.name), 0))
        if then is None or not isinstance(record, Relation) or record.shard != shard or record.kind != "r":
            continue
        if current.get(record.oid) is None:
            return record, then, Csn(csn - 1)
    return None


def _restored(running: Running, then: CatalogSnapshot, relation: Relation) -> list[CatalogRecord]:
    """The records of `relation` and of what belongs to it, with a new shard."""
    own = list(_belonging(then, relation))
    foreign = [record for record in own if isinstance(record, Constraint) and record.kind == "f"]
    for constraint in foreign:
        notify(running, f"foreign key {constraint.name} is not restored")
    gone = {constraint.oid for constraint in foreign}
    kept = [
        record
        for record in own
        if record.oid not in gone and not (isinstance(record, Comment) and record.object_oid in gone)
    ]
    oids = {record.oid for record in kept}
    fresh = replace(
        relation,
        shard=new_shard_id(running, relation.oid),
        constraints=tuple(oid for oid in relation.constraints if oid in oids),
    )
    records = [fresh, *kept]
    _check_there(running, records)
    _check_names(running, records)
    return records


def _belonging(then: CatalogSnapshot, relation: Relation) -> Iterator[CatalogRecord]:
    """What went with the table when it was dropped."""
    sequences = [r for r in then.all() if isinstance(r, Sequence) and r.owned_by and r.owned_by[0] == relation.oid]
    yield from sequences
    parts = [
        record
        for record in then.all()
        if isinstance(record, (Constraint, Index, Policy, RowSecurity, ExtendedStatistics))
        and record.relation == relation.oid
    ]
    yield from parts
    described = {relation.oid, *(record.oid for record in (*sequences, *parts))}
    described |= {derived_oids.index_oid(record.oid) for record in parts if isinstance(record, Constraint)}
    for record in then.all():
        if (isinstance(record, Comment) and record.object_oid in described) or (
            isinstance(record, Acl) and not described.isdisjoint((record.object_oid, _object_of(record)))
        ):
            yield record


def _object_of(acl: Acl) -> int:
    """The object whose type, perhaps, the privileges are on."""
    return derived_oids.owner(acl.object_oid)


def _check_there(running: Running, records: Iterable[CatalogRecord]) -> None:
    """55000 when types, functions, tables or roles that the records name have been dropped."""
    catalog = own_catalog(running)
    own = {record.oid for record in records}
    needed: set[int] = set()
    for record in records:
        if isinstance(record, Relation):
            needed.update(types_used(record))
        if isinstance(record, Policy):
            needed.update(record.depends_on)
            needed.update(role for role in record.roles if role != PUBLIC)
        texts = [getattr(record, name, None) for name in ("expression", "predicate", "using", "check")]
        for text in (*texts, *getattr(record, "expressions", ())):
            needed.update(mentioned(text or ""))
    missing = [oid for oid in needed - own if catalog.get(oid) is None and role_with(catalog, oid) is None]
    if missing:
        raise ObjectNotInPrerequisiteState(
            f'cannot restore table "{_name(records)}" because something that it needs has been dropped',
            detail=f"Objects with these OIDs are missing: {', '.join(map(str, sorted(missing)))}.",
            hint="Its rows can be read with tidegate.as_of.",
        )


def _check_names(running: Running, records: Iterable[CatalogRecord]) -> None:
    """42P07 when the table, an index or a sequence cannot be called as it was."""
    catalog = own_catalog(running)
    schema = next(record.schema for record in records if isinstance(record, Relation))
    for record in records:
        if isinstance(record, (Relation, Index, Sequence)):
            name, within = record.name, record.schema
        elif isinstance(record, Constraint) and record.kind in "pu":
            name, within = record.name, schema
        else:
            continue
        if is_taken(catalog, within, name):
            raise DuplicateTable(f'relation "{name}" already exists')
        if isinstance(record, Relation):
            check_free_row_type(catalog, within, name)


def _give_back(running: Running, acls: list[Acl], records: Iterable[Record]) -> None:
    """Let the restored objects have the privileges that they had, of roles that are there still."""
    catalog = own_catalog(running)
    restored = {record.oid for record in records}
    given = [
        acl
        for oid in restored
        for object_oid in (oid, derived_oids.row_type_oid(oid))
        for acl in catalog.acls.by_object.get(object_oid, ())
    ]
    left = []
    for acl in acls:
        entries = tuple(
            entry
            for entry in acl.entries
            if entry.grantee == PUBLIC or (role_with(catalog, entry.grantee) and role_with(catalog, entry.grantor))
        )
        left.append(replace(acl, entries=entries))
    change(running, removed=given, added=left)


def _name(records: Iterable[CatalogRecord]) -> str:
    return next(record.name for record in records if isinstance(record, Relation))
