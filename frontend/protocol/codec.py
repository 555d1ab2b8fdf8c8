"""Bytes to frontend messages, without I/O.

`Decoder` is fed what the socket gives and hands out whole messages: first start-up packets (`next_startup`; they have
no type byte), then typed messages (`next_message`). Broken framing raises `FramingError` (the connection cannot go on,
as in PostgreSQL); broken content comes out as `Malformed`, which the connection answers like a failed message.

Bounds: a start-up packet has at most 10,000 bytes, a message without data as many, one with data `max_message_bytes`.
What is longer, but short enough to be meant (1 GiB), is skipped without being kept and comes out as `Malformed`.
"""

from __future__ import annotations

import struct
from contextlib import suppress

from frontend.protocol.client_encoding import CLIENT_ENCODING
from frontend.protocol.messages import (
    CANCEL_REQUEST,
    GSSENC_REQUEST,
    LARGE_MESSAGE_BYTES,
    MAX_STARTUP_BYTES,
    SMALL_MESSAGE_BYTES,
    SSL_REQUEST,
    Bind,
    CancelRequest,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    Describe,
    Execute,
    Flush,
    FrontendMessage,
    FunctionCall,
    GssEncRequest,
    Malformed,
    Parse,
    PasswordMessage,
    Query,
    SslRequest,
    Startup,
    StartupMessage,
    Sync,
    Terminate,
)
from planner.catalog_data.encodings import UTF8, decoded
from planner.errors import (
    FeatureNotSupported,
    InvalidAuthorizationSpecification,
    ProgramLimitExceeded,
    ProtocolViolation,
    SqlError,
)

_LARGE_CODES = frozenset(b"QFBPdp")
_LIMITS = {
    **dict.fromkeys(_LARGE_CODES, LARGE_MESSAGE_BYTES),
    **dict.fromkeys(b"XCDEHScf", SMALL_MESSAGE_BYTES),
}
"""By type: the longest length that a message may announce."""
SMALL_BIND_BYTES = 4096
_LENGTH = struct.Struct(">i")

SYNC = b"S\0\0\0\x04"
"""A whole message of that kind."""
EXECUTION = b"E\0\0\0\x09\0\0\0\0\0" + SYNC
"""Execute of the unnamed portal, for all rows, and Sync."""
DESCRIBED_EXECUTION = b"D\0\0\0\x06P\0" + EXECUTION
"""The same after Describe of that portal."""
_COMPACT_FROM_BYTES = 1 << 16
_BIND = ord("B")
_ANSWER = ord("p")
LONG_VALUE_BYTES = 1 << 20
"""A value of so many bytes is not copied on the event loop, which would take a millisecond for a few of them."""


class FramingError(Exception):
    """The byte stream cannot be followed any further. `error` is told to the client before closing, if anything."""

    def __init__(self, error: SqlError | None) -> None:
        super().__init__(str(error) if error else "invalid message length")
        self.error = error


def decode_utf8(data: bytes | memoryview) -> str:
    """Text in UTF-8; raises 22021 as PostgreSQL does, also for a NUL byte."""
    with suppress(UnicodeDecodeError):
        text = str(data, "utf-8")
        if "\0" not in text:
            return text
    return decoded(bytes(data), UTF8)


def decode_text(data: bytes | memoryview) -> str:
    """Client text. Raises 22021, 22P05."""
    encoding = CLIENT_ENCODING.get()
    return decode_utf8(data) if encoding is None else decoded(bytes(data), encoding)


