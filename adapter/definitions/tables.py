"""CREATE TABLE, CREATE TABLE AS, CREATE VIEW, TRUNCATE."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import msgspec

from adapter.changes.with_changes import run_rows
from adapter.definitions.common.catalog_changes import (
    change,
    check_column_count,
    exists_already,
    forget_shard,
    new_oid,
    new_shard_id,
    owner_oid,
)
from adapter.definitions.common.columns import (
    collation_of,
    column_of_type,
    retyped,
    stored_columns,
    with_kept_fields,
)
from adapter.definitions.common.in_use import refuse_in_use
from adapter.definitions.common.layouts import PLAIN_TABLES, copied_layout, permitted_layout
from adapter.definitions.common.owners import require_owner
from adapter.definitions.common.table_options import as_reloptions, checked_options, retained_of
from adapter.definitions.common.table_rows import fill_table, make_shard
from adapter.definitions.constraints.checks import copied_checks, declared_checks, with_constraints
from adapter.definitions.constraints.generation import checked_default, with_generations
from adapter.definitions.constraints.keys import declared_keys, name_in_parents, with_not_null
from adapter.definitions.indexes.copies import copied_keys, copy_comments, copy_indexes
from adapter.definitions.indexes.exclusion import declared_exclusions, with_exclusions
from adapter.definitions.materialized.creation import create_materialized_view
from adapter.definitions.policies.view_options import view_options
from adapter.definitions.sequences import copied_identity, numbered_column, owned_sequences, restarted
from adapter.definitions.statistics.upkeep import copy_statistics
from adapter.definitions.types.typed_tables import require_usable
from adapter.definitions.views import add_columns_in_queries
from adapter.execution.guards import own_catalog
from adapter.execution.prepared import check_unchanged
from adapter.execution.relation_locks import lock_read
from adapter.execution.relation_names import creation_schema, find_like_source, find_relation, look_up
from adapter.execution.statement import RowsOutcome, Running
from adapter.plans.plan_cache import Plan, make_plan
from adapter.publishing.published_tables import check_publishable, type_held
from adapter.publishing.published_views import check_view_publishable
from adapter.queries.past.evaluated_moments import look_up_past
from adapter.queries.prepared_read import PreparedRead
from adapter.queries.read import execution_context, prepare_plan
from adapter.queries.single_row import bind_execute_params
from adapter.results import Command, Notice
from adapter.transactions.snapshots import ResolvedTables
from planner.analyze import BindContext, define_view
from planner.collations.derivation import Collations
from planner.common_errors import existing_relation, repeated_column
from planner.copies.tables_of_files import table_of_files
from planner.definitions.updatability import why_not_updatable
from planner.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidTableDefinition,
    SqlSyntaxError,
    WrongObjectType,
)
from planner.ir.bound import BoundQuery
from planner.statements import records as st
from planner.types.derived_oids import row_type_oid
from planner.types.operator_classes import collation_name, column_collation
from planner.types.type_names import format_type
from planner.types.types import type_of_column
from planner.types.user_types import mentioned
from planner.utility.tables import check_column_name
from storage.catalog.model import (
    COMPOSITE,
    CatalogSnapshot,
    Column,
    Constraint,
    Index,
    Relation,
    Schema,
)
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.temporary import is_temporary

# ---------------------------------------------------------------- CREATE TABLE


async def create_table(running: Running, statement: st.CreateTable) -> None:
    """CREATE TABLE."""
    await make_table(running, statement)


async def make_table(running: Running, statement: st.CreateTable, *, exact: bool = False) -> Relation | None:
    """CREATE TABLE; the record of the table, None for one that was there already or that a query filled. `exact`: all
    columns are those of the only table that it is LIKE, dropped ones among them, as that one's files have them."""
    taken_over = table_of_files(statement)
    if taken_over is not None:
        await running.session.look_up_files(taken_over.query, anew=True)
        await create_table_as(running, taken_over)
        return None
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name, located=True, temporary=statement.temporary)
    if statement.unlogged and is_temporary(schema.oid):
        raise InvalidTableDefinition(
            "only temporary relations may be created in temporary schemas", position=statement.name.position
        )
    if statement.if_not_exists and exists_already(running, catalog, schema, statement.name, skip=True):
        return None
    if statement.at_fault is not None:
        # A prepared statement raises it each time that it is run.
        raise statement.at_fault.with_traceback(None)
    _check_on_commit(schema, statement.on_commit)
    likes = [(like, find_like_source(running, catalog, like.table)) for like in statement.likes]
    exists_already(running, catalog, schema, statement.name, skip=False)
    table_oid = new_oid(running, schema.oid)
    for _, source in likes:
        if source.kind == COMPOSITE:
            running.session.rights(catalog).require("T", row_type_oid(source.oid), "U")
        else:
            running.session.rights(catalog).require("r", source.oid, "r")
    running.transaction.rely_on(source for _, source in likes)
    definitions = _definitions(statement, likes)
    if exact:
        definitions = list(likes[0][1].columns)
    columns, sequences = _columns(running, statement, definitions, schema, table_oid)
    check_column_count(len(columns))
    name = statement.name.name
    options = checked_options(statement.options, PLAIN_TABLES)
    for like, source in likes:
        if "storage" in like.including:
            options = {**copied_layout(source), **options}
    relation = Relation(
        oid=table_oid,
        name=name,
        schema=schema.oid,
        owner=owner_oid(running),
        kind="r",
        columns=tuple(with_not_null(columns, statement.constraints)),
        shard=new_shard_id(running, table_oid),
        options=as_reloptions(options),
        retain_ms=retained_of(options),
        of_type=statement.of_type,
    )
    if statement.of_type:
        require_usable(running, catalog, statement.of_type)
    written = {
        attnum: column for attnum, column in enumerate(definitions, 1) if isinstance(column, st.ColumnDefinition)
    }
    held = [
        retyped(column, type_held(catalog, relation, type_of_column(column))) if column.attnum in written else column
        for column in relation.columns
    ]
    relation = await with_kept_fields(running, msgspec.structs.replace(relation, columns=tuple(held)))
    check_publishable(relation)
    await permitted_layout(running, relation)
    bare: Relation | None = None
    if _has_expressions(statement):
        # They may name the table and the sequences of its columns.
        bare = _without_defaults(relation, written)
        change(running, added=[bare, *sequences])
        relation = msgspec.structs.replace(relation, columns=_with_defaults(running, relation, written))
    relation = with_generations(running, relation, written)
    # Nothing is there yet that they would have to be held against.
    valid = [msgspec.structs.replace(definition, not_valid=False) for definition in statement.constraints]
    constraints = await declared_checks(running, relation, valid)
    for like, source in likes:
        if "constraints" in like.including:
            constraints.extend(copied_checks(running, relation, source, constraints))
    copied = [source for like, source in likes if "indexes" in like.including]
    for source in copied:
        valid += copied_keys(running, source)
    own = [definition for definition in valid if definition.kind != "f"]
    constraints.extend(declared_keys(running, relation, own, constraints))
    exclusions = declared_exclusions(running, with_constraints(relation, constraints), own, constraints)
    foreign = [definition for definition in valid if definition.kind == "f"]
    known = [*constraints, *(constraint for constraint, _ in exclusions)]
    constraints.extend(declared_keys(running, relation, foreign, known))
    relation = with_constraints(relation, constraints)
    relation = with_exclusions(relation, exclusions)
    excluding = [record for pair in exclusions for record in pair]
    if bare is None:
        change(running, added=[relation, *sequences, *constraints, *excluding])
    else:
        change(running, removed=[bare], added=[relation, *constraints, *excluding])
    for like, source in likes:
        indexes = copy_indexes(running, relation, source) if "indexes" in like.including else {}
        if "statistics" in like.including:
            indexes |= await copy_statistics(running, relation, source)
        if "comments" in like.including:
            copy_comments(running, relation, source, like.including, indexes)
    name_in_parents(running, constraints)
    make_shard(running, relation)
    _at_commit(running, relation, statement.on_commit)
    return relation


