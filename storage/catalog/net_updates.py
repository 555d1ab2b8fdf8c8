"""What changes of the catalog come to, one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from storage.catalog.model import CatalogUpdate


def net_updates(updates: Iterable[CatalogUpdate]) -> list[CatalogUpdate]:
    """The net effect of `updates`: a record that is added and retracted again is neither."""
    kept: list[CatalogUpdate | None] = []
    places: dict[int, list[int]] = {}
    """By oid, where its updates are kept."""
    for update in updates:
        same = places.setdefault(update.record.oid, [])
        for place in reversed(same):
            other = kept[place]
            if other is not None and other.diff == -update.diff and other.record == update.record:
                kept[place] = None
                same.remove(place)
                break
        else:
            same.append(len(kept))
            kept.append(update)
    return [update for update in kept if update is not None]