class BodyReader:
    """Reads the fields of one message body, which begins at `position`."""

    __slots__ = ("body", "position")

    def __init__(self, body: bytes | bytearray, position: int = 0) -> None:
        self.body = body
        self.position = position

    def _take(self, count: int) -> int:
        start = self.position
        if count < 0 or start + count > len(self.body):
            raise ProtocolViolation("insufficient data left in message")
        self.position = start + count
        return start

    def int16(self) -> int:
        start = self._take(2)
        return int.from_bytes(self.body[start : start + 2], "big")

    def int32(self) -> int:
        start = self._take(4)
        return int.from_bytes(self.body[start : start + 4], "big", signed=True)

    def uint32(self) -> int:
        start = self._take(4)
        return int.from_bytes(self.body[start : start + 4], "big")

    def raw(self, count: int) -> bytes:
        start = self._take(count)
        return bytes(self.body[start : start + count])

    def values(self, count: int) -> list[bytes | memoryview | None]:
        """So many values, each after its length; the long ones are not copied. There may be tens of thousands."""
        body, at, end = self.body, self.position, len(self.body)
        found: list[bytes | memoryview | None] = []
        for _ in range(count):
            if at + 4 > end:
                raise ProtocolViolation("insufficient data left in message")
            (length,) = _LENGTH.unpack_from(body, at)
            at += 4
            if length == -1:
                found.append(None)
                continue
            if length < 0 or at + length > end:
                raise ProtocolViolation("insufficient data left in message")
            if length < LONG_VALUE_BYTES:
                found.append(bytes(body[at : at + length]))
            else:
                found.append(memoryview(body)[at : at + length])
            at += length
        self.position = at
        return found

    def byte(self) -> int:
        if self.position >= len(self.body):
            raise ProtocolViolation("no data left in message")
        return self.body[self._take(1)]

    def string(self) -> str:
        end = self.body.find(0, self.position)
        if end < 0:
            raise ProtocolViolation("invalid string in message")
        start, self.position = self.position, end + 1
        if end == start:
            return ""
        data = bytes(self.body[start:end])
        return decode_utf8(data) if CLIENT_ENCODING.get() is None else decode_text(data)

    def int16s(self) -> tuple[int, ...]:
        count = self.int16()
        return struct.unpack_from(f">{count}h", self.body, self._take(2 * count)) if count else ()

    def uint32s(self) -> tuple[int, ...]:
        count = self.int16()
        return struct.unpack_from(f">{count}I", self.body, self._take(4 * count)) if count else ()

    def end(self) -> None:
        if self.position != len(self.body):
            raise ProtocolViolation("invalid message format")


def _query(reader: BodyReader) -> FrontendMessage:
    return Query(text=reader.string())


def _parse(reader: BodyReader) -> FrontendMessage:
    name, text = reader.string(), reader.string()
    return Parse(name=name, text=text, param_oids=reader.uint32s())


def _small_bind(body: bytes) -> Bind | None:
    """`_bind` of a small message of the usual form, in a few steps; None for every other one."""
    try:
        first = body.index(0)
        second = body.index(0, first + 1)
        portal, statement = body[:first].decode(), body[first + 1 : second].decode()
        at = second + 1
        count = body[at] << 8 | body[at + 1]
        param_formats = struct.unpack_from(f">{count}h", body, at + 2) if count else ()
        at += 2 + 2 * count
        params: list[bytes | None] = []
        wanted = body[at] << 8 | body[at + 1]
        at += 2
        for _ in range(wanted):
            (length,) = _LENGTH.unpack_from(body, at)
            at += 4
            if length == -1:
                params.append(None)
                continue
            if length < 0 or at + length > len(body):
                return None
            params.append(body[at : at + length])
            at += length
        count = body[at] << 8 | body[at + 1]
        result_formats = struct.unpack_from(f">{count}h", body, at + 2) if count else ()
        if at + 2 + 2 * count != len(body):
            return None
    except (ValueError, IndexError, struct.error):
        return None
    return Bind(
        portal=portal,
        statement=statement,
        param_formats=param_formats,
        params=tuple(params),
        result_formats=result_formats,
    )


def _bind(reader: BodyReader) -> FrontendMessage:
    portal, statement = reader.string(), reader.string()
    param_formats = reader.int16s()
    return Bind(
        portal=portal,
        statement=statement,
        param_formats=param_formats,
        params=tuple(reader.values(reader.int16())),
        result_formats=reader.int16s(),
    )


def _target(reader: BodyReader, name: str) -> tuple[str, str]:
    kind = reader.byte()
    target = reader.string()
    if kind not in b"SP":
        raise ProtocolViolation(f"invalid {name} message subtype {kind}")
    return chr(kind), target


