"""Random changes of rows over tables with keys, checks and views, against PostgreSQL: upserts, MERGE, WITH that changes
rows, RETURNING of joined tables, changes through views."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from tests.support.server import TidegateServer

SCHEMA = """
    drop schema if exists random_changes cascade;
    create schema random_changes;
    set search_path = random_changes;
    create table t (id int primary key, v int, w text default 'd',
        g int generated always as (coalesce(v, 0) + 1) stored, check (v < 1000));
    create table c (id int primary key, t int references t on delete cascade on update cascade, x int);
    create table s (id int, v int, w text);
    create table l (n int, what text);
    create view tv as select id as k, v, w from t where v > 10;
    create view tc as select id, v from t where v > 10 with check option;
"""
TABLES = ("t", "c", "s", "l")
ONCE = "s.id in (select id from s group by id having count(*) = 1)"

BROKEN_RULES = frozenset({"21000", "23502", "23503", "23505", "23514", "44000"})

Outcome: TypeAlias = tuple["str | None", "list[str] | None"]


class Changes:
    """Statements that are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _id(self) -> int:
        return self._random.randint(1, 25)

    def _value(self) -> str:
        random = self._random
        if random.random() < 0.15:
            return "null"
        return str(random.randint(900, 1100) if random.random() < 0.03 else random.randint(-20, 60))

    def _rows(self, most: int, *, distinct: bool = True) -> str:
        count = self._random.randint(1, most)
        ids = self._random.sample(range(1, 26), count) if distinct else [self._id() for _ in range(count)]
        return ", ".join(f"({id}, {self._value()}, '{self._random.choice('abc')}')" for id in ids)

    def _condition(self) -> str:
        random = self._random
        return random.choice([
            f"t.id < {self._id()}", f"t.v > {random.randint(-5, 30)}", "t.w = 'a'", "t.v is null",
            f"t.id = {self._id()}", f"t.id % 3 = {random.randint(0, 2)}",
        ])  # fmt: skip

    def _set(self) -> str:
        return self._random.choice([
            f"v = {self._value()}", "v = t.v + 1", "w = t.w || 'x'", f"v = {self._value()}, w = 'u'",
            "v = coalesce(t.v, 0) * 2 - 3",
        ])  # fmt: skip

    def statement(self) -> str:
        """The next statement."""
        kinds = (
            self._insert, self._upsert, self._update, self._delete, self._merge, self._with, self._view, self._checked,
            self._child, self._source, self._move,
        )  # fmt: skip
        return self._random.choice(kinds)()

    def _insert(self) -> str:
        return f"insert into t (id, v, w) values {self._rows(4)}"

    def _upsert(self) -> str:
        action = self._random.choice([
            "nothing", "update set v = excluded.v", "update set w = excluded.w || t.w where t.v > 5",
            "update set (v, w) = (select count(*), max(w) from t)",
        ])  # fmt: skip
        return f"insert into t (id, v, w) values {self._rows(3)} on conflict (id) do {action} returning *"

    def _update(self) -> str:
        return (
            f"update t set {self._set()} from s where s.id = t.id and {self._condition()} and {ONCE} "
            "returning t.id, t.v, t.w, t.g, s.*, (select count(*) from t)"
        )

    def _delete(self) -> str:
        low = self._random.randint(0, 50)
        return f"delete from t using s where s.id = t.id and s.v > {low} and {ONCE} and {self._condition()} returning *"

    def _merge(self) -> str:
        random = self._random
        matched = ["delete", "do nothing", "update set v = q.v", "update set w = q.w, v = t.v + q.v"]
        missing = ["do nothing", "insert (id, v) values (q.id, q.v)", "insert (id, v, w) values (q.id, q.v, default)"]
        clauses = [
            f"when matched and {self._condition()} then {random.choice(matched)}",
            f"when not matched and q.v > {random.randint(0, 40)} then {random.choice(missing)}",
            f"when matched then {random.choice(matched)}",
            f"when not matched then {random.choice(missing)}",
        ]
        kept = [clause for clause in clauses if random.random() < 0.7] or clauses
        source = "(select distinct on (id) * from s order by id, v, w)"
        if random.random() < 0.2:
            source = "s"
        return f"merge into t using {source} q on t.id = q.id {' '.join(kept)}"

    def _with(self) -> str:
        condition = self._condition()
        return self._random.choice([
            f"with x as (update t set {self._set()} where {condition} returning id, v) "
            "insert into l select v, 'x' || id from x returning *",
            f"with d as (delete from t where {condition} and id % 3 = 1 returning *), "
            "i as (insert into l select id, 'del' from d returning n) "
            "select d.id, d.v, (select count(*) from i), (select count(*) from t) from d",
            f"with i as (insert into t (id, v, w) values {self._rows(2)} on conflict do nothing returning id) "
            "select i.id, t.v from i left join t using (id)",
            f"with p as (insert into t (id, v) values ({self._id()}, 20) on conflict do nothing returning id), "
            "q as (insert into c select id + 100, id, 0 from p on conflict do nothing returning id) select * from q",
            f"with a as (update t set w = 'first' where {condition} returning id) "
            "update t set w = 'second' from a where a.id = t.id returning t.id",
        ])  # fmt: skip

    def _view(self) -> str:
        random = self._random
        where = random.choice(["k < 10", "v > 20", "w = 'a'", f"k = {self._id()}", "k % 5 = 0"])
        change = random.choice(["v = tv.v - 3", "w = upper(tv.w)", "k = tv.k + 100", "v = 5"])
        return random.choice([
            f"update tv set {change} where {where} returning *",
            f"insert into tv (k, v, w) values {self._rows(2)} on conflict (k) do update set v = excluded.v "
            "where tv.v < 30 returning *",
            f"delete from tv where {where} returning k",
        ])  # fmt: skip

    def _checked(self) -> str:
        random = self._random
        return random.choice([
            f"insert into tc values ({self._id()}, {random.randint(5, 20)}) on conflict do nothing",
            f"update tc set v = v - {random.randint(1, 12)} where id = {self._id()} returning *",
            "update tc set v = v + 1 returning id",
        ])  # fmt: skip

    def _child(self) -> str:
        return (
            f"insert into c select {self._random.randint(1, 60)}, id, 1 from t where {self._condition()} order by id "
            "limit 1 on conflict (id) do update set t = excluded.t, x = c.x + 1 returning *"
        )

    def _source(self) -> str:
        if self._random.random() < 0.7:
            return f"insert into s values {self._rows(4, distinct=False)}"
        return f"delete from s where v < {self._random.randint(0, 30)}"

    def _move(self) -> str:
        id = self._id()
        return f"update t set id = id + 30 where id = {id} and not exists (select 1 from t where id = {id + 30})"


