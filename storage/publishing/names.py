"""Files by digests of their locations, so that those of very many can be remembered: sorted arrays, 16 bytes a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

Names: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.bytes_]]"

_DIGEST_BYTES = 15
_END = b"."
"""Arrays of bytes leave out zeros at the end: no name ends with one."""

_TYPE = f"S{_DIGEST_BYTES + len(_END)}"


def name_of(location: str) -> bytes:
    """What stands for the file at `location`."""
    return hashlib.blake2b(location.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest() + _END


def names_of(locations: Iterable[str]) -> Names:
    """What stands for the files at `locations`, sorted."""
    return np.sort(np.array([name_of(location) for location in locations], _TYPE))


def joined(names: Iterable[Names]) -> Names:
    """All of them, sorted."""
    return np.sort(np.concatenate([np.empty(0, _TYPE), *names]))


def are_in(names: Names, others: Names) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which of `names` are among `others`, which are sorted."""
    if not len(others):
        return np.zeros(len(names), np.bool_)
    at = np.minimum(np.searchsorted(others, names), len(others) - 1)
    found: np.ndarray[Any, np.dtype[np.bool_]] = others[at] == names
    return found
