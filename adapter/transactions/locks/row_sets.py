"""Sets of row ids that may be large: a Python set while they are few, a compressed bitmap beyond, or all rows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from pyroaring import BitMap64

FEW = 256
"""Ids that are held in a set; an id takes 60 bytes there, and a fraction of one to eight in a bitmap."""


class RowSet:
    """A set of row ids. `everything`: it has all there are, whatever is added or taken away."""

    __slots__ = ("_few", "_many", "everything")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.everything = False
        self._few: set[int] = set()
        self._many: Any = None
        self.update(ids)

    def __contains__(self, row_id: int) -> bool:
        return self.everything or row_id in (self._few if self._many is None else self._many)

    def __len__(self) -> int:
        """How many are listed."""
        return len(self._few if self._many is None else self._many)

    def __iter__(self) -> Iterator[int]:
        """Those that are listed; ascending if they are many."""
        return iter(self._few if self._many is None else self._many)

    @property
    def is_large(self) -> bool:
        """Whether it is a bitmap, or everything."""
        return self._many is not None or self.everything

    def add(self, row_id: int) -> None:
        """Put one id in."""
        if self._many is not None:
            self._many.add(row_id)
            return
        self._few.add(row_id)
        if len(self._few) > FEW:
            self._enlarge()

    def discard(self, row_id: int) -> None:
        """Take one id out, if it is in."""
        (self._few if self._many is None else self._many).discard(row_id)

    def update(self, ids: Iterable[int] | np.ndarray[Any, Any] | RowSet) -> None:
        """Put many in."""
        if isinstance(ids, np.ndarray):
            if self._many is None and len(self._few) + len(ids) <= FEW:
                self._few.update(ids.tolist())
                return
            self._enlarge()
            self._many |= bitmap(ids)
        elif isinstance(ids, RowSet) and ids._many is not None:
            self._enlarge()
            self._many |= ids._many
        else:
            for row_id in ids:
                self.add(row_id)
        if isinstance(ids, RowSet):
            self.everything = self.everything or ids.everything

    def subtract(self, ids: RowSet) -> None:
        """Take out what `ids` lists."""
        if self._many is not None and ids._many is not None:
            self._many -= ids._many
        else:
            for row_id in ids:
                self.discard(row_id)

    def common(self, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Those of the ascending `ids` that are in the set, ascending."""
        if self.everything:
            return ids
        if self._many is not None:
            return np.asarray((bitmap(ids) & self._many).to_array(), dtype=np.int64)
        if not self._few:
            return ids[:0]
        own = np.fromiter(self._few, np.int64, len(self._few))
        return np.intersect1d(ids, own, assume_unique=True)

    def _enlarge(self) -> None:
        if self._many is None:
            self._many = BitMap64(self._few)
            self._few = set()


def bitmap(ids: np.ndarray[Any, Any] | Sequence[int]) -> Any:
    """A bitmap of these ids, none of which is negative."""
    return BitMap64(array("Q", np.ascontiguousarray(ids, dtype=np.int64).tobytes()))
