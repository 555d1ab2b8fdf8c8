"""Changes of the same plan that several sessions ask for at the same time: they are carried out together.

``INSERT INTO t VALUES ($1, $2)`` outside a block costs a transaction: a statement's life, looks at its keys, the
validation and the sealing of a part. Where 32 clients send it at the same time, nearly all of that can be done once for
all of them, which is what group commit does for the write of the log, one step further (flat combining: Hendler,
Incze, Shavit and Tzafrir, 2010).

Theory of operation. Changes of one plan, sent under the same settings, stand in one `_Line`. The first one runs as
always, alone. Those that come meanwhile wait; when it is over, the one that has waited longest runs, with those behind
it *beside* it (`adapter.execution.statement.Beside`): its statement writes the rows of all of them, checks the keys of
all of them, and commits once. So they wait no longer than one commit, and nobody waits for others to come.

What holds:

- All of them happen, or none. When anything is wrong with one of them (a key that is there already, a value that does
  not fit, a lock that would have to be waited for, a conflict), nothing has happened, and each of them runs alone, in
  the usual way, which tells whose error it is. Then the plan is left alone for a while.
- Each is a transaction of its own to its client: it can be cancelled while it waits, it is over when it is durable and
  visible, and that nobody knows whether it happened (40003) all of them are told.
- Of INSERT ... ON CONFLICT only those with different keys run together, and with equal parameters of DO UPDATE.
- A session's own state is its own: parameters, and the numbers that it takes from sequences.
- Whoever leads is the owner of all locks, and waits for none (`Patience.never`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from msgspec import Struct, field

from adapter.changes.together_plans import Together, together_of
from adapter.execution.session_state import SessionState
from adapter.execution.statement import Beside, NotTogether, Outcome
from adapter.plans.plan_cache import Plan
from adapter.results import Command
from adapter.sessions.statement_life import StatementLife
from adapter.settings.values import SettingValues
from adapter.transactions.locks.lock import WouldWait
from planner.errors import InternalError, QueryCanceled, SerializationFailure, SqlError, StatementCompletionUnknown
from planner.ir.array_value import ArrayValue
from planner.ir.nodes import Literal
from planner.resolution.statement import TakesLong
from planner.syntax.parse import Parsed
from planner.types.types import SqlType, declared_as

MOST_TOGETHER = 256
"""Changes that are carried out together: bounds what one of them has to wait for."""

PAUSE = 100
"""Changes of a plan that run alone after some of them could not run together."""

GATHERING_S = 0.05
"""How long those who come after such a pause wait for the ones that run alone: one of these may wait for a block."""

_OWN_SETTINGS = frozenset({"application_name", "client_encoding"})
"""Settings in which sessions may differ whose changes run together."""


_KINDS = frozenset({"insert_stmt", "update_stmt", "delete_stmt"})


class _Waiting(Struct, eq=False):
    """A change that waits for its turn, which is to be carried out (its tag), to lead others, or to run alone."""

    beside: Beside
    turn: asyncio.Future[str | tuple[_Waiting, ...] | None]
    taken: bool = False


class _Line(Struct, eq=False):
    """Changes of `plan`, of which one runs now."""

    plan: Plan
    """Kept alive: the line is known by its identity."""
    keys: tuple[tuple[int, ...], ...]
    waiting: list[_Waiting] = field(default_factory=list)

    def differing(self, waiting: list[_Waiting]) -> tuple[list[_Waiting], list[_Waiting]]:
        """Those with a key that none before them has, and the others."""
        if not self.keys:
            return waiting, []
        first: list[_Waiting] = []
        again: list[_Waiting] = []
        seen: set[tuple[object, ...]] = set()
        for each in waiting:
            params = each.beside.params
            own = {(number, *[params[place].value for place in key]) for number, key in enumerate(self.keys)}
            (again if own & seen else first).append(each)
            seen |= own
        return first, again


class Lines:
    """Where the changes of a server process stand. Belongs to the event loop."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}
        self._paused: dict[Hashable, tuple[Plan, int]] = {}
        self._alone: dict[Hashable, int] = {}
        self._gathering: dict[Hashable, asyncio.TimerHandle] = {}
        self._kinds: dict[frozenset[tuple[str, str]], int] = {}

    def kind_of(self, values: SettingValues) -> int:
        """A number that is the same for sessions with the same settings."""
        if len(self._kinds) > 10_000:
            self._kinds.clear()
        settings = frozenset((name, value) for name, value in values.flat.items() if name not in _OWN_SETTINGS)
        return self._kinds.setdefault(settings, len(self._kinds) + 1 if self._kinds else 1)

    def is_paused(self, key: Hashable) -> bool:
        """Whether the next change of this line is to run alone, and counts it."""
        paused = self._paused.get(key)
        if paused is None:
            return False
        if paused[1] <= 1:
            del self._paused[key]
        else:
            self._paused[key] = (paused[0], paused[1] - 1)
        return True

    def pause(self, key: Hashable, plan: Plan) -> None:
        """Something was wrong with changes that ran together."""
        if len(self._paused) > 1000:
            self._paused.clear()
        self._paused[key] = (plan, PAUSE)

    def enter(self, key: Hashable, plan: Plan, keys: tuple[tuple[int, ...], ...]) -> _Line | None:
        """The line that a change has to stand in; None when it is the first and leads. Those that run together have
        different values at each of `keys`, places of parameters."""
        line = self._lines.get(key)
        if line is not None:
            return line
        line = self._lines[key] = _Line(plan, keys)
        if key not in self._alone:
            return None
        self._gathering[key] = asyncio.get_running_loop().call_later(GATHERING_S, self._gathered, key)
        return line

    def _gathered(self, key: Hashable) -> None:
        self._gathering.pop(key).cancel()
        self.next(key)

    def alone(self, key: Hashable) -> None:
        """A change of the line begins to run alone."""
        self._alone[key] = self._alone.get(key, 0) + 1

    def alone_no_more(self, key: Hashable) -> None:
        """It is over."""
        if self._alone[key] > 1:
            self._alone[key] -= 1
            return
        del self._alone[key]
        if key in self._gathering:
            self._gathered(key)

    def next(self, key: Hashable) -> None:
        """It is over: the next ones go."""
        line = self._lines[key]
        waiting = [each for each in line.waiting[:MOST_TOGETHER] if not each.turn.done()]
        del line.waiting[:MOST_TOGETHER]
        if not waiting:
            del self._lines[key]
            return
        waiting, again = line.differing(waiting)
        for each in waiting:
            each.taken = True
        for each in again:
            each.turn.set_result(None)
        waiting[0].turn.set_result(tuple(waiting[1:]))


