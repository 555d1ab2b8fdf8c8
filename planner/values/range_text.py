"""Text of ranges and multiranges, in and out: ``[1,5)``, ``{[1,5),(7,)}``, ``empty``.

What is between brackets and commas is text of the subtype, whose input and output functions callers bring.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from planner.errors import InvalidTextRepresentation
from planner.types.ranges import RangeType
from planner.types.types import SqlType
from planner.values import range_bounds as rb
from planner.values.range_bounds import Bounds
from planner.values.range_codecs import Codec, codec_of, literal_value, plain_value
from planner.values.range_sets import normalized

_SPACE = " \t\n\r\v\f"
_EMPTY = "empty"

Read = Callable[[str], Any]
"""Text to a value as codecs take it."""
Show = Callable[[Any], str]


Input = Callable[[str, SqlType], object]
"""Text of a subtype to a value as in `planner.ir.nodes.Literal`."""
Output = Callable[[object, SqlType], str]


def parse_ranges(text: str, range_type: RangeType, read: Input, *, several: bool) -> bytes:
    """The bytes of the range or (`several`) multirange that `text` stands for. Raises 22P02, what the subtype raises,
    22000 for bounds in the wrong order."""
    subtype = SqlType(range_type.subtype)

    def value(part: str) -> Any:
        return plain_value(read(part, subtype), subtype.oid)

    if several:
        return _parse_multirange(text, range_type, value)
    return rb.encode_range(_parse(text, range_type, value))


def show_ranges(data: bytes, range_type: RangeType, write: Output, *, several: bool) -> str:
    """The text of a range or (`several`) multirange."""
    codec, subtype = codec_of(range_type), SqlType(range_type.subtype)

    def show(value: Any) -> str:
        return write(literal_value(value, subtype.oid), subtype)

    shown = [_shown(codec, bounds, show) for bounds in rb.decode(codec, data)]
    if several:
        return "{" + ",".join(shown) + "}"
    return shown[0] if shown else _EMPTY


_PART = r'(?:"([^\[\](){}",\\]+)"|([^\[\](){}",\\]*))'
_PLAIN = re.compile(rf"([\[(]){_PART},{_PART}([\])])\Z")
"""A range as it is usually written."""


def _malformed(text: str, detail: str) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(f'malformed range literal: "{text}"', detail=detail)


def _parse(text: str, range_type: RangeType, read: Read) -> Bounds | None:
    plain = _PLAIN.match(text)
    if plain is not None:
        opening, quoted_lower, lower, quoted_upper, upper, closing = plain.groups()
        lower, upper = quoted_lower or lower, quoted_upper or upper
        return rb.bounds_of(
            range_type,
            read(lower) if lower else None,
            read(upper) if upper else None,
            lower_inc=opening == "[",
            upper_inc=closing == "]",
        )
    body = text.strip(_SPACE)
    if body[: len(_EMPTY)].lower() == _EMPTY:
        if len(body) > len(_EMPTY) and body[len(_EMPTY) :].strip(_SPACE):
            raise _malformed(text, 'Junk after "empty" key word.')
        return None
    if body[:1] not in ("[", "("):
        raise _malformed(text, "Missing left parenthesis or bracket.")
    lower, at = _bound(text, body, 1)
    if body[at] != ",":
        raise _malformed(text, "Missing comma after lower bound.")
    upper, at = _bound(text, body, at + 1)
    if body[at] == ",":
        raise _malformed(text, "Too many commas.")
    if at + 1 < len(body):
        raise _malformed(text, "Junk after right parenthesis or bracket.")
    return rb.bounds_of(
        range_type,
        None if lower is None else read(lower),
        None if upper is None else read(upper),
        lower_inc=body[0] == "[",
        upper_inc=body[at] == "]",
    )


def _bound(text: str, body: str, at: int) -> tuple[str | None, int]:
    """A bound's text, without quotes and backslashes, and where what ends it stands; None for no bound."""
    start, quoted = at, False
    pieces: list[str] = []
    while True:
        char = body[at : at + 1]
        if char and not quoted and char in ",)]":
            return None if at == start else "".join(pieces), at
        at += 1
        if char == "\\":
            char = body[at : at + 1]
            pieces.append(char)
            at += 1
        elif char == '"':
            if quoted and body[at : at + 1] == '"':
                pieces.append(char)
                at += 1
            else:
                quoted = not quoted
        else:
            pieces.append(char)
        if not char:
            raise _malformed(text, "Unexpected end of input.")


_RANGE = re.compile(r'[\[(](?:[^\])"\\]|\\.|"(?:[^"\\]|\\.|"")*")*[\])]', re.DOTALL)


def _parse_multirange(text: str, range_type: RangeType, read: Read) -> bytes:

    def malformed(detail: str) -> InvalidTextRepresentation:
        return InvalidTextRepresentation(f'malformed multirange literal: "{text}"', detail=detail)

    def after_blanks(at: int) -> int:
        while text[at : at + 1] and text[at] in _SPACE:
            at += 1
        return at

    found: list[Bounds] = []
    at = after_blanks(0)
    if text[at : at + 1] != "{":
        raise malformed("Missing left brace.")
    at = after_blanks(at + 1)
    seen = 0
    while text[at : at + 1] != "}" or seen:
        seen += 1
        if text[at : at + 1] in ("[", "("):
            match = _RANGE.match(text, at)
            if match is None:
                raise malformed("Unexpected end of input.")
            made = _parse(match[0], range_type, read)
            found += [] if made is None else [made]
            at = match.end()
        elif text[at : at + len(_EMPTY)].lower() == _EMPTY:
            at += len(_EMPTY)
        else:
            raise malformed("Expected range start." if text[at:] else "Unexpected end of input.")
        at = after_blanks(at)
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise malformed("Expected comma or end of multirange." if text[at:] else "Unexpected end of input.")
        at = after_blanks(at + 1)
    if text[at + 1 :].strip(_SPACE):
        raise malformed("Junk after closing right brace.")
    return rb.encode_multirange(normalized(codec_of(range_type), found))


_SPECIAL = re.compile(r'[\s"\\()\[\],]', re.ASCII)


def _shown(codec: Codec, bounds: Bounds, show: Show) -> str:
    lower, upper = bounds
    left = "[" if rb.is_inclusive(codec, lower) else "("
    right = "]" if rb.is_inclusive(codec, upper) else ")"
    return f"{left}{_value(codec, lower, show)},{_value(codec, upper, show)}{right}"


def _value(codec: Codec, bound: bytes, show: Show) -> str:
    if bound[0] != 1:
        return ""
    text = show(rb.value_of(codec, bound))
    if not text or _SPECIAL.search(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    return text
