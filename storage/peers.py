"""From one process to several: how a process that has an environment to itself makes room for others.

A process that is alone takes timestamps by itself, without I/O; several take them from the txns shard, which costs a
read of it per read timestamp. Which of the two holds is written in the leases:

1. A process that opens the environment and finds no other lease takes its own as ``sole``, atomically with that
   finding.
2. One that finds others takes a lease that is not ``sole``, and waits. It neither reads nor commits yet.
3. The ``sole`` process sees the new lease, switches to the shared oracle *first*, and then renews its own lease
   without ``sole``. Nothing that it served before can be missed: nobody else has committed.
4. When no live lease is ``sole`` any more, the newcomer begins.

5. A process that finds itself without any other lease again claims its own as ``sole``, atomically with that finding,
   brings its oracle up to all that is committed, and switches back. Whoever joins in between waits as in 2.

A ``sole`` process that has died is recognised by `Liveness`, one that stands still by its lease: whoever waits for it
goes on once it has seen the lease unchanged for `LEASE_MS`. A process that takes timestamps by itself therefore renews
its lease first when it has not done so for most of that time, and so learns that it was deposed before it reads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from storage.csn import Csn
from storage.ids import CATALOG_SHARD
from storage.leases import LEASE_MS
from storage.oracle import InProcessOracle, Oracle, Timeline
from storage.oracle_shared import TxnsFrontier, TxnsOracle
from storage.txns_cache import TxnsCache
from storage.txns_head import CacheHead

if TYPE_CHECKING:
    from storage.environment import Environment

JOIN_POLL_S = 0.02
"""How often a process that joins looks whether the others have made room."""


class Liveness(Protocol):
    """Knows, sooner than a lease runs out, that a process is dead."""

    def announce(self, process: str) -> None:
        """This process is `process`."""
        ...

    def is_dead(self, process: str) -> bool:
        """Whether `process` has certainly ended."""
        ...


class FollowingHead(CacheHead):
    """The head of the txns shard, for an oracle whose readers find the catalog as new as their timestamp."""

    def __init__(self, cache: TxnsCache, catch_up: Callable[[], Awaitable[object]]) -> None:
        super().__init__(cache)
        self._catch_up = catch_up

    async def refresh(self) -> TxnsFrontier:
        """See `CacheHead.refresh`; the catalog of this process has followed when it returns."""
        frontier = await super().refresh()
        await self._catch_up()
        return frontier


class SwitchingOracle:
    """An `Oracle` that passes everything on to one of several, which can be exchanged."""

    def __init__(self, inner: Oracle, ensure_alone: Callable[[], Awaitable[None]] | None = None) -> None:
        self._inner = inner
        self._left: list[Oracle] = []
        self._ensure_alone = ensure_alone
        """Awaited before a timestamp is read from memory: raises when others may have begun to commit."""

    @property
    def inner(self) -> Oracle:
        """The oracle in use."""
        return self._inner

    @property
    def asks_store(self) -> bool:
        """Whether a read timestamp costs a question to the store."""
        return not isinstance(self._inner, InProcessOracle)

    def switch(self, inner: Oracle) -> None:
        """Take timestamps from `inner` from now on. Timestamps acquired before stay valid as proposals."""
        self._left = [oracle for oracle in (*self._left, self._inner) if oracle is not inner]
        self._inner = inner

    async def read_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.read_ts`."""
        if self._ensure_alone is not None and not self.asks_store:
            await self._ensure_alone()
        return await self._inner.read_ts(timeline)

    async def write_ts(self, timeline: Timeline) -> Csn:
        """See `Oracle.write_ts`."""
        return await self._inner.write_ts(timeline)

    async def apply_write(self, timeline: Timeline, ts: Csn, *, wait: bool = True) -> None:
        """See `Oracle.apply_write`; those who wait at an oracle that was left are released too."""
        for oracle in self._left:
            await oracle.apply_write(timeline, ts, wait=False)
        await self._inner.apply_write(timeline, ts, wait=wait)

    def abandon_write(self, timeline: Timeline, ts: Csn) -> None:
        """See `Oracle.abandon_write`."""
        for oracle in (*self._left, self._inner):
            oracle.abandon_write(timeline, ts)

    def observe(self, ts: Csn) -> None:
        """See `Oracle.observe`."""
        self._inner.observe(ts)

    async def close(self) -> None:
        """See `Oracle.close`."""
        for oracle in (*self._left, self._inner):
            await oracle.close()


