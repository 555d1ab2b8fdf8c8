"""A state machine whose every transition is a numbered diff in consensus.

`DurableState` owns the I/O and the retries; what a diff means belongs to a `Machine`, which is pure. The state
at sequence number n is the newest rollup at or below n plus the diffs after it.

What is stored under a key, one diff per sequence number::

    version (1 byte) | CRC-32 of the rest (4 bytes) | msgpack of Entry(token, writer, body | rollup)

Rules:

- A diff is built against the state before it and appended with compare-and-set at exactly the next number, so
  all processes see the same sequence of states.
- Every entry carries its writer's random token. An indeterminate compare-and-set is repeated with the same
  bytes at the same number until the answer is definite, and then read back: the entry at that number is ours
  if and only if it has our token. So an append happens at most once, and its caller learns whether it did.
- A rollup is a blob with the encoded state (or the state itself when small). An entry refers to it; only
  after that entry is durable are older diffs truncated, and never those newer than the rollup before, so that a
  slow writer can still find its token.
- A crash between any two steps leaves a loadable sequence; at worst a rollup blob that nothing refers to.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from storage.clock import Clock, Randomness
from storage.durable.retries import retried
from storage.errors import (
    CorruptState,
    Determinate,
    Indeterminate,
    MissingBlob,
    NewerFormat,
    StorageClosed,
    StorageError,
    StoreFull,
)
from storage.ids import new_token, random_text
from storage.stores.blob import Blob
from storage.stores.consensus import FIRST_SEQNO, NO_SEQNO, Consensus, SeqNo, VersionedData

FORMAT_VERSION = 12
"""The newest format of durable state (entries, rollups and the bodies in them) that this version knows. What is written
has the oldest format that says all of it, so servers of the version before go on until somebody uses what they lack."""

BASE_FORMAT = 1
"""The format of everything that the first version could say."""

INLINE_ROLLUP_BYTES = 32 * 1024
ROLLUP_MIN_DIFFS = 128
ROLLUP_MIN_BYTES = 1024 * 1024
"""A rollup is due after this many diffs, or bytes of them, and never before the diffs have cost as much as the
state is large: the cost of rollups stays proportional to what was written, whatever exists."""

RETRY_DELAYS_S = (0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 2.0)
"""Pauses between attempts of one consensus operation; then the error is the caller's."""

GIVE_UP_S = 60.0
"""No attempt begins later than that after the first, however few there were: a store may take long to fail."""

_HEADER = struct.Struct(">BI")

S = TypeVar("S")
D = TypeVar("D")
R = TypeVar("R")


class RollupRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the state at `seqno` is: in the blob `key`, or `inline`."""

    seqno: int
    size: int
    key: str | None = None
    inline: bytes | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stored entry: a diff (`body`), or a reference to a rollup."""

    token: str
    writer: str = ""
    body: bytes | None = None
    rollup: RollupRef | None = None


class Machine(Protocol[S, D]):
    """The pure side of a durable state."""

    def initial(self) -> S:
        """The state before the first diff."""
        ...

    def apply(self, state: S, diff: D) -> S:
        """The state after `diff`. Raises ValueError when it does not fit."""
        ...

    def encode_diff(self, diff: D) -> bytes: ...

    def decode_diff(self, data: bytes) -> D: ...

    def encode_state(self, state: S) -> bytes: ...

    def decode_state(self, data: bytes) -> S: ...

    def format_of_diff(self, diff: D) -> int:
        """The oldest format that says all of `diff`."""
        ...

    def format_of_state(self, state: S) -> int:
        """The oldest format that says all of `state`."""
        ...


class Gate(Protocol):
    """Says which formats may be written (`storage.durable.formats`)."""

    @property
    def known(self) -> int:
        """The newest format that this process reads."""
        ...

    async def require(self, format: int) -> None:
        """Raises unless this format may be written."""
        ...


class Abandon(Generic[R]):
    """What a proposal returns instead of a diff when, given the present state, nothing is to be written."""

    __slots__ = ("value",)

    def __init__(self, value: R) -> None:
        self.value = value


def framed(payload: bytes, format: int = BASE_FORMAT) -> bytes:
    """`payload`, which has this format, behind a header (format and checksum), which `unframed` checks."""
    return _HEADER.pack(format, zlib.crc32(payload)) + payload


def unframed(data: bytes, what: str, known: int = FORMAT_VERSION) -> bytes:
    """The payload of framed bytes. Raises `NewerFormat` (above `known`) or `CorruptState`, naming `what`."""
    if len(data) < _HEADER.size:
        raise CorruptState(f"{what} is truncated to {len(data)} bytes; restore it from a backup")
    version, crc = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if version > known:
        raise NewerFormat(
            f"{what} has format {version}, but this version of Tidegate reads formats up to {known}; upgrade Tidegate"
        )
    if zlib.crc32(payload) != crc:
        raise CorruptState(f"{what} does not match its checksum; restore it from a backup")
    return payload


_entry_encoder = msgspec.msgpack.Encoder()
_entry_decoder = msgspec.msgpack.Decoder(Entry)


