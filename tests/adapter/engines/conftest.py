"""One Spark for all engine tests: `local[2]`, 1 GB; each test has an environment and an engine of its own on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from adapter.engines.common.engine import Engine
from adapter.engines.local.engine import LocalEngine
from adapter.engines.spark.context_settings import SparkSettings
from adapter.engines.spark.engine import SparkEngine
from adapter.engines.spark.runtime import SparkRuntime
from tests.adapter.engines.harness import World


@pytest.fixture(scope="module")
def spark_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRuntime]:
    """A running Spark. PySpark has one at a time in a process, and other modules' tests may want theirs."""
    settings = SparkSettings(
        directory=tmp_path_factory.mktemp("spark"), master="local[2]", conf=(("spark.driver.memory", "1g"),)
    )
    runtime = SparkRuntime(settings)
    runtime.start().result()
    yield runtime
    runtime.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """An environment of the test's own."""
    world = await World.open(tmp_path)
    yield world
    await world.close()


@pytest.fixture
async def local(world: World) -> AsyncIterator[LocalEngine]:
    """The local engine over the test's environment."""
    engine = LocalEngine(world.env, blob_root=world.blob_root, directory=world.folder / "scratch")
    yield engine
    await engine.close()


@pytest.fixture
async def spark(world: World, spark_runtime: SparkRuntime) -> SparkEngine:
    """The Spark engine over the test's environment, on the shared Spark."""
    return SparkEngine(world.env, directory=spark_runtime.settings.directory, runtime=spark_runtime)


@pytest.fixture(params=["local", "local, pooled", "local, from files", "spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Either engine; the local one also as it reads larger tables: from tables of its own, and from files."""
    if request.param in ("local, pooled", "local, from files"):
        monkeypatch.setattr("adapter.engines.local.scans.MAX_ROWS", 0)
    if request.param == "local, from files":
        monkeypatch.setattr("adapter.engines.local.scans.MEMORY_BYTES", -1)
    found: Engine = request.getfixturevalue(request.param.partition(",")[0])
    return found


@pytest.fixture(autouse=True)
async def _no_task_is_left() -> AsyncIterator[None]:
    """Executions leave no task behind."""
    before = asyncio.all_tasks()
    yield
    assert not [task for task in asyncio.all_tasks() - before if "Engine" in repr(task.get_coro())]
