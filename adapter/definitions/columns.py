"""Dropping columns, with what depends on them or refusing to."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.definitions.common.catalog_changes import change, without_column
from adapter.definitions.common.layouts import refuse_laid_out
from adapter.definitions.constraints.checks import without_constraints
from adapter.definitions.constraints.generation import generated_from
from adapter.definitions.constraints.keys import forget_names, referring
from adapter.definitions.dependents import dependents_of, named, remove, report_cascade
from adapter.definitions.indexes.upkeep import indexes_with
from adapter.definitions.policies.upkeep import of_column
from adapter.definitions.rewriting import alter_shard
from adapter.definitions.views import broken_views, drop_column_in_views
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import describe, shown_name
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.common_errors import missing_column
from planner.errors import DependentObjectsStillExist
from planner.statements import records as st
from storage.catalog.acl import Acl
from storage.catalog.model import CatalogSnapshot, Column, Comment, Constraint, Index, Relation
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.record import Record


def drop_column(running: Running, relation: Relation, action: st.DropColumn) -> None:
    """DROP COLUMN, with what depends on the column."""
    column = relation.column(action.name)
    if column is None:
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
    relation = _drop_generated(running, relation, column, cascade=action.cascade)
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
    if through:
        what = f"column {column.name} of {describe(running, catalog, relation)}"
        drop_referring(running, through, what, what, cascade=action.cascade)
        lost += through
    for key in list(lost):
        rests = [foreign for foreign in referring(catalog, key) if foreign not in lost]
        if rests:
            what = f"column {column.name} of {describe(running, catalog, relation)}"
            drop_referring(running, rests, what, what, cascade=action.cascade)
            lost += rests
    changed = without_constraints(without_column(relation, column), lost)
    what = f"column {column.name} of {describe(running, catalog, relation)}"
    _drop_dependents(running, catalog, relation, changed, what, cascade=action.cascade)
    gone = {record.oid for record in lost}
    parts = [
        record
        for record in own_catalog(running).all()
        if record.oid in gone
        or (isinstance(record, (Comment, Acl)) and record.object_oid == relation.oid and record.subid == column.attnum)
        or (isinstance(record, Comment) and record.object_oid in gone)
        or (isinstance(record, SequenceRecord) and record.owned_by == (relation.oid, column.attnum))
    ]
    views = drop_column_in_views(own_catalog(running), relation, changed)
    change(
        running,
        removed=[relation, *parts, *(old for old, _ in views)],
        added=[changed, *(new for _, new in views)],
    )
    forget_names(running, lost)
    alter_shard(running, changed)


def _drop_generated(running: Running, relation: Relation, column: Column, *, cascade: bool) -> Relation:
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
        drop_column(running, relation, st.DropColumn(name=dependent.name, cascade=True))
        current = own_catalog(running).get(relation.oid)
        assert isinstance(current, Relation)
        relation = current
    return relation


def _drop_dependents(
    running: Running, catalog: CatalogSnapshot, relation: Relation, changed: Relation, what: str, *, cascade: bool
) -> None:
    """Refuse, or drop with CASCADE, the views that no longer bind once `relation` is `changed`."""
    edited = dict(drop_column_in_views(catalog, relation, changed))
    broken = broken_views(running, catalog, relation, changed, edited)
    left = {column.attnum for column in changed.live_columns()}
    gone = [column.attnum for column in relation.live_columns() if column.attnum not in left]
    policies = [policy for attnum in gone for policy in of_column(catalog, relation, attnum)]
    if not broken and not policies:
        return
    direct: list[Record] = sorted([*broken, *policies], key=lambda record: record.oid)
    reports: list[tuple[Record, str]] = [(record, what) for record in direct]
    doomed: dict[int, Record] = {record.oid: record for record in direct}
    for record, parent in dependents_of(catalog, doomed):
        doomed[record.oid] = record
        reports.append((record, describe(running, catalog, parent)))
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
