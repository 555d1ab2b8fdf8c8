"""A value of any length is looked at a few times, however small the pieces are that it comes in."""

from __future__ import annotations

import pytest

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy import binary_input
from frontend.copy.binary_input import CopyBinaryInput
from frontend.copy.text_input import CopyInput
from planner.types import types as t
from planner.types.types import SqlType

BLOCK = 1000
PIECES = 1024
COLUMNS = (ColumnDescription(name="a", type=SqlType(t.TEXT)),)
BINARY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)


@pytest.mark.parametrize("format", ["text", "csv", "csv in quotes", "binary"])
def test_a_long_value(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_input, "_BLOCK_BYTES", BLOCK)
    value = b"x" * BLOCK * PIECES
    source: CopyInput | CopyBinaryInput
    if format == "binary":
        source = CopyBinaryInput("t", COLUMNS)
        data = BINARY_HEAD + b"\0\1" + len(value).to_bytes(4, "big") + value + b"\xff\xff"
    else:
        data = b'"' + value + b'"\n' if format == "csv in quotes" else value + b"\n"
        options = CopyFormat() if format == "text" else CopyFormat(format="csv", delimiter=",", null="")
        source = CopyInput("t", COLUMNS, options, {}, block_bytes=BLOCK)
    looks, batches = 0, []
    for start in range(0, len(data), BLOCK):
        source.add(data[start : start + BLOCK])
        if source.block_ready:
            looks += 1
            batches += source.take()
    batches += source.take(final=True)
    assert [batch.column(0).to_pylist() for batch in batches if batch.num_rows] == [[value.decode()]]
    assert looks <= 12
