"""A newer version writes the old formats until all servers have moved; an older one refuses what it cannot read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.durable.formats import UNGATED, FormatGate, FormatNotYet, OlderServers, finish_upgrade
from storage.durable.state import DurableState
from storage.errors import NewerFormat
from storage.stores.blob import Blob
from tests.storage.durable.test_durable import Log

OLD, NEW = UNGATED, UNGATED + 1


class NewLog(Log):
    """Whose diff "new" needs the new format."""

    def format_of_diff(self, diff: str) -> int:
        return NEW if diff == "new" else OLD

    def format_of_state(self, state: tuple[str, ...]) -> int:
        return NEW if "new" in state else OLD


def gate(consensus: MemoryConsensus, process: str, known: int, made_with: int = OLD) -> FormatGate:
    return FormatGate(consensus, ManualClock(), process, made_with, known)


def at_work(*names: str) -> Callable[[], Awaitable[Collection[str]]]:
    async def found() -> Collection[str]:
        return names

    return found


def state_on(consensus: MemoryConsensus, blob: Blob, through: FormatGate) -> DurableState[tuple[str, ...], str]:
    return DurableState(
        "log",
        NewLog(),
        consensus=consensus,
        blob=blob,
        clock=ManualClock(),
        random=SeededRandomness(1),
        writer="w",
        gate=through,
    )


async def test_the_new_format_is_written_when_all_have_moved() -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    old, new = gate(consensus, "old", OLD), gate(consensus, "new", NEW)
    await old.enter()
    await new.enter()
    state = state_on(consensus, blob, new)
    await state.update(lambda _: "a")
    with pytest.raises(FormatNotYet, match=f"format {NEW}, and format {OLD} is the newest.*finish-upgrade"):
        await state.update(lambda _: "new")
    assert list(state.state) == ["a"]
    with pytest.raises(OlderServers, match=r"\(old\)"):
        await finish_upgrade(consensus, ManualClock(), at_work("old", "new"), made_with=OLD, known=NEW)
    # One that has never said what it knows is of before there was a gate.
    with pytest.raises(OlderServers, match=r"\(silent\)"):
        await finish_upgrade(consensus, ManualClock(), at_work("silent", "new"), made_with=OLD, known=NEW)
    with pytest.raises(FormatNotYet):
        await state.update(lambda _: "new")
    assert await finish_upgrade(consensus, ManualClock(), at_work("new"), made_with=OLD, known=NEW) == NEW
    await state.update(lambda _: "new")
    assert list(state.state) == ["a", "new"]
    with pytest.raises(NewerFormat, match=f"moved to format {NEW}.*up to {OLD}; upgrade Tidegate"):
        await gate(consensus, "old again", OLD).enter()
    with pytest.raises(NewerFormat):
        await finish_upgrade(consensus, ManualClock(), at_work(), made_with=OLD, known=OLD)


async def test_an_environment_of_the_new_version_needs_no_upgrade() -> None:
    consensus = MemoryConsensus()
    new = gate(consensus, "new", NEW, made_with=NEW)
    await new.enter()
    await new.require(NEW)
    assert await finish_upgrade(consensus, ManualClock(), at_work("new"), made_with=NEW, known=NEW) == NEW


async def test_processes_that_have_ended_are_forgotten_at_last() -> None:
    consensus = MemoryConsensus()
    for number in range(300):
        await gate(consensus, f"p{number}", NEW).enter()
    data = await consensus.head("formats")
    assert data is not None
    assert data.data.count(b":7") == 256


async def test_of_one_that_comes_and_an_upgrade_that_is_finished_one_is_first() -> None:
    """It enters while somebody is told that nobody older is at work."""
    consensus = MemoryConsensus()
    await gate(consensus, "new", NEW).enter()
    with_lease: list[str] = []

    async def meanwhile() -> Collection[str]:
        told = tuple(with_lease)
        if not told:
            with_lease.append("old")
            await gate(consensus, "old", OLD).enter()
        return told

    with pytest.raises(OlderServers, match=r"\(old\)"):
        await finish_upgrade(consensus, ManualClock(), meanwhile, made_with=OLD, known=NEW)
    assert await finish_upgrade(consensus, ManualClock(), at_work(), made_with=OLD, known=NEW) == NEW
    for refused in (gate(consensus, "late", OLD).check(), gate(consensus, "late", OLD).enter()):
        with pytest.raises(NewerFormat, match="upgrade Tidegate"):
            await refused


async def test_a_process_reads_no_format_that_it_does_not_know() -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    old, new = gate(consensus, "old", OLD), gate(consensus, "new", NEW, made_with=NEW)
    reading, writing = state_on(consensus, blob, old), state_on(consensus, blob, new)
    await writing.update(lambda _: "a")
    await reading.refresh()
    await writing.update(lambda _: "new")
    with pytest.raises(NewerFormat, match=f"diff 2 of log has format {NEW}.*up to {OLD}; upgrade Tidegate"):
        await reading.refresh()
