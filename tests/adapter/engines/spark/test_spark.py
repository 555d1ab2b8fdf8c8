"""The Spark engine: collected and spooled results, order, cancel, errors, a JVM that dies."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from msgspec.structs import replace
from py4j.java_gateway import JavaPackage

from adapter.engines.common import result_size
from adapter.engines.spark import profiles
from adapter.engines.spark import runtime as spark_runtime_module
from adapter.engines.spark.context_settings import SparkSettings
from adapter.engines.spark.engine import SparkEngine
from adapter.engines.spark.java import gateway as spark_gateway
from adapter.engines.spark.java.gateway import SparkUnavailable
from adapter.engines.spark.profiles import Mode, Profile, profile_for
from adapter.engines.spark.python.functions import DAEMON
from adapter.engines.spark.runtime import Spark, SparkRuntime
from planner.errors import (
    ConfigurationLimitExceeded,
    DivisionByZero,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    OutOfMemory,
    QueryCanceled,
)
from planner.functions.registry import aggregates, functions, operators
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.types import types
from planner.types.types import SqlType
from tests.adapter.engines.harness import INT8, World, constants, literal, query, same, scan

TEXT = SqlType(types.TEXT)


def ordered(source: ir.Scan) -> ir.Sort:
    """`source` by its first column, descending."""
    key = ir.SortKey(expr=ir.ColumnRef(id=source.fields[0].id, type=INT8), descending=True, nulls_first=True)
    return ir.Sort(input=source, keys=(key,), fields=source.fields)


async def jobs_run(runtime: SparkRuntime, statement: asyncio.Task[Any], *, some: bool) -> None:
    """Waits until Spark has active jobs, or has none. Raises what `statement` raised if it ends before it has any."""
    current = runtime.current()
    assert isinstance(current, Spark)
    tracker = current.context.statusTracker()
    while bool(await asyncio.to_thread(tracker.getActiveJobsIds)) is not some:
        if some and statement.done():
            raise AssertionError(f"the statement ended too soon: {statement.exception()!r}")
        await asyncio.sleep(0.05)


def wait_until(done: Callable[[], bool]) -> None:
    """Returns once `done`."""
    while not done():
        time.sleep(0.05)


async def test_constants(world: World, spark: SparkEngine) -> None:
    assert await world.rows(spark, constants(literal(1), literal("é'", TEXT)), {}) == [(1, "é'")]


async def test_a_spooled_result_keeps_its_order_and_is_deleted(
    world: World, spark: SparkEngine, spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    numbers = [(number * 7919 % 40_000, f"row {number}") for number in range(40_000)]
    await world.insert(table, numbers, as_file=True)
    sorting = query(ordered(scan(table)), table)
    tables = {table.oid: await world.input(table)}
    expected = sorted(numbers, reverse=True)
    assert await world.rows(spark, sorting, tables) == expected
    monkeypatch.setattr(result_size, "COLLECT_BYTES", 0)
    assert await world.rows(spark, sorting, tables) == expected
    stream = spark.execute(sorting, tables, (), world.context())
    async with aclosing(stream) as batches:
        first = await anext(batches)
        assert first.column(0).to_pylist() == [row[0] for row in expected[: first.num_rows]]
    assert not list(spark_runtime.settings.directory.glob("spool-*"))


async def test_a_result_that_outgrows_collecting_is_spooled(world: World, spark: SparkEngine) -> None:
    """Wide values that no bound foresees: 1,200 rows of 64 kB."""
    table = await world.table(
        ("a", INT8),
    )
    await world.insert(table, [(number,) for number in range(1200)])
    repeat = functions("repeat")[0]
    wide = ir.Call(
        signature=repeat, args=(literal("0123456789abcdef", TEXT), literal(4096, SqlType(types.INT4))), type=TEXT
    )
    source = scan(table)
    fields = (source.fields[0], ir.Field(id=9, name="wide", type=TEXT))
    project = ir.Project(input=source, exprs=(ir.ColumnRef(id=1, type=INT8), wide), fields=fields)
    rows = 0
    async with aclosing(
        spark.execute(query(project, table), {table.oid: await world.input(table)}, (), world.context())
    ) as batches:
        async for batch in batches:
            rows += batch.num_rows
            assert len(batch.column(1)[0].as_py()) == 65_536
    assert rows == 1200


def long_count() -> BoundQuery:
    """Counts for longer than a test, in code that can be interrupted."""
    numbers = ir.Field(id=1, name="g", type=INT8)
    series = next(s for s in functions("generate_series") if s.args == (types.INT8, types.INT8))
    call = ir.FunctionCall(signature=series, args=(literal(1), literal(10**15)), fields=(numbers,))
    source = ir.FunctionScan(functions=(call,), ordinality=None, fields=(numbers,))
    count = next(signature for signature in aggregates("count") if not signature.args)
    return query(
        ir.Aggregate(
            input=source,
            keys=(),
            calls=(ir.AggregateCall(signature=count, args=(), type=INT8),),
            fields=(ir.Field(id=2, name="count", type=INT8),),
        )
    )


async def test_cancel_ends_the_job(world: World, spark: SparkEngine, spark_runtime: SparkRuntime) -> None:
    context = world.context()
    running = asyncio.create_task(world.rows(spark, long_count(), {}, context=context))
    await jobs_run(spark_runtime, running, some=True)
    await spark.cancel(context.token)
    with pytest.raises(QueryCanceled, match="canceling statement due to user request"):
        await running
    await nothing_runs(spark_runtime, running)
    assert await world.rows(spark, constants(literal(1)), {}) == [(1,)]


async def test_a_cancelled_task_ends_the_job(world: World, spark: SparkEngine, spark_runtime: SparkRuntime) -> None:
    running = asyncio.create_task(world.rows(spark, long_count(), {}))
    await jobs_run(spark_runtime, running, some=True)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await nothing_runs(spark_runtime, running)


async def test_a_call_that_looks_at_no_cancel_request_is_left_alone(
    world: World, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the driver's, which works constants out while it plans."""
    entered, over = threading.Event(), threading.Event()
    define = Spark.define

    def call(self: Spark, *given: Any) -> Any:
        entered.set()
        over.wait(60)
        return define(self, *given)

    await world.rows(spark, constants(literal(1)), {})
    monkeypatch.setattr(Spark, "define", call)
    running = asyncio.create_task(world.rows(spark, long_count(), {}))
    await asyncio.to_thread(entered.wait, 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    assert not over.is_set()
    assert len(spark._leaving) == 1
    monkeypatch.undo()
    assert await world.rows(spark, constants(literal(1)), {}) == [(1,)]
    over.set()
    await asyncio.wait_for(asyncio.gather(*spark._leaving), 30)


async def nothing_runs(runtime: SparkRuntime, statement: asyncio.Task[Any]) -> None:
    """Waits until Spark has no jobs, and by its own count runs no tasks either, in the same JVM."""
    await jobs_run(runtime, statement, some=False)
    current = runtime.current()
    assert isinstance(current, Spark)
    await asyncio.to_thread(wait_until, lambda: not current.stuck_tasks())
    assert current.alive


async def test_a_jvm_with_a_statement_that_does_not_stop_is_replaced(
    world: World, spark: SparkEngine, spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which code does not stop depends on Spark's version, so here one task is said to be left over for ever."""
    monkeypatch.setattr(spark_runtime_module, "STUCK_SECONDS", 0.0)
    monkeypatch.setattr(Spark, "stuck_tasks", lambda self: 1)
    running = asyncio.create_task(world.rows(spark, long_count(), {}))
    await jobs_run(spark_runtime, running, some=True)
    before = spark_runtime.current()
    assert before is not None
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(wait_until, lambda: not before.alive)
    assert await world.rows(spark, constants(literal(1)), {}) == [(1,)]
    assert spark_runtime.current() is not before


async def test_a_statement_whose_context_stops_is_carried_out_again(
    world: World, spark: SparkEngine, spark_runtime: SparkRuntime
) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(1, "x")], as_file=True)
    reading, tables = query(scan(table), table), {table.oid: await world.input(table)}
    assert await world.rows(spark, reading, tables) == [(1, "x")]
    running = spark_runtime.current()
    assert isinstance(running, Spark)
    running.context.stop()
    # The statement is carried out again.
    assert await world.rows(spark, reading, tables) == [(1, "x")]
    assert spark_runtime.current() is not running


