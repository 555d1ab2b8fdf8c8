"""A statement that has met a numeric which it had no room for (`NotHeld`) is taken back and carried out again, this
once.

SUBTLE: which statements meet one is known when they do. Were all numerics held as texts beforehand, all that is
computed of them would be computed in Python. So a statement is planned for decimals first. What it has done by
then is taken back as by a savepoint. One is made beforehand only for what reads with an engine and then writes, in a
block that has written; all else has written nothing yet when it meets the number, and `Begun` notices if it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from adapter.execution.statement import Outcome, Running
from adapter.settings.values import SettingValues
from adapter.statements.numerics.columns import require_format
from adapter.transactions.pending import Mark, Pending
from adapter.transactions.transaction import Transaction
from planner.common_errors import Held, NotHeld
from storage.transactions.txn import Txn


class Begun(Struct, frozen=True):
    """Where a transaction was when a statement began: what it had written to (`txn`, at number `changes`), what of
    temporary tables (None: nothing), and what it would do."""

    txn: Txn | None
    changes: int
    temporary_changes: int | None
    pending: Pending
    notices: int


class Needs(Struct, frozen=True):
    """What a statement is carried out again with: how it holds numerics, and the columns (attnums, by the oid of their
    table) that hold NaN by then as well as those that it says it changes."""

    held: Held = Held.DECIMALS
    columns: Mapping[int, frozenset[int]] = MappingProxyType({})


async def carried_out_again(
    running: Running, before: Begun, carry_out: Callable[[Running], Awaitable[Outcome]], met: NotHeld
) -> Outcome:
    """Take back what the statement has done by the time that it has `met` a number that was not held, and carry it out
    with what it needs. Raises NotHeld where that may not be, and what `carry_out` raises."""
    session, needs = running.session, with_needs(Needs(), met)
    if session.held:
        raise met
    while True:
        if not _taken_back(running.transaction, before, running.before, session.values):
            raise type(met)
        del session.notices[before.notices :]
        if running.before is None:
            running.before = running.transaction.mark(session.values)
        try:
            return await carried_out(running, carry_out, needs)
        except NotHeld as error:
            met, needs = error, with_needs(needs, error)


async def carried_out(running: Running, carry_out: Callable[[Running], Awaitable[Outcome]], needs: Needs) -> Outcome:
    """Carry out a statement with what it `needs`. Raises as `require_format`, and what `carry_out` raises."""
    if Held.NAN in needs.held and running.parsed.kind != "select_stmt":
        await require_format(running)
    session = running.session
    session.held, session.columns_for_nan = needs.held, needs.columns
    try:
        return await carry_out(running)
    finally:
        session.held, session.columns_for_nan = Held.DECIMALS, {}


def with_needs(needs: Needs, met: NotHeld) -> Needs:
    """What a statement needs that has `met` a number when it was carried out with `needs`. Raises what is the matter
    where it would meet that again."""
    columns = dict(needs.columns)
    for oid, attnums in met.columns.items():
        columns[oid] = columns.get(oid, frozenset()) | attnums
    merged = Needs(needs.held | met.needs, columns)
    if merged == needs:
        raise met.when_held()
    return merged


def _taken_back(transaction: Transaction, before: Begun, mark: Mark | None, settings: SettingValues) -> bool:
    """Undo what was done since `before`. False where there is no way to."""
    if mark is not None:
        transaction.undo(mark)
        return True
    space = transaction.temporary
    if before.temporary_changes is not None and (space is None or space.changes != before.temporary_changes):
        return False
    if before.txn is not None:
        if transaction.txn is not before.txn or before.txn.changes != before.changes:
            return False
        if before.temporary_changes is None and space is not None:
            space.undo(None)
        transaction.pending = before.pending
        return True
    if before.temporary_changes is not None:
        transaction.abandon()
        transaction.pending = before.pending
        return True
    transaction.undo(
        Mark(
            name="",
            rows=None,
            temporary_rows=None,
            settings=settings,
            pending=before.pending,
            read_only=transaction.read_only,
        )
    )
    return True


def forget_mark(running: Running) -> None:
    """What the statement has done stays: nothing is taken back to where it began."""
    mark, txn = running.before, running.transaction.txn
    if mark is not None and mark.rows is not None and txn is not None:
        txn.release(mark.rows)
