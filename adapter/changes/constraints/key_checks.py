"""Keys that a statement's changes have to respect: unique ones, and those of foreign keys on both sides.

A statement notes the keys of the rows that it writes and removes; at its end they are looked up in what it then sees,
the snapshot with the transaction's own rows on top. A unique key must be found once, a referred-to key at all, a
removed key nowhere among the rows that refer (or those follow it: `adapter.changes.referential_actions`). What others
write meanwhile is held against the same keys by the commit (`adapter.transactions.claims`).

Unlike PostgreSQL's, the check is at the end of the statement, not after each row, so `SET k = k + 1` needs no
DEFERRABLE. A deferred constraint keeps the keys until it becomes immediate (SET CONSTRAINTS) or the transaction
commits; then they are looked up in what is there at that moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from adapter.access.row_security import is_subject
from adapter.changes.constraints.key_locks import lock_keys, lock_referred, newest
from adapter.changes.constraints.key_values import keys_for_child, keys_for_parent
from adapter.changes.constraints.table_keys import ForeignKey
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.key_indexes import key_arrays, values_of_texts
from adapter.plans.row_text import key_text
from adapter.queries.by_index.key_scan import distinct_keys, first_taken, rows_by_keys
from adapter.spilling.key_runs import Keys
from adapter.store_errors import CONCURRENT_UPDATE, READ_WRITE_DEPENDENCIES, serialization_failure
from adapter.transactions.claims import Absent, Present, Violation
from adapter.transactions.pending import DeferredKeys
from adapter.transactions.validation import has_changed
from planner.definitions.index_expressions import key_texts
from planner.errors import ExclusionViolation, ForeignKeyViolation, SqlError, UniqueViolation
from planner.types.table_indexes import constraint_of_index
from planner.types.types import column_type, type_of_column
from storage.catalog.model import Constraint, Index, Relation, Schema
from storage.off_loop import AT_ONCE_ROWS, computed
from storage.shards.indexes.definition import IndexDefinition, KeyColumn, StoredColumn
from storage.shards.indexes.reading.found import Found
from storage.shards.indexes.reading.lookups import first_of_each
from storage.shards.indexes.reading.repeats import may_repeat
from storage.shards.indexes.scalar_keys import plain_list, plain_scalar
from storage.timestamps.csn import Csn


def is_deferred(running: Running, constraint: Constraint | Index) -> bool:
    """Whether `constraint` is checked at the end of the transaction, as it and SET CONSTRAINTS say."""
    if isinstance(constraint, Index):
        owner = constraint_of_index(own_catalog(running), constraint.oid)
        return owner is not None and is_deferred(running, owner)
    if not constraint.deferrable:
        return False
    timings = running.transaction.pending.timings
    return timings.get(constraint.oid, timings.get(0, constraint.deferred))


# ---------------------------------------------------------------- reading by key


async def find(
    running: Running,
    relation: Relation,
    index: IndexDefinition,
    keys: Sequence[pa.Array],
    columns: Sequence[StoredColumn] = (),
    as_of: Csn | None = None,
) -> Found:
    """The rows of `relation` with one of `keys` that are there at `as_of`, or that the transaction sees, its own among
    them."""
    return await rows_by_keys(running.services.env, running.transaction, relation, index, keys, columns, as_of=as_of)


async def aside(running: Running, keys: Keys, source: Keys = ()) -> Keys:
    """`keys`, which are kept until the commit: many of them in a temporary file, but for those of `source`, which are
    within the budget or in one already. Raises 53400."""
    if len(keys[0]) <= AT_ONCE_ROWS or all(any(column is known for known in source) for column in keys):
        return keys
    return await asyncio.to_thread(running.session.temporary_files.keep, keys)


def _taken(keys: Keys, rows: Any) -> Keys:
    return tuple(column.take(rows) for column in keys)


def _not_found(keys: Keys, found: Found) -> Any:
    """The numbers of `keys` that are not `found`."""
    if len(found.keys) and len(keys[0]) == 1:
        return found.keys[:0]
    is_there = np.zeros(len(keys[0]), bool)
    is_there[found.keys] = True
    return np.flatnonzero(~is_there)


# ---------------------------------------------------------------- what is wrong


def _schema_name(running: Running, relation: Relation) -> str | None:
    schema = own_catalog(running).get(relation.schema)
    return schema.name if isinstance(schema, Schema) else None


def key_text_of(relation: Relation, attnums: Sequence[int], keys: Keys, row: int, settings: Mapping[str, str]) -> str:
    """The key in `row` of `keys`, which are those of the columns `attnums`."""
    by_attnum = {column.attnum: column for column in relation.columns}
    columns = [by_attnum[attnum] for attnum in attnums]
    types = [type_of_column(column) for column in columns]
    return key_text([column.name for column in columns], keys, row, types, settings)


def unique_key_text(running: Running, relation: Relation, key: Constraint | Index, keys: Keys, row: int) -> str:
    """The unique key in `row` of `keys`, called as pg_get_indexdef calls its columns and expressions."""
    expressions = key.expressions if isinstance(key, Index) else ()
    expression_types = iter(key.expression_types if isinstance(key, Index) else ())
    context = running.session.bind_context(own_catalog(running))
    names = list(key_texts(relation, key.columns, expressions, context, pretty=True))
    by_attnum = {column.attnum: column for column in relation.columns}
    types = [
        type_of_column(by_attnum[attnum]) if attnum else column_type(*next(expression_types)) for attnum in key.columns
    ]
    shown = [
        values_of_texts(column.slice(row, 1), type_) if not attnum else column.slice(row, 1)
        for column, type_, attnum in zip(keys, types, key.columns, strict=True)
    ]
    return key_text(names, shown, 0, types, running.session.values)


def _may_show(running: Running, relation: Relation, attnums: Sequence[int]) -> bool:
    """Whether messages may show keys of these columns (0: an expression): who may read them may see them,
    but for who is subject to row-level security."""
    if is_subject(own_catalog(running), relation, running.session.values.identity.current):
        return False
    rights = running.session.rights(own_catalog(running))
    return rights.may("r", relation.oid, "r") or (all(attnums) and rights.may_with_columns(relation.oid, "r", attnums))


def duplicate(running: Running, relation: Relation, constraint: Constraint | Index, keys: Keys) -> Violation:
    """23505 for the key of a number, 23P01 of an exclusion constraint."""
    schema = _schema_name(running, relation)

    def violation(row: int) -> SqlError:
        text = unique_key_text(running, relation, constraint, keys, row)
        facts: dict[str, Any] = {"schema": schema, "table": relation.name, "constraint": constraint.name}
        if isinstance(constraint, Index) and not constraint.unique:
            return exclusion_violation(running, relation, constraint, text, text)
        hidden = not _may_show(running, relation, constraint.columns)
        return UniqueViolation(
            f'duplicate key value violates unique constraint "{constraint.name}"',
            detail=None if hidden else f"Key {text} already exists.",
            **facts,
        )

    return violation


def exclusion_violation(
    running: Running, relation: Relation, index: Index, key: str, other: str
) -> ExclusionViolation:  # fmt: skip
    """23P01 for a new row of `key` and a row of the key `other`, both as text."""
    return ExclusionViolation(
        f'conflicting key value violates exclusion constraint "{index.name}"',
        detail=f"Key {key} conflicts with existing key {other}."
        if _may_show(running, relation, index.columns)
        else "Key conflicts with existing key.",
        schema=_schema_name(running, relation),
        table=relation.name,
        constraint=index.name,
    )


def not_present(running: Running, key: ForeignKey, keys: Keys) -> Violation:
    """23503 for a referring key of a number."""
    settings, schema = running.session.values, _schema_name(running, key.child)

    def violation(row: int) -> ForeignKeyViolation:
        text = key_text_of(key.child, key.constraint.columns, keys, row, settings)
        shown = f"Key {text}" if _may_show(running, key.child, key.constraint.columns) else "Key"
        return ForeignKeyViolation(
            f'insert or update on table "{key.child.name}" violates foreign key constraint "{key.constraint.name}"',
            detail=f'{shown} is not present in table "{key.parent.name}".',
            schema=schema,
            table=key.child.name,
            constraint=key.constraint.name,
        )

    return violation


def _still_referenced(running: Running, key: ForeignKey, keys: Keys) -> Violation:
    """23503 for a referred-to key of a number."""
    settings, schema = running.session.values, _schema_name(running, key.child)

    def violation(row: int) -> ForeignKeyViolation:
        text = key_text_of(key.parent, key.constraint.foreign_columns, keys, row, settings)
        shown = f"Key {text}" if _may_show(running, key.parent, key.constraint.foreign_columns) else "Key"
        return ForeignKeyViolation(
            f'update or delete on table "{key.parent.name}" violates foreign key constraint '
            f'"{key.constraint.name}" on table "{key.child.name}"',
            detail=f'{shown} is still referenced from table "{key.child.name}".',
            schema=schema,
            table=key.child.name,
            constraint=key.constraint.name,
        )

    return violation


def mixed_rows(key: ForeignKey, keys: Keys) -> Any:
    """The places in `keys` of those that MATCH FULL forbids, whatever the referred-to table has: some of their columns
    are NULL, not all."""
    if key.constraint.match != "f" or len(keys) == 1:
        return np.zeros(0, np.int64)
    nulls = np.sum([np.asarray(column.is_null()) for column in keys], axis=0)
    return np.flatnonzero((nulls > 0) & (nulls < len(keys)))


def mixed(running: Running, key: ForeignKey) -> ForeignKeyViolation:
    """23503 for a referring key of `mixed_rows`."""
    return ForeignKeyViolation(
        f'insert or update on table "{key.child.name}" violates foreign key constraint "{key.constraint.name}"',
        detail="MATCH FULL does not allow mixing of null and nonnull key values.",
        schema=_schema_name(running, key.child),
        table=key.child.name,
        constraint=key.constraint.name,
    )


# ---------------------------------------------------------------- the checks


async def check_unique(
    running: Running,
    relation: Relation,
    constraint: Constraint | Index,
    index: IndexDefinition,
    pieces: Sequence[Keys],
    others: Violation | None = None,
    *,
    first_rows: bool = False,
) -> None:
    """23505 when a key, of those in `pieces`, is in more than one row. Others must not add one of them: `others` is the
    error when they do, 23505 if not given. `first_rows`: they are the keys of all rows that the transaction has added
    to the table."""
    transaction = running.transaction
    # So that many new rows need not be made parts, and read again.
    are_new = first_rows and (len(pieces) == 1 or not await _may_repeat(running, index, pieces))
    for place, keys in enumerate(pieces):
        violation = duplicate(running, relation, constraint, keys)
        if not transaction.is_own_table(relation):
            await lock_keys(running, constraint.oid, index, keys)
        as_of = newest(running)
        env = running.services.env
        if not are_new or await first_taken(env, transaction, relation, index, keys, as_of) is not None:
            found, as_of = await lock_referred(running, relation, partial(_found_twice, running, relation, index, keys))
            if len(found.keys):
                await _refuse_unserializable(running, relation, as_of)
                row = int(found.keys.min())
                error = violation(row)
                error.row = _second(index, pieces, place, row, int((found.keys == row).sum()))
                raise error
        if not transaction.is_own_table(relation):
            assert relation.shard is not None
            claimed = tuple(key_arrays(index, keys))
            if len(claimed[0]) > AT_ONCE_ROWS:
                claimed = await aside(running, claimed, keys)
            transaction.claim(
                Absent(
                    shard=relation.shard,
                    index=index,
                    keys=claimed,
                    as_of=as_of,
                    violation=others or violation,
                    unique=True,
                )
            )


def _second(index: IndexDefinition, pieces: Sequence[Keys], place: int, row: int, rows: int) -> int | None:
    """Of the new rows with the key in `row` of the piece at `place`, which so many `rows` of the table have: the first
    that is in the way of one before it."""
    found: list[int] = []
    before = 0
    wanted = [values[row] for values in key_arrays(index, pieces[place])]
    for piece in pieces:
        same = None
        for of, column, value in zip(index.columns, key_arrays(index, piece), wanted, strict=True):
            equal = _equal(of, column, value)
            same = equal if same is None else pc.and_(same, equal)
        found += [before + at.as_py() for at in pc.indices_nonzero(same)]
        before += len(piece[0])
    own = len(found)
    return found[0] if 0 < own < rows else found[1] if own > 1 else None


def _equal(of: KeyColumn, column: pa.Array, value: pa.Scalar) -> pa.Array:
    """Row by row whether a key's column has a value; NULL is one."""
    if not value.is_valid:
        return pc.is_null(column)
    if not pa.types.is_struct(column.type):
        return pc.equal(column, value)
    # Intervals: 24 hours are a day.
    plain = plain_scalar(of, value)
    return pa.array([plain_scalar(of, item) == plain for item in column], pa.bool_())


