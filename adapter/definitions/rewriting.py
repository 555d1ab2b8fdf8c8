"""A table's rows written anew, into a new shard: when a column's type changes, or a column comes whose values differ
from row to row. The old shard is forgotten in the same commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from adapter.changes.rows.defaults import default_query
from adapter.changes.rows.laid_out import LaidOutRows
from adapter.definitions.common.catalog_changes import (
    change,
    forget_shard,
    new_shard_id,
    require_column,
    with_column,
)
from adapter.definitions.common.columns import collation_of, retyped, with_kept_fields
from adapter.definitions.common.layouts import permitted_layout
from adapter.definitions.common.row_types import refuse_itself, refuse_stored
from adapter.definitions.common.table_rows import alter_shard, fill_table, make_shard, physical_schema
from adapter.definitions.constraints.checks import retyped_checks
from adapter.definitions.constraints.existing_rows import NewRules
from adapter.definitions.constraints.generation import generated_from
from adapter.definitions.constraints.keys import retyped_foreign_keys
from adapter.definitions.dependents import named
from adapter.definitions.indexes.exclusion import retype_exclusions
from adapter.definitions.indexes.upkeep import retyped_indexes
from adapter.definitions.sequences import altered, configured
from adapter.definitions.statistics.upkeep import retyped_statistics
from adapter.definitions.views import users_of_column
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.predicates import scan_templates
from adapter.publishing.published_tables import type_held
from adapter.queries.acting.sequences import next_values
from adapter.queries.prepared_read import PreparedRead
from adapter.queries.read import prepare_read
from planner.definitions.row_expressions import generation_expression
from planner.definitions.transforms import ColumnChange, rewritten_rows
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidColumnDefinition
from planner.ir.bound import BoundQuery
from planner.statements import records as st
from planner.types import types as t
from planner.types.type_names import format_type
from storage.catalog.access import Policy
from storage.catalog.model import CatalogSnapshot, Column, Relation, Schema
from storage.catalog.model import Sequence as SequenceRecord
from storage.layouts.definition import layout_of


async def rewrite_table(
    running: Running,
    catalog: CatalogSnapshot,
    relation: Relation,
    changed: Relation,
    query: BoundQuery,
    numbered: Mapping[int, SequenceRecord] | None = None,
) -> Relation:
    """Put `changed` in place of `relation`, with the rows of `query` (one column for each live one), which reads the
    tables of `catalog`. The columns `numbered` (places among the live ones) get the next numbers of sequences.

    NOT NULL and checks are for the caller to look after. Returns the record as it is now.
    """
    # A row that comes in the meantime would be missing from the new shard: validated at every isolation level.
    query = replace(query, validated=True)
    read = await prepare_read(running, catalog, query, scan_templates(query.rel))
    columns = tuple(replace(column, missing=None) for column in changed.columns)
    changed = replace(changed, columns=columns, shard=new_shard_id(running, changed.oid))
    change(running, removed=[relation], added=[changed])
    make_shard(running, changed)
    if numbered:
        await _fill_numbered(running, changed, read, numbered)
    else:
        schema = catalog.get(changed.schema)
        assert isinstance(schema, Schema)
        unchecked = replace(changed, columns=tuple(replace(column, not_null=False) for column in columns))
        await fill_table(running, unchecked, schema.name, read)
    assert relation.shard is not None
    forget_shard(running, relation.shard)
    return changed


async def _fill_numbered(
    running: Running, relation: Relation, read: PreparedRead, numbered: Mapping[int, SequenceRecord]
) -> None:
    assert relation.shard is not None
    txn = running.transaction.writable(running.services.env, relation.shard)
    physical = physical_schema(relation.live_columns())
    layout = layout_of(relation)
    if layout is not None:
        txn.lay_out(relation.shard, layout.partition)
    laid_out = None if layout is None else LaidOutRows(txn, relation.shard, layout)
    stream: Any = read.stream()
    async with aclosing(stream) as batches:
        async for batch in batches:
            if not batch.num_rows:
                continue
            arrays: list[Any] = batch.columns
            for place, sequence in numbered.items():
                numbers = await next_values(running, sequence, batch.num_rows)
                arrays[place] = pa.array(numbers, pa.int64())
            typed = [array.cast(field.type) for array, field in zip(arrays, physical, strict=True)]
            rows = pa.record_batch(typed, schema=physical)
            if laid_out is not None:
                await laid_out.write(rows)
            else:
                txn.write(relation.shard, rows)
            await txn.spill()
    if laid_out is not None:
        await laid_out.finish()


# ---------------------------------------------------------------- types of columns


async def set_types(
    running: Running,
    catalog: CatalogSnapshot,
    old: Relation,
    actions: Sequence[st.SetColumnType],
    rules: NewRules,
) -> None:
    """All the ALTER COLUMN TYPE of a statement: it is rewritten once, into a new shard, unless what is stored can be
    be read as the new types. USING reads the rows of `old`, which `catalog` has: the table before the statement."""
    relation = own_catalog(running).get(old.oid)
    assert isinstance(relation, Relation)
    changed = relation
    changes: dict[int, ColumnChange] = {}
    actions = [replace(action, type=type_held(catalog, relation, action.type)) for action in actions]
    for action in actions:
        column = require_column(changed, action.name)
        await _check_unseen(running, relation, column)
        _check_no_source(running, relation, column, action)
        if column.attnum in changes and changes[column.attnum].type != _type_of(old, column.attnum):
            raise FeatureNotSupported(f'cannot alter type of column "{column.name}" twice')
        if column.sequence is not None:
            await _retype_sequence(running, column, action.type)
        refuse_itself(relation, action.type.declared_oid)
        refuse_stored(catalog, relation)
        column = retyped(column, action.type, collation=collation_of(action.type, action.collation))
        if column.default is not None:
            _check_converted_default(running, relation, column)
        changed = with_column(changed, column)
        changes[column.attnum] = ColumnChange(type=action.type, written=action.written_using)
    changed = await with_kept_fields(running, changed)
    foreign = retyped_foreign_keys(own_catalog(running), changed, changes.keys())
    stays = not _has_written(running, relation) and all(
        action.using is None and widens(require_column(relation, action.name), action.type) for action in actions
    )
    await _set_types(running, catalog, old, changed, changes, rules, stays=stays)
    if not stays:
        rules.keys.extend(key.oid for key in foreign if key.validated)


async def set_held(
    running: Running, catalog: CatalogSnapshot, relation: Relation, types: Mapping[int, t.SqlType], rules: NewRules
) -> None:
    """Let values of columns (attnums) of `relation`, which `catalog` has, be held as these types say; what is declared
    of the columns stays, and so does whatever depends on them."""
    changed = relation
    for attnum, type_ in types.items():
        column = next(column for column in relation.columns if column.attnum == attnum)
        changed = with_column(changed, replace(column, holds_nan=t.holds_nan(type_)))
    changes = {attnum: ColumnChange(type=type_) for attnum, type_ in types.items()}
    await _set_types(running, catalog, relation, changed, changes, rules, stays=False)


async def _set_types(
    running: Running,
    catalog: CatalogSnapshot,
    old: Relation,
    changed: Relation,
    changes: Mapping[int, ColumnChange],
    rules: NewRules,
    *,
    stays: bool,
) -> None:
    """Put `changed` in the place of `old`, which `catalog` has; what is stored `stays` where it can be read so."""
    relation = own_catalog(running).get(old.oid)
    assert isinstance(relation, Relation)
    await permitted_layout(running, changed)
    checks = retyped_checks(running, changed, changes)
    change(running, removed=[old_check for old_check, _ in checks], added=[new_check for _, new_check in checks])
    rules.checks.extend(check.oid for check, _ in checks if check.validated)
    indexes = retyped_indexes(running, changed, changes)
    change(running, removed=[index for index, _ in indexes], added=[index for _, index in indexes])
    retype_exclusions(running, [index for _, index in indexes])
    statistics = retyped_statistics(running, changed)
    change(running, removed=[old_one for old_one, _ in statistics], added=[new_one for _, new_one in statistics])
    if stays:
        change(running, removed=[relation], added=[changed])
        alter_shard(running, changed)
        return
    context = running.session.bind_context(catalog)
    live = [column.attnum for column in relation.live_columns()]
    query = rewritten_rows(old, live, changes, running.parsed, context)
    changed = await rewrite_table(running, catalog, relation, changed, query)
    now = own_catalog(running)
    keys = [key for key in now.constraints(changed.oid) if key.kind in "pu" and key.enforced]
    rules.keys.extend(key.oid for key in keys if not changes.keys().isdisjoint(key.columns))
    touched = [index for index in now.indexes(changed.oid) if any(map(index.uses, changes))]
    rules.keys.extend(index.oid for index in touched if index.enforced)
    rules.not_null.update(column.attnum for column in changed.columns if column.not_null and column.attnum in changes)


def _type_of(relation: Relation, attnum: int) -> t.SqlType:
    column = next(column for column in relation.columns if column.attnum == attnum)
    return t.type_of_column(column)


async def _check_unseen(running: Running, relation: Relation, column: Column) -> None:
    """0A000 for a column that a view, the body of a function or a policy names."""
    catalog = own_catalog(running)
    users = await users_of_column(running, relation, column)
    if not users:
        return
    user = min(users, key=lambda record: record.oid)
    what = named(running, catalog, user)
    if isinstance(user, Relation):
        kind, what = "by a view or rule", f"rule _RETURN on {what}"
    else:
        kind = "in a policy definition" if isinstance(user, Policy) else "by a function or procedure"
    raise FeatureNotSupported(
        f"cannot alter type of a column used {kind}", detail=f'{what} depends on column "{column.name}"'
    )


def check_sequence_type(running: Running, column: Column, wanted: t.SqlType) -> SequenceRecord:
    """The sequence of an identity column, which has the column's type. Raises 22023 where that is none for it."""
    sequence = own_catalog(running).get(column.sequence or 0)
    assert isinstance(sequence, SequenceRecord)
    configured(sequence, st.SequenceOptions(type=wanted), fresh=False, identity=True)
    return sequence


