"""Values of types that users define, and of those that extensions make, to and from text. A value of an enum is the
number that orders it (`EnumLabel.position`)."""

from __future__ import annotations

from collections.abc import Callable

from planner.common_errors import UnsafeNewEnumValueUsage
from planner.errors import InvalidTextRepresentation
from planner.ir.composite import Composite
from planner.types.base_types import HSTORE, kind_of
from planner.types.derived_oids import row_type_oid
from planner.types.type_names import format_type
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import SqlType
from planner.types.user_types import attributes, enum_of
from planner.values.opaque.hstore_text import parse_hstore
from planner.values.record_text import record_items, record_text
from storage.catalog.model import EnumType


def parse_user_value(text: str, type: SqlType, parse: Callable[[str, SqlType], object]) -> object:
    """The value of the enum, composite type or type of an extension `type` that `text` stands for; `parse` reads a
    row's fields. Raises 22P02, and what `parse` raises."""
    enum = enum_of(type.oid)
    if enum is not None:
        return enum_position(enum, text)
    made = kind_of(type.oid)
    if made is not None:
        return parse_hstore(text) if made == HSTORE else text
    fields = attributes(type.oid) or ()
    pairs = zip(record_items(text, len(fields)), fields, strict=True)
    return Composite(tuple(None if item is None else parse(item, field.type) for item, field in pairs))


def format_user_value(value: object, type: SqlType, show: Callable[[object, SqlType], str]) -> str:
    """The text of such a value, of whose fields `show` gives the texts."""
    enum = enum_of(type.oid)
    if enum is not None and isinstance(value, int):
        return enum_label(enum, value)
    if not isinstance(value, Composite):
        return str(value)
    pairs = zip(value.items, attributes(type.oid) or (), strict=True)
    return record_text([None if item is None else show(item, field.type) for item, field in pairs])


def enum_position(enum: EnumType, text: str) -> int:
    """What stands for the value of `enum` with this label. Raises 22P02, and 55P04 for one that is new."""
    name = format_type(row_type_oid(enum.oid))
    for label in enum.labels:
        if label.name == text:
            if label.oid in TYPE_SCOPE.get().new_labels:
                raise UnsafeNewEnumValueUsage(text, name)
            return label.position
    raise InvalidTextRepresentation(f'invalid input value for enum {name}: "{text}"')


def enum_label(enum: EnumType, position: int) -> str:
    """The label of a value of `enum`."""
    return next(label.name for label in enum.labels if label.position == position)
