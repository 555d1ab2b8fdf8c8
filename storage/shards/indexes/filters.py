"""Filters: whether a set of hashes may hold one, in ten bits for each (a split block Bloom filter).

A filter is blocks of 256 bits, eight words of 32. A hash's upper half chooses the block; its lower half, times one odd
number for each word, a bit in each word. So a hash costs one look at 32 bytes, and about one in a hundred that are
not in the set seems to be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from storage.shards.indexes.keys import Keys, Mask

BITS_PER_KEY = 10
BLOCK_BYTES = 32
SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
"""The odd numbers that Parquet's Bloom filters use."""

_U = np.uint64
_LOW = 0xFFFFFFFF


def filter_bytes(keys: int) -> int:
    """How long the filter of so many keys is."""
    return BLOCK_BYTES * max(1, -(-keys * BITS_PER_KEY // (8 * BLOCK_BYTES)))


def build(hashes: Keys) -> bytes:
    """The filter of `hashes`, which are in ascending order."""
    blocks = filter_bytes(len(hashes)) // BLOCK_BYTES
    words = np.zeros((blocks, 8), "<u4")
    if len(hashes):
        block = (hashes >> _U(32)) * _U(blocks) >> _U(32)
        # Ascending hashes have ascending blocks.
        starts = np.flatnonzero(np.concatenate(([True], block[1:] != block[:-1])))
        for number, bits in enumerate(_bits(hashes)):
            words[block[starts].astype(np.int64), number] = np.bitwise_or.reduceat(bits, starts)
    return words.tobytes()


def may_hold(data: bytes | memoryview, wanted: int) -> bool:
    """Whether the filter `data` may have been built with the hash `wanted`."""
    start = ((wanted >> 32) * (len(data) // BLOCK_BYTES) >> 32) * BLOCK_BYTES
    block = int.from_bytes(data[start : start + BLOCK_BYTES], "little")
    low = wanted & _LOW
    place = 0
    for salt in SALTS:
        if not block >> place + ((low * salt & _LOW) >> 27) & 1:
            return False
        place += 32
    return True


def may_hold_each(data: bytes | memoryview, wanted: Keys) -> Mask:
    """Which of the hashes `wanted` the filter may have been built with."""
    words = np.frombuffer(data, "<u4").reshape(-1, 8)
    block = ((wanted >> _U(32)) * _U(len(words)) >> _U(32)).astype(np.int64)
    found: Mask = np.ones(len(wanted), bool)
    for number, bits in enumerate(_bits(wanted)):
        found &= words[block, number] & bits != 0
    return found


def _bits(hashes: Keys) -> Iterator[npt.NDArray[np.uint32]]:
    low = hashes.astype(np.uint32)
    # Multiplied modulo 2**32.
    return (np.uint32(1) << (low * np.uint32(salt) >> np.uint32(27)) for salt in SALTS)
