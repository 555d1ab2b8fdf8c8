"""Queries on PostgreSQL and on our engines: who is right, in lines of a table."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from msgspec import Struct

from bench.report import geometric_mean, print_json
from bench.tpcds.answers import Answer, ask, difference

TIMED_OUT = "57014"


class Line(Struct, frozen=True, kw_only=True):
    """A query: PostgreSQL's answer, each engine's, and what is wrong with the latter (empty: nothing)."""

    number: int
    postgres: Answer
    engines: dict[str, Answer]
    problems: dict[str, str]

    def cells(self) -> list[str]:
        """For the table."""
        rows = max(len(answer.rows) for answer in (self.postgres, *self.engines.values()))
        wrong = "; ".join(f"{engine}: {problem}" for engine, problem in self.problems.items() if problem)
        times = [_time(answer) for answer in (self.postgres, *self.engines.values())]
        against = "right" if self.postgres.sqlstate != TIMED_OUT else "engines agree"
        return [f"{self.number:02}", str(rows), *times, wrong or against]


def _time(answer: Answer) -> str:
    return answer.sqlstate or f"{answer.seconds * 1000:,.0f} ms"


def run(postgres: psycopg.Connection, ours: dict[str, psycopg.Connection], number: int, text: str) -> Line:
    """Asks everybody. Raises nothing that a server reports.

    Where PostgreSQL was stopped by its timeout, the answer of the first engine that has one is the measure.
    """
    theirs = ask(postgres, text)
    answers = {engine: ask(connection, text) for engine, connection in ours.items()}
    measure = (postgres, theirs)
    if theirs.sqlstate == TIMED_OUT:
        first = next((engine for engine, answer in answers.items() if not answer.error), next(iter(ours)))
        measure = (ours[first], answers[first])
    problems = {engine: difference(text, (ours[engine], answers[engine]), measure) for engine in ours}
    return Line(number=number, postgres=theirs, engines=answers, problems=problems)


def table(lines: Sequence[Line]) -> list[str]:
    """A page's lines: how many are right, and each query."""
    engines = list(lines[0].engines)
    text = [
        f"- {engine}: {sum(not line.problems[engine] for line in lines)} of {len(lines)} right" for engine in engines
    ]
    heading = ["query", "rows", "PostgreSQL", *engines, "answer"]
    text += ["", f"| {' | '.join(heading)} |", f"|{' ---: |' * (len(heading) - 1)} --- |"]
    return text + [f"| {' | '.join(line.cells())} |" for line in lines]


def closing(bench: str, lines: Sequence[Line], **more: int | float) -> bool:
    """Prints the closing line of JSON; whether all is right."""
    ratios, counts = {}, {"queries": len(lines), **more}
    for engine in lines[0].engines:
        counts[f"{engine}_right"] = sum(not line.problems[engine] for line in lines)
        both = [line for line in lines if not line.postgres.error and not line.engines[engine].error]
        times = [line.postgres.seconds / line.engines[engine].seconds for line in both]
        ratios[f"{engine}_to_postgres"] = geometric_mean(times) if times else 0.0
    print_json(bench, ratios, counts)
    return all(not problem for line in lines for problem in line.problems.values())
