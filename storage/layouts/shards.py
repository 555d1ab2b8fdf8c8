"""The layouts of shards, as the catalog's newest definitions say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from storage.catalog.model import CatalogSnapshot, Relation
from storage.ids import ShardId
from storage.layouts.definition import layout_of
from storage.layouts.layout import TableLayout


class Definitions(Protocol):
    """The catalog, as far as it is needed here (`storage.catalog.store.CatalogStore`)."""

    def current(self) -> CatalogSnapshot:
        """The newest one that this process knows."""
        ...


class ShardLayouts:
    """How the files of shards are to be laid out."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._known: tuple[CatalogSnapshot, Mapping[ShardId, TableLayout]] | None = None

    def of(self, shard: ShardId) -> TableLayout | None:
        """The layout of `shard`; None when nobody has said one."""
        whole = self._definitions.current()
        if self._known is None or self._known[0] is not whole:
            self._known = whole, _said_by(whole)
        return self._known[1].get(shard)


def _said_by(whole: CatalogSnapshot) -> Mapping[ShardId, TableLayout]:
    found: dict[ShardId, TableLayout] = {}
    for record in whole.all():
        if isinstance(record, Relation) and record.shard is not None and record.options:
            layout = layout_of(record)
            if layout is not None:
                found[record.shard] = layout
    return found
