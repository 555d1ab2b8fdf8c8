"""The keys that a statement of many rows has written itself, to tell whether it proposes one of them again.

A key is a tuple of Python's values. The latest ones are kept as they are; beyond the budget 16 bytes of each, its
digest by BLAKE2, in sorted runs in temporary files. Two keys of one digest do not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from hashlib import blake2b
from typing import Any

import numpy as np

from adapter.spilling.temporary_files import TemporaryFiles

KEY_BYTES = 256
"""What a key takes in memory, about: a tuple, its values, and its place in a set."""

MOST_RUNS = 8
"""More are merged: each of them is searched."""

DIGEST = np.dtype("S16")

_EXACT = Context(prec=200_000)
"""Of more digits than a number can have."""


class WrittenKeys:
    """See the module. `None` stands for a row without a key, which is never there. Blocks."""

    def __init__(self, files: TemporaryFiles, keys: set[Any]) -> None:
        """`keys` have been written before; the set is used from now on."""
        self._files = files
        self._recent = keys
        self._runs: list[np.ndarray[Any, Any]] = []
        self._met: set[Any] = set()

    def look_for(self, keys: Sequence[Any]) -> None:
        """These may be asked for until the next call: find out which of them are in files."""
        if len(self._recent) * KEY_BYTES > self._files.memory_bytes:
            self._spill()
        self._met = set()
        if self._runs:
            wanted = _digests(keys)
            there = np.zeros(len(wanted), bool)
            for run in self._runs:
                at = np.minimum(np.searchsorted(run, wanted), len(run) - 1)
                there |= run[at] == wanted
            self._met = {keys[number] for number in np.flatnonzero(there).tolist()}

    def __contains__(self, key: Any) -> bool:
        return key in self._recent or key in self._met

    def add(self, key: Any) -> None:
        """The statement has written it."""
        self._recent.add(key)

    def _spill(self) -> None:
        run = np.sort(_digests(list(self._recent)))
        if len(self._runs) == MOST_RUNS:
            run = np.sort(np.concatenate([run, *self._runs]))
            self._runs = []
        self._runs.append(self._files.keep_numbers(run))
        self._recent = set()


def _digests(keys: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Of texts that are the same for equal keys, and only for those."""
    if {type(value) for key in keys if key is not None for value in key}.isdisjoint((float, Decimal)):
        texts = [repr(key) for key in keys]
    else:
        texts = [repr(None if key is None else tuple(map(_normal, key))) for key in keys]
    return np.array([blake2b(text.encode(), digest_size=16).digest() for text in texts], DIGEST)


def _normal(value: Any) -> Any:
    if isinstance(value, Decimal):
        return value.normalize(_EXACT) if value else Decimal()
    return 0.0 if isinstance(value, float) and value == 0 else value
