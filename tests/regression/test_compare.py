"""What counts as the same answer, and under what reason another one does."""

from __future__ import annotations

import pytest

from tests.regression.compare import Difference, difference, sort_keys
from tests.regression.reasons import Reasons
from tests.regression.target import Answer, Outcome

INT, TEXT = 23, 25


def _rows(*rows: tuple[str | None, ...], names: tuple[str, ...] = ("a", "b"), oid: int = INT) -> Outcome:
    columns = [(name, oid) for name in names]
    return Outcome([Answer(tag=f"SELECT {len(rows)}", columns=columns, rows=list(rows))])


def _error(sqlstate: str, message: str) -> Outcome:
    return Outcome([Answer(sqlstate=sqlstate, message=message)])


def _done(tag: str) -> Outcome:
    return Outcome([Answer(tag=tag)])


ONE_TWO = _rows(("1", "x"), ("2", "y"))
TWO_ONE = _rows(("2", "y"), ("1", "x"))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select a, b from t", Difference.NONE),
        ("select a, b from (select * from t order by a) s", Difference.NONE),
        ("select a, b from t order by a", Difference.ORDER),
        ("select a, b from t order by 2 desc limit 3", Difference.ORDER),
        ("select a, b from t order by c", Difference.ORDER),
        ("explain select a, b from t", Difference.ROWS),
    ],
)
def test_order(sql: str, expected: Difference) -> None:
    assert difference(sql, ONE_TWO, TWO_ONE) is expected


def test_ties_are_open() -> None:
    wanted, got = _rows(("1", "x"), ("1", "y")), _rows(("1", "y"), ("1", "x"))
    assert difference("select a, b from t order by t.a nulls first", wanted, got) is Difference.NONE
    assert difference("select a, b from t order by a, b", wanted, got) is Difference.ORDER


def test_differences() -> None:
    select = "select a, b from t"
    assert difference(select, ONE_TWO, _rows(("1", "x"))) is Difference.ROWS
    assert difference(select, ONE_TWO, _rows(("1", "x"), ("2", None))) is Difference.ROWS
    assert difference(select, ONE_TWO, _rows(("1", "x"), ("2", "y"), names=("a", "c"))) is Difference.NAMES
    assert difference(select, ONE_TWO, _rows(("1", "x"), ("2", "y"), oid=TEXT)) is Difference.TYPES
    assert difference(select, ONE_TWO, _error("42P01", "no")) is Difference.REFUSED
    assert difference(select, _error("42P01", "no"), ONE_TWO) is Difference.ACCEPTED
    assert difference(select, _error("42P01", "no"), _error("42703", "no")) is Difference.SQLSTATE
    assert difference(select, _error("42P01", "no"), _error("42P01", "yes")) is Difference.MESSAGE
    assert difference("insert", _done("INSERT 0 1"), _done("INSERT 0 2")) is Difference.TAG
    assert difference(select, ONE_TWO, Outcome(broke="lost connection")) is Difference.BROKE


def test_types_of_users_are_alike() -> None:
    assert difference("select", _rows(("1", "x"), oid=20000), _rows(("1", "x"), oid=30000)) is Difference.NONE


def test_sort_keys() -> None:
    assert sort_keys("select string_agg(a order by b) from t") is None
    assert sort_keys("select 1 order by f(a, b) desc nulls last, 'x,y' collate \"C\", c limit 1") == [
        "f(a, b)",
        "'x,y' collate \"C\"",
        "c",
    ]


def test_missing_objects_count_under_what_refused_them() -> None:
    reasons = Reasons()
    refused = _error("0A000", "table inheritance is not supported")
    missing = _error("42P01", 'relation "child" does not exist')
    assert reasons.after("create table child () inherits (p)", Difference.REFUSED, _done("CREATE TABLE"), refused) == (
        "inheritance",
        False,
    )
    assert reasons.after("select * from child", Difference.REFUSED, ONE_TWO, missing) == ("inheritance", True)
    # Made after all, it makes nothing fail any more.
    reasons.after("create table child ()", Difference.NONE, _done("CREATE TABLE"), _done("CREATE TABLE"))
    assert reasons.after("select * from child", Difference.ROWS, ONE_TWO, TWO_ONE)[1] is False


def test_a_failed_transaction_counts_under_what_failed_it() -> None:
    reasons = Reasons()
    reasons.after("select 1", Difference.REFUSED, ONE_TWO, _error("XX000", "broken"))
    aborted = _error("25P02", "current transaction is aborted")
    assert reasons.after("select 2", Difference.REFUSED, ONE_TWO, aborted) == ("refused: XX000 broken", True)
    reasons.after("insert into a_table values (1)", Difference.NONE, _done("INSERT 0 1"), _done("INSERT 0 1"))
    undone = reasons.after("commit", Difference.TAG, _done("COMMIT"), _done("ROLLBACK"))
    assert undone == ("refused: XX000 broken", True)
    reasons.transaction_is_over()
    assert reasons.after("table a_table", Difference.ROWS, ONE_TWO, TWO_ONE) == ("refused: XX000 broken", True)
    assert reasons.after("select 2", Difference.REFUSED, ONE_TWO, aborted)[1] is False


def test_what_both_refuse_spoils_nothing() -> None:
    reasons = Reasons()
    refused, other = _error("0A000", "no"), _error("42601", "no")
    assert reasons.after("create table child ()", Difference.SQLSTATE, other, refused) == ("refused: 0A000 no", False)
    assert reasons.after("select a from child", Difference.ROWS, ONE_TWO, TWO_ONE)[1] is False
