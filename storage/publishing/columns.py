"""What a table looks like to those who publish it."""

from __future__ import annotations

import hashlib

import pyarrow as pa
from msgspec import Struct

from storage.ids import ShardId
from storage.layouts.layout import TableLayout


class PublishedColumn(Struct, frozen=True, kw_only=True):
    """A column: the physical one is ``c<attnum>``, stored as `type`. `missing` is the value of rows in files that lack
    it; None: NULL."""

    attnum: int
    name: str
    type: pa.DataType
    missing: pa.Scalar | None = None

    @property
    def stored_name(self) -> str:
        """The name of the physical column."""
        return f"c{self.attnum}"


class PublishableTable(Struct, frozen=True, kw_only=True):
    """A table to publish: its relation's oid and names, its shard, and its columns in order.

    `keep_ms`: how long snapshots are readable once they are not the newest any more. `layout`: how its files are to be
    laid out.
    """

    relation: int
    namespace: str
    name: str
    shard: ShardId
    columns: tuple[PublishedColumn, ...]
    keep_ms: int
    layout: TableLayout | None = None

    @property
    def definition(self) -> str:
        """What tells two looks of the table apart."""
        text = "\n".join(
            [self.shard, *(f"{c.attnum} {c.name!r} {c.type} {c.missing is not None}" for c in self.columns)]
        )
        if self.layout is not None:
            text += f"\n{self.layout.partition} {self.layout.sort}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
