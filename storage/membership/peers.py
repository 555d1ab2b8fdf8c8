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
from typing import TYPE_CHECKING

from storage.ids import CATALOG_SHARD
from storage.membership.leases import LEASE_MS
from storage.membership.liveness import Liveness
from storage.timestamps.csn import Csn
from storage.timestamps.in_process import InProcessOracle, Timeline
from storage.timestamps.shared import TxnsOracle
from storage.transactions.oracle_head import FollowingHead

if TYPE_CHECKING:
    from storage.environment.environment import Environment

JOIN_POLL_S = 0.02
"""How often a process that joins looks whether the others have made room."""


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