async def _found_twice(running: Running, relation: Relation, index: IndexDefinition, keys: Keys, as_of: Csn) -> Found:
    """The rows with those of `keys` that more than one row has. A key that is there more than once counts where it is
    first: each of many equal keys would find each of as many rows."""
    first = None
    if len(keys[0]) > 1:
        once = partial(first_of_each, index, key_arrays(index, keys), index.nulls_not_distinct)
        first = await computed(len(keys[0]), once)
        keys = tuple(column.take(pa.array(first)) for column in keys) if len(first) < len(keys[0]) else keys
    found = await find(running, relation, index, keys, as_of=as_of)
    if len(found.keys) < 2:
        return replace(found, keys=found.keys[:0], row_ids=found.row_ids[:0])
    kept = np.flatnonzero(np.bincount(found.keys)[found.keys] > 1)
    numbers = found.keys[kept]
    return replace(found, keys=numbers if first is None else first[numbers], row_ids=found.row_ids[kept])


async def _may_repeat(running: Running, index: IndexDefinition, pieces: Sequence[Keys]) -> bool:
    """Whether the same key may be in two of `pieces`."""
    files = running.session.temporary_files
    wanted = [key_arrays(index, keys) for keys in pieces]
    return await asyncio.to_thread(may_repeat, index, wanted, files.keep_numbers)


