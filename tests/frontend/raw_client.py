"""A bare client of the wire protocol: builds messages, reads replies, knows nothing more."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from dataclasses import dataclass

TIMEOUT_S = 10.0


def message(code: str, body: bytes = b"") -> bytes:
    """A typed message."""
    return code.encode() + struct.pack(">I", len(body) + 4) + body


def cstring(text: str) -> bytes:
    """A NUL-terminated string."""
    return text.encode() + b"\0"


def query(text: str) -> bytes:
    return message("Q", cstring(text))


def parse(name: str, text: str, oids: Sequence[int] = ()) -> bytes:
    return message("P", cstring(name) + cstring(text) + struct.pack(f">H{len(oids)}I", len(oids), *oids))


def bind(
    portal: str = "",
    statement: str = "",
    values: Sequence[bytes | None] = (),
    param_formats: Sequence[int] = (),
    result_formats: Sequence[int] = (),
) -> bytes:
    body = (
        cstring(portal)
        + cstring(statement)
        + struct.pack(f">H{len(param_formats)}H", len(param_formats), *param_formats)
    )
    body += struct.pack(">H", len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message("B", body + struct.pack(f">H{len(result_formats)}H", len(result_formats), *result_formats))


def describe(kind: str, name: str = "") -> bytes:
    return message("D", kind.encode() + cstring(name))


def execute(portal: str = "", max_rows: int = 0) -> bytes:
    return message("E", cstring(portal) + struct.pack(">i", max_rows))


def close(kind: str, name: str = "") -> bytes:
    return message("C", kind.encode() + cstring(name))


def function_call(
    oid: int, values: Sequence[bytes | None] = (), formats: Sequence[int] = (), result_format: int = 0
) -> bytes:
    body = struct.pack(f">IH{len(formats)}H", oid, len(formats), *formats) + struct.pack(">H", len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message("F", body + struct.pack(">H", result_format))


SYNC = message("S")
FLUSH = message("H")
TERMINATE = message("X")
COPY_DONE = message("c")


def copy_data(data: bytes) -> bytes:
    return message("d", data)


def copy_fail(reason: str) -> bytes:
    return message("f", cstring(reason))


def startup(parameters: dict[str, str], version: int = 0x30000) -> bytes:
    body = struct.pack(">I", version) + b"".join(cstring(k) + cstring(v) for k, v in parameters.items()) + b"\0"
    return struct.pack(">I", len(body) + 4) + body


def request(code: int, body: bytes = b"") -> bytes:
    """SSLRequest, GSSENCRequest, CancelRequest."""
    return struct.pack(">II", len(body) + 8, code) + body


@dataclass
class Reply:
    """One backend message."""

    code: str
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        """Fields of an ErrorResponse or NoticeResponse."""
        return {part[:1].decode(): part[1:].decode() for part in self.body.split(b"\0") if part}

    @property
    def text(self) -> str:
        """A body that is one string."""
        return self.body.rstrip(b"\0").decode()

    @property
    def row(self) -> list[bytes | None]:
        """The values of a DataRow."""
        (count,) = struct.unpack_from(">H", self.body)
        values: list[bytes | None] = []
        position = 2
        for _ in range(count):
            (length,) = struct.unpack_from(">i", self.body, position)
            position += 4
            values.append(None if length < 0 else self.body[position : position + length])
            position += max(length, 0)
        assert position == len(self.body)
        return values


class RawClient:
    """A connection. `until` reads up to and including a message of one of the codes, or the end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.key: tuple[int, bytes] = (0, b"")

    @classmethod
    async def open(cls, port: int) -> RawClient:
        """A TCP connection, nothing said yet."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def connect(cls, port: int, **parameters: str) -> RawClient:
        """A session of user postgres."""
        client = await cls.open(port)
        client.send(startup({"user": "postgres", **parameters}))
        replies = await client.until("Z")
        assert replies[-1].code == "Z", replies
        return client

    def send(self, *messages: bytes) -> None:
        self.writer.write(b"".join(messages))

    async def receive(self) -> Reply | None:
        async with asyncio.timeout(TIMEOUT_S):
            try:
                header = await self.reader.readexactly(5)
                body = await self.reader.readexactly(struct.unpack(">I", header[1:])[0] - 4)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
        reply = Reply(chr(header[0]), body)
        if reply.code == "K":
            self.key = (struct.unpack(">I", body[:4])[0], body[4:])
        return reply

    async def until(self, codes: str, count: int = 1) -> list[Reply]:
        replies: list[Reply] = []
        while count:
            reply = await self.receive()
            if reply is None:
                break
            replies.append(reply)
            count -= reply.code in codes
        return replies

    async def ask(self, *messages: bytes, count: int = 1) -> list[Reply]:
        """Sends and reads up to the `count`-th ReadyForQuery."""
        self.send(*messages)
        return await self.until("Z", count)

    async def close(self) -> None:
        self.writer.close()


def codes(replies: Sequence[Reply]) -> str:
    """The types of messages, in order."""
    return "".join(reply.code for reply in replies)
