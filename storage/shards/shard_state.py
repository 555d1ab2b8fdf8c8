"""The state of one data shard and its pure transitions: no I/O, no clock.

A shard is a durable, explicitly timestamped changelog. It can be read at every CSN in ``[earliest, upper)``; its
rows at T are those of insert parts with ``csn <= T`` whose ids are in no delete part with ``csn <= T``. At and after
`since` these are parts of the state itself; before, some of them are in `history` (`storage.shards.history`).

Everything that a transition assigns (part ids, first row ids, schema versions) follows from the state and the
diff alone, so every process that applies the same diffs in the same order assigns the same. That lets a reader
work out the effect of a committed write before anybody has copied it into the shard.

Invariants (`check`): earliest <= since <= upper; part csn < upper; part ids and row ids are below their counters; ids
of insert parts without a row-id column do not overlap; a garbage key is no live part's; `whole` has the deletions of
whole parts that are among the parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TypeAlias

import msgspec
import pyarrow as pa
from immutables import Map

from storage.durable.state import BASE_FORMAT
from storage.ids import ShardId
from storage.shards import packed_parts
from storage.shards.packed_parts import PartMap, PartsById, loose_parts, of_stored, packed, stored
from storage.shards.parts import PROVISIONAL_ROW_ID, RUNS_FORMAT, Part, RowIdRange, RunRef, fingerprint
from storage.shards.writes import format_of_parts
from storage.timestamps.csn import Csn


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a shard's columns. Versions count from 0."""

    version: int
    arrow: bytes
    fingerprint: str
    columns: tuple[str, ...]

    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return decode_schema(self.arrow)


HOLD_MS = 60_000
"""A hold that has not been renewed for so long has expired. Told by the monotonic clock of who looks: wall clocks of
two hosts are not compared, and one may jump."""


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hold keeps `earliest` at or below `at`. Critical ones (`expires_ms` None) stay until released; others are
    renewed with another `expires_ms`, the time until which their owner means to keep them by its own clock."""

    at: Csn
    expires_ms: int | None = None
    reason: str = ""


class Garbage(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the state no longer refers to since `seqno`; a reader may still be at it."""

    key: str
    seqno: int


class Append(msgspec.Struct, frozen=True, kw_only=True, tag="append", omit_defaults=True):
    """Compare-and-append: `parts` at `csn`, which moves the upper from `lower` to just past `csn`.

    `schema` (serialized Arrow) adds a schema version first.
    """

    lower: Csn
    csn: Csn
    parts: tuple[Part, ...] = ()
    schema: bytes | None = None


class DowngradeSince(msgspec.Struct, frozen=True, kw_only=True, tag="since", omit_defaults=True):
    """History before `since` may be folded; what was before `earliest` (None: before `since`) is gone."""

    since: Csn
    earliest: Csn | None = None


class SetHold(msgspec.Struct, frozen=True, kw_only=True, tag="hold"):
    """Install or renew the hold `name`; None releases it."""

    name: str
    hold: Hold | None


