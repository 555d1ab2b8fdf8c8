"""Opening an environment on two stores: makes its parts, each of those that it uses, and joins the other processes."""

from __future__ import annotations

from functools import partial

from storage.catalog.oids import OidBlocks
from storage.catalog.store import CatalogStore
from storage.clock import Clock, Randomness
from storage.durable.formats import FormatGate
from storage.durable.state import FORMAT_VERSION, DurableState
from storage.environment.background import Background
from storage.environment.bootstrap import bootstrap
from storage.environment.committing import Committer
from storage.environment.environment import Environment
from storage.environment.identity import identify
from storage.errors import AsOfNotReadable
from storage.host_memory import HostMemory
from storage.ids import CATALOG_SHARD, random_text
from storage.layouts.shards import ShardLayouts
from storage.membership.leases import Leases
from storage.membership.liveness import Liveness
from storage.membership.peers import Peers
from storage.membership.watch import LeaseWatch
from storage.reading.outcomes import Outcomes
from storage.reading.reader import ShardReader
from storage.shards.history import Archives
from storage.shards.indexes.reading.reader import KeyReader
from storage.shards.part_store import PartStore
from storage.shards.shard import DataShard
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn
from storage.timestamps.hlc import warn_if_ahead
from storage.timestamps.shared import TxnsOracle
from storage.timestamps.switching import SwitchingOracle
from storage.transactions.applier import Applier
from storage.transactions.oracle_head import FollowingHead
from storage.transactions.parallel_commit import ParallelCommit
from storage.transactions.shard_handles import ShardHandles
from storage.transactions.txns_cache import TxnsCache
from storage.transactions.txns_shard import TxnsShard
from storage.transactions.txns_state import TXNS_KEY, TxnsDiff, TxnsMachine, TxnsState
from storage.transactions.xid_blocks import XidBlocks
from storage.upkeep.compactor import Compactor
from storage.upkeep.garbage import GarbageCollector
from storage.upkeep.indexing import Indexer
from storage.upkeep.maintenance import Maintenance
from storage.upkeep.orphans import OrphanCollector
from storage.upkeep.pruning_audit import SAMPLED_SHARE, PruningAudit
from storage.upkeep.retention import Retention
from storage.upkeep.shared_files import SharedFiles
from storage.upkeep.troubles import Troubles


async def open_on_stores(
    *,
    blob: Blob,
    consensus: Consensus,
    clock: Clock,
    random: Randomness,
    process: str,
    shared: bool = False,
    sole: bool = False,
    liveness: Liveness | None = None,
    host: HostMemory | None = None,
    background: bool = True,
    validate: bool = False,
    retain_ms: int = 0,
    known: int = FORMAT_VERSION,
) -> Environment:
    """Open the environment on these stores, creating it on first use.

    `process` names this process for people; a random suffix makes it unique. `shared`: other processes may
    have the environment open at the same time, and timestamps come from the txns shard (otherwise from this
    process). `sole`: the caller guarantees that no other process is alive, so the work of all others is taken
    over at once. `liveness` tells which are dead; without `shared` others may join at any time, and this process
    takes timestamps by itself until then (`storage.membership.peers`); with `host`, so do all that share this memory,
    together. With `background` False nothing runs by itself (applying, keeping alive and maintenance are the caller's).
    `validate` checks every structure after each change. `retain_ms`: how long the past of a table can be read that says
    nothing else; `known` the newest format that this process reads and writes. Raises NewerFormat, ForeignEnvironment,
    CorruptState, and EnvironmentFenced when it took so long that others took the process for dead.
    """
    process = f"{process}-{random_text(random)[:8]}"
    record = await identify(consensus, random, blob, known)
    gate = FormatGate(consensus, clock, process, record.format, known)
    await gate.check()
    env = _assemble(record.id, process, gate, blob, consensus, clock, random, liveness, host, validate, retain_ms)
    cache = env.cache
    await cache.durable.refresh()
    if CATALOG_SHARD not in cache.state.registered:
        await bootstrap(env.txns_shard, env.catalog, clock)
    if liveness is not None and not shared:
        shared = not await env.peers.join(liveness) or host is not None
    else:
        if liveness is not None:
            liveness.announce(process)
        await env.leases.keep_alive()
    await gate.enter()
    if sole:
        await env.txns_shard.tidy(expired=[name for name in cache.state.leases if name != process])
        await env.staging.resolve_overdue()
    floor, last_definition = Csn(cache.upper - 1), cache.last_write(CATALOG_SHARD)
    warn_if_ahead(floor, clock)
    if shared:
        env.xids.shared = True
    else:
        env.oracle.start_with(await env.peers.own_oracle())
        await env.xids.keep_to_itself()
    try:
        await env.catalog.load(floor, last_definition)
    except AsOfNotReadable:
        # Nobody lets go of what a lease keeps; so others have ended it, because this process stood still.
        await env.leases.ensure()
        raise
    if cache.state.pending:
        env.applier.apply_soon()  # What a dead process has committed and not applied.
    if background:
        env.background.start()
    return env


