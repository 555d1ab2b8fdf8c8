"""By which index, and by which keys or range of keys, the rows of one table are found that meet some conditions: worked
out once, with values that come with each run.

``WHERE a = $1 AND b BETWEEN $2 AND $2 + 99`` takes an index by (a, b) for the rows with an equal first column and a
second one between two bounds. Rows that are found meet the conditions that led to them; the others are tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

from msgspec import Struct

from adapter.plans.computed.constant_rows import NeedsEngine
from adapter.plans.computed.row_values import INTEGERS, TEXTS, TIMES, Given, RowColumns, Value
from adapter.plans.conditions import Condition, column_of, comparable, condition_of
from adapter.plans.key_indexes import UsableIndex, usable_indexes
from adapter.plans.predicates import bind_operands, fits_decimal
from adapter.plans.row_programs import Order
from planner.ir import nodes as ir
from planner.types import types as t
from planner.types.types import SqlType
from storage.catalog.model import CatalogSnapshot, Index, Relation
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.reading.ranges import Bound, KeyRange
from storage.shards.indexes.scalar_keys import plain

MAX_KEYS = 100
"""Keys of a list that are looked up one by one."""

_KEYS = INTEGERS | TEXTS | TIMES | {t.UUID, t.BOOL, t.NUMERIC}
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

Key: TypeAlias = tuple[Any, ...]


class _Compared(Struct, frozen=True, eq=False):
    """A condition ``column op value``, or with `values` that the column has one of these."""

    scalar: ir.Scalar
    attnum: int
    op: str
    value: Value | None = None
    values: Callable[[Given], Sequence[Any] | None] | None = None


class KeyAccess(Struct, frozen=True, kw_only=True, eq=False):
    """The rows of `index` whose first columns are `equal` to some values, and whose next one is `low` or above and
    `high` or below (with whether the bound itself belongs to it), or one of the values that `among` gives.

    `whole`: at most one row for each key, which is looked up. `serves`: rows come in the order that is asked for, or
    when `backward` in the opposite of the index's.
    """

    record: Index
    index: IndexDefinition
    equal: tuple[Value, ...]
    low: tuple[Value, bool] | None = None
    high: tuple[Value, bool] | None = None
    among: Callable[[Given], Sequence[Any] | None] | None = None
    whole: bool = False
    serves: bool = False
    backward: bool = False

    def keys(self, given: Given) -> Sequence[Key]:
        """The whole keys. Raises NeedsEngine for what no key can be."""
        fixed = self._values(self.equal, given)
        if fixed is None:
            return ()
        if self.among is None:
            return (fixed,)
        values = self.among(given)
        if values is None or len(values) > MAX_KEYS:
            raise NeedsEngine
        column = self.index.columns[len(fixed)]
        return [(*fixed, value) for value in dict.fromkeys(values) if value is not None and _is_key(column, value)]

    def range(self, given: Given) -> KeyRange | None:
        """The range; None when nothing is in it. Raises NeedsEngine for what no key can be."""
        fixed = self._values(self.equal, given)
        if fixed is None:
            return None
        bounds: list[Bound | None] = []
        for end in (self.low, self.high):
            if end is None:
                bounds.append(None)
                continue
            value = end[0]((), given)
            if value is None:
                return None
            _is_key(self.index.columns[len(fixed)], value)
            bounds.append(Bound((value,), inclusive=end[1]))
        return KeyRange(equal=fixed, low=bounds[0], high=bounds[1])

    def _values(self, values: Sequence[Value], given: Given) -> Key | None:
        """The values; None when one is NULL, which nothing is equal to."""
        found = tuple([value((), given) for value in values])
        for column, value in zip(self.index.columns, found, strict=False):
            if value is None:
                return None
            if type(value) is not int and type(value) is not str:
                _is_key(column, value)
        return found


def _is_key(column: Any, value: Any) -> bool:
    """True; raises NeedsEngine when the column can hold nothing like the value."""
    if isinstance(value, Decimal) and not fits_decimal(value):
        raise NeedsEngine
    try:
        plain(column, value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise NeedsEngine from error
    return True


def key_access(
    catalog: CatalogSnapshot,
    relation: Relation,
    scan: ir.Scan,
    conditions: Sequence[ir.Scalar],
    order: Sequence[Order] | None,
    *,
    is_cut: bool,
) -> tuple[KeyAccess, list[ir.Scalar]] | None:
    """How the rows of `scan` that meet `conditions` are found, and the conditions that are left to test; None when no
    index finds them. `order`: rows are asked for in this one (None: in none that matters), and if `is_cut` only the
    first ones."""
    compared = [found for condition in conditions if (found := _compared(condition, scan)) is not None]
    best: tuple[tuple[int, ...], KeyAccess, list[_Compared]] | None = None
    not_null = {column.attnum for column in relation.columns if column.not_null}
    for usable in usable_indexes(catalog, relation):
        made = _access(usable, compared, order, not_null)
        if made is None:
            continue
        access, met = made
        serves = is_cut and access.serves and len(met) == len(conditions)
        if not met and not serves:
            continue
        worth = (access.whole, serves, len(access.equal), (access.low is not None) + (access.high is not None))
        if best is None or worth > best[0]:
            best = worth, access, met
    if best is None:
        return None
    _, access, met = best
    done = [condition.scalar for condition in met]
    return access, [condition for condition in conditions if not any(condition is each for each in done)]


def _compared(condition: ir.Scalar, scan: ir.Scan) -> _Compared | None:
    """`condition` as one that an index may serve."""
    attnums = {field.id: field.origin.attnum for field in scan.fields if field.origin is not None}
    types = {field.id: field.type for field in scan.fields}
    if isinstance(condition, ir.Call) and len(condition.args) == 2 and condition.signature.name in _FLIPPED:
        (left, right), op = condition.args, condition.signature.name
        column = column_of(left)
        if column is None:
            column, right, op = column_of(right), left, _FLIPPED[op]
        if column is None or column.id not in attnums or not _is_key_type(types[column.id], right.type):
            return None
        row = RowColumns({})
        value = row.value_of(right)
        return None if value is None else _Compared(condition, attnums[column.id], op, value)
    found = condition_of(condition)
    if (
        found is None
        or found.op != "in"
        or found.by_key
        or found.field not in attnums
        or types[found.field].oid not in _KEYS
    ):
        return None
    if isinstance(found.operand, tuple) and not all(
        _is_key_type(types[found.field], each.type) for each in found.operand
    ):
        return None
    return _Compared(condition, attnums[found.field], "in", values=_values_of(found))


def _is_key_type(column: SqlType, value: SqlType) -> bool:
    return column.oid in _KEYS and comparable(column, value)


def _values_of(condition: Condition) -> Callable[[Given], Sequence[Any] | None]:
    return lambda given: bind_operands(condition, given.params)


def _access(
    usable: UsableIndex, compared: Sequence[_Compared], order: Sequence[Order] | None, not_null: Collection[int]
) -> tuple[KeyAccess, list[_Compared]] | None:
    """What `usable` is used for, with the conditions that this meets."""
    index, record = usable.definition, usable.record
    if not record.valid or usable.rows or not all(record.columns):
        return None
    by_column: dict[int, dict[str, _Compared]] = {}
    for condition in compared:
        by_column.setdefault(condition.attnum, {}).setdefault(condition.op, condition)
    columns = record.columns[: len(index.columns)]
    met: list[_Compared] = []
    for attnum in columns:
        fixed = by_column.get(attnum, {}).get("=")
        if fixed is None:
            break
        met.append(fixed)
    equal = tuple([condition.value for condition in met if condition.value is not None])
    width = len(met)
    here: Mapping[str, _Compared] = by_column.get(columns[width], {}) if width < len(columns) else {}
    is_exact = record.unique and index.hashed
    if width == len(columns) and is_exact:
        return KeyAccess(record=record, index=index, equal=equal, whole=True, serves=True), met
    if width == len(columns) - 1 and is_exact and "in" in here:
        among = here["in"]
        return KeyAccess(record=record, index=index, equal=equal, whole=True, among=among.values), [*met, among]
    if not index.ordered:
        return None
    bounds: dict[str, tuple[Value, bool] | None] = {"low": None, "high": None}
    for side, ops in (("low", (">", ">=")), ("high", ("<", "<="))):
        for op in ops:
            if op in here and bounds[side] is None:
                value = here[op].value
                assert value is not None
                bounds[side] = value, "=" in op
                met.append(here[op])
    backward = None if order is None else _direction(index, columns, width, order, not_null)
    access = KeyAccess(
        record=record,
        index=index,
        equal=equal,
        low=bounds["low"],
        high=bounds["high"],
        serves=backward is not None,
        backward=bool(backward),
    )
    return access, met


def _direction(
    index: IndexDefinition, columns: Sequence[int], width: int, order: Sequence[Order], not_null: Collection[int]
) -> bool | None:
    """Whether rows in `order` are found from the end of the index on; None when it has another order."""
    fixed = columns[:width]
    keys = [key for key in order if key.attnum not in fixed]
    if len(keys) > len(columns) - width:
        return None
    backward: bool | None = None
    for key, attnum, column in zip(keys, columns[width:], index.columns[width:], strict=False):
        turned = key.descending != column.descending
        if key.attnum != attnum or (backward is not None and backward != turned):
            return None
        if attnum not in not_null and (key.nulls_first != column.nulls_first) != turned:
            return None
        backward = turned
    return bool(backward)
