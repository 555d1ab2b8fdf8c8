"""Random sessions in short: whatever they do beside each other, while a server is killed, nothing is found."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.faults.audit.mutants import Mistake
from tests.faults.audit.run import Options
from tests.faults.long import LONG
from tests.faults.random_sessions import mutants
from tests.faults.random_sessions.run import random_sessions


@pytest.mark.parametrize(
    ("servers", "workers"), [(1, 1), pytest.param(2, 1, marks=LONG), pytest.param(1, 2, marks=LONG)]
)
def test_random_sessions_find_nothing_wrong(servers: int, workers: int, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    options = Options(seed=seed, servers=servers, workers=workers, clients=6, round_s=4.0, disturbed=True)
    found = random_sessions(options, tmp_path, csns=5)
    assert found.faults == (), f"seed {seed}"
    assert found.kills
    assert found.acknowledged


TRIES = 3
"""A mistake may need another seed to show."""


@LONG
@pytest.mark.parametrize("mistake", mutants.MISTAKES, ids=[mistake.name for mistake in mutants.MISTAKES])
def test_a_mistake_is_found(mistake: Mistake, tmp_path: Path) -> None:
    others: set[str] = set()
    for seed in range(TRIES):
        options = Options(
            seed=seed,
            clients=6,
            round_s=8.0,
            kills=False,
            disturbed=True,
            until_fault=True,
            mistake=mistake.name,
            mutants=mutants.__name__,
        )
        faults = random_sessions(options, tmp_path / str(seed), csns=3).faults
        if any(re.search(mistake.sign, fault) for fault in faults):
            return
        others.update(faults)
    raise AssertionError(f"not found in {TRIES} runs, only {sorted(others)}")
