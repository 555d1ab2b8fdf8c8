"""What is to be known of a table's layout to write its files. Executors of a cluster import this: nothing here needs
the catalog."""

from __future__ import annotations

from msgspec import Struct


class TableLayout(Struct, frozen=True, kw_only=True):
    """How the files of a table are to be laid out; columns are physical ones. `target_bytes`: about how large a file is
    to be, None: as it comes."""

    sort: tuple[str, ...] = ()
    target_bytes: int | None = None
