"""A simulated environment: shared stores, processes that come and go, and a record of what clients saw.

`World.run` starts several server processes on one environment, lets clients work while processes are killed, the
network misbehaves and clocks jump, then lets the faults stop and checks what is left (`tests.simulation.verify`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from tests.simulation.views import View

from storage.catalog import store as catalog_store
from storage.doubles.clock import SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.durable import state as durable
from storage.environment import background
from storage.environment.environment import Environment
from storage.environment.opening import open_on_stores
from storage.errors import Determinate, EnvironmentFenced, Indeterminate, NewerFormat
from storage.ids import ShardId
from storage.lake.linked import LinkedBlob
from storage.layouts import ordering
from storage.membership import leases
from storage.offline.admin import Inspector
from storage.shards import packed_parts, part_store
from storage.timestamps.csn import Csn
from storage.transactions import parallel_commit, txn
from storage.transactions.xids import PgSnapshot
from storage.upkeep import compaction
from tests.simulation.layouts import provide_layouts
from tests.simulation.linked import AddedFile, WorldFiles
from tests.simulation.loop import Process, SimulatedClock, SimulatedLoop, spawn
from tests.simulation.network import STORMY, Conditions, Network, NetworkBlob, NetworkConsensus
from tests.simulation.versions import NEW, Upgrade, WatchedConsensus

MAX_STARTS = 100
"""Attempts to start a server whose stores fail."""

Row = tuple[int, int]
"""(key, value): the two columns of every table in the simulation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one run is like. Drawn from the seed by `Plan.draw`."""

    seed: int
    processes: int = 3
    clients: int = 2
    transactions: int = 8
    definitions: int = 0
    """Statements that change the catalog, by each process."""
    crashes: float = 0.5
    """Probability that a disturbance kills a process."""
    pauses: float = 0.0
    """Probability that a disturbance pauses a process, for up to a minute."""
    clock_jumps: bool = False
    conditions: Conditions = STORMY
    staged: bool = False
    """Whether every transaction has files to upload while it commits."""
    spills: bool = False
    """Whether some transactions upload parts before and while they commit."""
    one_host: bool = False
    """Whether processes know at once who has died; a lone one then makes room when others join."""
    peers: bool = False
    """With `one_host`: whether a process that is alone takes timestamps by itself until another one joins."""
    xids: float = 0.0
    """Probability that a transaction has an id, and that it looks who else is running."""
    departures: float = 0.0
    """Probability that a disturbance lets all processes but one leave (or die), to come back after a while."""
    keyed: bool = False
    """Whether tables have indexes, and are read by key too."""
    prepares: int = 0
    """Transactions in two phases, by each process."""
    old_readers: bool = False
    """Whether readers keep a snapshot for long, and holds are moved into shards soon."""
    copies: int = 0
    """Statements that copy tables without copying files, look at copies and drop them, by each process."""
    published: bool = False
    """Whether processes publish the tables for others."""
    linked: bool = False
    """Whether some transactions add files of others to tables."""
    retain_ms: int = 0
    """How long the past of tables and of the catalog is kept, where it is."""
    viewed: bool = False
    """Whether processes keep a materialized view over one of the tables."""
    upgraded: bool = False
    """Whether servers of an older version are replaced by newer ones, and the upgrade is finished meanwhile."""
    laid_out: bool = False
    """Whether tables have a layout, which compaction keeps."""
    small_limits: bool = False
    """Whether rollups, compactions, files and orphan collection come about after a few steps already."""

    def __post_init__(self) -> None:
        # Who takes timestamps by itself has to learn of others; without that anything may be found, mistake or not.
        assert self.one_host or not self.peers, "peers need one_host"

    @staticmethod
    def draw(seed: int) -> Plan:
        """The plan of `seed`."""
        randomness = SeededRandomness(seed * 2 + 1)
        storm = randomness.random() * 2
        plan = Plan(
            seed=seed,
            processes=1 + randomness.randrange(3),
            clients=1 + randomness.randrange(3),
            transactions=4 + randomness.randrange(12),
            definitions=randomness.randrange(6),
            crashes=randomness.random() * 0.8,
            clock_jumps=randomness.random() < 0.3,
            conditions=Conditions(
                fail_before=0.03 * storm,
                unknown_before=0.02 * storm,
                unknown_after=0.03 * storm,
                slow=0.03 * storm,
            ),
            spills=randomness.random() < 0.5,
            small_limits=randomness.random() < 0.6,
            one_host=randomness.random() < 0.5,
            staged=randomness.random() < 0.5,
            pauses=0.3 if randomness.random() < 0.3 else 0.0,
        )
        peers = plan.one_host and randomness.random() < 0.7
        departures = 0.3 + randomness.random() * 0.4 if peers else 0.0
        xids = 0.5 if randomness.random() < 0.5 else 0.0
        plan = replace(plan, peers=peers, departures=departures, xids=xids, keyed=randomness.random() < 0.5)
        plan = replace(plan, prepares=1 + randomness.randrange(6) if randomness.random() < 0.5 else 0)
        plan = replace(plan, old_readers=randomness.random() < 0.4)
        plan = replace(plan, published=randomness.random() < 0.25)
        plan = replace(plan, copies=2 + randomness.randrange(8) if randomness.random() < 0.4 else 0)
        plan = replace(plan, linked=randomness.random() < 0.3)
        plan = replace(plan, laid_out=randomness.random() < 0.4)
        plan = replace(plan, viewed=randomness.random() < 0.4)
        plan = replace(plan, retain_ms=5_000 + randomness.randrange(55_000) if randomness.random() < 0.4 else 0)
        return replace(plan, upgraded=randomness.random() < 0.2)


@dataclass(slots=True)
class Attempt:
    """One client transaction: what it read and wrote, and how it ended as far as its client knows."""

    id: int
    began: int
    reads: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)
    """(table, key, values in row-id order, with the transaction's own)."""
    writes: list[tuple[str, Row]] = field(default_factory=list)
    deletes: list[tuple[str, Row]] = field(default_factory=list)
    operations: list[tuple[str, str, int, object]] = field(default_factory=list)
    """("append" or "read", table, key, value or values) in the order they happened."""
    xid: int | None = None
    status: str = "working"
    """working, committing, ok, fail or info."""
    csn: Csn | None = None
    """The CSN it was last tried at."""
    ended: int | None = None


@dataclass(slots=True)
class Definition:
    """A table that a client created with one row, and perhaps dropped; what the client knows of both."""

    name: str
    shard: ShardId
    row: Row
    created: str = "working"
    drops: list[str] = field(default_factory=list)
    """How each attempt to drop it ended."""


@dataclass(slots=True)
class Copy:
    """A copy, the rows that it has to have, and what its maker knows of its making and of its end."""

    shard: ShardId
    rows: list[Row]
    made: str = "committing"
    dropped: str = ""


class Server:
    """One incarnation of a server process."""

    def __init__(self, name: str, env: Environment, process: Process, clock: SimulatedClock) -> None:
        self.name = name
        self.env = env
        self.process = process
        self.clock = clock
        self.leaving = asyncio.Event()
        """Set when the process is to finish what its clients have begun, and to end."""


class HostLiveness:
    """`Liveness` for processes of one host: the operating system knows who has ended."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._names: list[str] = []

    def announce(self, process: str) -> None:
        """See `Liveness.announce`."""
        self._world.names[process] = self._process
        self._names.append(process)

    def close(self) -> None:
        """What was announced has ended, although its process goes on."""
        for name in self._names:
            self._world.names[name] = Process("closed")
            self._world.names[name].alive = False

    def is_dead(self, process: str) -> bool:
        """See `Liveness.is_dead`."""
        found = self._world.names.get(process)
        return found is not None and not found.alive


class World:
    """See the module."""

    LISTS = ("list0", "list1")
    BANKS = ("bank0", "bank1")
    JOURNAL_KEY = 99
    """The list to which every transfer appends."""
    ACCOUNTS = 4
    OPENING_BALANCE = 100

    def __init__(self, loop: SimulatedLoop, plan: Plan) -> None:
        self.loop = loop
        self.plan = plan
        self.blob = MemoryBlob(SimulatedClock(loop))
        self.consensus = MemoryConsensus()
        self.network = Network(loop, plan.seed * 7 + 1)
        self.randomness = SeededRandomness(plan.seed * 7 + 2)
        self.attempts: list[Attempt] = []
        self.tables: dict[str, ShardId] = {}
        self.snapshots: dict[tuple[str, Csn], tuple[tuple[int, Row], ...]] = {}
        """Every snapshot anybody read: (row id, row) by table and CSN."""
        self.pg_snapshots: list[tuple[Csn, PgSnapshot]] = []
        """Snapshots in PostgreSQL's form, with their CSNs."""
        self.catalogs: dict[Csn, tuple[str, ...]] = {}
        """Every catalog anybody read, by CSN."""
        self.definitions: list[Definition] = []
        self.prepared: dict[str, Attempt] = {}
        """What was prepared, or was about to be, by its name."""
        self.names: dict[str, Process] = {}
        """Processes by the name that the storage layer gave them."""
        self.servers: dict[str, Server] = {}
        """The servers that have opened the environment, by the name of their process."""
        self.copies: list[Copy] = []
        self.view: View | None = None
        self.upgrade: Upgrade | None = None
        if plan.upgraded:
            self.upgrade = Upgrade(self, self._inspector(through_network=True), self._inspector(through_network=False))
        self.added: dict[str, AddedFile] = {}
        """Files of others, by path."""
        self.problems: list[str] = []
        self.switches = 0
        """How often a process that was left alone was seen to take timestamps by itself again."""
        self.kills = 0
        self.rewritten = 0
        """Parts that were written anew as the layout of their table wants them."""
        self._incarnations = 0
        self._next_value = 0

    def _inspector(self, *, through_network: bool) -> Inspector:
        blob, consensus = (
            (NetworkBlob(self.blob, self.network), NetworkConsensus(self.consensus, self.network))
            if through_network
            else (self.blob, self.consensus)
        )
        clock, random = SimulatedClock(self.loop), SeededRandomness(self.plan.seed * 7 + 3)
        return Inspector(blob=blob, consensus=consensus, clock=clock, random=random)

    def now(self) -> int:
        """A number that grows with everything that happens: the order of real time."""
        return self.loop.trace.events

    def unique(self) -> int:
        """A value that nothing else writes."""
        self._next_value += 1
        return self._next_value

    def problem(self, text: str) -> None:
        """Note a broken invariant."""
        self.problems.append(text)

    async def open(self, name: str, process: Process, clock: SimulatedClock, *, background: bool = True) -> Server:
        """Open the environment as a process does that starts; runs in the context of `process`."""
        self._incarnations += 1
        liveness = HostLiveness(self, process) if self.plan.one_host else None
        known = NEW if self.upgrade is None else self.upgrade.known(name)
        consensus = NetworkConsensus(self.consensus, self.network)
        if self.upgrade is not None:
            consensus = WatchedConsensus(self.consensus, self.network, self.upgrade, known)
        try:
            env = await self._open(name, clock, consensus, known, liveness, background)
        except BaseException:
            if liveness is not None:
                liveness.close()
            raise
        if self.plan.laid_out:
            provide_layouts(self, env)
        server = Server(name, env, process, clock)
        if self.upgrade is not None and isinstance(consensus, WatchedConsensus):
            consensus.server = server
            await self.upgrade.opened(server)
        return server

    async def _open(
        self,
        name: str,
        clock: SimulatedClock,
        consensus: NetworkConsensus,
        known: int,
        liveness: HostLiveness | None,
        background: bool,
    ) -> Environment:
        return await open_on_stores(
            blob=LinkedBlob(NetworkBlob(self.blob, self.network), WorldFiles(self.added)),
            consensus=consensus,
            clock=clock,
            random=SeededRandomness(self.plan.seed * 1009 + self._incarnations),
            process=name,
            shared=self.plan.processes > 1 and not self.plan.peers,
            liveness=liveness,
            background=background,
            validate=True,
            retain_ms=self.plan.retain_ms,
            known=known,
        )

    async def start(self, name: str, work: Any) -> tuple[Process, SimulatedClock, asyncio.Task[None]]:
        """Start a server process that opens the environment and runs `work(server)` until it is killed."""
        process = Process(f"{name}.{self._incarnations}")
        skew_ms = self.randomness.randrange(200) - 100
        clock = SimulatedClock(self.loop, skew_ms=skew_ms)

        async def main() -> None:
            for attempt in range(MAX_STARTS):
                try:
                    server = await self.open(name, process, clock)
                except NewerFormat as error:
                    if self.upgrade is None:
                        raise
                    await self.upgrade.refuses(name, error)
                except (Determinate, Indeterminate, EnvironmentFenced) as error:
                    self.loop.trace.add(f"{name} could not start: {error}")
                    if attempt == MAX_STARTS - 1:
                        raise
                    await asyncio.sleep(0.5)
                else:
                    break
            self.servers[process.name] = server
            await work(server)

        return process, clock, spawn(self.loop, process, main())

    def kill(self, process: Process) -> None:
        """End `process` as ``kill -9`` does."""
        process.alive = False
        self.kills += 1
        self.loop.trace.add(f"killed {process.name}")


SMALL_LIMITS: tuple[tuple[Any, str, object], ...] = (
    (durable, "ROLLUP_MIN_DIFFS", 6),
    (durable, "ROLLUP_MIN_BYTES", 4_000),
    (durable, "INLINE_ROLLUP_BYTES", 500),
    (part_store, "INLINE_LIMIT_BYTES", 1),
    (packed_parts, "BLOCK_PARTS", 3),
    (packed_parts, "PACK_FROM", 4),
    (packed_parts, "KEPT_LOOSE", 1),
    (packed_parts, "SMALLEST_BLOCK", 2),
    (compaction, "MERGE_FACTOR", 3),
    (compaction, "WHOLE_SHARE", 100.0),
    (ordering, "INLINE_LIMIT_BYTES", 1),
    (ordering, "LEAST_PARTITION_BYTES", 1),
    (background, "ORPHAN_ROUNDS", 10),
    (leases, "HISTORY_MS", 200),
    (catalog_store, "KEPT_VERSIONS", 2),
)
"""(module, constant, value): what `Plan.small_limits` changes."""

ALL_STAGED: tuple[tuple[Any, str, object], ...] = (
    (txn, "INLINE_LIMIT_BYTES", 1),
    (parallel_commit, "STAGED_LIMIT_S", 1.0),
)
"""What `Plan.staged` changes: no transaction is small enough to commit in one phase."""

SOON_MOVED: tuple[tuple[Any, str, object], ...] = ((leases, "MOVE_AFTER_MS", 1_000),)
"""What `Plan.old_readers` changes."""


@contextlib.contextmanager
def limits_of(plan: Plan) -> Iterator[None]:
    """Set the storage layer's limits as `plan` has them."""
    changed = (
        *(SMALL_LIMITS if plan.small_limits else ()),
        *(ALL_STAGED if plan.staged else ()),
        *(SOON_MOVED if plan.old_readers else ()),
    )
    before = [getattr(module, name) for module, name, _ in changed]
    for module, name, value in changed:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(changed, before, strict=True):
            setattr(module, name, value)


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep the storage layer's warnings about injected faults off the terminal."""
    before = structlog.get_config()
    silent = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=silent, cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
