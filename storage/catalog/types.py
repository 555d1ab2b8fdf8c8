"""Parts of types of users, range types and those that extensions make, as the catalog has them."""

from __future__ import annotations

import msgspec

from storage.catalog.record import Record

ENUM_SPACING = 2**40
"""How far apart the positions of an enum's values are: as often as a number can be halved, one fits in between."""


class EnumLabel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value of an enum (a row of pg_enum). `oid` is its own over its life."""

    oid: int
    name: str
    position: int
    """What a column holds for it, never given to another value of the type: smaller comes first."""


class UserRange(Record, frozen=True, kw_only=True, tag="range"):
    """A range type, or the multirange type that goes with one: two records that name each other (a row of pg_range).
    Its type's oid follows from the record's, as an enum's does."""

    name: str
    schema: int
    owner: int
    range: int
    """The oid of the range's record, its own where it is that."""
    multirange: int
    """The oid of the multirange's record, its own where it is that."""
    subtype: int
    """The oid of the type of the bounds."""
    collation: int = 0
    operator_class: int = 0
    difference: int = 0
    """The function that says how far apart two values are (subtype_diff), 0 for none."""

    @property
    def is_multirange(self) -> bool:
        """Whether it is the multirange of the two."""
        return self.oid == self.multirange


class BaseType(Record, frozen=True, kw_only=True, tag="base_type"):
    """A type that an extension makes. Its type's oid follows from the record's, as an enum's does."""

    name: str
    schema: int
    owner: int
    kind: str
    """Which it is (`planner.types.base_types`), whatever it is called."""
