"""Looking into an environment from outside: what there is, how far it has come, and what is outstanding.

An `Inspector` reads the two stores and writes nothing: it takes no lease and starts no work, so it can look at a live
environment, at one whose servers are all down, and at one that is damaged. Everything it reports was true at some
moment while it looked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from storage.clock import Clock, Randomness
from storage.durable.state import DurableState
from storage.environment.identity import COMPLETE_KEY, ENVIRONMENT_KEY, MARKER_KEY, EnvironmentRecord, decode_record
from storage.errors import ForeignEnvironment
from storage.ids import ShardId
from storage.shards.shard import DataShard, append_of
from storage.shards.shard_state import Hold, ShardState, apply_op
from storage.stores.blob import Blob
from storage.stores.consensus import FIRST_SEQNO, Consensus
from storage.timestamps.csn import Csn, csn_ms
from storage.transactions import txns_state
from storage.transactions.txns_state import TXNS_KEY, Lease, Staged, TxnsDiff, TxnsMachine, TxnsState


class ShardOverview(Struct, frozen=True, kw_only=True):
    """One shard. `logical_upper` is how far it may be read, `physical_upper` how far it has been written."""

    shard: ShardId
    since: Csn
    physical_upper: Csn
    logical_upper: Csn
    rows: int
    inline_parts: int
    files: int
    bytes: int
    delete_parts: int
    unapplied_writes: int
    holds: dict[str, Hold] = field(default_factory=dict)
    dropped: bool = False


class BlobUsage(Struct, frozen=True, kw_only=True):
    """The objects under one prefix."""

    prefix: str
    objects: int
    bytes: int


class Overview(Struct, frozen=True, kw_only=True):
    """An environment at a glance. `txns_bytes` and `txns_diffs` are what the txns shard keeps in consensus."""

    id: str
    format: int
    upper: Csn
    since: Csn
    registered: int
    dropped_shards: int
    pending_writes: int
    staged: tuple[Staged, ...]
    leases: dict[str, Lease]
    txns_diffs: int
    txns_bytes: int
    shards: tuple[ShardOverview, ...]
    blobs: tuple[BlobUsage, ...]


class Inspector:
    """Reads an environment's states. See the module's contract."""

    def __init__(self, *, blob: Blob, consensus: Consensus, clock: Clock, random: Randomness) -> None:
        self.blob = blob
        self.consensus = consensus
        self.clock = clock
        self.random = random

    async def record(self) -> EnvironmentRecord:
        """What identifies the environment. Raises ForeignEnvironment when there is none, NewerFormat, CorruptState."""
        head = await self.consensus.head(ENVIRONMENT_KEY)
        if head is None:
            if await self.blob.get(COMPLETE_KEY) is not None:
                raise ForeignEnvironment(
                    "the blob store holds the data of an environment, but the consensus store is empty; restore the "
                    "consensus store from a backup"
                )
            raise ForeignEnvironment("there is no Tidegate environment here")
        return decode_record(head.data)

    async def at_work(self) -> Collection[str]:
        """The processes with a lease now."""
        return (await self.txns()).leases

    async def txns(self) -> TxnsState:
        """The txns shard now."""
        durable: DurableState[TxnsState, TxnsDiff] = DurableState(
            TXNS_KEY,
            TxnsMachine(),
            consensus=self.consensus,
            blob=self.blob,
            clock=self.clock,
            random=self.random,
            writer="inspector",
        )
        state = await durable.refresh()
        txns_state.check(state)
        return state

    def handle(self, shard: ShardId) -> DataShard:
        """A handle of `shard`, not loaded."""
        return DataShard(
            shard,
            consensus=self.consensus,
            blob=self.blob,
            clock=self.clock,
            random=self.random,
            writer="inspector",
        )

    async def shard(self, shard: ShardId, txns: TxnsState) -> tuple[ShardState, ShardState]:
        """The durable state of `shard`, and that state with every committed write in it."""
        durable = await self.handle(shard).refresh()
        state = durable
        for write in txns.pending.get(shard, ()):
            if write.csn >= state.upper and not state.dropped:
                state = apply_op(state, append_of(state, write))
        return durable, state

    async def overview(self) -> Overview:
        """Everything at a glance; costs one read per shard and one listing."""
        record = await self.record()
        txns = await self.txns()
        diffs = await self.consensus.scan(TXNS_KEY, FIRST_SEQNO)
        shards = [await self._shard_overview(shard, txns) for shard in sorted({*txns.registered, *txns.forgotten})]
        usage: dict[str, tuple[int, int]] = {}
        async for entry in self.blob.list(""):
            if entry.key in (MARKER_KEY, COMPLETE_KEY):
                continue
            prefix = entry.key.split("/", 1)[0] + "/"
            objects, size = usage.get(prefix, (0, 0))
            usage[prefix] = objects + 1, size + entry.bytes
        return Overview(
            id=record.id,
            format=record.format,
            upper=txns.upper,
            since=txns.since,
            registered=len(txns.registered),
            dropped_shards=len(txns.forgotten),
            pending_writes=sum(len(writes) for writes in txns.pending.values()),
            staged=tuple(txns.staged.values()),
            leases=dict(txns.leases),
            txns_diffs=len(diffs),
            txns_bytes=sum(len(diff.data) for diff in diffs),
            shards=tuple(shards),
            blobs=tuple(
                BlobUsage(prefix=prefix, objects=objects, bytes=size)
                for prefix, (objects, size) in sorted(usage.items())
            ),
        )

    async def _shard_overview(self, shard: ShardId, txns: TxnsState) -> ShardOverview:
        durable, state = await self.shard(shard, txns)
        parts = list(state.parts.values())
        sign = {"insert": 1, "delete": -1}
        return ShardOverview(
            shard=shard,
            since=durable.since,
            physical_upper=durable.upper,
            logical_upper=txns.forgotten.get(shard, txns.upper),
            rows=sum(sign[part.kind] * part.rows for part in parts),
            inline_parts=sum(part.inline is not None for part in parts),
            files=sum(part.key is not None for part in parts),
            bytes=sum(part.bytes for part in parts),
            delete_parts=sum(part.kind == "delete" for part in parts),
            unapplied_writes=sum(write.csn >= durable.upper for write in txns.pending.get(shard, ())),
            holds=dict(durable.holds),
            dropped=shard in txns.forgotten,
        )


def render(overview: Overview, now_ms: int, tables: Mapping[ShardId, str]) -> str:
    """`overview` as text for a terminal. `tables` names what is in the shards."""
    lines = [
        f"environment {overview.id}, format {overview.format}",
        f"upper {_csn(overview.upper)}, since {_csn(overview.since)}",
        f"{overview.registered} shards, {overview.dropped_shards} dropped and not removed yet",
        f"outstanding: {overview.pending_writes} writes not retracted, {len(overview.staged)} staged transactions",
        f"txns shard: {overview.txns_diffs} diffs, {overview.txns_bytes} bytes in consensus",
        "",
        "processes",
    ]
    for name, lease in sorted(overview.leases.items()):
        age = (now_ms - lease.renewed_ms) / 1000
        lines.append(f"  {name}: renewed {age:.1f} s ago (beat {lease.beats}), reads from {_csn(lease.read_lower)}")
    if overview.staged:
        lines += ["", "staged transactions"]
    for record in overview.staged:
        promised = sum(part.length for part in record.promised)
        lines.append(
            f"  {record.txid} at {_csn(record.csn)} by {record.process}: "
            f"{len(record.writes)} shards, {len(record.promised)} promised parts of {promised} bytes"
        )
    heading = f"{'shard':<28} {'rows':>12} {'bytes':>14} {'inline':>7} {'files':>6} {'deletes':>7} {'behind':>6}  table"
    lines += ["", heading]
    for item in overview.shards:
        table = "(dropped)" if item.dropped else tables.get(item.shard, "")
        lines.append(
            f"{item.shard:<28} {item.rows:>12} {item.bytes:>14} {item.inline_parts:>7} {item.files:>6} "
            f"{item.delete_parts:>7} {item.unapplied_writes:>6}  {table}".rstrip()
        )
        lines += [f"  hold {name}: at {_csn(hold.at)} {hold.reason}" for name, hold in sorted(item.holds.items())]
    lines += ["", "blob store"]
    lines += [f"  {usage.prefix:<12} {usage.objects:>8} objects {usage.bytes:>14} bytes" for usage in overview.blobs]
    return "\n".join(lines)


def _csn(csn: Csn) -> str:
    return f"{csn} ({csn_ms(csn)} ms)"