class DurableState(Generic[S, D]):
    """This process's copy of one key's state, and the way to change it.

    `state` is a value of the past: a prefix of what is durable. Changes of one process to one key pass one at
    a time; those of several processes meet in the compare-and-set.
    """

    def __init__(
        self,
        key: str,
        machine: Machine[S, D],
        *,
        consensus: Consensus,
        blob: Blob,
        clock: Clock,
        random: Randomness,
        writer: str,
        gate: Gate | None = None,
    ) -> None:
        """`gate`: who says which formats may be written; none stands in the way of a reader, who writes nothing."""
        self.key = key
        self.state: S = machine.initial()
        self.seqno: SeqNo = NO_SEQNO
        self.on_change: Callable[[S, S], None] | None = None
        """Called with the states before and after, whenever `state` moves."""
        self._machine = machine
        self._consensus = consensus
        self._blob = blob
        self._clock = clock
        self._random = random
        self._writer = writer
        self._gate = gate
        self._known = FORMAT_VERSION if gate is None else gate.known
        self._lock = asyncio.Lock()
        self._rollup: RollupRef | None = None
        self._previous_rollup: RollupRef | None = None
        self._diffs_since_rollup = 0
        self._bytes_since_rollup = 0

    @property
    def rollup_key(self) -> str | None:
        """The blob of the newest rollup; None when it is inline or there is none."""
        return None if self._rollup is None else self._rollup.key

    @property
    def oldest_rollup_seqno(self) -> int:
        """Rollups of states before this one are referred to by nothing that is left; 0 when not known."""
        return 0 if self._previous_rollup is None else self._previous_rollup.seqno

    async def settled_past(self, seqno: SeqNo) -> bool:
        """Whether, once changes under way in this process are over, `state` is newer than `seqno`."""
        async with self._lock:
            return self.seqno > seqno

    async def refresh(self) -> S:
        """Bring `state` up to everything that was durable when this was called."""
        async with self._lock:
            return await self._refresh()

    async def update(self, propose: Callable[[S], D | Abandon[R]]) -> D | Abandon[R]:
        """Append the diff that `propose` builds from the newest state; ask again whenever the state has moved.

        Returns the diff that became durable, or the `Abandon` with which `propose` declined. Raises
        `Determinate` when the diff was certainly not appended, `Indeterminate` when that cannot be found out.
        A cancelled caller leaves the append running to its end.
        """
        return await asyncio.shield(self._update(propose))

    async def _update(self, propose: Callable[[S], D | Abandon[R]]) -> D | Abandon[R]:
        async with self._lock:
            while True:
                diff = propose(self.state)
                if isinstance(diff, Abandon):
                    return diff
                # NOTE: applied before it is written, so that a diff that does not fit never becomes durable.
                after = self._machine.apply(self.state, diff)
                entry = Entry(token="", body=self._machine.encode_diff(diff))
                if await self._append(entry, self._machine.format_of_diff(diff), after):
                    return diff
                await self._refresh()

    async def _append(self, entry: Entry, format: int, after: S) -> bool:
        """Append `entry`, which has this format and leads to the state `after`; False when another entry came first."""
        if self._gate is not None and format > BASE_FORMAT:
            await self._gate.require(format)
        entry = msgspec.structs.replace(entry, token=new_token(self._random), writer=self._writer)
        data = framed(_entry_encoder.encode(entry), format)
        expected = self.seqno or None
        new = VersionedData(seqno=SeqNo(self.seqno + 1), data=data)
        doubtful = False
        failure: StorageError | None = None
        give_up = self._clock.monotonic() + GIVE_UP_S
        for attempt in range(len(RETRY_DELAYS_S) + 1):
            last = attempt == len(RETRY_DELAYS_S) or self._clock.monotonic() > give_up
            try:
                if await self._consensus.compare_and_set(self.key, expected, new):
                    self._move(new.seqno, entry, len(data), after)
                    return True
                if not doubtful or not await self._is_ours(new.seqno, entry):
                    return False
                self._move(new.seqno, entry, len(data), after)
                return True
            except Indeterminate as error:
                doubtful, failure = True, error
            except Determinate as error:
                if last or isinstance(error, StorageClosed | StoreFull):
                    if doubtful:
                        raise self._undecided(error) from error
                    raise
                failure = error
            if last:
                break
            await self._clock.sleep(RETRY_DELAYS_S[attempt])
        raise self._undecided(failure) from failure

    async def _is_ours(self, seqno: SeqNo, entry: Entry) -> bool:
        """Whether the entry at `seqno`, which is taken, is `entry` from an attempt that seemed to fail."""
        try:
            found = await self._retrying(lambda: self._consensus.scan(self.key, seqno, 1))
        except Determinate as error:
            raise self._undecided(error) from error
        if not found or found[0].seqno != seqno:
            raise self._undecided("its place has been truncated")
        return self._decode(found[0]).token == entry.token

    def _undecided(self, why: object) -> Indeterminate:
        return Indeterminate(f"append to {self.key} is undecided: {why}")

    def _advance(self, seqno: SeqNo, entry: Entry, size: int) -> None:
        """Take over an entry that was read."""
        after = self.state
        if entry.body is not None:
            try:
                after = self._machine.apply(after, self._machine.decode_diff(entry.body))
            except (ValueError, msgspec.MsgspecError) as error:
                raise CorruptState(f"diff {seqno} of {self.key} does not fit its state: {error}") from error
        self._move(seqno, entry, size, after)

    def _move(self, seqno: SeqNo, entry: Entry, size: int, after: S) -> None:
        before = self.state
        if entry.rollup is not None:
            self._previous_rollup, self._rollup = self._rollup, entry.rollup
            self._diffs_since_rollup = self._bytes_since_rollup = 0
        else:
            self._diffs_since_rollup += 1
            self._bytes_since_rollup += size
        self.state, self.seqno = after, seqno
        if self.on_change is not None and after is not before:
            self.on_change(before, after)

    async def _refresh(self) -> S:
        newer = await self._scan(SeqNo(self.seqno + 1))
        if newer and newer[0].seqno != self.seqno + 1:
            await self._load()
            return self.state
        for item in newer:
            self._advance(item.seqno, self._decode(item), len(item.data))
        return self.state

    async def _load(self) -> None:
        """Rebuild `state` from the newest rollup; our own copy is older than what was truncated."""
        while True:
            items = await self._scan(FIRST_SEQNO)
            entries = [(item, self._decode(item)) for item in items]
            rollup = next((e.rollup for _, e in reversed(entries) if e.rollup is not None), None)
            if rollup is None:
                raise CorruptState(
                    f"{self.key} has lost its first diffs and refers to no rollup; restore it from a backup"
                )
            data = rollup.inline
            if data is None and rollup.key is not None:
                rollup_key = rollup.key
                data = await self._retrying(lambda: self._blob.get(rollup_key))  # noqa: B023
            if data is None:
                # A newer rollup has replaced the one just seen; if not, it is really gone.
                again = await self._scan(FIRST_SEQNO)
                if again and again[-1].seqno != items[-1].seqno:
                    continue
                raise MissingBlob(f"rollup {rollup.key} of {self.key} is not in the blob store")
            before = self.state
            try:
                state = self._machine.decode_state(unframed(data, f"rollup of {self.key}", self._known))
            except (ValueError, msgspec.MsgspecError) as error:
                raise CorruptState(f"rollup of {self.key} cannot be decoded: {error}") from error
            watcher, self.on_change = self.on_change, None
            try:
                self.state, self.seqno, self._rollup = state, SeqNo(rollup.seqno), rollup
                self._previous_rollup = None
                self._diffs_since_rollup = self._bytes_since_rollup = 0
                for item, entry in entries:
                    if item.seqno > rollup.seqno:
                        self._advance(item.seqno, entry, len(item.data))
                references = [entry.rollup for _, entry in entries if entry.rollup is not None]
                self._rollup = references[-1]
                self._previous_rollup = references[0] if len(references) > 1 else None
            finally:
                self.on_change = watcher
            if watcher is not None:
                watcher(before, self.state)
            return

    def rollup_due(self) -> bool:
        """Whether `roll_up` would be worth its price now."""
        size = 0 if self._rollup is None else self._rollup.size
        return self._diffs_since_rollup >= max(ROLLUP_MIN_DIFFS, size // 512) or (
            self._bytes_since_rollup >= max(ROLLUP_MIN_BYTES, size)
        )

    async def roll_up(self) -> None:
        """Write the state as a rollup, refer to it, and truncate the diffs before the previous rollup.

        Loses nothing when it crashes or fails half-way; the next call starts over.
        """
        await asyncio.shield(self._roll_up())

    async def _roll_up(self) -> None:
        async with self._lock:
            seqno, previous = self.seqno, self._rollup
            format = self._machine.format_of_state(self.state)
            data = framed(self._machine.encode_state(self.state), format)
            ref = RollupRef(seqno=seqno, size=len(data), inline=data)
            if len(data) > INLINE_ROLLUP_BYTES:
                key = f"rollups/{self.key}/{seqno}-{random_text(self._random)}"
                await self._retrying(lambda: self._blob.put(key, data))
                ref = RollupRef(seqno=seqno, size=len(data), key=key)
            if not await self._append(Entry(token="", rollup=ref), format, self.state):
                await self._refresh()
                return
            if previous is not None:
                await self._retrying(lambda: self._consensus.truncate(self.key, SeqNo(previous.seqno + 1)))

    async def _scan(self, from_seqno: SeqNo) -> list[VersionedData]:
        return await self._retrying(lambda: self._consensus.scan(self.key, from_seqno))

    async def _retrying(self, operation: Callable[[], Awaitable[R]]) -> R:
        """Run an idempotent operation, again after each failure of the store, within the retry limit."""
        return await retried(operation, self._clock, RETRY_DELAYS_S, give_up_s=GIVE_UP_S)

    def _decode(self, item: VersionedData) -> Entry:
        payload = unframed(item.data, f"diff {item.seqno} of {self.key}", self._known)
        try:
            return _entry_decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise CorruptState(f"diff {item.seqno} of {self.key} cannot be decoded: {error}") from error
