"""The storage layer under simulation: many seeds without a broken invariant, and equal seeds with equal traces.

What fails here fails again with the command that the output names: a run depends on its seed alone, also where sets and
maps are gone through, whose order Python draws anew for each process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEEDS_PER_TEST = 15


def simulate(*arguments: str, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )


@pytest.mark.parametrize("first", range(0, 30, SEEDS_PER_TEST))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    result = simulate("--first", str(first), "--seeds", str(SEEDS_PER_TEST), "--workers", "2")
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    # The runs did something: work, faults and crashes.
    summary = {name: int(n) for n, name in re.findall(r"(\d+) (committed|failed|kills|faults)", result.stdout)}
    assert summary["committed"] > 20 * SEEDS_PER_TEST
    assert summary["kills"] > SEEDS_PER_TEST
    assert summary["faults"] > SEEDS_PER_TEST


@pytest.mark.parametrize("seed", [3])
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    runs = [simulate("--seed", str(seed), hash_seed=hash_seed) for hash_seed in ("1", "2")]
    digests = {re.findall(r"digest='(\w+)'", run.stdout)[0] for run in runs}
    assert len(digests) == 1
    other = re.findall(r"digest='(\w+)'", simulate("--seed", str(seed + 1)).stdout)
    assert set(other).isdisjoint(digests)
