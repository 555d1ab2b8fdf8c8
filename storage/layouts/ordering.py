"""Rows as a layout wants them in files: those of each partition by themselves, in its order, cut into pieces that make
files of its size. Everything here takes CPU time: for many rows it is called on a thread.

Rows of a partition of which there are few go into one file with those of others: many small files would cost more than
they save, and compaction divides them once there are more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from storage.layouts import zorder
from storage.layouts.layout import TableLayout
from storage.shards.partitions.transforms import are_defined, keys_of
from storage.shards.parts import INLINE_LIMIT_BYTES, arrow_bytes, encode_parquet

LEAST_PARTITION_BYTES = 2 * INLINE_LIMIT_BYTES
"""Arrow bytes of a partition that make a file of its own."""

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
    if layout.zorder:
        return rows.take(pa.array(np.argsort(zorder.places(rows, layout.zorder), kind="stable")))
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


def laid_out(rows: pa.Table, layout: TableLayout, most: int | None = None) -> list[pa.Table]:
    """`rows` in pieces, each for a file as `layout` wishes; `most` of each partition at most."""
    pieces, rest = _divided(rows, layout)
    found = [piece for each in pieces for piece in file_pieces(each, layout, most)]
    return found + file_pieces(in_order(rest, layout), layout, most) if rest.num_rows else found


def _divided(rows: pa.Table, layout: TableLayout) -> tuple[list[pa.Table], pa.Table]:
    """The rows of the partitions of which there are many, each in order, and the others."""
    fields, size = layout.partition, arrow_bytes(rows)
    if not fields or size <= LEAST_PARTITION_BYTES or not are_defined(fields, rows.schema):
        return [], rows
    rows = rows.combine_chunks()
    keyed = {
        f"k{place}": keys_of(field, rows.column(field.column).combine_chunks()) for place, field in enumerate(fields)
    }
    for name in layout.sort:
        if name in rows.column_names:
            keyed[name] = rows.column(name)
    if layout.zorder:
        keyed["curve"] = pa.array(zorder.places(rows, layout.zorder))
    keys = pa.table(keyed)
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keyed])
    rows = rows.take(order)
    begins = np.zeros(rows.num_rows, bool)
    begins[0] = True
    for place in range(len(fields)):
        codes = keys.column(f"k{place}").combine_chunks().dictionary_encode().indices.take(order)
        numbers = np.asarray(codes.fill_null(-1))
        begins[1:] |= numbers[1:] != numbers[:-1]
    starts = np.flatnonzero(begins).tolist()
    least = LEAST_PARTITION_BYTES * rows.num_rows / size
    pieces: list[pa.Table] = []
    others: list[pa.Table] = []
    for start, end in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        (pieces if end - start >= least else others).append(rows.slice(start, end - start))
    return pieces, pa.concat_tables(others).combine_chunks() if others else rows.slice(0, 0)
