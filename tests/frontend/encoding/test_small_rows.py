"""Small results are written value by value, larger ones column by column: to the same bytes."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontend.encoding import rows
from frontend.encoding.rows import RowEncoder, work_of
from frontend.encoding.settings import FormatSettings, format_settings
from frontend.encoding.small import cell_writers
from planner.types import types
from planner.types.types import SqlType

COLUMNS: list[tuple[int, pa.DataType, st.SearchStrategy[Any]]] = [
    (types.INT2, pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (types.INT4, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (types.INT8, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (types.TEXT, pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    (types.VARCHAR, pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    (types.BOOL, pa.bool_(), st.booleans()),
    (types.FLOAT4, pa.float32(), st.floats(width=32)),
    (types.FLOAT8, pa.float64(), st.floats()),
]


def both_ways(batch: Any, columns: list[SqlType], settings: FormatSettings, code: int = 0) -> tuple[bytes, bytes]:
    formats = [0 if column.oid == types.FLOAT4 else code for column in columns]
    assert cell_writers(columns, formats, batch.schema, settings) is not None
    small = bytes(RowEncoder(columns, formats, settings).data_rows(batch))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "SMALL_CELLS", -1)
        large = bytes(RowEncoder(columns, formats, settings).data_rows(batch))
    return small, large


@given(st.data(), st.integers(0, 5), st.sampled_from(["1", "0", "-3"]), st.sampled_from([0, 1]))
def test_same_bytes(data: st.DataObject, count: int, digits: str, code: int) -> None:
    chosen = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=5))
    arrays = [
        pa.array(data.draw(st.lists(st.none() | values, min_size=count, max_size=count)), arrow)
        for _, arrow, values in chosen
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{number}" for number in range(len(arrays))])
    settings = format_settings({"extra_float_digits": digits})
    small, large = both_ways(batch, [SqlType(oid) for oid, _, _ in chosen], settings, code)
    assert small == large


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1e15, 1e-5, 123456.789, 1e308, 5e-324, 3.4028234663852886e38, math.inf, -math.inf, math.nan]
)
def test_floats_at_the_edges(value: float) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([value]), pa.array([value], pa.float32())], names=["a", "b"])
    small, large = both_ways(batch, [SqlType(types.FLOAT8), SqlType(types.FLOAT4)], format_settings({}))
    assert small == large


def test_other_types_go_by_column() -> None:
    for code in (0, 1):
        schema = pa.schema([("a", pa.date32())])
        assert cell_writers([SqlType(types.DATE)], [code], schema, format_settings({})) is None
    assert cell_writers([], [], pa.schema([]), format_settings({})) is None


def test_a_row_of_a_long_batch_is_as_little_work_as_one_alone() -> None:
    long = pa.record_batch({"a": pa.array(range(100_000))})
    assert work_of(long.slice(500, 1), 1) == 1
