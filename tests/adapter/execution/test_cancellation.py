"""Interrupting statements."""

from __future__ import annotations

import asyncio

import pytest

from adapter.execution.cancellation import CancelScope
from planner.errors import QueryCanceled


async def test_a_waiting_statement_is_interrupted() -> None:
    scope = CancelScope()

    async def statement() -> None:
        with scope:
            await asyncio.sleep(60)

    task = asyncio.ensure_future(statement())
    await asyncio.sleep(0)
    scope.request(QueryCanceled("canceling statement due to user request"))
    with pytest.raises(QueryCanceled):
        await task
    assert task.cancelling() == 0


async def test_a_request_between_two_entries_strikes_at_the_next() -> None:
    scope = CancelScope()
    with scope:
        pass
    scope.request(QueryCanceled("now"))
    with pytest.raises(QueryCanceled), scope:
        await asyncio.sleep(0)


async def test_somebody_elses_cancellation_goes_on() -> None:
    scope = CancelScope()

    async def statement() -> None:
        with scope:
            await asyncio.sleep(60)

    task = asyncio.ensure_future(statement())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_swallowed_cancellation_leaves_no_trace() -> None:
    scope = CancelScope()

    async def statement() -> str:
        with scope:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    task = asyncio.ensure_future(statement())
    await asyncio.sleep(0)
    scope.request(QueryCanceled("too late"))
    assert await task == "done"
