"""What the names of folders say, as values of declared types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from storage.lake.folder_values import is_value, type_of, value_of


@pytest.mark.parametrize(
    ("text", "type", "value"),
    [
        ("12", pa.int16(), 12),
        ("-007", pa.int64(), -7),
        ("2026-02-28", pa.date32(), date(2026, 2, 28)),
        ("", pa.string(), ""),
        ("true", pa.bool_(), True),
        ("FALSE", pa.bool_(), False),
        ("-1.50", pa.decimal128(5, 2), Decimal("-1.50")),
        ("0100", pa.decimal128(5, 2), Decimal(100)),
        ("-1.5e3", pa.float64(), -1500.0),
        ("-Infinity", pa.float32(), float("-inf")),
        ("inf", pa.float64(), float("inf")),
        ("2026-01-01 12:30:00", pa.timestamp("us"), datetime(2026, 1, 1, 12, 30)),  # noqa: DTZ001
        ("2026-01-01 12:30:00.25+02", pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 10, 30, 0, 250000, UTC)),
        ("2026-01-01T12:30:00Z", pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 12, 30, tzinfo=UTC)),
    ],
)
def test_values(text: str, type: pa.DataType, value: Any) -> None:
    assert is_value(text, type)
    assert value_of(text, type) == value
    assert pa.scalar(value_of(text, type), type).as_py() == value
    assert value_of(None, type) is None


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("32768", pa.int16()),
        ("1.0", pa.int64()),
        ("", pa.int64()),
        ("2026-02-29", pa.date32()),
        ("1", pa.bool_()),
        ("", pa.bool_()),
        ("1.234", pa.decimal128(5, 2)),
        ("1234", pa.decimal128(5, 2)),
        ("NaN", pa.decimal128(5, 2)),
        ("x", pa.float64()),
        ("2026-01-01 12:30:00", pa.timestamp("us", "UTC")),
        ("2026-01-01 12:30:00Z", pa.timestamp("us")),
        ("2026-01-01 25:30:00", pa.timestamp("us")),
        ("2026-01-01", pa.timestamp("us")),
        ("x", pa.binary()),
    ],
)
def test_what_is_no_value(text: str, type: pa.DataType) -> None:
    assert not is_value(text, type)


@pytest.mark.parametrize(
    ("texts", "type"),
    [
        ({"1", "-2"}, pa.int32()),
        ({"1", "3000000000"}, pa.int64()),
        ({"1", "01"}, pa.string()),
        ({"2026-01-01"}, pa.date32()),
        ({"2026-01-01", "2026-02-30"}, pa.string()),
        ({"true"}, pa.string()),
        (set(), pa.string()),
    ],
)
def test_types_that_nobody_has_declared(texts: set[str], type: pa.DataType) -> None:
    assert type_of(texts) == type
