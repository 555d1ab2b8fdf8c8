"""Definitions as text: what PostgreSQL 15 shows of an object is shown here (tests/data/definitions), and an object made
of the text is shown the same."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psycopg
import pytest

from tests.adapter.harness import Client
from tests.support.postgres import PostgresServer

FOLDER = Path(__file__).parents[2] / "data" / "definitions"
TABLES = (FOLDER / "tables.sql").read_text()


def cases(file: str) -> list[str]:
    """The lines of a file of cases."""
    return [line for line in (FOLDER / file).read_text().splitlines() if line and not line.startswith("#")]


def oracle_texts(postgres: PostgresServer, commands: list[tuple[str, str]], again: str = "") -> list[list[object]]:
    """What PostgreSQL answers to each query after its command, and, where it takes it, after the command `again` with
    the first text that it has answered. The commands are undone."""
    if postgres.major != 15:
        pytest.skip("the texts are PostgreSQL 15's")
    found: list[list[object]] = []
    with psycopg.connect(postgres.dsn()) as oracle:
        oracle.execute(TABLES)
        for command, query in commands:
            with oracle.transaction(force_rollback=True):
                oracle.execute(command)
                texts = oracle.execute(query).fetchone()
                assert texts is not None
                found.append([texts])
                # Of a table with CYCLE it shows marks that it does not take.
                with contextlib.suppress(psycopg.errors.SyntaxError), oracle.transaction():
                    oracle.execute(again.format(texts[0]))
                    found[-1].append(oracle.execute(query).fetchone())
        oracle.rollback()
    return found


async def test_views(client: Client, postgres: PostgresServer) -> None:
    shown = "select pg_get_viewdef('v'::regclass), pg_get_viewdef('v'::regclass, true)"
    commands = [f"create view v {case if case.startswith('(x') else f'as {case}'}" for case in cases("views.txt")]
    again = "create or replace view v as {}"
    expected = oracle_texts(postgres, [(command, shown) for command in commands], again)
    await client.run(TABLES)
    differences = []
    for command, texts in zip(commands, expected, strict=True):
        await client.run(command)
        found = await client.rows(shown)
        if len(texts) > 1:
            await client.run(again.format(found[0][0]))
            found += await client.rows(shown)
        if found != texts:
            differences.append((command, texts, found))
        await client.run("drop view v")
    assert not differences
