"""Catalog queries that real clients sent to PostgreSQL 15 run here, with the columns that PostgreSQL gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapter.results import Rows
from planner.errors import SqlError
from planner.ir.nodes import Literal
from planner.types.types import SqlType
from planner.values.text_values import parse_text
from tests.adapter.harness import Client, rows_of

FOLDER = Path(__file__).parents[2] / "data" / "client_queries"

SCHEMA = (FOLDER / "schema.sql").read_text()

REFUSED = {
    'type "posint" does not exist',
    'relation "public.orders_id_seq" does not exist',
    'relation "events" does not exist',
    'function "add2" does not exist',
    "division by zero",
}
"""What the demo schema here has not: domains, identity columns, functions, partitions; and one error that
PostgreSQL gives as well."""

NOT_RUN = ("pg_sleep", "pg_terminate_backend")
"""Statements that wait, or end the session."""


@pytest.fixture
async def demo(client: Client) -> Client:
    """A session of a database with the demo schema."""
    await client.run(SCHEMA)
    return client


def _cases(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _literal(text: object, type: SqlType) -> Literal:
    """A parameter as the frontend decodes it from text."""
    return Literal(value=parse_text(text, type) if isinstance(text, str) else None, type=type)


async def _run(client: Client, case: dict[str, Any]) -> list[tuple[str, int, int]]:
    session = client.session
    await session.prepare("", case["sql"], tuple(case["oids"]))
    description = await session.describe_statement("")
    given = [*(case.get("bind") or []), *([None] * len(description.param_types))]
    values = [_literal(text, type) for text, type in zip(given, description.param_types, strict=False)]
    await session.bind("", "", tuple(values), ())
    result = await session.execute_portal("", 0, True)
    assert isinstance(result, Rows)
    async for _ in rows_of(result):
        pass
    return [(column.name, column.type.oid, column.type.typmod) for column in result.columns]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
async def test_client_queries_run(demo: Client, file: Path) -> None:
    problems = []
    for case in _cases(file):
        if not case["cols"] or case["sql"].split()[0].upper() not in ("SELECT", "WITH"):
            continue
        if any(name in case["sql"] for name in NOT_RUN):
            continue
        try:
            columns = await _run(demo, case)
        except SqlError as error:
            if error.message not in REFUSED:
                problems.append((case["sql"], repr(error)))
            continue
        finally:
            await demo.session.sync()
        expected = [(name, oid, typmod) for name, oid, _, typmod in case["cols"]]
        if columns != expected:
            problems.append((case["sql"], f"columns {columns}, not {expected}"))
    assert problems == []
