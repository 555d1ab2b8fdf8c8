"""The binder against PostgreSQL's recorded answers to Parse and Describe (tests/data/planner/analysis.txt)."""

from __future__ import annotations

import pytest

from tests.planner.rewrite_analysis import normalize
from tests.planner.support import DATA, corpus_context, render


def cases() -> list[tuple[str, str]]:
    """(statement, expected text): what PostgreSQL answers, or what we answer where the file says that we differ."""
    found = []
    for block in (DATA / "analysis.txt").read_text().split("\n\n"):
        if block.startswith("#"):
            continue
        statement, _, rest = block.strip("\n").partition("\n----\n")
        expected, _, ours = rest.partition("\n---- differs\n")
        found.append((statement, ours or expected))
    return found


CASES = cases()


def test_the_corpus_is_there() -> None:
    assert len(CASES) > 500


@pytest.mark.parametrize(("statement", "expected"), CASES, ids=[case[0][:60] for case in CASES])
def test_analysis(statement: str, expected: str) -> None:
    assert normalize(render(statement, corpus_context())) == expected
