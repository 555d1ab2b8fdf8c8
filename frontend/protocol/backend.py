"""Backend messages as bytes, without I/O.

Each function returns one whole message. DataRow messages are made by `frontend.encoding`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from adapter.results import ColumnDescription, Notice
from frontend.encoding.encoders import TEXT_FORMAT
from frontend.protocol.client_encoding import CLIENT_ENCODING, encode_text
from planner.errors import SqlError
from planner.types.derived_oids import owner_of_array_type
from planner.types.type_names import type_length
from planner.types.types import SqlType

AUTHENTICATION_OK = b"R\0\0\0\x08\0\0\0\0"
AUTHENTICATION_CLEARTEXT_PASSWORD = b"R\0\0\0\x08\0\0\0\x03"
PARSE_COMPLETE = b"1\0\0\0\x04"
BIND_COMPLETE = b"2\0\0\0\x04"
CLOSE_COMPLETE = b"3\0\0\0\x04"
NO_DATA = b"n\0\0\0\x04"
PORTAL_SUSPENDED = b"s\0\0\0\x04"
EMPTY_QUERY_RESPONSE = b"I\0\0\0\x04"
COPY_DONE = b"c\0\0\0\x04"
_READY = {status: b"Z\0\0\0\x05" + status.encode() for status in "ITE"}


def message(code: str, body: bytes) -> bytes:
    """A typed message around its body."""
    return code.encode() + (len(body) + 4).to_bytes(4, "big") + body


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass") if CLIENT_ENCODING.get() is None else encode_text(text)
    return data.replace(b"\0", b"") + b"\0"


def authentication_sasl(mechanisms: Sequence[str]) -> bytes:
    """Asks for one of these mechanisms."""
    return message("R", (10).to_bytes(4, "big") + b"".join(_string(name) for name in mechanisms) + b"\0")


def authentication_sasl_continue(data: bytes) -> bytes:
    """The server's turn in a SASL exchange."""
    return message("R", (11).to_bytes(4, "big") + data)


def authentication_sasl_final(data: bytes) -> bytes:
    """The server's last word in a SASL exchange that has succeeded."""
    return message("R", (12).to_bytes(4, "big") + data)


def authentication_md5_password(salt: bytes) -> bytes:
    """Asks for the password, digested with its role's name and this salt of four bytes."""
    return message("R", (5).to_bytes(4, "big") + salt)


def parameter_status(name: str, value: str) -> bytes:
    """A setting that drivers follow."""
    return message("S", _string(name) + _string(value))


def backend_key_data(backend_pid: int, secret: bytes) -> bytes:
    """What a CancelRequest must repeat."""
    return message("K", backend_pid.to_bytes(4, "big") + secret)


def negotiate_protocol_version(version: int, unrecognized: Sequence[str]) -> bytes:
    """The newest version that the server speaks, and the protocol options that it does not know."""
    body = struct.pack(">II", version, len(unrecognized)) + b"".join(_string(name) for name in unrecognized)
    return message("v", body)


def ready_for_query(status: str) -> bytes:
    """`status` is I (idle), T (in a transaction block) or E (in a failed one)."""
    return _READY[status]


def command_complete(tag: str) -> bytes:
    """The command tag."""
    return message("C", _string(tag))


def _sent_oid(type: SqlType) -> int:
    """What clients are told of a column's type: of a domain the type under it, but arrays over domains by their own
    oids."""
    return type.domain if owner_of_array_type(type.domain) is not None else type.oid


@lru_cache(maxsize=512)
def row_description(
    columns: tuple[ColumnDescription, ...], formats: tuple[int, ...], encoding: str | None = None
) -> bytes:
    """Columns of a result; `formats` has one code per column, or none for text. `encoding` is what `CLIENT_ENCODING`
    has: the names are kept as bytes."""
    parts = [len(columns).to_bytes(2, "big")]
    for index, column in enumerate(columns):
        origin = column.origin
        parts.append(_string(column.name))
        parts.append(
            struct.pack(
                ">IhIhih",
                origin.relation_oid if origin else 0,
                origin.attnum if origin else 0,
                _sent_oid(column.type),
                type_length(column.type.oid),
                column.type.typmod,
                formats[index] if formats else TEXT_FORMAT,
            )
        )
    return message("T", b"".join(parts))


def parameter_description(oids: Sequence[int]) -> bytes:
    """The types of a prepared statement's parameters."""
    return message("t", struct.pack(f">H{len(oids)}I", len(oids), *oids))


def _copy_response(code: str, column_count: int, *, binary: bool) -> bytes:
    overall = 1 if binary else 0
    return message(code, struct.pack(f">bH{column_count}H", overall, column_count, *([overall] * column_count)))


def copy_in_response(column_count: int, *, binary: bool) -> bytes:
    """The server is ready for CopyData."""
    return _copy_response("G", column_count, binary=binary)


def copy_out_response(column_count: int, *, binary: bool) -> bytes:
    """CopyData follows."""
    return _copy_response("H", column_count, binary=binary)


def copy_data(data: bytes) -> bytes:
    """A piece of COPY data."""
    return message("d", data)


def notification_response(backend_pid: int, channel: str, payload: str) -> bytes:
    """A NOTIFY that this session listens to."""
    return message("A", backend_pid.to_bytes(4, "big") + _string(channel) + _string(payload))


def _fields(fields: Sequence[tuple[str, str | int | None]]) -> bytes:
    return b"".join(code.encode() + _string(str(value)) for code, value in fields if value is not None) + b"\0"


def error_response(error: SqlError, *, severity: str | None = None) -> bytes:
    """An ErrorResponse with every field that the error has."""
    shown = severity or ("FATAL" if error.fatal else "ERROR")
    routine = error.routine or type(error).__name__
    fields: list[tuple[str, str | int | None]] = [
        ("S", shown),
        ("V", shown),
        ("C", error.sqlstate),
        ("M", error.message),
        ("D", error.detail),
        ("H", error.hint),
        ("W", error.where),
        ("s", error.schema),
        ("t", error.table),
        ("c", error.column),
        ("d", error.datatype),
        ("n", error.constraint),
        ("P", error.position),
        ("F", "tidegate"),
        ("L", 0),
        ("R", routine),
    ]
    return message("E", _fields(fields))


def notice_response(notice: Notice) -> bytes:
    """A NoticeResponse."""
    fields: list[tuple[str, str | int | None]] = [
        ("S", notice.severity),
        ("V", notice.severity),
        ("C", notice.sqlstate),
        ("M", notice.message),
        ("D", notice.detail),
        ("H", notice.hint),
        ("W", notice.where),
    ]
    return message("N", _fields(fields))
