"""The case files: one expression or query a line.

# a comment
@row                     what follows are expressions, run as SELECT <expression>
@table n                 expressions over a table: SELECT <expression> FROM n ORDER BY id
@query                   whole queries; compared as sets of rows unless they have ORDER BY outside parentheses
!spark 0A000 | x         a known gap: on that engine the case fails with this SQLSTATE (and the test when it works)
!both 0A000 | x          the same on both engines
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planner.dialects.engine_name import EngineName
from planner.errors import SqlError
from planner.ir.bound import BoundQuery
from tests.differential.harness import Engines, Error, Oracle, Outcome, comparable

FOLDER = Path(__file__).parent / "cases"
BATCH = 20
"""Expressions that one Spark query computes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One line. `gaps` maps an engine to the SQLSTATE of its known gap."""

    file: str
    line: int
    text: str
    table: str | None
    query: bool
    gaps: dict[str, str] = field(default_factory=dict)
    timezone: str = "UTC"

    @property
    def sql(self) -> str:
        """The statement that PostgreSQL and the engines run."""
        if self.query:
            return self.text
        return f"select {self.text}" if self.table is None else f"select {self.text} from {self.table} order by id"


def read_cases(path: Path) -> list[Case]:
    """The cases of one file."""
    found: list[Case] = []
    table: str | None = None
    query = False
    timezone = "UTC"
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("@timezone "):
            timezone = text.split()[1]
            continue
        if text.startswith("@") and text.split()[0] in ("@row", "@table", "@query"):
            words = text.split()
            query = words[0] == "@query"
            table = words[1] if words[0] == "@table" else None
            continue
        gaps: dict[str, str] = {}
        while (match := re.match(r"!(spark|local|both) (\w{5}) \| ", text)) is not None:
            for engine in ("spark", "local") if match[1] == "both" else (match[1],):
                gaps[engine] = match[2]
            text = text[match.end() :]
        found.append(Case(path.name, number, text, table, query, gaps, timezone))
    return found


def all_files() -> list[Path]:
    """Every case file."""
    return sorted(FOLDER.glob("*.txt"))


def judge(case: Case, engine: EngineName, expected: Outcome, got: Outcome, bound: BoundQuery | None) -> str | None:
    """What is wrong with an engine's outcome, or None."""
    gap = case.gaps.get(engine)
    if gap is not None:
        if isinstance(got, Error) and got.sqlstate == gap:
            return None
        return f"a known gap ({gap}) that now gives {got}"
    fields = None if bound is None else bound.rel.fields
    ours, theirs = comparable(got, fields), comparable(expected, fields)
    if case.query and not _ordered(case.text) and isinstance(ours, list) and isinstance(theirs, list):
        ours, theirs = sorted(ours, key=str), sorted(theirs, key=str)
    return None if ours == theirs else f"PostgreSQL: {theirs}\n      {engine}: {ours}"


def _ordered(text: str) -> bool:
    depth = 0
    outside = []
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth == 0:
            outside.append(char)
    return "order by" in "".join(outside).lower()


def run_cases(
    cases: Sequence[Case], engine: EngineName, oracle: Oracle, engines: Engines
) -> Iterator[tuple[Case, str]]:
    """Runs cases and yields those that are wrong with what is wrong. On Spark, expressions without expected errors run
    many to a query."""
    expected = {case.line: oracle.run(case.sql, case.timezone) for case in cases}
    refused: dict[int, Error] = {}
    for case in cases:
        try:
            engines.lower(engines.bind(case.sql, case.timezone), engine, case.timezone)
        except SqlError as error:
            refused[case.line] = Error(error.sqlstate, error.message)
    single = [
        case
        for case in cases
        if engine == "local"
        or case.query
        or case.line in refused
        or case.gaps.get(engine)
        or isinstance(expected[case.line], Error)
    ]
    batched: dict[tuple[str | None, str], list[Case]] = {}
    for case in cases:
        if case not in single:
            batched.setdefault((case.table, case.timezone), []).append(case)
    for (table, _), members in batched.items():
        for start in range(0, len(members), BATCH):
            group = members[start : start + BATCH]
            wrong = _run_batch(group, table, engine, expected, engines)
            if wrong is None:
                single += group
            else:
                yield from wrong
    for case in single:
        got = refused.get(case.line) or engines.run(case.sql, engine, case.timezone)
        problem = judge(case, engine, expected[case.line], got, _bound(engines, case))
        if problem is not None:
            yield case, problem


def _bound(engines: Engines, case: Case) -> BoundQuery | None:
    try:
        return engines.bind(case.sql, case.timezone)
    except SqlError:
        return None


def _run_batch(
    group: Sequence[Case], table: str | None, engine: EngineName, expected: dict[int, Outcome], engines: Engines
) -> list[tuple[Case, str]] | None:
    """Runs expressions in one query; None when it fails, so that each is tried alone."""
    items = ", ".join(case.text for case in group)
    outcome = engines.run(
        f"select {items}" + ("" if table is None else f" from {table} order by id"), engine, group[0].timezone
    )
    if isinstance(outcome, Error):
        return None
    wrong: list[tuple[Case, str]] = []
    start = 0
    for case in group:
        bound = _bound(engines, case)
        width = len(bound.rel.fields) if bound is not None else 1
        columns: Outcome = [row[start : start + width] for row in outcome]
        start += width
        problem = judge(case, engine, expected[case.line], columns, bound)
        if problem is not None:
            wrong.append((case, problem))
    return wrong
