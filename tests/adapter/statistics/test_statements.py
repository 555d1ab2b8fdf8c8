"""What is counted of statements: sums, bounds, and which go first."""

from __future__ import annotations

import math
import random
import statistics as reference

from adapter.statistics import statements
from adapter.statistics.statements import StatementStatistics, merged
from planner.syntax.formatting import fingerprint
from planner.syntax.parse import split_and_parse

SETTINGS = {"pg_stat_statements.track": "top", "pg_stat_statements.track_utility": "on"}


def note(counts: StatementStatistics, text: str, seconds: float = 0.001, role: int = 10, tag: str = "SELECT 1") -> None:
    (parsed,) = split_and_parse(text)
    counts.note(parsed, SETTINGS, role, 5, tag, seconds)


def test_what_several_processes_have_counted_is_added_up() -> None:
    chance = random.Random(7)
    times = [chance.expovariate(100) for _ in range(300)]
    one, other, third = StatementStatistics(), StatementStatistics(), StatementStatistics()
    for number, seconds in enumerate(times):
        note((one, other, third)[number % 3 if number > 50 else 0], f"select {number}", seconds, tag="SELECT 2")
    note(other, "select 1", role=11)
    rows = {row["userid"]: row for row in merged([*one.rows(), *other.rows(), *third.rows()])}
    row, ms = rows[10], [seconds * 1000 for seconds in times]
    assert (row["calls"], row["rows"], row["query"]) == (300, 600, "select $1")
    for name, wanted in (
        ("total_exec_time", sum(ms)), ("min_exec_time", min(ms)), ("max_exec_time", max(ms)),
        ("mean_exec_time", reference.fmean(ms)), ("stddev_exec_time", reference.pstdev(ms)),
    ):  # fmt: skip
        assert math.isclose(row[name], wanted, rel_tol=1e-9), name
    assert rows[11]["calls"] == 1


def test_what_was_executed_least_goes_first() -> None:
    counts = StatementStatistics()
    counts.max_entries = 100
    for number in range(50):
        for _ in range(5):
            note(counts, f"select 1 as often_{number}")
    for number in range(1000):
        note(counts, f"select 1 as once_{number}")
    kept = [row["query"] for row in counts.rows()]
    assert len(kept) <= 100
    assert sum("often" in query for query in kept) == 50
    assert f"select $1 as once_{999}" in kept
    assert counts.info()["dealloc"] > 50


def test_texts_are_bounded_together() -> None:
    counts = StatementStatistics()
    limit, statements.MAX_TEXT_BYTES = statements.MAX_TEXT_BYTES, 100_000
    try:
        for number in range(300):
            note(counts, f"select 1 as {'a' * 50}_{number} /* {'x' * 1500} */")
        assert sum(len(row["query"]) for row in counts.rows()) <= 100_000
        assert len(counts.rows()) > 30
    finally:
        statements.MAX_TEXT_BYTES = limit


def test_which_statements_are_one() -> None:
    one = fingerprint("select a from t where b = 'x' and c > 5", lift=True)
    assert one.query == "select a from t where b = $1 and c > $2"
    for same in (
        "SELECT a FROM t WHERE b='y' /* other */ AND c > -7.5",
        'select "a"\n from t where (b = $1 and c > $2)',
    ):
        assert fingerprint(same, lift=True).id == one.id
    for different in (
        "select a from t where b = 'x' or c > 5",
        "select a, a from t where b = 'x' and c > 5",
        "select a from s.t where b = 'x' and c > 5",
        "select a from t where b = 'x' and c > 5 limit 1",
        'select "A" from t where b = $1 and c > $2',
    ):
        assert fingerprint(different, lift=True).id != one.id
    assert fingerprint("set a = 1", lift=False).id != fingerprint("set a = 2", lift=False).id
    # What is beyond PostgreSQL's grammar is its text.
    assert fingerprint("subscribe to t", lift=True).query == "subscribe to t"
