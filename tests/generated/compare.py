"""Whether PostgreSQL and Tidegate give the same result for a statement: names, types, rows or SQLSTATE."""

from __future__ import annotations

import math
from collections.abc import Iterable

import psycopg
from msgspec import Struct
from psycopg.pq import ExecStatus

FLOATS = frozenset({700, 701})
FLOAT_ARRAYS = frozenset({1021, 1022})
OWN_TYPES = 16384
"""From here on OIDs are those of users' types, which differ."""
DIGITS = 9
"""Digits of floating-point results that are compared: sums depend on the order of rows."""


class Result(Struct, frozen=True):
    """A result: names and type OIDs of its columns and its rows as text; or an error's SQLSTATE and message."""

    columns: tuple[tuple[str, int], ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    tag: str | None = None
    sqlstate: str | None = None
    message: str | None = None


def ask(connection: psycopg.Connection, text: str) -> Result:
    """Send the text as one simple query."""
    answer = connection.pgconn.exec_(text.encode())
    if answer.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        field = psycopg.pq.DiagnosticField
        state, message = answer.error_field(field.SQLSTATE), answer.error_field(field.MESSAGE_PRIMARY)
        if state is None:
            raise psycopg.OperationalError(connection.pgconn.error_message.decode(errors="replace"))
        return Result(sqlstate=state.decode(), message=(message or b"").decode(errors="replace"))
    oids = [answer.ftype(number) for number in range(answer.nfields)]
    columns = tuple(((answer.fname(number) or b"").decode(), min(oid, OWN_TYPES)) for number, oid in enumerate(oids))
    rows = tuple(
        tuple(_text(answer.get_value(row, number), oid) for number, oid in enumerate(oids))
        for row in range(answer.ntuples)
    )
    return Result(columns=columns, rows=rows, tag=(answer.command_status or b"").decode())


def _text(value: bytes | None, oid: int) -> str | None:
    if value is None:
        return None
    text = value.decode()
    if oid in FLOATS:
        number = float(text)
        return text if math.isinf(number) or math.isnan(number) else f"{number + 0.0:.{DIGITS}g}"
    return text


def same(theirs: Result, ours: Result, *, ordered: bool) -> bool:
    """Whether they are equal; rows in any order unless `ordered`."""
    if theirs.sqlstate is not None or ours.sqlstate is not None:
        return theirs.sqlstate == ours.sqlstate
    if theirs.columns != ours.columns:
        return False
    return theirs.rows == ours.rows if ordered else sort(theirs.rows) == sort(ours.rows)


def sort(rows: Iterable[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
    """The rows in an order that depends on nothing but them."""
    return sorted(rows, key=lambda row: tuple((value is not None, value or "") for value in row))
