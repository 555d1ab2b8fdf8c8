"""What the server's log says of one client: its coming and going, its statements, their durations and its errors.

Which of them, the session's settings say (PostgreSQL, "Error Reporting and Logging"): `log_connections`,
`log_disconnections`, `log_statement`, `log_duration`, `log_min_duration_statement`, `log_min_messages`,
`log_min_error_statement`, `log_error_verbosity`, `log_parameter_max_length`. Each entry is one line with the client's
process id, user, database and application beside it; passwords in statements are hidden. With a `log_line_prefix` they
are written as PostgreSQL writes them, for the tools that read its logs.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from adapter.access.passwords import without_passwords
from adapter.settings.values import number_of
from adapter.wall_clock import utc_now
from frontend.connections.log_prefix import LogMoment, LogSession, lines, prefix
from planner.errors import SqlError
from planner.syntax.extensions import parse_statements
from planner.syntax.log_levels import log_level
from planner.syntax.parse import LONG_TEXT_CHARS

_ORDER = (
    "debug5", "debug4", "debug3", "debug2", "debug1", "info", "notice", "warning", "error", "log", "fatal", "panic",
)  # fmt: skip
"""Severities of `log_min_messages`, the least first."""

_LEVELS = ("none", "ddl", "mod", "all")

MAX_LOGGED_CHARS = 1 << 16
"""So much of a statement is logged; what is left out is counted."""

_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*([A-Za-z]+)", re.DOTALL)

log = structlog.get_logger("client")


class ClientLog:
    """See the module's contract. Belongs to one connection; `address` is the client's, `moment` tells what the session
    does: its transaction's id and the id of its statement, 0 where there is none."""

    def __init__(
        self,
        settings: Mapping[str, str],
        pid: int,
        user: str,
        database: str,
        address: str | None,
        moment: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._facts = {"pid": pid, "user": user, "database": database}
        host, _, port = (address or "").rpartition(":")
        self._session = LogSession(
            pid=pid,
            user=user,
            database=database,
            host=host or "[local]",
            port=port if host else None,
            started_at=utc_now(),
        )
        self._moment = moment
        self._command = "idle"
        self._address = address or "[local]"
        self._began = time.monotonic()
        self.settings: Mapping[str, str] = {}
        """The settings that the answers below are of."""
        self.is_active = False
        """Whether statements or their durations are logged: each of them has to be looked at."""
        self.follow(settings)

    def follow(self, settings: Mapping[str, str]) -> None:
        """From now on these settings say what is logged."""
        self.settings = settings
        self._prefix = settings["log_line_prefix"]
        self._statements = _LEVELS.index(settings["log_statement"])
        self._least_ms = number_of("log_min_duration_statement", settings["log_min_duration_statement"])
        self._durations = settings["log_duration"] == "on"
        tells = _ORDER.index(settings["log_min_messages"]) <= _ORDER.index("log")
        self.is_active = tells and (self._statements > 0 or self._least_ms >= 0 or self._durations)

    def connected(self) -> None:
        """The client has come in."""
        if self.settings["log_connections"] == "on":
            if self._prefix:
                application = self.settings["application_name"]
                rest = f" application_name={application}" if application else ""
                self._write("LOG", f"connection authorized: {self._names()}{rest}")
            else:
                self._tell("connection authorized", host=self._address)

    def disconnected(self) -> None:
        """The client is gone."""
        if self.settings["log_disconnections"] == "on":
            seconds = round(time.monotonic() - self._began, 3)
            if self._prefix:
                session = self._session
                minutes, rest = divmod(seconds, 60)
                lasted = f"{int(minutes) // 60}:{int(minutes) % 60:02d}:{rest:06.3f}"
                port = "" if session.port is None else f" port={session.port}"
                self._write("LOG", f"disconnection: session time: {lasted} {self._names()} host={session.host}{port}")
            else:
                self._tell("disconnection", session_time_s=seconds, host=self._address)

    async def statement(self, what: str, text: str, parameters: Sequence[str | None]) -> bool:
        """A statement is about to run: `what` is ``statement`` or ``execute NAME``. Whether it has been logged. Not
        when its syntax is wrong."""
        if not self._statements:
            return False
        try:
            if len(text) > LONG_TEXT_CHARS:
                statements = await asyncio.to_thread(parse_statements, text)
            else:
                statements = parse_statements(text)
        except SqlError:
            return False
        if not any(_LEVELS.index(log_level(each)) <= self._statements for each in statements):
            return False
        if self._prefix:
            self._write("LOG", f"{what}: {_shown(text)}", self._details(parameters))
        else:
            self._tell(what, statement=_shown(text), **self._given(parameters))
        return True

    def duration(self, what: str, text: str, seconds: float, parameters: Sequence[str | None], *, told: bool) -> None:
        """What was begun has ended well, after so long. `told`: the statement has been logged."""
        ms = round(seconds * 1000, 3)
        if self._prefix:
            self._command = _command(text)
            if 0 <= self._least_ms <= ms and not told:
                self._write("LOG", f"duration: {ms:.3f} ms  {what}: {_shown(text)}", self._details(parameters))
            elif 0 <= self._least_ms <= ms or self._durations:
                self._write("LOG", f"duration: {ms:.3f} ms")
            self._command = "idle"
        elif 0 <= self._least_ms <= ms:
            # A statement that has been logged is not repeated.
            rest = {} if told else {"statement": _shown(text), **self._given(parameters)}
            self._tell("duration", ms=ms, of=what, **rest)
        elif self._durations:
            self._tell("duration", ms=ms, of=what)

    def error(self, error: SqlError, text: str | None) -> None:
        """The client is told of an error, which is FATAL when it ends the session, of the statement `text` if it is of
        one."""
        settings = self.settings
        severity = "FATAL" if error.fatal else "ERROR"
        place = _ORDER.index(severity.lower())
        if _ORDER.index(settings["log_min_messages"]) > place:
            return
        if self._prefix:
            self._write_error(
                severity, error, text if _ORDER.index(settings["log_min_error_statement"]) <= place else None
            )
            return
        facts: dict[str, object] = {"sqlstate": error.sqlstate, "message": error.message}
        if settings["log_error_verbosity"] != "terse":
            more = {"detail": error.detail, "hint": error.hint, "context": error.where}
            facts |= {name: value for name, value in more.items() if value is not None}
        if text and _ORDER.index(settings["log_min_error_statement"]) <= place:
            facts["statement"] = _shown(text)
        log.error(severity, **self._who(), **facts)

    def _write_error(self, severity: str, error: SqlError, text: str | None) -> None:
        verbosity = self.settings["log_error_verbosity"]
        message = error.message if verbosity != "verbose" else f"{error.sqlstate}: {error.message}"
        if error.position is not None:
            message = f"{message} at character {error.position}"
        details: list[tuple[str, str]] = []
        if verbosity != "terse":
            more = (("DETAIL", error.detail), ("HINT", error.hint), ("CONTEXT", error.where))
            details = [(name, value) for name, value in more if value]
        if text:
            details.append(("STATEMENT", _shown(text)))
        self._command = "idle" if text is None else _command(text)
        self._write(severity, message, details, error.sqlstate)
        self._command = "idle"

    def _write(
        self, severity: str, message: str, details: Sequence[tuple[str, str]] = (), sqlstate: str = "00000"
    ) -> None:
        """Lines in PostgreSQL's form, at one go."""
        transaction, query_id = self._moment()
        moment = LogMoment(
            now=utc_now(),
            application=self.settings["application_name"],
            sqlstate=sqlstate,
            command=self._command,
            transaction=transaction,
            query_id=query_id,
        )

        def before() -> str:
            self._session.lines += 1
            return prefix(self._prefix, self._session, moment)

        if log.is_enabled_for(logging.ERROR if severity == "ERROR" else logging.INFO):
            found = "\n".join(lines(severity, message, details, before))
            sys.stderr.write(f"{found}\n")
            sys.stderr.flush()

    def _names(self) -> str:
        return f"user={self._session.user} database={self._session.database}"

    def _details(self, parameters: Sequence[str | None]) -> list[tuple[str, str]]:
        given = self._given(parameters)
        return [("DETAIL", f"parameters: {given['parameters']}")] if given else []

    def _tell(self, event: str, **facts: object) -> None:
        log.info(event, **self._who(), **facts)

    def _who(self) -> dict[str, object]:
        application = self.settings["application_name"]
        return {**self._facts, "application_name": application} if application else dict(self._facts)

    def _given(self, parameters: Sequence[str | None]) -> dict[str, object]:
        most = int(number_of("log_parameter_max_length", self.settings["log_parameter_max_length"]))
        if not parameters or most == 0:
            return {}
        most = MAX_LOGGED_CHARS if most < 0 else most
        shown = [
            "NULL" if value is None else f"'{value[:most]}{'...' if len(value) > most else ''}'" for value in parameters
        ]
        return {"parameters": ", ".join(f"${number} = {value}" for number, value in enumerate(shown, 1))}


def _command(text: str) -> str:
    """The word that a statement begins with."""
    found = _WORD.match(text)
    return "" if found is None else found.group(1).upper()


def _shown(text: str) -> str:
    hidden = without_passwords(text[:MAX_LOGGED_CHARS])
    left = len(text) - MAX_LOGGED_CHARS
    return hidden if left <= 0 else f"{hidden}... ({left} more characters)"
