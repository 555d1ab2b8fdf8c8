"""The fields of records that the binder knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import is_
from typing import TypeGuard

from msgspec.structs import replace

from planner.errors import FeatureNotSupported
from planner.ir.nodes import ColumnRef, FieldSelect, IsNull, RowConstructor, Scalar, ScalarSubquery
from planner.resolution.scope import note_references
from planner.resolution.statement import Level
from planner.types.type_names import element_of
from planner.types.types import BOOL, BPCHAR, FLOAT4, FLOAT8, INTERVAL, JSONB, NUMERIC, RECORD, SqlType
from planner.types.user_types import attributes


def record_fields(level: Level, scalar: Scalar) -> tuple[tuple[str, SqlType], ...] | None:
    """The names and types of a record's fields, where the binder knows them."""
    declared = attributes(scalar.type.oid)
    if declared is not None:
        return tuple((field.name, field.type) for field in declared)
    if isinstance(scalar, RowConstructor):
        return tuple((name, item.type) for name, item in zip(scalar.names, scalar.items, strict=True))
    if isinstance(scalar, ColumnRef):
        return level.statement.record_columns.get(scalar.id)
    known = level.statement.records.get(id(scalar))
    if known is not None:
        return known[1]
    if isinstance(scalar, ScalarSubquery):
        return level.statement.record_columns.get(scalar.rel.fields[0].id)
    return None


def is_record(oid: int) -> bool:
    """Whether values of the type are compared by their fields: records, and those of composite types."""
    return oid == RECORD or attributes(oid) is not None


def is_written_row(scalar: Scalar) -> TypeGuard[RowConstructor]:
    """Whether a row was written as ROW(...): two such rows are compared as SQL says, where NULL is not equal to NULL,
    and all other records as values."""
    if not isinstance(scalar, RowConstructor) or scalar.type.oid != RECORD:
        return False
    return all(name == f"f{number}" for number, name in enumerate(scalar.names, 1))


def fields_of(level: Level, record: Scalar) -> tuple[Scalar, ...] | None:
    """The fields of a record, where the binder knows them."""
    if isinstance(record, RowConstructor):
        return record.items
    known = record_fields(level, record)
    if known is None:
        return None
    return tuple(FieldSelect(arg=record, name=name, type=type, index=index) for index, (name, type) in enumerate(known))


_NUMRANGE, _NUMMULTIRANGE = 3906, 4532
LOOKS = frozenset({NUMERIC, FLOAT4, FLOAT8, INTERVAL, BPCHAR, JSONB, _NUMRANGE, _NUMMULTIRANGE})
"""Types of which equal values may look different, as 1.0 and 1.00 do."""


def told_apart_by(level: Level, record: Scalar) -> tuple[Scalar, ...] | None:
    """What tells records apart that may be equal though they look different: their fields. None for those that look
    alike when they are equal, or whose fields are not known: they are told apart by themselves."""
    fields = compared_by(level, record)
    return fields if fields is not None and may_look_different(fields) else None


def as_row(level: Level, scalar: Scalar) -> Scalar:
    """A record whose equal values may look different, put together from its fields, by which it is compared then; all
    else as it is."""
    names, fields = record_fields(level, scalar) or (), fields_of(level, scalar) or ()
    if scalar.type.oid != RECORD or isinstance(scalar, RowConstructor) or not may_look_different(fields):
        return scalar
    named = tuple(name for name, _ in names)
    return RowConstructor(items=fields, names=named, type=scalar.type, nullable=True, value=scalar)


def written_out(level: Level, scalar: Scalar) -> Scalar:
    """A record, and those in it, put together from its fields, where these are known: a record says nothing of them
    itself. All else as it is."""
    if isinstance(scalar, RowConstructor):
        items = tuple(written_out(level, item) for item in scalar.items)
        return scalar if all(map(is_, items, scalar.items)) else replace(scalar, items=items)
    known = record_fields(level, scalar) if scalar.type.oid == RECORD else None
    if known is None:
        return scalar
    items = tuple(written_out(level, field) for field in fields_of(level, scalar) or ())
    names = tuple(name for name, _ in known)
    return RowConstructor(items=items, names=names, type=scalar.type, nullable=True, value=scalar)


def compared_by(level: Level, record: Scalar) -> tuple[Scalar, ...] | None:
    """The fields of a record, and of records in it; None where they are not known."""
    try:
        return tuple(ordered_by(level, record))
    except FeatureNotSupported:
        return None


def may_look_different(fields: Sequence[Scalar]) -> bool:
    """Whether equal values of some of them may look different."""
    return any(field.type.oid in LOOKS or element_of(field.type.oid) in LOOKS for field in fields)


def lack_of(record: Scalar) -> Scalar | None:
    """Whether a record is NULL, which a row of NULLs is not; None for what is no record or is written out."""
    value = record.value if isinstance(record, RowConstructor) else record
    if value is None or not is_record(record.type.oid):
        return None
    return IsNull(arg=value, negated=False, type=SqlType(BOOL))


def ordered_by(level: Level, scalar: Scalar) -> Iterator[Scalar]:
    """What values of `scalar` are ordered by: a record by its fields, one after the other (PostgreSQL, "Composite Type
    Comparison"). Raises 0A000 for one whose fields are not known."""
    if not is_record(scalar.type.oid):
        if element_of(scalar.type.oid) == RECORD:
            key = level.statement.sorted_by.get(scalar.id) if isinstance(scalar, ColumnRef) else None
            if key is not None:
                note_references(level.statement, key)
                yield key
                return
            raise FeatureNotSupported(
                "ordering of arrays of records is not supported", position=level.statement.position_of(scalar)
            )
        yield scalar
        return
    fields = fields_of(level, scalar)
    if fields is None:
        raise FeatureNotSupported(
            "ordering of a record that is not a row constructor is not supported",
            position=level.statement.position_of(scalar),
        )
    for field in fields:
        yield from ordered_by(level, field)
