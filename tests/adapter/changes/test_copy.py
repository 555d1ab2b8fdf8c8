"""COPY as sessions do it: defaults, sequences, NOT NULL, aborts, spilling."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adapter.results import CopyIn
from planner.errors import SqlError
from tests.adapter.harness import Client


async def _copy(client: Client, text: str, *batches: Any) -> int:
    count = -1
    async for result in client.session.execute_simple(text):
        assert isinstance(result, CopyIn)
        for batch in batches:
            await result.write(batch)
        count = await result.finish()
    return count


def _ints(*values: int | None) -> Any:
    return pa.record_batch([pa.array(values, pa.int32())], names=["x"])


async def test_defaults_fill_the_other_columns(client: Client) -> None:
    await client.run("create table t (id serial, a int, b text default upper('q'), c int)")
    assert await _copy(client, "copy t (a) from stdin", _ints(5, 6), _ints(7)) == 3
    assert await client.rows("select * from t order by id") == [(1, 5, "Q", None), (2, 6, "Q", None), (3, 7, "Q", None)]


async def test_a_copy_is_one_transaction(client: Client) -> None:
    await client.run("create table t (a int not null)")
    with pytest.raises(SqlError) as caught:
        await _copy(client, "copy t from stdin", _ints(1), _ints(2, None))
    assert caught.value.sqlstate == "23502"
    assert client.status == "I"
    assert await client.value("select count(*) from t") == 0
    await client.run("begin")
    await _copy(client, "copy t from stdin", _ints(1))
    await client.run("rollback")
    assert await client.value("select count(*) from t") == 0


async def test_an_aborted_copy_fails_its_transaction(client: Client) -> None:
    await client.run("create table t (a int); begin")
    async for result in client.session.execute_simple("copy t from stdin"):
        assert isinstance(result, CopyIn)
        await result.write(_ints(1))
        await result.abort(None)
        break
    assert client.status == "E"
    await client.run("rollback")


async def test_large_copies_spill(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage.transactions.txn.SPILL_BUDGET_BYTES", 10_000)
    await client.run("create table t (a int); begin")
    await _copy(client, "copy t from stdin", *(_ints(*range(n * 1000, n * 1000 + 1000)) for n in range(20)))
    transaction = client.session.state.transaction
    assert transaction is not None
    assert transaction.txn is not None
    assert transaction.txn.buffered_bytes <= 10_000
    await client.run("delete from t where a % 2 = 0; commit")
    assert await client.rows("select count(*), min(a), max(a) from t") == [(10_000, 1, 19_999)]


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("copy nope from stdin", "42P01"),
        ("copy t (nope) from stdin", "42703"),
        ("copy t (a, a) from stdin", "42701"),
        ("copy v from stdin", "42809"),
        ("copy v to stdout", "42809"),
        ("copy t from '/etc/passwd'", "42501"),
        ("copy t to program 'cat'", "42501"),
        ("copy t from stdin where a in (select 1)", "0A000"),
        ("copy t from stdin where g > 1", "42703"),
        ("copy t from stdin where a", "42804"),
        ("copy t from stdin where count(*) > 1", "42803"),
        ("copy t from stdin where a > $1", "42P02"),
    ],
)
async def test_refusals(client: Client, text: str, sqlstate: str) -> None:
    await client.run("create table t (a int); create view v as select a from t")
    assert (await client.error(text)).sqlstate == sqlstate


async def test_where_leaves_rows_out(client: Client) -> None:
    await client.run(
        "create table t (a int not null check (a < 10), b int default 5, g int generated always as (a) stored)"
    )
    assert (
        await _copy(client, "copy t (a) from stdin where a < 8 and b = 5", _ints(5, None, 20), _ints(9), _ints(7)) == 2
    )
    assert await client.rows("select * from t order by a") == [(5, 5, 5), (7, 5, 7)]
    assert await _copy(client, "copy t (a) from stdin where a > 100", _ints(1, 2)) == 0
    with pytest.raises(SqlError) as raised:
        await client.run("copy t (a) from stdin where g > 1")
    assert raised.value.sqlstate == "42P10"


async def test_where_is_tested_with_the_defaults_of_each_row(client: Client) -> None:
    await client.run("create table t (a int, n serial)")
    assert await _copy(client, "copy t (a) from stdin where n > 2", _ints(1, 2, 3, 4)) == 2
    assert await client.rows("select a, n from t order by n") == [(3, 3), (4, 4)]


@pytest.mark.parametrize(
    "columns",
    [
        "x int, exclude using btree (x with =)",
        "x int, r int4range generated always as (int4range(x, x + 3)) stored, exclude using gist (r with &&)",
    ],
)
async def test_what_breaks_an_exclusion_is_found_in_its_line(client: Client, columns: str) -> None:
    await client.run(f"create table t ({columns}); insert into t values (7)")
    with pytest.raises(SqlError) as caught:
        await _copy(client, "copy t (x) from stdin", _ints(1, 7))
    assert (caught.value.sqlstate, caught.value.row) == ("23P01", 1)
