"""Durable state: indeterminate appends happen once, damage and newer formats are refused, rollups bound history."""

from __future__ import annotations

import asyncio

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.durable import state as durable_module
from storage.durable.state import BASE_FORMAT, FORMAT_VERSION, Abandon, DurableState, framed, unframed
from storage.errors import (
    CorruptState,
    Determinate,
    Indeterminate,
    MissingBlob,
    NewerFormat,
    StoreTimeout,
    StoreUnavailable,
)
from storage.stores.consensus import SeqNo, VersionedData


class Log:
    """A machine whose state is the tuple of everything appended."""

    def initial(self) -> tuple[str, ...]:
        return ()

    def apply(self, state: tuple[str, ...], diff: str) -> tuple[str, ...]:
        if diff == "misfit":
            raise ValueError("it does not fit")
        return (*state, diff)

    def encode_diff(self, diff: str) -> bytes:
        return diff.encode()

    def decode_diff(self, data: bytes) -> str:
        return data.decode()

    def format_of_diff(self, diff: str) -> int:
        return FORMAT_VERSION if diff == "new" else BASE_FORMAT

    def format_of_state(self, state: tuple[str, ...]) -> int:
        return FORMAT_VERSION if "new" in state else BASE_FORMAT

    def encode_state(self, state: tuple[str, ...]) -> bytes:
        return "\n".join(state).encode()

    def decode_state(self, data: bytes) -> tuple[str, ...]:
        return tuple(data.decode().split("\n")) if data else ()


class Flaky(MemoryConsensus):
    """Fails compare-and-sets as its script says: ``before``, ``after`` taking effect, or not."""

    def __init__(self) -> None:
        super().__init__()
        self.script: list[str] = []
        self.attempts = 0

    async def compare_and_set(self, key: str, expected_seqno: SeqNo | None, new: VersionedData) -> bool:
        self.attempts += 1
        step = self.script.pop(0) if self.script else "ok"
        if step == "unavailable":
            raise StoreUnavailable("no route")
        if step == "before":
            raise StoreTimeout("no answer")
        result = await super().compare_and_set(key, expected_seqno, new)
        if step == "after":
            raise StoreTimeout("no answer")
        return result


