"""The lines of pg_hba.conf and pg_ident.conf as fields of tokens (PostgreSQL 15, "The pg_hba.conf File"; hba.c).

Blanks end a field, commas stand between the tokens of one; quotes take a keyword's meaning away and keep blanks; what
follows # is a comment; a backslash at the end continues a line; an unquoted @file stands for the tokens of that file.
Files are read through a function, so that this is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

MAX_INCLUSIONS = 10
"""How deep files may include each other."""

ReadFile = Callable[[Path], str]
"""Gives a file's text. Raises OSError, UnicodeDecodeError."""


class Token(Struct, frozen=True):
    """A word of a field. A quoted one is no keyword."""

    text: str
    quoted: bool = False

    def is_keyword(self, word: str) -> bool:
        return self.text == word and not self.quoted


Field = tuple[Token, ...]


class Line(Struct, frozen=True, kw_only=True):
    """A line that says something; `error` when it cannot be read."""

    number: int
    fields: tuple[Field, ...] = ()
    error: str | None = None


class _Broken(Exception):
    """A line cannot be read."""


def lines(path: Path, text: str, read_file: ReadFile) -> list[Line]:
    """The lines of the file at `path`, which has this text."""
    found = []
    for number, line in _joined(text):
        try:
            fields = tuple(_fields(line, path, read_file, 0))
        except _Broken as error:
            found.append(Line(number=number, error=str(error)))
            continue
        if fields:
            found.append(Line(number=number, fields=fields))
    return found


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with those that they continue, and the number of the first of them."""
    start, gathered = 1, ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if line.endswith("\\"):
            gathered += line[:-1]
            continue
        yield start, gathered + line
        start, gathered = number + 1, ""
    if gathered:
        yield start, gathered


def _fields(line: str, path: Path, read_file: ReadFile, depth: int) -> Iterator[Field]:
    position = 0
    while position < len(line):
        tokens: list[Token] = []
        goes_on = True
        while goes_on:
            token, position, goes_on = _next_token(line, position)
            if token is None:
                break
            if token.text.startswith("@") and len(token.text) > 1 and not token.quoted:
                tokens += _included(token.text[1:], path, read_file, depth + 1)
            else:
                tokens.append(token)
        else:
            yield tuple(tokens)
            continue
        if tokens:
            yield tuple(tokens)
        return


def _next_token(line: str, position: int) -> tuple[Token | None, int, bool]:
    """The token at or after `position`, None at the end; where it ends, and whether the field goes on after it."""
    end = len(line)
    while position < end and line[position] in " \t\r,":
        position += 1
    text: list[str] = []
    in_quotes = starts_quoted = was_quote = False
    first = position
    while position < end:
        char = line[position]
        if char in " \t\r" and not in_quotes:
            break
        if char == "#" and not in_quotes:
            position = end
            break
        if char == "," and not in_quotes:
            return Token("".join(text), starts_quoted), position + 1, True
        if char != '"' or was_quote:
            text.append(char)
        if in_quotes and char == '"':
            was_quote = not was_quote
        else:
            was_quote = False
        if char == '"':
            in_quotes = not in_quotes
            starts_quoted = starts_quoted or position == first
        position += 1
    if not text and not starts_quoted:
        return None, position, False
    return Token("".join(text), starts_quoted), position, False


def _included(name: str, path: Path, read_file: ReadFile, depth: int) -> list[Token]:
    included = path.parent / name
    if depth > MAX_INCLUSIONS:
        raise _Broken(f'could not open file "{included}": maximum nesting depth exceeded')
    try:
        text = read_file(included)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise _Broken(f'could not open secondary authentication file "@{name}" as "{included}": {reason}') from error
    return [
        token for _, line in _joined(text) for tokens in _fields(line, included, read_file, depth) for token in tokens
    ]
