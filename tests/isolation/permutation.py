"""Running a spec over libpq, and what it prints: the rules of PostgreSQL's isolationtester, and its form.

A step is sent as soon as all earlier steps of its session are over and the step before it is over or waits. It *waits*
when the server says so (`pg_isolation_test_session_is_blocked`), or when a marker holds its report back; the report of
what a waiting step has done comes when it is over.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from psycopg import OperationalError, pq

from tests.isolation.spec import Launch, Spec

POLL_S = 0.01
"""How often a step that does not answer is looked at: whether it waits for a lock."""


class SpecFailed(Exception):
    """A spec cannot go on: its setup failed, or a step does not end."""


@dataclass(slots=True, eq=False)
class _Connection:
    """The connection of one session. `active` is the step that it has been sent and that is not over."""

    name: str
    pgconn: pq.abc.PGconn
    notices: int = 0
    active: _Active | None = None


@dataclass(slots=True, eq=False)
class _Active:
    """A step that has been sent. `targets`: numbers of notices that its report waits for, by blocker."""

    launch: Launch
    targets: dict[int, int] = field(default_factory=dict)


class SpecRun:
    """Runs the permutations of a spec over connections that it opens. `step_timeout_s` is how long a step may neither
    end nor wait for a lock, where it may; the spec ends then."""

    def __init__(self, spec: Spec, conninfo: str, *, step_timeout_s: float) -> None:
        self._spec = spec
        self._step_timeout_s = step_timeout_s
        self._lines: list[str] = []
        self._new_notice = False
        self._control = _connect(conninfo)
        self._sessions = [_Connection(session.name, _connect(conninfo)) for session in spec.sessions]
        self._by_step = {step.name: self._sessions[step.session] for s in spec.sessions for step in s.steps}
        for connection in self._sessions:
            connection.pgconn.notice_handler = self._noticing(connection)
        pids = ",".join(str(connection.pgconn.backend_pid) for connection in self._sessions)
        query = f"SELECT pg_catalog.pg_isolation_test_session_is_blocked($1, '{{{pids}}}')"
        self._control.prepare(b"waiting", query.encode())

    def run(self) -> str:
        """What all permutations print. Raises SpecFailed, with what has been printed."""
        self._print(f"Parsed test spec with {len(self._sessions)} sessions")
        try:
            for permutation in self._spec.permutations:
                self._permutation(permutation)
        except (SpecFailed, OperationalError) as error:
            self._print(str(error))
            raise SpecFailed("\n".join(self._lines)) from error
        finally:
            for pgconn in (self._control, *(connection.pgconn for connection in self._sessions)):
                pgconn.finish()
        return "\n".join(self._lines) + "\n"

    def _print(self, text: str) -> None:
        self._lines.append(text)

    def _noticing(self, connection: _Connection) -> Callable[[pq.abc.PGresult], None]:
        def notice(result: pq.abc.PGresult) -> None:
            connection.notices += 1
            self._new_notice = True
            self._print(f"{connection.name}: {_message(result)}")

        return notice

    # ------------------------------------------------------------ one permutation

    def _permutation(self, permutation: tuple[Launch, ...]) -> None:
        self._print(f"\nstarting permutation: {' '.join(launch.step.name for launch in permutation)}")
        for sql in self._spec.setups:
            self._carry_out(self._control, sql, "setup failed")
        for session, connection in zip(self._spec.sessions, self._sessions, strict=True):
            if session.setup is not None:
                self._carry_out(connection.pgconn, session.setup, f"setup of session {session.name} failed")
        waiting: list[_Active] = []
        for launch in permutation:
            connection = self._sessions[launch.step.session]
            self._finish_earlier(connection, waiting)
            connection.pgconn.send_query(launch.step.sql.encode())
            active = connection.active = _Active(launch)
            for index, blocker in enumerate(launch.blockers):
                if blocker.notices is not None and blocker.other is not None:
                    active.targets[index] = self._by_step[blocker.other].notices + blocker.notices
            must_wait = not self._try(active, may_block=True, again=False)
            self._try_all(waiting, may_block=True)
            if must_wait:
                waiting.append(active)
        self._try_all(waiting, may_block=False)
        if waiting:
            raise SpecFailed("failed to complete permutation due to mutually-blocking steps")
        for session, connection in zip(self._spec.sessions, self._sessions, strict=True):
            if session.teardown is not None:
                self._carry_out(connection.pgconn, session.teardown, None)
        if self._spec.teardown is not None:
            self._carry_out(self._control, self._spec.teardown, None)

    def _carry_out(self, pgconn: pq.abc.PGconn, sql: str, failure: str | None) -> None:
        pgconn.send_query(sql.encode())
        until = time.monotonic() + self._step_timeout_s
        while pgconn.is_busy():
            if select.select([pgconn.socket], [], [], POLL_S)[0]:
                pgconn.consume_input()
            elif time.monotonic() > until:
                pgconn.get_cancel().cancel()
                raise SpecFailed("setup or teardown waits for a step that was expected to fail")
        while (result := pgconn.get_result()) is not None:
            self._carried_out(result, failure)

    def _carried_out(self, result: pq.abc.PGresult, failure: str | None) -> None:
        if result.status == pq.ExecStatus.TUPLES_OK:
            self._print(_table(result))
        elif result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY) and failure is not None:
            raise SpecFailed(f"{failure}: {_message(result)}")

    def _finish_earlier(self, connection: _Connection, waiting: list[_Active]) -> None:
        """Wait until the session's earlier step is over."""
        until = time.monotonic() + 2 * self._step_timeout_s
        while connection.active is not None:
            earlier = connection.active
            if self._try(earlier, may_block=False, again=True):
                waiting.remove(earlier)
            self._try_all(waiting, may_block=True)
            if connection.active is not None and time.monotonic() > until:
                raise SpecFailed(f"step {connection.active.launch.step.name} timed out")

    def _try_all(self, waiting: list[_Active], *, may_block: bool) -> None:
        """Report those of the waiting steps that are over, as long as that lets others go on."""
        while True:
            before, self._new_notice = len(waiting), False
            waiting[:] = [active for active in list(waiting) if not self._try(active, may_block=may_block, again=True)]
            held_back = any(active.launch.blockers for active in waiting)
            if not held_back or (len(waiting) == before and not self._new_notice):
                return

    # ------------------------------------------------------------ one step

    def _try(self, active: _Active, *, may_block: bool, again: bool) -> bool:
        """Whether the step is over; if so it is reported. With `may_block` one that waits for a lock is left alone."""
        step = active.launch.step
        connection = self._sessions[step.session]
        text = f"step {step.name}: {step.sql}"
        if not again and any(blocker.other is None for blocker in active.launch.blockers):
            self._print(f"{text} <waiting ...>")
            return False
        over = self._answered(connection, may_block) and not self._is_held_back(active)
        if not over:
            if not again:
                self._print(f"{text} <waiting ...>")
            return False
        self._print(f"step {step.name}: <... completed>" if again else text)
        self._report(connection)
        connection.active = None
        return True

    def _answered(self, connection: _Connection, may_block: bool) -> bool:
        """Wait for the answer; False when the session waits for a lock, and may."""
        pgconn = connection.pgconn
        began = time.monotonic()
        while pgconn.is_busy():
            if select.select([pgconn.socket], [], [], POLL_S)[0]:
                pgconn.consume_input()
                continue
            if may_block and self._is_blocked(connection):
                # Notices may have come while that was asked.
                pgconn.consume_input()
                if pgconn.is_busy():
                    return False
                break
            if time.monotonic() - began > self._step_timeout_s:
                assert connection.active is not None
                pgconn.get_cancel().cancel()
                raise SpecFailed(f"step {connection.active.launch.step.name} neither ends nor may wait")
        return True

    def _is_blocked(self, connection: _Connection) -> bool:
        result = self._control.exec_prepared(b"waiting", [str(connection.pgconn.backend_pid).encode()])
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise SpecFailed(f"lock wait query failed: {_message(result)}")
        return result.get_value(0, 0) == b"t"

    def _is_held_back(self, active: _Active) -> bool:
        for index, blocker in enumerate(active.launch.blockers):
            if blocker.other is None:
                continue
            other = self._by_step[blocker.other]
            if blocker.notices is not None:
                if other.notices < active.targets[index]:
                    return True
            elif other.active is not None and other.active.launch.step.name == blocker.other:
                return True
        return False

    def _report(self, connection: _Connection) -> None:
        pgconn = connection.pgconn
        while (result := pgconn.get_result()) is not None:
            match result.status:
                case pq.ExecStatus.COMMAND_OK | pq.ExecStatus.EMPTY_QUERY:
                    pass
                case pq.ExecStatus.TUPLES_OK:
                    self._print(_table(result))
                case pq.ExecStatus.FATAL_ERROR:
                    self._print(_message(result, primary=True))
                case other:
                    self._print(f"unexpected result status: {pq.ExecStatus(other).name}")
                    if other in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT):
                        raise SpecFailed("a step copies")
        with suppress(OperationalError):  # The step may have ended its own connection.
            pgconn.consume_input()
        names = {session.pgconn.backend_pid: session.name for session in self._sessions}
        while (notify := pgconn.notifies()) is not None:
            sender = names.get(notify.be_pid, f"PID {notify.be_pid}")
            self._print(
                f'{connection.name}: NOTIFY "{notify.relname.decode()}" with payload "{notify.extra.decode()}" '
                f"from {sender}"
            )


