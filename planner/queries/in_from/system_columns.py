"""System columns of tables (PostgreSQL 15, 5.5): ctid, xmin, xmax, cmin, cmax, tableoid.

Nothing of them is stored. ctid stands for the number that the storage has given the row, which another version of the
row does not get. xmin stands for the values of the row: it changes when they do, and is known before the row is
committed, so that who has got it from RETURNING finds the row by it later (optimistic locking). The others are 0, but
for the xmax of a row that ON CONFLICT DO UPDATE has found. A row that an outer join lacks has NULLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from planner.errors import FeatureNotSupported
from planner.functions import own
from planner.ir.nodes import Call, Case, ColumnRef, Field, IsNull, Literal, Rel, Scalar
from planner.ir.rewrite import column_ids, transform
from planner.resolution.operators import BOOLEAN
from planner.types.system_relations import CID, SYSTEM_COLUMN_NAMES
from planner.types.types import INT8, OID, TID, XID, SqlType

_NAMES = re.compile("|".join(sorted(SYSTEM_COLUMN_NAMES - {"tableoid"})), re.IGNORECASE)
_PLACE = own.function("row_place")
_VALUES = own.function("row_values")
_NUMBERS: Mapping[str, int] = {"xmax": XID, "cmin": CID, "cmax": CID}
REPLACED_XID = 1
"""The xmax of a row that ON CONFLICT DO UPDATE has found: not 0, which is that of rows that were inserted."""


def may_name(text: str) -> bool:
    """Whether a statement of this text may refer to a system column other than tableoid."""
    return _NAMES.search(text) is not None


def system_columns(relation_oid: int, columns: Sequence[Field], row_id: Field | None) -> dict[str, Scalar]:
    """What the system columns of a table mean whose `columns` are read, and the numbers of whose rows are `row_id`;
    without that of rows that are about to be inserted (see `of_new_rows`)."""
    number: Scalar = Literal(value=1, type=SqlType(INT8))
    if row_id is not None:
        number = ColumnRef(id=row_id.id, type=row_id.type)
    values = tuple(ColumnRef(id=column.id, type=column.type) for column in columns)
    given: dict[str, Scalar] = {
        "tableoid": _of_rows(row_id, Literal(value=relation_oid, type=SqlType(OID))),
        "xmin": Call(signature=_VALUES, args=(number, *values), type=SqlType(XID)),
        "ctid": Call(signature=_PLACE, args=(number,), type=SqlType(TID)),
    }
    for name, type in _NUMBERS.items():
        given[name] = _of_rows(row_id, Literal(value=0, type=SqlType(type)))
    return given


def _of_rows(row_id: Field | None, value: Literal) -> Scalar:
    if row_id is None:
        return value
    there = IsNull(arg=ColumnRef(id=row_id.id, type=row_id.type), negated=True, type=BOOLEAN)
    return Case(whens=((there, value),), otherwise=None, type=value.type)


def xmax_of_conflicts(replaced: Field) -> Scalar:
    """xmax in RETURNING of INSERT ... ON CONFLICT, where `replaced` says of which rows there was one before."""
    one, zero = (Literal(value=number, type=SqlType(XID)) for number in (REPLACED_XID, 0))
    return Case(whens=((ColumnRef(id=replaced.id, type=replaced.type), one),), otherwise=zero, type=SqlType(XID))


def of_new_rows(returned: Rel, row_id: int | None = None) -> Rel:
    """RETURNING of rows that are written, which have no number yet; an UPDATE reads what they were with this `row_id`.
    Raises 0A000 for their ctid."""

    def known(node: object) -> Scalar | None:
        if isinstance(node, Call) and node.signature is _PLACE and set(column_ids(node)) <= {row_id}:
            raise FeatureNotSupported(
                "ctid in RETURNING of new rows is not supported",
                detail="A row gets its place when its transaction commits.",
            )
        if row_id is not None and isinstance(node, ColumnRef) and node.id == row_id:
            return Literal(value=1, type=node.type)
        return None

    return transform(returned, known)
