"""Text of arrays (array_in, array_out): ``{1,2,NULL}``, ``{{"a b","c\\"d"},{e,f}}``, ``[0:1]={1,2}``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from planner.errors import ArraySubscriptError, InvalidTextRepresentation
from planner.ir.array_value import (
    MAX_DIMENSIONS,
    ArrayValue,
    array_value,
    check_size,
    lengths_of,
    lower_bounds_of,
    too_many_dimensions,
)
from planner.types.types import BOX

_SPACE = " \t\n\r\v\f"
_DIMENSION = re.compile(r"[ \t\n\r\v\f]*\[")
_NUMBER = re.compile(r"[0-9+-]+")
_C_INTEGER = re.compile(r"[+-]?[0-9]+")
_TOKEN = re.compile(r"[ \t\n\r\v\f]+|\\.|[^ \t\n\r\v\f\\]", re.DOTALL)
_QUOTED = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_PLAIN_ELEMENT = re.compile(r'[^\s{}",\\]+\Z')


def parse_array(text: str, delimiter: str, item: Callable[[str], object]) -> tuple[object, ...] | ArrayValue:
    """The array that `text` stands for; `item` reads the text of one element. Raises 22P02, 2202E, 54000, and what
    `item` raises."""
    if text.startswith("{") and text.endswith("}") and not _special(text):
        # One dimension, nothing quoted.
        parts = [part.strip(_SPACE) for part in text[1:-1].split(delimiter)]
        if all(parts):
            return tuple([None if part.lower() == "null" else item(part) for part in parts])
        if parts == [""]:
            return ()
    lengths, lower_bounds, rest = _header(text)
    found = _Reader(rest, delimiter, item)
    found.read()
    if lengths and list(lengths) != found.lengths:
        raise _malformed(text, "Specified array dimensions do not match array contents.")
    bounds = lower_bounds or [1] * len(found.lengths)
    check_size(found.lengths, bounds)
    return array_value(found.items, found.lengths, bounds)


def _special(text: str) -> bool:
    return any(char in text for char in '"\\') or "{" in text[1:] or "}" in text[:-1]


def _malformed(text: str, detail: str | None) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(f'malformed array literal: "{text}"', detail=detail)


def _c_integer(text: str) -> int:
    match = _C_INTEGER.match(text)
    return int(match[0]) if match is not None else 0


def _header(text: str) -> tuple[list[int], list[int], str]:
    """The lengths and lower bounds written before the braces, and the text from these on."""
    lengths: list[int] = []
    lower_bounds: list[int] = []
    position = 0
    while (match := _DIMENSION.match(text, position)) is not None:
        if len(lengths) == MAX_DIMENSIONS:
            raise too_many_dimensions(MAX_DIMENSIONS + 1)
        first = _NUMBER.match(text, match.end())
        if first is None:
            raise _malformed(text, '"[" must introduce explicitly-specified array dimensions.')
        lower, last = 1, first
        if text[first.end() : first.end() + 1] == ":":
            second = _NUMBER.match(text, first.end() + 1)
            if second is None:
                raise _malformed(text, "Missing array dimension value.")
            lower, last = _c_integer(first[0]), second
        if text[last.end() : last.end() + 1] != "]":
            raise _malformed(text, 'Missing "]" after array dimensions.')
        upper = _c_integer(last[0])
        if upper < lower:
            raise ArraySubscriptError("upper bound cannot be less than lower bound")
        lengths.append(upper - lower + 1)
        lower_bounds.append(lower)
        position = last.end() + 1
    rest = text[position:].lstrip(_SPACE)
    if not lengths:
        if not rest.startswith("{"):
            raise _malformed(text, 'Array value must start with "{" or dimension information.')
        return lengths, lower_bounds, rest
    if not rest.startswith("="):
        raise _malformed(text, 'Missing "=" after array dimensions.')
    rest = rest[1:].lstrip(_SPACE)
    if not rest.startswith("{"):
        raise _malformed(text, 'Array contents must start with "{".')
    return lengths, lower_bounds, rest


class _Reader:
    """Braces, delimiters, quoted and plain elements, with the states of PostgreSQL's ArrayCount."""

    def __init__(self, text: str, delimiter: str, item: Callable[[str], object]) -> None:
        self.text, self.delimiter, self.item = text, delimiter, item
        self.items: list[object] = []
        self.lengths: list[int] = []
        """The length of each dimension."""

    def malformed(self, detail: str | None) -> InvalidTextRepresentation:
        return _malformed(self.text, detail)

    def unexpected(self, char: str) -> InvalidTextRepresentation:
        return self.malformed(f'Unexpected "{char}" character.')

    def read(self) -> None:
        """Reads all of the text into `items` and `lengths`."""
        text, position, state = self.text, 0, "no level"
        counts: list[int] = []  # elements of each level that is open
        known: dict[int, int] = {}  # the length of the levels that are complete, by depth
        depth = 0
        while True:
            char = text[position : position + 1]
            if not char:
                raise self.malformed("Unexpected end of input.")
            if char in _SPACE:
                position += 1
            elif char == "{":
                if state not in ("no level", "level started", "level delimited"):
                    raise self.unexpected("{")
                if len(counts) >= MAX_DIMENSIONS:
                    raise too_many_dimensions(len(counts) + 1)
                state = "level started"
                counts.append(0)
                depth = max(depth, len(counts))
                position += 1
            elif char == "}":
                if state not in ("element", "level completed") and not (state == "level started" and len(counts) == 1):
                    raise self.unexpected("}")
                count = counts.pop()
                if known.setdefault(len(counts), count) != count:
                    raise self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.")
                state = "level completed"
                position += 1
                if not counts:
                    break
                counts[-1] += 1
            elif char == self.delimiter:
                if state not in ("element", "level completed"):
                    raise self.unexpected(char)
                state = "level delimited" if state == "level completed" else "element delimited"
                position += 1
            else:
                if state not in ("level started", "element delimited"):
                    raise self.malformed("Unexpected array element.")
                if len(counts) < depth:
                    raise self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.")
                position = self.quoted(position + 1) if char == '"' else self.plain(position)
                counts[-1] += 1
                state = "element"
        if text[position:].strip(_SPACE):
            raise self.malformed("Junk after closing right brace.")
        if self.items:
            self.lengths = [known[level] for level in range(depth)]

    def plain(self, start: int) -> int:
        """Reads an element without quotes. Returns where it ends."""
        position, stop = start, f'{{}}"{self.delimiter}'
        while True:
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.malformed("Unexpected end of input.")
            if match[0] in stop:
                break
            position = match.end()
        if match[0] == '"':
            raise self.malformed("Unexpected array element.")
        if match[0] == "{":
            raise self.unexpected("{")
        written = self.text[start:position]
        kept = written.rstrip(_SPACE)
        if kept.endswith("\\") and len(kept) < len(written):
            # A blank after a backslash is part of the element.
            kept = written[: len(kept) + 1]
        self.items.append(None if kept.lower() == "null" else self.item(_ESCAPE.sub(r"\1", kept)))
        return position

    def quoted(self, start: int) -> int:
        """Reads an element between double quotes. Returns where these end."""
        match = _QUOTED.match(self.text, start)
        assert match is not None
        if self.text[match.end() : match.end() + 1] != '"':
            raise self.malformed("Unexpected end of input.")
        self.items.append(self.item(_ESCAPE.sub(r"\1", match[0])))
        return match.end() + 1