def _connect(conninfo: str) -> pq.abc.PGconn:
    pgconn = pq.PGconn.connect(conninfo.encode())
    if pgconn.status != pq.ConnStatus.OK:
        raise SpecFailed(pgconn.error_message.decode())
    return pgconn


def _message(result: pq.abc.PGresult, *, primary: bool = False) -> str:
    fields = pq.DiagnosticField

    def text(name: pq.DiagnosticField) -> str | None:
        value = result.error_field(name)
        return None if value is None else value.decode()

    severity = text(fields.SEVERITY)
    if severity is None:
        return result.error_message.decode().rstrip("\n")
    lines = [f"{severity}:  {text(fields.MESSAGE_PRIMARY)}"]
    if not primary:
        for label, name in (("DETAIL", fields.MESSAGE_DETAIL), ("HINT", fields.MESSAGE_HINT)):
            if (more := text(name)) is not None:
                lines.append(f"{label}:  {more}")
    return "\n".join(lines)


def _table(result: pq.abc.PGresult) -> str:
    """Rows as libpq's PQprint aligns them: columns of numbers to the right, others to the left."""
    names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
    rows = [
        [(result.get_value(row, column) or b"").decode() for column in range(result.nfields)]
        for row in range(result.ntuples)
    ]
    lines = []
    if names:
        widths = [max([len(name), *(len(row[place]) for row in rows)]) for place, name in enumerate(names)]
        numbers = [all(_is_number(row[place]) for row in rows) for place in range(len(names))]
        aligned = [
            "|".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(cells, widths, numbers, strict=True)
            )
            for cells in [names, *rows]
        ]
        lines = [aligned[0], "+".join("-" * width for width in widths), *aligned[1:]]
    noun = "row" if len(rows) == 1 else "rows"
    return "\n".join([*lines, f"({len(rows)} {noun})", ""])


def _is_number(text: str) -> bool:
    return all(character in "0123456789. Ee-+" for character in text)
