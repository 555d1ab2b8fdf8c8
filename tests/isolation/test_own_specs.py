"""Specs of our own, in the form of PostgreSQL's: each gives on Tidegate what it gives on PostgreSQL 15."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.isolation.__main__ import both_servers, run_spec

SPECS = sorted((Path(__file__).parent / "specs").glob("*.spec"))


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[str, str]]:
    """The addresses of a PostgreSQL and of Tidegate."""
    with both_servers() as addresses:
        yield addresses


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_as_on_postgresql(path: Path, servers: tuple[str, str]) -> None:
    postgres, tidegate = servers
    text = path.read_text(encoding="utf-8")
    wanted = run_spec(text, postgres)
    assert wanted.count("starting permutation") == text.count("\npermutation ")
    assert run_spec(text, tidegate).splitlines() == wanted.splitlines()
