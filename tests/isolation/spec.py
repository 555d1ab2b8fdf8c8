"""Isolation specs: their grammar (PostgreSQL's src/test/isolation/README), parsed.

Example::

    setup { CREATE TABLE t (a int); }
    teardown { DROP TABLE t; }
    session s1
    setup { BEGIN; }
    step w1 { INSERT INTO t VALUES (1); }
    step c1 { COMMIT; }
    session s2
    step w2 { INSERT INTO t VALUES (1); }
    permutation w1 w2(c1) c1
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|\#[^\n]*)
      | (?P<sql>\{[^}]*\})
      | (?P<quoted>"(?:[^"]|"")*")
      | (?P<name>[A-Za-z_\x80-\uffff][A-Za-z0-9_$\x80-\uffff]*)
      | (?P<number>[0-9]+)
      | (?P<mark>[(),*])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Step:
    """SQL that a session sends in one message."""

    name: str
    sql: str
    session: int


@dataclass(frozen=True, slots=True)
class Blocker:
    """What a step's report waits for: that the step `other` is over, or with `notices`, that its session has had so
    many more. Without `other` (an asterisk) the step is reported as waiting when it is sent."""

    other: str | None
    notices: int | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A step in a permutation, with its markers."""

    step: Step
    blockers: tuple[Blocker, ...] = ()


@dataclass(slots=True)
class Session:
    """One connection: `setup` and `teardown` are SQL for each permutation."""

    name: str
    setup: str | None = None
    teardown: str | None = None
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Spec:
    """A parsed spec. `permutations` are all orders of the steps where the text names none."""

    setups: list[str] = field(default_factory=list)
    teardown: str | None = None
    sessions: list[Session] = field(default_factory=list)
    permutations: list[tuple[Launch, ...]] = field(default_factory=list)


def parse_spec(text: str) -> Spec:
    """The spec in `text`. Raises ValueError where it does not follow the grammar."""
    return _Parser(text).spec()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._place = 0

    def spec(self) -> Spec:
        spec = Spec()
        named: list[list[tuple[str, tuple[Blocker, ...]]]] = []
        while (kind := self._peek()) is not None:
            keyword = self._take("name")
            match keyword:
                case "setup" if spec.sessions:
                    spec.sessions[-1].setup = self._sql()
                case "setup":
                    spec.setups.append(self._sql())
                case "teardown" if spec.sessions:
                    spec.sessions[-1].teardown = self._sql()
                case "teardown":
                    spec.teardown = self._sql()
                case "session":
                    spec.sessions.append(Session(self._name()))
                case "step":
                    step = Step(self._name(), self._sql(), len(spec.sessions) - 1)
                    spec.sessions[-1].steps.append(step)
                case "permutation":
                    named.append(list(self._launches()))
                case _:
                    raise ValueError(f"{kind} {keyword!r} where a part of a spec should begin")
        steps = {step.name: step for session in spec.sessions for step in session.steps}
        spec.permutations = [tuple(Launch(steps[name], marks) for name, marks in one) for one in named]
        if not named:
            spec.permutations = [tuple(map(Launch, order)) for order in _orders([s.steps for s in spec.sessions])]
        return spec

    def _launches(self) -> Iterator[tuple[str, tuple[Blocker, ...]]]:
        while self._peek() in ("name", "quoted") and not self._at_keyword():
            name = self._name()
            marks: list[Blocker] = []
            if self._is("("):
                self._place += 1
                while not self._is(")"):
                    marks.append(self._blocker())
                    if self._is(","):
                        self._place += 1
                self._place += 1
            yield name, tuple(marks)

    def _blocker(self) -> Blocker:
        if self._is("*"):
            self._place += 1
            return Blocker(None)
        name = self._name()
        if self._is("notices"):
            self._place += 1
            return Blocker(name, int(self._take("number")))
        return Blocker(name)

    def _at_keyword(self) -> bool:
        return self._tokens[self._place] in [("name", word) for word in ("setup", "session", "step", "permutation")]

    def _peek(self) -> str | None:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else None

    def _is(self, text: str) -> bool:
        return self._place < len(self._tokens) and self._tokens[self._place][1] == text

    def _take(self, kind: str) -> str:
        if self._peek() != kind:
            raise ValueError(f"{kind} expected, not {self._tokens[self._place : self._place + 1]}")
        self._place += 1
        return self._tokens[self._place - 1][1]

    def _name(self) -> str:
        if self._peek() == "quoted":
            return self._take("quoted")[1:-1].replace('""', '"')
        return self._take("name")

    def _sql(self) -> str:
        return self._take("sql")[1:-1].strip(" \t\r\f")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"{text[place : place + 20]!r} is not part of the grammar")
        place = found.end()
        if found.lastgroup != "space":
            assert found.lastgroup is not None
            yield found.lastgroup, found.group()


def _orders(piles: list[list[Step]]) -> Iterator[tuple[Step, ...]]:
    """All orders of the steps that keep those of each session in theirs, the first session's step first."""
    if not any(piles):
        yield ()
        return
    for index, pile in enumerate(piles):
        if pile:
            rest = [*piles[:index], pile[1:], *piles[index + 1 :]]
            for order in _orders(rest):
                yield (pile[0], *order)
