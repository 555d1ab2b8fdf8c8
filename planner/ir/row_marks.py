"""How the rows of a table are told apart and locked in a plan."""

from __future__ import annotations

from typing import Literal as OneOf
from typing import TypeAlias

from msgspec import Struct

LockStrength: TypeAlias = OneOf["key share", "share", "no key update", "update"]
"""How rows are locked, each excluding more than the one before it."""

LockWait: TypeAlias = OneOf["block", "skip", "nowait"]
"""What becomes of a row that somebody else has locked: it is waited for, left out (SKIP LOCKED), or an error."""


class RowMark(Struct, frozen=True, kw_only=True):
    """One table of a `LockRows`: the column `field` of its input has the row's id, which the `Scan` with `row_id`
    gives. An outer join may lack it. Without `strength` the row is not locked, only told from others of its table."""

    relation_oid: int
    row_id: int
    field: int
    strength: LockStrength | None = None
    wait: LockWait = "block"
