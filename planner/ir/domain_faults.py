"""What is said of a value that breaks a rule of its domain."""

from __future__ import annotations

from msgspec import Struct


class DomainFault(Struct, frozen=True, kw_only=True):
    """The error for such a value: 23514 for the check called `constraint`, 23502 for NOT NULL, which has no name."""

    message: str
    schema: str | None
    datatype: str
    constraint: str | None = None
