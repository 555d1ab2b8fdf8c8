"""DROP of tables, views, sequences, types and schemas, with what depends on them.

Views depend on the relations their queries read, sequences on the column that owns them, everything on its schema.
RESTRICT refuses (2BP01) and lists the dependents; CASCADE drops them too and says so in a notice.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from adapter.definitions.common.catalog_changes import change, with_column
from adapter.definitions.common.in_use import refuse_in_use
from adapter.definitions.common.owners import require_droppable, require_owner
from adapter.definitions.dependents import dependents_of, named, notify, refuse, remove, report_cascade
from adapter.definitions.extensions.changes import find, require
from adapter.definitions.foreign.servers import described_mapping, find_server, require_server
from adapter.definitions.policies.changes import dropped_policies
from adapter.definitions.routines.names import find_routine
from adapter.definitions.sequences import identity_owner
from adapter.definitions.statistics.changes import find_statistics, require_statistics
from adapter.definitions.type_uses import (
    ColumnUse,
    TypeUse,
    ViewUse,
    droppable_type,
    remove_use,
    type_rested_on,
    uses_of_types,
)
from adapter.definitions.types.names import look_up_type
from adapter.execution.guards import own_catalog, prevent_in_block
from adapter.execution.relation_names import SYSTEM_SCHEMAS, check_database, kind_of, look_up, shown_name, with_article
from adapter.execution.statement import Running
from planner.common_errors import missing_schema
from planner.errors import (
    DependentObjectsStillExist,
    FeatureNotSupported,
    UndefinedFunction,
    UndefinedObject,
    UndefinedTable,
    WrongObjectType,
)
from planner.extensions.available import PLPGSQL
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.syntax.object_kinds import words_of
from planner.types.table_indexes import constraint_of_index
from storage.catalog.access import Policy
from storage.catalog.model import (
    CatalogSnapshot,
    Column,
    Constraint,
    Index,
    Relation,
    Schema,
)
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.outside import Extension, ForeignServer
from storage.catalog.record import ExtendedStatistics, Record
from storage.catalog.types import UserRange

_RELATION_KINDS = frozenset({"table", "view", "materialized view", "sequence", "index", "foreign table"})
_IN_SCHEMAS = _RELATION_KINDS | {
    "type", "domain", "function", "procedure", "routine", "aggregate", "operator", "collation", "conversion",
    "statistics object",
}  # fmt: skip
"""Kinds of objects that the first part of a qualified name says the schema of."""


async def drop(running: Running, statement: st.Drop) -> None:
    """DROP of everything but databases and roles."""
    if statement.concurrently:
        _check_concurrent(running, statement)
    if statement.kind == "schema":
        await _drop_schemas(running, statement)
    elif statement.kind in _RELATION_KINDS:
        await _drop_relations(running, statement)
    elif statement.kind in ("type", "domain"):
        await _drop_types(running, statement)
    elif statement.kind == "extension":
        await _drop_extensions(running, statement)
    elif statement.kind == "server":
        await _drop_servers(running, statement)
    elif statement.kind == "policy":
        remove(running, own_catalog(running), dropped_policies(running, statement))
    elif statement.kind == "statistics object":
        await _drop_statistics(running, statement)
    elif statement.routines:
        await _drop_routines(running, statement)
    elif statement.if_exists and statement.kind in ("trigger", "rule"):
        _skip_of_relations(running, statement)
    elif statement.if_exists:
        for name in statement.names:
            if not _without_schema(running, statement, name):
                notify(running, f'{statement.kind} "{name}" does not exist, skipping')
    else:
        raise FeatureNotSupported(f"DROP {words_of(statement.kind)} is not supported")


def _skip_of_relations(running: Running, statement: st.Drop) -> None:
    """The notices for triggers and rules, of which no relation has any. Their names are qualified by its own."""
    for name in statement.names:
        owner = st.QualifiedName(schema=name.database, name=name.schema or "")
        if owner.schema is not None and own_catalog(running).schema(owner.schema) is None:
            notify(running, f'schema "{owner.schema}" does not exist, skipping')
        elif look_up(running, own_catalog(running), owner) is None:
            notify(running, f'relation "{owner}" does not exist, skipping')
        else:
            what = f'{statement.kind} "{name.name}" for relation "{owner}"'
            notify(running, f"{what} does not exist, skipping")


def _check_concurrent(running: Running, statement: st.Drop) -> None:
    if len(statement.names) > 1:
        raise FeatureNotSupported("DROP INDEX CONCURRENTLY does not support dropping multiple objects")
    if statement.cascade:
        raise FeatureNotSupported("DROP INDEX CONCURRENTLY does not support CASCADE")
    prevent_in_block(running, "DROP INDEX CONCURRENTLY")


def _without_schema(running: Running, statement: st.Drop, name: st.QualifiedName) -> bool:
    """Whether the schema in `name` does not exist: True with a notice when that is to be skipped, else 3F000."""
    if statement.kind in _IN_SCHEMAS:
        check_database(running, name)
    if name.schema is None or statement.kind not in _IN_SCHEMAS or own_catalog(running).schema(name.schema) is not None:
        return False
    if not statement.if_exists:
        raise missing_schema(name.schema)
    notify(running, f'schema "{name.schema}" does not exist, skipping')
    return True


async def _drop_relations(running: Running, statement: st.Drop) -> None:
    catalog = own_catalog(running)
    targets: dict[int, Record] = {}
    for name in statement.names:
        if _without_schema(running, statement, name):
            continue
        record = look_up(running, catalog, name)
        if record is None:
            if not statement.if_exists:
                missing = UndefinedObject if statement.kind == "index" else UndefinedTable
                raise missing(f'{statement.kind} "{name.name}" does not exist')
            notify(running, f'{statement.kind} "{name.name}" does not exist, skipping')
            continue
        actual = kind_of(record)
        if actual != statement.kind:
            raise WrongObjectType(
                f'"{record.name}" is not {with_article(statement.kind)}',
                hint="Use DROP TYPE to remove a type."
                if actual == "composite type"
                else f"Use DROP {actual.upper()} to remove {with_article(actual)}.",
            )
        require_droppable(running, record)
        if isinstance(record, Index):
            _refuse_required(running, catalog, record)
        if isinstance(record, Relation):
            refuse_in_use(running, record, f"DROP {statement.kind.upper()}")
        targets[record.oid] = record
    await drop_all(running, catalog, targets, cascade=statement.cascade)


def _refuse_required(running: Running, catalog: CatalogSnapshot, index: Index) -> None:
    """2BP01 for the index of a constraint."""
    constraint = constraint_of_index(catalog, index.oid)
    if constraint is not None:
        owner = named(running, catalog, constraint)
        raise DependentObjectsStillExist(
            f"cannot drop {named(running, catalog, index)} because {owner} requires it",
            hint=f"You can drop {owner} instead.",
        )


async def _drop_types(running: Running, statement: st.Drop) -> None:
    catalog = own_catalog(running)
    targets: dict[int, Record] = {}
    for name in statement.names:
        if _without_schema(running, statement, name):
            continue
        row = look_up_type(running, name)
        if row is None:
            if not statement.if_exists:
                raise UndefinedObject(f'type "{name}" does not exist')
            notify(running, f'type "{name}" does not exist, skipping')
            continue
        if statement.kind == "domain" and row.type != "d":
            raise WrongObjectType(f'"{name}" is not a domain')
        record = droppable_type(running, catalog, row)
        require_droppable(running, record)
        targets[record.oid] = record
    await drop_all(running, catalog, targets, cascade=statement.cascade)


async def _drop_routines(running: Running, statement: st.Drop) -> None:
    targets: dict[int, Record] = {}
    for routine in statement.routines:
        if _without_schema(running, statement, routine.name):
            continue
        if routine.unknown is not None:
            missing_type = routine.unknown.judged(own_catalog(running), running.session.database)
            notify(running, f"{missing_type.message}, skipping")
            continue
        try:
            record = find_routine(running, routine)
        except UndefinedFunction:
            if not statement.if_exists:
                raise
            notify(running, f"{statement.kind} {routine.name}({','.join(routine.written)}) does not exist, skipping")
            continue
        require_droppable(running, record)
        targets[record.oid] = record
    await drop_all(running, own_catalog(running), targets, cascade=statement.cascade)


async def _drop_extensions(running: Running, statement: st.Drop) -> None:
    catalog = own_catalog(running)
    targets: dict[int, Record] = {}
    for name in statement.names:
        if statement.if_exists and name.name != PLPGSQL.name and find(catalog, name.name) is None:
            notify(running, f'extension "{name.name}" does not exist, skipping')
            continue
        record = require(catalog, name.name)
        require_owner(running, record)
        targets[record.oid] = record
    await drop_all(running, catalog, targets, cascade=statement.cascade)


async def _drop_servers(running: Running, statement: st.Drop) -> None:
    catalog = own_catalog(running)
    targets: dict[int, Record] = {}
    for name in statement.names:
        record = find_server(catalog, name.name)
        if record is None and statement.if_exists:
            notify(running, f'server "{name.name}" does not exist, skipping')
            continue
        server = require_server(catalog, name.name)
        require_owner(running, server)
        targets[server.oid] = server
    await drop_all(running, catalog, targets, cascade=statement.cascade)


async def _drop_statistics(running: Running, statement: st.Drop) -> None:
    targets: dict[int, Record] = {}
    for name in statement.names:
        if _without_schema(running, statement, name):
            continue
        if statement.if_exists and find_statistics(running, name) is None:
            notify(running, f'statistics object "{name}" does not exist, skipping')
            continue
        record = require_statistics(running, name)
        require_droppable(running, record)
        targets[record.oid] = record
    await drop_all(running, own_catalog(running), targets, cascade=statement.cascade)


def _mappings_of(catalog: CatalogSnapshot, targets: Mapping[int, Record]) -> list[tuple[str, str]]:
    """The user mappings that go with servers, each with what it depends on."""
    return [
        (described_mapping(catalog, server, mapping), f"server {server.name}")
        for server in targets.values()
        if isinstance(server, ForeignServer)
        for mapping in server.mappings
    ]


def _refuse_members(running: Running, catalog: CatalogSnapshot, doomed: Mapping[int, Record]) -> None:
    """2BP01 for a function of an extension that stays."""
    for extension in catalog.all():
        if isinstance(extension, Extension) and extension.oid not in doomed:
            for oid in extension.members:
                if oid in doomed:
                    raise DependentObjectsStillExist(
                        f"cannot drop {named(running, catalog, doomed[oid])} because "
                        f"extension {extension.name} requires it",
                        hint=f"You can drop extension {extension.name} instead.",
                    )


async def _drop_schemas(running: Running, statement: st.Drop) -> None:
    catalog = own_catalog(running)
    targets: dict[int, Record] = {}
    for name in statement.names:
        if name.name in SYSTEM_SCHEMAS:
            raise DependentObjectsStillExist(
                f"cannot drop schema {name.name} because it is required by the database system"
            )
        schema = catalog.schema(name.name)
        if schema is None:
            if not statement.if_exists:
                raise missing_schema(name.name)
            notify(running, f'schema "{name.name}" does not exist, skipping')
            continue
        require_owner(running, schema)
        targets[schema.oid] = schema
    await drop_all(running, catalog, targets, cascade=statement.cascade)


async def drop_all(running: Running, catalog: CatalogSnapshot, targets: dict[int, Record], *, cascade: bool) -> None:
    """Drop `targets` and, with `cascade`, what depends on them. 2BP01 for what else there is."""
    if not targets:
        return
    doomed: dict[int, Record] = dict(targets)
    reports: list[tuple[Record, Record]] = []
    places = {oid: place for place, oid in enumerate(targets)}
    chains: dict[int, tuple[tuple[int, int], ...]] = {}
    for record, parent in dependents_of(catalog, targets):
        doomed[record.oid] = record
        places[record.oid] = places[parent.oid]
        chains[record.oid] = chains.get(parent.oid, ())
        if not _is_part_of(record, parent):
            reports.append((record, parent))
            chains[record.oid] += ((record.oid, 0),)
    uses = await uses_of_types(running, catalog, doomed)
    columns = {(use.relation.oid, use.column.attnum) for use in uses if isinstance(use, ColumnUse) and not use.default}
    # A constraint goes with its table, what numbers its columns too, and an index with its columns, without a word.
    reports = [
        (record, parent)
        for record, parent in reports
        if _goes_with(record) not in doomed and columns.isdisjoint(_columns_of(record))
    ]
    _refuse_identities(running, catalog, doomed)
    _refuse_members(running, catalog, doomed)
    lines = [
        (named(running, catalog, record), type_rested_on(record, parent) or named(running, catalog, parent))
        for record, parent in reports
    ]
    lines = [*_mappings_of(catalog, targets), *lines]
    defaults = _defaults_using(catalog, doomed)
    for relation, column, sequence in defaults:
        default = f"default value for column {column.name} of table {shown_name(running, catalog, relation)}"
        lines.append((default, named(running, catalog, sequence)))
    if uses:
        # The last target comes first; what depends on arrays, then older objects, each before what depends on it; of
        # one of them later columns.
        on_arrays: dict[int, bool] = {}
        ordered: list[tuple[tuple[int, bool, tuple[tuple[int, int], ...]], tuple[str, str]]] = []
        for (record, parent), line in zip(reports, lines, strict=False):
            on_arrays[record.oid] = on_arrays.get(parent.oid, line[1].endswith("[]"))
            ordered.append(((-places[record.oid], not on_arrays[record.oid], chains[record.oid]), line))
        for use in uses:
            is_plain, *of_column = use.place
            line = (use.described(running, catalog), use.rests_on(running, catalog))
            ordered.append(((-places[_type_of(use)], is_plain, ((of_column[0], of_column[1]),)), line))
        lines = [*lines[len(reports) :], *(line for _, line in sorted(ordered, key=lambda pair: pair[0]))]
    if lines and not cascade:
        refuse(running, catalog, targets, lines)
    if lines:
        report_cascade(running, [f"drop cascades to {dependent}" for dependent, _ in lines])
    for relation, column, _ in defaults:
        current = own_catalog(running).get(relation.oid)
        assert isinstance(current, Relation)
        change(running, removed=[current], added=[with_column(current, msgspec.structs.replace(column, default=None))])
    reading = {use.record.oid: use.record for use in uses if isinstance(use, ViewUse)}
    if reading:
        doomed.update(reading)
        doomed.update({record.oid: record for record, _ in dependents_of(catalog, reading)})
    views = [record for record in doomed.values() if isinstance(record, Relation) and record.definition is not None]
    remove(running, own_catalog(running), views if uses else ())
    for use in uses:
        await remove_use(running, use)
    left = own_catalog(running)
    remove(running, left, [record for record in doomed.values() if left.get(record.oid) is not None])


def _type_of(use: TypeUse) -> int:
    """The oid of the record of the type that is used."""
    return use.column.type_oid if isinstance(use, ViewUse) else use.type_oid


def _refuse_identities(running: Running, catalog: CatalogSnapshot, doomed: Mapping[int, Record]) -> None:
    """2BP01 for the sequence of an identity column whose table stays."""
    for record in doomed.values():
        owner = identity_owner(catalog, record) if isinstance(record, SequenceRecord) else None
        if owner is not None and owner[0].oid not in doomed:
            column = f"column {owner[1].name} of table {shown_name(running, catalog, owner[0])}"
            raise DependentObjectsStillExist(
                f"cannot drop {named(running, catalog, record)} because {column} requires it",
                hint=f"You can drop {column} instead.",
            )


def _defaults_using(
    catalog: CatalogSnapshot, doomed: Mapping[int, Record]
) -> list[tuple[Relation, Column, SequenceRecord]]:
    """The columns of tables that stay whose default takes a number of a sequence that goes."""
    sequences = [record for record in doomed.values() if isinstance(record, SequenceRecord)]
    if not sequences:
        return []
    return [
        (relation, column, sequence)
        for relation in catalog.all()
        if isinstance(relation, Relation) and relation.oid not in doomed
        for column in relation.live_columns()
        if column.default is not None and "::regclass" in column.default
        for sequence in sequences
        if any(constant in column.default for constant in _constants(catalog, sequence))
    ]


def _constants(catalog: CatalogSnapshot, sequence: SequenceRecord) -> tuple[str, ...]:
    """How a default says which sequence it means: by number, or by name where it is of an earlier version."""
    schema = catalog.get(sequence.schema)
    name = quote_identifier(sequence.name)
    if isinstance(schema, Schema):
        name = f"{quote_identifier(schema.name)}.{name}"
    return f"'{sequence.oid}'::regclass", f"{quote_literal(name)}::regclass"


def _goes_with(record: Record) -> int | None:
    """The oid of the table, or of the range, that `record` is a part of."""
    if isinstance(record, (Constraint, Policy, ExtendedStatistics, Index)):
        return record.relation
    if isinstance(record, UserRange):
        return record.range if record.is_multirange else None
    return record.owned_by[0] if isinstance(record, SequenceRecord) and record.owned_by is not None else None


def _columns_of(record: Record) -> set[tuple[int, int]]:
    """The columns that `record`, an index, goes with: their tables and numbers."""
    if not isinstance(record, Index):
        return set()
    return {(record.relation, attnum) for attnum in (*record.columns, *record.include)}


def _is_part_of(record: Record, parent: Record) -> bool:
    """A sequence goes with the column that owns it, a function with its extension, a multirange with its range, without
    a word."""
    if isinstance(parent, Extension) and not isinstance(record, (Constraint, Index)):
        return True
    if isinstance(record, UserRange) and isinstance(parent, UserRange):
        return True
    return isinstance(record, SequenceRecord) and record.owned_by is not None and record.owned_by[0] == parent.oid
