"""TODO docstring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.errors import (
    IndeterminateDatatype,
)
from planner.types.types import SqlType

if TYPE_CHECKING:
    pass


def _declared_only(declared: tuple[int, ...], used: int) -> tuple[SqlType, ...]:
    """Types of the parameters beyond `used` that the client declared: they count, though the statement does without.

    Raises 42P18 for one of no type.
    """
    for number, oid in enumerate(declared[used:], used + 1):
        if oid == 0:
            raise IndeterminateDatatype(f"could not determine data type of parameter ${number}")
    return tuple(SqlType(oid) for oid in declared[used:])