def _describe(reader: BodyReader) -> FrontendMessage:
    kind, name = _target(reader, "DESCRIBE")
    return Describe(kind=kind, name=name)


def _close(reader: BodyReader) -> FrontendMessage:
    kind, name = _target(reader, "CLOSE")
    return Close(kind=kind, name=name)


def _execute(reader: BodyReader) -> FrontendMessage:
    return Execute(portal=reader.string(), max_rows=reader.int32())


def _sync(reader: BodyReader) -> FrontendMessage:
    return Sync()


def _flush(reader: BodyReader) -> FrontendMessage:
    return Flush()


def _terminate(reader: BodyReader) -> FrontendMessage:
    return Terminate()


def _copy_data(reader: BodyReader) -> FrontendMessage:
    return CopyData(data=reader.raw(len(reader.body)))


def _copy_done(reader: BodyReader) -> FrontendMessage:
    return CopyDone()


def _copy_fail(reader: BodyReader) -> FrontendMessage:
    return CopyFail(message=reader.string())


def _function_call(reader: BodyReader) -> FrontendMessage:
    return FunctionCall(function_oid=reader.uint32(), rest=reader.raw(len(reader.body) - reader.position))


def _password(reader: BodyReader) -> FrontendMessage:
    return PasswordMessage(body=reader.raw(len(reader.body)))


_DECODERS = {
    ord("Q"): _query,
    ord("P"): _parse,
    ord("B"): _bind,
    ord("D"): _describe,
    ord("E"): _execute,
    ord("C"): _close,
    ord("S"): _sync,
    ord("H"): _flush,
    ord("X"): _terminate,
    ord("d"): _copy_data,
    ord("c"): _copy_done,
    ord("f"): _copy_fail,
    ord("F"): _function_call,
    ord("p"): _password,
}


def decode_message(code: int, body: bytes | bytearray, position: int = 0) -> FrontendMessage:
    """One typed message, whose body begins at `position`; a broken one is `Malformed`. The code must be known."""
    reader = BodyReader(body, position)
    try:
        message = _DECODERS[code](reader)
        reader.end()
    except SqlError as error:
        return Malformed(code=chr(code), error=error)
    return message


def decode_startup(body: bytes) -> StartupMessage:
    """A start-up packet without its length. Raises FramingError for what PostgreSQL refuses."""
    code = int.from_bytes(body[:4], "big")
    if code == SSL_REQUEST:
        return SslRequest()
    if code == GSSENC_REQUEST:
        return GssEncRequest()
    if code == CANCEL_REQUEST:
        if len(body) < 12 or len(body) > 8 + 256:
            raise FramingError(None)
        return CancelRequest(backend_pid=int.from_bytes(body[4:8], "big"), secret=body[8:])
    if code >> 16 != 3:
        message = f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}: server supports 3.0 to 3.2"
        raise FramingError(FeatureNotSupported(message, fatal=True))
    return Startup(version=code, parameters=_startup_parameters(body))


def _startup_parameters(body: bytes) -> tuple[tuple[str, str], ...]:
    parts = body[4:].split(b"\0")
    # name, value, ..., then an empty name: the split ends in two empty parts.
    if len(parts) < 2 or parts[-1] or parts[-2] or len(parts) % 2:
        raise FramingError(
            ProtocolViolation("invalid startup packet layout: expected terminator as last byte", fatal=True)
        )
    pairs: list[tuple[str, str]] = []
    for index in range(0, len(parts) - 2, 2):
        try:
            pairs.append((parts[index].decode(), parts[index + 1].decode()))
        except UnicodeDecodeError as error:
            raise FramingError(
                InvalidAuthorizationSpecification("startup packet is not valid UTF-8", fatal=True)
            ) from error
    return tuple(pairs)


