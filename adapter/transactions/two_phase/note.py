"""The note of a prepared transaction, as MessagePack: who prepared it, its locks, and what it relies on.

    Note(user="postgres", database="postgres", database_oid=5, prepared_us=1795382400000000,
         locks=(("relation", 16384, 0, 3),), rows=((16384, 7, <bitmap>),),
         held=(("s4k...", <bitmap>),), reads=(Read(shard="s4k...", relation_oid=16384, conjunctions=(...,)),),
         relies_on=(16384, 16390))

`locks` are kind, space, item and mode of each lock, `rows` the relation, the mode and the row ids that it has locked.
`held` are rows that nobody may change though it writes nothing to them, `reads` what a SERIALIZABLE transaction has
read, and `relies_on` the oids of definitions that must stay as they are.

A condition whose value has a type that is not known here is left out, so that more rows count as read, never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias
from uuid import UUID

import msgspec
import numpy as np
from msgspec import Struct
from pyroaring import BitMap64

from adapter.plans.predicates import Comparison, Conjunction
from adapter.transactions.claims import Claim, Unchanged
from adapter.transactions.commit_request import CommitRequest, TableRead
from adapter.transactions.locks.lock import Owner
from adapter.transactions.locks.modes import Mode
from adapter.transactions.locks.row_sets import bitmap
from adapter.transactions.locks.tags import Tag
from storage.ids import ShardId
from storage.timestamps.csn import Csn


class Value(Struct, frozen=True, array_like=True):
    """A constant: the name of its type here, and its text; of a list its members."""

    type: str
    text: str = ""
    members: tuple[Value, ...] = ()


class Condition(Struct, frozen=True, array_like=True):
    """See `adapter.plans.predicates.Comparison`."""

    column: str
    op: str
    value: Value
    then: Condition | None = None


class Read(Struct, frozen=True, kw_only=True):
    """See `TableRead`."""

    relation_oid: int
    shard: ShardId
    conjunctions: tuple[tuple[Condition, ...], ...]


class Note(Struct, frozen=True, kw_only=True):
    """See the module's contract."""

    user: str
    database: str
    database_oid: int
    prepared_us: int
    """Microseconds since 1970."""
    locks: tuple[tuple[str, int, int | tuple[int, int, int], int], ...] = ()
    rows: tuple[tuple[int, int, bytes], ...] = ()
    held: tuple[tuple[ShardId, bytes], ...] = ()
    reads: tuple[Read, ...] = ()
    relies_on: tuple[int, ...] = ()

    def encoded(self) -> bytes:
        """As it is stored."""
        return _encoder.encode(self)

    @staticmethod
    def decoded(data: bytes) -> Note:
        """The inverse of `encoded`. Raises ValueError."""
        return _decoder.decode(data)

    def lock_list(self) -> list[tuple[Tag, Mode]]:
        """Its locks, those of rows apart."""
        return [(Tag(kind, space, item), Mode(mode)) for kind, space, item, mode in self.locks]  # type: ignore[arg-type]

    def row_lists(self) -> list[tuple[int, Mode, np.ndarray[Any, Any]]]:
        """Relation, mode and ids (ascending) of the rows that it has locked."""
        return [(relation, Mode(mode), _ids(data)) for relation, mode, data in self.rows]

    def claims(self, as_of: Csn) -> tuple[Claim, ...]:
        """That the rows which it holds stay as they were at `as_of`."""
        return tuple(Unchanged(shard=shard, row_ids=_ids(data), as_of=as_of) for shard, data in self.held)

    def table_reads(self, as_of: Csn) -> tuple[TableRead, ...]:
        """What it has read, as of then."""
        return tuple(
            TableRead(
                relation_oid=read.relation_oid,
                shard=read.shard,
                as_of=as_of,
                conjunctions=tuple(tuple(map(_comparison, conjunction)) for conjunction in read.conjunctions),
            )
            for read in self.reads
        )


