"""Memory that is free in this process, given back to the system.

What a large statement frees stays with the allocators: in pages that glibc's heap keeps between two blocks that are in
use, in the heaps of threads, in Arrow's pool. `configure` tells them at the start to keep less; `give_back` makes them
return what they have. On systems whose C library has no such calls both do what is possible.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""

TRIM_BYTES = 32 * 1024 * 1024
"""So much free memory at the end of a heap goes back at once."""

MAPPED_BYTES = 4 * 1024 * 1024
"""Blocks of so many bytes are mapped by themselves, and unmapped when they are freed. Left alone, glibc raises this to
32 MiB once such blocks are freed, and then they lie in its heaps, with others on top of them."""

ARENAS = 4
"""Heaps that threads share: each keeps what was free in it for its own threads."""


@cache
def _glibc() -> Any:
    """The C library, when it is glibc; else None."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def configure() -> None:
    """Tell the C library's allocator to keep less: at the start of a process, before its threads start."""
    library = _glibc()
    if library is not None:
        for parameter, value in (
            (_M_MMAP_THRESHOLD, MAPPED_BYTES),
            (_M_TRIM_THRESHOLD, TRIM_BYTES),
            (_M_ARENA_MAX, ARENAS),
        ):
            library.mallopt(parameter, value)


def give_back() -> None:
    """Return what is free to the system; blocks for some milliseconds, during which other threads may have to wait for
    memory but can run."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    library = _glibc()
    if library is not None:
        # ctypes lets other threads run meanwhile.
        library.malloc_trim(0)


def let_go(mapped: Sequence[mmap.mmap]) -> None:
    """Give the pages of mapped files back: the next look at one finds it in the system's cache, or reads it."""
    for file in mapped:
        file.madvise(mmap.MADV_DONTNEED)


def anonymous_bytes() -> int:
    """The memory of this process that is in no file, in bytes; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
