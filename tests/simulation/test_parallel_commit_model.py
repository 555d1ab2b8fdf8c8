"""The parallel commit protocol holds in every reachable state, and each mistake in it is found out."""

from __future__ import annotations

import pytest

from tests.simulation.parallel_commit_model import Mutation, explore


def test_the_protocol_holds_in_every_state() -> None:
    found = explore(parts=2, resolvers=2, attempts=3)
    assert found.violation is None
    # It was a search worth the name: both outcomes occur, in many states.
    assert found.states > 50_000
    assert found.committed > 1_000
    assert found.aborted > 1_000


@pytest.mark.parametrize(
    ("parts", "resolvers", "attempts"), [(1, 1, 1), (1, 2, 3), (2, 1, 3), (3, 1, 2), (2, 0, 3), (1, 3, 2)]
)
def test_the_protocol_holds_at_other_sizes(parts: int, resolvers: int, attempts: int) -> None:
    assert explore(parts=parts, resolvers=resolvers, attempts=attempts).violation is None


@pytest.mark.parametrize("mutation", [m for m in Mutation if m is not Mutation.NONE], ids=lambda m: m.name)
def test_every_mutation_is_caught(mutation: Mutation) -> None:
    found = explore(parts=2, resolvers=2, attempts=3, mutation=mutation)
    assert found.violation is not None
    assert found.violation.steps


def test_a_violation_is_told_as_the_steps_that_lead_to_it() -> None:
    found = explore(parts=2, resolvers=1, attempts=1, mutation=Mutation.NO_PREVENTION)
    assert found.violation is not None
    assert found.violation.steps[0].startswith("coordinator")
    assert any("checks" in step for step in found.violation.steps)