async def test_a_statement_is_carried_out_again_only_once(
    world: World, spark: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(1, "x")], as_file=True)
    reading, tables = query(scan(table), table), {table.oid: await world.input(table)}
    enter, attempts = Spark.enter, []

    def end(self: Spark, mode: Mode, group: str, **given: Any) -> None:
        attempts.append(group)
        self.gateway.kill()
        enter(self, mode, group, **given)

    with monkeypatch.context() as patched:
        patched.setattr(Spark, "enter", end)
        with pytest.raises(ObjectNotInPrerequisiteState, match="stopped while it ran the statement"):
            await world.rows(spark, reading, tables)
    assert len(attempts) == 2
    assert await world.rows(spark, reading, tables) == [(1, "x")]


@pytest.mark.parametrize("suffices", [True, False])
async def test_what_has_run_out_of_memory_is_carried_out_again_in_small_tasks(
    world: World, spark: SparkEngine, spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch, suffices: bool
) -> None:
    """What does not fit depends on the machine, so here tasks are said to have found no memory."""
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(1, "x")], as_file=True)
    reading, tables = query(scan(table), table), {table.oid: await world.input(table)}
    enter, attempts = Spark.enter, list[Profile]()
    text = "SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 65536 bytes of memory, got 0."

    def short(self: Spark, mode: Mode, group: str, **given: Any) -> None:
        attempts.append(mode.profile)
        enter(self, mode, group, **given)
        if not suffices or mode.profile is not Profile.FRUGAL:
            raise RuntimeError(text)

    before = spark_runtime.current()
    with monkeypatch.context() as patched:
        patched.setattr(Spark, "enter", short)
        if suffices:
            assert await world.rows(spark, reading, tables) == [(1, "x")]
        else:
            with pytest.raises(OutOfMemory, match="out of memory"):
                await world.rows(spark, reading, tables)
    assert attempts == [Profile.TINY, Profile.FRUGAL]
    assert await world.rows(spark, reading, tables) == [(1, "x")]
    assert spark_runtime.current() is before


