"""Rewrites tests/data/planner/inputs.txt: what PostgreSQL 15 makes of each input of inputs.sql, as text or error, and,
where ours differs, what we make of it.

Run by hand: ``python -m tests.planner.rewrite_inputs "host=/tmp port=5432 user=postgres dbname=postgres"``.
"""

from __future__ import annotations

import sys

import psycopg

from planner.analyze import analyze
from planner.errors import SqlError
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal, Project
from planner.syntax.identifiers import quote_literal
from planner.syntax.parse import split_and_parse
from planner.values.text_values import format_text, parse_text
from tests.planner.support import DATA, corpus_context, render_error


def inputs() -> list[tuple[str, str]]:
    """The (type, text) pairs."""
    lines = (DATA / "inputs.sql").read_text().split("\n")
    pairs = [line.split("|", 1) for line in lines if line and not line.startswith("--")]
    return [(type_name, text) for type_name, text in pairs]


def ours(type_name: str, text: str) -> str:
    """The outcome of our input function (that of an assignment: lengths are enforced), printed by our output."""
    bound = analyze(split_and_parse(f"SELECT NULL::{type_name}")[0], corpus_context())
    assert isinstance(bound, BoundQuery)
    type = bound.rel.fields[0].type
    if type_name.startswith("reg"):
        return ours_cast(type_name, text)
    try:
        value = parse_text(text, type, {"TimeZone": "UTC", "DateStyle": "ISO, MDY"})
    except SqlError as error:
        return render_error(error.sqlstate, error.message, error.detail, error.hint, None)
    return "= " + format_text(value, type, {"TimeZone": "UTC"})


def ours_cast(type_name: str, text: str) -> str:
    """The outcome of a constant's cast, for types that look into the catalog."""
    sql = f"SELECT {quote_literal(text)}::{type_name}"
    try:
        bound = analyze(split_and_parse(sql)[0], corpus_context())
    except SqlError as error:
        return render_error(error.sqlstate, error.message, error.detail, error.hint, None)
    assert isinstance(bound, BoundQuery)
    assert isinstance(bound.rel, Project)
    (expr,) = bound.rel.exprs
    assert isinstance(expr, Literal)
    return f"= {expr.value}"


def oracle(connection: psycopg.Connection[tuple[object, ...]], type_name: str, text: str) -> str:
    """PostgreSQL's text for the input, stored in a column of the type."""
    connection.execute("DROP TABLE IF EXISTS pg_temp.input")
    connection.execute(f"CREATE TEMP TABLE input (v {type_name})")
    try:
        connection.execute(f"INSERT INTO input VALUES ({quote_literal(text)})")
        number = "::oid" if type_name.startswith("reg") else ""
        row = connection.execute(f"SELECT format('%s', v{number}) FROM input", prepare=False).fetchone()
    except psycopg.Error as error:
        diag = error.diag
        return render_error(
            diag.sqlstate or "", diag.message_primary or "", diag.message_detail, diag.message_hint, None
        )
    assert row is not None
    return f"= {row[0]}"


def main(dsn: str) -> None:
    """Rewrites the file."""
    blocks = []
    differing = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for type_name, text in inputs():
            expected, actual = oracle(connection, type_name, text), ours(type_name, text)
            block = f"{type_name}|{text}\n----\n{expected}\n"
            if expected != actual:
                differing += 1
                block += f"---- differs\n{actual}\n"
            blocks.append(block)
    (DATA / "inputs.txt").write_text("\n".join(blocks))
    sys.stdout.write(f"{len(blocks)} inputs, {differing} differ\n")


if __name__ == "__main__":
    main(sys.argv[1])
