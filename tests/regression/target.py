"""One server: a connection to it, the psql variables that belong to it, and what a statement gives there."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from psycopg import OperationalError, pq

_POLL_S = 0.05
_CANCEL_S = 5.0
"""How long a statement may take to end after it has been cancelled; the connection is given up then."""

Fields = pq.DiagnosticField
_MORE = (Fields.SEVERITY_NONLOCALIZED, Fields.MESSAGE_DETAIL, Fields.MESSAGE_HINT, Fields.STATEMENT_POSITION)


@dataclass(slots=True)
class Answer:
    """One result of a statement. Of an error `sqlstate` and `message`, and in `more` its detail, hint and position."""

    tag: str = ""
    columns: list[tuple[str, int]] | None = None
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    copied: str | None = None
    sqlstate: str | None = None
    message: str = ""
    more: tuple[str | None, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What a statement gave. `broke`: how it left the connection useless ('' where it did not)."""

    answers: list[Answer] = field(default_factory=list)
    notices: list[tuple[str | None, ...]] = field(default_factory=list)
    broke: str = ""

    @property
    def error(self) -> Answer | None:
        """The answer that is an error, if there is one."""
        return next((answer for answer in self.answers if answer.sqlstate is not None), None)


class Target:
    """A connection to the server at `address` (libpq), opened anew by `connect`. `timeout_s` bounds each statement."""

    def __init__(self, address: str, *, timeout_s: float) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self.variables: dict[str, str] = {}
        self._notices: list[tuple[str | None, ...]] = []
        self._connection: pq.abc.PGconn | None = None
        self._again = ""

    def connect(self, *, database: str = "", user: str = "", application: str = "") -> bool:
        """Open a new connection in place of the one there is; False, and the old one stays, when that is refused."""
        parts = [self._address]
        parts += [f"{name}={value!r}" for name, value in (("dbname", database), ("user", user)) if value]
        parts += [f"application_name='{application}'"] if application else []
        conninfo = " ".join(parts)
        connection = pq.PGconn.connect(conninfo.encode())
        if connection.status != pq.ConnStatus.OK:
            connection.finish()
            return False
        self.close()
        connection.notice_handler = self._noticed
        self._connection, self._again = connection, conninfo
        self.variables |= {"DBNAME": connection.db.decode(), "USER": connection.user.decode()}
        return True

    def reconnect(self) -> bool:
        """Connect as before, after the connection was lost or given up."""
        self.close()
        connection = pq.PGconn.connect(self._again.encode())
        if connection.status != pq.ConnStatus.OK:
            return False
        connection.notice_handler = self._noticed
        self._connection = connection
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.finish()
            self._connection = None

    def setting(self, name: str) -> str:
        """A setting that the server reports by itself."""
        assert self._connection is not None
        return (self._connection.parameter_status(name.encode()) or b"").decode()

    def in_failed_transaction(self) -> bool:
        """Whether the transaction has failed and waits for its end."""
        assert self._connection is not None
        return self._connection.transaction_status == pq.TransactionStatus.INERROR

    def in_transaction(self) -> bool:
        """Whether a transaction block is open."""
        assert self._connection is not None
        return self._connection.transaction_status != pq.TransactionStatus.IDLE

    def describe(self, sql: str) -> Outcome:
        """The names and types of a statement's columns: psql's `\\gdesc`."""
        return self._sent(
            lambda connection: connection.send_prepare(b"", sql.encode(errors="surrogateescape")), None, describe=True
        )

    def run(self, sql: str, lines: Callable[[], str] | None) -> Outcome:
        """Send a statement. `lines` are the data for a COPY that asks for some; without them it is refused."""
        return self._sent(lambda connection: connection.send_query(sql.encode(errors="surrogateescape")), lines)

    def _noticed(self, result: pq.abc.PGresult) -> None:
        fields = (Fields.SQLSTATE, Fields.MESSAGE_PRIMARY, *_MORE)
        self._notices.append(tuple(_text(result.error_field(name)) for name in fields))

    def _sent(
        self, send: Callable[[pq.abc.PGconn], None], lines: Callable[[], str] | None, *, describe: bool = False
    ) -> Outcome:
        connection = self._connection
        assert connection is not None
        outcome, self._notices = Outcome(), []
        deadline = time.monotonic() + self._timeout_s
        try:
            send(connection)
            self._collect(connection, outcome, lines, deadline)
            if describe and outcome.error is None:
                outcome.answers.clear()
                connection.send_describe_prepared(b"")
                self._collect(connection, outcome, lines, deadline)
        except _Late:
            outcome.broke = "does not end"
        except OperationalError:
            outcome.broke = "lost connection"
        if connection.status != pq.ConnStatus.OK:
            outcome.broke = "lost connection"
        outcome.notices = self._notices
        return outcome

    def _collect(
        self, connection: pq.abc.PGconn, outcome: Outcome, lines: Callable[[], str] | None, deadline: float
    ) -> None:
        while True:
            self._wait(connection, deadline)
            result = connection.get_result()
            if result is None:
                return
            match result.status:
                case pq.ExecStatus.COPY_IN:
                    if lines is None:
                        connection.put_copy_end(b"no data follow")
                    else:
                        data = lines().encode(errors="surrogateescape")
                        if data:
                            connection.put_copy_data(data)
                        connection.put_copy_end()
                case pq.ExecStatus.COPY_OUT:
                    outcome.answers.append(Answer(copied=self._copied(connection, deadline)))
                case _:
                    outcome.answers.append(_answer(result))

    def _copied(self, connection: pq.abc.PGconn, deadline: float) -> str:
        parts: list[bytes] = []
        while True:
            size, data = connection.get_copy_data(1)
            if size > 0:
                parts.append(bytes(data))
            elif size == 0:
                if time.monotonic() > deadline:
                    raise _Late
                select.select([connection.socket], [], [], _POLL_S)
                connection.consume_input()
            else:
                return b"".join(parts).decode(errors="surrogateescape")

    def _wait(self, connection: pq.abc.PGconn, deadline: float) -> None:
        is_cancelled = False
        while connection.is_busy():
            if select.select([connection.socket], [], [], _POLL_S)[0]:
                connection.consume_input()
            elif time.monotonic() > deadline:
                if is_cancelled:
                    raise _Late
                connection.get_cancel().cancel()
                is_cancelled, deadline = True, time.monotonic() + _CANCEL_S


class _Late(Exception):
    """A statement does not end although it has been cancelled."""


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="surrogateescape")


def _answer(result: pq.abc.PGresult) -> Answer:
    if result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
        return Answer(
            sqlstate=_text(result.error_field(Fields.SQLSTATE)) or "",
            message=_text(result.error_field(Fields.MESSAGE_PRIMARY)) or result.error_message.decode(),
            more=tuple(_text(result.error_field(name)) for name in _MORE),
        )
    tag = _text(result.command_status) or ""
    if not result.nfields and result.status == pq.ExecStatus.COMMAND_OK:
        return Answer(tag=tag)
    width = range(result.nfields)
    columns = [(_text(result.fname(place)) or "", result.ftype(place)) for place in width]
    rows = [tuple(_text(result.get_value(row, place)) for place in width) for row in range(result.ntuples)]
    return Answer(tag=tag, columns=columns, rows=rows)