async def _refuse_unserializable(running: Running, relation: Relation, as_of: Csn) -> None:
    """40001 when a SERIALIZABLE transaction has read of `relation` what is no longer so: it may have looked for the
    very key that is taken now (PostgreSQL prefers that error to 23505, too)."""
    transaction = running.transaction
    for read in transaction.reads:
        if read.shard == relation.shard and await has_changed(running.services.env, read, as_of):
            raise serialization_failure(READ_WRITE_DEPENDENCIES)


async def check_referring(running: Running, key: ForeignKey, keys: Keys) -> None:
    """23503 when a row that `keys` refer to is not there; it must stay."""
    if len(mixed_rows(key, keys)):
        raise mixed(running, key)
    once = await computed(len(keys[0]), partial(distinct_keys, keys))
    if not len(once[0]):
        return
    wanted = keys_for_parent(key, once)
    violation = not_present(running, key, once)
    transaction = running.transaction
    before = await _seen_by_snapshot(running, key, wanted)
    if before is not None and len(missing := _not_found(once, before)):
        raise violation(_first_of(keys, once, missing))
    found, as_of = await lock_referred(
        running, key.parent, lambda as_of: find(running, key.parent, key.parent_index, wanted, as_of=as_of)
    )
    missing = _not_found(once, found)
    if len(missing) and before is not None:
        raise serialization_failure(CONCURRENT_UPDATE)
    if len(missing):
        raise violation(_first_of(keys, once, missing))
    if not transaction.is_own_table(key.parent):
        assert key.parent.shard is not None
        transaction.rely_on([key.parent])
        claimed = tuple(key_arrays(key.parent_index, wanted))
        if len(claimed[0]) > AT_ONCE_ROWS:
            claimed = await aside(running, claimed, keys)
        transaction.claim(
            Present(
                shard=key.parent.shard,
                index=key.parent_index,
                keys=claimed,
                as_of=as_of,
                violation=violation,
            )
        )


