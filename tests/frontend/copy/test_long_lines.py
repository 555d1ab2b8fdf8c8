"""COPY of lines that are longer than a block: looked at once, and refused where PostgreSQL refuses them."""

from __future__ import annotations

import pytest

from adapter.results import ColumnDescription, CopyFormat
from frontend.copy import text_input
from frontend.copy.text_input import CopyInput
from planner.errors import ProgramLimitExceeded
from planner.types.types import TEXT, SqlType

BLOCK = 1 << 10


def copy_of(columns: int = 2, *, csv: bool = False) -> CopyInput:
    described = tuple(ColumnDescription(name=f"c{n}", type=SqlType(TEXT)) for n in range(columns))
    format = CopyFormat(format="csv", delimiter=",", null="") if csv else CopyFormat()
    return CopyInput("t", described, format, {}, block_bytes=BLOCK)


def test_a_long_line_is_looked_at_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    decode = CopyInput._decode

    def counted(self: CopyInput, data: bytearray, *, final: bool) -> object:
        nonlocal looked
        looked += len(data)
        return decode(self, data, final=final)

    monkeypatch.setattr(CopyInput, "_decode", counted)
    source, size = copy_of(), 0
    for piece in [b"1\t", *[b"x" * BLOCK] * 1_000, b"\n"]:
        source.add(piece)
        size += len(piece)
        if source.block_ready:
            (batch,) = source.take()
            assert [len(value) for value in batch.column(1).to_pylist()] == [1_000 * BLOCK]
    assert source.take(final=True) == []
    assert looked == size


@pytest.mark.parametrize("csv", [False, True])
def test_steps_of_a_long_block_find_what_one_look_finds(monkeypatch: pytest.MonkeyPatch, csv: bool) -> None:
    delimiter = "," if csv else "\t"
    rows = [[f"{n}", '"a,""b""\nc"' if csv and n % 3 == 0 else "x" * (n % 7)] for n in range(300)]
    data = "".join([delimiter.join(row) + "\n" for row in rows]).encode()

    def taken() -> list[object]:
        source = copy_of(csv=csv)
        source.add(data)
        return [row for batch in source.take(final=True) for row in batch.to_pylist()]

    whole = taken()
    assert len(whole) == 300
    monkeypatch.setattr(text_input, "STEP_BYTES", 5)
    assert taken() == whole


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_input, "MAX_LINE_BYTES", 9 * BLOCK + 4)
    source = copy_of()
    source.add(b"1\tx\n")
    for _ in range(9):
        source.add(b"x" * BLOCK)
        if source.block_ready:
            source.take()
    with pytest.raises(ProgramLimitExceeded, match="out of memory") as raised:
        source.add(b"x" * BLOCK)
    assert raised.value.sqlstate == "54000"
    assert raised.value.detail is not None
    assert raised.value.detail.startswith("Cannot enlarge string buffer containing ")
    assert raised.value.where == "COPY t, line 2"
