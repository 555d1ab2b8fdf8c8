"""The page of generated statements: a line for each kind and engine, and the statements that differed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

FOUND = Path(__file__).with_name("found.md")
"""What the generators have found so far, written by hand."""

_ROW = re.compile(r"\| (\w+) \| (local|spark) \|.*\|")
_SECTION = re.compile(r"^## (\w+) on (local|spark)\n\n(.*?)(?=^## |\Z)", re.M | re.S)


class Run(Struct, frozen=True):
    """What `count` statements of a kind gave on an engine: how each that differs does, and its text."""

    kind: str
    engine: str
    seed: int
    count: int
    minutes: float
    found: tuple[tuple[str, str], ...]


def write(path: Path, runs: Sequence[Run]) -> None:
    """Write the page; lines of other kinds and engines stay as they are."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = {(row[1], row[2]): row[0] for row in _ROW.finditer(before)}
    sections = {(section[1], section[2]): section[3].strip() for section in _SECTION.finditer(before)}
    for run in runs:
        key = run.kind, run.engine
        rows[key] = f"| {run.kind} | {run.engine} | {run.seed} | {run.count:,} | {run.minutes:.0f} | {len(run.found)} |"
        sections[key] = "\n".join(f"```sql\n-- {how}\n{text}\n```\n" for how, text in run.found).strip()
    lines = [
        "# Generated statements",
        "",
        "Written by `make generate`, which sends random statements to a PostgreSQL 15 and to Tidegate. Names, types,",
        "rows, tags and errors are compared; rows in order where a query orders them by all columns. *Queries* have",
        "all of SELECT; *pairs* are queries that must agree with each other on Tidegate (ternary logic partitioning",
        "and NoREC); *changes* are INSERT, UPDATE, DELETE and MERGE with their clauses, through views too, and rows",
        "that they leave; *functions* are statements that make functions of SQL and call them; *definitions* make,",
        "change and drop tables, views, indexes, constraints, types, sequences and functions in any order, and the",
        "catalogs are compared after every four. What is refused by name (0A000) is left out. Statements are made as",
        "small as they can be while they still differ.",
        "",
        "| kind | engine | seed | statements | minutes | differ |",
        "| --- | --- | --- | --- | --- | --- |",
        *rows.values(),
        "",
        FOUND.read_text(encoding="utf-8").strip(),
        "",
    ]
    for (kind, engine), text in sections.items():
        if text:
            lines += [f"## {kind} on {engine}", "", text, ""]
    path.write_text("\n".join(lines), encoding="utf-8")
