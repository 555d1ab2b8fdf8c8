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


@pytest.mark.parametrize(
    ("sql", "scans"),
    [
        ("select id from n where num < (select avg(num) from n)", 2),
        ("select id from n where num < (select avg(o.salary) from emp o where o.id = n.id)", 2),
        ("select e.id from emp e, n where n.id = e.id and salary < (select avg(num) from n o where o.id = n.id)", 3),
        ("select id, num / (select max(u) from n) from n where num > 0", 2),
    ],
)
def test_spark_plans_a_subquery_once(sql: str, scans: int, engines: Engines) -> None:
    """However often a form names it, and without a product of the outer query's tables."""
    text, _ = engines.lower(engines.bind(sql), "spark")
    shown = engines.spark.sql(text)._jdf.queryExecution().optimizedPlan().toString()
    assert shown.count("Relation [") + shown.count("LocalRelation") == scans, shown
    assert "Reused" not in shown
