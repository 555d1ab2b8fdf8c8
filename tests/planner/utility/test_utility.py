"""Utility statements: what each becomes, and its command tag (tests/data/planner/utility.txt).

``python -m tests.planner.utility.test_utility`` rewrites the file; read the diff before committing it.
"""

from __future__ import annotations

import re
import sys

import pytest

from planner.analyze import analyze
from planner.command_tags import command_tag
from planner.errors import SqlError
from planner.syntax.parse import split_and_parse
from tests.planner.support import DATA, corpus_context, render_error

STATEMENTS = (DATA / "utility.sql").read_text().splitlines()


def outcome(sql: str) -> str:
    """The tag and the record of a statement, or its error."""
    try:
        (parsed,) = split_and_parse(sql)
        statement = analyze(parsed, corpus_context())
    except SqlError as error:
        return render_error(error.sqlstate, error.message, error.detail, error.hint, error.position)
    text = re.sub(r"Parsed\(text=(?:'(?:[^'\\]|\\.)*'|\"[^\"]*\"), start=\d+, end=\d+, kind=('\w+'), ascii=True\)",
                  r"Parsed(\1)", repr(statement))  # fmt: skip
    text = re.sub(r"frozenset\(\{([^}]*)\}\)", lambda m: "{" + ", ".join(sorted(m[1].split(", "))) + "}", text)
    return f"{command_tag(statement)}\n{text}"


def recorded() -> list[tuple[str, str]]:
    """(statement, outcome) as the file has them."""
    blocks = (DATA / "utility.txt").read_text().rstrip("\n").split("\n\n")
    return [(block.partition("\n----\n")[0], block.partition("\n----\n")[2]) for block in blocks]


@pytest.mark.parametrize(("statement", "expected"), recorded())
def test_utility(statement: str, expected: str) -> None:
    assert outcome(statement) == expected


def test_every_statement_is_recorded() -> None:
    assert [statement for statement, _ in recorded()] == STATEMENTS


if __name__ == "__main__":
    text = "\n\n".join(f"{statement}\n----\n{outcome(statement)}" for statement in STATEMENTS) + "\n"
    (DATA / "utility.txt").write_text(text)
    sys.stdout.write(f"{len(STATEMENTS)} statements\n")
