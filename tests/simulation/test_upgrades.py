"""Servers of two versions under simulation: without a mistake they go together, and mistakes of the gate are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from storage.durable import formats
from storage.durable.formats import FormatGate
from tests.simulation import versions
from tests.simulation.run import run
from tests.simulation.test_bites import busy, first_problem

UPGRADES = range(6)


def writes_what_only_new_servers_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer server writes its formats whoever is at work."""

    async def allows(self: FormatGate, format: int) -> bool:
        return True

    monkeypatch.setattr(FormatGate, "allows", allows)


def finishes_beside_old_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upgrade is finished whoever is at work."""
    real = formats.finish_upgrade

    async def nobody() -> tuple[str, ...]:
        return ()

    async def finish_upgrade(consensus: Any, clock: Any, at_work: Any, **kwargs: Any) -> int:
        return await real(consensus, clock, nobody, **kwargs)

    monkeypatch.setattr(versions, "finish_upgrade", finish_upgrade)


def lets_old_servers_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older server does not look whether the upgrade was finished."""
    monkeypatch.setattr(FormatGate, "_check", lambda self, value: None)


MISTAKES_OF_UPGRADES: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (writes_what_only_new_servers_read, r"which is at work, has met format"),
    (finishes_beside_old_servers, r"which is at work, has met format|is older than the upgrade"),
    (lets_old_servers_come, r"is older than the upgrade that was finished, and at work"),
]


def test_without_a_mistake_servers_of_two_versions_go_together() -> None:
    assert [p for seed in UPGRADES for p in run(seed, plan=replace(busy(seed), upgraded=True)).problems] == []


@pytest.mark.parametrize(
    ("mistake", "pattern"), MISTAKES_OF_UPGRADES, ids=[mistake.__name__ for mistake, _ in MISTAKES_OF_UPGRADES]
)
def test_a_mistake_of_an_upgrade_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert first_problem(mistake, pattern, upgraded=True)
