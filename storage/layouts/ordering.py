"""Rows in the order of a layout, and cut into pieces that make files of its size. Everything here takes CPU time: for
many rows it is called on a thread."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from storage.layouts.layout import TableLayout
from storage.shards.parts import INLINE_LIMIT_BYTES, arrow_bytes, encode_parquet

SAMPLE_ROWS = 16 * 1024
"""Rows that are encoded to see how many bytes of a file a row takes."""


def order_of(rows: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> pa.Array | None:
    """The places of `rows` in ascending order of `columns`, NULLs last; None when they are in order. A column that they
    lack has the same value in all of them."""
    keys = [(name, "ascending") for name in columns if name in rows.schema.names]
    if rows.num_rows < 2 or not keys:
        return None
    order = pc.sort_indices(rows, sort_keys=keys)
    places = order.to_numpy()
    return None if (places[1:] > places[:-1]).all() else order


def in_order(rows: pa.Table, layout: TableLayout) -> pa.Table:
    """`rows` in the order of `layout`."""
    order = order_of(rows, layout.sort)
    return rows if order is None else rows.take(order)


def file_pieces(rows: pa.Table, layout: TableLayout, most: int | None = None) -> list[pa.Table]:
    """`rows` in pieces, `most` at most, in their order, each for a file of about the size that `layout` wishes."""
    if layout.target_bytes is None or arrow_bytes(rows) <= 2 * INLINE_LIMIT_BYTES:
        return [rows]
    sample = rows.slice(0, SAMPLE_ROWS)
    row_bytes = len(encode_parquet(sample)) / sample.num_rows
    pieces = max(1, round(rows.num_rows * row_bytes / layout.target_bytes))
    pieces = pieces if most is None else min(pieces, most)
    each = -(-rows.num_rows // pieces)
    return [rows.slice(start, each) for start in range(0, rows.num_rows, each)]
