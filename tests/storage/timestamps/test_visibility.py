"""Ordered visibility: what is published when, whoever finishes first."""

from __future__ import annotations

import itertools

import pytest
from structlog.testing import capture_logs

from storage.doubles.clock import ManualClock
from storage.timestamps.csn import Csn, csn_counter, csn_from_ms, csn_ms
from storage.timestamps.hlc import HybridLogicalClock
from storage.timestamps.visibility import PublishQueue


async def queue_of(*csns: int) -> PublishQueue:
    queue = PublishQueue(Csn(0))
    for csn in csns:
        queue.acquire(Csn(csn))
    return queue


async def test_a_later_commit_waits_for_an_earlier_one() -> None:
    queue = await queue_of(5, 6)
    waiter = queue.publish(Csn(6))
    assert waiter is not None
    assert queue.visible == 0
    assert queue.publish(Csn(5)) is None
    assert waiter.done()
    assert queue.visible == 6
    assert queue.pending == ()


async def test_an_abandoned_head_releases_those_behind_it() -> None:
    queue = await queue_of(5, 6, 7)
    waiter = queue.publish(Csn(6))
    queue.abandon(Csn(5))
    assert waiter is not None
    assert waiter.done()
    assert queue.visible == 6
    queue.abandon(Csn(7))
    assert queue.visible == 6
    assert queue.pending == ()


async def test_an_abandoned_csn_is_never_visible_by_itself() -> None:
    queue = await queue_of(5)
    queue.abandon(Csn(5))
    assert queue.visible == 0


async def test_publishing_and_abandoning_are_idempotent() -> None:
    queue = await queue_of(5, 6)
    first, second = queue.publish(Csn(6)), queue.publish(Csn(6))
    queue.abandon(Csn(6))
    queue.abandon(Csn(99))
    queue.publish(Csn(5))
    queue.abandon(Csn(5))
    assert first is not None
    assert second is not None
    assert first.done()
    assert second.done()
    assert queue.visible == 6
    assert queue.publish(Csn(5)) is None


async def test_a_commit_of_another_process_takes_its_place() -> None:
    queue = await queue_of(5, 9)
    waiter = queue.publish(Csn(7))
    assert queue.pending == (5, 7, 9)
    queue.publish(Csn(5))
    assert waiter is not None
    assert waiter.done()
    assert queue.visible == 7


async def test_a_cancelled_waiter_disturbs_nobody() -> None:
    queue = await queue_of(5, 6)
    waiter = queue.publish(Csn(6))
    assert waiter is not None
    waiter.cancel()
    queue.publish(Csn(5))
    assert queue.visible == 6


async def test_a_csn_is_acquired_once_and_before_it_is_passed() -> None:
    queue = await queue_of(5, 3)
    assert queue.pending == (3, 5)
    with pytest.raises(ValueError, match="acquired before"):
        queue.acquire(Csn(5))
    queue.publish(Csn(3))
    with pytest.raises(ValueError, match="too late"):
        queue.acquire(Csn(2))


async def test_every_order_of_completion_keeps_the_rule() -> None:
    csns = (1, 2, 3, 4)
    for order in itertools.permutations(csns):
        for fates in itertools.product((True, False), repeat=len(csns)):
            queue = await queue_of(*csns)
            done: set[int] = set()
            for csn in order:
                if fates[csn - 1]:
                    queue.publish(Csn(csn))
                else:
                    queue.abandon(Csn(csn))
                done.add(csn)
                complete = list(itertools.takewhile(done.__contains__, csns))
                assert queue.visible == max((c for c in complete if fates[c - 1]), default=0)
            assert queue.pending == ()


def test_csns_follow_the_clock_and_the_counter_orders_within_a_millisecond() -> None:
    clock = ManualClock(1_000)
    hlc = HybridLogicalClock(clock)
    first, second = hlc.tick(), hlc.tick()
    assert (csn_ms(first), csn_counter(first), csn_counter(second)) == (1_000, 0, 1)
    clock.advance(5)
    assert hlc.tick() == csn_from_ms(1_005)


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_jumps_never_breaks_order(jump_ms: int) -> None:
    clock = ManualClock()
    hlc = HybridLogicalClock(clock)
    ticks = [hlc.tick()]
    with capture_logs() as told:
        clock.advance(5_000)
        ticks.append(hlc.tick())
        assert told == []
        clock.jump(jump_ms)
        ticks += [hlc.tick(), hlc.tick()]
        clock.jump(-jump_ms)
        ticks += [hlc.tick(), hlc.tick()]
    assert ticks == sorted(set(ticks))
    assert hlc.jumps == 2
    assert [entry["seconds"] for entry in told] == [jump_ms / 1000, -jump_ms / 1000]
    assert all("the system clock jumped" in entry["event"] for entry in told)


def test_a_full_counter_borrows_the_next_millisecond() -> None:
    clock = ManualClock(1_000)
    hlc = HybridLogicalClock(clock, start=csn_from_ms(1_000, 65_535))
    assert hlc.tick() == csn_from_ms(1_001)