def note_of(
    request: CommitRequest, owner: Owner, *, user: str, database: str, database_oid: int, prepared_us: int
) -> Note:
    """The note of a transaction that is about to be prepared, whose locks `owner` has."""
    locks: dict[tuple[Tag, Mode], None] = {}
    rows: dict[tuple[int, Mode], Any] = {}
    for segment in owner.segments:
        locks.update(dict.fromkeys((lock.tag, mode) for lock, mode in segment.locks))
        for (relation, mode), taken in segment.rows.items():
            rows.setdefault((relation, mode), BitMap64()).update(taken)
    held: dict[ShardId, Any] = {}
    for claim in request.claims:
        if isinstance(claim, Unchanged):
            held[claim.shard] = held.get(claim.shard, BitMap64()) | bitmap(claim.row_ids)
    return Note(
        user=user,
        database=database,
        database_oid=database_oid,
        prepared_us=prepared_us,
        locks=tuple((tag.kind, tag.space, tag.item, int(mode)) for tag, mode in locks),
        rows=tuple((relation, int(mode), ids.serialize()) for (relation, mode), ids in rows.items()),
        held=tuple((shard, ids.serialize()) for shard, ids in held.items()),
        reads=tuple(
            Read(relation_oid=read.relation_oid, shard=read.shard, conjunctions=conditions_of(read.conjunctions))
            for read in request.reads
        ),
        relies_on=tuple(sorted({oid for oid, _ in request.catalog_reads})),
    )


def _ids(data: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(BitMap64.deserialize(data).to_array(), dtype=np.int64)


# ---------------------------------------------------------------- conditions


def conditions_of(conjunctions: Iterable[Conjunction]) -> tuple[tuple[Condition, ...], ...]:
    """What a read required of its rows, as it is stored."""
    found = []
    for conjunction in conjunctions:
        conditions = [_condition(comparison) for comparison in conjunction]
        found.append(tuple(condition for condition in conditions if condition is not None))
    return tuple(found)


def _condition(comparison: Comparison) -> Condition | None:
    """The condition as it is stored, None when that is not possible. Without its `then` it would be another one only
    where that is fewer rows, so it is left out as a whole."""
    value = _value(comparison.value)
    then = None if comparison.then is None else _condition(comparison.then)
    if value is None or (comparison.then is not None and then is None):
        return None
    return Condition(comparison.column, comparison.op, value, then)


def _comparison(condition: Condition) -> Comparison:
    then = None if condition.then is None else _comparison(condition.then)
    return Comparison(condition.column, condition.op, _python(condition.value), then)


_Writer: TypeAlias = Callable[[Any], str]
_Reader: TypeAlias = Callable[[Any], Any]

_TYPES: Mapping[type, tuple[str, _Writer, _Reader]] = {
    bool: ("bool", lambda value: "t" if value else "f", lambda text: text == "t"),
    int: ("int", str, int),
    float: ("float", repr, float),
    str: ("str", str, str),
    bytes: ("bytes", bytes.hex, bytes.fromhex),
    Decimal: ("decimal", str, Decimal),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    UUID: ("uuid", str, UUID),
    type(None): ("null", lambda value: "", lambda text: None),
}
"""By Python's type: its name here, and how its values become text and come back."""

_READERS = {name: read for name, _, read in _TYPES.values()}


def _value(value: Any) -> Value | None:
    if type(value) in (tuple, list, frozenset, set):
        members = [_value(member) for member in value]
        known = tuple(member for member in members if member is not None)
        return Value(type(value).__name__, "", known) if len(known) == len(members) else None
    found = _TYPES.get(type(value))
    return None if found is None else Value(found[0], found[1](value))


def _python(value: Value) -> Any:
    match value.type:
        case "tuple":
            return tuple(map(_python, value.members))
        case "list":
            return list(map(_python, value.members))
        case "frozenset":
            return frozenset(map(_python, value.members))
        case "set":
            return set(map(_python, value.members))
        case _:
            return _READERS[value.type](value.text)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Note)
