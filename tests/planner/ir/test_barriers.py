"""Barriers above policies: they stand where something in the statement could tell of hidden rows, and go elsewhere."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from planner.analyze import analyze
from planner.ir import nodes as ir
from planner.ir.barriers import is_barrier
from planner.ir.rewrite import walk
from planner.syntax.parse import split_and_parse
from storage.catalog.access import Policy
from storage.catalog.model import CatalogSnapshot
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn
from tests.planner.support import context_of, create

TABLES = "create table docs (id int, owner name, amount int, note text); create table other (id int)"


def bound(text: str) -> object:
    """The statement, bound for somebody who is subject to a policy on every table."""
    policy = Policy(oid=1, name="own", relation=0, command="*", using="(owner = CURRENT_USER)", database=1)

    def policies(table: object, role: int | None) -> tuple[Policy, ...] | None:
        return (policy,) if getattr(table, "name", "") == "docs" else None

    return analyze(split_and_parse(text)[0], replace(context_of(_catalog()), policies=policies))


@cache
def _catalog() -> CatalogSnapshot:
    return create(CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1)), TABLES)


@pytest.mark.parametrize(
    "text",
    [
        "select * from docs",
        "select 100 / amount from docs where id = 3 and note > 'x'",
        "select id from docs where amount is null or id in (1, 2) order by 100 / amount",
        "select count(*) from docs d join other o on o.id = d.id where d.id < 10",
        "update docs set amount = amount / 2 where id = 3",
    ],
)
def test_nothing_tells(text: str) -> None:
    statement = bound(text)
    assert not any(is_barrier(node) for node in walk(statement))
    assert _filters_of_policies(statement) >= 1


@pytest.mark.parametrize(
    "text",
    [
        "select * from docs where 100 / amount > 1",
        "select * from docs where note::int = 12",
        "select * from (select 100 / amount as q from docs) s where q > 1",
        "select * from docs d join other o on o.id = 100 / d.amount",
        "select * from docs where case when 100 / amount > 1 then true else false end",
        "select * from docs where id in (select id from other where 1 / other.id > 0)",
        "delete from docs where 100 / amount > 1",
    ],
)
def test_a_condition_that_fails_for_some_rows_tells(text: str) -> None:
    assert any(is_barrier(node) for node in walk(bound(text)))


def test_what_tells_nothing_is_moved_below() -> None:
    """So that a key is still looked up."""
    statement = bound("select * from docs where id = 3 and 100 / amount > 1")
    (limit,) = [node for node in walk(statement) if is_barrier(node)]
    assert isinstance(limit.input, ir.Filter)
    moved = limit.input.condition
    assert isinstance(moved, ir.Call)
    assert [arg.value for arg in moved.args if isinstance(arg, ir.Literal)] == [3]


def _filters_of_policies(statement: object) -> int:
    return sum(
        isinstance(node, ir.Filter)
        and isinstance(node.input, ir.Scan)
        and any(isinstance(part, ir.SessionValue) for part in walk(node.condition))
        for node in walk(statement)
    )