async def _retype_sequence(running: Running, column: Column, wanted: t.SqlType) -> None:
    sequence = check_sequence_type(running, column, wanted)
    changed = await altered(running, sequence, st.SequenceOptions(type=wanted))
    if changed != sequence:
        change(running, removed=[sequence], added=[changed])


def _check_no_source(running: Running, relation: Relation, column: Column, action: st.SetColumnType) -> None:
    """0A000 for a column that others are generated from, 42611 for USING with one that is generated."""
    dependents = generated_from(running, relation, column.attnum)
    if dependents:
        raise FeatureNotSupported(
            "cannot alter type of a column used by a generated column",
            detail=f'Column "{column.name}" is used by generated column "{dependents[0].name}".',
        )
    if column.generated and action.using is not None:
        raise InvalidColumnDefinition(
            "cannot specify USING when altering type of generated column",
            detail=f'Column "{column.name}" is a generated column.',
        )


def _check_converted_default(running: Running, relation: Relation, column: Column) -> None:
    """42804 when the column's default or generation expression is no value of its new type by itself."""
    what = "generation expression" if column.generated else "default"
    try:
        if column.generated:
            context = running.session.bind_context(own_catalog(running))
            generation_expression(with_column(relation, column), column, context, stored=True)
        else:
            default_query(running, column)
    except DatatypeMismatch:
        raise DatatypeMismatch(
            f'{what} for column "{column.name}" cannot be cast automatically to type {format_type(column.type_oid)}'
        ) from None


