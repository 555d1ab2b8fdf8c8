"""Sequences, and the identity columns that take their values from them.

A sequence's definition is catalog data, its position is not (`storage.catalog.sequences`). RESTART begins another
generation of it, which is catalog data too and so belongs to the transaction.
"""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import (
    change,
    exists_already,
    new_oid,
    owner_oid,
    require_column,
    with_column,
)
from adapter.definitions.common.owners import require_owner
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import (
    creation_schema,
    find_relation,
    look_up,
    missing,
    require_schema,
    skip_missing,
)
from adapter.execution.statement import Running
from adapter.queries.acting.sequences import positions_of
from adapter.results import Notice
from planner.definitions.object_names import free_name
from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    ObjectNotInPrerequisiteState,
    SqlSyntaxError,
    UndefinedColumn,
    WrongObjectType,
)
from planner.statements import records as st
from planner.types import types as t
from planner.types.type_names import format_type
from storage.catalog.model import CatalogSnapshot, Column, Relation, Schema, Sequence

_BOUNDS = {t.INT2: 2**15, t.INT4: 2**31, t.INT8: 2**63}


async def create_sequence(running: Running, statement: st.CreateSequence) -> None:
    """CREATE SEQUENCE."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name, temporary=statement.temporary)
    if statement.if_not_exists and exists_already(running, catalog, schema, statement.name, skip=True):
        return
    fresh = Sequence(
        oid=new_oid(running, schema.oid), name=statement.name.name, schema=schema.oid, owner=owner_oid(running)
    )
    sequence = configured(fresh, statement.options, fresh=True)
    exists_already(running, catalog, schema, statement.name, skip=False)
    change(running, added=[_owned(running, catalog, sequence, statement.options)])


async def alter_sequence(running: Running, statement: st.AlterSequence) -> None:
    """ALTER SEQUENCE."""
    catalog = own_catalog(running)
    record = look_up(running, catalog, statement.name)
    if record is None:
        if not statement.if_exists:
            raise missing(catalog, statement.name)
        skip_missing(running, statement.name)
        return
    if not isinstance(record, Sequence):
        raise WrongObjectType(f'"{record.name}" is not a sequence')
    require_owner(running, record)
    changed = await altered(running, record, statement.options)
    changed = _owned(running, catalog, changed, statement.options)
    if changed != record:
        change(running, removed=[record], added=[changed])


async def altered(running: Running, sequence: Sequence, options: st.SequenceOptions) -> Sequence:
    """The sequence with other options; with RESTART, begun anew."""
    changed = configured(sequence, options, fresh=False)
    if options.restart:
        changed = restarted(running, changed, options.restart_with)
        position = changed.first
    else:
        position, called = await positions_of(running, sequence).last_value(sequence)
        if not called:
            # A sequence that was never used stands at its start, and stays where it stands.
            changed = replace(changed, first=position)
    if position is not None and position < changed.minimum:
        raise InvalidParameterValue(f"RESTART value ({position}) cannot be less than MINVALUE ({changed.minimum})")
    if position is not None and position > changed.maximum:
        raise InvalidParameterValue(f"RESTART value ({position}) cannot be greater than MAXVALUE ({changed.maximum})")
    return changed


def restarted(running: Running, sequence: Sequence, first: int | None = None) -> Sequence:
    """The sequence begun anew, with `first` or its start value."""
    return replace(
        sequence, generation=new_oid(running, sequence.oid), first=sequence.start if first is None else first
    )


def configured(sequence: Sequence, options: st.SequenceOptions, *, fresh: bool, identity: bool = False) -> Sequence:
    """The sequence with `options`; what a `fresh` one is not told it has by default. 22023."""
    type_oid = sequence.type_oid if options.type is None else options.type.oid
    if type_oid not in _BOUNDS:
        raise _no_integer("identity column" if identity else "sequence")
    increment = sequence.increment if options.increment is None else options.increment
    if increment == 0:
        raise InvalidParameterValue("INCREMENT must not be zero")
    bound, old = _BOUNDS[type_oid], _BOUNDS[sequence.type_oid]
    lowest, highest = (1, bound - 1) if increment > 0 else (-bound, -1)
    # Another type has other bounds, where the old type's were what bounded it.
    lower = bound != old and sequence.minimum == -old
    upper = bound != old and sequence.maximum == old - 1
    minimum = lowest if fresh else -bound if lower else sequence.minimum
    maximum = highest if fresh else bound - 1 if upper else sequence.maximum
    if options.minimum is not None or options.no_minimum:
        minimum = lowest if options.minimum is None else options.minimum
    if options.maximum is not None or options.no_maximum:
        maximum = highest if options.maximum is None else options.maximum
    for word, value in (("MAXVALUE", maximum), ("MINVALUE", minimum)):
        if not -bound <= value < bound:
            raise InvalidParameterValue(
                f"{word} ({value}) is out of range for sequence data type {format_type(type_oid)}"
            )
    if minimum >= maximum:
        raise InvalidParameterValue(f"MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})")
    start = sequence.start if not fresh else (minimum if increment > 0 else maximum)
    if options.start is not None:
        start = options.start
    if start < minimum:
        raise InvalidParameterValue(f"START value ({start}) cannot be less than MINVALUE ({minimum})")
    if start > maximum:
        raise InvalidParameterValue(f"START value ({start}) cannot be greater than MAXVALUE ({maximum})")
    if options.cache is not None and options.cache <= 0:
        raise InvalidParameterValue(f"CACHE ({options.cache}) must be greater than zero")
    return replace(
        sequence,
        type_oid=type_oid,
        increment=increment,
        minimum=minimum,
        maximum=maximum,
        start=start,
        cache=sequence.cache if options.cache is None else options.cache,
        cycle=sequence.cycle if options.cycle is None else options.cycle,
    )


def _no_integer(kind: str = "identity column") -> InvalidParameterValue:
    return InvalidParameterValue(f"{kind} type must be smallint, integer, or bigint")


def _owned(running: Running, catalog: CatalogSnapshot, sequence: Sequence, options: st.SequenceOptions) -> Sequence:
    if options.owned_by is None:
        return sequence
    owner = identity_owner(catalog, sequence)
    if owner is not None:
        raise FeatureNotSupported(
            "cannot change ownership of identity sequence",
            detail=f'Sequence "{sequence.name}" is linked to table "{owner[0].name}".',
        )
    if options.owned_by == ("none",):
        return replace(sequence, owned_by=None)
    *qualifiers, column_name = options.owned_by
    if not qualifiers:
        raise SqlSyntaxError("invalid OWNED BY option", hint="Specify OWNED BY table.column or OWNED BY NONE.")
    name = st.QualifiedName(name=qualifiers[-1], schema=qualifiers[-2] if len(qualifiers) > 1 else None)
    relation = find_relation(running, catalog, name)
    if relation.owner != sequence.owner:
        raise ObjectNotInPrerequisiteState("sequence must have same owner as table it is linked to")
    if relation.schema != sequence.schema:
        raise ObjectNotInPrerequisiteState("sequence must be in same schema as table it is linked to")
    column = relation.column(column_name)
    if column is None:
        raise UndefinedColumn(f'column "{column_name}" of relation "{relation.name}" does not exist')
    return replace(sequence, owned_by=(relation.oid, column.attnum))


def identity_owner(catalog: CatalogSnapshot, sequence: Sequence) -> tuple[Relation, Column] | None:
    """The identity column that a sequence is part of, with its table."""
    relation = catalog.get(sequence.owned_by[0]) if sequence.owned_by is not None else None
    if not isinstance(relation, Relation):
        return None
    column = next((column for column in relation.live_columns() if column.sequence == sequence.oid), None)
    return None if column is None else (relation, column)


def owned_sequences(catalog: CatalogSnapshot, relation: int) -> list[Sequence]:
    """The sequences that go with columns of a table."""
    return [
        record
        for record in catalog.all()
        if isinstance(record, Sequence) and record.owned_by is not None and record.owned_by[0] == relation
    ]


# ---------------------------------------------------------------- serial and identity columns


def numbered_column(
    running: Running, definition: st.ColumnDefinition, column: Column, table: str, schema: Schema, table_oid: int
) -> tuple[Column, Sequence]:
    """A serial or identity column of a table, and its sequence."""
    options = definition.identity_options or st.SequenceOptions()
    sequence = _column_sequence(running, column, table, schema, table_oid, options)
    if definition.identity is not None:
        return replace(column, not_null=True, identity=definition.identity, sequence=sequence.oid), sequence
    return replace(column, not_null=True, default=f"nextval('{sequence.oid}'::regclass)"), sequence


def copied_identity(
    running: Running, column: Column, table: str, schema: Schema, table_oid: int
) -> tuple[Column, Sequence]:
    """An identity column of a new table that is LIKE another one, and a sequence like that column's."""
    model = own_catalog(running).get(column.sequence or 0)
    assert isinstance(model, Sequence)
    fresh = _column_sequence(running, column, table, schema, table_oid, st.SequenceOptions())
    sequence = replace(
        model,
        oid=fresh.oid,
        name=fresh.name,
        schema=fresh.schema,
        owner=fresh.owner,
        owned_by=fresh.owned_by,
        # PostgreSQL copies the limits alone.
        type_oid=t.INT8,
        generation=0,
        first=None,
    )
    return replace(column, sequence=sequence.oid), sequence


