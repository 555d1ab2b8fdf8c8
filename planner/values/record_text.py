"""Rows as text: what record_in reads and record_out writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from planner.errors import InvalidTextRepresentation

_SPACE = " \t\n\r\v\f"
_QUOTED = re.compile(r'[\s(),"\\]')


def record_items(text: str, count: int) -> Iterator[str | None]:
    """The texts of the `count` fields of a row, None for NULL. Raises 22P02, where it comes to the fault."""
    position = len(text) - len(text.lstrip(_SPACE))
    if text[position : position + 1] != "(":
        raise _malformed(text, "Missing left parenthesis.")
    position += 1
    for number in range(count):
        if number:
            if text[position : position + 1] != ",":
                raise _malformed(text, "Too few columns.")
            position += 1
        item, position = _item(text, position)
        yield item
    if text[position : position + 1] != ")":
        raise _malformed(text, "Too many columns.")
    if text[position + 1 :].strip(_SPACE):
        raise _malformed(text, "Junk after right parenthesis.")


def with_fields(text: str, count: int) -> str:
    """The text of a row with NULL for the last of `count` fields where it has fewer. Raises 22P02 for other faults."""
    for number in range(count, -1, -1):
        try:
            items = list(record_items(text, number))
        except InvalidTextRepresentation:
            if number:
                continue
            raise
        return record_text([*items, *[None] * (count - number)]) if number < count else text
    raise AssertionError("a row has some number of fields")


def _item(text: str, position: int) -> tuple[str | None, int]:
    if text[position : position + 1] in (",", ")"):
        return None, position
    pieces: list[str] = []
    quoted = False
    while True:
        if position >= len(text):
            raise _malformed(text, "Unexpected end of input.")
        character = text[position]
        if not quoted and character in ",)":
            return "".join(pieces), position
        position += 1
        if character == "\\":
            if position >= len(text):
                raise _malformed(text, "Unexpected end of input.")
            pieces.append(text[position])
            position += 1
        elif character == '"':
            if quoted and text[position : position + 1] == '"':
                pieces.append('"')
                position += 1
            else:
                quoted = not quoted
        else:
            pieces.append(character)


def _malformed(text: str, detail: str) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(f'malformed record literal: "{text}"', detail=detail)


def record_text(items: Sequence[str | None]) -> str:
    """A row of fields with these texts, None for NULL."""
    return f"({','.join('' if item is None else _shown(item) for item in items)})"


def _shown(item: str) -> str:
    if item and not _QUOTED.search(item):
        return item
    doubled = item.replace("\\", "\\\\").replace('"', '""')
    return f'"{doubled}"'