class Peers:
    """What one process does about the others: joins them, makes room for them, goes on when they have left."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.shared_oracle = TxnsOracle(FollowingHead(env.cache, env.catch_up_catalog), env.clock)
        self.before_sharing: list[Callable[[], Awaitable[None]]] = []
        """Awaited before others may commit to an environment that this process has had to itself."""
        self._own_oracle: InProcessOracle | None = None
        self._may_be_alone = False
        self._making_room = False

    @property
    def alone(self) -> bool:
        """Whether nobody else can commit."""
        return self._env.leases.sole and not self._making_room

    async def join(self, liveness: Liveness) -> bool:
        """Take the lease, alone if nobody else has one. Returns whether this process is alone."""
        env = self._env
        self._may_be_alone = True
        liveness.announce(env.process)
        dead = [name for name in env.cache.state.leases if liveness.is_dead(name)]
        await env.txns.tidy(expired=dead)
        await env.leases.claim()
        await env.staging.resolve_overdue()
        seen: dict[str, tuple[int, float]] = {}
        renewed = env.clock.monotonic()
        while not env.leases.sole:
            others = {name: lease.beats for name, lease in env.cache.state.leases.items() if lease.sole}
            if not others:
                break
            now = env.clock.monotonic()
            seen = {
                name: known if (known := seen.get(name)) is not None and known[0] == beats else (beats, now)
                for name, beats in others.items()
            }
            dead = [name for name in others if liveness.is_dead(name) or now - seen[name][1] > LEASE_MS / 1000]
            if dead:
                await env.txns.tidy(expired={name: others[name] for name in dead})
            else:
                if now - renewed > LEASE_MS / 3000:
                    await env.leases.renew()
                    renewed = now
                await env.clock.sleep(JOIN_POLL_S)
                await env.cache.durable.refresh()
        return env.leases.sole

    async def own_oracle(self) -> InProcessOracle:
        """The oracle of a process that has the environment to itself, at or above everything committed so far."""
        env = self._env
        last_write = env.cache.state.registered[CATALOG_SHARD].last_write
        floor: dict[Timeline, Csn] = {"user": Csn(env.cache.upper - 1), "catalog": last_write}
        if self._own_oracle is None:
            self._own_oracle = await InProcessOracle.open(env.consensus, env.clock, env.random, read_floor=floor)
        for timeline, ts in floor.items():
            await self._own_oracle.apply_write(timeline, ts, wait=False)
        return self._own_oracle

    async def react(self) -> None:
        """Do what the leases ask for: make room for who joins, or go on alone when everybody else has left."""
        env = self._env
        if env.leases.sole and len(env.cache.state.leases) > 1:
            await self.make_room()
        if self._may_be_alone and set(env.cache.state.leases) == {env.process} and not self._takes_own_timestamps:
            await self.go_on_alone()

    @property
    def _takes_own_timestamps(self) -> bool:
        return self._env.leases.sole and self._env.oracle.inner is self._own_oracle

    async def make_room(self) -> None:
        """Another process is waiting to join: stop taking timestamps by oneself, then say so."""
        env = self._env
        self._making_room = True
        try:
            for wait in self.before_sharing:
                await wait()
            await env.xids.share()
            env.leases.sole = False
            env.oracle.switch(self.shared_oracle)
            await env.keep_alive()
        finally:
            self._making_room = False

    async def go_on_alone(self) -> None:
        """Everybody else has left: take timestamps by oneself again, unless another process comes first."""
        env = self._env
        if not await env.leases.claim():
            return
        while True:
            upper = env.cache.upper
            await env.catch_up_catalog()
            own = await self.own_oracle()
            await env.xids.keep_to_itself()
            # NOTE: the look and the switch in one step; what this process commits meanwhile must not be missed.
            if env.cache.upper == upper:
                break
        env.oracle.switch(own)
