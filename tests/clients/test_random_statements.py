"""Random reads and changes of a small table through psycopg, constants written out or as parameters, results as text or
binary, inside blocks and out: rows, counts, columns and errors are PostgreSQL's."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

STATEMENTS = 250
CASTS = {"d": "::date", "ts": "::timestamp", "u": "::uuid"}
VALUES: dict[str, Callable[[random.Random], object]] = {
    "id": lambda r: r.randint(-2, 35),
    "k": lambda r: r.choice([0, 1, 2, 3, 4, None]),
    "s": lambda r: r.choice(["s0", "s1", "zz", "", None]),
    "v": lambda r: r.choice(["v0", "v1", "q"]),
    "d": lambda r: f"2020-01-{r.randint(1, 28):02d}",
    "ts": lambda r: f"2020-01-01 00:00:{r.randint(0, 59):02d}",
    "b": lambda r: r.choice([True, False]),
    "u": lambda r: f"00000000-0000-0000-0000-0000000000{r.randint(0, 12):02d}",
    "x": lambda r: r.randint(0, 30) * 10**9,
}
OUTPUTS = ("*", "id, s", "x, id, k, n", "1", "id, 5, s", "'c', f", "count(*)", "u, d, ts, b")


def literal(value: object) -> str:
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


class Script:
    """The statements of one seed, each with its parameters."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._params: list[object] = []

    def _condition(self, with_params: bool) -> str:
        r = self._random
        column = r.choice(list(VALUES))
        operator = r.choice(["=", "=", "=", "<>", "<", ">=", "in", "is null", "is not null"])
        if operator.startswith("is"):
            return f"{column} {operator}"
        if operator == "in":
            return f"{column} in ({', '.join(literal(VALUES[column](r)) for _ in range(r.randint(1, 3)))})"
        value = VALUES[column](r)
        if with_params and value is not None:
            self._params.append(value)
            return f"{column} {operator} %s{CASTS.get(column, '')}"
        return f"{column} {operator} {literal(value)}"

    def _where(self, with_params: bool) -> str:
        return " and ".join(self._condition(with_params) for _ in range(self._random.randint(1, 2)))

    def _change(self) -> str:
        r = self._random
        with_params = r.random() < 0.5
        match r.randrange(4):
            case 0:
                column = r.choice(list(VALUES))
                value = literal(VALUES[column](r))
                return f"update t set {column} = {value} where {self._where(with_params)} returning id, {column}"
            case 1:
                self._params += [r.choice(["a", "too long a value", "b"])]
                return f"update t set x = x + 1, v = %s where {self._where(True)}"
            case 2:
                return f"delete from t where {self._where(with_params)} and id > 25"
            case _:
                self._params += [r.randint(0, 40), r.randint(0, 4)]
                return "insert into t (id, k, s, v, d) values (%s, %s, 's1', 'v2', '2020-01-05')"

    def statements(self) -> Iterator[tuple[str, Sequence[object] | None, bool]]:
        """SQL, parameters, and whether results come in binary."""
        r = self._random
        in_block = False
        for _ in range(STATEMENTS):
            self._params = []
            chance = r.random()
            if chance < 0.6:
                where = self._where(r.random() < 0.5)
                text = f"select {r.choice(OUTPUTS)} from t where {where}"
            elif chance < 0.9:
                text = self._change()
            elif chance < 0.95:
                text = r.choice(["commit", "rollback"]) if in_block else "begin"
                in_block = not in_block
            else:
                text = f"select id from (select * from t where {self._where(False)}) q where k = 1 order by id limit 3"
            yield text, self._params or None, r.random() < 0.3


def outcome(connection: psycopg.Connection, text: str, params: Sequence[object] | None, binary: bool) -> Any:
    cursor = connection.cursor(binary=binary)
    try:
        cursor.execute(text, params)
    except psycopg.Error as error:
        return error.sqlstate
    if cursor.description is None:
        return cursor.statusmessage
    return sorted(map(repr, cursor.fetchall())), [(column.name, column.type_code) for column in cursor.description]


@pytest.mark.parametrize("seed", range(4))
def test_random_statements(server: TidegateServer, postgres: PostgresServer, seed: int) -> None:
    with ExitStack() as stack:
        ours, theirs = [
            stack.enter_context(psycopg.connect(dsn, autocommit=True)) for dsn in (server.dsn(), postgres.dsn())
        ]
        for connection in (ours, theirs):
            connection.execute("create schema random_statements")
            stack.callback(connection.execute, "drop schema random_statements cascade")
            stack.callback(connection.execute, "rollback")
            connection.execute("set search_path = random_statements")
            connection.execute(
                "create table t (id int, k int, s text, v varchar(8), d date, ts timestamp, b bool, u uuid,"
                " n numeric(8, 2), f float8, x bigint)"
            )
            connection.execute(
                "insert into t select i, nullif(i % 5, 4), 's' || i % 4, 'v' || i % 3, date '2020-01-01' + i % 28,"
                " timestamp '2020-01-01' + i * interval '1 second', i % 2 = 0,"
                " ('00000000-0000-0000-0000-0000000000' || lpad((i % 10)::text, 2, '0'))::uuid, i / 4.0, i / 3.0,"
                " i * 1000000000::bigint from generate_series(0, 29) i"
            )
        done: list[str] = []
        for text, params, binary in Script(seed).statements():
            done.append(f"{text} {params or ''}")
            expected = outcome(theirs, text, params, binary)
            assert outcome(ours, text, params, binary) == expected, "\n".join(done[-10:])
