"""CSV files whose last quoted value does not end are told as Arrow, which reads them, takes them."""

from __future__ import annotations

import io
import random

import pyarrow as pa
import pyarrow.csv as pc
import pytest

from storage.lake.formats import FileFormat
from storage.lake.quotes import QuotedFile
from storage.lake.troubles import FileTrouble

DOUBLED = FileFormat(name="csv")
ESCAPED = FileFormat(name="csv", escape="\\")


def _noted(format: FileFormat, data: bytes, sizes: random.Random) -> list[FileTrouble]:
    """What is said of a file that is read in pieces."""
    noted: list[FileTrouble] = []
    file = QuotedFile("f.csv", format, pa.BufferReader(data), noted.append)
    read = b""
    while piece := file.read(sizes.randint(1, 5)):
        read += piece
    assert read == data
    return noted


def _is_open(format: FileFormat, data: bytes) -> bool:
    """Whether Arrow takes what follows `data` for a part of its last value: a line more is none then."""

    def lines(content: bytes) -> int:
        read = pc.ReadOptions(autogenerate_column_names=True)
        return int(pc.read_csv(io.BytesIO(content), read, format.csv_parse()).num_rows)

    return lines(b"x\n" + data + b"\nx\nx\n") < lines(b"x\n" + data + b"\nx\n") + 1


@pytest.mark.parametrize(
    ("data", "is_open"),
    [
        (b'a\n"b\n', True),
        (b'a\n5"\n"b\n', True),  # Two quotes, of which one is a character.
        (b'a\n5"\n6"\n', False),
        (b'a\n5"\n"b"\n', False),
        (b'a\n"b"c"d\n', False),  # Behind the end of the value they are characters, too.
        (b'a\n"b""\n', True),
        (b'a\n"b"""\n', False),
        (b'\xef\xbb\xbf"a\n,"",b"\n5"\n', False),
        (b'"a', True),
        (b'"', True),
        (b"", False),
    ],
)
def test_a_value_that_does_not_end_is_told(data: bytes, is_open: bool) -> None:
    for seed in range(20):
        assert bool(_noted(DOUBLED, data, random.Random(seed))) == is_open


@pytest.mark.parametrize("format", [DOUBLED, ESCAPED], ids=["doubled", "escaped"])
def test_it_is_told_as_arrow_reads_it(format: FileFormat) -> None:
    draw = random.Random(7)
    for _ in range(1500):
        data = bytes(draw.choices(b'"""a\n' + b"\\" * (format is ESCAPED), k=draw.randint(1, 14)))
        assert bool(_noted(format, data, draw)) == _is_open(format, data), data
