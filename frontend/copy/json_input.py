"""COPY FROM in JSON format: one object a line, its values by the names of columns.

Each line becomes a line of text format, so that values are read by the same rules, and errors say in which line and
column they are. Numbers keep all their digits. A key that is absent is NULL; one that is no column is an error unless
COPY has named the columns it takes. Arrays become PostgreSQL's; objects, and what goes to json and jsonb, stay JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from json import JSONDecodeError
from typing import Any

from adapter.results import ColumnDescription, CopyFormat, SkippedRow
from frontend.copy.places import RowPlaces
from frontend.copy.text_input import BLOCK_BYTES, CopyInput
from frontend.encoding.rows import RecordBatch
from planner.errors import BadCopyFileFormat, ProgramLimitExceeded
from planner.types import types as t
from planner.values.text_values import Names

MAX_LINE_BYTES = 256 << 20
"""An object is held in memory several times while it is read."""

_JSON = frozenset({t.JSON, t.JSONB})
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_constant)


class CopyJsonInput:
    """Decodes one COPY in JSON format, as `CopyInput` does one in text format."""

    def __init__(
        self,
        relation: str,
        columns: tuple[ColumnDescription, ...],
        format: CopyFormat,
        settings: Mapping[str, str],
        *,
        names: Names | None = None,
    ) -> None:
        self._relation = relation
        self._lines = CopyInput(relation, columns, CopyFormat(), settings, names=names)
        self._json = [column.type.oid in _JSON for column in columns]
        self._places = {column.name: index for index, column in enumerate(columns)}
        self._named = format.columns_named
        self._pending = bytearray()
        self._line_number = 0

    @property
    def where(self) -> str:
        """The context of an error that concerns no particular line's content."""
        return f"COPY {self._relation}, line {self._line_number + 1}"

    @property
    def places(self) -> RowPlaces:
        """Where rows came from."""
        return self._lines.places

    @property
    def pending_cells(self) -> int:
        """Roughly how much work the next block is, in cells."""
        return len(self._pending) // 8

    @property
    def block_ready(self) -> bool:
        """Whether enough data has gathered to be worth decoding."""
        return len(self._pending) >= BLOCK_BYTES

    def add(self, data: bytes) -> None:
        """Takes received bytes. Raises 54000 for a line that is too long."""
        self._pending += data
        if len(self._pending) > MAX_LINE_BYTES and b"\n" not in self._pending:
            raise ProgramLimitExceeded("out of memory", detail="A line of JSON is too long.", where=self.where)

    def take_skipped(self) -> list[SkippedRow]:
        """None: such data is taken whole."""
        return []

    def take(self, *, final: bool = False) -> list[RecordBatch]:
        """The batches in what has been added. With `final` the last line needs no line end."""
        end = len(self._pending) if final else self._pending.rfind(b"\n") + 1
        data = bytes(self._pending[:end])
        del self._pending[:end]
        lines = data.split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        for line in lines:
            self._line_number += 1
            if not line.strip():
                raise self._malformed(line, "an empty line")
            self._lines.add(self._text_line(line))
        return self._lines.take(final=final)

    def _text_line(self, line: bytes) -> bytes:
        try:
            found = _DECODER.decode(line.decode().strip())
        except (JSONDecodeError, UnicodeDecodeError, ValueError) as error:
            raise self._malformed(line, str(error)) from None
        except RecursionError:
            raise self._malformed(line, "it nests too deep") from None
        if not isinstance(found, dict):
            raise self._malformed(line, "a line is a JSON object")
        fields = ["\\N"] * len(self._json)
        for key, value in found.items():
            place = self._places.get(key)
            if place is None:
                if self._named:
                    continue
                raise self._malformed(line, f'table "{self._relation}" takes no column "{key}"')
            if value is not None:
                fields[place] = _text(value, is_json=self._json[place]).translate(_ESCAPES)
        try:
            return "\t".join(fields).encode() + b"\n"
        except UnicodeEncodeError:
            raise self._malformed(line, "it has half of a surrogate pair") from None

    def _malformed(self, line: bytes, why: str) -> BadCopyFileFormat:
        shown = line[:100].decode(errors="replace")
        where = f'COPY {self._relation}, line {self._line_number}: "{shown}"'
        return BadCopyFileFormat("invalid line of JSON", detail=f"{why[:1].upper()}{why[1:]}.", where=where)


def _text(value: Any, *, is_json: bool) -> str:
    """A value as the text that a column's type reads."""
    if is_json or isinstance(value, dict):
        return _json_text(value)
    if isinstance(value, list):
        return "{" + ",".join(_element(item) for item in value) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return _text(value, is_json=False)
    text = _text(value, is_json=False)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json_text(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_json_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json_text, value)) + "]"
    return json.dumps(value)
