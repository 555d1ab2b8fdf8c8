"""Parsing PostgreSQL's statements: its own grammar (libpg_query) against sqlglot's dialect `postgres`.

    make bench NAME=parsing
    python -m bench.bench_parsing FILE_OR_FOLDER ...

Over the statements that real clients sent (tests/data/client_queries) and the sqllogictest files of tests/data/sqlite;
or over those of the files named (.jsonl with a field `sql`, or sqllogictest records). Of each statement that
PostgreSQL's grammar accepts it is told what sqlglot makes of it: what it reads is written as PostgreSQL again and
parsed by PostgreSQL's grammar, which gives the same tree, an equal one (`planner.syntax.sameness`), another one, or an
error; or sqlglot fails, or leaves the statement as an opaque command.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlglot

from bench.report import interleaved, machine, print_json, print_table
from planner.errors import SqlError
from planner.syntax.parse import parse_tree
from planner.syntax.sameness import means_the_same, same
from sqllogictest.records import Query, Statement, parse_file

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
OUTCOMES = ("same tree", "equal", "another tree", "refused by PostgreSQL", "opaque", "fails")
MOST_TIMED = 2_000
"""Statements that are timed."""


def statements(path: Path) -> Iterator[str]:
    """The statements in a file, or in the files of a folder."""
    if path.is_dir():
        for each in sorted(path.iterdir()):
            yield from statements(each)
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            yield from (json.loads(line)["sql"] for line in lines)
    elif path.suffix in (".test", ".slt"):
        yield from (record.sql for record in parse_file(path) if isinstance(record, (Query, Statement)))


def outcome(text: str) -> str | None:
    """What sqlglot makes of a statement; None when PostgreSQL's grammar refuses it."""
    try:
        parse_tree(text)
    except SqlError:
        return None
    try:
        read = [each for each in sqlglot.parse(text, read="postgres") if each is not None]
    except sqlglot.errors.SqlglotError:
        return "fails"
    if any(each.find(sqlglot.exp.Command) is not None for each in read):
        return "opaque"
    written = "; ".join(each.sql(dialect="postgres") for each in read)
    try:
        if same(parse_tree(text), parse_tree(written)):
            return "same tree"
        return "equal" if means_the_same(parse_tree(text), parse_tree(written)) else "another tree"
    except SqlError:
        return "refused by PostgreSQL"


def rates(texts: Sequence[str]) -> dict[str, float]:
    """Statements a second of each parser, over `texts`, which both accept."""

    def ours() -> None:
        for text in texts:
            parse_tree(text)

    def theirs() -> None:
        for text in texts:
            sqlglot.parse(text, read="postgres")

    times = interleaved({"libpg_query": ours, "sqlglot": theirs}, rounds=5, warm_up=1)
    return {name: len(texts) / min(samples) for name, samples in times.items()}


def main() -> None:
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL + 1)
    named = [Path(argument) for argument in sys.argv[1:]]
    ratios: dict[str, float] = {}
    totals: dict[str, int] = {}
    print(machine())
    for path in named or [DATA / "client_queries", DATA / "sqlite"]:
        texts = list(dict.fromkeys(statements(path)))
        found = {text: outcome(text) for text in texts}
        counts = Counter(found.values())
        accepted = [text for text, made in found.items() if made not in (None, "fails")]
        speed = rates(accepted[:: max(1, len(accepted) // MOST_TIMED)])
        print(f"\n{path.name}: {len(texts)} statements, of which PostgreSQL's grammar refuses {counts[None]}")
        print_table([["sqlglot", "statements"], *([name, str(counts[name])] for name in OUTCOMES)])
        print_table([["parser", "statements/s"], *([name, f"{rate:,.0f}"] for name, rate in speed.items())])
        ratios[path.name] = speed["libpg_query"] / speed["sqlglot"]
        totals |= {f"{path.name}: {name}": counts[name] for name in OUTCOMES}
    print_json("parsing", ratios, totals)


if __name__ == "__main__":
    main()
