"""What stands before a line of the log, and the lines, in PostgreSQL's form (`log_line_prefix`, elog.c, log_line_prefix
and send_message_to_server_log)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

_ESCAPE = re.compile(r"%(-?\d*)(.?)", re.DOTALL)


class LogSession(Struct):
    """What a prefix can tell of a session. `lines` counts those that were logged for it."""

    pid: int
    user: str
    database: str
    host: str
    port: str | None
    started_at: datetime
    lines: int = 0


class LogMoment(Struct, frozen=True, kw_only=True):
    """What it can tell of the moment: 0 and None for what there is not."""

    now: datetime
    application: str = ""
    sqlstate: str = "00000"
    command: str = "idle"
    transaction: int = 0
    virtual_transaction: str = ""
    query_id: int = 0


def prefix(pattern: str, session: LogSession, moment: LogMoment) -> str:
    """The text of `pattern`; a padding between ``%`` and the letter is kept, and letters that mean nothing are left out
    with their percent sign."""
    values: Mapping[str, Callable[[], str]] = {
        "a": lambda: moment.application or "[unknown]",
        "b": lambda: "client backend",
        "u": lambda: session.user,
        "d": lambda: session.database,
        "p": lambda: str(session.pid),
        "P": lambda: "",
        "t": lambda: moment.now.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "m": lambda: f"{moment.now.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{moment.now.microsecond // 1000:03d} UTC",
        "n": lambda: f"{moment.now.timestamp():.3f}",
        "i": lambda: moment.command,
        "e": lambda: moment.sqlstate,
        "c": lambda: f"{int(session.started_at.timestamp()):x}.{session.pid:x}",
        "l": lambda: str(session.lines),
        "s": lambda: session.started_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "v": lambda: moment.virtual_transaction,
        "x": lambda: str(moment.transaction),
        "Q": lambda: str(moment.query_id),
        "h": lambda: session.host,
        "r": lambda: session.host if session.port is None else f"{session.host}({session.port})",
        "q": lambda: "",
        "%": lambda: "%",
    }

    def shown(match: re.Match[str]) -> str:
        padding, letter = match.groups()
        value = values.get(letter)
        if value is None or padding == "-" or (letter in "%q" and padding):
            return ""
        width = int(padding or 0)
        return value().ljust(-width) if width < 0 else value().rjust(width)

    return _ESCAPE.sub(shown, pattern)


def lines(severity: str, message: str, details: Sequence[tuple[str, str]], before: Callable[[], str]) -> Iterator[str]:
    """A message and what belongs to it (DETAIL, HINT, CONTEXT, STATEMENT), each behind a prefix; line breaks inside are
    followed by a tab."""
    for name, text in ((severity, message), *details):
        indented = text.replace("\n", "\n\t")
        yield f"{before()}{name}:  {indented}"