class ChangeAtOnce(Struct, frozen=True, kw_only=True, eq=False):
    """A change that may be carried out together with others, with the session that asks for it."""

    columns: None = None
    life: StatementLife
    lines: Lines
    key: tuple[Hashable, ...]
    plan: Plan
    parsed: Parsed
    text: str
    declared: tuple[int, ...]
    param_types: tuple[SqlType, ...]
    together: Together

    async def tag(self, params: tuple[Literal, ...]) -> str | None:
        """Carry it out with these parameters; its command tag. None: these parameters are not for it, nothing has
        happened, and it is to run in the usual way. Raises what the usual way raises."""
        if len(params) != len(self.param_types) or any(type(param.value) is ArrayValue for param in params):
            return None
        lines, life, key = self.lines, self.life, self._key(params)
        life.disarm()
        life.state.query_text = self.text
        life.state.ran, life.state.goes_on = self.parsed, False
        if lines.is_paused(key):
            return await self._run_alone(params, key)
        turn: str | tuple[_Waiting, ...] | None = ()
        line = lines.enter(key, self.plan, self.together.keys)
        if line is not None:
            waiting = _Waiting(Beside(session=life.state, params=params), asyncio.get_running_loop().create_future())
            line.waiting.append(waiting)
            turn = await self._turn(waiting, key)
        tag = await self._lead(params, turn) if isinstance(turn, tuple) else turn
        return tag if tag is not None else await self._run_alone(params, key)

    def _key(self, params: tuple[Literal, ...]) -> Hashable:
        return (*self.key, *[params[place].value for place in self.together.same]) if self.together.same else self.key

    async def _turn(self, waiting: _Waiting, key: Hashable) -> str | tuple[_Waiting, ...] | None:
        """What becomes of a change that waits. Raises 57014 when it is cancelled before it is taken."""
        canceled: BaseException | None = None
        while not waiting.turn.done():
            try:
                with self.life.aside():
                    await asyncio.wait([waiting.turn])
            except (asyncio.CancelledError, SqlError) as error:
                if not waiting.taken:
                    waiting.turn.cancel()
                    raise
                # Those who have taken it decide, and soon.
                canceled = error
        turn = waiting.turn.result()
        if canceled is None or isinstance(turn, str):
            return turn
        for each in turn or ():
            each.turn.set_result(None)
        if turn is not None:
            self.lines.next(key)
        raise canceled

    async def _run_alone(self, params: tuple[Literal, ...], key: Hashable) -> str:
        """Run the statement in the usual way: it waits for locks, and tries again."""
        self.lines.alone(key)
        try:
            outcome = await self.life.run(self.parsed, params, self.declared, retry=True, commit=True)
        finally:
            self.lines.alone_no_more(key)
        return _tag(outcome)

    async def _lead(self, params: tuple[Literal, ...], others: tuple[_Waiting, ...]) -> str | None:
        """Run the statement with the `others` beside it."""
        life, left, key = self.life, others, self._key(params)
        beside = tuple([each.beside for each in others])
        life.state.waits_for_locks = False
        try:
            tag = _tag(await life.run(self.parsed, params, self.declared, retry=False, commit=True, beside=beside))
            left = ()
            for each in others:
                each.turn.set_result(each.beside.tag)
            return tag
        except StatementCompletionUnknown as error:
            left = ()
            for each in others:
                each.turn.set_exception(error)
            raise
        except (WouldWait, NotTogether, SerializationFailure):
            # Who waits, or tries again, does it where nobody stands behind.
            self.lines.pause(key, self.plan)
            return None
        except SqlError as error:
            if not others or isinstance(error, QueryCanceled) or error.fatal:
                raise
            self.lines.pause(key, self.plan)
            return None
        finally:
            life.state.waits_for_locks = True
            for each in left:
                each.turn.set_result(None)
            self.lines.next(key)