def outcome(connection: psycopg.Connection, statement: str) -> Outcome:
    """The tag and the sorted rows of a statement, or its SQLSTATE and message."""
    try:
        cursor = connection.execute(statement.encode())
    except psycopg.Error as error:
        # Which of several rows is the first to break a rule is a matter of order.
        return ("a rule is broken", None) if error.sqlstate in BROKEN_RULES else (error.sqlstate, [str(error)])
    return cursor.statusmessage, None if cursor.description is None else sorted(map(repr, cursor.fetchall()))


@pytest.fixture
def pair(postgres: PostgresServer, server: TidegateServer) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """PostgreSQL and Tidegate with the same tables."""
    with (
        psycopg.connect(postgres.dsn(), autocommit=True) as theirs,
        psycopg.connect(server.dsn(), autocommit=True) as ours,
    ):
        for connection in (theirs, ours):
            connection.execute(SCHEMA)
        yield theirs, ours
        for connection in (theirs, ours):
            connection.execute("drop schema random_changes cascade")


@pytest.mark.parametrize(("engine", "seed", "count"), [("local", 1, 150), ("local", 2, 150), ("spark", 3, 20)])
def test_random_changes_leave_postgresqls_rows(
    pair: tuple[psycopg.Connection, psycopg.Connection], engine: str, seed: int, count: int
) -> None:
    theirs, ours = pair
    ours.execute(f"set engine = {engine}".encode())
    changes = Changes(seed)
    for number in range(count):
        statement = changes.statement()
        expected = outcome(theirs, statement)
        assert outcome(ours, statement) == expected, statement
        if number % 10 == 9 or number == count - 1:
            for table in TABLES:
                rows = f"select * from {table}"
                assert outcome(ours, rows) == outcome(theirs, rows), f"{table} after {statement}"