# ---------------------------------------------------------------- output


def delimiter_of(element: int) -> str:
    """What stands between elements of the type with this oid (typdelim). Texts of boxes never need quotes."""
    return ";" if element == BOX else ","


def quote_element(text: str) -> str:
    """An element's text as array_out writes it."""
    if _PLAIN_ELEMENT.match(text) and text.lower() != "null":
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def show_array(items: Sequence[str], dims: Sequence[int] | None, between: str = ",") -> str:
    """The array of elements that are texts as array_out writes them, `between` them their type's delimiter."""
    if dims is None:
        return "{" + between.join(items) + "}"
    bounds = list(zip(lengths_of(dims), lower_bounds_of(dims), strict=True))
    header = "".join([f"[{lower}:{lower + length - 1}]" for length, lower in bounds])
    explicit = any(lower != 1 for _, lower in bounds)
    braces = in_braces(items, dims, between=between)
    return f"{header}={braces}" if explicit else braces


def in_braces(items: Sequence[str], dims: Sequence[int], start: str = "{", between: str = ",", end: str = "}") -> str:
    """Texts of elements, nested by `dims`."""
    level = list(items)
    for length in reversed(lengths_of(dims)):
        level = [start + between.join(level[at : at + length]) + end for at in range(0, len(level), length)]
    return level[0]
