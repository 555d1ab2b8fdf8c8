"""Columns whose values come again and again."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_DICTIONARY_SAMPLE_ROWS = 4096


def repetitive_columns(table: pa.Table) -> list[str]:
    """The columns whose values come again and again, going by the first rows: those that a dictionary pays for.
    One for values that are all different makes files larger, and slower to write and to read."""
    sample = table.slice(0, _DICTIONARY_SAMPLE_ROWS)
    if sample.num_rows < 2:
        return []
    return [
        field.name
        for index, field in enumerate(sample.schema)
        if not pa.types.is_nested(field.type) and 2 * pc.count_distinct(sample.column(index)).as_py() <= sample.num_rows
    ]