async def _seen_by_snapshot(running: Running, key: ForeignKey, wanted: Keys) -> Found | None:
    """The rows that are referred to as the snapshot of a transaction has them that keeps to one, in PostgreSQL's rule
    (ri_PerformCheck): a row that came later cannot be referred to, and one that has gone since is a conflict. None
    where what is there now decides."""
    snapshot = kept_snapshot(running, key.parent)
    return None if snapshot is None else await find(running, key.parent, key.parent_index, wanted, as_of=snapshot)


def kept_snapshot(running: Running, relation: Relation) -> Csn | None:
    """The snapshot of a block that reads all of `relation` at it; None at levels that take one for each statement, and
    where nothing has been read."""
    transaction = running.transaction
    if transaction.implicit or not transaction.isolation.keeps_snapshot or transaction.is_own_table(relation):
        return None
    if transaction.snapshot is None or transaction.snapshot.provisional:
        return None
    return transaction.snapshot.csn


async def refuse_unseen(running: Running, key: ForeignKey, gone: Keys, found: Found) -> None:
    """40001 when rows that are to follow keys which are gone came, or were changed, after the snapshot of a transaction
    that keeps to one."""
    snapshot = kept_snapshot(running, key.child)
    if snapshot is None or not len(found.row_ids):
        return
    before = await find(running, key.child, key.child_index, gone, as_of=snapshot)
    if not np.isin(found.row_ids, before.row_ids).all():
        raise serialization_failure(CONCURRENT_UPDATE)


