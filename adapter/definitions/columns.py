"""Dropping columns, with what depends on them or refusing to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, refuse_system_column, with_column, without_column
from adapter.definitions.common.layouts import refuse_laid_out
from adapter.definitions.common.table_rows import alter_shard
from adapter.definitions.constraints.checks import remove_constraints, without_constraints
from adapter.definitions.constraints.generation import generated_from
from adapter.definitions.constraints.keys import forget_names, referring
from adapter.definitions.dependents import Dependents, named, remove, report_cascade
from adapter.definitions.indexes.upkeep import indexes_with, remove_index
from adapter.definitions.statistics.upkeep import statistics_with
from adapter.definitions.views import drop_column_in_queries, users_of_column
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import describe, kind_of, shown_name
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.common_errors import missing_column
from planner.errors import DependentObjectsStillExist, FeatureNotSupported
from planner.statements import records as st
from planner.types.composites import composites_over
from planner.types.derived_oids import array_type_oid, row_type_oid
from planner.types.user_types import fields_mentioned, rows_mentioned
from storage.catalog.access import Policy
from storage.catalog.acl import Acl
from storage.catalog.model import CatalogSnapshot, Column, Comment, Constraint, DomainType, Index, Relation
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.record import Record
from storage.catalog.routines import Function


async def drop_column(running: Running, relation: Relation, action: st.DropColumn) -> None:
    """DROP COLUMN, with what depends on the column."""
    column = relation.column(action.name)
    if column is None:
        refuse_system_column(relation, action.name, "drop")
        if not action.if_exists:
            raise missing_column(relation.name, action.name)
        running.session.notice(
            Notice(
                severity="NOTICE",
                sqlstate="00000",
                message=f'column "{action.name}" of relation "{relation.name}" does not exist, skipping',
            )
        )
        return
    if relation.options and relation.kind == "r":
        refuse_laid_out(relation, column)
    relation = await _drop_generated(running, relation, column, cascade=action.cascade)
    await drop_users(running, relation, action)
    current = own_catalog(running).get(relation.oid)
    assert isinstance(current, Relation)
    relation = current
    catalog = own_catalog(running)
    lost: list[Constraint | Index] = [
        record
        for record in catalog.constraints(relation.oid)
        if column.attnum in record.columns or column.attnum in record.include
    ]
    gone_indexes = indexes_with(catalog, relation, column.attnum)
    lost += gone_indexes
    owners = [owner for index in gone_indexes if isinstance(owner := catalog.get(index.constraint or 0), Constraint)]
    through = [owner for owner in owners if owner not in lost]
    lost += through
    for key in list(lost):
        rests = [foreign for foreign in referring(catalog, key) if foreign not in lost]
        through += rests
        lost += rests
    what = f"column {column.name} of {describe(running, catalog, relation)}"
    naming = await users_of_column(running, relation, column)
    _drop_direct(running, catalog, [*naming, *through], what, cascade=action.cascade)
    current = own_catalog(running).get(relation.oid)
    assert isinstance(current, Relation)
    relation = current
    changed = without_constraints(without_column(relation, column), lost)
    gone = {record.oid for record in (*lost, *statistics_with(catalog, relation, column.attnum))}
    parts = [
        record
        for record in own_catalog(running).all()
        if record.oid in gone
        or (isinstance(record, (Comment, Acl)) and record.object_oid == relation.oid and record.subid == column.attnum)
        or (isinstance(record, Comment) and record.object_oid in gone)
        or (isinstance(record, SequenceRecord) and record.owned_by == (relation.oid, column.attnum))
    ]
    views = await drop_column_in_queries(running, relation, column)
    change(
        running,
        removed=[relation, *parts, *(old for old, _ in views)],
        added=[changed, *(new for _, new in views)],
    )
    forget_names(running, lost)
    alter_shard(running, changed)


async def _drop_generated(running: Running, relation: Relation, column: Column, *, cascade: bool) -> Relation:
    """Refuse, or drop with CASCADE, the columns that are generated from `column`. The table's record after that."""
    dependents = generated_from(running, relation, column.attnum)
    if not dependents:
        return relation
    table = shown_name(running, own_catalog(running), relation)
    what = f"column {column.name} of table {table}"
    lines = [f"column {dependent.name} of table {table}" for dependent in dependents]
    if not cascade:
        raise DependentObjectsStillExist(
            f"cannot drop {what} because other objects depend on it",
            detail="\n".join(f"{line} depends on {what}" for line in lines),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    report_cascade(running, [f"drop cascades to {line}" for line in lines])
    for dependent in dependents:
        await drop_column(running, relation, st.DropColumn(name=dependent.name, cascade=True))
        current = own_catalog(running).get(relation.oid)
        assert isinstance(current, Relation)
        relation = current
    return relation


def drop_dependents_of_key(running: Running, relation: Relation, key: Constraint, *, cascade: bool) -> None:
    """Refuse, or drop with CASCADE, the views, functions and policies that name columns because the primary key `key`
    is grouped by."""
    catalog = own_catalog(running)
    found = [
        record
        for record in catalog.all()
        if (isinstance(record, Relation) and key.oid in record.needs_keys)
        or (isinstance(record, (Function, Policy)) and key.oid in record.depends_on)
    ]
    what = f"constraint {key.name} on table {shown_name(running, catalog, relation)}"
    _drop_direct(running, catalog, found, what, cascade=cascade)


def _drop_direct(
    running: Running, catalog: CatalogSnapshot, found: Sequence[Record], what: str, *, cascade: bool
) -> None:
    """Refuse that `what` goes while those `found` depend on it, or drop them with CASCADE."""
    if not found:
        return
    direct = sorted(found, key=lambda record: record.oid)
    reports: list[tuple[Record, str]] = []
    doomed: dict[int, Record] = {record.oid: record for record in direct}
    dependents = Dependents(catalog)
    for each in reversed(direct):
        below = [pair for pair in dependents.of({each.oid: each}) if pair[0].oid not in doomed]
        doomed.update({record.oid: record for record, _ in below})
        described = [(record, describe(running, catalog, parent)) for record, parent in below]
        reports = [(each, what), *described, *reports]
    if not cascade:
        raise DependentObjectsStillExist(
            f"cannot drop {what} because other objects depend on it",
            detail="\n".join(f"{named(running, catalog, record)} depends on {on}" for record, on in reports),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    report_cascade(running, [f"drop cascades to {named(running, catalog, record)}" for record, _ in reports])
    remove(running, catalog, doomed.values())


def drop_referring(running: Running, lost: Sequence[Constraint], what: str, rests_on: str, *, cascade: bool) -> None:
    """2BP01 for `what` is dropped when the foreign keys `lost` rest on it, unless they go with it (CASCADE)."""
    catalog = own_catalog(running)
    tables = [record for foreign in lost if isinstance(record := catalog.get(foreign.relation), Relation)]
    named = [
        f"constraint {foreign.name} on table {shown_name(running, catalog, table)}"
        for foreign, table in zip(lost, tables, strict=True)
    ]
    if not cascade:
        raise DependentObjectsStillExist(
            f"cannot drop {what} because other objects depend on it",
            detail="\n".join(f"{name} depends on {rests_on}" for name in named),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    report_cascade(running, [f"drop cascades to {name}" for name in named])


# ---------------------------------------------------------------- fields


async def drop_users(running: Running, relation: Relation, action: st.DropColumn) -> None:
    """Refuse, or drop with CASCADE, the expressions that select the field which `action` drops of values of the type of
    `relation`, a composite type or the rows of a table or view."""
    column = relation.column(action.name)
    if column is None:
        return
    await _drop_users(running, relation, column, cascade=action.cascade)
    _refuse_written(running, own_catalog(running), relation, column)


async def _drop_users(running: Running, relation: Relation, column: Column, *, cascade: bool) -> None:
    catalog = own_catalog(running)
    users = [record for record in catalog.all() if _fields_in(record, (relation.oid, column.attnum))]
    if not users:
        return
    what = f"column {column.name} of {kind_of(relation)} {shown_name(running, catalog, relation)}"
    doomed: dict[int, Record] = {}
    lines: list[tuple[str, str]] = []
    dependents = Dependents(catalog)
    for user in sorted(users, key=lambda user: user.oid):
        if user.oid in doomed:
            continue
        found = [user] if not isinstance(user, Relation) or user.definition is not None else []
        lines += [(each, what) for each in _described_user(running, catalog, user, (relation.oid, column.attnum))]
        doomed.update({each.oid: each for each in found})
        for record, parent in dependents.of({each.oid: each for each in found if isinstance(each, Relation)}):
            if record.oid not in doomed:
                doomed[record.oid] = record
                lines.append((named(running, catalog, record), describe(running, catalog, parent)))
    if not cascade:
        raise DependentObjectsStillExist(
            f"cannot drop {what} because other objects depend on it",
            detail="\n".join(f"{user} depends on {on}" for user, on in lines),
            hint="Use DROP ... CASCADE to drop the dependent objects too.",
        )
    report_cascade(running, [f"drop cascades to {user}" for user, _ in lines])
    remove(running, catalog, [each for each in doomed.values() if isinstance(each, (Relation, Policy, Function))])
    for user in users:
        current = own_catalog(running).get(user.oid)
        if current is not None:
            await _remove_user(running, current, (relation.oid, column.attnum))


def _refuse_written(running: Running, catalog: CatalogSnapshot, relation: Relation, column: Column) -> None:
    """0A000 when an expression has a row of the type, or of one with such fields, written out: its fields are known by
    their places."""
    made = {relation.oid, *(each.oid for each in composites_over(catalog, relation.oid))}
    types = {type_oid for oid in made for type_oid in (row_type_oid(oid), array_type_oid(oid))}
    for record in catalog.all():
        columns = record.live_columns() if isinstance(record, Relation) else ()
        # The row of a default may have its type from the column.
        implied = any(column.type_oid in types and "ROW(" in (column.default or "") for column in columns)
        if implied or any(not made.isdisjoint(rows_mentioned(text)) for text in _texts(record) if text):
            raise FeatureNotSupported(
                f'cannot drop column "{column.name}" because {named(running, catalog, record)} has a row of type '
                f'"{relation.name}" in an expression'
            )


def _fields_in(record: Record, field: tuple[int, int]) -> bool:
    """Whether an expression of `record` selects the field."""
    return any(field in fields_mentioned(text) for text in _texts(record) if text)


def _texts(record: Record) -> Iterable[str | None]:
    match record:
        case Relation():
            return (record.definition, *(column.default for column in record.live_columns()))
        case Constraint():
            return (record.expression,)
        case Index():
            return (*record.expressions, record.predicate)
        case Policy():
            return (record.using, record.check)
        case DomainType():
            return (record.default, *(check.expression for check in record.checks))
        case Function():
            return (record.sql_body, *(parameter.default for parameter in record.parameters))
        case _:
            return ()


def _described_user(running: Running, catalog: CatalogSnapshot, user: Record, field: tuple[int, int]) -> Iterable[str]:
    if isinstance(user, DomainType):
        yield from (f"constraint {each.name}" for each in user.checks if field in fields_mentioned(each.expression))
        if field in fields_mentioned(user.default or ""):
            yield named(running, catalog, user)
    elif isinstance(user, Relation) and user.definition is None:
        table = describe(running, catalog, user)
        for column in user.live_columns():
            if field in fields_mentioned(column.default or ""):
                yield f"{'' if column.generated else 'default value for '}column {column.name} of {table}"
    else:
        yield named(running, catalog, user)


async def _remove_user(running: Running, user: Record, field: tuple[int, int]) -> None:
    """What CASCADE does with an expression that goes with what it belongs to."""
    if isinstance(user, DomainType):
        if field in fields_mentioned(user.default or ""):
            raise FeatureNotSupported(f"cannot drop the default of domain {user.name} with the field that it selects")
        left = tuple(each for each in user.checks if field not in fields_mentioned(each.expression))
        change(running, removed=[user], added=[replace(user, checks=left)])
    elif isinstance(user, Constraint):
        table = own_catalog(running).get(user.relation)
        assert isinstance(table, Relation)
        remove_constraints(running, table, [user])
    elif isinstance(user, Index):
        remove_index(running, user)
    elif isinstance(user, Relation):
        for column in user.live_columns():
            current = own_catalog(running).get(user.oid)
            assert isinstance(current, Relation)
            if field not in fields_mentioned(column.default or ""):
                continue
            if column.generated:
                await drop_column(running, current, st.DropColumn(name=column.name, cascade=True))
            else:
                change(running, removed=[current], added=[with_column(current, replace(column, default=None))])