def _tag(outcome: Outcome) -> str:
    if not isinstance(outcome, Command):
        raise InternalError("a change without RETURNING has rows")
    return outcome.tag


def changing(
    life: StatementLife, lines: Lines, text: str, parsed: Parsed, declared: tuple[int, ...]
) -> ChangeAtOnce | None:
    """The statement `parsed` of `text`, whose parameters are of the types `declared` (oids), as a change that may be
    carried out together with others; None when it is not one, or not now."""
    state = life.state
    values = state.values.flat
    if (
        parsed.kind not in _KINDS
        or parsed.extension is not None
        or not parsed.is_brief
        or state.transaction is not None
        or not state.is_settled
        or state.temporary is not None
        or state.portals.by_name
        or values["tidegate.as_of"]
        or values["synchronous_commit"] == "off"
        or values["synchronous_visibility"] != "on"
        or values["default_transaction_read_only"] == "on"
    ):
        return None
    try:
        plan = state.plan(parsed, state.newest_catalog(), declared, at_once=True)
    except (SqlError, TakesLong):
        return None
    if plan.denied is not None or plan.steps or (together := together_of(plan)) is None:
        return None
    return ChangeAtOnce(
        life=life,
        lines=lines,
        key=(id(plan), _kind(state, lines)),
        plan=plan,
        parsed=parsed,
        text=text,
        declared=tuple(map(declared_as, plan.param_types)),
        param_types=plan.param_types,
        together=together,
    )


def _kind(state: SessionState, lines: Lines) -> int:
    known = state.kind
    if known is None or known[0] is not state.values:
        known = state.kind = (state.values, lines.kind_of(state.values))
    return known[1]
