"""MurmurHash3, the variant for 32 bits on x86 with seed 0, of many values at a time: what Iceberg's buckets are.

After the algorithm of Austin Appleby, which is in the public domain.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Hashes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

_C1 = np.uint32(0xCC9E2D51)
_C2 = np.uint32(0x1B873593)


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def hashes_of_rows(rows: Bytes) -> Hashes:
    """The hash of each row of a matrix of bytes: of values that all have the same length."""
    count, length = rows.shape
    found: Hashes = np.zeros(count, np.uint32)
    blocks = length // 4
    if blocks:
        words = np.ascontiguousarray(rows[:, : blocks * 4]).view("<u4")
        for number in range(blocks):
            found ^= _rotated(words[:, number] * _C1, 15) * _C2
            found = _rotated(found, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    if length % 4:
        rest: Hashes = np.zeros(count, np.uint32)
        for place in range(length - 1, blocks * 4 - 1, -1):
            rest = (rest << np.uint32(8)) | rows[:, place].astype(np.uint32)
        found ^= _rotated(rest * _C1, 15) * _C2
    found ^= np.uint32(length)
    found ^= found >> np.uint32(16)
    found *= np.uint32(0x85EBCA6B)
    found ^= found >> np.uint32(13)
    found *= np.uint32(0xC2B2AE35)
    found ^= found >> np.uint32(16)
    return found


def hashes_of_slices(data: Bytes, starts: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> Hashes:
    """The hash of each of the values that lie in `data` from `starts` on."""
    found: Hashes = np.zeros(len(starts), np.uint32)
    for length in np.unique(lengths).tolist():
        at = np.flatnonzero(lengths == length)
        found[at] = hashes_of_rows(data[starts[at][:, None] + np.arange(length)])
    return found
