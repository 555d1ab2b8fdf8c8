"""Random scripts of changes, definitions and savepoints, compared with PostgreSQL statement by statement."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from planner.errors import SqlError
from tests.adapter.harness import Client
from tests.support.postgres import PostgresServer

STATEMENTS = 25


def _script(seed: int) -> Iterator[str]:
    """The statements of one script."""
    r = random.Random(seed)
    yield "create table fz (k int, v int, s text)"
    yield "create table fz2 (k int, w int default 5)"
    yield f"insert into fz select g, g * 10, 'r' || g from generate_series(1, {r.choice([5, 50, 500])}) g"
    in_block, savepoints, columns = False, list[str](), list[str]()
    for number in range(STATEMENTS):
        k = r.randint(1, 12)
        name = f"s{r.randint(1, 3)}"
        if not in_block and r.random() < 0.15:
            in_block, savepoints = True, []
            yield "begin"
        elif in_block and r.random() < 0.08:
            in_block = False
            yield r.choice(["commit", "commit", "rollback"])
        elif in_block and r.random() < 0.1:
            savepoints.append(name)
            yield f"savepoint {name}"
        elif in_block and name in savepoints and r.random() < 0.3:
            del savepoints[len(savepoints) - savepoints[::-1].index(name) :]
            yield f"rollback to {name}"
        else:
            column = f"c{number}"
            choices = [
                f"insert into fz (k, v) values ({k}, {r.randint(0, 99)}), ({k + 1}, null)",
                f"insert into fz select k + {r.randint(0, 3)}, v, s from fz where k < {k} returning k",
                f"update fz set v = coalesce(v, 0) + 3 where k {r.choice(['=', '<', '>'])} {k}",
                f"update fz set v = coalesce(v, 0) + 1 where k = {k} returning k, v",
                "update fz set s = 'u', v = w from fz2 where fz.k = fz2.k",
                f"delete from fz where k {r.choice(['=', '<', '>='])} {r.choice([k, k + 5])} returning k, v",
                f"insert into fz2 (k) values ({k})",
                "delete from fz using fz2 where fz.k = fz2.k and w < 9",
                f"update fz set v = v / (k - {k})",
                "truncate fz",
                f"alter table fz add column {column} int default {k}",
            ]
            chosen = r.choice(choices)
            if column in chosen:
                columns.append(column)
            yield chosen
        yield f"select count(*), sum(k), sum(v), count(s) from fz where k < {k + 3}"
        if r.random() < 0.3:
            yield "select * from fz"
    yield "commit" if in_block else "select 1"
    yield "select * from fz"
    yield "select * from fz2"


async def _ours(client: Client, text: str) -> Any:
    try:
        (result,) = await client.run(text)
    except SqlError as error:
        return error.sqlstate
    return sorted(map(repr, result)) if isinstance(result, list) else result


def _theirs(connection: psycopg.Connection[Any], text: str) -> Any:
    try:
        cursor = connection.execute(text)
    except psycopg.Error as error:
        return error.sqlstate
    return sorted(map(repr, cursor.fetchall())) if cursor.description else cursor.statusmessage


@pytest.mark.parametrize("seed", range(12))
async def test_random_script(client: Client, postgres: PostgresServer, seed: int) -> None:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute("create schema random_scripts; set search_path = random_scripts")
        try:
            done: list[str] = []
            for text in _script(seed):
                done.append(text)
                expected = _theirs(connection, text)
                assert await _ours(client, text) == expected, "\n".join(done)
        finally:
            connection.execute("rollback")
            connection.execute("drop schema random_scripts cascade")
