"""Statistics objects when their table changes: they go with a column, follow its name, and are copied by LIKE."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.statistics.changes import all_statistics, statistics_called
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.definitions.index_expressions import WITHOUT_NAME, statistics_expression
from planner.definitions.object_names import free_name
from planner.definitions.renaming import with_column_renamed
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.record import STATISTICS_FORMAT, ExtendedStatistics

Changed = list[tuple[ExtendedStatistics, ExtendedStatistics]]
"""Statistics objects before and after."""


def statistics_of(catalog: CatalogSnapshot, relation: int) -> list[ExtendedStatistics]:
    """Those of the relation with this oid, older ones first."""
    return sorted((each for each in all_statistics(catalog) if each.relation == relation), key=lambda each: each.oid)


def statistics_with(catalog: CatalogSnapshot, relation: Relation, attnum: int) -> list[ExtendedStatistics]:
    """Those that go when the column `attnum` of `relation` is dropped."""
    return [each for each in statistics_of(catalog, relation.oid) if attnum in (*each.columns, *each.reads)]


def renamed_statistics(running: Running, changed: Relation, old: str, new: str) -> Changed:
    """Those (before, after) of the table that will be `changed`, where its column `old` is called `new`."""
    return _rebound(running, changed, lambda text: with_column_renamed(text, old, new))


def retyped_statistics(running: Running, changed: Relation) -> Changed:
    """Those (before, after) of the table that will be `changed`, whose columns have other types then."""
    return _rebound(running, changed, lambda text: text)


def _rebound(running: Running, changed: Relation, edit: Callable[[str], str]) -> Changed:
    context = running.session.bind_context(own_catalog(running))
    found = []
    for record in statistics_of(own_catalog(running), changed.oid):
        texts = [statistics_expression(changed, edit(text), context, stored=True).text for text in record.expressions]
        after = replace(record, expressions=tuple(texts))
        if after != record:
            found.append((record, after))
    return found


async def copy_statistics(running: Running, relation: Relation, source: Relation) -> dict[int, int]:
    """Give `relation`, which is LIKE `source`, the same statistics objects; their oids by those of the source's."""
    catalog = own_catalog(running)
    names = {column.attnum: column.name for column in source.columns}
    attnums = {column.name: column.attnum for column in relation.columns}
    copied: dict[int, int] = {}
    for record in statistics_of(catalog, source.oid):
        await running.services.env.formats.require(STATISTICS_FORMAT)
        parts = [*(names[attnum] for attnum in record.columns), *repeat(WITHOUT_NAME, len(record.expressions))]

        def is_taken(name: str) -> bool:
            return statistics_called(own_catalog(running), relation.schema, name) is not None

        made = replace(
            record,
            oid=new_oid(running, relation.oid),
            name=free_name(relation.name, "_".join(parts), "stat", is_taken),
            schema=relation.schema,
            owner=owner_oid(running),
            relation=relation.oid,
            columns=tuple(sorted(attnums[names[attnum]] for attnum in record.columns)),
            reads=tuple(attnums[names[attnum]] for attnum in record.reads),
            target=-1,
        )
        change(running, added=[made])
        copied[record.oid] = made.oid
    return copied
