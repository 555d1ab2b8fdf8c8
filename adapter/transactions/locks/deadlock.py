"""Deadlocks: cycles of owners who wait for each other, and queues put in another order where that opens the cycle.

An owner waits for those who hold what it wants (*hard*), and for those who wait ahead of it for what excludes it
(*soft*). A cycle with a soft edge is opened by letting the blocked one go ahead, if that closes no other cycle; a cycle
of hard edges is a deadlock (PostgreSQL, deadlock.c).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

from adapter.transactions.locks import tags
from adapter.transactions.locks.lock import Lock, Owner, Request
from planner.errors import DeadlockDetected

T = TypeVar("T", bound=Hashable)

MAX_ORDERS = 200
"""Orders of queues that are tried before the cycle counts as a deadlock: soft edges are few in practice."""

Orders: TypeAlias = Mapping[Lock, list[Request]]
"""Queues in another order than they have."""


class Edge(Struct, frozen=True):
    """`waiter` waits for `blocker`; `ahead` is the request by which the blocker goes first, None when it holds."""

    waiter: Request
    blocker: Owner
    ahead: Request | None


class Verdict(Struct, frozen=True, kw_only=True):
    """What is to be done: give these queues that order, or end the request because of `cycle`."""

    orders: Orders
    cycle: tuple[Edge, ...] = ()


def judge(request: Request) -> Verdict:
    """Whether `request` waits for itself, and whether another order of queues would help."""
    tried = 0
    first: tuple[Edge, ...] = ()

    def attempt(orders: Orders, passed: tuple[tuple[Request, Request], ...]) -> Orders | None:
        nonlocal tried, first
        tried += 1
        cycle = _cycle([request, *(side for pair in passed for side in pair)], orders)
        if not cycle:
            return orders
        first = first or cycle
        # From the far end, as PostgreSQL does: it is others who go ahead, rather than the one who looks.
        for edge in reversed(cycle):
            if edge.ahead is None or tried >= MAX_ORDERS:
                continue
            changed = _passing(edge.waiter, edge.ahead, orders)
            pairs = (*passed, (edge.waiter, edge.ahead))
            if all(_is_before(*pair, changed) for pair in pairs):
                found = attempt(changed, pairs)
                if found is not None:
                    return found
        return None

    orders = attempt({}, ())
    return Verdict(orders={}, cycle=first) if orders is None else Verdict(orders=orders)


def _queue(lock: Lock, orders: Orders) -> list[Request]:
    return orders.get(lock, lock.queue)


def _passing(waiter: Request, ahead: Request, orders: Orders) -> Orders:
    """`orders` with `waiter` directly before `ahead`."""
    queue = [other for other in _queue(waiter.lock, orders) if other is not waiter]
    queue.insert(next(place for place, other in enumerate(queue) if other is ahead), waiter)
    return {**orders, waiter.lock: queue}


def _is_before(left: Request, right: Request, orders: Orders) -> bool:
    queue = _queue(left.lock, orders)
    return next(other for other in queue if other is left or other is right) is left


def _edges(waiter: Request, orders: Orders) -> Iterator[Edge]:
    for owner, ahead in waiter.lock.blockers(waiter, _queue(waiter.lock, orders)):
        yield Edge(waiter, owner, ahead)


def _cycle(starts: list[Request], orders: Orders) -> tuple[Edge, ...]:
    """A way from one of `starts` back to its owner; () when there is none."""
    for start in starts:
        seen: set[int] = {id(start.owner)}
        # Depth first, without recursion: a chain of waiters may be as long as there are sessions.
        path: list[Edge] = []
        levels = [_edges(start, orders)]
        while levels:
            edge = next(levels[-1], None)
            if edge is None:
                levels.pop()
                if path:
                    path.pop()
                continue
            if edge.blocker is start.owner:
                return (*path, edge)
            onward = edge.blocker.waiting
            if onward is None or onward.granted.done() or id(edge.blocker) in seen:
                continue
            seen.add(id(edge.blocker))
            path.append(edge)
            levels.append(_edges(onward, orders))
    return ()


def way_back(edges: Mapping[T, Sequence[T]], start: T) -> tuple[T, ...]:
    """Those on a way from `start` back to it, `start` first, where `edges` says for whom each waits; () when there is
    none."""
    path: list[T] = [start]
    seen = {start}
    levels = [iter(edges.get(start, ()))]
    while levels:
        onward = next(levels[-1], None)
        if onward is None:
            levels.pop()
            path.pop()
        elif onward == start:
            return tuple(path)
        elif onward not in seen and onward in edges:
            seen.add(onward)
            path.append(onward)
            levels.append(iter(edges[onward]))
    return ()


def detail(cycle: tuple[Edge, ...]) -> str:
    """PostgreSQL's description of a deadlock, one line for each who waits."""
    return "\n".join(
        f"Process {edge.waiter.owner.pid} waits for {edge.waiter.mode.lock_name} on "
        f"{tags.described(edge.waiter.lock.tag, edge.waiter.owner.database_oid)}; "
        f"blocked by process {edge.blocker.pid}."
        for edge in cycle
    )


def detected(cycle: tuple[Edge, ...]) -> DeadlockDetected:
    """The error of the request that ends the cycle."""
    return DeadlockDetected("deadlock detected", detail=detail(cycle), hint="See server log for query details.")