def _column_sequence(
    running: Running, column: Column, table: str, schema: Schema, table_oid: int, options: st.SequenceOptions
) -> Sequence:
    catalog = own_catalog(running)
    if options.type is not None:
        raise SqlSyntaxError("conflicting or redundant options")
    if options.name is not None:
        named = schema if options.name.schema is None else require_schema(catalog, options.name.schema)
        exists_already(running, catalog, named, options.name, skip=False)
        name = options.name.name
    else:
        named, name = schema, free_name(table, column.name, "seq", lambda n: (schema.oid, n) in catalog.relation_names)
    known = catalog.get(table_oid)
    fresh = Sequence(
        oid=new_oid(running, named.oid),
        name=name,
        schema=named.oid,
        owner=known.owner if isinstance(known, Relation) else owner_oid(running),
        type_oid=column.type_oid,
        owned_by=(table_oid, column.attnum),
    )
    return configured(fresh, options, fresh=True, identity=True)


def add_identity(running: Running, relation: Relation, action: st.AddIdentity) -> None:
    """ALTER COLUMN ADD GENERATED ... AS IDENTITY: the rows that are there keep their values."""
    column = require_column(relation, action.name)
    whose = f'column "{column.name}" of relation "{relation.name}"'
    if column.type_oid not in _BOUNDS:
        raise _no_integer()
    if not column.not_null:
        raise ObjectNotInPrerequisiteState(f"{whose} must be declared NOT NULL before identity can be added")
    if column.identity:
        raise ObjectNotInPrerequisiteState(f"{whose} is already an identity column")
    if column.default is not None:
        raise ObjectNotInPrerequisiteState(f"{whose} already has a default value")
    schema = own_catalog(running).get(relation.schema)
    assert isinstance(schema, Schema)
    sequence = _column_sequence(running, column, relation.name, schema, relation.oid, action.options)
    numbered = replace(column, identity=action.identity, sequence=sequence.oid)
    change(running, removed=[relation], added=[with_column(relation, numbered), sequence])


