"""What changes of the catalog come to, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from storage.catalog.model import CatalogUpdate


def net_updates(updates: Iterable[CatalogUpdate]) -> list[CatalogUpdate]:
    """The net effect of `updates`: a record that is added and retracted again is neither."""
    kept: list[CatalogUpdate] = []
    for update in updates:
        for index in range(len(kept) - 1, -1, -1):
            if kept[index].record == update.record and kept[index].diff == -update.diff:
                del kept[index]
                break
        else:
            kept.append(update)
    return kept
