"""The text of clients: in their `client_encoding`, everything else in UTF-8.

Each connection's task has its client's encoding in `CLIENT_ENCODING`; so has what the task hands to threads.
"""

from __future__ import annotations

from contextvars import ContextVar

from planner.catalog_data.encodings import SQL_ASCII, UTF8, encoded
from planner.errors import UntranslatableCharacter

CLIENT_ENCODING: ContextVar[str | None] = ContextVar("client_encoding", default=None)
"""The encoding's canonical name; None for UTF-8."""


def converted_encoding(name: str) -> str | None:
    """What `CLIENT_ENCODING` is for a value of the setting `client_encoding`."""
    return None if name in (UTF8, SQL_ASCII) else name


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
