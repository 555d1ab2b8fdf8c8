"""What this process may use of the machine: processors, memory and disk, as the system and its control group say."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct

from storage.cache_memory import portion

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMINFO = Path("/proc/meminfo")

UNKNOWN_MEMORY = 4 << 30
"""What is taken for granted where the system does not say how much memory there is."""


class Machine(Struct, frozen=True, kw_only=True):
    """Processors, and bytes of memory, for this process and all that runs beside it."""

    cores: int
    memory: int


def this_machine() -> Machine:
    """What the workers of this server have together."""
    return Machine(cores=_cores(), memory=_memory())


def own_part(size: int) -> int:
    """This process's part of `size` bytes that all workers of the server have together."""
    return portion(size)


def free_disk(folder: Path) -> int:
    """Bytes that are free where `folder` is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _cores() -> int:
    """Processors that this process may run on, less what its control group does not give it."""
    affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = _text(_CGROUP_QUOTA).split()
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        return max(1, min(affine, round(int(words[0]) / int(words[1]))))
    return affine


def _memory() -> int:
    """Bytes of memory: the machine's, or the limit of the control group where that is less."""
    total = UNKNOWN_MEMORY
    for line in _text(_MEMINFO).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            total = int(rest.split()[0]) * 1024
    limits = [int(text) for path in _CGROUP_LIMITS if (text := _text(path).strip()).isdigit()]
    return min([total, *limits])


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
