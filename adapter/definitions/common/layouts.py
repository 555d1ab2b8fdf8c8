"""The options of a table that say how its files are laid out (`storage.layouts`): what they may be, and what becomes of
them when columns change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.conditions import COMPARABLE
from adapter.publishing.published_tables import OF_TABLES
from planner.errors import InvalidParameterValue, InvalidTableDefinition, UndefinedColumn
from planner.ir.physical import arrow_type
from planner.types.type_names import format_type
from planner.types.types import SqlType, is_wide, type_of_column
from storage.catalog.model import Column, Relation
from storage.layouts import definition
from storage.layouts.definition import (
    LEAST_FILE_BYTES,
    MOST_FILE_BYTES,
    PARTITION_BY,
    SORT_BY,
    TARGET_FILE_SIZE,
    BadLayout,
    UnknownColumn,
)
from storage.layouts.layout import TableLayout
from storage.shards.partitions.transforms import PartitionField, is_supported


def _sort_by(value: str) -> str:
    try:
        return definition.text_of_order(definition.order_of_text(value))
    except BadLayout:
        raise InvalidParameterValue(
            f'invalid value for option "{SORT_BY}": {value}',
            hint="Write different columns with commas between them, as in 'ts, id': rows are sorted by them ascending, "
            "NULLs last. 'zorder(ts, id)', of 2 to 8 columns, gives files narrow bounds in each of them.",
        ) from None


def _partition_by(value: str) -> str:
    try:
        return definition.partition_text(definition.partition_terms(value))
    except BadLayout:
        raise InvalidParameterValue(
            f'invalid value for option "{PARTITION_BY}": {value}',
            hint="Write different columns or transforms of columns with commas between them, as in "
            "'day(ts), bucket(16, id)': year, month, day and hour have a column, bucket and truncate a number above 0 "
            "and a column.",
        ) from None


def _target_file_size(value: str) -> str:
    try:
        size = definition.file_bytes(value)
    except BadLayout:
        raise InvalidParameterValue(
            f'invalid value for option "{TARGET_FILE_SIZE}": {value}',
            hint='Valid units for this parameter are "B", "kB", "MB", and "GB".',
        ) from None
    if not LEAST_FILE_BYTES <= size <= MOST_FILE_BYTES:
        raise InvalidParameterValue(
            f'value {value} out of bounds for option "{TARGET_FILE_SIZE}"',
            detail='Valid values are between "64kB" and "4GB".',
        )
    return value


PLAIN_TABLES: Mapping[str, Callable[[str], str]] = {
    **OF_TABLES, PARTITION_BY: _partition_by, SORT_BY: _sort_by, TARGET_FILE_SIZE: _target_file_size,
}  # fmt: skip
"""What checks the options that tables have and materialized views have not. 22023."""


def checked_layout(relation: Relation) -> TableLayout | None:
    """The layout that the options of `relation` say. Raises 42703 for a column that is not there, and 42P16 for one
    whose values have no order in files, or whose type a transform is not defined for."""
    try:
        layout = definition.layout_of(relation)
    except UnknownColumn as error:
        raise UndefinedColumn(f'column "{error.name}" named in option "{error.option}" does not exist') from None
    if layout is None:
        return None
    for column in relation.live_columns():
        type_ = type_of_column(column)
        if f"c{column.attnum}" in (*layout.sort, *layout.zorder) and not _is_ordered(type_):
            raise InvalidTableDefinition(
                f'column "{column.name}" cannot be in option "{SORT_BY}"',
                detail=f"Values of type {format_type(type_.oid, type_.typmod)} have no order in files.",
            )
        for field in layout.partition:
            if field.column == f"c{column.attnum}" and not _is_partitionable(type_, field):
                raise InvalidTableDefinition(
                    f'column "{column.name}" cannot be in option "{PARTITION_BY}" by {field.transform}',
                    detail=f"The transform {field.transform} is not defined for type "
                    f"{format_type(type_.oid, type_.typmod)}.",
                )
    return layout


async def permitted_layout(running: Running, relation: Relation) -> None:
    """Raise what `checked_layout` raises, and 55000 for a layout that servers of an earlier version, which may be at
    work, do not know."""
    layout = checked_layout(relation)
    if layout is not None and layout.zorder:
        await running.services.env.formats.require(definition.ZORDER_FORMAT)


def _is_partitionable(type_: SqlType, field: PartitionField) -> bool:
    return _is_ordered(type_) and is_supported(field.transform, arrow_type(type_))


def _is_ordered(type_: SqlType) -> bool:
    """Whether the stored form of values has the order of the values, so that statistics of files tell something."""
    return type_.oid in COMPARABLE and not is_wide(type_) and not type_.dimensioned


def refuse_laid_out(relation: Relation, column: Column) -> None:
    """42P16 for dropping a column that the layout of its table names."""
    layout = definition.layout_of(relation)
    if layout is None:
        return
    name = f"c{column.attnum}"
    for option, names in (
        (SORT_BY, (*layout.sort, *layout.zorder)),
        (PARTITION_BY, [field.column for field in layout.partition]),
    ):
        if name in names:
            raise InvalidTableDefinition(
                f'cannot drop column "{column.name}" because option "{option}" of relation "{relation.name}" names it',
                hint=f"Use ALTER TABLE ... SET ({option} = ...) or RESET ({option}) first.",
            )


def copied_layout(source: Relation) -> Mapping[str, str]:
    """The options that a table has from `source`, which it is LIKE."""
    return definition.options_of(source) if source.kind == "r" else {}


def with_layout_renamed(relation: Relation, old: str, new: str) -> Relation:
    """`relation`, whose column `old` is called `new` now, with its options saying so."""
    if not relation.options or relation.kind != "r":
        return relation
    return replace(relation, options=definition.renamed(relation.options, old, new))
