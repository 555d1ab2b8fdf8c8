"""Which materialized views are refreshed together, and in which order.

Views refreshed ``on commit`` that read one another form a *group*. When something that they read has changed, a group
takes a turn: all that are due are brought to one CSN, level by level, those that read only tables first. So the rows of
what a view reads are of the moment to which it is brought itself, whatever is committed meanwhile, and its change
follows from theirs. Each refreshed on its own would find the others' rows of different moments, and be computed anew.

A view that could not be brought there is left behind, and so are those that read it: brought to the same moment without
its rows, they would have to be computed from the tables, again at each turn for as long as it fails. They go on from
where they are when it does, and are computed after all when that takes too long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set

from msgspec import Struct

from adapter.materialized.views_read import exact_views, is_exact
from storage.catalog.model import CatalogSnapshot, Relation


class Group(Struct, frozen=True, kw_only=True):
    """Views that take their turns together. One of `levels` reads views of the levels before its own alone."""

    catalog: CatalogSnapshot
    levels: tuple[tuple[Relation, ...], ...]
    below: Mapping[int, frozenset[int]]
    """By view, which others of the group its query goes through (all by oid)."""

    @property
    def key(self) -> int:
        """What the group is known by, to all servers and for as long as its first view is there."""
        return min(self.below)

    def views(self) -> Iterator[Relation]:
        """Its views, those first that others read."""
        return (view for level in self.levels for view in level)


def groups_of(catalog: CatalogSnapshot) -> tuple[Group, ...]:
    """The views of the catalog that servers refresh, in groups: each of those refreshed ``every`` so often is alone."""
    kept = {view.oid: view for view in _kept_views(catalog)}
    below = {
        oid: frozenset(each.oid for each in exact_views(catalog, view) if each.oid in kept and is_exact(view))
        for oid, view in kept.items()
    }
    return tuple(_group(catalog, [kept[oid] for oid in oids], below) for oids in _connected(below))


def left_behind(group: Group, view: Relation, missed: Set[int]) -> bool:
    """Whether the view has to wait because of those that could not be brought to the moment of the turn."""
    return not group.below[view.oid].isdisjoint(missed)


def _kept_views(catalog: CatalogSnapshot) -> Iterator[Relation]:
    for record in catalog.all():
        how = record.materialized if isinstance(record, Relation) else None
        if isinstance(record, Relation) and how is not None and how.populated and how.is_kept:
            yield record


def _connected(below: Mapping[int, frozenset[int]]) -> list[list[int]]:
    """The views that reach one another, in the order of their oids."""
    near: dict[int, set[int]] = defaultdict(set)
    for oid, others in below.items():
        near[oid] |= others
        for other in others:
            near[other].add(oid)
    found: list[list[int]] = []
    seen: set[int] = set()
    for oid in sorted(below):
        if oid in seen:
            continue
        reached, waiting = {oid}, [oid]
        while waiting:
            new = near[waiting.pop()] - reached
            reached |= new
            waiting.extend(new)
        seen |= reached
        found.append(sorted(reached))
    return found


def _group(catalog: CatalogSnapshot, views: list[Relation], below: Mapping[int, frozenset[int]]) -> Group:
    own = {view.oid: below[view.oid] for view in views}
    levels: list[tuple[Relation, ...]] = []
    placed: set[int] = set()
    while len(placed) < len(views):
        free = tuple(view for view in views if view.oid not in placed and own[view.oid] <= placed)
        # NOTE: never none, for views are not made in a circle; were there one, it would be a level.
        levels.append(free or tuple(view for view in views if view.oid not in placed))
        placed.update(view.oid for view in levels[-1])
    return Group(catalog=catalog, levels=tuple(levels), below=own)
