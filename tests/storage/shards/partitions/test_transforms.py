"""The transforms give what the library of Iceberg gives, and what the specification's appendix says of hashes."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg import transforms as iceberg
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from storage.shards.partitions.murmur import hashes_of_rows
from storage.shards.partitions.transforms import (
    PartitionField,
    PartitionValue,
    common_values,
    is_supported,
    key_of,
    keys_of,
)

CHANCE = random.Random(14)
EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - timestamps without a zone are naive


def moments(count: int) -> list[datetime.datetime]:
    return [EPOCH + datetime.timedelta(microseconds=CHANCE.randrange(-(6 * 10**16), 10**17)) for _ in range(count)]


def decimals(digits: int, scale: int, count: int) -> list[Decimal]:
    return [Decimal(f"{CHANCE.randrange(-(10**digits) + 1, 10**digits)}E-{scale}") for _ in range(count)]


TEXTS = ["", "iceberg", "größe", "🐘🐘x", *["".join(CHANCE.choices("aäβ☃🐘", k=length)) for length in range(60)]]

VALUES: list[tuple[pa.DataType, IcebergType, list[Any]]] = [
    (pa.int32(), IntegerType(), [0, 1, -1, 34, 2**31 - 1, *[CHANCE.randrange(-(2**31), 2**31) for _ in range(200)]]),
    (pa.int64(), LongType(), [0, 34, -7, *[CHANCE.randrange(-(2**62), 2**62) for _ in range(200)]]),
    (pa.string(), StringType(), TEXTS),
    (pa.binary(), BinaryType(), [b"", b"\x00\x01\x02\x03", *[CHANCE.randbytes(k) for k in range(60)]]),
    (pa.date32(), DateType(), [moment.date() for moment in moments(200)]),
    (pa.timestamp("us"), TimestampType(), [EPOCH, *moments(200)]),
    (pa.timestamp("us", tz="UTC"), TimestamptzType(), [m.replace(tzinfo=datetime.UTC) for m in moments(200)]),
    (pa.time64("us"), TimeType(), [datetime.time(22, 31, 8), datetime.time(0), datetime.time(23, 59, 59, 999_999)]),
    (pa.decimal128(9, 2), DecimalType(9, 2), [Decimal("14.20"), Decimal("0.00"), *decimals(9, 2, 200)]),
    (pa.decimal128(18, 4), DecimalType(18, 4), decimals(18, 4, 200)),
    (pa.decimal128(38, 10), DecimalType(38, 10), decimals(38, 10, 100)),
]  # fmt: skip

TRANSFORMS: list[tuple[str, int, iceberg.Transform[Any, Any]]] = [
    ("identity", 0, iceberg.IdentityTransform()),
    ("year", 0, iceberg.YearTransform()),
    ("month", 0, iceberg.MonthTransform()),
    ("day", 0, iceberg.DayTransform()),
    ("hour", 0, iceberg.HourTransform()),
    ("truncate", 10, iceberg.TruncateTransform(10)),
    ("truncate", 3, iceberg.TruncateTransform(3)),
    ("bucket", 16, iceberg.BucketTransform(16)),
    ("bucket", 1000, iceberg.BucketTransform(1000)),
]

MICROSECONDS = (pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.time64("us"))


def as_iceberg(value: Any, type: pa.DataType) -> Any:
    """A value as the library's transforms take it."""
    if type in MICROSECONDS or pa.types.is_date(type):
        return pa.scalar(value, type).value
    return value


@pytest.mark.parametrize(("name", "width", "theirs"), TRANSFORMS, ids=[f"{n}-{w}" for n, w, _ in TRANSFORMS])
@pytest.mark.parametrize(("type", "source", "values"), VALUES, ids=[str(type) for type, _, _ in VALUES])
def test_keys_are_those_of_iceberg(
    name: str,
    width: int,
    theirs: iceberg.Transform[Any, Any],
    type: pa.DataType,
    source: IcebergType,
    values: list[Any],
) -> None:
    assert is_supported(name, type) == theirs.can_transform(source) or name == "identity"
    if not is_supported(name, type):
        return
    field = PartitionField("c1", name, width)
    # Not at the beginning of its buffers, and with NULLs between.
    column = pa.array([None, *values, None], type).slice(1)
    found = keys_of(field, column)
    assert found[-1].as_py() is None
    apply = theirs.transform(source)
    for value, key in zip(values, found, strict=False):
        expected = apply(as_iceberg(value, type))
        if name == "identity" and (pa.types.is_temporal(type)):
            assert key.value == expected
        else:
            assert key.as_py() == expected, value
        assert key_of(field, value, type) == key.as_py()


def test_hashes_are_murmurs() -> None:
    for length in range(40):
        rows = np.frombuffer(CHANCE.randbytes(50 * length), np.uint8).reshape(50, length)
        expected = [mmh3.hash(row.tobytes(), signed=False) for row in rows]
        assert hashes_of_rows(rows).tolist() == expected


def test_rows_have_something_in_common_or_not() -> None:
    by_day = PartitionField("c1", "day")
    by_bucket = PartitionField("c2", "bucket", 4)
    day = datetime.datetime(2026, 1, 5, 13)  # noqa: DTZ001 - timestamps without a zone are naive
    rows = pa.table({"c1": pa.array([day] * 1000, pa.timestamp("us")), "c2": pa.array([7] * 1000, pa.int64())})
    label = common_values((by_day, by_bucket), rows)
    assert label is not None
    assert [value.key for value in label] == [20458, keys_of(by_bucket, pa.array([7]))[0].as_py()]
    other = rows.slice(0, 999).append_column("x", pa.nulls(999)).drop_columns(["x"])
    other = pa.concat_tables([other, pa.table({"c1": [day + datetime.timedelta(days=1)], "c2": [7]}, rows.schema)])
    assert common_values((by_day,), other) is None
    assert common_values((by_bucket,), other) is not None
    assert common_values((PartitionField("c9", "identity"),), rows) is None
    nulls = pa.table({"c2": pa.nulls(3, pa.int64())})
    assert common_values((by_bucket,), nulls) == (PartitionValue(by_bucket, "int64", None),)


@pytest.mark.parametrize(("type", "value", "other"), [
    (pa.int32(), 5, 6), (pa.decimal128(8, 2), Decimal("1.50"), Decimal("1.75")), (pa.string(), "a", "b"),
    (pa.binary(), b"\xff", b"\xfe"), (pa.date32(), datetime.date(2026, 1, 1), datetime.date(2026, 1, 3)),
])  # fmt: skip
def test_a_label_tells_which_values_are_not_there(type: pa.DataType, value: Any, other: Any) -> None:
    for field in (PartitionField("c1", "identity"), PartitionField("c1", "bucket", 4096)):
        label = common_values((field,), pa.table({"c1": pa.array([value, value], type)}))
        assert label is not None
        assert label[0].may_be_of((value,))
        assert label[0].may_be_of((None, other, value))
        assert not label[0].may_be_of((other,))
        assert not label[0].may_be_of((None,))
        # Of what cannot be in the column nothing is said.
        assert label[0].may_be_of((object(),))
    assert not PartitionValue(PartitionField("c1", "identity"), str(type), None).may_be_of((value,))
