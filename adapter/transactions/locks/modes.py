"""Lock modes and which of them exclude each other: PostgreSQL's eight, and the four of rows among them.

Row locks need no matrix of their own: FOR KEY SHARE, SHARE, NO KEY UPDATE and UPDATE exclude each other exactly as four
of the table modes do, which is also how PostgreSQL shows them in pg_locks (lock.c, heapam.c). A set of modes is an
integer with bit ``1 << mode`` for each.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Mode(IntEnum):
    """A mode, numbered as in PostgreSQL."""

    ACCESS_SHARE = 1
    ROW_SHARE = 2
    ROW_EXCLUSIVE = 3
    SHARE_UPDATE_EXCLUSIVE = 4
    SHARE = 5
    SHARE_ROW_EXCLUSIVE = 6
    EXCLUSIVE = 7
    ACCESS_EXCLUSIVE = 8

    @property
    def lock_name(self) -> str:
        """As pg_locks and messages name it: ``AccessShareLock``."""
        return _NAMES[self]


_NAMES = {mode: "".join(word.capitalize() for word in mode.name.split("_")) + "Lock" for mode in Mode}

MODES_BY_NAME = {name: mode for mode, name in _NAMES.items()}
"""The modes by PostgreSQL's names."""

FOR_KEY_SHARE: Final = Mode.ACCESS_SHARE
FOR_SHARE: Final = Mode.ROW_SHARE
FOR_NO_KEY_UPDATE: Final = Mode.EXCLUSIVE
FOR_UPDATE: Final = Mode.ACCESS_EXCLUSIVE
"""Modes of rows; a greater one excludes all that a smaller one does."""


def bits(*modes: Mode) -> int:
    """The set of these modes."""
    return sum(1 << mode for mode in modes)


def modes_of(held: int) -> list[Mode]:
    """The modes in a set, ascending."""
    return [mode for mode in Mode if held >> mode & 1]


CONFLICTS: Final[tuple[int, ...]] = (
    0,
    bits(Mode.ACCESS_EXCLUSIVE),
    bits(Mode.EXCLUSIVE, Mode.ACCESS_EXCLUSIVE),
    bits(Mode.SHARE, Mode.SHARE_ROW_EXCLUSIVE, Mode.EXCLUSIVE, Mode.ACCESS_EXCLUSIVE),
    bits(
        Mode.SHARE_UPDATE_EXCLUSIVE, Mode.SHARE, Mode.SHARE_ROW_EXCLUSIVE, Mode.EXCLUSIVE, Mode.ACCESS_EXCLUSIVE
    ),
    bits(
        Mode.ROW_EXCLUSIVE, Mode.SHARE_UPDATE_EXCLUSIVE, Mode.SHARE_ROW_EXCLUSIVE, Mode.EXCLUSIVE,
        Mode.ACCESS_EXCLUSIVE,
    ),
    bits(*(mode for mode in Mode if mode > Mode.ROW_SHARE)),
    bits(*(mode for mode in Mode if mode > Mode.ACCESS_SHARE)),
    bits(*Mode),
)  # fmt: skip
"""By mode, the set of modes that other owners may not hold beside it (PostgreSQL, "Table-Level Locks")."""