async def set_identity(running: Running, relation: Relation, action: st.SetIdentity) -> None:
    """ALTER COLUMN SET GENERATED, SET <sequence option>, RESTART."""
    column = require_column(relation, action.name)
    if not column.identity:
        raise _no_identity(relation, column)
    sequence = own_catalog(running).get(column.sequence or 0)
    assert isinstance(sequence, Sequence)
    changed = await altered(running, sequence, action.options)
    if changed != sequence:
        change(running, removed=[sequence], added=[changed])
    if action.identity is not None and action.identity != column.identity:
        other = replace(column, identity=action.identity)
        change(running, removed=[relation], added=[with_column(relation, other)])


def drop_identity(running: Running, relation: Relation, action: st.DropIdentity) -> None:
    """ALTER COLUMN DROP IDENTITY: an ordinary column is left, without the sequence."""
    column = require_column(relation, action.name)
    if not column.identity:
        error = _no_identity(relation, column)
        if not action.if_exists:
            raise error
        message = f"{error.message}, skipping"
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
        return
    sequence = own_catalog(running).get(column.sequence or 0)
    assert isinstance(sequence, Sequence)
    plain = replace(column, identity="", sequence=None)
    change(running, removed=[relation, sequence], added=[with_column(relation, plain)])


def _no_identity(relation: Relation, column: Column) -> ObjectNotInPrerequisiteState:
    return ObjectNotInPrerequisiteState(
        f'column "{column.name}" of relation "{relation.name}" is not an identity column'
    )
