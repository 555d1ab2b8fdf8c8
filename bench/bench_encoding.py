"""Result encoding: Arrow batches to DataRow messages column by column, against the same by a loop over rows.

    make bench NAME=encoding

Rows of TPC-H's shape (integers, numerics, dates, a timestamp, text, some NULLs) in text and in binary format, and COPY
data read back the same two ways. The loop is the straightforward program: a Python value, its text form, a length, a
join, for every value of every row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapter.results import ColumnDescription, CopyFormat
from bench.report import interleaved, machine, median_ms, print_json, print_table
from frontend.copy.lines import line_fields
from frontend.copy.text_input import CopyInput
from frontend.decoding.text import parse_value, values_to_array
from frontend.encoding.rows import RowEncoder, chunks
from frontend.encoding.settings import format_settings
from planner.types import types as t
from planner.types.types import NumericShape, SqlType
from planner.values.text_values import format_text

ROWS = 50_000
LOOP_ROWS = 5_000
"""The loop is measured on fewer rows: its cost is linear."""

PRICE = SqlType(t.NUMERIC, t.numeric_typmod(15, 2), NumericShape(15, 2))
COLUMNS = (
    ("orderkey", SqlType(t.INT8)),
    ("linenumber", SqlType(t.INT4)),
    ("price", PRICE),
    ("discount", SqlType(t.FLOAT8)),
    ("shipdate", SqlType(t.DATE)),
    ("changed", SqlType(t.TIMESTAMP)),
    ("comment", SqlType(t.TEXT)),
)
TYPES = [kind for _, kind in COLUMNS]


def make_batch(rows: int) -> Any:
    """Deterministic rows; every tenth comment is NULL."""
    random = np.random.default_rng(20_240_229)
    words = np.array(["carefully", "final", "deposits", "sleep", "above", "the", "ironic", "packages"])
    comments = [" ".join(words[random.integers(0, 8, 4)]) for _ in range(rows)]
    price = pc.cast(pa.array(random.integers(90_000, 10_000_000, rows)), pa.decimal128(19, 0))
    arrays = [
        pa.array(np.arange(rows, dtype=np.int64)),
        pa.array(random.integers(1, 8, rows), pa.int32()),
        pa.Array.from_buffers(pa.decimal128(15, 2), rows, price.buffers()),
        pa.array(random.integers(0, 11, rows) / 100.0),
        pa.array(random.integers(8_000, 11_000, rows).astype(np.int32)).view(pa.date32()),
        pa.array(random.integers(10**14, 10**15, rows), pa.timestamp("us")),
        pa.array([None if index % 10 == 0 else comment for index, comment in enumerate(comments)]),
    ]
    return pa.record_batch(arrays, names=[name for name, _ in COLUMNS])


def by_columns(batch: Any, code: int) -> int:
    """Bytes of DataRow messages."""
    encoder = RowEncoder(TYPES, [code] * len(TYPES), format_settings({}))
    return sum(len(encoder.data_rows(chunk)) for chunk in chunks(batch))


def _numeric_binary(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rjust(-exponent + 1, "0")
    whole, fraction = text[:exponent], text[exponent:]
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[index : index + 4]) for index in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    head = struct.pack(">hhHH", len(groups), weight if groups else 0, 0x4000 if sign else 0, -exponent)
    return head + struct.pack(f">{len(groups)}h", *groups)


_DAY_ZERO = 730_120
"""The ordinal of 2000-01-01."""


def _timestamp_binary(value: Any) -> bytes:
    seconds = (value.toordinal() - _DAY_ZERO) * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
    return struct.pack(">q", seconds * 1_000_000 + value.microsecond)


_BINARY: dict[int, Callable[[Any], bytes]] = {
    t.INT8: struct.Struct(">q").pack,
    t.INT4: struct.Struct(">i").pack,
    t.FLOAT8: struct.Struct(">d").pack,
    t.NUMERIC: _numeric_binary,
    t.DATE: lambda value: struct.pack(">i", value.toordinal() - _DAY_ZERO),
    t.TIMESTAMP: _timestamp_binary,
    t.TEXT: str.encode,
}


def _text_form(kind: SqlType) -> Callable[[Any], bytes]:
    return lambda value: format_text(value, kind).encode()


def by_rows(batch: Any, code: int) -> int:
    """The same bytes by a loop."""
    encoders = [_BINARY[kind.oid] if code else _text_form(kind) for kind in TYPES]
    total = 0
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        parts = [len(row).to_bytes(2, "big")]
        for encode, value in zip(encoders, row, strict=True):
            if value is None:
                parts.append(b"\xff\xff\xff\xff")
                continue
            data = encode(value)
            parts.append(len(data).to_bytes(4, "big"))
            parts.append(data)
        body = b"".join(parts)
        total += len(b"D" + (len(body) + 4).to_bytes(4, "big") + body)
    return total


def copy_lines(batch: Any) -> bytes:
    """The batch as COPY text."""
    lines = []
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        fields = ["\\N" if value is None else format_text(value, kind) for value, kind in zip(row, TYPES, strict=True)]
        lines.append("\t".join(fields))
    return ("\n".join(lines) + "\n").encode()


def copy_by_columns(data: bytes) -> int:
    """Rows read from COPY data."""
    described = tuple(ColumnDescription(name=name, type=kind) for name, kind in COLUMNS)
    source = CopyInput("bench", described, CopyFormat(), {})
    source.add(data)
    return sum(batch.num_rows for batch in source.take(final=True))


def copy_by_rows(data: bytes) -> int:
    """The same by a loop over lines."""
    rows = []
    for line in data.splitlines():
        fields = line_fields(line, CopyFormat(), len(TYPES))
        rows.append(
            [
                parse_value(text, kind, {}) if isinstance(text, str) else None
                for text, kind in zip(fields, TYPES, strict=True)
            ]
        )
    for kind, values in zip(TYPES, zip(*rows, strict=True), strict=True):
        values_to_array(values, kind)
    return len(rows)


def main() -> None:
    """Runs and prints the table and the closing line."""
    large, small = make_batch(ROWS), make_batch(LOOP_ROWS)
    for code in (0, 1):
        if by_columns(small, code) != by_rows(small, code):
            raise AssertionError(f"the two encodings differ in format {code}")
    large_data, small_data = copy_lines(large), copy_lines(small)
    cases: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
        "text": (lambda: by_columns(large, 0), lambda: by_rows(small, 0)),
        "binary": (lambda: by_columns(large, 1), lambda: by_rows(small, 1)),
        "copy_in": (lambda: copy_by_columns(large_data), lambda: copy_by_rows(small_data)),
    }
    runs = {
        f"{name} {kind}": pair[side] for name, pair in cases.items() for side, kind in enumerate(("columns", "loop"))
    }
    samples = interleaved(runs, rounds=7, warm_up=1)
    table = [("case", "columns, rows/s", "loop, rows/s", "ratio")]
    ratios: dict[str, float] = {}
    counts: dict[str, float] = {}
    for name in cases:
        columns = ROWS / median_ms(samples[f"{name} columns"]) * 1000
        loop = LOOP_ROWS / median_ms(samples[f"{name} loop"]) * 1000
        ratios[f"{name}_vs_loop"] = round(columns / loop, 2)
        counts[f"{name}_rows_per_s"] = round(columns)
        table.append((name, f"{columns:,.0f}", f"{loop:,.0f}", f"{columns / loop:.1f}"))
    print(machine())
    print_table(table)
    print_json("encoding", ratios, counts)


if __name__ == "__main__":
    main()