def _assemble(
    id: str,
    process: str,
    gate: FormatGate,
    blob: Blob,
    consensus: Consensus,
    clock: Clock,
    random: Randomness,
    liveness: Liveness | None,
    host: HostMemory | None,
    validate: bool,
    retain_ms: int,
) -> Environment:
    """The parts of an environment, from the ground up. Reads and writes nothing."""
    parts = PartStore(blob, clock, random, process)
    durable: DurableState[TxnsState, TxnsDiff] = DurableState(
        TXNS_KEY, TxnsMachine(), consensus=consensus, blob=blob, clock=clock, random=random, writer=process, gate=gate
    )
    cache = TxnsCache(durable, consensus, clock, validate=validate)
    make_handle = partial(
        DataShard, consensus=consensus, blob=blob, clock=clock, random=random, writer=process, gate=gate
    )
    handles = ShardHandles(cache, make_handle)
    archives, retention = Archives(parts), Retention(cache, retain_ms)
    txns_shard = TxnsShard(cache, handles, process)
    applier = Applier(txns_shard, handles)
    xids = XidBlocks(consensus, clock, process, lambda: cache.upper, lambda: cache.state.leases, cache.durable.refresh)
    watch = LeaseWatch(txns_shard=txns_shard, applier=applier, liveness=liveness, clock=clock, process=process)
    leases = Leases(
        txns_shard=txns_shard,
        handles=handles,
        watch=watch,
        xids=xids,
        clock=clock,
        process=process,
        host=None if host is None else host.name,
    )
    sharing = SharedFiles(cache=cache, handles=handles, process=process)
    staging = ParallelCommit(
        txns_shard=txns_shard,
        parts=parts,
        blob=blob,
        clock=clock,
        random=random,
        ensure_lease=leases.ensure,
        renew_lease=leases.renew,
        process=process,
    )
    reader = ShardReader(
        txns_shard=txns_shard,
        staging=staging,
        handles=handles,
        parts=parts,
        archives=archives,
        leases=leases,
        clock=clock,
        validate=validate,
    )
    catalog = CatalogStore(reader, parts)
    retention.definitions = catalog
    head = FollowingHead(cache, catalog)
    if host is not None:
        heads = host.heads
        cache.on_seen = heads.raise_own
        head = FollowingHead(cache, catalog, lambda: heads.highest() if leases.sole else None)
    shared_oracle = TxnsOracle(head, clock)
    oracle = SwitchingOracle(shared_oracle, leases.ensure if liveness is not None else None)
    peers = Peers(
        txns_shard=txns_shard,
        staging=staging,
        leases=leases,
        catalog=catalog,
        xids=xids,
        oracle=oracle,
        shared_oracle=shared_oracle,
        consensus=consensus,
        clock=clock,
        random=random,
        process=process,
    )
    keys = KeyReader(parts, leases.renew, validate=validate)
    troubles = Troubles()
    maintenance = Maintenance(
        compactor=Compactor(
            cache=cache,
            handles=handles,
            parts=parts,
            archives=archives,
            leases=leases,
            retention=retention,
            layout_of=ShardLayouts(catalog).of,
        ),
        indexer=Indexer(handles=handles, parts=parts, keys=keys),
        garbage=GarbageCollector(
            blob=blob,
            consensus=consensus,
            txns_shard=txns_shard,
            handles=handles,
            leases=leases,
            sharing=sharing,
            retention=retention,
            oracle=oracle,
        ),
        orphans=OrphanCollector(
            blob=blob, consensus=consensus, cache=cache, handles=handles, parts=parts, process=process
        ),
        watch=watch,
        staging=staging,
        troubles=troubles,
    )
    return Environment(
        id=id,
        process=process,
        formats=gate,
        blob=blob,
        consensus=consensus,
        clock=clock,
        random=random,
        parts=parts,
        cache=cache,
        handles=handles,
        txns_shard=txns_shard,
        applier=applier,
        staging=staging,
        xids=xids,
        oids=OidBlocks(consensus, clock),
        leases=leases,
        retention=retention,
        peers=peers,
        oracle=oracle,
        reader=reader,
        sharing=sharing,
        keys=keys,
        outcomes=Outcomes(
            txns_shard=txns_shard, staging=staging, xids=xids, leases=leases, watch=watch, process=process
        ),
        catalog=catalog,
        pruning=PruningAudit(partial(parts.read, keep=False), random, 1.0 if validate else SAMPLED_SHARE),
        maintenance=maintenance,
        troubles=troubles,
        committer=Committer(
            txns_shard=txns_shard,
            staging=staging,
            handles=handles,
            parts=parts,
            catalog=catalog,
            oracle=oracle,
            leases=leases,
            applier=applier,
            clock=clock,
            consensus=consensus,
        ),
        background=Background(
            cache=cache,
            applier=applier,
            leases=leases,
            peers=peers,
            catalog=catalog,
            maintenance=maintenance,
            troubles=troubles,
            clock=clock,
            process=process,
            host=host,
            restarting=not validate,
        ),
    )
