"""Indexes when what they are about changes: their tables' columns and types, their own names and parameters."""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change
from adapter.definitions.common.column_options import checked_target
from adapter.definitions.constraints.keys import forget_names
from adapter.definitions.indexes.parameters import storage_parameters
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from planner.common_errors import missing_column
from planner.definitions.index_expressions import (
    distinct_names,
    index_expression,
    index_predicate,
    key_collations,
)
from planner.definitions.renaming import with_column_renamed
from planner.errors import FeatureNotSupported, UndefinedColumn
from planner.statements import records as st
from planner.types.operator_classes import checked_class, is_default_class, operator_class
from planner.types.table_indexes import constraint_of_index
from storage.catalog.model import CatalogSnapshot, Comment, Index, Relation
from storage.catalog.record import INDEX_STATISTICS_FORMAT

NO_TARGET = -1
"""Of a key without a statistics target of its own."""


def rename_index(running: Running, index: Index, name: str) -> None:
    """Give the index another name, which is free; that of a constraint has the constraint's."""
    constraint = constraint_of_index(own_catalog(running), index.oid)
    if constraint is not None:
        change(running, removed=[constraint], added=[replace(constraint, name=name)])
    if own_catalog(running).get(index.oid) is not None:
        change(running, removed=[index], added=[replace(index, name=name)])


def remove_index(running: Running, index: Index) -> None:
    """Take an index, of a constraint that is gone, out of the catalog, with its comments and its name in the table."""
    catalog = own_catalog(running)
    comments = [record for record in catalog.all() if isinstance(record, Comment) and record.object_oid == index.oid]
    change(running, removed=[index, *comments])
    forget_names(running, [index])


async def set_parameters(running: Running, index: Index, action: st.SetStorageOptions) -> None:
    """ALTER INDEX ... SET and RESET (storage parameters), ALTER COLUMN ... SET STATISTICS. Raises 22023, and for
    statistics what `_set_statistics` raises."""
    if action.description == "SetStatistics":
        await _set_statistics(running, index, action)
        return
    kept = dict(parameter.split("=", 1) for parameter in index.parameters)
    for name, value in action.options:
        if action.reset:
            kept.pop(name, None)
        else:
            storage_parameters([(name, value)], index.method)
            kept[name] = value
    # Those of the index of a key are not kept: nothing depends on them.
    if own_catalog(running).get(index.oid) is not None:
        parameters = tuple(f"{name}={value}" for name, value in kept.items())
        change(running, removed=[index], added=[replace(index, parameters=parameters)])


async def _set_statistics(running: Running, index: Index, action: st.SetStorageOptions) -> None:
    """42703 for a column that the index has not, 0A000 for one that is no expression."""
    table = own_catalog(running).get(index.relation)
    assert action.target is not None
    assert isinstance(table, Relation)
    target = checked_target(running, action.target)
    number = action.number or _place(index, table, action.column)
    columns = (*index.columns, *index.include)
    if number > len(columns):
        raise UndefinedColumn(f'column number {number} of relation "{index.name}" does not exist')
    if not (attnum := columns[number - 1]):
        known = index.statistics or (NO_TARGET,) * len(index.columns)
        targets = (*known[: number - 1], target, *known[number:])
        statistics = targets if any(each != NO_TARGET for each in targets) else ()
        if statistics != index.statistics:
            await running.services.env.formats.require(INDEX_STATISTICS_FORMAT)
            change(running, removed=[index], added=[replace(index, statistics=statistics)])
        return
    name = next(column.name for column in table.columns if column.attnum == attnum)
    included = number > len(index.columns)
    raise FeatureNotSupported(
        f'cannot alter statistics on {"included" if included else "non-expression"} column "{name}" of index '
        f'"{index.name}"',
        hint=None if included else "Alter statistics on table column instead.",
    )


def _place(index: Index, table: Relation, name: str) -> int:
    """Which column of the index is called `name`, from 1 on. Raises 42703."""
    of_table = {column.attnum: column.name for column in table.columns}
    expressions = iter(index.expression_names)
    names = [of_table[attnum] if attnum else next(expressions) for attnum in (*index.columns, *index.include)]
    names = distinct_names(names)
    if name not in names:
        raise missing_column(index.name, name)
    return names.index(name) + 1


def indexes_with(catalog: CatalogSnapshot, relation: Relation, attnum: int) -> list[Index]:
    """The indexes that go when the column `attnum` of `relation` is dropped."""
    return [index for index in catalog.indexes(relation.oid) if index.uses(attnum)]


def renamed_indexes(running: Running, changed: Relation, old: str, new: str) -> list[tuple[Index, Index]]:
    """The indexes (before, after) of the table that will be `changed`, where its column `old` is called `new`."""

    def renamed(text: str) -> str:
        return with_column_renamed(text, old, new)

    return _rebound(running, changed, own_catalog(running).indexes(changed.oid), renamed)


def retyped_indexes(running: Running, changed: Relation, attnums: Collection[int]) -> list[tuple[Index, Index]]:
    """The indexes (before, after) with one of the columns `attnums`, which have other types in `changed`. Raises what
    making them anew raises when they mean nothing with the new types."""
    indexes = own_catalog(running).indexes(changed.oid)
    touched = [index for index in indexes if any(index.uses(attnum) for attnum in attnums)]
    return _rebound(running, changed, touched, lambda text: text)


def _rebound(
    running: Running, changed: Relation, indexes: Collection[Index], edit: Callable[[str], str]
) -> list[tuple[Index, Index]]:
    """The indexes (before, after) of which something is not as it was, once `edit` has gone over their texts."""
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)
    before = catalog.get(changed.oid)
    assert isinstance(before, Relation)
    edited = []
    for index in indexes:
        expressions = [index_expression(changed, edit(text), context, stored=True) for text in index.expressions]
        predicate = index.predicate
        if predicate is not None:
            predicate = index_predicate(changed, edit(predicate), context, stored=True).text
        after = replace(
            index,
            expressions=tuple(expression.text for expression in expressions),
            expression_types=tuple((e.type.oid, e.type.typmod) for e in expressions),
            predicate=predicate,
        )
        edited.append((index, after))
    # What the texts mean is asked of all indexes before the operator classes are, as in PostgreSQL.
    found = [(index, _with_classes(before, index, changed, after)) for index, after in edited]
    return [(index, after) for index, after in found if after != index]


def _with_classes(before: Relation, earlier: Index, changed: Relation, index: Index) -> Index:
    """`index`, which was `earlier` over the table as it was `before`, with operator classes and collations that its
    keys' types have. Those that were asked for stay; the others are what the keys have by themselves. Raises 42704 for
    a type without an operator class, 42804 for one that the class is not for."""
    old_types, types = _key_types(before, earlier), _key_types(changed, index)
    classes = [
        operator_class(new, index.method)
        if new != old and is_default_class(known, old, index.method)
        else checked_class(known, new)
        for known, old, new in zip(index.operator_classes, old_types, types, strict=True)
    ]
    collations = [
        collation if collation != old and own else own
        for collation, old, own in zip(
            index.collations, key_collations(before, earlier), key_collations(changed, index), strict=True
        )
    ]
    return replace(index, operator_classes=tuple(classes), collations=tuple(collations))


def _key_types(relation: Relation, index: Index) -> list[int]:
    types = {column.attnum: column.type_oid for column in relation.columns}
    expressions = iter(index.expression_types)
    return [types[attnum] if attnum else next(expressions)[0] for attnum in index.columns]
