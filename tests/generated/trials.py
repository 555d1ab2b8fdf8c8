"""Trials: statements that PostgreSQL and Tidegate answer one after the other; how one that differs is made small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import psycopg
from msgspec import Struct

from tests.generated.compare import Result, ask, same
from tests.generated.reduce import reduce

REFUSED = "0A000"
"""What is refused by name is no difference."""

CANCELLED = "57014"
SHOWN_ROWS = 3


class Trial(Struct, frozen=True):
    """What comes first, statements in their order, those of them whose text is not made smaller, and what makes all as
    it was. `size` of the statements count."""

    first: tuple[str, ...]
    statements: tuple[str, ...]
    size: int
    fixed: frozenset[str] = frozenset()
    clean: tuple[str, ...] = ("rollback",)


class Difference(Struct, frozen=True):
    """Which statement of a trial differs first, and how; some of the rows that only one server has."""

    number: int
    kind: str
    rows: tuple[str, ...] = ()


def how(theirs: Result, ours: Result) -> str:
    """In what they differ."""
    if theirs.sqlstate is not None or ours.sqlstate is not None:
        states = f"{theirs.sqlstate or 'rows'} and {ours.sqlstate or 'rows'}"
        return f"{states}: {(ours.message or theirs.message or '')[:60]}"
    return "columns" if theirs.columns != ours.columns else "rows"


def first_difference(
    theirs: psycopg.Connection, ours: psycopg.Connection, trial: Trial, statements: Sequence[str]
) -> Difference | None:
    """Run the statements on both until they differ; then what cleans up. None when all agree, or when one is refused
    by name."""
    try:
        for text in trial.first:
            ask(theirs, text), ask(ours, text)
        for number, text in enumerate(statements):
            expected, found = ask(theirs, text), ask(ours, text)
            if found.sqlstate == REFUSED and expected.sqlstate != REFUSED:
                return None
            if not same(expected, found, ordered=False):
                return Difference(number, how(expected, found), _apart(expected, found))
            if expected.message != found.message:
                texts = (f"PostgreSQL: {expected.message}", f"Tidegate: {found.message}")
                return Difference(number, f"the text of {found.sqlstate}", texts)
            if expected.sqlstate is None and expected.tag != found.tag:
                return Difference(number, "tag", (f"PostgreSQL: {expected.tag}", f"Tidegate: {found.tag}"))
        return None
    finally:
        for connection in (theirs, ours):
            for text in trial.clean:
                ask(connection, text)


def _apart(theirs: Result, ours: Result) -> tuple[str, ...]:
    left, right = Counter(theirs.rows), Counter(ours.rows)
    lines = []
    for name, rows in (("PostgreSQL", left - right), ("Tidegate", right - left)):
        lines += [f"{name}: {' | '.join(value or 'NULL' for value in row)}" for row in list(rows)[:SHOWN_ROWS]]
    return tuple(lines)


def different_trials(
    theirs: psycopg.Connection, ours: psycopg.Connection, trials: Iterator[Trial]
) -> Iterator[tuple[str, str]]:
    """The trials that differ: how, and the fewest and shortest statements found that still do."""
    for trial in trials:
        found = first_difference(theirs, ours, trial, trial.statements)
        if found is None:
            continue
        last = found

        def differs(statements: Sequence[str], trial: Trial = trial, kind: str = found.kind) -> bool:
            nonlocal last
            again = first_difference(theirs, ours, trial, statements)
            if again is None or again.kind != kind or again.number != len(statements) - 1:
                return False
            last = again
            return True

        statements = trial.statements[: found.number + 1]
        # Each smaller trial would take the patience again.
        if CANCELLED not in found.kind and differs(statements):
            statements = smaller(statements, trial.fixed, differs)
        yield found.kind, "\n".join([*(f"{text};" for text in statements), *(f"-- {row}" for row in last.rows)])


def smaller(
    statements: Sequence[str], fixed: frozenset[str], differs: Callable[[Sequence[str]], bool], most: int = 300
) -> tuple[str, ...]:
    """Fewer and shorter statements for which `differs` still holds: whole ones are left out (many at once, then fewer),
    then each that is not `fixed` is reduced."""
    kept = list(statements)
    size = max(1, len(kept) // 2)
    while size:
        start = 0
        while start < len(kept) - 1:
            # The last is the one that differs.
            without = kept[:start] + kept[min(start + size, len(kept) - 1) :]
            if differs(without):
                kept = without
            else:
                start += size
        size //= 2
    for number in reversed(range(len(kept))):

        def still(text: str, number: int = number) -> bool:
            return differs([*kept[:number], text, *kept[number + 1 :]])

        if kept[number] not in fixed:
            kept[number] = reduce(kept[number], still, most)
    return tuple(kept)
