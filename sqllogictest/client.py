"""A small synchronous client of the PostgreSQL wire protocol: simple queries with text results, and no more.

It exists so that the runner compares the very bytes that a server sends, with no driver's conversions between.
"""

from __future__ import annotations

import socket
import struct

from msgspec import Struct, field

PROTOCOL_3_0 = 0x0003_0000


class ConnectionFailed(Exception):
    """The server cannot be reached, refuses the session, or has gone."""


class ServerError(Struct, frozen=True, kw_only=True):
    """An ErrorResponse."""

    sqlstate: str
    message: str
    fields: dict[str, str] = field(default_factory=dict)


class QueryResult(Struct, kw_only=True):
    """What one query string gave: the rows of its last row-returning statement, its tags, or an error."""

    columns: list[str] = field(default_factory=list)
    rows: list[list[str | None]] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    error: ServerError | None = None

    @property
    def count(self) -> int | None:
        """The row count in the last command tag, if it has one."""
        words = self.tags[-1].split() if self.tags else []
        return int(words[-1]) if words and words[-1].isdecimal() else None


class Client:
    """One session. Not for use by several threads."""

    def __init__(self, *, host: str, port: int, user: str, database: str, timeout_s: float) -> None:
        self.parameters: dict[str, str] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {host}:{port}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb", buffering=1 << 16)
        pairs = {"user": user, "database": database, "client_encoding": "UTF8", "application_name": "sqllogictest"}
        body = struct.pack(">I", PROTOCOL_3_0)
        body += b"".join(key.encode() + b"\0" + value.encode() + b"\0" for key, value in pairs.items()) + b"\0"
        self._send(struct.pack(">I", len(body) + 4) + body)
        result = self._read_result()
        if result.error is not None:
            raise ConnectionFailed(f"{result.error.sqlstate}: {result.error.message}")

    def close(self) -> None:
        """Ends the session."""
        try:
            self._send(b"X\0\0\0\4")
        except ConnectionFailed:
            pass  # the server has gone first
        finally:
            self._stream.close()
            self._socket.close()

    def query(self, text: str) -> QueryResult:
        """Runs a query string by the simple protocol. Raises ConnectionFailed."""
        body = text.encode() + b"\0"
        self._send(b"Q" + struct.pack(">I", len(body) + 4) + body)
        return self._read_result()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionFailed(f"the connection was lost: {error}") from error

    def _read(self, count: int) -> bytes:
        try:
            data: bytes | None = self._stream.read(count)
        except OSError as error:
            raise ConnectionFailed(f"no answer: {error}") from error
        if data is None or len(data) < count:
            raise ConnectionFailed("the server closed the connection")
        return data

    def _read_result(self) -> QueryResult:
        """Messages up to ReadyForQuery."""
        result = QueryResult()
        while True:
            header = self._read(5)
            body = self._read(struct.unpack(">I", header[1:])[0] - 4)
            match header[:1]:
                case b"T":
                    result.columns, result.rows = _column_names(body), []
                case b"D":
                    result.rows.append(_row(body))
                case b"C":
                    result.tags.append(body[:-1].decode())
                case b"E":
                    fields = _fields(body)
                    result.error = ServerError(sqlstate=fields["C"], message=fields["M"], fields=fields)
                    if fields.get("S") == "FATAL":
                        raise ConnectionFailed(f"{fields['C']}: {fields['M']}")
                case b"S":
                    name, value, _ = body.split(b"\0")
                    self.parameters[name.decode()] = value.decode()
                case b"R":
                    if body[:4] != bytes(4):
                        raise ConnectionFailed("the server asks for a password; the runner knows only trust")
                case b"G":
                    self._send(b"f" + struct.pack(">I", 18) + b"not supported\0")
                case b"Z":
                    return result
                case _:
                    continue


def _column_names(body: bytes) -> list[str]:
    names: list[str] = []
    position = 2
    for _ in range(struct.unpack_from(">H", body)[0]):
        end = body.index(0, position)
        names.append(body[position:end].decode())
        position = end + 19
    return names


def _row(body: bytes) -> list[str | None]:
    values: list[str | None] = []
    position = 2
    for _ in range(struct.unpack_from(">H", body)[0]):
        (length,) = struct.unpack_from(">i", body, position)
        position += 4
        if length < 0:
            values.append(None)
            continue
        values.append(body[position : position + length].decode())
        position += length
    return values


def _fields(body: bytes) -> dict[str, str]:
    return {part[:1].decode(): part[1:].decode("utf-8", "replace") for part in body.split(b"\0") if part}
