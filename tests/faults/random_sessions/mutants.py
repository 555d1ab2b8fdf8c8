"""Servers with a mistake in them that random sessions must find: ``MISTAKE=... python -m
tests.faults.random_sessions.mutants serve``."""

from __future__ import annotations

import os
import random
import sys
from typing import Any

from tests.faults.audit.mutants import VARIABLE, Mistake, replaced


def views_taken_for_fresh() -> None:
    """Nothing is seen to have changed since a view's frontier."""
    from adapter.materialized import freshness

    async def has_changed(*_: Any) -> bool:
        return False

    replaced(freshness, "has_changed", has_changed)


def past_is_the_present() -> None:
    """AS OF reads what there is now."""
    from adapter.queries.past.evaluated_moments import evaluated_moment as real
    from adapter.statements import dispatch

    async def evaluated_moment(running: Any, *given: Any) -> Any:
        await real(running, *given)
        return await running.services.env.oracle.read_ts("user")

    replaced(dispatch, "evaluated_moment", evaluated_moment)


def cancelled_after_the_commit() -> None:
    """Who cancels a statement that is being committed is told that nothing has happened."""
    from adapter.transactions.group_commit import GroupCommitter
    from planner.errors import QueryCanceled

    real = GroupCommitter.commit

    async def commit(self: Any, request: Any) -> Any:
        found = await real(self, request)
        if not request.defines and random.random() < 0.3:
            raise QueryCanceled("canceling statement due to user request")
        return found

    replaced(GroupCommitter, "commit", commit)


def subscriptions_forget_what_went() -> None:
    """Of what a commit changes in a result only the rows that come are sent."""
    from adapter.subscriptions.deltas import Deltas

    real = Deltas.between

    async def between(self: Any, *given: Any) -> Any:
        found = await real(self, *given)
        return None if found is None else (found[0].slice(0, 0), found[1])

    replaced(Deltas, "between", between)


MISTAKES = (
    Mistake(apply=views_taken_for_fresh, loads=(), sign="is not what its query gives|of SELECT \\* FROM \\(\\(SELECT"),
    Mistake(apply=past_is_the_present, loads=(), sign="has now .* more"),
    Mistake(apply=cancelled_after_the_commit, loads=(), sign="is there, between|is there, 0 to 0|told twice"),
    Mistake(apply=subscriptions_forget_what_went, loads=(), sign="subscription to .* than the snapshot"),
)


def main() -> int:
    """The server's command line, with the mistake that the environment names."""
    from frontend.command.main import main as command_line

    mistakes = {mistake.name: mistake for mistake in MISTAKES}
    mistakes[os.environ[VARIABLE]].apply()
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
