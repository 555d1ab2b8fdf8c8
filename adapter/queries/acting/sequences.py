"""nextval, currval, setval and lastval. Sequences are not transactional: a number given out stays given out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adapter.access.privileges import Rights
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running
from adapter.settings.values import split_list
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from planner.common_errors import missing_relation
from planner.errors import (
    InsufficientPrivilege,
    NumericValueOutOfRange,
    ObjectNotInPrerequisiteState,
    SequenceGeneratorLimitExceeded,
    UndefinedTable,
    WrongObjectType,
)
from planner.resolution.required import closed_schema
from storage.catalog.model import CatalogSnapshot, Relation, Schema, Sequence
from storage.catalog.sequences import LocalSequences, SequenceExhausted, SequenceStore
from storage.catalog.temporary import is_temporary


def find_sequence(running: Running, name: str | int, *, to_number: bool = False) -> Sequence:
    """The sequence with this oid or (possibly qualified, possibly quoted) name; `to_number`: which is to give its next
    numbers. Raises 42P01, 42809, 42501."""
    catalog = running.transaction.planning_catalog(running.services.env)
    found = catalog.get(name) if isinstance(name, int) else _named(running, catalog, name)
    if not isinstance(found, Sequence):
        other = running.engines.catalogs.objects(catalog, running.session.database).relation(int(name))
        if other is not None:
            raise WrongObjectType(f'"{other.name}" is not a sequence')
        raise UndefinedTable(f"relation with OID {name} does not exist")
    if to_number:
        # NOTE: each number of each session comes by here.
        role = running.session.values.identity.current
        record = catalog.roles.records.get(role)
        is_own = role == found.owner and found.oid not in catalog.acls.by_object
        if not is_own and (record is None or not record.superuser):
            _check_may_number(running, catalog, found)
    return found


def _named(running: Running, catalog: CatalogSnapshot, name: str) -> Sequence:
    parts = split_list(name.replace(".", ","))
    if len(parts) > 1 and parts[-2] in running.session.bind_context(catalog).closed_schemas:
        raise closed_schema(parts[-2])
    schemas = running.session.search_path() if len(parts) == 1 else (parts[-2],)
    for schema_name in schemas:
        schema = catalog.schema(schema_name)
        if isinstance(schema, Schema):
            record = catalog.get(catalog.relation_names.get((schema.oid, parts[-1]), 0))
            if isinstance(record, Sequence):
                return record
            if record is not None:
                raise WrongObjectType(f'"{parts[-1]}" is not a sequence')
    raise missing_relation(name)


def _check_may_number(running: Running, catalog: CatalogSnapshot, sequence: Sequence) -> None:
    """42501 without USAGE or UPDATE on the sequence; who may insert into a table may have the numbers of its identity
    columns."""
    rights = running.session.rights(catalog)
    table = catalog.get(sequence.owned_by[0]) if sequence.owned_by is not None else None
    is_identity = isinstance(table, Relation) and any(column.sequence == sequence.oid for column in table.columns)
    may_insert = table is not None and (table.oid in running.inserted or rights.may_with_columns(table.oid, "a", ()))
    if not (is_identity and may_insert):
        rights.require("s", sequence.oid, "Uw")


def _rights(running: Running) -> Rights:
    return running.session.rights(running.transaction.planning_catalog(running.services.env))


def positions_of(running: Running, sequence: Sequence) -> SequenceStore | LocalSequences:
    """What keeps the position of `sequence`."""
    space = running.session.temporary
    return running.services.sequence_store if space is None or not is_temporary(sequence.oid) else space.sequences


async def locked(running: Running, sequence: Sequence) -> Sequence:
    """`sequence` locked as PostgreSQL's functions lock it, until the transaction ends (sequence.c,
    lock_and_open_sequence); as it is now, when an ALTER SEQUENCE had to be waited for. Raises what waiting raises."""
    locks, tag = running.transaction.locks, tags.relation(sequence.oid)
    if locks.try_lock(tag, Mode.ROW_EXCLUSIVE):
        return sequence
    await locks.lock(tag, Mode.ROW_EXCLUSIVE)
    env = running.services.env
    await env.oracle.read_ts("catalog")
    newest = env.catalog.current().get(sequence.oid)
    if not isinstance(newest, Sequence):
        raise UndefinedTable(f"relation with OID {sequence.oid} does not exist")
    return newest


async def next_values(
    running: Running, sequence: Sequence, count: int, session: SessionState | None = None
) -> list[int]:
    """The next `count` numbers of `sequence`, for another `session` if one is given. Raises 2200H when it is exhausted,
    and as `locked`."""
    sequence = await locked(running, sequence)
    try:
        values = await positions_of(running, sequence).next_values(sequence, count)
    except SequenceExhausted:
        bound, what = (sequence.maximum, "maximum") if sequence.increment > 0 else (sequence.minimum, "minimum")
        raise SequenceGeneratorLimitExceeded(
            f'nextval: reached {what} value of sequence "{sequence.name}" ({bound})'
        ) from None
    if values:
        session = session or running.session
        session.sequence_values[sequence.oid] = values[-1]
        session.last_sequence = sequence.oid
    return values


async def nextval(running: Running, name: str | int) -> int:
    """nextval(regclass)."""
    return (await next_values(running, sequence_to_number(running, name), 1))[0]


def sequence_to_number(running: Running, name: str | int) -> Sequence:
    """The sequence from which nextval(regclass) takes a number. Raises what `find_sequence` raises, and 25006."""
    sequence = find_sequence(running, name, to_number=True)
    _check_writable(running, sequence, "nextval()")
    return sequence


def _check_writable(running: Running, sequence: Sequence, what: str) -> None:
    """25006 in a transaction that is read-only, but for temporary sequences."""
    if not is_temporary(sequence.oid):
        running.transaction.check_writable(what)


async def position(running: Running, oid: int) -> tuple[int, bool]:
    """What `SELECT last_value, is_called FROM sequence` shows."""
    sequence = find_sequence(running, oid)
    return await positions_of(running, sequence).last_value(sequence)


async def given_last(running: Running, name: str | int) -> int | None:
    """pg_sequence_last_value(regclass): the number given out last by anybody; None before the first. 42501 without
    SELECT or USAGE."""
    sequence = find_sequence(running, name)
    rights = _rights(running)
    if not any(rights.may("s", sequence.oid, letter) for letter in "rU"):
        raise InsufficientPrivilege(f"permission denied for sequence {sequence.name}")
    last_value, is_called = await positions_of(running, sequence).last_value(sequence)
    return last_value if is_called else None


async def with_last_values(running: Running, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The `rows` of pg_sequences, and for each the value that nextval() has given last: NULL before the first, and for
    whom may not see it."""
    rights = _rights(running)
    found: list[Mapping[str, Any]] = []
    for row in rows:
        value = None
        if any(rights.may("s", row["oid"], letter) for letter in "rU"):
            last_value, is_called = await position(running, row["oid"])
            value = last_value if is_called else None
        found.append({name: each for name, each in row.items() if name != "oid"} | {"last_value": value})
    return found


