"""Members of JSON objects as texts of the fields that json_populate_record and its like give them to: PostgreSQL's
jsonfuncs.c (populate_array, populate_composite)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from planner.errors import InvalidParameterValue, InvalidTextRepresentation, StringDataRightTruncation
from planner.functions.udfs.json import elements, kind
from planner.functions.udfs.table import Udf


def array_text(text: str, name: str, form: str) -> str | None:
    """The text of an array, of any dimensions, that the JSON `text`, the member `name`, stands for. `form` tells arrays
    of json, whose elements stay as they are, from those of others ("text"); behind it may stand how many characters an
    element may have, and its type's name. Raises 22P02, 22001."""
    found = kind(text)
    if found == "null":
        return None
    if found == "string":
        return str(json.loads(text))
    return _Array(name, form).text_of(text)


class _Array:
    def __init__(self, name: str, form: str) -> None:
        self._name = name
        self._form, *self._limit = form.split(" ", 2)
        self._dimensions = 0
        """How many there are: as many as arrays stand in each other where the first one that is no array comes."""
        self._lengths: dict[int, int] = {}
        """The lengths of the dimensions, by their number."""

    def text_of(self, text: str) -> str:
        written = self._dimension(text, ())
        return written if all(self._lengths.values()) else "{}"

    def _dimension(self, text: str, path: tuple[int, ...]) -> str:
        level = len(path) + 1
        if kind(text) != "array":
            raise self._unexpected(path)
        items = list(elements(text))
        if not self._dimensions and (not items or kind(items[0]) != "array"):
            self._dimensions = level
        if level == self._dimensions:
            written = [self._element(item) for item in items]
        else:
            written = [self._dimension(item, (*path, place)) for place, item in enumerate(items)]
        if self._lengths.setdefault(level, len(items)) != len(items):
            raise InvalidTextRepresentation(
                "malformed JSON array",
                detail="Multidimensional arrays must have sub-arrays with matching dimensions.",
            )
        return "{" + ",".join(written) + "}"

    def _element(self, text: str) -> str:
        found = kind(text)
        if found == "null":
            return "NULL"
        shown = str(json.loads(text)) if found == "string" and self._form == "text" else text.strip(" \t\n\r")
        if self._limit:
            text_within(shown, int(self._limit[0]), self._limit[1])
        return _quoted(shown)

    def _unexpected(self, path: tuple[int, ...]) -> InvalidTextRepresentation:
        hint = f'See the value of key "{self._name}".'
        if path:
            place = "".join(f"[{number}]" for number in path)
            hint = f'See the array element {place} of key "{self._name}".'
        return InvalidTextRepresentation("expected JSON array", hint=hint)


def _quoted(text: str) -> str:
    """An element of an array's text."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def text_within(text: str, limit: int, name: str) -> str:
    """A text for the type `name`, which has up to `limit` characters, and any number of blanks behind. Raises 22001."""
    if len(text.rstrip(" ")) > limit:
        raise StringDataRightTruncation(f"value too long for type {name}")
    return text


def row_text(text: str) -> str | None:
    """The text of a row that the JSON `text`, which is no object, stands for. Raises 22023."""
    found = kind(text)
    if found == "null":
        return None
    if found == "string":
        return str(json.loads(text))
    raise InvalidParameterValue(f"cannot call populate_composite on {'an array' if found == 'array' else 'a scalar'}")


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_json_array_text": Udf((_T, _T, _T), _T, array_text),
    "tg_json_text_within": Udf((_T, "INTEGER", _T), _T, text_within),
    "tg_json_row_text": Udf((_T,), _T, row_text),
}
