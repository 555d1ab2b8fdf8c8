"""What both engines read of a table: inline parts and files, deletes, row ids, columns added later."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adapter.engines.common.engine import Engine
from adapter.plans.computed.constant_rows import batch_of
from planner.ir import nodes as ir
from planner.types import types
from planner.types.types import SqlType, column_type, numeric_typmod
from storage.catalog.model import Column, Relation
from storage.shards.field_ids import FIELD_ID, ROW_ID_FIELD
from storage.shards.parts import UploadedPart
from tests.adapter.engines.harness import INT8, World, query, scan

TEXT = SqlType(types.TEXT)


async def ids(world: World, engine: Engine, table: Relation, rel: ir.Scan) -> list[tuple[Any, ...]]:
    """The rows of a scan of the newest snapshot, sorted."""
    return sorted(await world.rows(engine, query(rel, table), {table.oid: await world.input(table)}))


async def test_an_empty_table(world: World, engine: Engine) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    assert await ids(world, engine, table, scan(table, row_id=True)) == []


@pytest.mark.parametrize("as_file", [False, True])
async def test_row_ids_and_deletes(world: World, engine: Engine, as_file: bool) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    for start in (0, 10, 20):
        await world.insert(table, [(number, f"t{number}") for number in range(start, start + 10)], as_file=as_file)
    everything = [(number, f"t{number}", number) for number in range(30)]
    assert await ids(world, engine, table, scan(table, row_id=True)) == everything
    gone = [3, 12, 19]
    old = pa.table({"_row_id": gone, "c1": gone, "c2": [f"t{number}" for number in gone]})
    await world.delete(table, old)
    left = [row for row in everything if row[0] not in gone]
    assert await ids(world, engine, table, scan(table, row_id=True)) == left
    assert await ids(world, engine, table, scan(table)) == [row[:2] for row in left]


async def test_many_deletes_of_a_file(world: World, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.engines.spark.views.LITERAL_ROW_IDS", 10)
    table = await world.table(
        ("a", INT8),
    )
    await world.insert(table, [(number,) for number in range(500)], as_file=True)
    await world.insert(table, [(number,) for number in range(500, 600)], as_file=True)
    gone = list(range(0, 400, 2))
    await world.delete(table, pa.table({"_row_id": gone, "c1": gone}))
    left = [(number, number) for number in range(600) if number not in set(gone)]
    assert await ids(world, engine, table, scan(table, row_id=True)) == left


async def test_deletes_that_executors_read_from_files(
    world: World, spark: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapter.engines.spark.views.DRIVER_ROW_IDS", 10)
    table = await world.table(
        ("a", INT8),
    )
    await world.insert(table, [(number,) for number in range(100)], as_file=True)
    gone = list(range(50))
    assert table.shard is not None
    part = await world.env.parts.upload("delete", table.shard, pa.table({"_row_id": gone, "c1": gone}))
    assert part.key is not None
    txn = world.env.begin()
    await txn.delete_part(table.shard, UploadedPart(key=part.key))
    await world.commit(txn)
    await world.delete(table, pa.table({"_row_id": [99], "c1": [99]}))
    assert await ids(world, spark, table, scan(table)) == [(number,) for number in range(50, 99)]


async def test_many_files_have_their_own_row_ids(world: World, spark: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapter.engines.spark.views.CASE_FILES", 2)
    table = await world.table(
        ("a", INT8),
    )
    for start in range(0, 40, 10):
        await world.insert(table, [(number,) for number in range(start, start + 10)], as_file=True)
    assert await ids(world, spark, table, scan(table, row_id=True)) == [(number, number) for number in range(40)]


async def test_columns_added_later(world: World, engine: Engine) -> None:
    table = await world.table(
        ("a", INT8),
    )
    assert table.shard is not None
    await world.insert(table, [(1,)])
    await world.insert(table, [(2,)], as_file=True)
    wider = msgspec.structs.replace(
        table,
        columns=(
            *table.columns,
            Column(attnum=2, name="b", type_oid=types.TEXT),
            Column(attnum=3, name="c", type_oid=types.INT8, missing="7"),
        ),
    )
    txn = world.env.begin()
    txn.alter_schema(table.shard, pa.schema([("c1", pa.int64()), ("c2", pa.string()), ("c3", pa.int64())]))
    await world.commit(txn)
    await world.insert(wider, [(3, "three", 30)])
    await world.insert(wider, [(4, "four", None)], as_file=True)
    assert await ids(world, engine, wider, scan(wider)) == [
        (1, None, 7), (2, None, 7), (3, "three", 30), (4, "four", None)
    ]  # fmt: skip


async def test_own_writes_of_an_open_transaction(world: World, engine: Engine) -> None:
    table = await world.table(
        ("a", INT8),
    )
    assert table.shard is not None
    await world.insert(table, [(1,), (2,)])
    txn = world.env.begin()
    txn.write(table.shard, pa.table({"c1": pa.array([3, 4])}))
    first = next(part for part in txn.local_parts(table.shard) if part.kind == "insert").first_row_id
    txn.delete(table.shard, pa.table({"_row_id": [0, first], "c1": [1, 3]}))
    own = await world.input(table, txn.local_parts(table.shard))
    rows = await world.rows(engine, query(scan(table, row_id=True), table), {table.oid: own})
    assert sorted(rows) == [(2, 1), (4, first + 1)]
    txn.abandon()
    assert await ids(world, engine, table, scan(table)) == [(1,), (2,)]


WATERLOO = datetime.datetime(1815, 6, 18, 11, 30)  # noqa: DTZ001 - a timestamp without time zone

VALUES: list[tuple[SqlType, object, object]] = [
    (SqlType(types.BOOL), True, True),
    (SqlType(types.INT2), -5, -5),
    (SqlType(types.INT4), 5, 5),
    (SqlType(types.FLOAT4), 1.5, 1.5),
    (SqlType(types.FLOAT8), float("inf"), float("inf")),
    (column_type(types.NUMERIC, numeric_typmod(10, 2)), Decimal("12.34"), Decimal("12.34")),
    (column_type(types.NUMERIC), "-0.50", "-0.50"),
    (TEXT, "grüße'\\", "grüße'\\"),
    (SqlType(types.BYTEA), b"\x00\xff", b"\x00\xff"),
    (SqlType(types.DATE), datetime.date(1500, 2, 28), datetime.date(1500, 2, 28)),
    (SqlType(types.TIME), datetime.time(23, 59, 59, 999999), datetime.time(23, 59, 59, 999999)),
    (SqlType(types.TIMESTAMP), WATERLOO, WATERLOO),
    (
        SqlType(types.TIMESTAMPTZ),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC),
    ),
    (SqlType(types.INTERVAL), ir.Interval(1, -2, 3), {"months": 1, "days": -2, "micros": 3}),
    (SqlType(types.UUID), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    (SqlType(1007), (1, None, 3), [1, None, 3]),
]


@pytest.mark.parametrize("as_file", [False, True])
async def test_every_type_passes_unchanged(world: World, engine: Engine, as_file: bool) -> None:
    table = await world.table(*((f"a{index}", type) for index, (type, _, _) in enumerate(VALUES)))
    await world.insert(table, [[value for _, value, _ in VALUES], [None] * len(VALUES)], as_file=as_file)
    found = await world.rows(engine, query(scan(table), table), {table.oid: await world.input(table)})
    assert sorted(found, key=lambda row: row[0] is None) == [
        tuple(expected for _, _, expected in VALUES),
        (None,) * len(VALUES),
    ]


@pytest.mark.parametrize("as_file", [False, True])
async def test_what_an_engine_writes_is_read_back(world: World, engine: Engine, as_file: bool) -> None:
    """UPDATE's two sets of parts from one run: deletes with row ids and old values, inserts with new ones."""
    table = await world.table(*((f"a{index}", type) for index, (type, _, _) in enumerate(VALUES)))
    assert table.shard is not None
    await world.insert(table, [[value for _, value, _ in VALUES], [None] * len(VALUES)], as_file=as_file)
    read = scan(table, row_id=True)
    width = len(VALUES)
    names = [f"c{number}" for number in range(1, width + 1)]
    deletes, inserts = await engine.write(
        query(read, table),
        {table.oid: await world.input(table)},
        (),
        world.context(),
        shard=table.shard,
        columns=[(width, *range(width)), tuple(range(width))],
        names=[["_row_id", *names], names],
        extra={},
    )
    assert sum(part.rows for part in deletes) == sum(part.rows for part in inserts) == 2
    txn = world.env.begin()
    for part in deletes:
        await txn.delete_part(table.shard, UploadedPart(key=part.key, rows=part.rows, bytes=part.bytes))
    for part in inserts:
        await txn.write_part(table.shard, UploadedPart(key=part.key, rows=part.rows, bytes=part.bytes))
    await world.commit(txn)
    found = await world.rows(engine, query(read, table), {table.oid: await world.input(table)})
    assert sorted(row[-1] for row in found) == [2, 3]  # type: ignore[type-var]
    assert sorted((row[:-1] for row in found), key=lambda row: row[0] is None) == [
        tuple(expected for _, _, expected in VALUES),
        (None,) * width,
    ]