class Instant(ManualClock):
    """Sleeping takes no time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def state_on(consensus: MemoryConsensus, blob: MemoryBlob, seed: int = 1) -> DurableState[tuple[str, ...], str]:
    return DurableState(
        "log",
        Log(),
        consensus=consensus,
        blob=blob,
        clock=Instant(),
        random=SeededRandomness(seed),
        writer=f"w{seed}",
    )


async def add(state: DurableState[tuple[str, ...], str], text: str) -> None:
    await state.update(lambda _: text)


@pytest.mark.parametrize(
    "script",
    [["before"], ["after"], ["before", "after"], ["after", "before", "before"], ["unavailable", "after"]],
)
async def test_an_indeterminate_append_happens_once(script: list[str]) -> None:
    consensus, blob = Flaky(), MemoryBlob()
    state = state_on(consensus, blob)
    await add(state, "a")
    consensus.script = list(script)
    await add(state, "b")
    await add(state, "c")
    assert state.state == ("a", "b", "c")
    assert await state_on(consensus, blob).refresh() == ("a", "b", "c")


async def test_another_writers_entry_is_not_taken_for_ours() -> None:
    consensus, blob = Flaky(), MemoryBlob()
    one, two = state_on(consensus, blob, 1), state_on(consensus, blob, 2)
    await add(one, "a")
    await two.refresh()
    await add(two, "b")
    consensus.script = ["before"]
    await add(one, "c")
    assert one.state == ("a", "b", "c")


async def test_failures_keep_their_kind() -> None:
    consensus, blob = Flaky(), MemoryBlob()
    state = state_on(consensus, blob)
    consensus.script = ["unavailable"] * 100
    with pytest.raises(Determinate):
        await add(state, "a")
    consensus.script = ["before", *["unavailable"] * 100]
    with pytest.raises(Indeterminate):
        await add(state, "a")
    consensus.script = []
    await add(state, "b")
    assert state.state == ("b",)


async def test_a_diff_that_does_not_fit_never_becomes_durable() -> None:
    consensus, blob = Flaky(), MemoryBlob()
    state = state_on(consensus, blob)
    with pytest.raises(ValueError, match="does not fit"):
        await add(state, "misfit")
    assert consensus.attempts == 0


async def test_abandon_writes_nothing() -> None:
    consensus = Flaky()
    state = state_on(consensus, MemoryBlob())
    result = await state.update(lambda _: Abandon("no"))
    assert isinstance(result, Abandon)
    assert result.value == "no"
    assert consensus.attempts == 0


async def test_concurrent_writers_all_get_in_once() -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    states = [state_on(consensus, blob, n) for n in range(4)]
    await asyncio.gather(*(add(state, f"{n}.{i}") for i in range(20) for n, state in enumerate(states)))
    final = await states[0].refresh()
    assert len(final) == len(set(final)) == 80
    for state in states:
        assert await state.refresh() == final


@pytest.mark.parametrize("large", [False, True])
async def test_rollups_bound_the_history(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(durable_module, "INLINE_ROLLUP_BYTES", 10)
    consensus, blob = MemoryConsensus(), MemoryBlob()
    state, late = state_on(consensus, blob, 1), state_on(consensus, blob, 2)
    await add(state, "first")
    await late.refresh()
    expected = ["first"]
    for n in range(1000):
        await add(state, str(n))
        expected.append(str(n))
        if state.rollup_due():
            await state.roll_up()
    assert len(await consensus.scan("log", SeqNo(1))) <= 2 * durable_module.ROLLUP_MIN_DIFFS + 4
    assert await state_on(consensus, blob, 3).refresh() == tuple(expected)
    # One that fell behind the truncation finds its way, and writes again.
    assert await late.refresh() == tuple(expected)
    await add(late, "late")
    assert (await state.refresh())[-1] == "late"


async def test_a_missing_rollup_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_module, "INLINE_ROLLUP_BYTES", 10)
    consensus, blob = MemoryConsensus(), MemoryBlob()
    state = state_on(consensus, blob)
    for n in range(300):
        await add(state, str(n))
        if state.rollup_due():
            await state.roll_up()
    key = state.rollup_key
    assert key is not None
    await blob.delete(key)
    with pytest.raises(MissingBlob, match=key):
        await state_on(consensus, blob, 2).refresh()


@pytest.mark.parametrize("damage", ["flip", "truncate", "foreign"])
async def test_damaged_diffs_are_refused(damage: str) -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    data = framed(b"payload that is long enough")
    broken = {"flip": data[:-1] + b"X", "truncate": data[:3], "foreign": framed(b"not an entry")}[damage]
    await consensus.compare_and_set("log", None, VersionedData(seqno=SeqNo(1), data=broken))
    with pytest.raises(CorruptState, match="diff 1 of log"):
        await state_on(consensus, blob).refresh()


async def test_newer_formats_are_refused_with_what_to_do() -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    data = framed(b"anything")
    newer = bytes([FORMAT_VERSION + 1]) + data[1:]
    await consensus.compare_and_set("log", None, VersionedData(seqno=SeqNo(1), data=newer))
    with pytest.raises(NewerFormat, match="upgrade Tidegate"):
        await state_on(consensus, blob).refresh()


async def test_a_server_of_the_version_before_goes_on_until_something_new_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    writer = state_on(consensus, blob)
    await writer.update(lambda _: "old")
    await writer.roll_up()
    monkeypatch.setattr(durable_module, "FORMAT_VERSION", BASE_FORMAT)
    before = state_on(consensus, blob)
    assert await before.refresh() == ("old",)
    await writer.update(lambda _: "new")
    with pytest.raises(NewerFormat, match=f"diff 3 of log has format {FORMAT_VERSION}.*upgrade Tidegate"):
        await before.refresh()
    # Nor can it miss it when the diff is gone, and a rollup tells.
    await writer.roll_up()
    await writer.roll_up()
    with pytest.raises(NewerFormat, match="upgrade Tidegate"):
        await state_on(consensus, blob).refresh()


def test_sealing() -> None:
    assert unframed(framed(b"x"), "it") == b"x"
