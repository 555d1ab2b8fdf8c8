"""Where the rows of one COPY FROM came from: the context of errors that are found once rows are decoded.

Every batch is noted with the lines that it was read from. The latest data is kept until more is decoded, so that such
an error can show its line.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

KEPT_BYTES = 16 << 20
"""Longer data is not kept: its line is numbered and not shown."""


class _Batch(Struct, frozen=True):
    """`rows` in `lines`, after `rows_before` and `lines_before` others; None where a line may have any length."""

    rows_before: int
    lines_before: int
    rows: int
    lines: int
    read: Callable[[int], tuple[str, int]] | None
    """The text of a row of the batch, and the number of its line after `lines_before`."""


class RowPlaces:
    """The places of rows, counted from 0, in what COPY reads into `relation`."""

    def __init__(self, relation: str) -> None:
        self._relation = relation
        self._batches: list[_Batch] = []
        self._rows = 0

    def forget_data(self) -> None:
        """The rows so far are written: where they were read from is all that may be asked for."""
        for place in range(len(self._batches) - 1, -1, -1):
            batch = self._batches[place]
            if batch.read is None:
                break
            self._batches[place] = _Batch(batch.rows_before, batch.lines_before, batch.rows, batch.lines, None)

    def note(
        self, rows: int, lines_before: int, lines: int, read: Callable[[int], tuple[str, int]] | None = None
    ) -> None:
        """`rows` were read from so many `lines`, after `lines_before` others."""
        self._batches.append(_Batch(self._rows, lines_before, rows, lines, read))
        self._rows += rows

    def of(self, row: int, *, shown: bool) -> str:
        """The context of an error in `row`, with its line where that is to be `shown` and can be."""
        for batch in reversed(self._batches):
            if batch.rows_before <= row < batch.rows_before + batch.rows:
                at = row - batch.rows_before
                if batch.read is not None:
                    text, line = batch.read(at)
                    content = f': "{text}"' if shown else ""
                    return f"COPY {self._relation}, line {batch.lines_before + line}{content}"
                if batch.lines == batch.rows:
                    return f"COPY {self._relation}, line {batch.lines_before + at + 1}"
                break
        return f"COPY {self._relation}"