async def test_what_an_engine_writes_has_field_ids(world: World, engine: Engine) -> None:
    table = await world.table(("a", INT8), ("b", SqlType(types.TEXT)))
    assert table.shard is not None
    await world.insert(table, [[1, "x"]])
    deletes, inserts = await engine.write(
        query(scan(table, row_id=True), table), {table.oid: await world.input(table)}, (), world.context(),
        shard=table.shard, columns=[(2, 0), (1, 0)], names=[["_row_id", "c1"], ["c2", "c1"]], extra={},
    )  # fmt: skip
    for (part,), expected in ((deletes, {"_row_id": ROW_ID_FIELD, "c1": 1}), (inserts, {"c2": 2, "c1": 1})):
        data = await world.env.blob.get(part.key)
        assert data is not None
        schema = pq.read_schema(pa.BufferReader(data))
        assert {field.name: int(field.metadata[FIELD_ID]) for field in schema} == expected


async def test_writing_nothing_writes_no_file(world: World, engine: Engine) -> None:
    table = await world.table(
        ("a", INT8),
    )
    assert table.shard is not None
    written = await engine.write(
        query(scan(table), table), {table.oid: await world.input(table)}, (), world.context(),
        shard=table.shard, columns=[(0,)], names=[["c1"]], extra={},
    )  # fmt: skip
    assert [list(parts) for parts in written] == [[]]
    assert [entry async for entry in world.env.blob.list("parts/" + table.shard)] == []


async def test_affected_rows_for_returning(world: World, engine: Engine) -> None:
    interval = SqlType(types.INTERVAL)
    fields = (ir.Field(id=1, name="a", type=INT8), ir.Field(id=2, name="b", type=interval))
    affected = pa.Table.from_batches([batch_of([INT8, interval], [(1, ir.Interval(1, 2, 3))])])
    reading = query(ir.CteScan(cte=ir.RETURNING_ROWS, fields=fields))
    stream = engine.execute(reading, {}, (), world.context(), extra={ir.RETURNING_ROWS: affected})
    batches = [batch async for batch in stream]
    assert [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)] == [
        (1, {"months": 1, "days": 2, "micros": 3})
    ]