def _check_on_commit(schema: Schema, on_commit: str) -> None:
    """42P16 for ON COMMIT of a table that is not temporary."""
    if on_commit != "none" and not is_temporary(schema.oid):
        raise InvalidTableDefinition("ON COMMIT can only be used on temporary tables")


def _at_commit(running: Running, relation: Relation, on_commit: str) -> None:
    """Let ON COMMIT happen to a temporary table at the end of transactions."""
    if on_commit in ("delete", "drop"):
        running.transaction.at_commit(relation.oid, on_commit)


def _definitions(
    statement: st.CreateTable, likes: Sequence[tuple[st.LikeClause, Relation]]
) -> list[st.ColumnDefinition | Column]:
    """The columns in order: those that the statement defines, and where it says LIKE those of other tables."""
    definitions: list[st.ColumnDefinition | Column] = list(statement.columns)
    in_order = sorted(likes, key=lambda pair: pair[0].index)
    for like, source in reversed(in_order):
        definitions[like.index : like.index] = [_like(column, like) for column in source.live_columns()]
    return definitions


def _columns(
    running: Running,
    statement: st.CreateTable,
    definitions: Sequence[st.ColumnDefinition | Column],
    schema: Schema,
    table_oid: int,
) -> tuple[list[Column], list[SequenceRecord]]:
    columns: list[Column] = []
    sequences: list[SequenceRecord] = []
    seen: set[str] = set()
    for attnum, definition in enumerate(definitions, 1):
        if definition.name in seen:
            raise repeated_column(definition.name)
        seen.add(definition.name)
        if isinstance(definition, Column):
            column = msgspec.structs.replace(definition, attnum=attnum)
            if column.sequence is not None:
                column, sequence = copied_identity(running, column, statement.name.name, schema, table_oid)
                sequences.append(sequence)
            columns.append(column)
            continue
        column = column_of(definition, attnum)
        if definition.serial or definition.identity:
            table = statement.name.name
            column, sequence = numbered_column(running, definition, column, table, schema, table_oid)
            made = f'implicit sequence "{sequence.name}" for serial column "{table}.{column.name}"'
            running.session.notice(
                Notice(severity="DEBUG", sqlstate="00000", message=f"CREATE TABLE will create {made}")
            )
            sequences.append(sequence)
        columns.append(column)
    return columns, sequences