def test_names_of_the_jvm_are_looked_up_once(spark_runtime: SparkRuntime) -> None:
    running = spark_runtime.current()
    assert isinstance(running, Spark)
    client = running.gateway.gateway._gateway_client
    text = running.jvm.java.lang.String.valueOf(True)
    with mock.patch.object(client, "send_command", wraps=client.send_command) as asked:
        assert running.jvm.java.lang.String.valueOf(True) == text == "true"
    assert [call.args[0].split("\n", 1)[0] for call in asked.call_args_list] == ["c"]
    # What may become a class is looked up again.
    for _ in range(2):
        assert type(running.jvm.java.lang.Absent) is JavaPackage
    # A static field has the value of its moment.
    assert running.jvm.java.lang.Integer.MAX_VALUE == 2**31 - 1
    assert "MAX_VALUE" not in vars(running.jvm.java.lang.Integer)


def test_what_the_parser_remembers_is_bounded(spark_runtime: SparkRuntime) -> None:
    """By default each text of a new form adds to it for good, until the heap is full."""
    running = spark_runtime.current()
    assert running is not None
    for profile in Profile:
        conf = running.session(Mode(profile)).conf
        assert conf.get("spark.sql.parser.manageParserCaches") == "true"
        assert 0 < float(conf.get("spark.sql.parser.parserDfaCacheFlushRatio")) <= 10