_WIDER = {t.INT2: (t.INT4, t.INT8), t.INT4: (t.INT8,), t.FLOAT4: (t.FLOAT8,), t.VARCHAR: (t.VARCHAR, t.TEXT)}
"""Types whose values are stored so that reading them as the others is a cast which cannot fail."""


def widens(column: Column, wanted: t.SqlType) -> bool:
    """Whether a file written with the type of `column` can be read as `wanted`."""
    if wanted.domain or wanted.dimensioned != column.dimensioned:
        return False
    if column.type_oid == t.NUMERIC == wanted.oid:
        old, new = t.numeric_precision_scale(column.typmod), t.numeric_precision_scale(wanted.typmod)
        wide = t.is_wide(t.type_of_column(column)), t.is_wide(wanted)
        return wide[0] == wide[1] and old is not None and new is not None and old[1] == new[1] and old[0] <= new[0]
    if wanted.oid not in _WIDER.get(column.type_oid, ()):
        return False
    if column.type_oid == t.FLOAT4:
        # The text of a float4 is no float8's.
        return column.missing is None
    return wanted.typmod == -1 or (column.type_oid == wanted.oid and 0 <= column.typmod <= wanted.typmod)


def _has_written(running: Running, relation: Relation) -> bool:
    """Whether the open transaction has rows of its own in `relation`, made for the types as they were."""
    if running.transaction.is_own_table(relation):
        return True
    txn = running.transaction.txn
    return txn is not None and relation.shard is not None and bool(txn.local_parts(relation.shard))
