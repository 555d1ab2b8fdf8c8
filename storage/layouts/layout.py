"""What is to be known of a table's layout to write its files. Executors of a cluster import this: nothing here needs
the catalog."""

from __future__ import annotations

from msgspec import Struct

from storage.shards.partitions.transforms import PartitionField


class TableLayout(Struct, frozen=True, kw_only=True):
    """How the files of a table are to be laid out; columns are physical ones. A file is to have rows of one partition,
    in the order of `sort`, or, with `zorder`, along the curve of these columns (`storage.layouts.zorder`), so that its
    bounds are narrow in each of them. `target_bytes`: about how large a file is to be, None: as it comes."""

    partition: tuple[PartitionField, ...] = ()
    sort: tuple[str, ...] = ()
    zorder: tuple[str, ...] = ()
    target_bytes: int | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The columns by which an engine is to sort, so that rows of a partition come together: buckets do not. It does
        not know the Z-order curve of rows that it has not seen: what writes a file has its rows."""
        columns = [field.column for field in self.partition if field.transform != "bucket"]
        return tuple(dict.fromkeys([*columns, *self.sort]))
