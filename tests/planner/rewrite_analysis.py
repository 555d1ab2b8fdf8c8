"""Rewrites tests/data/planner/analysis.txt: what PostgreSQL 15 answers to Parse and Describe of each statement of
statements.sql, and, where ours differs, what we answer.

Run by hand: ``python -m tests.planner.rewrite_analysis "host=/tmp port=5432 user=postgres dbname=postgres"`` against an
empty database of a PostgreSQL 15. Read the diff before committing it: a new difference has to be one on purpose.
"""

from __future__ import annotations

import re
import sys

import psycopg

from tests.planner.support import DATA, corpus_context, render, render_description, render_error


def main(dsn: str) -> None:
    """Rewrites the file."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute((DATA / "schema.sql").read_text())
        blocks = []
        count = differing = 0
        for line in (DATA / "statements.sql").read_text().splitlines():
            if line.startswith("--"):
                blocks.append(f"# {line[2:].strip()}\n")
                continue
            expected = oracle(connection, line)
            actual = normalize(render(line, corpus_context()))
            count += 1
            block = f"{line}\n----\n{expected}\n"
            if actual != expected:
                differing += 1
                block += f"---- differs\n{actual}\n"
            blocks.append(block)
        (DATA / "analysis.txt").write_text("\n".join(blocks))
        sys.stdout.write(f"{count} statements, {differing} differ\n")


def oracle(connection: psycopg.Connection[tuple[object, ...]], sql: str) -> str:
    """PostgreSQL's answer as text."""
    pgconn = connection.pgconn
    result = pgconn.prepare(b"", sql.encode())
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        return _error(result)
    result = pgconn.describe_prepared(b"")
    if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
        return _error(result)
    params = [result.param_type(index) for index in range(result.nparams)]
    columns = [
        ((result.fname(index) or b"").decode(), result.ftype(index), result.fmod(index))
        for index in range(result.nfields)
    ]
    names = tuple(str(_one(connection, f"SELECT format_type({oid}, NULL)")) for oid in params)
    typed = tuple(
        (name, str(_one(connection, f"SELECT format_type({oid}, {typmod})"))) for name, oid, typmod in columns
    )
    has_columns = bool(columns) or sql.lower().startswith("select")
    return normalize(render_description(names, typed if has_columns else None))


def normalize(text: str) -> str:
    """Without what differs from installation to installation."""
    return re.sub(r'database "\w+"', "database", text)


def _one(connection: psycopg.Connection[tuple[object, ...]], sql: str) -> object:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row[0]


def _error(result: psycopg.pq.abc.PGresult) -> str:
    field = psycopg.pq.DiagnosticField

    def text(which: psycopg.pq.DiagnosticField) -> str | None:
        value = result.error_field(which)
        return value.decode() if value is not None else None

    position = text(field.STATEMENT_POSITION)
    return normalize(
        render_error(
            text(field.SQLSTATE) or "",
            text(field.MESSAGE_PRIMARY) or "",
            text(field.MESSAGE_DETAIL),
            text(field.MESSAGE_HINT),
            int(position) if position else None,
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
