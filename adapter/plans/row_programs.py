"""What a query makes of the rows that an index has found, worked out once: conditions, computed columns, DISTINCT,
groups and their aggregates, ORDER BY and LIMIT.

The rows are few, and columns that nothing is computed with pass as they are. A *row* is, here, the values of the
columns that are computed with, and at its end its number among those found; above an aggregate, the values of its
fields. Each step makes rows of rows; the outputs come last.

`computed_columns` does the same for expressions over rows that are at hand: of RETURNING, of ON CONFLICT DO UPDATE, and
of generated columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
from msgspec import Struct

from adapter.plans.computed.constant_rows import NeedsEngine, array_of
from adapter.plans.computed.row_values import INTEGERS, ORDERED, TIMES, Given, RowColumns, Value
from adapter.plans.key_indexes import stored_columns
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_schema
from planner.types import types as t
from planner.types.types import SqlType
from storage.bounded_map import BoundedMap
from storage.catalog.model import Relation
from storage.shards.indexes.definition import StoredColumn
from storage.shards.indexes.reading.found import Found

_EQUAL = ORDERED | {t.BOOL, t.UUID}
"""Types whose values are equal in Python when they are in PostgreSQL."""

MAX_COMPUTED_ROWS = 1000
"""Rows at hand that are computed with here. An engine computes more in a thread."""

MAX_QUERIES = 1000
"""Queries over rows at hand of which it is known how they are computed."""

_INT8 = 2**63
_EXACT = Context(prec=100)

Rows: TypeAlias = list[Sequence[Any]]
Step: TypeAlias = Callable[[Rows, Given], Rows]


class Output(Struct, frozen=True, kw_only=True):
    """One column of the result: a stored column as it is, by its place (-1: the row's id), or a computed value."""

    type: SqlType
    place: int = -1
    value: Value | None = None


class Order(Struct, frozen=True):
    """By a stored column (its attnum)."""

    attnum: int
    descending: bool
    nulls_first: bool


class RowProgram(Struct, frozen=True, kw_only=True, eq=False):
    """See the module. `columns` are what is wanted of the rows that are found; those that are computed with are at
    `read`, dates and timestamps (`numbers`) as plain numbers. The result has `schema`."""

    columns: tuple[StoredColumn, ...]
    read: tuple[int, ...]
    numbers: tuple[pa.DataType | None, ...]
    steps: tuple[Step, ...]
    grouped: bool
    outputs: tuple[Output, ...]
    schema: pa.Schema

    def answer(self, found: Found, given: Given) -> RecordBatch | None:
        """The result over the rows that were found; None when an engine has to compute it.

        Raises the errors of values that do not fit their types.
        """
        columns = found.rows.columns if found.arrays is None else found.arrays
        row_ids = found.row_ids
        count = len(row_ids)
        rows: Rows = list(zip(*_plain_values(columns, self.read, self.numbers), range(count), strict=True))
        try:
            for step in self.steps:
                rows = step(rows, given)
            if self.steps and not self.grouped:
                kept = [row[-1] for row in rows]
                if kept != list(range(count)):
                    at = pa.array(kept, pa.int64())
                    columns, row_ids = [column.take(at) for column in columns], row_ids[kept]
            arrays = []
            for output in self.outputs:
                if output.value is not None:
                    value = output.value
                    arrays.append(array_of(output.type, [value(row, given) for row in rows]))
                elif output.place < 0:
                    arrays.append(pa.array(row_ids, pa.int64()))
                else:
                    arrays.append(columns[output.place])
        except NeedsEngine:
            return None
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _plain_values(
    columns: Sequence[Any], read: Sequence[int], numbers: Sequence[pa.DataType | None]
) -> list[list[Any]]:
    """The values of the columns at `read`, dates and timestamps as plain `numbers`."""
    return [
        (columns[place] if number is None else columns[place].view(number)).to_pylist()
        for place, number in zip(read, numbers, strict=True)
    ]


class ProgramMaker:
    """Makes the program of a query from its bottom, the scan of `relation`, upwards. Where a step is more than can be
    done here, it returns False.

    `order` and `first` say which of the rows are needed where those are the first ones by stored columns: how many,
    None for all of them.
    """

    def __init__(self, scan: ir.Scan, relation: Relation) -> None:
        self._relation = relation
        self._scan = scan
        self.types = {field.id: field.type for field in scan.fields}
        self.attnums = {field.id: field.origin.attnum for field in scan.fields if field.origin is not None}
        self._base = RowColumns(self.types)
        self._row = self._base
        self._stored: dict[int, int] = {field.id: field.id for field in scan.fields}
        """By id of a field: that of the scan's field that it is."""
        self._steps: list[Step] = []
        self._grouped = False
        self.order: tuple[Order, ...] | None = ()
        self.first: Callable[[Given], int | None] | None = None

    # ------------------------------------------------------------ steps

    def filter(self, conditions: Sequence[ir.Scalar]) -> bool:
        """Leave the rows that meet all of `conditions`."""
        tests: list[Value] = []
        for condition in conditions:
            test = self._row.value_of(condition)
            if test is None:
                return False
            tests.append(test)
        if tests:
            self._needs_all()
            self._steps.append(lambda rows, given: [r for r in rows if all(test(r, given) is True for test in tests)])
        return True

    def project(self, project: ir.Project) -> bool:
        """Compute columns."""
        stored: dict[int, int] = {}
        for field, expr in zip(project.fields, project.exprs, strict=True):
            if isinstance(expr, ir.ColumnRef) and expr.id in self._stored:
                stored[field.id] = self._stored[expr.id]
                self._row.same[field.id] = expr.id
                continue
            value = self._row.value_of(expr)
            if value is None:
                return False
            self._row.named[field.id] = value
        self._stored = stored
        return True

    def sort(self, sort: ir.Sort) -> bool:
        """Order the rows. A constant has no order here: it may stand for the number of a column."""
        keys: list[tuple[Value, bool, bool]] = []
        order: list[Order] = []
        for key in sort.keys:
            value = self._row.value_of(key.expr)
            if value is None or not (_ordered(key.expr.type) or key.expr.type.oid == t.BOOL):
                return False
            if isinstance(key.expr, (ir.Literal, ir.Param)):
                return False
            keys.append((value, key.descending, key.nulls_first))
            if isinstance(key.expr, ir.ColumnRef) and key.expr.id in self._stored:
                attnum = self.attnums.get(self._stored[key.expr.id])
                if attnum is not None:
                    order.append(Order(attnum, key.descending, key.nulls_first))
        if self.first is None and self.order == () and len(order) == len(keys):
            self.order = tuple(order)
        elif self.first is None:
            self._needs_all()
        self._steps.append(lambda rows, given: _sorted(rows, given, keys))
        return True

    def limit(self, limit: ir.Limit) -> bool:
        """Leave so many rows."""
        bounds = [None if expr is None else self._base.value_of(expr) for expr in (limit.offset, limit.count)]
        if limit.ties or any(
            value is None and expr is not None for value, expr in zip(bounds, (limit.offset, limit.count), strict=True)
        ):
            return False
        offset, count = bounds

        def cut(rows: Rows, given: Given) -> Rows:
            skipped, left = _bounds(offset, count, given)
            return rows[skipped:] if left is None else rows[skipped : skipped + left]

        def wanted(given: Given) -> int | None:
            skipped, left = _bounds(offset, count, given)
            return None if left is None else skipped + left

        if self.order is not None and self.first is None:
            self.first = wanted
        self._steps.append(cut)
        return True

    def deduplicate(self, node: ir.Deduplicate) -> bool:
        """Leave one row of those that are the same."""
        values = [self._row.column(field.id) for field in node.fields]
        if node.on or None in values or not all(_equal(field.type) for field in node.fields):
            return False
        columns = [value for value in values if value is not None]
        self._needs_all()

        def distinct(rows: Rows, given: Given) -> Rows:
            seen: dict[tuple[Any, ...], Sequence[Any]] = {}
            for row in rows:
                seen.setdefault(tuple([column(row, given) for column in columns]), row)
            return list(seen.values())

        self._steps.append(distinct)
        return True

    def aggregate(self, node: ir.Aggregate) -> bool:
        """Group the rows and compute the aggregates of each group."""
        if node.grouping_sets is not None or node.groupings:
            return False
        keys: list[Value] = []
        for expr in node.keys:
            value = self._row.value_of(expr)
            if value is None or not _equal(expr.type) or isinstance(expr, (ir.Literal, ir.Param)):
                return False
            keys.append(value)
        calls: list[_Aggregated] = []
        for call in node.calls:
            made = _aggregate_of(call, self._row)
            if made is None:
                return False
            calls.append(made)
        self._needs_all()

        def grouped(rows: Rows, given: Given) -> Rows:
            if not keys:
                return [[call(rows, given) for call in calls]]
            groups: dict[tuple[Any, ...], Rows] = {}
            for row in rows:
                groups.setdefault(tuple([key(row, given) for key in keys]), []).append(row)
            return [[*key, *[call(group, given) for call in calls]] for key, group in groups.items()]

        self._steps.append(grouped)
        self._grouped = True
        self._stored = {}
        self._row = RowColumns({})
        for place, field in enumerate(node.fields):
            self._row.named[field.id] = _at(place)
        return True

    def _needs_all(self) -> None:
        if self.first is None:
            self.order = None

    # ------------------------------------------------------------ the end

    def made(self, fields: Sequence[ir.Field]) -> RowProgram | None:
        """The program whose result is `fields`."""
        places: dict[int, int] = {}
        outputs: list[Output] = []
        for field in fields:
            scanned = self._stored.get(field.id)
            if scanned is not None and scanned == self._scan.row_id:
                outputs.append(Output(type=field.type))
            elif scanned is not None and scanned in self.attnums:
                attnum = self.attnums[scanned]
                outputs.append(Output(type=field.type, place=places.setdefault(attnum, len(places))))
            else:
                value = self._row.column(field.id)
                if value is None:
                    return None
                outputs.append(Output(type=field.type, value=value))
        read = self._base.places
        if not all(field in self.attnums for field in read):
            return None
        at = tuple([places.setdefault(self.attnums[field], len(places)) for field in read])
        stored = {column.name: column for column in stored_columns(self._relation)}
        columns = tuple([stored[f"c{attnum}"] for attnum in places])
        schema = arrow_schema(tuple(fields))
        if any(o.place >= 0 and columns[o.place].type != field.type for o, field in zip(outputs, schema, strict=True)):
            return None
        return RowProgram(
            columns=columns,
            read=at,
            numbers=tuple([_number_type(self.types[field]) for field in read]),
            steps=tuple(self._steps),
            grouped=self._grouped,
            outputs=tuple(outputs),
            schema=schema,
        )


def _number_type(type_: SqlType) -> pa.DataType | None:
    """How a column's values are seen as numbers; None: they are what they are."""
    if type_.oid not in TIMES:
        return None
    return pa.int32() if type_.oid == t.DATE else pa.int64()


def _at(place: int) -> Value:
    return lambda row, given: row[place]


def _bounds(offset: Value | None, count: Value | None, given: Given) -> tuple[int, int | None]:
    """How many rows are skipped, and how many are left (None: all). A negative number is for an engine to refuse."""
    skipped = 0 if offset is None else offset((), given) or 0
    left = None if count is None else count((), given)
    if skipped < 0 or (left is not None and left < 0):
        raise NeedsEngine
    return skipped, left


def _ordered(type_: SqlType) -> bool:
    """Whether Python orders the values of a type as PostgreSQL does."""
    return type_.oid in ORDERED and not _is_wide_number(type_)


def _equal(type_: SqlType) -> bool:
    """Whether values of a type are equal here when they are in PostgreSQL."""
    return type_.oid in _EQUAL and not _is_wide_number(type_)


def _is_wide_number(type_: SqlType) -> bool:
    """Whether a NaN may be among the values: equal to itself in PostgreSQL, and greater than every number."""
    return type_.oid == t.NUMERIC and t.is_wide(type_)


def _sorted(rows: Rows, given: Given, keys: Sequence[tuple[Value, bool, bool]]) -> Rows:
    """`rows` by the keys (descending, NULLs first)."""
    if len(rows) < 2:
        return rows
    for value, descending, nulls_first in reversed(keys):
        values = [value(row, given) for row in rows]
        here = [n for n, known in enumerate(values) if known is not None]
        here.sort(key=values.__getitem__, reverse=descending)
        if len(here) < len(rows):
            nulls = [n for n, known in enumerate(values) if known is None]
            here = nulls + here if nulls_first else here + nulls
        rows = [rows[n] for n in here]
    return rows


# ---------------------------------------------------------------- aggregates

_Aggregated: TypeAlias = Callable[[Rows, Given], Any]
"""The value of an aggregate over the rows of one group."""


def _aggregate_of(call: ir.AggregateCall, row: RowColumns) -> _Aggregated | None:
    """What computes `call`; None when an engine has to."""
    name, test = call.signature.name, None
    if call.order_by or len(call.args) > 1:
        return None
    if call.filter is not None:
        test = row.value_of(call.filter)
        if test is None:
            return None
    met = test
    if not call.args:
        if name != "count" or call.distinct:
            return None
        if met is None:
            return lambda rows, given: len(rows)
        return lambda rows, given: len([r for r in rows if met(r, given) is True])
    (expr,) = call.args
    arg = row.value_of(expr)
    compute = _COMPUTED.get(name)
    if compute is None or arg is None or not _equal(expr.type):
        return None
    if name in ("min", "max") and (not _ordered(expr.type) or expr.type.oid != call.type.oid):
        return None
    if name == "sum" and expr.type.oid not in INTEGERS | {t.NUMERIC}:
        return None
    value, distinct, type_, result, place = arg, call.distinct, call.type, compute, row.place_of(expr)

    def aggregated(rows: Rows, given: Given) -> Any:
        if met is not None:
            rows = [r for r in rows if met(r, given) is True]
        values: Any
        if place is None:
            values = [known for r in rows if (known := value(r, given)) is not None]
        else:
            values = [known for r in rows if (known := r[place]) is not None]
        return result(set(values) if distinct else values, type_)

    return aggregated


def _sum(values: Any, type_: SqlType) -> Any:
    if not values:
        return None
    if type_.oid == t.INT8:
        total = sum(values)
        if -_INT8 <= total < _INT8:
            return total
        raise NeedsEngine
    number, shape = reduce(_EXACT.add, values, Decimal()), type_.shape
    if shape is None or not number.is_finite() or number.adjusted() >= shape.precision - shape.scale:
        raise NeedsEngine
    return number


_COMPUTED: Mapping[str, Callable[[Any, SqlType], Any]] = {
    "count": lambda values, type_: len(values),
    "min": lambda values, type_: min(values, default=None),
    "max": lambda values, type_: max(values, default=None),
    "sum": _sum,
}


# ---------------------------------------------------------------- rows at hand


class _Columns(Struct, frozen=True, kw_only=True, eq=False):
    """The columns of a query over rows at hand; those that are computed with are at `read`."""

    read: tuple[int, ...]
    numbers: tuple[pa.DataType | None, ...]
    outputs: tuple[Output, ...]
    computes: bool
    """Whether it has others than those that are at hand."""


_known: BoundedMap[int, tuple[BoundQuery, _Columns | None]] = BoundedMap(max_entries=MAX_QUERIES)
"""By identity of the query, which an entry keeps alive; None: it takes an engine."""


def computed_columns(query: BoundQuery, columns: Sequence[Any], given: Given) -> list[pa.Array] | None:
    """The columns of `query`, which computes one row of each of the rows at hand (`RETURNING_ROWS`), given by
    `columns`. None when an engine has to compute them."""
    at_hand = _at_hand(query, columns)
    if at_hand is None:
        return None
    made, columns, rows = at_hand
    try:
        return [_computed(output, columns, rows, given) for output in made.outputs]
    except NeedsEngine:
        return None


def chosen_columns(query: BoundQuery, columns: Sequence[Any], given: Given) -> tuple[pa.Array, list[pa.Array]] | None:
    """`computed_columns` of the rows for which the first column is true, without that one; before them the places of
    these rows. Nothing is computed for the others."""
    at_hand = _at_hand(query, columns)
    if at_hand is None:
        return None
    made, columns, rows = at_hand
    first, *outputs = made.outputs
    try:
        applies = _computed(first, columns, rows, given).to_pylist()
        kept = [place for place, met in enumerate(applies) if met]
        at = pa.array(kept, pa.int64())
        if len(kept) < len(applies):
            columns = [column.take(at) for column in columns]
            rows = [rows[place] for place in kept] if rows else rows
        return at, [_computed(output, columns, rows, given) for output in outputs]
    except NeedsEngine:
        return None


def _computed(output: Output, columns: Sequence[Any], rows: Rows, given: Given) -> Any:
    value = output.value
    return columns[output.place] if value is None else array_of(output.type, [value(row, given) for row in rows])


def _at_hand(query: BoundQuery, columns: Sequence[Any]) -> tuple[_Columns, Sequence[Any], Rows] | None:
    """How `query` is computed, and what of; None: by an engine."""
    known = _known.get(id(query))
    if known is None:
        known = query, _columns_of(query.rel)
        _known.put(id(query), known)
    made, count = known[1], len(columns[0]) if columns else 0
    if made is None or (made.computes and count > MAX_COMPUTED_ROWS):
        return None
    if not made.computes:
        return made, columns, []
    columns = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return made, columns, list(zip(*_plain_values(columns, made.read, made.numbers), strict=True)) or [()] * count


def _columns_of(rel: ir.Rel) -> _Columns | None:
    projects: list[ir.Project] = []
    at = rel
    while isinstance(at, ir.Project):
        projects.append(at)
        at = at.input
    if not isinstance(at, ir.CteScan) or at.cte != ir.RETURNING_ROWS:
        return None
    types = {field.id: field.type for field in at.fields}
    row = RowColumns(types)
    stored = {field.id: place for place, field in enumerate(at.fields)}
    for project in reversed(projects):
        above: dict[int, int] = {}
        for field, expr in zip(project.fields, project.exprs, strict=True):
            if isinstance(expr, ir.ColumnRef) and expr.id in stored:
                above[field.id] = stored[expr.id]
                row.same[field.id] = expr.id
                continue
            value = row.value_of(expr)
            if value is None:
                return None
            row.named[field.id] = value
        stored = above
    outputs: list[Output] = []
    for field in rel.fields:
        place = stored.get(field.id)
        computed = row.column(field.id) if place is None else None
        if place is None and computed is None:
            return None
        outputs.append(Output(type=field.type, place=-1 if place is None else place, value=computed))
    places = {field.id: place for place, field in enumerate(at.fields)}
    return _Columns(
        read=tuple([places[field] for field in row.places]),
        numbers=tuple([_number_type(types[field]) for field in row.places]),
        outputs=tuple(outputs),
        computes=any(output.value is not None for output in outputs),
    )
