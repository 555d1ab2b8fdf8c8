"""Random queries over the test tables: conditions with constants wherever SQL allows one, against PostgreSQL."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.differential.harness import Engines, Error, Oracle, comparable

COLUMNS = {
    "n": {"id": "integer", "i2": "integer", "i4": "integer", "i8": "integer", "f8": "float", "num": "numeric"},
    "emp": {"id": "integer", "dept": "text", "name": "text", "hired": "date", "boss": "integer"},
    "s": {"id": "integer", "t": "text", "v": "text", "c": "text", "uu": "uuid"},
    "d": {"id": "integer", "dt": "date", "ts": "date"},
    "nothing": {"id": "integer", "x": "text"},
}
CONSTANTS = {
    "integer": ("0", "1", "2", "3", "5", "7", "10", "-2", "100", "32767", "null::int"),
    "float": ("0.1::float8", "2.5::float8", "1e300::float8", "-3.5::float8", "null::float8"),
    "numeric": ("12.34", "0", "7.00", "-0.05"),
    "text": ("'eng'", "'hello'", "'ops'", "''", "'b'", "'ab   '", "'h'", "null::text"),
    "date": ("date '2016-01-01'", "date '2000-01-01'", "date '2020-02-29'", "null::date"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid"),
}
COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
QUERIES = 300


class Queries:
    """Queries that are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _table(self) -> str:
        return self._random.choice(list(COLUMNS))

    def _constant(self, kind: str) -> str:
        return self._random.choice(CONSTANTS[kind])

    def _comparison(self, alias: str, table: str) -> str:
        random = self._random
        name, kind = random.choice(list(COLUMNS[table].items()))
        column = f"{alias}.{name}"
        match random.randrange(8):
            case 0:
                return f"{column} in ({', '.join(self._constant(kind) for _ in range(random.randint(1, 3)))})"
            case 1:
                word = random.choice(["is distinct from", "is not distinct from"])
                return f"{column} {word} {self._constant(kind)}"
            case 2:
                return f"{column} between {self._constant(kind)} and {self._constant(kind)}"
        sides = [column, self._constant(kind)]
        random.shuffle(sides)
        return f"{sides[0]} {random.choice(COMPARISONS)} {sides[1]}"

    def _condition(self, alias: str, table: str, depth: int = 0) -> str:
        random = self._random
        if depth < 2 and random.random() < 0.35:
            word = random.choice(["and", "or"])
            return f"({self._condition(alias, table, depth + 1)} {word} {self._condition(alias, table, depth + 1)})"
        if depth < 2 and random.random() < 0.15:
            return f"not ({self._condition(alias, table, depth + 1)})"
        if depth < 1 and random.random() < 0.25:
            other = self._table()
            inner = self._condition("y", other, 2)
            if random.random() < 0.5:
                return f"{alias}.id in (select y.id from {other} y where {inner})"
            outer = self._comparison(alias, table)
            return f"exists (select 1 from {other} y where y.id = {alias}.id and {inner} and {outer})"
        return self._comparison(alias, table)

    def query(self) -> str:
        """The next one."""
        random = self._random
        table, other = self._table(), self._table()
        name, kind = random.choice(list(COLUMNS[table].items()))
        where = self._condition("a", table)

        def compared() -> str:
            return self._comparison("a", table)

        match random.randrange(8):
            case 0:
                return f"select a.id, {self._condition('a', table)} from {table} a where {where}"
            case 1:
                having = f"a.{name} <> {self._constant(kind)} or count(*) filter (where {compared()}) > 0"
                items = f"a.{name}, count(*), a.{name} > {self._constant(kind)}"
                return f"select {items} from {table} a where {where} group by a.{name} having {having}"
            case 2:
                items = f"{compared()} as x, count(*), min(a.id) filter (where {compared()})"
                return f"select {items} from {table} a where {where} group by 1"
            case 3:
                join = random.choice(["join", "left join", "right join", "full join"])
                on = "a.id = b.id" if join == "full join" else f"a.id = b.id and {compared()}"
                return f"select a.id, b.id, {compared()} from {table} a {join} {other} b on {on} where {where}"
            case 4:
                numbered = f"row_number() over (partition by {compared()} order by a.id)"
                summed = f"sum(a.id) over (order by {compared()}, a.id)"
                return f"select a.id, {numbered}, {summed} from {table} a where {where}"
            case 5:
                return f"select distinct {compared()}, {compared()} from {table} a where {where}"
            case 6:
                inner = f"select a.{name} as x, count(*) as n, max(a.id) as m from {table} a where {where} group by 1"
                outer = f"q.x {random.choice(COMPARISONS)} {self._constant(kind)} or q.m > {self._constant('integer')}"
                return f"select q.x, q.n from ({inner}) q where {outer}"
        first = f"select w.id, w.f, b.id from w left join {other} b on b.id = w.id and {self._comparison('b', other)}"
        second = f"select b.id, {self._comparison('b', other)}, 1 from {other} b where {self._condition('b', other)}"
        w = f"select a.id, {compared()} as f from {table} a where {where}"
        return f"with w as ({w}) {first} where w.id > {self._constant('integer')} union all {second}"


def difference(sql: str, oracle: Oracle, engines: Engines) -> str | None:
    """What differs, if anything does."""
    wanted, found = oracle.run(sql), engines.run(sql, "local")
    if isinstance(wanted, Error) or isinstance(found, Error):
        same = isinstance(wanted, Error) and isinstance(found, Error) and wanted.sqlstate == found.sqlstate
    else:
        fields = engines.bind(sql).rel.fields
        rows, expected = comparable(found, fields), comparable(wanted, fields)
        assert not isinstance(rows, Error)
        assert not isinstance(expected, Error)
        same = Counter(rows) == Counter(expected)
    return None if same else f"{sql}\n      PostgreSQL: {wanted}\n      local: {found}"


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_give_postgresqls_rows(seed: int, oracle: Oracle, engines: Engines) -> None:
    queries = Queries(seed)
    wrong = [found for _ in range(QUERIES) if (found := difference(queries.query(), oracle, engines)) is not None]
    assert not wrong, "\n".join(wrong[:5])
