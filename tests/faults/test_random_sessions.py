"""Random sessions in short: whatever they do beside each other, while a server is killed, nothing is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.audit.run import Options
from tests.faults.random_sessions.run import random_sessions


@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (2, 1), (1, 2)])
def test_random_sessions_find_nothing_wrong(servers: int, workers: int, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    options = Options(seed=seed, servers=servers, workers=workers, clients=6, round_s=4.0, disturbed=True)
    found = random_sessions(options, tmp_path, csns=5)
    assert found.faults == (), f"seed {seed}"
    assert found.kills
    assert found.acknowledged
