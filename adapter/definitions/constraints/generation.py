"""Columns that get their values by themselves: from defaults, and from other columns."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from adapter.changes.rows.defaults import default_query
from adapter.changes.rows.over_rows import engine_over_rows
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.queries.single_row import evaluate
from planner.definitions.defaults import stored_default
from planner.definitions.renaming import with_column_renamed
from planner.definitions.row_expressions import computing_query, generation_expression
from planner.statements import records as st
from planner.syntax.parse import Parsed
from planner.types.types import type_of_column
from planner.types.user_types import held_as
from planner.values.text_values import format_text
from storage.catalog.model import Column, Relation


def checked_default(running: Running, column: Column, written: Parsed | None = None) -> Column:
    """The column with its DEFAULT as the catalog keeps it. Raises the binder's errors for a bad one, as `default_query`
    does."""
    assert column.default is not None
    default_query(running, column, written)
    type_ = type_of_column(column)
    kept = stored_default(column.default, column.name, type_, running.session.bind_context(own_catalog(running)))
    return replace(column, default=kept)


async def missing_value(running: Running, column: Column) -> str | None:
    """The text of the value that existing rows get in an added column with a default."""
    (value,) = await evaluate(running, own_catalog(running), default_query(running, column))
    return None if value is None else format_text(value, held_as(type_of_column(column)))


# ---------------------------------------------------------------- generated columns


def with_generations(
    running: Running, relation: Relation, definitions: Mapping[int, st.ColumnDefinition], *, located: bool = True
) -> Relation:
    """The table's record with the expressions of the generated columns in `definitions` (by attnum) as they are kept.
    Raises what binding them raises, with positions when `located`; 42P17 for what is not immutable, 0A000 for what no
    engine can compute."""
    context = running.session.bind_context(own_catalog(running))
    new = {attnum: column for attnum, column in definitions.items() if column.generation is not None}
    scope = replace(
        relation,
        columns=tuple(
            replace(column, default=new[column.attnum].generation, generated="s") if column.attnum in new else column
            for column in relation.columns
        ),
    )
    columns: list[Column] = []
    for column in scope.columns:
        if column.attnum in new:
            written = new[column.attnum].written_generation if located else None
            column = replace(column, default=generation_expression(scope, column, context, written).text)
        columns.append(column)
    changed = replace(relation, columns=tuple(columns))
    query = computing_query(changed, context)
    if query is not None:
        engine_over_rows(running, query)
    return changed


def generated_from(running: Running, relation: Relation, attnum: int) -> list[Column]:
    """The generated columns whose expressions read the column `attnum`."""
    context = running.session.bind_context(own_catalog(running))
    return [
        column
        for column in relation.live_columns()
        if column.generated and attnum in generation_expression(relation, column, context, stored=True).columns
    ]


def renamed_generations(running: Running, changed: Relation, old: str, new: str) -> Relation:
    """`changed`, whose column `old` is called `new`, with the expressions of its generated columns."""
    context = running.session.bind_context(own_catalog(running))
    columns: list[Column] = []
    for column in changed.columns:
        if column.generated and column.default is not None:
            text = with_column_renamed(column.default, old, new)
            if text != column.default:
                renamed = replace(column, default=text)
                column = replace(column, default=generation_expression(changed, renamed, context, stored=True).text)
        columns.append(column)
    return replace(changed, columns=tuple(columns))