def _first_of(keys: Keys, once: Keys, missing: Any) -> int:
    """The place in `once` of the missing key that comes first in `keys`: PostgreSQL checks row by row."""
    if len(missing) == 1:
        return int(missing[0])
    lacking = zip(*(plain_list(column.take(pa.array(missing))) for column in once), strict=True)
    wanted = {key: int(n) for key, n in zip(lacking, missing, strict=True)}
    rows = zip(*(plain_list(column) for column in keys), strict=True)
    return next(wanted[row] for row in rows if row in wanted)


async def gone_keys(running: Running, key: ForeignKey, keys: Keys) -> Keys:
    """Those of `keys` that no row of the referred-to table has (any more)."""
    once = await computed(len(keys[0]), partial(distinct_keys, keys))
    if not len(once[0]):
        return once
    found = await find(running, key.parent, key.parent_index, once, as_of=newest(running))
    return _taken(once, pa.array(_not_found(once, found)))


async def check_unreferenced(running: Running, key: ForeignKey, keys: Keys) -> None:
    """23503 when a row refers to one of `keys`, which are gone; nobody else may add one."""
    if not len(keys[0]):
        return
    violation = _still_referenced(running, key, keys)
    wanted = keys_for_child(key, keys)
    found, as_of = await lock_referred(
        running, key.child, lambda as_of: find(running, key.child, key.child_index, wanted, as_of=as_of)
    )
    if len(found.keys):
        raise violation(int(found.keys.min()))
    await claim_unreferenced(running, key, wanted, violation, as_of)


async def claim_unreferenced(running: Running, key: ForeignKey, keys: Keys, violation: Violation, as_of: Csn) -> None:
    """Nobody else may add a row that refers to one of `keys`, as they are in its table, after `as_of`."""
    transaction = running.transaction
    if transaction.is_own_table(key.child):
        return
    assert key.child.shard is not None
    transaction.rely_on([key.child])
    claimed = tuple(key_arrays(key.child_index, keys))
    if len(claimed[0]) > AT_ONCE_ROWS:
        claimed = await aside(running, claimed)
    transaction.claim(
        Absent(
            shard=key.child.shard,
            index=key.child_index,
            keys=claimed,
            as_of=as_of,
            violation=violation,
        )
    )


# ---------------------------------------------------------------- deferred constraints


def defer(running: Running, constraint: Constraint | Index, keys: Keys, *, referenced: bool = False) -> None:
    """Check `keys` against `constraint`, or that whose index it is, later."""
    if isinstance(constraint, Index):
        constraint = constraint_of_index(own_catalog(running), constraint.oid) or constraint
    transaction = running.transaction
    transaction.defer(DeferredKeys(constraint=constraint.oid, keys=keys, referenced=referenced))
