"""CALL tidegate.add_files('t', 'path'): Parquet files that are there already become files of a table, as they are.

Nothing is copied. Each file is looked at (its columns and their types, its rows and statistics, a checksum), and what
INSERT would hold against its rows is held against them: NOT NULL, CHECK, domains and keys. From then on its rows are
rows of the table like others: a deleted row is left out by its id, and an updated one is in another file.

A file that is not `owned` stays where it is, whatever becomes of the table; one that is goes with the last reference to
it. Whoever changes or removes a file in the meantime makes reads of the table fail (58030, which names it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial

import pyarrow as pa

from adapter.access.ownership import require_owner
from adapter.access.row_security import is_subject
from adapter.changes.constraints.deferred_checks import end_statement
from adapter.changes.constraints.row_checks import check_parts
from adapter.changes.constraints.statement_keys import StatementKeys
from adapter.changes.constraints.target import target_of
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from adapter.lake.file_tables import READING_ROLE, refuse_reading
from adapter.results import Command
from adapter.store_errors import sql_error
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from planner.errors import (
    DuplicateObject,
    FeatureNotSupported,
    InsufficientPrivilege,
    ProgramLimitExceeded,
    WrongObjectType,
)
from planner.ir.physical import arrow_type
from planner.statements import records as st
from planner.types import types as t
from planner.types.type_names import format_type
from planner.types.types import type_of_column, under_domain
from storage.catalog.model import Column, Relation
from storage.catalog.temporary import is_temporary
from storage.lake.adopting import Examined, examined, linked, real_location
from storage.lake.formats import SUFFIXES
from storage.lake.linked import links_to
from storage.lake.places import is_url
from storage.lake.troubles import FileTrouble
from storage.off_loop import AT_ONCE_ROWS
from storage.shards.packed_parts import linked_paths
from storage.shards.parts import Part

WRITING_ROLE = "pg_write_server_files"

_TAKEN_AS_THEY_ARE = frozenset({
    t.BOOL, t.INT2, t.INT4, t.INT8, t.FLOAT4, t.FLOAT8, t.NUMERIC, t.TEXT, t.VARCHAR, t.BYTEA, t.DATE, t.TIME,
    t.TIMESTAMP, t.TIMESTAMPTZ,
})  # fmt: skip
"""Types whose values files hold in the form in which tables do."""

MOST_FILES = 20_000
"""That one statement adds: a commit is one value in consensus."""

AT_ONCE = 64
"""Files that are looked at, or links that are stored, at the same time."""

_MAGIC = frozenset("*?[]{}")
"""Characters of a path that engines take for a pattern."""


async def add_files(running: Running, statement: st.AddFiles) -> Command:
    """Carry it out. Raises 42P01, 42809, 42501, 25006, 0A000 for a table whose rows no file has as they are, 42710 for
    a file that the table has already, what looking at files raises (42703, 42804, 22P04, 58P01, 58030, 08001), and what
    INSERT does for rows that break a rule (23502, 23503, 23505, 23514)."""
    transaction = running.transaction
    transaction.check_writable("CALL tidegate.add_files")
    catalog = transaction.catalog
    relation = find_relation(running, catalog, statement.table)
    columns = _check_table(running, relation, statement)
    # One at a time: nobody adds a file twice. Others write meanwhile.
    await transaction.lock(((tags.relation(relation.oid), Mode.SHARE_UPDATE_EXCLUSIVE),))
    transaction.rely_on([relation])
    try:
        found = await _examined(running, relation, columns, statement)
        parts = await _added(running, relation, found, owned=statement.owned)
    except FileTrouble as trouble:
        raise sql_error(trouble) from trouble
    await _check_rules(running, relation, parts)
    return Command(tag="CALL")


def _check_table(running: Running, relation: Relation, statement: st.AddFiles) -> dict[str, pa.Field]:
    """The physical columns that a file has to have, by their names. Raises as `add_files` does."""
    session, catalog = running.session, running.transaction.catalog
    if relation.kind != "r":
        raise WrongObjectType(f'"{relation.name}" is not a table')
    require_owner(catalog, session.values.identity.current, relation)
    if not session.has_privileges_of(READING_ROLE):
        raise refuse_reading()
    if statement.owned and not session.has_privileges_of(WRITING_ROLE):
        raise InsufficientPrivilege(
            f"must be superuser or have privileges of the {WRITING_ROLE} role to add files that the table owns"
        )
    if is_temporary(relation.oid):
        raise FeatureNotSupported(f'files cannot be added to temporary table "{relation.name}"')
    if is_subject(catalog, relation, session.values.identity.current):
        raise FeatureNotSupported(
            "tidegate.add_files is not supported with row-level security", hint="Use INSERT statements instead."
        )
    if links_to(running.services.env.blob) is None:
        raise FeatureNotSupported("the blob store of this server cannot refer to other files")
    found = {column.name: _field(column) for column in relation.live_columns()}
    if not found:
        raise FeatureNotSupported(f'files cannot be added to table "{relation.name}", which has no columns')
    return found


def _field(column: Column) -> pa.Field:
    type = type_of_column(column)
    stored = arrow_type(type)
    bare = under_domain(column.type_oid)
    if column.generated:
        raise FeatureNotSupported(f'files cannot be added to a table with generated column "{column.name}"')
    exact = bare != t.NUMERIC or pa.types.is_decimal(stored)
    limited = type.typmod != -1 and bare != t.NUMERIC
    if bare not in _TAKEN_AS_THEY_ARE or not exact or limited:
        raise FeatureNotSupported(
            f"files cannot be added to a table with a column of type {format_type(column.type_oid, column.typmod)}: "
            f'"{column.name}"',
            hint="INSERT INTO ... SELECT ... FROM read_parquet(...) converts values.",
        )
    return pa.field(f"c{column.attnum}", stored)


async def _examined(
    running: Running, relation: Relation, columns: Mapping[str, pa.Field], statement: st.AddFiles
) -> list[Examined]:
    """The files with what is known of each."""
    threads, places = running.services.file_threads, running.services.lake.places
    files = await threads.run(partial(places.files, statement.patterns, SUFFIXES["parquet"]))
    if len(files) > MOST_FILES:
        raise ProgramLimitExceeded(
            f"cannot add {len(files)} files at once",
            detail=f"One statement adds at most {MOST_FILES} files.",
            hint="Name them by several patterns, in several transactions.",
        )
    paths = {file.path: real_location(file.path) for file in files}
    known = await _known(running, relation, paths.values())
    for file in files:
        _check_path(running, relation, paths[file.path], known)
    found: list[Examined] = []
    for start in range(0, len(files), AT_ONCE):
        found += await asyncio.gather(
            *(
                threads.run(partial(examined, places, file, columns, verified=statement.checksum))
                for file in files[start : start + AT_ONCE]
            )
        )
    return [each for each in found if each.rows]


async def _known(running: Running, relation: Relation, paths: Collection[str]) -> set[str]:
    """Those of `paths` that are files of the table."""
    transaction = running.transaction
    assert relation.shard is not None
    assert transaction.snapshot is not None
    known: set[str] = set()
    if relation.shard not in transaction.created_shards:
        snapshot = await running.services.env.reader.snapshot(relation.shard, transaction.snapshot.csn)
        known |= linked_paths(snapshot.inserts, paths)
    if transaction.txn is not None:
        known |= linked_paths(transaction.txn.local_parts(relation.shard), paths)
    return known


def _check_path(running: Running, relation: Relation, path: str, known: set[str]) -> None:
    wanted = links_to(running.services.env.blob)
    if is_url(path) != (wanted == "objects"):
        where = "an object store, as those of the server" if wanted == "objects" else "local folders"
        raise FeatureNotSupported(f'file "{path}" cannot be added: files of tables have to be in {where}')
    if not _MAGIC.isdisjoint(path):
        raise FeatureNotSupported(f'file "{path}" cannot be added: its path reads as a pattern')
    if path in known:
        raise DuplicateObject(f'file "{path}" is in table "{relation.name}" already')


async def _added(running: Running, relation: Relation, found: list[Examined], *, owned: bool) -> list[Part]:
    env = running.services.env
    assert relation.shard is not None
    shard, parts = relation.shard, list[Part]()
    for start in range(0, len(found), AT_ONCE):
        parts += await asyncio.gather(
            *(linked(env.parts, shard, each, owned=owned) for each in found[start : start + AT_ONCE])
        )
    txn = running.transaction.writable(env, shard)
    return [await txn.write_part(shard, part) for part in parts]


async def _check_rules(running: Running, relation: Relation, parts: list[Part]) -> None:
    """Hold the rows of `parts` against the rules of the table."""
    target = target_of(running, running.transaction.catalog, relation.oid)
    await check_parts(running, target, parts)
    if target.keys is None:
        return
    keys = StatementKeys(running, target, target.keys)
    for part in parts:
        async for piece in running.services.env.parts.pieces(part, target.names):
            for batch in piece.combine_chunks().to_batches():
                keys.add(batch.columns)
                if keys.unspilled > AT_ONCE_ROWS:
                    await keys.spill()
    await keys.finish()
    if running.transaction.pending.deferred.length:
        await end_statement(running)
