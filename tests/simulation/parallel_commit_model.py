"""The parallel commit protocol as an explicit-state model, explored exhaustively.

One transaction promises some parts. Its coordinator writes a STAGED record and uploads the parts, in any order and
concurrently; resolvers may at any moment take the coordinator for dead. A state is everything durable plus what
each actor has in its hands; every atomic step of every actor is a transition, and the coordinator may stop for
ever (crash) in every state. The invariants are checked in every state that can be reached.

    record   None | Record(status, attempt, keys)      the txns shard's entry; changed by compare-and-set only
    blobs    key -> PART | TOMBSTONE                   changed by put-if-absent only
    keys     (part, generation): an attempt promises a new generation of each part that was prevented

The transaction *is committed* at attempt a if and only if its record is COMMITTED(a), or STAGED(a) with every
promised key holding its part. The attempt stands for the CSN: a later one has a strictly higher CSN.

Mutations are protocols with one mistake; the exploration must find each of them out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

Key: TypeAlias = tuple[int, int]

PART = "part"
TOMBSTONE = "tombstone"
STAGED = "STAGED"
COMMITTED = "COMMITTED"
ABORTED = "ABORTED"


class Mutation(Enum):
    """One mistake each."""

    NONE = "the protocol as designed"
    NO_PREVENTION = "a resolver aborts because a part is missing, without a tombstone at its key"
    RESOLVER_SKIPS_PREVENTION = "a resolver prevents the first missing part only and takes the others for prevented"
    CSN_IGNORED = "a resolver ends the record although it has been staged again at a higher CSN"
    EARLY_ANSWER = "the coordinator answers once the record is staged, before the last part is uploaded"
    ANSWER_WITHOUT_STAGING = "the coordinator answers once the parts are uploaded, before the record is staged"
    ERROR_WITHOUT_RESOLUTION = "a cancelled coordinator answers an error without resolving the status"
    BLIND_UPLOAD = "a part is uploaded with a plain put, over a tombstone"
    RESTAGE_AFTER_SUCCESS = "the coordinator stages again although its attempt may be committed already"


class Record(NamedTuple):
    """The transaction's record in the txns shard."""

    status: str
    attempt: int
    keys: tuple[Key, ...]


class Resolver(NamedTuple):
    """A resolver: what it has read, and what it has found at each promised key so far."""

    record: Record | None = None
    found: tuple[str, ...] = ()
    verdict: str | None = None


class Coordinator(NamedTuple):
    """The coordinator of the transaction.

    `stage`: the append of the present attempt's record: "todo", "done", "lost" (outcome unknown: it may land
    later), "refused". `uploads`: per promised key None, PART (ours is there) or TOMBSTONE. `cancelled`: it wants
    to give up and first resolves the status, as `resolving`.
    """

    attempt: int = 1
    keys: tuple[Key, ...] = ()
    stage: str = "todo"
    uploads: tuple[str | None, ...] = ()
    cancelled: bool = False
    resolving: Resolver | None = None
    answer: str | None = None
    """What the client was told: COMMITTED, ABORTED, or "unknown"."""
    answered_attempt: int = 0
    crashed: bool = False


class State(NamedTuple):
    """A state of the whole system."""

    record: Record | None
    blobs: frozenset[tuple[Key, str]]
    in_flight: Record | None
    """A record append whose sender has given up on it; it lands only where there is no record yet."""
    coordinator: Coordinator
    resolvers: tuple[Resolver, ...]

    def at(self, key: Key) -> str | None:
        """What is at `key`."""
        for value in (PART, TOMBSTONE):
            if (key, value) in self.blobs:
                return value
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken invariant, and the steps that lead to it from the beginning."""

    invariant: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The outcome: how many states were reached, and the first violation if there is one."""

    states: int
    transitions: int
    violation: Violation | None
    committed: int
    """States in which the transaction is committed; 0 would mean that the model proves nothing."""
    aborted: int


