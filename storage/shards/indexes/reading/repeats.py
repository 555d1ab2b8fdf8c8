"""Whether one of very many keys is there twice, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.keys import Keys, any_null, hashes, values_of
from storage.shards.indexes.reading.lookups import rising_bounds

AT_ONCE = 1 << 19
"""About so many hashes are sorted together."""

HASH_BITS = 64


def may_repeat(
    index: IndexDefinition,
    pieces: Sequence[Sequence[pa.Array]],
    keep: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
) -> bool:
    """Whether a key may be in two of `pieces`, or twice in one: False is certain; True is wrong when two of some
    hundred millions have the same hash by chance.

    `keep` puts an array of numbers elsewhere, and gives it back as one that needs no memory. Blocks.
    """
    bounds = sorted(rising_bounds(index, keys) for keys in pieces)
    if all(low <= high for low, high in bounds) and all(one[1] < other[0] for one, other in pairwise(bounds)):
        return False
    runs: list[Keys] = [keep(np.sort(_hashes(index, keys))) for keys in pieces]
    total = sum([len(run) for run in runs])
    # Hashes are spread evenly, so that equal ranges of them hold about as many.
    ranges = max(1, -(-total // AT_ONCE))
    limits = np.array([number * (1 << HASH_BITS) // ranges for number in range(1, ranges)], np.uint64)
    cuts = [[0, *np.searchsorted(run, limits).tolist(), len(run)] for run in runs]
    for number in range(ranges):
        near = np.sort(np.concatenate([run[at[number] : at[number + 1]] for run, at in zip(runs, cuts, strict=True)]))
        if (near[1:] == near[:-1]).any():
            return True
    return False


def _hashes(index: IndexDefinition, keys: Sequence[pa.Array]) -> Keys:
    """Those of the keys that can be equal to others."""
    values = values_of(index.columns, keys)
    found = hashes(values)
    null = None if index.nulls_not_distinct else any_null(values)
    return found if null is None else found[~null]
