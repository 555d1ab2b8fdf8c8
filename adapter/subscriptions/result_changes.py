"""The difference of two results of one query, as bags of rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pyarrow as pa

ArrowTable = Any


def keys_of(rows: ArrowTable) -> list[bytes]:
    """For each row what tells it apart from every row that is not the same."""
    columns = [column.to_pylist() for column in rows.columns]
    return [hashlib.blake2b(repr(row).encode(), digest_size=16).digest() for row in zip(*columns, strict=True)]


def difference(before: ArrowTable, after: ArrowTable) -> tuple[ArrowTable, ArrowTable]:
    """The rows that are to go from `before`, and those that are to come, for it to be `after`: no row is in both."""
    if not before.num_rows or not after.num_rows or not before.num_columns:
        return before, after
    keys_before, keys_after = keys_of(before), keys_of(after)
    common = Counter(keys_before) & Counter(keys_after)
    return _without(before, keys_before, common), _without(after, keys_after, common)


def _without(rows: ArrowTable, keys: list[bytes], common: Counter[bytes]) -> ArrowTable:
    left = common.copy()
    kept = []
    for place, key in enumerate(keys):
        if left[key]:
            left[key] -= 1
        else:
            kept.append(place)
    return rows.take(pa.array(kept, pa.int64()))
