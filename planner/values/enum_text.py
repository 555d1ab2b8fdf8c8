"""Values of enums and their labels. A value is the number that orders it (`EnumLabel.position`)."""

from __future__ import annotations

from planner.errors import InvalidTextRepresentation
from planner.types.derived_oids import row_type_oid
from planner.types.type_names import format_type
from storage.catalog.model import EnumType


def enum_position(enum: EnumType, text: str) -> int:
    """What stands for the value of `enum` with this label. Raises 22P02."""
    for label in enum.labels:
        if label.name == text:
            return label.position
    name = format_type(row_type_oid(enum.oid))
    raise InvalidTextRepresentation(f'invalid input value for enum {name}: "{text}"')


def enum_label(enum: EnumType, position: int) -> str:
    """The label of a value of `enum`."""
    return next(label.name for label in enum.labels if label.position == position)
