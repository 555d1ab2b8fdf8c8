"""The FROM items that a lowered query is completed with."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.types.types import SqlType


class ScanSource(Struct, frozen=True):
    """A FROM item (a view's name or a parenthesised SELECT) whose columns are ``c<attnum>`` (system relations:
    position) and, when a row id is asked for, ``_row_id``.

    A source that can have columns of constants besides, ``p1``, ``p2``, ..., has `extended`: the FROM item with them,
    where ``{columns}`` stands for their names (each after a comma) and ``{layout}`` for their types.

        ScanSource("rows", "rows{layout}").with_constants([SqlType(23), SqlType(25)])   # "rows_23_25"
    """

    sql: str
    extended: str | None = None

    def with_constants(self, types: Sequence[SqlType]) -> str:
        """The FROM item with a column of constants of each of `types`."""
        if not types or self.extended is None:
            return self.sql
        columns = "".join([f", p{number}" for number in range(1, len(types) + 1)])
        return self.extended.replace("{columns}", columns).replace("{layout}", constants_layout(types))


def place_of(relation: int) -> str:
    """Stands for the source of a relation in text that is to be completed. No value of a text has a NUL."""
    return f"\0{relation}\0"


def constants_layout(types: Sequence[SqlType]) -> str:
    """What tells sources with constants of other types apart."""
    return "".join([f"_{type.oid}" for type in types])
