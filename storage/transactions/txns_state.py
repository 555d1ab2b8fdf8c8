"""The state of the txns shard and its pure transitions: the source of truth for what has committed.

One per environment. It holds exactly the registrations, the outstanding work and the processes:

- **registered**: the data shards that commits may write to and whose logical upper every commit advances.
- **pending**: for each shard the committed writes that have not been retracted yet, in CSN order. A write is
  *applied* (copied into its data shard) first and *retracted* (tidied) later, bundled into some other diff.
- **staged**: transactions whose last files are still being uploaded (`storage.transactions.parallel_commit`). Such a
  record says which files are promised; it delays the shards it names, from its CSN on, until it is resolved.
- **prepared**: transactions of two-phase commit that wait for their second phase, by the names that clients gave
  them. They have written nothing yet. What they will write is in the record, and nobody else may commit what they could
  not commit after: whoever commits says how many prepared transactions it knows to have been (`prepares`).
- **outcomes**: the CSNs of the last transactions that had an xid, for those who did not hear the answer.
- **forgotten**: dropped shards whose files have not been removed yet.
- **leases**: the live processes; each publishes the lowest CSN that it may still read at.

The upper moves with commits only: a diff without a commit CSN leaves it where it is. Every CSN below it is
decided for ever.

Invariants (`check`): pending CSNs ascend within a shard, are below the upper, and are above what is applied;
`last_write` is at or above them, and above those staged; a shard is not both registered and forgotten; since <=
upper, and since is never past the first write that is pending or staged.
"""

from __future__ import annotations

import msgspec
from immutables import Map

from storage.catalog.model import CatalogUpdate
from storage.durable.state import BASE_FORMAT
from storage.ids import ShardId
from storage.shards.writes import PromisedPart, ShardWrites, Write, format_of_parts
from storage.timestamps.csn import Csn

TXNS_KEY = "txns"
"""The txns shard's key in consensus."""

PREPARED_FORMAT = 3
"""The format that knows prepared transactions."""

MAX_OUTCOMES = 4096
"""How many transactions `txid_status` can be asked about after they committed."""


class Staged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transaction that is committed if and only if every promised part is present.

    `process` coordinates it. `xids` are the transaction ids of its members.
    """

    txid: str
    csn: Csn
    process: str
    writes: tuple[Write, ...]
    promised: tuple[PromisedPart, ...]
    xids: tuple[int, ...] = ()


class Resolve(msgspec.Struct, frozen=True, array_like=True):
    """The staged record `txid` at `csn` becomes COMMITTED (its writes pending) or ABORTED."""

    txid: str
    csn: Csn
    committed: bool


class Prepared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transaction that has answered PREPARE TRANSACTION, at `csn`: it commits when somebody says so.

    `writes` and `catalog_updates` are what that will do; the files among them belong to this record. `note` is what the
    storeys above have to know of it, in a form of theirs.
    """

    gid: str
    csn: Csn
    xid: int
    writes: tuple[ShardWrites, ...] = ()
    catalog_updates: tuple[CatalogUpdate, ...] = ()
    note: bytes = b""

    def files(self) -> set[str]:
        """The keys of its files."""
        return {key for write in self.writes for part in write.parts for key in part.files}


class Outcome(msgspec.Struct, frozen=True, array_like=True):
    """The transaction `xid` committed at `csn`."""

    xid: int
    csn: Csn


class Registration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a registered shard.

    `at`: the CSN it was registered at. `last_write`: its latest non-empty write. `applied`: every write up to
    here has been retracted, so the data shard's upper is past it. `transitions`: a reader needs the data
    shard's state at or after this transition, because older ones refer to files that are to be removed; that was
    required when the txns upper was `required_at`, so every reader at or above that CSN knows.
    """

    at: Csn
    last_write: Csn = Csn(0)
    applied: Csn = Csn(0)
    transitions: int = 0
    required_at: Csn = Csn(0)


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A live process. It reads at `read_lower` and above.

    Every renewal counts `beats` up. Whoever has watched the same count for `LEASE_MS` of its own monotonic time
    may declare the process dead, by removing the lease; no two wall clocks are compared. `renewed_ms` is for
    people. `sole`: nobody may commit of whom it would not hear by itself, without asking the store
    (`storage.membership.peers`); those are all other processes, but for those of the same `host`.
    """

    read_lower: Csn
    beats: int
    renewed_ms: int
    sole: bool = False
    host: str | None = None
    """The name of the memory in which this process and others of its host tell each other how far they have come
    (`storage.host_memory`)."""

    def hears_of(self, other: Lease) -> bool:
        """Whether both processes tell each other what they see committed."""
        return self.host is not None and self.host == other.host


