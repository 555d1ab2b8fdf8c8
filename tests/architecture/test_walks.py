"""How far a statement walks: what a repeated one crosses, and how often it comes back to where it has been."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.walks import WALKS, Walk, climbs, common, returns

# What a newcomer can follow. A number may go down.
MOST_BOUNDARIES = {"SELECT": 60, "INSERT ... SELECT": 95}
MOST_RETURNS = {"SELECT": 13, "INSERT ... SELECT": 31}


@pytest.fixture(scope="module")
def walks() -> dict[str, dict[str, Walk]]:
    command = [sys.executable, str(Path(__file__).with_name("walks.py")), "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    found: dict[str, dict[str, Walk]] = json.loads(said)
    for walk in (walk for temperatures in found.values() for walk in temperatures.values()):
        walk["boundaries"] = [(caller, called) for caller, called in walk["boundaries"]]
    return found


@pytest.mark.parametrize("statement", WALKS)
def test_a_repeated_statement_crosses_few_boundaries(walks: dict[str, dict[str, Walk]], statement: str) -> None:
    walk = walks[statement]["hot"]
    assert len(walk["boundaries"]) <= MOST_BOUNDARIES[statement]
    assert returns(walk) <= MOST_RETURNS[statement]


@pytest.mark.parametrize("statement", WALKS)
def test_no_storey_calls_back_up(walks: dict[str, dict[str, Walk]], statement: str) -> None:
    assert climbs(walks[statement]["cold"]) == []


@pytest.mark.parametrize("statement", WALKS)
def test_a_walk_goes_from_the_message_to_the_stores(walks: dict[str, dict[str, Walk]], statement: str) -> None:
    """What is counted is a whole walk: the profiler sees coroutines, tasks and threads."""
    cold, hot = walks[statement]["cold"], walks[statement]["hot"]
    for walk, storeys in ((cold, {"frontend", "adapter", "planner", "storage"}), (hot, {"frontend", "adapter"})):
        assert walk["modules"][0] == "frontend.connections.channel"
        assert storeys <= {module.split(".")[0] for module in walk["modules"]}
        assert {module for pair in walk["boundaries"] for module in pair} <= set(walk["modules"])
    assert len(hot["boundaries"]) < len(cold["boundaries"])
    assert set(hot["modules"]) >= {"frontend.protocol.codec", "adapter.engines.local.engine"}


def test_the_counts() -> None:
    walk = Walk(
        boundaries=[("frontend.a", "adapter.b"), ("adapter.b", "storage.c"), ("storage.c", "adapter.b")],
        modules=["frontend.a", "adapter.b", "storage.c"],
    )
    assert returns(walk) == 0
    assert climbs(walk) == [("storage.c", "adapter.b")]
    shorter = Walk(boundaries=walk["boundaries"][1::-1], modules=["adapter.b", "frontend.a"])
    assert common([walk, shorter, shorter]) == shorter