async def test_settings_of_users(
    world: World, spark: SparkEngine, spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(number, str(number % 3)) for number in range(30)], as_file=True)
    reading, tables = query(scan(table), table), {table.oid: await world.input(table)}
    entered: list[tuple[Mode, str | None]] = []
    enter = Spark.enter

    def noted(self: Spark, mode: Mode, group: str, *, pool: str | None = None, **given: Any) -> None:
        entered.append((mode, pool))
        enter(self, mode, group, pool=pool, **given)

    monkeypatch.setattr(Spark, "enter", noted)
    plain = await world.rows(spark, reading, tables)
    chosen = {"spark.sql.shuffle.partitions": "7", "spark.sql.adaptive.enabled": "on", "spark.scheduler.pool": "mine"}
    assert await world.rows(spark, reading, tables, context=world.context(chosen)) == plain
    assert await world.rows(spark, reading, tables, context=world.context(chosen)) == plain
    running = spark_runtime.current()
    assert running is not None
    told = (("spark.sql.adaptive.enabled", "true"), ("spark.sql.shuffle.partitions", "7"))
    assert entered[1:] == [(Mode(Profile.TINY, told), "mine")] * 2
    assert entered[0][0] == Mode(Profile.TINY)
    assert running.session(entered[1][0]).conf.get("spark.sql.shuffle.partitions") == "7"
    assert running.session(entered[0][0]).conf.get("spark.sql.shuffle.partitions") == "1"
    monkeypatch.setattr(profiles, "MAX_MODES", 0)
    with pytest.raises(ConfigurationLimitExceeded):
        await world.rows(spark, reading, tables, context=world.context({"spark.sql.shuffle.partitions": "8"}))
    assert await world.rows(spark, reading, tables) == plain


async def test_errors_have_postgresql_s_code(world: World, spark: SparkEngine) -> None:
    table = await world.table(
        ("a", INT8),
    )
    await world.insert(table, [(0,)])
    divide = next(s for s in operators("/") if s.args == (types.INT8, types.INT8))
    source = scan(table)
    quotient = ir.Call(signature=divide, args=(literal(1), ir.ColumnRef(id=1, type=INT8)), type=INT8)
    project = ir.Project(input=source, exprs=(quotient,), fields=(ir.Field(id=5, name="q", type=INT8),))
    with pytest.raises(DivisionByZero, match=r"^division by zero$"):
        await world.rows(spark, query(project, table), {table.oid: await world.input(table)})


async def test_functions_in_python(world: World, spark: SparkEngine, spark_runtime: SparkRuntime) -> None:
    """Those of the local engine; a kept plan runs again; an error is raised only where the value is used. The workers
    are forked from a process that has loaded what they need, since each error ends one."""
    table = await world.table(("a", INT8), ("b", TEXT))
    await world.insert(table, [(1, "hello wORLD"), (2, None), (3, "x y")])
    tables = {table.oid: await world.input(table)}
    source = scan(table)
    text = ir.ColumnRef(id=2, type=TEXT)
    fields = (ir.Field(id=9, name="x", type=TEXT),)
    initcap = ir.Call(signature=functions("initcap")[0], args=(text,), type=TEXT)
    titles = query(ir.Project(input=source, exprs=(initcap,), fields=fields), table)
    for _ in range(2):
        assert await world.rows(spark, titles, tables) == [("Hello World",), (None,), ("X Y",)]
    decode = ir.Call(signature=functions("decode")[0], args=(text, literal("hex", TEXT)), type=SqlType(types.BYTEA))
    never = ir.Case(whens=((same(source.fields[0], literal(0)), decode),), otherwise=None, type=SqlType(types.BYTEA))
    fields = (ir.Field(id=9, name="x", type=SqlType(types.BYTEA)),)
    unused = query(ir.Project(input=source, exprs=(never,), fields=fields), table)
    assert await world.rows(spark, unused, tables) == [(None,)] * 3
    failing = query(ir.Project(input=source, exprs=(decode,), fields=fields), table)
    with pytest.raises(InvalidParameterValue, match=r'^invalid hexadecimal digit: "h"$'):
        await world.rows(spark, failing, tables)
    assert await world.rows(spark, titles, tables) == [("Hello World",), (None,), ("X Y",)]
    current = spark_runtime.current()
    assert isinstance(current, Spark)
    under = psutil.Process(current.gateway.java.pid).children(recursive=True)
    assert any(DAEMON in it.cmdline() and any("pyarrow" in m.path for m in it.memory_maps()) for it in under)


