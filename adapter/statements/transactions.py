"""BEGIN, COMMIT, ROLLBACK, savepoints and transaction characteristics.

Tags, warnings and errors are PostgreSQL's (xact.c, utility.c). A block that begins inside a query string takes over the
statements before it; COMMIT or ROLLBACK inside an implicit transaction ends it with a warning.
"""

from __future__ import annotations

from adapter.changes.constraints.deferred_checks import check_deferred
from adapter.execution.guards import in_failed_transaction
from adapter.execution.statement import Running
from adapter.results import Command
from adapter.statements import two_phase
from adapter.transactions.commit_request import Isolation
from adapter.transactions.pending import State
from adapter.transactions.snapshots import imported
from adapter.transactions.transaction import Transaction
from adapter.wall_clock import utc_now
from planner.errors import (
    NoActiveSqlTransaction,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from storage.catalog.model import Relation

NO_TRANSACTION = "there is no transaction in progress"

_CONTROL = (
    st.Begin, st.Commit, st.Rollback, st.Savepoint, st.Release, st.RollbackTo, st.PreparedTransaction,
)  # fmt: skip
_ALLOWED_WHEN_FAILED = (st.Commit, st.Rollback, st.RollbackTo)


def _may_end_failed(statement: object) -> bool:
    """Whether a failed transaction lets `statement` run; PREPARE TRANSACTION then rolls it back, as COMMIT does."""
    if isinstance(statement, st.PreparedTransaction):
        return statement.action == "prepare"
    return isinstance(statement, _ALLOWED_WHEN_FAILED)


def is_control(statement: object) -> bool:
    """Whether `statement` is handled by `run_control`."""
    return isinstance(statement, _CONTROL)


async def run_control(running: Running, statement: object) -> Command:
    """Carry out a statement of transaction control."""
    session, transaction = running.session, running.transaction
    if transaction.state is State.FAILED and not _may_end_failed(statement):
        raise in_failed_transaction()
    match statement:
        case st.Begin():
            if not transaction.implicit:
                session.warn("25001", "there is already a transaction in progress")
            else:
                transaction.implicit = False
            set_modes(running, statement.modes)
            return Command(tag="START TRANSACTION" if statement.start else "BEGIN")
        case st.Commit():
            return await _commit(running, statement)
        case st.Rollback():
            return await _rollback(running, statement.chain)
        case st.Savepoint():
            _require_explicit_block(running, "SAVEPOINT")
            transaction.define_savepoint(statement.name, session.values)
            return Command(tag="SAVEPOINT")
        case st.Release():
            _require_explicit_block(running, "RELEASE SAVEPOINT")
            transaction.release_savepoint(statement.name)
            return Command(tag="RELEASE")
        case st.RollbackTo():
            _require_explicit_block(running, "ROLLBACK TO SAVEPOINT")
            values, depth = transaction.rollback_to_savepoint(statement.name)
            session.values = session.values.undone_to(values)
            await session.portals.drop_deeper(depth)
            return Command(tag="ROLLBACK")
        case st.PreparedTransaction(action="prepare"):
            return await _prepare(running, statement.gid)
        case st.PreparedTransaction():
            return await two_phase.finish(running, statement)
        case _:
            raise AssertionError(statement)


async def _commit(running: Running, statement: st.Commit) -> Command:
    session, transaction = running.session, running.transaction
    if transaction.state is State.FAILED:
        return await _rollback(running, statement.chain)
    if transaction.implicit:
        if statement.chain:
            raise NoActiveSqlTransaction("COMMIT AND CHAIN can only be used in transaction blocks")
        session.warn("25P01", NO_TRANSACTION)
    if transaction.pending.deferred.length:
        await _check_at_commit(running)
    await session.commit_transaction()
    await session.portals.drop_all(keep_held=True)
    if statement.chain:
        _chain(running, transaction)
    return Command(tag="COMMIT")


async def _prepare(running: Running, gid: str) -> Command:
    session, transaction = running.session, running.transaction
    if transaction.state is State.FAILED:
        return await _rollback(running, chain=False)
    if transaction.implicit:
        session.warn("25P01", NO_TRANSACTION)
        return Command(tag="ROLLBACK")
    if transaction.pending.deferred.length:
        await _check_at_commit(running)
    return await two_phase.prepare(running, gid)


async def _check_at_commit(running: Running) -> None:
    """What was deferred is checked in the newest snapshot that the isolation level allows; the transaction is over when
    that fails."""
    try:
        await running.transaction.begin_statement(running.services.env)
        await check_deferred(running)
    except BaseException:
        running.session.roll_back_transaction()
        raise


async def set_constraints(running: Running, statement: st.SetConstraints) -> Command:
    """SET CONSTRAINTS: which constraints the transaction checks at its end; what becomes immediate is checked now."""
    transaction = running.transaction
    if not running.in_block:
        running.session.warn("25P01", "SET CONSTRAINTS can only be used in transaction blocks")
        for name in statement.names:
            _constraints_called(running, name, statement.deferred)
        return Command(tag="SET CONSTRAINTS")
    if not statement.names:
        transaction.set_timings({0: statement.deferred})
        if not statement.deferred:
            await check_deferred(running)
        return Command(tag="SET CONSTRAINTS")
    oids = frozenset(oid for name in statement.names for oid in _constraints_called(running, name, statement.deferred))
    transaction.set_timings({**transaction.pending.timings, **dict.fromkeys(oids, statement.deferred)})
    if not statement.deferred:
        await check_deferred(running, oids)
    return Command(tag="SET CONSTRAINTS")


def _constraints_called(running: Running, name: st.QualifiedName, deferred: bool) -> list[int]:
    """The oids of the constraints that SET CONSTRAINTS names: all of that name in the first schema that has one, but
    for those that are always checked at once. 42704 for none, 42809 for one of these that would be `deferred`."""
    catalog = running.transaction.catalog
    schemas = (name.schema,) if name.schema is not None else running.session.search_path()
    for schema_name in schemas:
        schema = catalog.schema(schema_name)
        if schema is None:
            continue
        found = [
            constraint
            for oid in catalog.constraint_oids
            if isinstance(relation := catalog.get(oid), Relation) and relation.schema == schema.oid
            for constraint in catalog.constraints(oid)
            if constraint.name == name.name
        ]
        if deferred and not all(constraint.deferrable for constraint in found):
            raise WrongObjectType(f'constraint "{name.name}" is not deferrable')
        if found:
            return [constraint.oid for constraint in found if constraint.deferrable]
    raise UndefinedObject(f'constraint "{name.name}" does not exist')


async def _rollback(running: Running, chain: bool) -> Command:
    session, transaction = running.session, running.transaction
    if transaction.implicit:
        if chain:
            raise NoActiveSqlTransaction("ROLLBACK AND CHAIN can only be used in transaction blocks")
        session.warn("25P01", NO_TRANSACTION)
    session.roll_back_transaction()
    await session.portals.drop_all(keep_held=True)
    if chain:
        _chain(running, transaction)
    return Command(tag="ROLLBACK")


def _chain(running: Running, before: Transaction) -> None:
    after = running.session.begin_transaction(implicit=False, started_at=utc_now())
    after.isolation, after.read_only, after.deferrable = before.isolation, before.read_only, before.deferrable


def _require_explicit_block(running: Running, what: str) -> None:
    """25P01 unless inside a real block: an implicit one does not do."""
    if running.transaction.implicit:
        raise NoActiveSqlTransaction(f"{what} can only be used in transaction blocks")


def set_modes(running: Running, modes: st.TransactionModes) -> None:
    """SET TRANSACTION, or the modes of BEGIN: characteristics of the current transaction."""
    if modes.isolation is not None:
        running.transaction.set_isolation(Isolation(modes.isolation))
    if modes.read_only is not None:
        running.transaction.set_read_only(modes.read_only)
    if modes.deferrable is not None:
        running.transaction.deferrable = modes.deferrable


async def set_transaction(running: Running, statement: st.SetTransaction) -> Command:
    """SET TRANSACTION and SET SESSION CHARACTERISTICS."""
    session = running.session
    if statement.snapshot is not None:
        if not running.in_block:
            session.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")
        await imported(running.services.env, running.transaction, statement.snapshot)
        return Command(tag="SET")
    if statement.session:
        modes = statement.modes
        if modes.isolation is not None:
            session.values = session.values.with_session("default_transaction_isolation", modes.isolation)
        if modes.read_only is not None:
            value = "on" if modes.read_only else "off"
            session.values = session.values.with_session("default_transaction_read_only", value)
        if modes.deferrable is not None:
            value = "on" if modes.deferrable else "off"
            session.values = session.values.with_session("default_transaction_deferrable", value)
        return Command(tag="SET")
    if not running.in_block:
        session.warn("25P01", "SET TRANSACTION can only be used in transaction blocks")
    set_modes(running, statement.modes)
    return Command(tag="SET")