def committed_attempt(state: State) -> int | None:
    """The attempt that the transaction is committed at, implicitly or explicitly."""
    record = state.record
    if record is None or record.status == ABORTED:
        return None
    if record.status == COMMITTED or all(state.at(key) == PART for key in record.keys):
        return record.attempt
    return None


class Model:
    """The transitions of the protocol, or of one of its mutations."""

    def __init__(self, *, parts: int, resolvers: int, attempts: int, mutation: Mutation = Mutation.NONE) -> None:
        self.attempts = attempts
        self.mutation = mutation
        keys = tuple((part, 1) for part in range(parts))
        self.initial = State(
            record=None,
            blobs=frozenset(),
            in_flight=None,
            coordinator=Coordinator(keys=keys, uploads=(None,) * parts),
            resolvers=(Resolver(),) * resolvers,
        )

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every step that some actor can take, and the state after it."""
        yield from self._network(state)
        if state.coordinator.answer is None and not state.coordinator.crashed:
            yield "coordinator crashes", self._with(state, crashed=True)
            if state.coordinator.resolving is not None:
                yield from self._coordinator_resolves(state)
            elif state.coordinator.cancelled:
                yield from self._cancelled(state)
            else:
                yield from self._coordinator(state)
        elif state.coordinator.answer == COMMITTED and not state.coordinator.crashed:
            yield from self._make_explicit(state)
        for number, resolver in enumerate(state.resolvers):
            for what, after, moved in self._resolver(state, resolver):
                others = (*state.resolvers[:number], moved, *state.resolvers[number + 1 :])
                yield f"resolver {number} {what}", after._replace(resolvers=others)

    # The coordinator

    @staticmethod
    def _with(state: State, **changes: object) -> State:
        return state._replace(coordinator=state.coordinator._replace(**changes))  # type: ignore[arg-type]

    def _coordinator(self, state: State) -> Iterator[tuple[str, State]]:
        me = state.coordinator
        record = Record(STAGED, me.attempt, me.keys)
        if me.stage == "todo":
            if self._may_stage(state, me):
                yield (
                    f"coordinator stages attempt {me.attempt}",
                    self._with(state, stage="done")._replace(record=record),
                )
            else:
                yield "coordinator finds its record moved", self._with(state, stage="refused")
            if me.attempt == 1 and state.in_flight is None:
                yield (
                    "coordinator loses the answer to its append",
                    self._with(state, stage="lost", cancelled=True)._replace(in_flight=record),
                )
        for number, key in enumerate(me.keys):
            if me.uploads[number] is None:
                yield from self._upload(state, number, key)
        yield "coordinator is cancelled", self._with(state, cancelled=True)
        uploaded = all(found == PART for found in me.uploads)
        staged = me.stage == "done"
        ready = staged and uploaded
        if self.mutation is Mutation.EARLY_ANSWER:
            ready = staged and sum(found == PART for found in me.uploads) >= len(me.keys) - 1
        if self.mutation is Mutation.ANSWER_WITHOUT_STAGING:
            ready = uploaded
        if ready:
            yield "coordinator answers COMMITTED", self._with(state, answer=COMMITTED, answered_attempt=me.attempt)
        again = TOMBSTONE in me.uploads or (self.mutation is Mutation.RESTAGE_AFTER_SUCCESS and staged)
        if again and staged:
            yield from self._stage_again(state)
        if me.stage == "refused":
            yield "coordinator resolves the status", self._with(state, resolving=Resolver())

    @staticmethod
    def _may_stage(state: State, me: Coordinator) -> bool:
        return state.record is None if me.attempt == 1 else True

    def _upload(self, state: State, number: int, key: Key) -> Iterator[tuple[str, State]]:
        me = state.coordinator
        there = state.at(key)
        if there is None:
            after = state._replace(blobs=state.blobs | {(key, PART)})
            found = PART
        elif self.mutation is Mutation.BLIND_UPLOAD:
            after = state._replace(blobs=(state.blobs - {(key, TOMBSTONE)}) | {(key, PART)})
            found = PART
        else:
            after, found = state, there
        uploads = (*me.uploads[:number], found, *me.uploads[number + 1 :])
        yield f"coordinator uploads {key} and finds {found}", self._with(after, uploads=uploads)

    def _stage_again(self, state: State) -> Iterator[tuple[str, State]]:
        """After a prevented part: stage again at a higher CSN, with a new key for it, if nobody has ended it."""
        me = state.coordinator
        if state.record != Record(STAGED, me.attempt, me.keys):
            yield "coordinator finds its record ended", self._with(state, resolving=Resolver())
            return
        if me.attempt == self.attempts:
            yield "coordinator gives up", self._with(state, cancelled=True)
            return
        keys = tuple(
            (part, generation + 1) if found == TOMBSTONE else (part, generation)
            for (part, generation), found in zip(me.keys, me.uploads, strict=True)
        )
        uploads = tuple(None if found == TOMBSTONE else found for found in me.uploads)
        attempt = me.attempt + 1
        after = self._with(state, attempt=attempt, keys=keys, uploads=uploads)
        yield f"coordinator stages again, attempt {attempt}", after._replace(record=Record(STAGED, attempt, keys))

    def _cancelled(self, state: State) -> Iterator[tuple[str, State]]:
        """A cancel, a timeout, a ROLLBACK or a failed upload: the status first, then the answer."""
        if self.mutation is Mutation.ERROR_WITHOUT_RESOLUTION:
            yield "coordinator answers an error at once", self._with(state, answer=ABORTED)
            return
        if state.record is None:
            # The compare-and-set on the record's absence keeps an append in flight from landing later.
            aborted = Record(ABORTED, state.coordinator.attempt, state.coordinator.keys)
            yield "coordinator aborts before staging", self._with(state, answer=ABORTED)._replace(record=aborted)
        else:
            yield "coordinator resolves the status", self._with(state, resolving=Resolver())
        yield "coordinator cannot reach the store", self._with(state, answer="unknown")

    def _coordinator_resolves(self, state: State) -> Iterator[tuple[str, State]]:
        resolver = state.coordinator.resolving
        assert resolver is not None
        for what, after, moved in self._resolver(state, resolver):
            if moved.verdict is None:
                yield f"coordinator {what}", self._with(after, resolving=moved)
            else:
                attempt = 0 if after.record is None else after.record.attempt
                yield (
                    f"coordinator {what}, answers {moved.verdict}",
                    self._with(after, resolving=None, answer=moved.verdict, answered_attempt=attempt),
                )

    def _make_explicit(self, state: State) -> Iterator[tuple[str, State]]:
        me = state.coordinator
        staged = Record(STAGED, me.attempt, me.keys)
        if state.record == staged:
            yield "coordinator makes the record COMMITTED", state._replace(record=staged._replace(status=COMMITTED))

    # A resolver, which may be the coordinator that has come back

    def _resolver(self, state: State, me: Resolver) -> Iterator[tuple[str, State, Resolver]]:
        if me.verdict is not None:
            return
        if me.record is None:
            if state.record is None:
                return
            status = state.record.status
            if status != STAGED:
                yield f"reads {status}", state, Resolver(verdict=status)
            else:
                yield f"reads attempt {state.record.attempt} STAGED", state, Resolver(record=state.record)
            return
        record = me.record
        if len(me.found) < len(record.keys):
            key = record.keys[len(me.found)]
            there = state.at(key)
            after = state
            if there is None:
                there = TOMBSTONE
                skips = self.mutation is Mutation.NO_PREVENTION or (
                    self.mutation is Mutation.RESOLVER_SKIPS_PREVENTION and len(me.found) > 0
                )
                if not skips:
                    after = state._replace(blobs=state.blobs | {(key, TOMBSTONE)})
            yield f"checks {key}: {there}", after, me._replace(found=(*me.found, there))
            return
        status = COMMITTED if all(found == PART for found in me.found) else ABORTED
        moved = state.record != record
        if moved and self.mutation is Mutation.CSN_IGNORED:
            moved = state.record is None or state.record.status != STAGED
        if moved:
            yield "finds the record moved and begins again", state, Resolver()
            return
        assert state.record is not None
        yield (
            f"makes the record {status}",
            state._replace(record=state.record._replace(status=status)),
            Resolver(verdict=status),
        )

    # The network

    def _network(self, state: State) -> Iterator[tuple[str, State]]:
        if state.in_flight is None:
            return
        if state.record is None:
            yield "the lost append lands", state._replace(record=state.in_flight, in_flight=None)
        yield "the lost append is gone", state._replace(in_flight=None)


def check_state(state: State) -> str | None:
    """The invariant that `state` breaks, by itself."""
    attempt = committed_attempt(state)
    me = state.coordinator
    if me.answer == COMMITTED and attempt is None:
        return "the client was told COMMITTED, and the transaction is not committed"
    if me.answer == COMMITTED and attempt != me.answered_attempt:
        return "the client was told another CSN than the transaction committed at"
    if me.answer == ABORTED and attempt is not None:
        return "the client was told ABORTED, and the transaction is committed"
    verdicts = {resolver.verdict for resolver in state.resolvers if resolver.verdict is not None}
    if len(verdicts) > 1:
        return "two resolvers reached different verdicts"
    if COMMITTED in verdicts and attempt is None:
        return "a resolver found COMMITTED, and the transaction is not committed"
    if ABORTED in verdicts and attempt is not None:
        return "a resolver found ABORTED, and the transaction is committed"
    return None


def check_step(before: State, after: State) -> str | None:
    """The invariant that the step from `before` to `after` breaks."""
    was, now = committed_attempt(before), committed_attempt(after)
    if was is not None and now != was:
        return "a committed transaction was changed"
    if before.record is not None and before.record.status == ABORTED and after.record != before.record:
        return "an aborted transaction was changed"
    for item in before.blobs:
        if item not in after.blobs:
            return "a key was decided twice"
    if before.record is not None and after.record is not None and after.record.attempt < before.record.attempt:
        return "a record went back to a lower CSN"
    return None


def can_end(model: Model, state: State) -> bool:
    """Whether the transaction is decided, or some resolver can still decide it: nothing staged stays undecided."""
    if state.record is None or state.record.status != STAGED or committed_attempt(state) is not None:
        return True
    return any(what.startswith("resolver") for what, _ in model.steps(state))


def explore(
    *,
    parts: int = 2,
    resolvers: int = 2,
    attempts: int = 3,
    mutation: Mutation = Mutation.NONE,
    max_states: int = 5_000_000,
) -> Exploration:
    """Visit every reachable state, breadth first; stop at the first violation."""
    model = Model(parts=parts, resolvers=resolvers, attempts=attempts, mutation=mutation)
    came_from: dict[State, tuple[State, str] | None] = {model.initial: None}
    queue = deque([model.initial])
    transitions = committed = aborted = 0

    def violation(invariant: str, state: State, last: str | None = None) -> Violation:
        steps: list[str] = [] if last is None else [last]
        at = state
        while (step := came_from[at]) is not None:
            at, what = step
            steps.append(what)
        return Violation(invariant=invariant, steps=tuple(reversed(steps)))

    def outcome(found: Violation | None) -> Exploration:
        return Exploration(
            states=len(came_from),
            transitions=transitions,
            violation=found,
            committed=committed,
            aborted=aborted,
        )

    while queue:
        state = queue.popleft()
        committed += committed_attempt(state) is not None
        aborted += state.record is not None and state.record.status == ABORTED
        broken = check_state(state)
        if broken is None and not can_end(model, state) and resolvers:
            broken = "a staged transaction that nobody can decide any more"
        if broken is not None:
            return outcome(violation(broken, state))
        for what, after in model.steps(state):
            transitions += 1
            broken = check_step(state, after)
            if broken is not None:
                return outcome(violation(broken, state, what))
            if after not in came_from:
                came_from[after] = (state, what)
                queue.append(after)
                if len(came_from) > max_states:
                    raise MemoryError(f"more than {max_states} states")
    return outcome(None)
