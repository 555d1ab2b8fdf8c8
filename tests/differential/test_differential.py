"""Every case of the case files, on PostgreSQL and on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapter.engines.common.lookups import lookup_of
from planner.dialects.engine_name import EngineName
from tests.differential.cases import FOLDER, all_files, read_cases, run_cases
from tests.differential.harness import Engines, Oracle


@pytest.mark.parametrize("path", all_files(), ids=lambda path: path.stem)
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_answers_as_postgresql_does(path: Path, engine: EngineName, oracle: Oracle, engines: Engines) -> None:
    """Same rows, same text, same errors; known gaps still are gaps."""
    wrong = [
        f"{case.file}:{case.line} {case.text}\n      {problem}"
        for case, problem in run_cases(read_cases(path), engine, oracle, engines)
    ]
    assert not wrong, "\n".join(wrong)


def test_most_of_the_lookups_are_lookups(engines: Engines) -> None:
    """Each of these was compared with the database's answer above."""
    rels = [engines.bind(case.sql).rel for case in read_cases(FOLDER / "lookups.txt")]
    assert sum(lookup_of(rel) is not None for rel in rels) >= 35
