"""Commit sequence numbers: the one timestamp of the system.

A `Csn` is a 64-bit hybrid logical clock: 48 bits of Unix milliseconds and a 16-bit counter. CSNs are totally
ordered, never reused and never go back.
"""

from __future__ import annotations

from typing import NewType

Csn = NewType("Csn", int)

COUNTER_BITS = 16
COUNTER_MASK = (1 << COUNTER_BITS) - 1


def csn_from_ms(unix_ms: int, counter: int = 0) -> Csn:
    """The CSN of a moment in Unix milliseconds and a counter within it (0 to 65,535)."""
    return Csn((unix_ms << COUNTER_BITS) | (counter & COUNTER_MASK))


def csn_ms(csn: Csn) -> int:
    """The Unix milliseconds of `csn`."""
    return csn >> COUNTER_BITS


def csn_counter(csn: Csn) -> int:
    """The counter of `csn` within its millisecond."""
    return csn & COUNTER_MASK