async def test_plans_that_are_kept_are_counted_as_large_as_they_are(world: World, spark: SparkEngine) -> None:
    table = await world.table(("a", INT8))
    await world.insert(table, [(1,), (2,)], as_file=True)
    tables = {table.oid: await world.input(table)}

    async def kept(width: int) -> int:
        """The bytes of the plan of a query of so many columns."""
        rel = scan(table)
        exprs = tuple(literal(f"text {number}", TEXT) for number in range(width))
        fields = tuple(ir.Field(id=100 + number, name="c", type=TEXT) for number in range(width))
        column = ir.ColumnRef(id=rel.fields[0].id, type=INT8)
        project = ir.Project(input=rel, exprs=(column, *exprs), fields=(replace(rel.fields[0], id=99), *fields))
        assert spark._kept is not None
        assert spark._kept[2] is not None
        plans = spark._kept[2]._plans
        before = plans.bytes
        assert len(await world.rows(spark, query(project, table), tables)) == 2
        return plans.bytes - before

    await world.rows(spark, query(scan(table), table), tables)
    narrow, wide = await kept(1), await kept(60)
    assert 16 << 10 < narrow < 100 << 10
    assert 150 << 10 < wide < 1 << 20


async def test_statements_at_once(world: World, spark: SparkEngine) -> None:
    table = await world.table(
        ("a", INT8),
    )
    await world.insert(table, [(number,) for number in range(100)], as_file=True)
    tables = {table.oid: await world.input(table)}
    results = await asyncio.gather(*(world.rows(spark, query(scan(table), table), tables) for _ in range(8)))
    assert all(sorted(rows) == [(number,) for number in range(100)] for rows in results)


@pytest.mark.parametrize(
    ("size", "rows", "generates", "profile"),
    [
        (0, 0, False, Profile.TINY),
        (0, 0, True, Profile.SMALL),
        (1 << 20, 20_000, False, Profile.TINY),
        (1 << 20, 20_001, False, Profile.SMALL),
        ((1 << 20) + 1, 1, False, Profile.SMALL),
        ((32 << 20) + 1, 1, False, Profile.MEDIUM),
        ((512 << 20) + 1, 1, False, Profile.LARGE),
    ],
)
def test_settings_follow_the_size(size: int, rows: int, generates: bool, profile: Profile) -> None:
    assert profile_for(size, rows, generates=generates) is profile


def test_without_java_the_reason_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark_gateway, "java_candidates", lambda: iter([tmp_path / "java"]))
    with pytest.raises(SparkUnavailable, match="Spark needs Java 17 or newer"):
        spark_gateway.find_java()


def test_an_old_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = []
    for version in ("1.8.0_402", "21.0.8"):
        java = tmp_path / version
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        found.append(java)
    monkeypatch.setattr(spark_gateway, "java_candidates", lambda: iter(found))
    assert spark_gateway.find_java() == spark_gateway.JavaRuntime(executable=found[1], version=21)
    monkeypatch.setattr(spark_gateway, "java_candidates", lambda: itertools.islice(found, 1))
    with pytest.raises(SparkUnavailable, match=r"1\.8\.0_402 is version 8"):
        spark_gateway.find_java()