def _has_expressions(statement: st.CreateTable) -> bool:
    """Whether defaults, generated columns or checks are defined with the table."""
    has_checks = any(constraint.kind == "c" for constraint in statement.constraints)
    return has_checks or any(
        definition.default is not None or definition.generation is not None for definition in statement.columns
    )


def _without_defaults(relation: Relation, written: Mapping[int, st.ColumnDefinition]) -> Relation:
    """The table without what its statement gives as DEFAULT."""
    columns = [
        msgspec.structs.replace(column, default=None) if attnum in written and column.sequence is None else column
        for attnum, column in enumerate(relation.columns, 1)
    ]
    return msgspec.structs.replace(relation, columns=tuple(columns))


def _with_defaults(
    running: Running, relation: Relation, written: Mapping[int, st.ColumnDefinition]
) -> tuple[Column, ...]:
    """The columns of a table that is there but for what its columns have as DEFAULT, with these as they are kept.
    Raises what `checked_default` raises."""
    columns = []
    for attnum, column in enumerate(relation.columns, 1):
        definition = written.get(attnum)
        if definition is not None and column.default is not None and not (definition.serial or definition.identity):
            column = checked_default(running, column, definition.written_default)
        columns.append(column)
    return tuple(columns)


def _like(column: Column, like: st.LikeClause) -> Column:
    """A column of a table that is LIKE the one that has `column`."""
    kept = column.default is not None and ("generated" if column.generated else "defaults") in like.including
    return msgspec.structs.replace(
        column,
        missing=None,
        default=column.default if kept else None,
        generated=column.generated if kept else "",
        identity=column.identity if "identity" in like.including else "",
        sequence=column.sequence if "identity" in like.including else None,
    )


