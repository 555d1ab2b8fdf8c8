"""Which engine a query goes to, and the reason that EXPLAIN gives."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from adapter.engines.common.engine import EngineName, TableInput
from adapter.engines.common.estimates import Estimate
from adapter.engines.router import choose
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from storage.catalog.model import Relation

LIMIT = 32 << 20


@dataclass
class FakeEngine:
    name: EngineName
    reason: str | None = None
    slow: str | None = None

    def unsupported(self, query: BoundQuery) -> str | None:
        return self.reason

    def avoided(self, query: BoundQuery) -> str | None:
        return self.slow


def read(size: int) -> dict[int, TableInput]:
    relation = Relation(oid=1, name="t", schema=2200, owner=10, kind="r", columns=())
    return {1: TableInput(relation=relation, inserts=(), deletes=(), bytes=size, rows=1)}


QUERY = BoundQuery(rel=ir.OneRow(), relations=frozenset({1}))
CATALOG = BoundQuery(rel=ir.OneRow(), system=True)


def route(
    query: BoundQuery,
    size: int,
    engine: str,
    *,
    local: str | None = None,
    spark: str | None = None,
    limit: int | None = LIMIT,
) -> tuple[str, str]:
    chosen = choose(
        query,
        read(size),
        engine=engine,
        fast_path_limit=limit,
        expected=lambda: Estimate(local_s=size / 1e6, spark_s=1, rows=1),
        local=FakeEngine("local", local),  # type: ignore[arg-type]
        spark=FakeEngine("spark", spark),  # type: ignore[arg-type]
    )
    return chosen.engine.name, chosen.reason


@pytest.mark.parametrize(
    ("size", "engine", "expected"),
    [
        (100, "auto", ("local", "it reads 100 bytes, within fast_path_limit (32 MB)")),
        (LIMIT, "auto", ("local", "it reads 32 MB, within fast_path_limit (32 MB)")),
        (LIMIT + 1, "auto", ("spark", "it reads 32 MB, above fast_path_limit (32 MB)")),
        (100, "spark", ("spark", "engine = spark")),
        (1 << 40, "local", ("local", "engine = local")),
    ],
)
def test_size_and_setting(size: int, engine: str, expected: tuple[str, str]) -> None:
    assert route(QUERY, size, engine) == expected


@pytest.mark.parametrize("engine", ["auto", "local", "spark"])
def test_catalog_queries_run_locally(engine: str) -> None:
    assert route(CATALOG, 1 << 40, engine) == ("local", "it reads the system catalogs")


def test_without_a_limit_the_faster_engine_runs_it() -> None:
    assert route(QUERY, 100, "auto", limit=None) == ("local", "expected: local 1 ms, spark 1.0 s")
    assert route(QUERY, 50_000_000, "auto", limit=None) == ("spark", "expected: local 50.0 s, spark 1.0 s")


def test_what_one_engine_cannot_run_goes_to_the_other() -> None:
    assert route(QUERY, 100, "auto", local="GROUPS frames") == ("spark", "GROUPS frames")
    assert route(QUERY, 1 << 40, "auto", spark="GROUPS frames") == ("local", "GROUPS frames")


@pytest.mark.parametrize("engine", ["auto", "local"])
def test_what_cannot_run_is_named(engine: str) -> None:
    with pytest.raises(FeatureNotSupported, match="GROUPS frames"):
        route(QUERY, 100, engine, local="GROUPS frames", spark="GROUPS frames")


def test_without_spark() -> None:
    def chosen(size: int, engine: str) -> str:
        return choose(
            QUERY,
            read(size),
            engine=engine,
            fast_path_limit=LIMIT,
            expected=lambda: Estimate(local_s=1, spark_s=1, rows=1),
            local=FakeEngine("local"),  # type: ignore[arg-type]
            spark=None,
        ).engine.name

    assert chosen(1 << 40, "auto") == "local"
    with pytest.raises(FeatureNotSupported, match="Spark engine is not configured"):
        chosen(1, "spark")


@pytest.mark.parametrize(("local", "expected"), [(None, "local"), ("a construct", "spark")])
def test_what_an_engine_runs_slowly_goes_to_the_other_that_can(local: str | None, expected: str) -> None:
    chosen = choose(
        QUERY,
        read(2 * LIMIT),
        engine="auto",
        fast_path_limit=LIMIT,
        expected=lambda: Estimate(local_s=1, spark_s=1, rows=1),
        local=FakeEngine("local", local),  # type: ignore[arg-type]
        spark=FakeEngine("spark", slow="pairs"),  # type: ignore[arg-type]
    )
    assert chosen.engine.name == expected