def currval(running: Running, name: str | int) -> int:
    """currval(regclass). 55000 before the session's first nextval."""
    sequence = find_sequence(running, name)
    _rights(running).require("s", sequence.oid, "rU")
    value = running.session.sequence_values.get(sequence.oid)
    if value is None:
        raise ObjectNotInPrerequisiteState(f'currval of sequence "{sequence.name}" is not yet defined in this session')
    return value


def lastval(running: Running) -> int:
    """lastval()."""
    session = running.session
    catalog = running.transaction.planning_catalog(running.services.env)
    if session.last_sequence is None or catalog.get(session.last_sequence) is None:
        raise ObjectNotInPrerequisiteState("lastval is not yet defined in this session")
    _rights(running).require("s", session.last_sequence, "rU")
    return session.sequence_values[session.last_sequence]


async def setval(running: Running, name: str | int, value: int, called: bool = True) -> int:
    """setval(regclass, bigint [, boolean]). 22003 outside of the bounds."""
    found = find_sequence(running, name)
    _rights(running).require("s", found.oid, "w")
    _check_writable(running, found, "setval()")
    sequence = await locked(running, found)
    if not sequence.minimum <= value <= sequence.maximum:
        raise NumericValueOutOfRange(
            f'setval: value {value} is out of bounds for sequence "{sequence.name}" '
            f"({sequence.minimum}..{sequence.maximum})"
        )
    await positions_of(running, sequence).set_value(sequence, value, called)
    if called:
        running.session.sequence_values[sequence.oid] = value
    return value