class Decoder:
    """Frames and decodes what a client sends."""

    def __init__(self, *, max_message_bytes: int = 256 << 20) -> None:
        self._buffer = bytearray()
        self._position = 0
        self._skip = 0
        self._skipped: FrontendMessage | None = None
        self._max_message_bytes = min(max_message_bytes, LARGE_MESSAGE_BYTES)

    @property
    def buffered(self) -> int:
        """Bytes received and not yet decoded."""
        return len(self._buffer) - self._position

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._skip:
            dropped = min(self._skip, len(data))
            self._skip -= dropped
            data = data[dropped:]
        self._buffer += data

    def next_startup(self) -> StartupMessage | None:
        """The next start-up packet, or None until it is complete."""
        if self.buffered < 4:
            return None
        length = int.from_bytes(self._buffer[self._position : self._position + 4], "big")
        if length < 8 or length > MAX_STARTUP_BYTES:
            raise FramingError(None)
        if self.buffered < length:
            return None
        body = bytes(self._buffer[self._position + 4 : self._position + length])
        self._advance(length)
        return decode_startup(body)

    def next_answer(self, expected: str, max_bytes: int) -> bytes | None:
        """The body of the next message, which must answer an authentication request, or None until it is complete.
        Raises 08P01 for one of another type, FramingError for one that is longer."""
        if not self.buffered:
            return None
        start = self._position
        code = self._buffer[start]
        if code != _ANSWER:
            raise ProtocolViolation(f"expected {expected} response, got message type {code}", fatal=True)
        if self.buffered < 5:
            return None
        length = int.from_bytes(self._buffer[start + 1 : start + 5], "big")
        if length < 4 or length - 4 > max_bytes:
            raise FramingError(None)
        if self.buffered < length + 1:
            return None
        body = bytes(self._buffer[start + 5 : start + length + 1])
        self._advance(length + 1)
        return body

    def next_message(self) -> FrontendMessage | None:
        """The next typed message, or None until it is complete."""
        if self._skipped is not None:
            if self._skip:
                return None
            message, self._skipped = self._skipped, None
            return message
        buffer, start = self._buffer, self._position
        buffered = len(buffer) - start
        if not buffered:
            return None
        code = buffer[start]
        limit = _LIMITS.get(code)
        if limit is None:
            raise FramingError(ProtocolViolation(f"invalid frontend message type {code}", fatal=True))
        if buffered < 5:
            return None
        length = int.from_bytes(buffer[start + 1 : start + 5], "big")
        if length < 4 or length > limit:
            raise FramingError(None)
        if length - 4 > self._max_message_bytes and code in _LARGE_CODES:
            return self._skip_message(code, length)
        if buffered < length + 1:
            return None
        if code == _BIND and length > LONG_VALUE_BYTES:
            # The buffer itself becomes the message: its values may be large.
            self._buffer, self._position = buffer[start + length + 1 :], 0
            del buffer[start + length + 1 :]
            return decode_message(code, buffer, start + 5)
        with memoryview(buffer) as view:
            body = bytes(view[start + 5 : start + length + 1])
        self._advance(length + 1)
        if code == _BIND and length < SMALL_BIND_BYTES and CLIENT_ENCODING.get() is None:
            bind = _small_bind(body)
            if bind is not None:
                return bind
        return decode_message(code, body)

    def _skip_message(self, code: int, length: int) -> FrontendMessage | None:
        error = ProgramLimitExceeded(
            f"message of {length - 4} bytes exceeds the limit of {self._max_message_bytes} bytes"
        )
        here = min(self.buffered, length + 1)
        self._advance(here)
        self._skip = length + 1 - here
        self._skipped = Malformed(code=chr(code), error=error)
        return self.next_message()

    @property
    def has_terminate(self) -> bool:
        """Whether the bytes received end in a Terminate message: the client has said goodbye."""
        return self._buffer.endswith(b"X\0\0\0\x04")

    def following(self, *candidates: bytes) -> bytes | None:
        """Which of these byte strings, each one or more whole messages, has arrived next; None when it is none."""
        if self._skip or self._skipped is not None:
            return None
        for candidate in candidates:
            if self._buffer.startswith(candidate, self._position):
                return candidate
        return None

    def skip(self, messages: bytes) -> None:
        """Leave out what `following` has given."""
        self._advance(len(messages))

    def _advance(self, count: int) -> None:
        self._position += count
        if self._position == len(self._buffer):
            self._buffer.clear()
            self._position = 0
        elif self._position >= _COMPACT_FROM_BYTES:
            del self._buffer[: self._position]
            self._position = 0