class Applied(msgspec.Struct, frozen=True, array_like=True):
    """Retract every pending write of `shard` with a CSN up to and including `csn`."""

    shard: ShardId
    csn: Csn


class SetLease(msgspec.Struct, frozen=True, array_like=True):
    """Install or renew the lease of `process`; None releases it."""

    process: str
    lease: Lease | None


class RequireTransitions(msgspec.Struct, frozen=True, array_like=True):
    """Readers of `shard` need its state at or after `transitions`."""

    shard: ShardId
    transitions: int


class TxnsDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One durable transition of the txns shard.

    `csn`: the commit's CSN, to which the upper advances (to just past it); None for pure housekeeping.
    """

    csn: Csn | None = None
    registers: tuple[ShardId, ...] = ()
    writes: tuple[Write, ...] = ()
    stages: tuple[Staged, ...] = ()
    resolves: tuple[Resolve, ...] = ()
    prepares: tuple[Prepared, ...] = ()
    ends: tuple[str, ...] = ()
    """Prepared transactions that are over: in a commit, because that is theirs, otherwise rolled back."""
    xids: tuple[int, ...] = ()
    forgets: tuple[ShardId, ...] = ()
    unregisters: tuple[ShardId, ...] = ()
    applied: tuple[Applied, ...] = ()
    leases: tuple[SetLease, ...] = ()
    since: Csn | None = None
    requires: tuple[RequireTransitions, ...] = ()
    removed: tuple[ShardId, ...] = ()


class TxnsState(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the txns shard."""

    upper: Csn = Csn(0)
    since: Csn = Csn(0)
    registered: Map[ShardId, Registration] = msgspec.field(default_factory=Map)
    pending: Map[ShardId, tuple[Write, ...]] = msgspec.field(default_factory=Map)
    forgotten: Map[ShardId, Csn] = msgspec.field(default_factory=Map)
    leases: Map[str, Lease] = msgspec.field(default_factory=Map)
    staged: Map[str, Staged] = msgspec.field(default_factory=Map)
    prepared: Map[str, Prepared] = msgspec.field(default_factory=Map)
    prepares: int = 0
    """How many transactions have been prepared so far."""
    outcomes: Map[int, Csn] = msgspec.field(default_factory=Map)
    outcome_order: Map[int, int] = msgspec.field(default_factory=Map)
    next_outcome: int = 0
    forgotten_outcome: Csn = Csn(0)
    """The highest CSN among the outcomes that had to make room for newer ones."""

    def first_unapplied(self) -> Csn | None:
        """The CSN of the oldest write that is staged or not retracted; None when there is none."""
        pending = [writes[0].csn for writes in self.pending.values()]
        return min([*pending, *(record.csn for record in self.staged.values())], default=None)


