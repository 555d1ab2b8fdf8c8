"""The local engine: streaming, bounds, cancel, isolation from the outside."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow as pa
import pytest

from adapter.admission.admission import Admission
from adapter.admission.classes import WorkloadClass
from adapter.admission.machine import Machine
from adapter.engines.common.lowered_queries import KnownQuery
from adapter.engines.local.database import Cursor, LocalDatabase
from adapter.engines.local.databases import Databases
from adapter.engines.local.engine import LocalEngine
from adapter.engines.local.scans import ConstantColumns
from planner.errors import ObjectNotInPrerequisiteState, QueryCanceled
from planner.ir import nodes as ir
from planner.types import types
from planner.types.types import SqlType
from tests.adapter.engines.harness import INT8, World, constants, endless, equal, literal, ordered, query, same, scan

TEXT = SqlType(types.TEXT)
THREADS = 3


async def test_constants(world: World, local: LocalEngine) -> None:
    assert await world.rows(local, constants(literal(1), literal("é", TEXT)), {}) == [(1, "é")]


async def test_a_database_that_cannot_be_opened_is_named(world: World) -> None:
    (world.folder / "occupied").write_text("no folder")
    engine = LocalEngine(world.env, blob_root=world.blob_root, directory=world.folder / "occupied")
    for _ in range(2):
        with pytest.raises(ObjectNotInPrerequisiteState, match=r"the local engine is not available: .*occupied"):
            await world.rows(engine, constants(literal(1)), {})
    await engine.close()


async def test_no_columns_keep_their_rows(world: World, local: LocalEngine) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(1,), (2,), (3,)])
    nothing = ir.Project(input=scan(table), exprs=(), fields=())
    assert await world.rows(local, query(nothing, table), {table.oid: await world.input(table)}) == [(), (), ()]


@pytest.mark.parametrize("small", [0, 8192])
async def test_point_reads_reuse_decoded_parts(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr("adapter.engines.local.scans.MAX_ROWS", small)
    table = await world.table(("a", INT8), ("b", TEXT))
    found = scan(table)
    point = query(
        ir.Filter(input=found, condition=same(found.fields[0], ir.Param(index=1, type=INT8)), fields=found.fields),
        table,
    )
    for number in range(5):
        await world.insert(table, [(number, f"row {number}")])
        tables = {table.oid: await world.input(table)}
        for wanted in range(number + 1):
            assert await world.rows(local, point, tables, [literal(wanted)]) == [(wanted, f"row {wanted}")]
    # An older snapshot still sees its own rows only, though they share a table with newer ones.
    newest = await world.input(table)
    older = {table.oid: type(newest)(relation=table, inserts=newest.inserts[:2], deletes=(), bytes=0, rows=2)}
    assert sorted(await world.rows(local, query(found, table), older)) == [(0, "row 0"), (1, "row 1")]


@pytest.fixture
def by_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tables are read by plans of the database, as they are where a query is more than row programs do."""
    monkeypatch.setattr(KnownQuery, "row_scan", lambda *_: None)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The kept plan that each statement on a cursor has used, None where it had none."""
    noted: list[str | None] = []
    plan = Cursor._plan

    def note(cursor: Cursor, sql: str) -> str | None:
        noted.append(plan(cursor, sql))
        return noted[-1]

    monkeypatch.setattr(Cursor, "_plan", note)
    return noted


async def test_a_lookup_needs_no_database(world: World, local: LocalEngine, used: list[str | None]) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    found = scan(table, row_id=True)
    point = query(
        ir.Filter(input=found, condition=equal(found.fields[0], ir.Param(index=1, type=INT8)), fields=found.fields),
        table,
    )
    empty = {table.oid: await world.input(table)}
    await world.insert(table, [(number % 5, f"row {number}") for number in range(10)])
    await world.insert(table, [(None, None)])
    full = {table.oid: await world.input(table)}
    await world.delete(table, pa.table({"_row_id": [3], "c1": [3], "c2": ["row 3"]}))
    less = {table.oid: await world.input(table)}
    assert await world.rows(local, point, empty, [literal(3)]) == []
    assert await world.rows(local, point, full, [literal(3)]) == [(3, "row 3", 3), (3, "row 8", 8)]
    assert await world.rows(local, point, less, [literal(3)]) == [(3, "row 8", 8)]
    assert await world.rows(local, point, less, [literal(None)]) == []
    assert used == []
    assert local.unsupported(point) is None


@pytest.mark.usefixtures("by_plans")
async def test_larger_tables_are_read_by_all_threads(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    local = LocalEngine(
        world.env,
        blob_root=world.blob_root,
        directory=world.folder / "scratch",
        admission=Admission(Machine(cores=THREADS, memory=1 << 30)),
    )
    threads: list[int] = []
    stream = Cursor.stream

    def note(cursor: Cursor, sql: str, batch_rows: int, values: Sequence[str | bytes] = ()) -> object:
        threads.extend(cursor.connection.execute("SELECT current_setting('threads')").fetchall()[0])
        return stream(cursor, sql, batch_rows, values)

    monkeypatch.setattr(Cursor, "stream", note)
    monkeypatch.setattr("adapter.engines.local.scans.MAX_ROWS", 10)
    small, large = await world.table(("a", INT8)), await world.table(("a", INT8))
    await world.insert(small, [(number,) for number in range(10)])
    await world.insert(large, [(number,) for number in range(11)])
    left, right = scan(small, first=10), scan(large, first=20)
    both = ir.Join(
        kind="cross", left=left, right=right, condition=None, lateral=False, fields=(*left.fields, *right.fields)
    )
    inputs = {table.oid: await world.input(table) for table in (small, large)}
    assert len(await world.rows(local, query(ordered(left), small), inputs)) == 10
    assert len(await world.rows(local, query(ordered(right), large), inputs)) == 11
    assert len(await world.rows(local, query(both, small, large), inputs)) == 110
    assert await world.rows(local, constants(literal(1)), {}) == [(1,)]
    assert threads == [1, THREADS, THREADS, 1]
    await local.close()


@pytest.mark.usefixtures("by_plans")
async def test_the_plan_of_a_small_table_outlives_its_changes(
    world: World, local: LocalEngine, used: list[str | None]
) -> None:
    table = await world.table(("a", INT8))
    reading = query(ordered(scan(table, row_id=True)), table)
    expected: list[tuple[int, int]] = []
    for number in range(6):
        await world.insert(table, [(number,), (-number,)])
        await world.delete(table, pa.table({"_row_id": [2 * number + 1], "c1": [-number]}))
        expected.append((number, 2 * number))
        assert sorted(await world.rows(local, reading, {table.oid: await world.input(table)})) == expected
    # Kept from the second run on; one cursor ran them all.
    assert used == [None] + ["plan0"] * 5


@pytest.mark.usefixtures("by_plans")
@pytest.mark.parametrize("bound", [False, True])
async def test_one_plan_serves_all_constants_beside_a_small_table(
    world: World, local: LocalEngine, used: list[str | None], bound: bool
) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(number, f"row {number}") for number in range(10)])
    found = scan(table)
    for wanted in range(12):
        constant = ir.Param(index=1, type=INT8) if bound else literal(wanted)
        point = query(
            ordered(ir.Filter(input=found, condition=equal(found.fields[0], constant), fields=found.fields)),
            table,
        )
        rows = await world.rows(local, point, {table.oid: await world.input(table)}, [literal(wanted)])
        assert rows == [(wanted, f"row {wanted}")] * (wanted < 10)
    assert used == [None] + ["plan0"] * 11


async def test_a_long_constant_is_held_once(world: World, local: LocalEngine) -> None:
    rows = pa.table({"c1": pa.array([str(number) for number in range(8192)])})
    held = ConstantColumns().of(rows, (literal("x" * 1_000_000, TEXT), literal(7), literal(None, TEXT)))
    assert held.nbytes < rows.nbytes + 1_000_000 + 8192 * 16
    table = await world.table(("a", TEXT))
    await world.insert(table, [("x" * 1_000_000,), ("y",)])
    found = scan(table)
    point = query(
        ordered(
            ir.Filter(input=found, condition=equal(found.fields[0], ir.Param(index=1, type=TEXT)), fields=found.fields)
        ),
        table,
    )
    for wanted in ("y", "x" * 1_000_000, "z", "y"):
        rows_ = await world.rows(local, point, {table.oid: await world.input(table)}, [literal(wanted, TEXT)])
        assert rows_ == [(wanted,)] * (wanted != "z")


async def test_constants_of_several_executions_at_once(world: World, local: LocalEngine) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(20)])
    found = scan(table)
    point = query(
        ordered(
            ir.Filter(input=found, condition=equal(found.fields[0], ir.Param(index=1, type=INT8)), fields=found.fields)
        ),
        table,
    )
    tables = {table.oid: await world.input(table)}
    for _ in range(5):
        rows = await asyncio.gather(*(world.rows(local, point, tables, [literal(wanted)]) for wanted in range(20)))
        assert rows == [[(wanted,)] for wanted in range(20)]


async def test_small_tables_of_several_executions_at_once(world: World, local: LocalEngine) -> None:
    table = await world.table(("a", INT8))
    snapshots = []
    for number in range(5):
        await world.insert(table, [(number,)])
        snapshots.append({table.oid: await world.input(table)})
    reading = query(ordered(scan(table)), table)
    for _ in range(5):
        found = await asyncio.gather(*(world.rows(local, reading, snapshot) for snapshot in snapshots))
        assert [sorted(rows) for rows in found] == [[(n,) for n in range(count + 1)] for count in range(5)]


async def test_tables_of_inline_parts_start_anew(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adapter.engines.local.inline_pool.SPARE_PARTS", 1)
    monkeypatch.setattr("adapter.engines.local.scans.MAX_ROWS", 0)
    table = await world.table(("a", INT8))
    for number in range(8):
        await world.insert(table, [(number,)])
    whole = await world.input(table)
    reading = query(scan(table), table)
    assert sorted(await world.rows(local, reading, {table.oid: whole})) == [(number,) for number in range(8)]
    for number in range(8):
        one = type(whole)(relation=table, inserts=whole.inserts[number : number + 1], deletes=(), bytes=0, rows=1)
        assert await world.rows(local, reading, {table.oid: one}) == [(number,)]
    assert sorted(await world.rows(local, reading, {table.oid: whole})) == [(number,) for number in range(8)]


async def test_a_long_result_streams(world: World, local: LocalEngine) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(number, f"text of row {number}") for number in range(2000)])
    left, right = scan(table, first=10), scan(table, first=20)
    joined = ir.Join(
        kind="cross", left=left, right=right, condition=None, lateral=False, fields=(*left.fields, *right.fields)
    )
    process = psutil.Process(os.getpid())
    before = process.memory_info().rss
    rows = peak = 0
    async for batch in local.execute(query(joined, table), {table.oid: await world.input(table)}, (), world.context()):
        rows += batch.num_rows
        peak = max(peak, process.memory_info().rss)
    assert rows == 4_000_000  # about 230 MB of Arrow data
    assert peak - before < 100 << 20


async def test_cancel_by_token(world: World, local: LocalEngine) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    tables = {table.oid: await world.input(table)}
    context = world.context()
    running = asyncio.create_task(world.rows(local, endless(table), tables, context=context))
    await asyncio.sleep(0.2)
    await local.cancel(context.token)
    with pytest.raises(QueryCanceled, match="canceling statement due to user request"):
        await running
    assert len(await world.rows(local, query(scan(table), table), tables)) == 3000


async def test_a_cancel_that_comes_before_the_database_is_open(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    tables = {table.oid: await world.input(table)}
    context = world.context()
    entered, go = threading.Event(), threading.Event()
    open_it = Databases._open

    def slowly(self: Databases, folder: str, name: WorkloadClass, memory: int) -> Any:
        entered.set()
        go.wait(60)
        return open_it(self, folder, name, memory)

    monkeypatch.setattr(Databases, "_open", slowly)
    running = asyncio.create_task(world.rows(local, endless(table), tables, context=context))
    assert await asyncio.to_thread(entered.wait, 60)
    await local.cancel(context.token)
    go.set()
    with pytest.raises(QueryCanceled, match="canceling statement due to user request"):
        await running


async def test_a_cancel_that_comes_between_two_steps(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    tables = {table.oid: await world.input(table)}
    context = world.context()
    entered, go = threading.Event(), threading.Event()
    text = KnownQuery.text

    def late(self: KnownQuery, *given: Any) -> Any:
        # The thread has seen that nobody has cancelled, and runs nothing yet that an interrupt could end.
        entered.set()
        go.wait(60)
        return text(self, *given)

    monkeypatch.setattr(KnownQuery, "text", late)
    running = asyncio.create_task(world.rows(local, endless(table), tables, context=context))
    assert await asyncio.to_thread(entered.wait, 60)
    await local.cancel(context.token)
    go.set()
    with pytest.raises(QueryCanceled, match="canceling statement due to user request"):
        await running


async def test_a_cancelled_task_ends_the_query(world: World, local: LocalEngine) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    tables = {table.oid: await world.input(table)}
    running = asyncio.create_task(world.rows(local, endless(table), tables))
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(await world.rows(local, query(scan(table), table), tables)) == 3000


async def test_a_cancel_that_comes_at_the_end_leaves_the_cursor_s_next_execution_alone(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    tables = {table.oid: await world.input(table)}
    first, second = (world.context({"workload_class": "interactive"}) for _ in range(2))
    over, go = threading.Event(), threading.Event()
    next_batches = LocalEngine._next_batches

    def slowly(self: LocalEngine, execution: Any) -> Any:
        found = next_batches(self, execution)
        over.set()
        go.wait(60)
        return found

    monkeypatch.setattr(LocalEngine, "_next_batches", slowly)
    ended = asyncio.create_task(world.rows(local, constants(literal(1)), {}, context=first))
    assert await asyncio.to_thread(over.wait, 60)
    monkeypatch.undo()
    await local.cancel(first.token)
    running = asyncio.create_task(world.rows(local, endless(table), tables, context=second))
    assert not (await asyncio.wait([running], timeout=0.5))[0]
    go.set()
    assert await ended == [(1,)]
    await local.cancel(second.token)
    with pytest.raises(QueryCanceled, match="canceling statement due to user request"):
        await running


async def test_what_begins_anew_when_its_first_rows_are_there_gives_them_once(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    left, right = scan(table, first=10), scan(table, first=20)
    joined = ir.Join(
        kind="cross", left=left, right=right, condition=None, lateral=False, fields=(*left.fields, *right.fields)
    )
    context = world.context({"workload_class": "interactive"})
    next_batches = LocalEngine._next_batches
    moved: list[bool] = []

    def moving(self: LocalEngine, execution: Any) -> Any:
        found = next_batches(self, execution)
        if not moved:
            # What `_late` and `_interrupted` do, when the engine has just done the step.
            execution.moves = True
            execution.interrupt()
        moved.append(execution.ended)
        return found

    monkeypatch.setattr(LocalEngine, "_next_batches", moving)
    rows = 0
    async for batch in local.execute(query(joined, table), {table.oid: await world.input(table)}, (), context):
        rows += batch.num_rows
    assert rows == 9_000_000
    assert moved[:2] == [False, False]


async def test_a_call_that_looks_at_no_interrupt_is_left_alone(
    world: World, local: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(number,) for number in range(3000)])
    tables = {table.oid: await world.input(table)}
    entered, over = threading.Event(), threading.Event()
    begin = LocalEngine._begin

    def call(self: LocalEngine, *given: Any) -> tuple[list[Any], bool]:
        entered.set()
        over.wait(60)
        return begin(self, *given)

    monkeypatch.setattr(LocalEngine, "_begin", call)
    running = asyncio.create_task(world.rows(local, endless(table), tables))
    await asyncio.to_thread(entered.wait, 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    assert not over.is_set()
    assert len(local._leaving) == 1
    monkeypatch.undo()
    # The engine works meanwhile, and the one that was left ends when the call does.
    assert len(await world.rows(local, query(scan(table), table), tables)) == 3000
    over.set()
    await asyncio.wait_for(asyncio.gather(*local._leaving), 30)
    assert len(await world.rows(local, query(scan(table), table), tables)) == 3000


def test_the_database_is_closed_to_the_outside(tmp_path: Path) -> None:
    allowed = tmp_path / "blob"
    allowed.mkdir()
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    (allowed / "open.csv").write_text("a\n1\n")
    database = LocalDatabase(directories=[allowed], scratch=tmp_path / "scratch", memory_limit="100MB")
    try:
        assert database.run(f"SELECT count(*) FROM read_csv('{allowed}/open.csv')") == [(1,)]
        for statement in (
            f"SELECT * FROM read_csv('{secret}')",
            f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
            f"ATTACH '{tmp_path}/other.db'",
            "INSTALL httpfs",
        ):
            with pytest.raises((duckdb.PermissionException, duckdb.IOException)):
                database.run(statement)
        for statement in ("SET enable_external_access = true", "SET memory_limit = '1TB'", "RESET allowed_directories"):
            with pytest.raises(duckdb.InvalidInputException, match="configuration"):
                database.run(statement)
    finally:
        database.close()


def test_arithmetic_is_postgresql_s(tmp_path: Path) -> None:
    database = LocalDatabase(directories=[], scratch=tmp_path / "scratch", memory_limit="100MB")
    try:
        assert database.run("SELECT 7 / 2, -7 / 2, current_setting('TimeZone')") == [(3, -3, "UTC")]
        assert database.run("SELECT x FROM (VALUES (1), (NULL), (2)) t(x) ORDER BY x DESC") == [(None,), (2,), (1,)]
    finally:
        database.close()
