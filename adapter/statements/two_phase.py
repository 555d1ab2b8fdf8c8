"""PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.

Checks, texts and their order are PostgreSQL's (xact.c, PrepareTransaction; twophase.c). A transaction that cannot be
prepared is rolled back. What is prepared belongs to no session any more, and is ended from any, of the database that it
was prepared in, by who prepared it or a superuser.
"""

from __future__ import annotations

from msgspec.structs import replace

from adapter.access.membership import is_superuser
from adapter.execution.guards import prevent_in_block
from adapter.execution.statement import Running
from adapter.results import Command
from adapter.store_errors import sql_error
from adapter.transactions.commit_request import CommitRequest, Isolation
from adapter.transactions.pending import State
from adapter.transactions.two_phase.note import Note, note_of
from adapter.wall_clock import utc_now
from planner.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    OutOfMemory,
    StatementCompletionUnknown,
    UndefinedObject,
)
from planner.statements import records as st
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.errors import StorageError
from storage.timestamps.csn import Csn
from storage.transactions.txns_state import Prepared

MAX_GID_BYTES = 200
"""PostgreSQL's GIDSIZE: the name of a prepared transaction is shorter."""

SPILL_BYTES = 64 * 1024
"""A prepared transaction that has written more goes into files: its record is part of a state that every process
holds."""


async def prepare(running: Running, gid: str) -> Command:
    """PREPARE TRANSACTION of the block, whose deferred constraints have been checked. Raises 0A000, 22023, 42710,
    53200, 55000, and what a COMMIT raises; the transaction is rolled back then."""
    session, transaction, services = running.session, running.transaction, running.services
    try:
        _check_preparable(running, gid)
        if transaction.state is State.NEW:
            await transaction.begin_statement(services.env, reads=False)
        if transaction.followed:
            await transaction.settled()
        await services.transaction_id(transaction)
        request = transaction.commit_request(services.env)
        if request.txn.buffered_bytes > SPILL_BYTES:
            await request.txn.spill(force=True)
    except BaseException as error:
        session.roll_back_transaction()
        if isinstance(error, StorageError):
            raise sql_error(error) from error
        raise
    owner = session.locks.hand_over()
    note = note_of(
        request,
        owner,
        user=session.user,
        database=session.database,
        database_oid=owner.database_oid,
        prepared_us=int(utc_now().timestamp() * 1_000_000),
    )
    request = replace(request, owner=None, replacements=(), prepare=(gid, note.encoded()))
    services.prepared.expect(gid, owner)
    try:
        await services.committer.commit(request)
    except BaseException as error:
        if services.prepared.give_up(gid):
            session.locks.let_go(owner)
        session.roll_back_transaction(in_doubt=isinstance(error, StatementCompletionUnknown))
        raise
    session.transaction_prepared()
    await session.portals.drop_all(keep_held=True)
    return Command(tag="PREPARE TRANSACTION")


def _check_preparable(running: Running, gid: str) -> None:
    session, transaction, services = running.session, running.transaction, running.services
    relations = [lock.tag for segment in session.locks.owner.segments for lock, _ in segment.locks]
    space = session.temporary
    defined = space is not None and transaction.pending.temporary is not space.objects
    if defined or any(tag.kind == "relation" and tag.space >= FIRST_TEMPORARY_OID for tag in relations):
        raise FeatureNotSupported("cannot PREPARE a transaction that has operated on temporary objects")
    if transaction.exported:
        raise FeatureNotSupported("cannot PREPARE a transaction that has exported snapshots")
    if len(gid.encode()) >= MAX_GID_BYTES:
        raise InvalidParameterValue(f'transaction identifier "{gid}" is too long')
    most = int(session.values.flat["max_prepared_transactions"])
    if not most:
        raise ObjectNotInPrerequisiteState(
            "prepared transactions are disabled", hint="Set max_prepared_transactions to a nonzero value."
        )
    prepared = services.env.cache.state.prepared
    if gid not in prepared and len(prepared) >= most:
        raise OutOfMemory(
            "maximum number of prepared transactions reached",
            hint=f"Increase max_prepared_transactions (currently {most}).",
        )
    if transaction.pending.listens or transaction.pending.notifications.length:
        raise FeatureNotSupported("cannot PREPARE a transaction that has executed LISTEN, UNLISTEN, or NOTIFY")
    session_level = {lock for lock, _ in session.locks.owner.session_level}
    if any(lock in session_level for segment in session.locks.owner.segments for lock, _ in segment.locks):
        raise FeatureNotSupported(
            "cannot PREPARE while holding both session-level and transaction-level locks on the same object"
        )
    if session.portals.to_hold():
        raise FeatureNotSupported("cannot PREPARE a transaction that has created a cursor WITH HOLD")


async def finish(running: Running, statement: st.PreparedTransaction) -> Command:
    """COMMIT PREPARED and ROLLBACK PREPARED. Raises 25001, 42704, 42501, 0A000; what was prepared does not fail."""
    verb = "COMMIT PREPARED" if statement.action == "commit" else "ROLLBACK PREPARED"
    prevent_in_block(running, verb)
    env = running.services.env
    # By whatever server it was prepared.
    await env.oracle.read_ts("user")
    record = env.cache.state.prepared.get(statement.gid)
    if record is None:
        raise UndefinedObject(f'prepared transaction with identifier "{statement.gid}" does not exist')
    _check_may_finish(running, Note.decoded(record.note))
    if statement.action == "commit":
        await running.services.committer.commit(_second_phase(running, record))
        return Command(tag=verb)
    try:
        record = await env.txns_shard.forget_prepared(statement.gid)
    except StorageError as error:
        raise sql_error(error) from error
    env.parts.discard([part for write in record.writes for part in write.parts])
    return Command(tag=verb)


def _check_may_finish(running: Running, note: Note) -> None:
    session = running.session
    if note.user != session.user and not is_superuser(session.newest_catalog(), session.values.identity.current):
        raise InsufficientPrivilege(
            "permission denied to finish prepared transaction",
            hint="Must be superuser or the user that prepared the transaction.",
        )
    if note.database_oid != session.locks.owner.database_oid:
        raise FeatureNotSupported(
            "prepared transaction belongs to another database",
            hint="Connect to the database where the transaction was prepared to finish it.",
        )


def _second_phase(running: Running, record: Prepared) -> CommitRequest:
    return CommitRequest(
        txn=running.services.env.prepared_txn(record),
        isolation=Isolation.READ_COMMITTED,
        snapshot=Csn(record.csn),
        reads=(),
        catalog_updates=record.catalog_updates,
        catalog_reads={},
        ends=record.gid,
        defines=bool(record.catalog_updates),
    )
