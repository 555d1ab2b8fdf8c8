"""A server whose sessions are scripted, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from frontend.server.accepting import Server, ServerLimits
from planner.errors import DivisionByZero, UndefinedColumn
from planner.types.types import SqlType
from tests.frontend.raw_client import RawClient
from tests.frontend.scripted import (
    Script,
    authenticator,
    command,
    fails,
    int_rows,
)

INT4, TEXT = SqlType(23), SqlType(25)


@pytest.fixture
def script() -> Script:
    return Script(
        results={
            "select 1": [int_rows(1)],
            "select 1; select 2": [int_rows(1), int_rows(2)],
            "insert; fail; insert": [command("INSERT 0 1"), fails(DivisionByZero("division by zero")), command("X")],
            "fail": [fails(UndefinedColumn('column "x" does not exist', position=8, hint="Perhaps.", detail="D."))],
            "late": [int_rows(7, error=DivisionByZero("division by zero"))],
            "drip": [int_rows(1, 2, suspended=True)],
            "set": [command("SET")],
            "bug": [fails(ValueError("oops"))],
            "$1": [int_rows(1)],
        },
        param_types={"$1": (INT4, TEXT)},
    )


@pytest.fixture
async def server(script: Script) -> AsyncIterator[tuple[Server, int]]:
    server = Server(
        script,
        authenticator=authenticator(),
        limits=ServerLimits(max_connections=3, max_message_bytes=1 << 16, drain_timeout_s=0.5),
    )
    port = await server.start("127.0.0.1", 0)
    yield server, port
    await server.stop(drain=False)


@pytest.fixture
async def client(server: tuple[Server, int]) -> RawClient:
    return await RawClient.connect(server[1])