class _StateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """How a rollup stores a `TxnsState`."""

    upper: Csn
    since: Csn
    registered: dict[ShardId, Registration]
    pending: dict[ShardId, tuple[Write, ...]]
    forgotten: dict[ShardId, Csn]
    leases: dict[str, Lease]
    staged: tuple[Staged, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    forgotten_outcome: Csn | msgspec.UnsetType = msgspec.UNSET
    prepared: tuple[Prepared, ...] | msgspec.UnsetType = msgspec.UNSET
    prepares: int | msgspec.UnsetType = msgspec.UNSET


def apply_diff(state: TxnsState, diff: TxnsDiff) -> TxnsState:
    """The state after `diff`. Raises ValueError when it does not fit."""
    replace = msgspec.structs.replace
    upper, registered, pending, forgotten = state.upper, state.registered, state.pending, state.forgotten
    # NOTE: retractions first. Those in a commit refer to writes of earlier ones.
    for shard, csn in ((item.shard, item.csn) for item in diff.applied):
        remaining = tuple(write for write in pending.get(shard, ()) if write.csn > csn)
        if remaining:
            pending = pending.set(shard, remaining)
        elif shard in pending:
            pending = pending.delete(shard)
        registration = registered.get(shard)
        if registration is not None and csn > registration.applied:
            registered = registered.set(shard, replace(registration, applied=csn))
    if diff.csn is not None:
        if diff.csn < upper:
            raise ValueError(f"commit at {diff.csn} is below the upper {upper}")
        upper = Csn(diff.csn + 1)
        for shard in diff.registers:
            if shard not in registered:
                registered = registered.set(shard, Registration(at=diff.csn))
                if shard in forgotten:
                    raise ValueError(f"shard {shard} was dropped")
        for write in diff.writes:
            if write.csn != diff.csn:
                raise ValueError(f"write at {write.csn} in a commit at {diff.csn}")
            if write.shard not in registered:
                raise ValueError(f"shard {write.shard} is not registered")
            pending = pending.set(write.shard, (*pending.get(write.shard, ()), write))
            registered = registered.set(write.shard, replace(registered[write.shard], last_write=diff.csn))
        for shard in diff.forgets:
            if shard not in registered:
                raise ValueError(f"shard {shard} is not registered")
            registered = registered.delete(shard)
            forgotten = forgotten.set(shard, diff.csn)
        for shard in diff.unregisters:
            staged_on_it = any(w.shard == shard for r in state.staged.values() for w in r.writes)
            if shard not in registered or shard in pending or staged_on_it:
                raise ValueError(f"shard {shard} has unapplied work or is not registered")
            registered = registered.delete(shard)
    elif diff.registers or diff.writes or diff.forgets or diff.stages or diff.prepares or diff.xids or diff.unregisters:
        raise ValueError("only a commit registers, writes, stages, prepares and forgets")
    prepared, prepares = state.prepared, state.prepares
    for gid in diff.ends:
        if gid not in prepared:
            raise ValueError(f"transaction {gid!r} is not prepared")
        prepared = prepared.delete(gid)
    for waiting in diff.prepares:
        if waiting.csn != diff.csn or waiting.gid in prepared:
            raise ValueError(f"transaction {waiting.gid!r} cannot be prepared at {waiting.csn}")
        prepared, prepares = prepared.set(waiting.gid, waiting), prepares + 1
    staged, outcomes = state.staged, _Outcomes(state)
    for record in diff.stages:
        if record.csn != diff.csn or record.txid in staged:
            raise ValueError(f"transaction {record.txid} cannot be staged at {record.csn}")
        staged = staged.set(record.txid, record)
        for write in record.writes:
            if write.shard not in registered:
                raise ValueError(f"shard {write.shard} is not registered")
            registered = registered.set(write.shard, replace(registered[write.shard], last_write=record.csn))
    for resolve in diff.resolves:
        staged_record = staged.get(resolve.txid)
        if staged_record is None or staged_record.csn != resolve.csn:
            raise ValueError(f"transaction {resolve.txid} is not staged at {resolve.csn}")
        staged = staged.delete(resolve.txid)
        if resolve.committed:
            outcomes.add(staged_record.xids, staged_record.csn)
            for write in staged_record.writes:
                if write.shard in registered or write.shard in forgotten:
                    merged = sorted((*pending.get(write.shard, ()), write), key=lambda w: w.csn)
                    pending = pending.set(write.shard, tuple(merged))
    if diff.csn is not None:
        outcomes.add(diff.xids, diff.csn)
    for require in diff.requires:
        registration = registered.get(require.shard)
        if registration is not None and require.transitions > registration.transitions:
            registered = registered.set(
                require.shard,
                replace(registration, transitions=require.transitions, required_at=upper),
            )
    leases = state.leases
    for process, lease in ((item.process, item.lease) for item in diff.leases):
        if lease is not None:
            leases = leases.set(process, lease)
        elif process in leases:
            leases = leases.delete(process)
    for shard in diff.removed:
        if shard in forgotten:
            forgotten = forgotten.delete(shard)
    since = state.since if diff.since is None else max(state.since, diff.since)
    after = TxnsState(
        upper=upper,
        since=since,
        registered=registered,
        pending=pending,
        forgotten=forgotten,
        leases=leases,
        staged=staged,
        prepared=prepared,
        prepares=prepares,
        outcomes=outcomes.by_xid,
        outcome_order=outcomes.order,
        next_outcome=outcomes.next,
        forgotten_outcome=outcomes.forgotten,
    )
    if diff.since is not None:
        first = after.first_unapplied()
        if since > upper or (first is not None and since > first):
            raise ValueError(f"since {since} is past unapplied work at {first} or the upper {upper}")
    return after


class _Outcomes:
    """The last `MAX_OUTCOMES` outcomes; the oldest goes first."""

    def __init__(self, state: TxnsState) -> None:
        self.by_xid, self.order, self.next = state.outcomes, state.outcome_order, state.next_outcome
        self.forgotten = state.forgotten_outcome

    def add(self, xids: tuple[int, ...], csn: Csn) -> None:
        for xid in xids:
            if xid in self.by_xid:
                raise ValueError(f"transaction {xid} has an outcome already")
            self.by_xid, self.order = self.by_xid.set(xid, csn), self.order.set(self.next, xid)
            self.next += 1
            oldest = self.next - 1 - MAX_OUTCOMES
            if oldest in self.order:
                self.forgotten = max(self.forgotten, self.by_xid[self.order[oldest]])
                self.by_xid = self.by_xid.delete(self.order[oldest])
                self.order = self.order.delete(oldest)


def check(state: TxnsState) -> None:
    """Assert every invariant of the module's contract."""
    assert state.since <= state.upper
    for shard, writes in state.pending.items():
        assert writes
        csns = [write.csn for write in writes]
        assert csns == sorted(csns)
        assert csns[-1] < state.upper
        assert csns[0] >= state.since
        registration = state.registered.get(shard)
        assert registration is not None or shard in state.forgotten
        if registration is not None:
            assert registration.applied < csns[0]
            assert registration.last_write >= csns[-1]
    for shard, registration in state.registered.items():
        assert shard not in state.forgotten
        assert registration.last_write < state.upper
        assert registration.applied < state.upper
    for txid, record in state.staged.items():
        assert record.txid == txid
        assert state.since <= record.csn < state.upper
        for write in record.writes:
            registration = state.registered.get(write.shard)
            assert registration is None or registration.applied < record.csn <= registration.last_write
    for gid, waiting in state.prepared.items():
        assert waiting.gid == gid
        assert waiting.csn < state.upper
        assert waiting.xid not in state.outcomes
    assert len(state.prepared) <= state.prepares
    assert len(state.outcomes) == len(state.outcome_order) <= MAX_OUTCOMES


_encoder = msgspec.msgpack.Encoder()
_diff_decoder = msgspec.msgpack.Decoder(TxnsDiff)
_document_decoder = msgspec.msgpack.Decoder(_StateDocument)


class TxnsMachine:
    """`TxnsState` as the machine of a `DurableState`."""

    def initial(self) -> TxnsState:
        """An environment without shards."""
        return TxnsState()

    def apply(self, state: TxnsState, diff: TxnsDiff) -> TxnsState:
        """See `apply_diff`."""
        return apply_diff(state, diff)

    def encode_diff(self, diff: TxnsDiff) -> bytes:
        """`diff` as MessagePack."""
        return _encoder.encode(diff)

    def decode_diff(self, data: bytes) -> TxnsDiff:
        """The inverse of `encode_diff`."""
        return _diff_decoder.decode(data)

    def format_of_diff(self, diff: TxnsDiff) -> int:
        """See `storage.durable.state.Machine`."""
        writes = [*diff.writes, *[write for record in diff.stages for write in record.writes]]
        files = [part for write in writes for part in write.parts if part.runs or part.link is not None]
        found = format_of_parts(files) if files else BASE_FORMAT
        return max(found, PREPARED_FORMAT) if diff.prepares or diff.ends else found

    def format_of_state(self, state: TxnsState) -> int:
        """See `storage.durable.state.Machine`."""
        writes = [write for pending in state.pending.values() for write in pending]
        writes += [write for record in state.staged.values() for write in record.writes]
        files = [part for write in writes for part in write.parts if part.runs or part.link is not None]
        found = format_of_parts(files) if files else BASE_FORMAT
        return max(found, PREPARED_FORMAT) if state.prepares else found

    def encode_state(self, state: TxnsState) -> bytes:
        """`state` as MessagePack."""
        return _encoder.encode(
            _StateDocument(
                upper=state.upper,
                since=state.since,
                registered=dict(state.registered),
                pending=dict(state.pending),
                forgotten=dict(state.forgotten),
                leases=dict(state.leases),
                staged=tuple(state.staged.values()),
                outcomes=tuple(
                    Outcome(state.outcome_order[n], state.outcomes[state.outcome_order[n]])
                    for n in sorted(state.outcome_order)
                ),
                forgotten_outcome=state.forgotten_outcome or msgspec.UNSET,
                prepared=tuple(state.prepared.values()) or msgspec.UNSET,
                prepares=state.prepares or msgspec.UNSET,
            )
        )

    def decode_state(self, data: bytes) -> TxnsState:
        """The inverse of `encode_state`."""
        document = _document_decoder.decode(data)
        return TxnsState(
            upper=document.upper,
            since=document.since,
            registered=Map(document.registered),
            pending=Map(document.pending),
            forgotten=Map(document.forgotten),
            leases=Map(document.leases),
            staged=Map({record.txid: record for record in document.staged}),
            outcomes=Map({outcome.xid: outcome.csn for outcome in document.outcomes}),
            outcome_order=Map(dict(enumerate(outcome.xid for outcome in document.outcomes))),
            next_outcome=len(document.outcomes),
            prepared=Map({record.gid: record for record in document.prepared or ()}),
            prepares=document.prepares or 0,
            forgotten_outcome=Csn(0) if document.forgotten_outcome is msgspec.UNSET else document.forgotten_outcome,
        )
