"""What one engine fails at by itself the other one runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from adapter.engines.router import Route
from adapter.execution.cursors import of_either, of_route
from planner.common_errors import EngineFailed
from planner.errors import DivisionByZero, FeatureNotSupported, ObjectNotInPrerequisiteState, SqlError

FAILED = EngineFailed("the engine failed on this statement")


async def giving(*steps: Any) -> AsyncIterator[Any]:
    """`steps` one after the other: batches, and errors that are raised."""
    for step in steps:
        if isinstance(step, Exception):
            raise step
        yield step


def never() -> AsyncIterator[Any]:
    raise AssertionError("the other engine was asked")


async def rows(
    first: tuple[Any, ...], other: Callable[[], AsyncIterator[Any]], unsupported: str | None = None
) -> list[Any]:
    return [batch async for batch in of_either(partial(giving, *first), other, lambda: unsupported)]


async def test_the_other_runs_what_the_first_fails_at() -> None:
    assert await rows((FAILED,), partial(giving, 1, 2)) == [1, 2]


async def test_errors_of_the_other_are_those_of_the_statement() -> None:
    with pytest.raises(DivisionByZero):
        await rows((FAILED,), partial(giving, DivisionByZero("division by zero")))


@pytest.mark.parametrize("steps", [(1, 2), (), (DivisionByZero("division by zero"),), (1, FAILED)])
async def test_nothing_else_is_run_again(steps: tuple[Any, ...]) -> None:
    """Not errors that are the statement's own, and not behind rows that have been given."""
    failure = next((type(step) for step in steps if isinstance(step, Exception)), None)
    if failure is None:
        assert await rows(steps, never) == list(steps)
    else:
        with pytest.raises(failure):
            await rows(steps, never)


@pytest.mark.parametrize(
    "error",
    [ObjectNotInPrerequisiteState("Spark is not there"), FeatureNotSupported("ROWS"), EngineFailed("so did this one")],
)
async def test_when_neither_can_it_is_the_first_one_s_error(error: SqlError) -> None:
    with pytest.raises(EngineFailed, match=FAILED.message):
        await rows((FAILED,), partial(giving, error))


async def test_the_other_is_not_asked_for_what_it_does_not_support() -> None:
    with pytest.raises(EngineFailed, match=FAILED.message):
        await rows((FAILED,), never, unsupported="ROWS")


class Giving:
    """An engine that gives `steps` of any query."""

    def __init__(self, *steps: Any) -> None:
        self._steps = steps

    def execute(self, *args: object, **options: object) -> AsyncIterator[Any]:
        return giving(*self._steps)

    def unsupported(self, query: object) -> None:
        return None


async def test_the_rows_of_a_route_are_those_of_either_engine() -> None:
    first: Any = Giving(FAILED)
    other: Any = Giving(1, 2)
    nothing: Any = None
    route = Route(engine=first, reason="", other=other)
    assert [batch async for batch in of_route(route, nothing, {}, (), nothing)()] == [1, 2]
    alone = of_route(Route(engine=first, reason=""), nothing, {}, (), nothing)
    with pytest.raises(EngineFailed):
        assert [batch async for batch in alone()]
