"""The text of clients: in their `client_encoding`, everything else in UTF-8.

Each connection's task has its client's encoding in `CLIENT_ENCODING`; so has what the task hands to threads.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar

from planner.errors import CharacterNotInRepertoire, UntranslatableCharacter
from planner.values.encodings import SQL_ASCII, UTF8, decoded, encoded

CLIENT_ENCODING: ContextVar[str | None] = ContextVar("client_encoding", default=None)
"""The encoding's canonical name; None for UTF-8."""


def converted_encoding(name: str) -> str | None:
    """What `CLIENT_ENCODING` is for a value of the setting `client_encoding`."""
    return None if name in (UTF8, SQL_ASCII) else name


def invalid_utf8(data: bytes, start: int) -> CharacterNotInRepertoire:
    """PostgreSQL's error for the invalid UTF-8 sequence at `start`, showing the bytes that the first one announces."""
    first = data[start]
    length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4 if first < 0xF8 else 1
    shown = " ".join(f"0x{byte:02x}" for byte in data[start : start + length])
    return CharacterNotInRepertoire(f'invalid byte sequence for encoding "UTF8": {shown}')


def decode_utf8(data: bytes | memoryview) -> str:
    """Text in UTF-8; raises 22021 as PostgreSQL does, also for a NUL byte."""
    if isinstance(data, memoryview):
        with suppress(UnicodeDecodeError):
            text = str(data, "utf-8")
            if "\0" not in text:
                return text
        data = bytes(data)
    zero = data.find(0)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise invalid_utf8(data, error.start if zero < 0 else min(zero, error.start)) from None
    if zero >= 0:
        raise invalid_utf8(data, zero)
    return text


def decode_text(data: bytes | memoryview) -> str:
    """Client text. Raises 22021, 22P05."""
    encoding = CLIENT_ENCODING.get()
    return decode_utf8(data) if encoding is None else decoded(bytes(data), encoding)


def encode_text(text: str) -> bytes:
    """Text for the client. What its encoding has not is shown as question marks: nothing of a message is lost by one
    character."""
    encoding = CLIENT_ENCODING.get()
    if encoding is None or text.isascii():
        return text.encode("utf-8", "surrogatepass")
    try:
        return encoded(text, encoding)
    except UntranslatableCharacter:
        return b"".join([_or_question_mark(character, encoding) for character in text])


def _or_question_mark(character: str, encoding: str) -> bytes:
    try:
        return encoded(character, encoding)
    except UntranslatableCharacter:
        return b"?"