class Archive(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file with parts that a compaction took out of the state, for reads before `until`.

    `first` is the lowest CSN at which one of them is read. `files`: the files of the parts themselves, which go with
    the archive.
    """

    key: str
    bytes: int
    checksum: str
    first: Csn
    until: Csn = Csn(0)
    files: tuple[str, ...] = ()


class Compact(msgspec.Struct, frozen=True, kw_only=True, tag="compact", omit_defaults=True):
    """Swap the parts with ids `removed` for `added`, which hold the same rows at every CSN from since on; `archive` has
    the former for reads before."""

    removed: tuple[int, ...]
    added: tuple[Part, ...]
    archive: Archive | None = None


class SetRuns(msgspec.Struct, frozen=True, kw_only=True, tag="runs"):
    """The part with the id `part` has these key runs from now on, and no others."""

    part: int
    runs: dict[int, RunRef]


class Collected(msgspec.Struct, frozen=True, kw_only=True, tag="collected"):
    """The files `keys` are gone from the blob store."""

    keys: tuple[str, ...]


class Drop(msgspec.Struct, frozen=True, kw_only=True, tag="drop"):
    """The shard is gone for good: its parts become garbage and it can never be read again."""


class Fence(msgspec.Struct, frozen=True, kw_only=True, tag="fence"):
    """Refuse every compaction that began before: files that it uploaded may be about to go."""


class Share(msgspec.Struct, frozen=True, kw_only=True, tag="share", omit_defaults=True):
    """The shard `to` may refer to files of this one: `process` is about to commit that it does. None: it does no
    more (`storage.upkeep.shared_files`)."""

    to: ShardId
    process: str | None = None


ShardOp: TypeAlias = Append | DowngradeSince | SetHold | Compact | SetRuns | Collected | Drop | Fence | Share


class ShardDiff(msgspec.Struct, frozen=True):
    """One durable transition: its operations, in order."""

    ops: tuple[ShardOp, ...]


class ShardState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one shard. `parts` is by part id, ascending in the order of appending; many are packed
    (`storage.shards.packed_parts`)."""

    shard: ShardId
    schemas: tuple[SchemaVersion, ...] = ()
    earliest: Csn = Csn(0)
    since: Csn = Csn(0)
    upper: Csn = Csn(0)
    next_row_id: int = 0
    next_part_id: int = 0
    parts: PartsById = msgspec.field(default_factory=Map)
    holds: Map[str, Hold] = msgspec.field(default_factory=Map)
    garbage: Map[str, Garbage] = msgspec.field(default_factory=Map)
    history: Map[str, Archive] = msgspec.field(default_factory=Map)
    """By key: what reads before the since need."""
    transitions: int = 0
    """How many diffs made this state."""
    dropped: bool = False
    epoch: int = 0
    """How often the shard was fenced. A compaction swaps parts only in the epoch that it began in."""
    whole: Map[str, int] = msgspec.field(default_factory=Map)
    """By file, the delete part that has it and deletes all of its rows (`storage.shards.whole_deletions`)."""
    shared: Map[ShardId, str] = msgspec.field(default_factory=Map)
    """The shards that may refer to files of this one, each with the process that made it."""

    def schema(self) -> SchemaVersion:
        """The newest schema version. Raises ValueError when the shard has none yet."""
        if not self.schemas:
            raise ValueError(f"shard {self.shard} has no schema")
        return self.schemas[-1]


class _StateDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a rollup stores a `ShardState`."""

    shard: ShardId
    schemas: tuple[SchemaVersion, ...]
    since: Csn
    upper: Csn
    next_row_id: int
    next_part_id: int
    parts: tuple[msgspec.Raw, ...]
    """Each a `Part`. They are decoded one after the other, for all at once would be many times the state."""
    holds: dict[str, Hold]
    garbage: tuple[Garbage, ...]
    transitions: int
    dropped: bool = False
    epoch: int = 0
    earliest: Csn | None = None
    history: tuple[Archive, ...] = ()
    shared: dict[ShardId, str] = {}


HISTORY_FORMAT = 4
"""The format (`storage.durable.state`) of what names archives."""

SHARED_FORMAT = 5
"""The format of a shard whose files others refer to. A server that does not know it would remove them."""


def encode_schema(schema: pa.Schema) -> bytes:
    """`schema` without metadata, as Arrow IPC."""
    return bytes(schema.remove_metadata().serialize().to_pybytes())


def decode_schema(data: bytes) -> pa.Schema:
    """The inverse of `encode_schema`."""
    return pa.ipc.read_schema(pa.BufferReader(data))


def apply_diff(state: ShardState, diff: ShardDiff) -> ShardState:
    """The state after `diff`. Raises ValueError when it does not fit."""
    for op in diff.ops:
        state = apply_op(state, op)
    return msgspec.structs.replace(state, transitions=state.transitions + 1)


def apply_op(state: ShardState, op: ShardOp) -> ShardState:
    """The state after one operation. Raises ValueError when it does not fit."""
    replace = msgspec.structs.replace
    if state.dropped and not isinstance(op, Collected | Share):
        raise ValueError(f"shard {state.shard} is dropped")
    match op:
        case Append():
            return _append(state, op)
        case DowngradeSince():
            if op.since >= state.upper:
                raise ValueError(f"since {op.since} is not below the upper {state.upper}")
            return _downgrade(state, op)
        case SetHold():
            holds = state.holds
            if op.hold is not None:
                if op.hold.at < state.earliest:
                    raise ValueError(f"hold at {op.hold.at} is before the earliest CSN {state.earliest}")
                return replace(state, holds=holds.set(op.name, op.hold))
            return replace(state, holds=holds.delete(op.name)) if op.name in holds else state
        case Compact():
            return _compact(state, op)
        case SetRuns():
            return _set_runs(state, op)
        case Collected():
            garbage = state.garbage
            for key in op.keys:
                if key in garbage:
                    garbage = garbage.delete(key)
            return replace(state, garbage=garbage)
        case Share():
            known = state.shared
            if op.process is not None:
                return replace(state, shared=known.set(op.to, op.process))
            return replace(state, shared=known.delete(op.to)) if op.to in known else state
        case Fence():
            return replace(state, epoch=state.epoch + 1)
        case Drop():
            return replace(
                state,
                parts=Map(),
                whole=Map(),
                holds=Map(),
                history=Map(),
                garbage=_buried(state, state_files(state)),
                dropped=True,
            )


def state_files(state: ShardState) -> list[str]:
    """The keys of all files that reads of the shard may need, at whatever CSN."""
    keys = [key for part in state.parts.values() for key in part.files]
    for archive in state.history.values():
        keys += [archive.key, *archive.files]
    return keys


def _downgrade(state: ShardState, op: DowngradeSince) -> ShardState:
    since = max(state.since, op.since)
    earliest = since if op.earliest is None else max(state.earliest, min(op.earliest, since))
    over = [archive for archive in state.history.values() if archive.until <= earliest]
    history, files = state.history, []
    for archive in over:
        history = history.delete(archive.key)
        files += [archive.key, *archive.files]
    if files:
        # A file may be of two parts, which went at different times.
        kept = {key for archive in history.values() for key in archive.files}
        files = [key for key in files if key not in kept and key not in state.whole]
    garbage = _buried(state, files)
    return msgspec.structs.replace(state, since=since, earliest=earliest, history=history, garbage=garbage)


def _append(state: ShardState, op: Append) -> ShardState:
    if op.lower != state.upper:
        raise ValueError(f"append expects upper {op.lower}, the shard's is {state.upper}")
    if op.csn < op.lower:
        raise ValueError(f"append at {op.csn} is below the upper {op.lower}")
    schemas = state.schemas
    if op.schema is not None:
        schemas = (*schemas, schema_version(len(schemas), op.schema))
    parts, next_row_id, next_part_id = state.parts, state.next_row_id, state.next_part_id
    whole, garbage = state.whole, state.garbage
    actual: dict[int, list[RowIdRange]] = {}
    # Inserts first: a delete part of the same commit may refer to them.
    for part in sorted(op.parts, key=lambda p: p.kind != "insert"):
        placed = msgspec.structs.replace(
            part, id=next_part_id, csn=op.csn, schema_version=_version_of(schemas, part), scope=0
        )
        if part.kind == "insert":
            actual.setdefault(part.scope, []).append(RowIdRange(part.first_row_id, part.rows, next_row_id))
            placed = msgspec.structs.replace(placed, first_row_id=next_row_id)
            next_row_id += part.rows
        elif _has_provisional(part):
            placed = msgspec.structs.replace(placed, row_ids=tuple(actual.get(part.scope, ())))
        if part.whole:
            assert part.key is not None
            whole = whole.set(part.key, next_part_id)
            if part.key in garbage:
                garbage = garbage.delete(part.key)
        parts = parts.set(next_part_id, placed)
        next_part_id += 1
    if len(parts) >= packed_parts.PACK_FROM:
        parts = packed(parts)
    return msgspec.structs.replace(
        state,
        schemas=schemas,
        upper=Csn(op.csn + 1),
        parts=parts,
        next_row_id=next_row_id,
        next_part_id=next_part_id,
        whole=whole,
        garbage=garbage,
    )


def schema_version(version: int, arrow: bytes) -> SchemaVersion:
    """The schema version `version` for a serialized Arrow schema."""
    schema = decode_schema(arrow)
    return SchemaVersion(version=version, arrow=arrow, fingerprint=fingerprint(schema), columns=tuple(schema.names))


def _has_provisional(part: Part) -> bool:
    high = part.row_id_bounds[1]
    return high >= PROVISIONAL_ROW_ID


def _version_of(schemas: tuple[SchemaVersion, ...], part: Part) -> int:
    """The newest schema version that `part` was written in, by its columns' names and types."""
    for version in reversed(schemas):
        if part.fingerprint == version.fingerprint:
            return version.version
    columns = set(part.columns)
    for version in reversed(schemas):
        if columns == set(version.columns):
            return version.version
    for version in reversed(schemas):
        if columns <= set(version.columns):
            return version.version
    return len(schemas) - 1


def _compact(state: ShardState, op: Compact) -> ShardState:
    parts, next_part_id, whole = state.parts, state.next_part_id, state.whole
    gone: list[Part] = []
    for part_id in op.removed:
        if part_id not in parts:
            raise ValueError(f"compaction of part {part_id}, which is not in the shard")
        part = parts[part_id]
        gone.append(part)
        parts = parts.delete(part_id)
        if part.whole and part.key is not None:
            whole = whole.delete(part.key)
    readable_from, history, kept = Csn(0), state.history, set[str | None]()
    if op.archive is not None:
        history = history.set(op.archive.key, msgspec.structs.replace(op.archive, until=state.since))
        readable_from, kept = state.since, set(op.archive.files)
    elif state.earliest < state.since:
        raise ValueError(f"compaction without an archive, of a shard that is read from {state.earliest} on")
    for part in op.added:
        if part.csn > state.since:
            raise ValueError(f"compacted part at {part.csn} is past the since {state.since}")
        placed = msgspec.structs.replace(part, id=next_part_id, readable_from=readable_from)
        parts = parts.set(next_part_id, placed)
        next_part_id += 1
    if any(part.whole for part in gone):
        kept = kept.union(_still_named(parts, [part for part in gone if part.whole]))
    files = [key for part in gone for key in part.files if key not in kept and key not in whole]
    if len(parts) >= packed_parts.PACK_FROM:
        parts = packed(parts)
    return msgspec.structs.replace(
        state, parts=parts, next_part_id=next_part_id, garbage=_buried(state, files), history=history, whole=whole
    )


def _still_named(parts: PartsById, deletions: list[Part]) -> set[str | None]:
    """The files of the `deletions` of whole parts that are those of some of `parts` still."""
    keys = {part.key for part in deletions}
    spans = [part.row_id_bounds for part in deletions]
    if not isinstance(parts, PartMap):
        return keys.intersection([part.key for part in parts.values()])
    return keys.intersection([part.key for part in parts.among(lambda block: block.may_have(spans))])


def _set_runs(state: ShardState, op: SetRuns) -> ShardState:
    part = state.parts.get(op.part)
    if part is None:
        raise ValueError(f"key runs of part {op.part}, which is not in the shard")
    after = msgspec.structs.replace(part, runs=op.runs)
    gone = [key for key in part.files if key not in after.files]
    parts = packed(state.parts.set(op.part, after))
    return msgspec.structs.replace(state, parts=parts, garbage=_buried(state, gone))


def _buried(state: ShardState, keys: Iterable[str]) -> Map[str, Garbage]:
    garbage = state.garbage
    for key in keys:
        garbage = garbage.set(key, Garbage(key=key, seqno=state.transitions + 1))
    return garbage


def check(state: ShardState) -> None:
    """Assert every invariant of the module's contract."""
    if isinstance(state.parts, PartMap):
        state.parts.check()
    assert state.earliest <= state.since <= state.upper
    keys: set[str] = set()
    assert dict(state.whole) == {part.key: part.id for part in state.parts.values() if part.whole}
    spans: list[tuple[int, int]] = []
    for part_id, part in state.parts.items():
        assert part.id == part_id < state.next_part_id
        assert part.csn < state.upper
        assert (part.key is None) != (part.inline is None)
        keys.update(part.files)
        if part.kind == "insert" and not part.has_row_id_column and part.rows:
            spans.append(part.row_id_bounds)
    spans.sort()
    for (_, high), (low, _) in itertools.pairwise(spans):
        assert high < low
    assert not spans or spans[-1][1] < state.next_row_id
    for key, archive in state.history.items():
        assert key == archive.key
        assert state.earliest < archive.until <= state.since
        assert archive.first <= archive.until
    assert not {*keys, *state_files(state)} & set(state.garbage)


_diff_encoder = msgspec.msgpack.Encoder()
_diff_decoder = msgspec.msgpack.Decoder(ShardDiff)
_document_decoder = msgspec.msgpack.Decoder(_StateDocument)


class ShardMachine:
    """`ShardState` as the machine of a `DurableState`."""

    def __init__(self, shard: ShardId) -> None:
        self._shard = shard

    def initial(self) -> ShardState:
        """A shard that nobody has written to."""
        return ShardState(shard=self._shard)

    def apply(self, state: ShardState, diff: ShardDiff) -> ShardState:
        """See `apply_diff`."""
        return apply_diff(state, diff)

    def encode_diff(self, diff: ShardDiff) -> bytes:
        """`diff` as MessagePack."""
        return _diff_encoder.encode(diff)

    def decode_diff(self, data: bytes) -> ShardDiff:
        """The inverse of `encode_diff`."""
        return _diff_decoder.decode(data)

    def format_of_diff(self, diff: ShardDiff) -> int:
        """See `storage.durable.state.Machine`."""
        found = BASE_FORMAT
        for op in diff.ops:
            if isinstance(op, Share):
                found = max(found, SHARED_FORMAT)
            elif isinstance(op, SetRuns):
                found = max(found, RUNS_FORMAT)
            elif isinstance(op, Append):
                found = max(found, format_of_parts(op.parts))
            elif isinstance(op, Compact):
                found = max(found, format_of_parts(op.added), BASE_FORMAT if op.archive is None else HISTORY_FORMAT)
            elif isinstance(op, DowngradeSince) and op.earliest is not None:
                found = max(found, HISTORY_FORMAT)
        return found

    def format_of_state(self, state: ShardState) -> int:
        """See `storage.durable.state.Machine`."""
        found = format_of_parts(state.parts.values())
        if state.earliest < state.since:
            found = max(found, HISTORY_FORMAT)
        return max(found, SHARED_FORMAT) if state.shared else found

    def encode_state(self, state: ShardState) -> bytes:
        """`state` as MessagePack."""
        return _diff_encoder.encode(
            _StateDocument(
                shard=state.shard,
                schemas=state.schemas,
                since=state.since,
                upper=state.upper,
                next_row_id=state.next_row_id,
                next_part_id=state.next_part_id,
                parts=stored(state.parts),
                holds=dict(state.holds),
                garbage=tuple(state.garbage[k] for k in sorted(state.garbage)),
                transitions=state.transitions,
                dropped=state.dropped,
                epoch=state.epoch,
                earliest=None if state.earliest == state.since else state.earliest,
                history=tuple(state.history[k] for k in sorted(state.history)),
                shared=dict(state.shared),
            )
        )

    def decode_state(self, data: bytes) -> ShardState:
        """The inverse of `encode_state`."""
        d = _document_decoder.decode(data)
        parts = of_stored(d.parts)
        return ShardState(
            shard=d.shard,
            schemas=d.schemas,
            since=d.since,
            upper=d.upper,
            next_row_id=d.next_row_id,
            next_part_id=d.next_part_id,
            parts=parts,
            whole=Map({part.key: part.id for part in loose_parts(parts) if part.whole and part.key is not None}),
            holds=Map(d.holds),
            garbage=Map({item.key: item for item in d.garbage}),
            transitions=d.transitions,
            dropped=d.dropped,
            epoch=d.epoch,
            earliest=d.since if d.earliest is None else d.earliest,
            history=Map({archive.key: archive for archive in d.history}),
            shared=Map(d.shared),
        )
