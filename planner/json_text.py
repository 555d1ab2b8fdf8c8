"""JSON text: validation of json, normalisation of jsonb (PostgreSQL, "JSON Types")."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from planner.errors import InvalidTextRepresentation, UntranslatableCharacter

_TOKEN = re.compile(r"[^\s\[\]{},:\"]+|.", re.DOTALL)


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
        return _DECODER.decode(text)
    except RecursionError:
        from planner.errors import StatementTooComplex

        raise StatementTooComplex("stack depth limit exceeded") from None
    except ValueError as error:
        position = getattr(error, "pos", 0)
        raise _invalid(text, position) from None


def _invalid(text: str, position: int) -> InvalidTextRepresentation:
    rest = text[position:].lstrip()
    if not rest:
        detail = "The input string ended unexpectedly."
    else:
        match = _TOKEN.match(rest)
        token = match.group(0) if match else rest[:1]
        detail = f'Token "{token}" is invalid.'
    line = text.count("\n", 0, position) + 1
    shown = text[: min(len(text), position + len(rest[:1]) + 20)].split("\n")[-1]
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
