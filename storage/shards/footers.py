"""Statistics of Parquet files that others wrote, from their footers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storage.shards.parts import ColumnStats, bounds_of, domain_of, stat_value


def footer_of(data: bytes) -> bytes:
    """The end of a Parquet file from which its metadata can be read, of its bytes or the last of them."""
    return data[-(int.from_bytes(data[-8:-4], "little") + 8) :]


def metadata_of(footer: bytes) -> pq.FileMetaData:
    """The metadata that the end of a Parquet file has. Raises Arrow's errors."""
    # The reader looks at the end only; the magic in front makes it a file of its own.
    return pq.read_metadata(pa.BufferReader(b"PAR1" + footer))


def parquet_stats(metadata: pq.FileMetaData, schema: pa.Schema | None = None) -> dict[str, ColumnStats]:
    """Statistics of every top-level column (or of those of `schema`), from a Parquet footer.

    Upper bounds of floats are left open: writers leave NaN out of them.
    """
    schema = metadata.schema.to_arrow_schema() if schema is None else schema
    leaves: dict[str, list[int]] = {}
    for index in range(metadata.num_columns):
        leaves.setdefault(metadata.schema.column(index).path.split(".")[0], []).append(index)
    return {field.name: _footer_stats(metadata, field, leaves.get(field.name, [])) for field in schema}


def _footer_stats(metadata: pq.FileMetaData, field: pa.Field, leaves: list[int]) -> ColumnStats:
    domain = domain_of(field.type)
    if domain == "none" or len(leaves) != 1:
        return ColumnStats()
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: int | None = 0
    bounded = True
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(leaves[0])
        stats = column.statistics
        if stats is None:
            return ColumnStats(domain=domain)
        nulls = nulls + stats.null_count if nulls is not None and stats.has_null_count else None
        if stats.has_min_max:
            raw = pa.types.is_temporal(field.type)
            lows.append(stats.min_raw if raw else stat_value(stats.min))
            highs.append(stats.max_raw if raw else stat_value(stats.max))
        elif not stats.has_null_count or stats.null_count < column.num_values:
            bounded = False
    if not bounded or not lows or None in lows or None in highs:
        return ColumnStats(domain=domain, null_count=nulls)
    return bounds_of(domain, min(lows), None if domain == "float" else max(highs), nulls)
