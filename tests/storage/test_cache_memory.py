"""The caches' budget is dealt out once, and what is not used is given back."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

from storage.bounded_map import BoundedMap
from storage.cache_memory import AT_ONCE, CACHE_BYTES, aging, give_back_unused, share

ROOT = Path(__file__).resolve().parents[2]
GIVEN = re.compile(r"(?<!def )\bshare\((\d+)\)")
MAPS_OF = {"MAX_BYTES = share(32)": 2}
"""Shares that two maps have each."""


def test_the_shares_are_no_more_than_the_budget() -> None:
    given = Fraction(0)
    for storey in ("storage", "adapter", "frontend"):
        for file in (ROOT / storey).rglob("*.py"):
            for line in file.read_text().splitlines():
                given += sum(MAPS_OF.get(line, 1) * Fraction(1, int(of)) for of in GIVEN.findall(line))
    assert Fraction(1, 2) < given <= 1
    assert share(4) == CACHE_BYTES // 4


def test_processes_of_one_server_divide_the_budget_among_them_before_it_is_dealt_out() -> None:
    code = """if True:
        from storage import cache_memory
        cache_memory.divide_among(4)
        from storage.shards import part_store
        from adapter.engines.spark import plans
        assert part_store.CACHE_BYTES == cache_memory.CACHE_BYTES // 16
        assert plans.MAX_BYTES == 16 << 20
        cache_memory.divide_among(4)
        try:
            cache_memory.divide_among(1)
        except RuntimeError:
            print("too late")
    """
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.stdout == "too late\n", run.stderr


async def test_what_is_not_used_is_given_back_within_two_rounds() -> None:
    cache: BoundedMap[int, bytes] = aging(BoundedMap(max_bytes=1 << 20))
    for number in range(3 * AT_ONCE):
        cache.put(number, b"", 100)
    await give_back_unused()
    assert len(cache) == 3 * AT_ONCE
    cache.touch(7)
    await give_back_unused()
    assert cache.bytes <= (1 << 20) // 32
    assert 7 in cache


async def test_a_cache_that_is_gone_is_not_asked() -> None:
    cache: BoundedMap[int, bytes] = aging(BoundedMap(max_bytes=100))
    cache.put(1, b"")
    del cache
    gc.collect()
    await give_back_unused()
