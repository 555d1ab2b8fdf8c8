"""What a suite gave on both servers, feature by feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.client_suites.reasons import reason_for
from tests.client_suites.suite import PASSED, Result, Results, Suite, of_class


@dataclass(slots=True)
class Feature:
    """The tests of a feature that PostgreSQL passes: how many they are, how many of them pass here, and why the others
    do not, with how many there are of each kind."""

    name: str
    wanted: int = 0
    passed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Compared:
    """A suite that has run on both servers, or why it has not (`missing`)."""

    suite: Suite
    features: list[Feature] = field(default_factory=list)
    unexplained: list[tuple[str, str]] = field(default_factory=list)
    """Tests that fail here for no known reason, and what they print."""
    missing: str = ""

    def counts(self) -> tuple[int, int]:
        """How many tests PostgreSQL passes, and how many of these pass here."""
        return sum(feature.wanted for feature in self.features), sum(feature.passed for feature in self.features)


def compare(suite: Suite, theirs: Results, ours: Results) -> Compared:
    """`ours` beside what PostgreSQL passes of `theirs`."""
    found = Compared(suite)
    features: dict[str, Feature] = {}
    for name, result in sorted(theirs.items()):
        if result.kind != PASSED:
            continue
        title = name.partition(":")[0]
        feature = features.setdefault(title, Feature(title))
        feature.wanted += 1
        got = ours.get(name) or ours.get(of_class(name)) or Result("missing", "it did not run")
        if got.kind == PASSED:
            feature.passed += 1
            continue
        reason = reason_for(suite.name, name, got.message)
        if reason is None:
            found.unexplained.append((name, got.message))
            reason = "not explained yet"
        feature.reasons[reason] = feature.reasons.get(reason, 0) + 1
    found.features = list(features.values())
    return found


def unexplained(compared: Sequence[Compared]) -> list[tuple[str, str, str]]:
    """The suite, the name and what it printed, of each test that fails for no known reason."""
    return [(one.suite.name, name, message) for one in compared for name, message in one.unexplained]
