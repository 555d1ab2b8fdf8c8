"""What the options of a layout say, and what is made of rows by them."""

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa
import pytest

from storage.layouts.definition import BadLayout, file_bytes, renamed, sort_text, sorted_columns
from storage.layouts.layout import TableLayout
from storage.layouts.ordering import file_pieces, in_order
from storage.shards.parts import encode_parquet


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ts", ("ts",)),
        (" Ts ,id", ("ts", "id")),
        ('"Ts", "a ""b"", c"', ("Ts", 'a "b", c')),
        ("größe, c$1", ("größe", "c$1")),
    ],
)
def test_names_are_read_and_written(text: str, names: tuple[str, ...]) -> None:
    assert sorted_columns(text) == names
    assert sorted_columns(sort_text(names)) == names


@pytest.mark.parametrize("text", ["", ",", "a,", ",a", "a b", "a a", 'a"b"', '""', "a, a", "day(ts)", 'a "', "a desc"])
def test_other_texts_name_nothing(text: str) -> None:
    with pytest.raises(BadLayout):
        sorted_columns(text)


def test_sizes() -> None:
    assert [file_bytes(text) for text in ("65536", "70 B", "64kB", " 3 MB", "2GB")] == [
        65536, 70, 65536, 3 << 20, 2 << 30,
    ]  # fmt: skip
    for text in ("", "MB", "1 mb", "1.5MB", "-1MB", "1TB", "9" * 20):
        with pytest.raises(BadLayout):
            file_bytes(text)


def test_renamed_options() -> None:
    options = ("fillfactor=70", 'sort_by=a, "b c"', "target_file_size=1MB")
    assert renamed(options, "b c", "Now") == ("fillfactor=70", 'sort_by=a, "Now"', "target_file_size=1MB")
    assert renamed(options, "fillfactor", "x") == options


def test_rows_are_sorted_with_nulls_and_nans_last() -> None:
    rows = pa.table({
        "c1": pa.array([2.0, None, float("nan"), 1.0, 2.0, -0.0]),
        "c2": pa.array(["b", "x", "y", "z", "a", None]),
        "c3": pa.array([Decimal(number) for number in range(6)], pa.decimal128(9, 2)),
    })  # fmt: skip
    sorted_rows = in_order(rows, TableLayout(sort=("c1", "c2")))
    assert [int(value.as_py()) for value in sorted_rows.column("c3")] == [5, 3, 4, 0, 2, 1]
    assert in_order(rows, TableLayout(sort=("c9",))) is rows
    assert in_order(sorted_rows, TableLayout(sort=("c1", "c2"))) is sorted_rows


def test_pieces_have_about_the_size_that_is_wished() -> None:
    chance = random.Random(1)
    rows = pa.table({"c1": [chance.randbytes(100).hex() for _ in range(40_000)]})
    whole = len(encode_parquet(rows))
    pieces = file_pieces(rows, TableLayout(target_bytes=500_000))
    assert pa.concat_tables(pieces).equals(rows)
    sizes = [len(encode_parquet(piece)) for piece in pieces]
    assert len(pieces) == round(whole / 500_000)
    assert all(350_000 < size < 700_000 for size in sizes)
    assert file_pieces(rows.slice(0, 10), TableLayout(target_bytes=100)) == [rows.slice(0, 10)]
    assert file_pieces(rows, TableLayout(sort=("c1",))) == [rows]