async def test_a_failed_start_is_an_error_of_the_statement(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_gateway, "java_candidates", lambda: iter(()))
    engine = SparkEngine(world.env, directory=tmp_path / "spark")
    engine.start()
    with pytest.raises(ObjectNotInPrerequisiteState, match="the Spark engine is not available") as failure:
        await world.rows(engine, constants(literal(1)), {})
    assert failure.value.detail is not None
    assert "Java 17" in failure.value.detail
    await engine.close()


_SERVER = """
import sys, time
from pathlib import Path
from adapter.engines.spark.java.gateway import GatewayOptions, launch
gateway = launch(GatewayOptions(master="local[1]", memory="256m", conf=(), directory=Path(sys.argv[1])))
print(gateway.java.pid, flush=True)
time.sleep(600)
"""


def test_the_jvm_dies_with_a_killed_server(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_SERVER), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    jvm = psutil.Process(int(server.stdout.readline()))
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    jvm.wait(timeout=60)
    assert not jvm.is_running()


async def test_a_jvm_that_dies_is_replaced(world: World, tmp_path: Path) -> None:
    """On a runtime of its own: PySpark has one context, so this test takes it from the shared one and gives it back."""
    code = textwrap.dedent("""
        import asyncio, os, sys
        from pathlib import Path
        from planner.errors import ObjectNotInPrerequisiteState
        from adapter.engines.spark.engine import SparkEngine
        from tests.adapter.engines.harness import World, constants, literal

        async def main(folder):
            world = await World.open(folder)
            engine = SparkEngine(world.env, directory=folder / "spark", master="local[1]",
                                 conf=[("spark.driver.memory", "512m")])
            assert await world.rows(engine, constants(literal(1)), {}) == [(1,)]
            spark = engine._runtime.current()
            os.kill(spark.gateway.java.pid, 9)
            while spark.alive:
                await asyncio.sleep(0.01)
            assert await world.rows(engine, constants(literal(2)), {}) == [(2,)]
            assert engine._runtime.current() is not spark
            await engine.close()
            assert not (folder / "spark").exists()
            await world.close()

        asyncio.run(main(Path(sys.argv[1])))
    """)
    run = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, str(tmp_path / "w")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_memory_is_configurable(tmp_path: Path) -> None:
    assert SparkSettings(directory=tmp_path, conf=(("spark.driver.memory", "1g"),)).memory == "1g"
    assert 1024 <= int(SparkSettings(directory=tmp_path).memory.removesuffix("m")) <= 4096


def test_a_start_is_given_up_when_the_server_stops(tmp_path: Path) -> None:
    launched: list[subprocess.Popen[bytes]] = []

    class Runtime(SparkRuntime):
        def _launched(self, process: subprocess.Popen[bytes]) -> None:
            super()._launched(process)
            launched.append(process)

    runtime = Runtime(SparkSettings(directory=tmp_path / "spark", master="local[1]"))
    starting = runtime.start()
    wait_until(lambda: bool(launched))
    runtime.close()
    with pytest.raises(SparkUnavailable, match="the server stops"):
        starting.result()
    assert launched[0].poll() is not None
    with pytest.raises(ObjectNotInPrerequisiteState, match="the Spark engine is stopped"):
        runtime.start()


async def test_a_context_that_was_stopped_has_no_tasks_and_writes_nothing(
    world: World, spark: SparkEngine, spark_runtime: SparkRuntime
) -> None:
    """Those who watch what a cancelled or limited statement leaves may look while Spark is stopped."""
    assert await world.rows(spark, constants(literal(1)), {}) == [(1,)]
    running = spark_runtime.current()
    assert isinstance(running, Spark)
    running.context.stop()
    assert running.stuck_tasks() == 0
    assert running.temporary_bytes("1-1") == {}
    assert await world.rows(spark, constants(literal(1)), {}) == [(1,)]
