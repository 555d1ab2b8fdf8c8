"""CREATE TYPE ... AS ENUM, and ALTER TYPE ... ADD VALUE and RENAME VALUE.

A value's position never changes, since columns hold it. Positions are `SPACING` apart, so that values can come between
others: the new one gets the number in the middle.
"""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.types.names import check_free_type, require_enum
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.errors import (
    DuplicateObject,
    InvalidName,
    InvalidParameterValue,
    ProgramLimitExceeded,
    UniqueViolation,
)
from planner.statements import records as st
from planner.types import derived_oids
from storage.catalog.model import EnumType
from storage.catalog.types import ENUM_SPACING, EnumLabel

MAX_LABEL_BYTES = 63


async def create_enum(running: Running, statement: st.CreateEnum) -> None:
    """CREATE TYPE ... AS ENUM."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name)
    check_free_type(catalog, schema.oid, statement.name.name)
    oid = new_oid(running, schema.oid)
    labels: list[EnumLabel] = []
    for number, name in enumerate(statement.labels, 1):
        _check_label(name)
        if any(label.name == name for label in labels):
            raise UniqueViolation(
                'duplicate key value violates unique constraint "pg_enum_typid_label_index"',
                detail=f"Key (enumtypid, enumlabel)=({derived_oids.row_type_oid(oid)}, {name}) already exists.",
                schema="pg_catalog",
                table="pg_enum",
                constraint="pg_enum_typid_label_index",
            )
        labels.append(EnumLabel(oid=new_oid(running, oid), name=name, position=number * ENUM_SPACING))
    running.transaction.rely_on([schema])
    record = EnumType(
        oid=oid, name=statement.name.name, schema=schema.oid, owner=owner_oid(running), labels=tuple(labels)
    )
    change(running, added=[record])


def _check_label(name: str) -> None:
    if len(name.encode()) > MAX_LABEL_BYTES:
        raise InvalidName(f'invalid enum label "{name}"', detail=f"Labels must be {MAX_LABEL_BYTES} bytes or less.")


async def add_value(running: Running, statement: st.AddEnumValue) -> None:
    """ALTER TYPE ... ADD VALUE."""
    record = require_enum(running, statement.name)
    _check_label(statement.label)
    names = [label.name for label in record.labels]
    if statement.label in names:
        message = f'enum label "{statement.label}" already exists'
        if not statement.if_not_exists:
            raise DuplicateObject(message)
        running.session.notice(Notice(severity="NOTICE", sqlstate="42710", message=f"{message}, skipping"))
        return
    place = len(names)
    if statement.neighbor is not None:
        place = _place_of(record, statement.neighbor) + (1 if statement.after else 0)
    label = EnumLabel(oid=new_oid(running, record.oid), name=statement.label, position=_position_at(record, place))
    change(running, removed=[record], added=[
        replace(record, labels=(*record.labels[:place], label, *record.labels[place:]))
    ])  # fmt: skip
    pending = running.transaction.pending
    running.transaction.pending = replace(pending, new_labels=pending.new_labels | {label.oid})


def _place_of(record: EnumType, name: str) -> int:
    for place, label in enumerate(record.labels):
        if label.name == name:
            return place
    raise InvalidParameterValue(f'"{name}" is not an existing enum label')


def _position_at(record: EnumType, place: int) -> int:
    """The position of a value that becomes the one at `place`. 54000 when no number is left there."""
    before = record.labels[place - 1].position if place else None
    after = record.labels[place].position if place < len(record.labels) else None
    if before is None and after is None:
        return ENUM_SPACING
    if before is None or after is None:
        return after - ENUM_SPACING if after is not None else (before or 0) + ENUM_SPACING
    middle = (before + after) // 2
    if middle == before:
        left, right = record.labels[place - 1].name, record.labels[place].name
        raise ProgramLimitExceeded(f'no more values fit between "{left}" and "{right}"')
    return middle


async def rename_value(running: Running, statement: st.RenameEnumValue) -> None:
    """ALTER TYPE ... RENAME VALUE."""
    record = require_enum(running, statement.name)
    _check_label(statement.new_label)
    place = _place_of(record, statement.label)
    if any(label.name == statement.new_label for label in record.labels):
        raise DuplicateObject(f'enum label "{statement.new_label}" already exists')
    labels = list(record.labels)
    labels[place] = replace(labels[place], name=statement.new_label)
    change(running, removed=[record], added=[replace(record, labels=tuple(labels))])
