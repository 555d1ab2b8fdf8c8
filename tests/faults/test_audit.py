"""The audit in short: nothing is found in the server as it is, and every mistake put into it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.faults.audit.mutants import MISTAKES, Mistake
from tests.faults.audit.run import Options, all_loads, audit
from tests.faults.long import LONG

TRIES = 4
"""A mistake may need another seed to show."""


@pytest.mark.parametrize(("servers", "workers"), [(1, 1), (2, 1), (1, 2)])
def test_clients_find_nothing_wrong_through_kills(servers: int, workers: int, tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    found = audit(Options(seed=seed, servers=servers, workers=workers, round_s=6.0), tmp_path)
    assert found.faults == (), f"seed {seed}"
    assert found.kills
    # More on a machine that does nothing else.
    assert found.looks >= 2
    did = {load for (load, _, outcome) in found.outcomes if outcome == "ok"}
    assert did == {load.name for load in all_loads()}


@pytest.mark.parametrize(
    ("servers", "workers"), [(1, 1), pytest.param(2, 1, marks=LONG), pytest.param(1, 2, marks=LONG)]
)
def test_clients_of_servers_that_are_replaced_lose_connections_and_nothing_else(
    servers: int, workers: int, tmp_path: Path
) -> None:
    seed = int.from_bytes(os.urandom(4))
    options = Options(seed=seed, servers=servers, workers=workers, clients=16, round_s=4.0, replaces=True)
    found = audit(options, tmp_path)
    assert found.faults == (), f"seed {seed}"
    assert found.replacements == servers
    assert any(outcome == "gone" for (_, _, outcome) in found.outcomes)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_is_found(mistake: Mistake, tmp_path: Path) -> None:
    others: set[str] = set()
    for seed in range(TRIES):
        options = Options(
            seed=seed,
            servers=mistake.servers,
            only=mistake.loads,
            kills=mistake.kills,
            until_fault=True,
            mistake=mistake.name,
        )
        faults = audit(options, tmp_path / str(seed)).faults
        if any(re.search(mistake.sign, fault) for fault in faults):
            return
        others.update(faults)
    raise AssertionError(f"not found in {TRIES} runs, only {sorted(others)}")
