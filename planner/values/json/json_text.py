"""JSON text: validation of json, normalisation of jsonb (PostgreSQL, "JSON Types")."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from planner.common_errors import too_deep
from planner.errors import InvalidTextRepresentation, UntranslatableCharacter


class _Number(str):
    """A JSON number in its own spelling."""

    __slots__ = ()


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(
    parse_float=_Number, parse_int=_Number, parse_constant=_no_constant, object_pairs_hook=lambda pairs: _Object(pairs)
)


class _Object(list[tuple[str, Any]]):
    """A JSON object's members in order."""


def check_json(text: str) -> str:
    """`text` unchanged, if it is JSON. Raises 22P02."""
    _decode(text)
    return text


def normalize_jsonb(text: str) -> str:
    """The text that jsonb prints: one value per key (the last), keys by length and bytes, one blank after , and :.

    Raises 22P02, and 22P05 for \\u0000.
    """
    return _print(_decode(text))


def _decode(text: str) -> Any:
    try:
        value = _DECODER.decode(text)
        if "\\ud" in text or "\\uD" in text:
            _check_surrogates(value)
        return value
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        position = getattr(error, "pos", 0)
        raise _invalid(text, position) from None


def _check_surrogates(value: Any) -> None:
    """Raises 22P02 for half of a surrogate pair, which is no character."""
    if isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidTextRepresentation(
            "invalid input syntax for type json", detail="Unicode low surrogate must follow a high surrogate."
        )
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_surrogates(item)


_LEXEME = re.compile(r"[ \t\n\r]*(?:(?P<mark>[{}\[\],:])|(?P<quote>\")|(?P<word>[^\s{}\[\],:\"\x00-\x20!-/;-@\\^`|~']+|"
                     r"-?[0-9][^\s{}\[\],:\"]*)|(?P<other>.))?", re.DOTALL)  # fmt: skip
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\Z")
_BAD_ESCAPE = re.compile(r"\\(?:[^\"\\/bfnrtu]|u(?![0-9a-fA-F]{4}))", re.DOTALL)


class _Stop(Exception):
    """Where and why a text is no JSON."""

    def __init__(self, detail: str, position: int) -> None:
        self.detail, self.position = detail, position


class _Diagnosis:
    """Reads what the decoder refused, to say what PostgreSQL says about it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.token = ""
        self.advance()

    def advance(self) -> None:
        """The next token: a mark, a whole string, a number or word; '' at the end."""
        match = _LEXEME.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        kind = match.lastgroup
        if kind is None:
            self.token = ""
        elif kind == "quote":
            self.token = self.string()
        else:
            self.token = match.group(kind)
            number = self.token[0].isdigit() or self.token[0] == "-"
            if (number and not _NUMBER.match(self.token)) or (
                not number and kind != "mark" and self.token not in ("true", "false", "null")
            ):
                raise _Stop(f'Token "{self.token}" is invalid.', self.position)

    def string(self) -> str:
        """The rest of a string whose opening quote was read."""
        start = self.position - 1
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == '"':
                self.position += 1
                return self.text[start : self.position]
            if char < " ":
                raise _Stop(f"Character with value 0x{ord(char):02x} must be escaped.", self.position)
            if char == "\\":
                bad = _BAD_ESCAPE.match(self.text, self.position)
                if bad is not None and bad.group(0)[1] != "u":
                    raise _Stop(f'Escape sequence "{bad.group(0)}" is invalid.', self.position)
                if bad is not None:
                    raise _Stop('"\\u" must be followed by four hexadecimal digits.', self.position)
                self.position += 1
            self.position += 1
        raise _Stop(f'Token "{self.text[start:]}" is invalid.', self.position)

    def expected(self, what: str) -> _Stop:
        """The complaint that something else came."""
        if not self.token:
            return _Stop("The input string ended unexpectedly.", self.position)
        return _Stop(f'Expected {what}, but found "{self.token}".', self.position)

    def value(self) -> None:
        """Reads one value."""
        if self.token == "{":
            self.advance()
            self.members()
        elif self.token == "[":
            self.advance()
            self.items()
        elif self.token in ("", "}", "]", ",", ":"):
            raise self.expected("JSON value")
        self.advance()

    def members(self) -> None:
        """Reads an object's members up to its closing brace."""
        if self.token == "}":
            return
        first = True
        while True:
            if not self.token.startswith('"'):
                raise self.expected('string or "}"' if first else "string")
            first = False
            self.advance()
            if self.token != ":":
                raise self.expected('":"')
            self.advance()
            self.value()
            if self.token == "}":
                return
            if self.token != ",":
                raise self.expected('"," or "}"')
            self.advance()

    def items(self) -> None:
        """Reads an array's items up to its closing bracket."""
        if self.token == "]":
            return
        while True:
            self.value()
            if self.token == "]":
                return
            if self.token != ",":
                raise self.expected('"," or "]"')
            self.advance()


def _invalid(text: str, position: int) -> InvalidTextRepresentation:
    detail = "The input string ended unexpectedly."
    try:
        diagnosis = _Diagnosis(text)
        diagnosis.value()
        if diagnosis.token:
            raise diagnosis.expected("end of input")
    except _Stop as stop:
        detail, position = stop.detail, stop.position
    line = text.count("\n", 0, position) + 1
    shown = text[:position].split("\n")[-1] + ("..." if position < len(text) else "")
    return InvalidTextRepresentation(
        "invalid input syntax for type json", detail=detail, where=f"JSON data, line {line}: {shown}"
    )


def _print(value: Any) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, _Number):
        return _number(value)
    if isinstance(value, str):
        return quote_json(value)
    if isinstance(value, _Object):
        members = dict(value)
        keys = sorted(members, key=lambda key: (len(key.encode()), key.encode()))
        return "{" + ", ".join(f"{quote_json(key)}: {_print(members[key])}" for key in keys) + "}"
    return "[" + ", ".join(_print(item) for item in value) + "]"


def _number(text: str) -> str:
    if "e" not in text and "E" not in text:
        return "0" + text[2:] if text.startswith("-0") and not text.strip("-0.") else str(text)
    return format(Decimal(text), "f")


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NEEDS_ESCAPE = re.compile(r'["\\\x00-\x1f]')


def quote_json(text: str) -> str:
    """`text` as a JSON string, escaped as PostgreSQL does. Raises 22P05 for a NUL."""
    if "\x00" in text:
        raise UntranslatableCharacter(
            "unsupported Unicode escape sequence", detail="\\u0000 cannot be converted to text."
        )
    return '"' + _NEEDS_ESCAPE.sub(lambda m: _ESCAPES.get(m.group(0), f"\\u{ord(m.group(0)):04x}"), text) + '"'