def column_of(definition: st.ColumnDefinition, attnum: int) -> Column:
    """The catalog's column for a definition."""
    return column_of_type(
        attnum,
        definition.name,
        definition.type,
        not_null=definition.not_null,
        default=definition.default,
        collation=collation_of(definition.type, definition.collation),
    )


# ---------------------------------------------------------------- CREATE TABLE AS


async def create_table_as(running: Running, statement: st.CreateTableAs) -> Command:
    """CREATE TABLE AS and SELECT INTO."""
    if statement.materialized_view:
        if statement.query.extension is not None:
            raise FeatureNotSupported(
                "CREATE MATERIALIZED VIEW cannot be AS OF a moment", hint="CREATE TABLE AS keeps the rows of a moment."
            )
        return await create_materialized_view(running, statement)
    title = "SELECT INTO" if statement.select_into else "CREATE TABLE AS"
    running.transaction.check_writable(title)
    await running.services.provide_oids()
    catalog = own_catalog(running)
    plan = await _source_plan(running, statement, catalog)
    schema = creation_schema(running, catalog, statement.name, temporary=statement.temporary)
    _check_on_commit(schema, statement.on_commit)
    if exists_already(running, catalog, schema, statement.name, skip=statement.if_not_exists):
        return Command(tag=title)
    plan.check_access()
    assert plan.query is not None
    fields = plan.query.rel.fields
    check_column_count(len(fields))
    names = [field.name for field in fields]
    if len(statement.column_names) > len(names):
        raise SqlSyntaxError("too many column names were specified")
    names[: len(statement.column_names)] = statement.column_names
    options = checked_options(statement.options, PLAIN_TABLES)
    for place, name in enumerate(names):
        check_column_name(name)
        if name in names[:place]:
            raise repeated_column(name)
    collations = Collations(plan.query.rel, catalog.get).of_fields(zip(names, fields, strict=True))
    typed = ((name, field.type) for name, field in zip(names, fields, strict=True))
    oid = new_oid(running, schema.oid)
    relation = Relation(
        oid=oid,
        name=statement.name.name,
        schema=schema.oid,
        owner=owner_oid(running),
        kind="r",
        columns=stored_columns(typed, collations),
        shard=new_shard_id(running, oid),
        options=as_reloptions(options),
        retain_ms=retained_of(options),
    )
    relation = await with_kept_fields(running, relation)
    check_publishable(relation)
    await permitted_layout(running, relation)
    await running.transaction.lock(plan.locks)
    running.transaction.rely_on(plan.relied_on)
    read = await _prepared(running, plan) if statement.with_data else None
    change(running, added=[relation])
    make_shard(running, relation)
    _at_commit(running, relation, statement.on_commit)
    if read is None:
        return Command(tag=title)
    assert plan.query is not None
    in_order = plan.acts or plan.query.locking is not None
    rows = await fill_table(running, relation, schema.name, read, in_order=in_order)
    return Command(tag=f"SELECT {rows}")


async def _prepared(running: Running, plan: Plan) -> PreparedRead:
    """The rows of the query, whose WITH may change others: then they are there when this returns."""
    if not plan.steps:
        return await prepare_plan(running, plan)
    outcome = await run_rows(running, msgspec.structs.replace(plan, reg_columns=False))
    assert plan.query is not None
    assert isinstance(outcome, RowsOutcome)
    return PreparedRead(
        query=plan.query,
        params=running.params,
        context=execution_context(running, plan.catalog),
        resolved=ResolvedTables(inputs={}, total_parts={}),
        rows=None,
        engine=None,
        reason="its WITH changes rows",
        stream=lambda: outcome.batches,
    )


