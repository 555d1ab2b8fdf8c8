"""The fault injection itself: each fate has its error and its effect, and seeds reproduce."""

from __future__ import annotations

import pytest

from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import FaultRates, Faults, UnreliableBlob, UnreliableConsensus
from storage.errors import Determinate, Indeterminate, StoreTimeout, StoreUnavailable
from storage.stores.consensus import SeqNo, VersionedData


def faults(rates: FaultRates, seed: int = 1) -> Faults:
    return Faults(rates=rates, randomness=SeededRandomness(seed), clock=ManualClock())


FIRST = VersionedData(seqno=SeqNo(1), data=b"x")


@pytest.mark.parametrize(
    ("rates", "error", "happened"),
    [
        (FaultRates(fail_before=1.0), Determinate, False),
        (FaultRates(unknown_before=1.0), Indeterminate, False),
        (FaultRates(unknown_after=1.0), Indeterminate, True),
    ],
    ids=["fail_before", "unknown_before", "unknown_after"],
)
async def test_each_fate(rates: FaultRates, error: type[Exception], happened: bool) -> None:
    consensus, blob = MemoryConsensus(), MemoryBlob()
    with pytest.raises(error):
        await UnreliableConsensus(consensus, faults(rates)).compare_and_set("k", None, FIRST)
    with pytest.raises(error):
        await UnreliableBlob(blob, faults(rates)).put_if_absent("k", b"x")
    assert (await consensus.head("k") == FIRST) is happened
    assert (await blob.get("k") == b"x") is happened
    with pytest.raises(Determinate):
        await UnreliableConsensus(consensus, faults(rates)).head("k")


async def outcomes(seed: int) -> list[str]:
    consensus = UnreliableConsensus(
        MemoryConsensus(), faults(FaultRates(fail_before=0.2, unknown_before=0.2, unknown_after=0.2), seed)
    )
    trace = []
    for n in range(50):
        try:
            trace.append(str(await consensus.compare_and_set(f"k{n}", None, FIRST)))
        except (StoreTimeout, StoreUnavailable) as error:
            trace.append(str(error))
    return trace


async def test_the_same_seed_injects_the_same_faults() -> None:
    assert await outcomes(7) == await outcomes(7)
    assert await outcomes(7) != await outcomes(8)


def test_rates_are_probabilities() -> None:
    with pytest.raises(ValueError, match="not probabilities"):
        FaultRates(fail_before=0.7, unknown_after=0.7)