async def _source_plan(running: Running, statement: st.CreateTableAs, catalog: CatalogSnapshot) -> Plan:
    if statement.select_into:
        # Its query has the text and place of the statement itself, under which the cache knows another plan.
        return make_plan(statement.query, running.session.bind_context(catalog), running.declared)
    plan = await running.session.planned(statement.query, catalog, running.declared)
    if isinstance(plan.statement, st.Execute):
        prepared = running.session.statements.require(plan.statement.name)
        await bind_execute_params(running, plan.statement)
        assert prepared.parsed is not None
        extension = prepared.parsed.extension
        if (extension is not None and extension.as_of is not None) or prepared.parsed.reads_past:
            await look_up_past(running, dataclasses.replace(prepared.parsed, reads_past=True))
            # The cache may have the plan with which the SELECT itself is read.
            plan = make_plan(prepared.parsed, running.session.bind_context(catalog), running.declared)
        else:
            plan = await running.session.planned(prepared.parsed, catalog, running.declared)
        if not isinstance(plan.statement, BoundQuery):
            raise WrongObjectType("prepared statement is not a SELECT")
        check_unchanged(prepared.columns, plan.columns)
    if not isinstance(plan.statement, BoundQuery):
        raise FeatureNotSupported("CREATE TABLE AS of this statement is not supported")
    return plan


# ---------------------------------------------------------------- views


async def create_view(running: Running, statement: st.CreateView) -> None:
    """CREATE [OR REPLACE] VIEW."""
    catalog = own_catalog(running)
    context = running.session.bind_context(catalog)
    definition = (
        define_view(statement, context)
        if running.parsed.is_brief
        else await running.services.plans.aside(define_view, statement, context)
    )
    check_column_count(len(definition.columns))
    temporary = statement.temporary
    if not temporary and any(map(is_temporary, (*definition.depends_on, *mentioned(definition.definition)))):
        temporary = True
        message = f'view "{statement.name.name}" will be a temporary view'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
    schema = creation_schema(running, catalog, statement.name, temporary=temporary)
    columns = stored_columns(definition.columns, definition.collations)
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise repeated_column(name)
    await lock_read(running, definition.depends_on)
    needed = (*definition.depends_on, *definition.needs_keys)
    running.transaction.rely_on(r for oid in needed if (r := catalog.get(oid)) is not None)
    existing = catalog.get(catalog.relation_names.get((schema.oid, statement.name.name), 0))
    if existing is None:
        relation = Relation(
            oid=new_oid(running, schema.oid),
            name=statement.name.name,
            schema=schema.oid,
            owner=owner_oid(running),
            kind="v",
            columns=columns,
            definition=definition.definition,
            depends_on=definition.depends_on,
            needs_keys=definition.needs_keys,
            check_option=statement.check_option,
            options=view_options(statement.options),
        )
        relation = await with_kept_fields(running, relation)
        _check_check_option(relation, running.session.bind_context(catalog))
        check_view_publishable(catalog, relation)
        change(running, added=[relation])
        return
    if not statement.or_replace:
        raise existing_relation(statement.name.name)
    if isinstance(existing, (Relation, SequenceRecord, Index)):
        require_owner(running, existing)
    if not isinstance(existing, Relation) or existing.kind != "v":
        raise WrongObjectType(f'"{statement.name.name}" is not a view')
    _check_replacement(existing.live_columns(), columns)
    if existing.oid in definition.depends_on:
        raise InvalidColumnReference(f'infinite recursion detected in rules for relation "{existing.name}"')
    replaced = msgspec.structs.replace(
        existing,
        columns=columns,
        definition=definition.definition,
        depends_on=definition.depends_on,
        needs_keys=definition.needs_keys,
        check_option=statement.check_option,
        options=view_options(statement.options),
    )
    replaced = await with_kept_fields(running, replaced)
    _check_check_option(replaced, running.session.bind_context(catalog))
    check_view_publishable(catalog, replaced)
    more = [column.name for column in columns[len(existing.live_columns()) :]]
    readers = await add_columns_in_queries(running, existing, more)
    change(running, removed=[existing, *(old for old, _ in readers)], added=[replaced, *(new for _, new in readers)])


def _check_check_option(view: Relation, context: BindContext) -> None:
    reason = None if view.check_option is None else why_not_updatable(view, context)
    if reason is not None:
        raise FeatureNotSupported("WITH CHECK OPTION is supported only on automatically updatable views", hint=reason)


def _check_replacement(old: Sequence[Column], new: Sequence[Column]) -> None:
    if len(new) < len(old):
        raise InvalidTableDefinition("cannot drop columns from view")
    for before, after in zip(old, new, strict=False):
        if before.name != after.name:
            raise InvalidTableDefinition(
                f'cannot change name of view column "{before.name}" to "{after.name}"',
                hint="Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.",
            )
        if (before.type_oid, before.typmod) != (after.type_oid, after.typmod):
            raise InvalidTableDefinition(
                f'cannot change data type of view column "{before.name}" from '
                f"{format_type(before.type_oid, before.typmod)} to {format_type(after.type_oid, after.typmod)}"
            )
        if before.collation != after.collation:
            collations = [collation_name(column_collation(column)) for column in (before, after)]
            raise InvalidTableDefinition(
                f'cannot change collation of view column "{before.name}" from "{collations[0]}" to "{collations[1]}"'
            )


# ---------------------------------------------------------------- TRUNCATE


async def truncate(running: Running, statement: st.Truncate) -> None:
    """TRUNCATE: the table gets a new, empty shard; the old one is forgotten in the same commit."""
    catalog = own_catalog(running)
    tables: dict[int, Relation] = {}
    rights = running.session.rights(catalog)
    for name in statement.tables:
        record = look_up(running, catalog, name)
        if isinstance(record, Index):
            raise WrongObjectType(f'"{record.name}" is not a table')
        relation = find_relation(running, catalog, name)
        if relation.foreign is not None:
            raise FeatureNotSupported(f'cannot truncate foreign table "{relation.name}"')
        if relation.kind != "r":
            raise WrongObjectType(f'"{relation.name}" is not a table')
        rights.require("r", relation.oid, "D")
        tables[relation.oid] = relation
    while referencing := _referring_to(catalog, tables):
        if not statement.cascade:
            raise FeatureNotSupported(
                "cannot truncate a table referenced in a foreign key constraint",
                detail=f'Table "{_name_of(catalog, referencing[0].relation)}" references '
                f'"{_name_of(catalog, referencing[0].foreign_relation or 0)}".',
                hint="Truncate table "
                f'"{_name_of(catalog, referencing[0].relation)}" at the same time, or use TRUNCATE ... CASCADE.',
            )
        for constraint in referencing:
            other = catalog.get(constraint.relation)
            if isinstance(other, Relation) and other.oid not in tables:
                running.session.notice(
                    Notice(
                        severity="NOTICE",
                        sqlstate="00000",
                        message=f'truncate cascades to table "{other.name}"',
                    )
                )
                rights.require("r", other.oid, "D")
                tables[other.oid] = other
    for relation in tables.values():
        refuse_in_use(running, relation, "TRUNCATE")
        if statement.restart_identity:
            for sequence in owned_sequences(catalog, relation.oid):
                change(running, removed=[sequence], added=[restarted(running, sequence)])
        fresh = msgspec.structs.replace(
            relation,
            shard=new_shard_id(running, relation.oid),
            columns=tuple(msgspec.structs.replace(column, missing=None) for column in relation.columns),
        )
        change(running, removed=[relation], added=[fresh])
        assert relation.shard is not None
        forget_shard(running, relation.shard)
        make_shard(running, fresh)


def _referring_to(catalog: CatalogSnapshot, tables: Mapping[int, Relation]) -> list[Constraint]:
    """The foreign keys of other tables that refer to one of `tables`, in PostgreSQL's order."""
    order = [*tables]
    found = [
        record
        for record in catalog.all()
        if isinstance(record, Constraint)
        and record.kind == "f"
        and record.foreign_relation in tables
        and record.relation not in tables
    ]
    return sorted(found, key=lambda record: (order.index(record.foreign_relation or 0), record.relation))


def _name_of(catalog: CatalogSnapshot, oid: int) -> str:
    record = catalog.get(oid)
    return record.name if isinstance(record, Relation) else str(oid)
