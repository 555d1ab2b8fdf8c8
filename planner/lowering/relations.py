"""Relational nodes to SELECT statements, merged so that small queries stay one flat SELECT.

Every FROM item has an alias of its own (``t<n>``) and every column of it is referred to as ``t<n>.c<m>``, so names are
unique in the whole statement and correlated references need nothing special. `build` returns a `Select` and enters the
SQL of its columns into the context, where scalars find them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from planner.ir import nodes as ir
from planner.ir.rewrite import column_uses, walk
from planner.lowering.aggregates import Aggregates
from planner.lowering.context import Context, is_simple, is_volatile, place_of
from planner.lowering.functions_in_from import FunctionsInFrom
from planner.lowering.scalars import Scalars
from planner.lowering.select import (
    OrderKey,
    Select,
    give_back,
    is_reference,
    looks_foreign,
    may_inline,
    take_foreign,
)
from planner.lowering.windows import Windows, compared_by_rows
from planner.types.signature import Kind
from planner.types.types import INT4, SqlType

COMPUTED_KEYS = 1_000_000
"""Ids from here on are columns that the lowering adds."""

MAX_ROW_COUNT = 2**62
"""The engine's largest LIMIT and OFFSET; more rows than that there are none."""


_FIRST_KEY_ID = 1 << 30
"""Ids of columns that hold window keys; the binder's count from 1."""


class Relations:
    """The relational half of a lowering."""

    def __init__(self, ctx: Context, scalars: Scalars) -> None:
        self.ctx = ctx
        self.scalars = scalars
        scalars.relations = self
        self.aggregates = Aggregates(ctx, scalars)
        self.windows = Windows(ctx, scalars, self.aggregates)
        self.functions = FunctionsInFrom(ctx, scalars)
        self._ctes: dict[int, int] = {}
        self._computed: dict[ir.ScalarSubquery, int] = {}
        self._key_ids = itertools.count(_FIRST_KEY_ID)

    def build(self, rel: ir.Rel) -> Select:
        """The SELECT of a node; the SQL of its columns is in scope afterwards."""
        select = _HANDLERS[rel.__class__](self, rel)
        self.ctx.columns.update(select.columns)
        return select

    def subquery(self, rel: ir.Rel) -> str:
        """A node as the text of a SELECT whose columns are ``c<id>``, in the order of its fields."""
        return self.text(self.build(rel), rel.fields)

    def text(self, select: Select, fields: Sequence[ir.Field], names: Sequence[str] | None = None) -> str:
        """The text of a SELECT with exactly the columns `fields`, under `names` if given."""
        if select.set_operation is not None and (names is not None or list(select.columns) != [f.id for f in fields]):
            select = self.wrap(select)
        outputs = [
            (select.columns[field.id], f"c{field.id}" if names is None else names[index])
            for index, field in enumerate(fields)
        ]
        return select.render(outputs)

    # ------------------------------------------------------------ leaves

    def _one_row(self, rel: ir.OneRow) -> Select:
        return Select(self.ctx, {})

    def _source(self, oid: int) -> str:
        self.ctx.relations.add(oid)
        return place_of(oid)

    def _scan(self, rel: ir.Scan) -> Select:
        alias = self.ctx.alias()
        columns: dict[int, str] = {}
        for field in rel.fields:
            if field.id == rel.row_id:
                columns[field.id] = f"{alias}._row_id"
            else:
                assert field.origin is not None
                columns[field.id] = f"{alias}.c{field.origin.attnum}"
        if rel.relation_oid in self.ctx.extendable:
            self.ctx.scans[alias] = rel.relation_oid
            self.ctx.constants.setdefault(rel.relation_oid, [])
        return Select(self.ctx, columns, f"{self._source(rel.relation_oid)} AS {alias}")

    def _system_scan(self, rel: ir.SystemScan) -> Select:
        if not self.ctx.local:
            raise self.ctx.unsupported(f"system relation {rel.schema}.{rel.name}")
        alias = self.ctx.alias()
        columns: dict[int, str] = {}
        for field in rel.fields:
            assert field.origin is not None
            attnum = field.origin.attnum
            columns[field.id] = f"{alias}.c{attnum}" if attnum > 0 else f"{alias}.s{-attnum}"
        return Select(self.ctx, columns, f"{self._source(rel.relation_oid)} AS {alias}")

    def _values(self, rel: ir.Values) -> Select:
        alias = self.ctx.alias()
        rows = [
            [self.scalars.typed(value, field.type) for value, field in zip(row, rel.fields, strict=True)]
            for row in rel.rows
        ]
        columns = {field.id: f"{alias}.c{field.id}" for field in rel.fields}
        names = ", ".join([f"c{field.id}" for field in rel.fields])
        if len(rows) == 1:
            return Select(self.ctx, {field.id: sql for field, sql in zip(rel.fields, rows[0], strict=True)})
        if self.ctx.local or all(isinstance(value, ir.Literal) for row in rel.rows for value in row):
            body = ", ".join([f"({', '.join(row)})" for row in rows])
            return Select(self.ctx, columns, f"(VALUES {body}) AS {alias}({names})")
        body = " UNION ALL ".join([f"SELECT {', '.join(row)}" for row in rows])
        return Select(self.ctx, columns, f"({body}) AS {alias}({names})")

    def _function_scan(self, rel: ir.FunctionScan) -> Select:
        return self.functions.scan(rel)

    def _cte_scan(self, rel: ir.CteScan) -> Select:
        alias = self.ctx.alias()
        columns = {field.id: f"{alias}.c{index}" for index, field in enumerate(rel.fields, 1)}
        if rel.cte == ir.RETURNING_ROWS:
            return Select(self.ctx, columns, f"{self._source(ir.RETURNING_ROWS)} AS {alias}")
        return Select(self.ctx, columns, f"cte{self._ctes[rel.cte]} AS {alias}")

    # ------------------------------------------------------------ one input

    def _project(self, rel: ir.Project) -> Select:
        select = self.build(rel.input)
        if (
            select.set_operation is not None
            or not self.inlinable(select, rel.exprs)
            or (select.distinct and not self._renames_all(rel))
            or self._refused_among_groups(select, rel.exprs)
        ):
            select = self.wrap(select)
        select.columns = {
            field.id: self.scalars.typed(expr, field.type) for field, expr in zip(rel.fields, rel.exprs, strict=True)
        }
        return select

    def _refused_among_groups(self, select: Select, exprs: Sequence[ir.Scalar]) -> bool:
        """Whether Spark would take a correlated subquery among `exprs` for one that depends on more than the groups."""
        return (
            not self.ctx.local
            and select.group_by is not None
            and any(isinstance(node, ir.ScalarSubquery) for node in walk(tuple(exprs)))
        )

    def _renames_all(self, rel: ir.Project) -> bool:
        ids = [expr.id for expr in rel.exprs if isinstance(expr, ir.ColumnRef)]
        return len(ids) == len(rel.exprs) and sorted(ids) == sorted(field.id for field in rel.input.fields)

    def _project_set(self, rel: ir.ProjectSet) -> Select:
        return self.functions.project_set(self, rel)

    def _filter(self, rel: ir.Filter) -> Select:
        select = self.build(rel.input)
        open_ = not (select.distinct or select.windowed or select.expanded or select.limited() or select.set_operation)
        conditions = (rel.condition,)
        mergeable = open_ and self.inlinable(select, conditions) and not self._refused_among_groups(select, conditions)
        # Spark does not find the keys of GROUPING() in HAVING once there is an ORDER BY.
        if not mergeable or (not self.ctx.local and any("grouping(" in sql for sql in select.columns.values())):
            select = self.wrap(select)
        target = select.having if select.group_by is not None else select.where
        target.extend(self.scalars.conjuncts(rel.condition))
        return select

    def _sort(self, rel: ir.Sort) -> Select:
        select = self.build(rel.input)
        select = self._computed_keys(select, rel)
        keys = tuple([key.expr for key in rel.keys])
        if select.limited() or select.set_operation is not None or not self._sortable(select, keys):
            select = self.wrap(select)
        select.order_by = self.order_keys(rel.keys)
        return select

    def _computed_keys(self, select: Select, rel: ir.Sort) -> Select:
        """Spark orders by no subquery: keys that are subqueries become columns first."""
        if self.ctx.local or not any(isinstance(key.expr, ir.ScalarSubquery) for key in rel.keys):
            return select
        select = self.wrap(select)
        for key in rel.keys:
            if isinstance(key.expr, ir.ScalarSubquery):
                id = COMPUTED_KEYS + self.ctx.aliases
                self._computed[key.expr] = id
                select.columns[id] = self.scalars.sql(key.expr)
                self.ctx.aliases += 1
        return self.wrap(select)

    def _sortable(self, select: Select, keys: Sequence[ir.Scalar]) -> bool:
        outputs = set(select.columns.values())
        for key in keys:
            # Spark orders by no correlated subquery, so one that became a column has to stay one.
            if not self.ctx.local and isinstance(key, ir.ColumnRef) and "(SELECT " in select.columns.get(key.id, ""):
                return False
            closed = select.distinct or select.group_by is not None or select.windowed or select.expanded
            if isinstance(key, ir.ColumnRef) and select.columns.get(key.id) in outputs:
                # Spark finds an output column in ORDER BY only where it stands alone.
                if closed and not self.ctx.local and self.scalars.key("x", key.type) != "x":
                    return False
                continue
            if isinstance(key, ir.ScalarSubquery) and key in self._computed:
                continue
            if closed or not self.inlinable(select, (key,)):
                return False
        return True

    def order_keys(self, keys: Sequence[ir.SortKey]) -> list[OrderKey]:
        """ORDER BY keys with their null order; literals order nothing, and engines take them for positions: they are
        left out."""
        ordered: list[OrderKey] = []
        for key in keys:
            if isinstance(key.expr, (ir.Literal, ir.Param)):
                continue
            computed = self._computed.get(key.expr) if isinstance(key.expr, ir.ScalarSubquery) else None
            sql = self.scalars.sql(key.expr) if computed is None else self.ctx.columns[computed]
            if is_simple(sql) and not is_reference(sql):
                continue
            sql = self.scalars.key(sql, key.expr.type)
            direction = "DESC" if key.descending else "ASC"
            ordered.append(OrderKey(sql, f" {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"))
        return ordered

    def _limit(self, rel: ir.Limit) -> Select:
        select = self.build(rel.input)
        if rel.ties:
            return self.windows.with_ties(self, rel, select)
        if select.limited() or select.expanded:
            select = self.wrap(select)
        select.limit = self._row_count(rel.count, "LIMIT", "2201W")
        select.offset = self._row_count(rel.offset, "OFFSET", "2201X")
        if select.limit is None and select.offset is None:
            return select
        return select

    def _row_count(self, expr: ir.Scalar | None, clause: str, sqlstate: str) -> str | None:
        """LIMIT or OFFSET: NULL is none, a negative number is an error."""
        if expr is None:
            return None
        constant = self.scalars.constant(expr)
        if constant is None:
            return None
        if isinstance(constant, int):
            if constant < 0:
                from planner.errors import InvalidRowCountInLimitClause, InvalidRowCountInResultOffsetClause

                fault = InvalidRowCountInLimitClause if clause == "LIMIT" else InvalidRowCountInResultOffsetClause
                raise fault(f"{clause} must not be negative")
            if not self.ctx.local and constant > 2**31 - 1:
                if clause == "LIMIT":
                    return None
                raise self.ctx.unsupported(f"OFFSET {constant}")
            return str(min(constant, MAX_ROW_COUNT))
        sql = self.scalars.sql(expr)
        if self.ctx.local:
            fault_sql = self.ctx.dialect.raise_sql(sqlstate, f"{clause} must not be negative")
            none = "" if clause == "LIMIT" else " WHEN v IS NULL THEN 0"
            count = f"least(v, {MAX_ROW_COUNT})"
            return f"(SELECT CASE WHEN v < 0 THEN {fault_sql}{none} ELSE {count} END FROM (SELECT {sql} AS v) AS n)"
        if "SELECT" in sql or self.ctx.params is None:
            if self.ctx.params is None:
                return "1"
            raise self.ctx.unsupported(f"a {clause} that is not a constant")
        # Spark takes constants only, and refuses a negative one itself (see engine_errors).
        return f"CAST(least(coalesce({sql}, {'2147483647' if clause == 'LIMIT' else '0'}), 2147483647) AS INT)"

    def _deduplicate(self, rel: ir.Deduplicate) -> Select:
        if not rel.on and not all(self.scalars.compares_as_it_is(field.type) for field in rel.fields):
            columns = tuple([ir.ColumnRef(id=field.id, type=field.type) for field in rel.fields])
            rel = replace(rel, on=columns)
        if rel.on:
            return self.windows.distinct_on(self, rel)
        select = self.build(rel.input)
        if select.distinct or select.limited() or select.order_by or select.expanded or select.set_operation:
            select = self.wrap(select)
        select.distinct = "DISTINCT "
        return select

    # ------------------------------------------------------------ groups and windows

    def _aggregate(self, rel: ir.Aggregate) -> Select:
        enclosing = dict(self.ctx.scans)
        start = self.ctx.aliases
        select = self.build(rel.input)
        expressions = (
            *rel.keys,
            *(arg for call in rel.calls for arg in (*call.args, *(key.expr for key in call.order_by))),
            *(call.filter for call in rel.calls if call.filter is not None),
        )
        if (
            not select.plain()
            or not self.inlinable(select, expressions)
            or any(looks_foreign(call, select, start) for call in rel.calls)
        ):
            select = self.wrap(select)
        keys = [self.scalars.typed(key, field.type) for key, field in zip(rel.keys, rel.fields, strict=False)]
        computed = [
            index
            for index, key in enumerate(keys)
            if not is_reference(key) or (rel.grouping_sets is not None and key in keys[:index])
        ]
        if computed:
            select.columns = {**select.columns, **{rel.fields[index].id: keys[index] for index in computed}}
            select = self.wrap(select)
            keys = [
                select.columns[rel.fields[index].id]
                if index in computed
                else self.scalars.typed(key, rel.fields[index].type)
                for index, key in enumerate(rel.keys)
            ]
        grouped = [self.scalars.same(sql, key.type) for sql, key in zip(keys, rel.keys, strict=True)]
        columns: dict[int, str] = {}
        for field, sql, same in zip(rel.fields, keys, grouped, strict=False):
            # Equal values may be written differently: any one of the group stands for it.
            columns[field.id] = sql if same == sql else f"first({sql})"
            if same != sql and rel.grouping_sets is not None:
                columns[field.id] = f"CASE WHEN grouping({same}) = 0 THEN first({sql}) END"
        for field, call in zip(rel.fields[len(keys) :], rel.calls, strict=False):
            columns[field.id] = self.aggregates.sql(call)
        for field, grouping in zip(rel.fields[len(keys) + len(rel.calls) :], rel.groupings, strict=True):
            columns[field.id] = self._grouping([grouped[index] for index in grouping] if rel.grouping_sets else [])
        if rel.grouping_sets is not None:
            sets = [f"({', '.join([grouped[index] for index in chosen])})" for chosen in rel.grouping_sets]
            select.group_by = f"GROUPING SETS ({', '.join(sets)})"
        else:
            select.group_by = ", ".join(dict.fromkeys(grouped))
        select.columns = columns
        self.ctx.scans = enclosing
        return select

    def _grouping(self, keys: Sequence[str]) -> str:
        """GROUPING() of keys of grouping sets; without those a key is in every group."""
        if not keys:
            return self.scalars.sql(ir.Literal(value=0, type=SqlType(INT4)))
        if self.ctx.local:
            return f"CAST(grouping({', '.join(keys)}) AS INTEGER)"
        bits = [f"CAST(grouping({key}) AS INT) * {1 << (len(keys) - 1 - index)}" for index, key in enumerate(keys)]
        return f"({' + '.join(bits)})"

    def _window(self, rel: ir.Window) -> Select:
        select = self.build(rel.input)
        expressions = tuple([expr for call in rel.calls for expr in _window_expressions(call)])
        if (
            select.distinct or select.limited() or select.windowed or select.expanded or select.set_operation
            or select.group_by is not None or select.order_by or not self.inlinable(select, expressions)
        ):  # fmt: skip
            select = self.wrap(select)
        calls = rel.calls
        if self.ctx.local:
            select, calls = self._stable_keys(select, calls)
        computed = {
            field.id: self.windows.sql(call)
            for field, call in zip(rel.fields[len(rel.input.fields) :], calls, strict=True)
        }
        select.columns = {**select.columns, **computed}
        select.windowed = True
        return select

    def _stable_keys(
        self, select: Select, calls: tuple[ir.WindowCall, ...]
    ) -> tuple[Select, tuple[ir.WindowCall, ...]]:
        """DuckDB partitions and orders by nothing that it takes for volatile, which includes whatever may raise an
        error of ours: such keys become columns first."""
        columns: dict[int, str] = {}

        def stable(expr: ir.Scalar) -> ir.Scalar:
            sql = self.scalars.sql(expr)
            if "error(" not in sql and not is_volatile(sql):
                return expr
            id = next(self._key_ids)
            columns[id] = sql
            return ir.ColumnRef(id=id, type=expr.type)

        stabilized = tuple(
            [
                replace(
                    call,
                    partition_by=tuple([stable(expr) for expr in call.partition_by]),
                    order_by=tuple([replace(key, expr=stable(key.expr)) for key in call.order_by]),
                )
                for call in calls
            ]
        )
        if not columns:
            return select, calls
        select.columns = {**select.columns, **columns}
        return self.wrap(select), stabilized

    # ------------------------------------------------------------ two inputs

    def _join(self, rel: ir.Join) -> Select:
        start = self.ctx.aliases
        left = self.build(rel.left)
        foreign = take_foreign(left, start, next(self._key_ids)) if rel.kind in ("right", "full") else None
        if not self.ctx.local and rel.lateral and isinstance(rel.right, ir.FunctionScan) and _explodable(rel):
            select = self.functions.lateral(self, left, rel.right, outer=rel.kind == "left")
            if rel.condition is not None and rel.kind != "left":
                select.where = self.scalars.conjuncts(rel.condition)
            return select
        left_source, left_where = self._side(left, keep_where=rel.kind in ("cross", "inner", "left"))
        give_back(left, foreign)
        # NOTE: a lateral right side refers to the columns that the left side has now.
        self.ctx.columns.update(left.columns)
        start = self.ctx.aliases
        right = self.build(rel.right)
        foreign = (
            take_foreign(right, start, next(self._key_ids))
            if rel.kind in ("left", "full") and not rel.lateral
            else None
        )
        right_source, right_where = self._side(
            right, keep_where=rel.kind in ("cross", "inner") and not rel.lateral, lateral=rel.lateral
        )
        give_back(right, foreign)
        where = [*left_where, *right_where]
        if right.joined and not right_source.startswith("LATERAL"):
            right_source = f"({right_source})"
        columns = {**left.columns, **right.columns}
        self.ctx.columns.update(columns)
        conditions = [] if rel.condition is None else self.scalars.conjuncts(rel.condition)
        select = Select(self.ctx, columns, None, joined=True, where=where)
        if rel.kind in ("cross", "inner"):
            if conditions and not rel.lateral:
                select.source = f"{left_source} JOIN {right_source} ON {' AND '.join(conditions)}"
            else:
                select.source = f"{left_source} CROSS JOIN {right_source}"
                select.where += conditions
            return select
        on = " AND ".join(conditions) if conditions else "TRUE"
        select.source = f"{left_source} {rel.kind.upper()} JOIN {right_source} ON {on}"
        return select

    def _side(self, select: Select, *, keep_where: bool, lateral: bool = False) -> tuple[str, list[str]]:
        """One side of a join as a FROM item, and the conditions that move to the join's WHERE."""
        if lateral:
            if select.source is not None and select.bare() and select.source.startswith("LATERAL "):
                return select.source, []
            wrapped = select.wrapped()
            assert wrapped.source is not None
            select.columns, select.joined = wrapped.columns, False
            return f"LATERAL {wrapped.source}", []
        if select.plain() and select.source is not None and all(map(is_reference, select.columns.values())):
            if not select.where:
                return select.source, []
            if keep_where:
                return select.source, select.where
        source = select.as_source()
        return source, []

    def _set_operation(self, rel: ir.SetOperation) -> Select:
        if not all(self.scalars.compares_as_it_is(field.type) for field in rel.fields):
            if rel.op != "union":
                return self.build(compared_by_rows(rel, self._key_ids))
            if not rel.all:
                return self.build(ir.Deduplicate(input=replace(rel, all=True), on=(), order_by=(), fields=rel.fields))
        names = [f"c{field.id}" for field in rel.fields]
        sides: list[str] = []
        for side in (rel.left, rel.right):
            select = self.build(side)
            if any(
                field.type.shape != output.type.shape for field, output in zip(side.fields, rel.fields, strict=True)
            ):
                select = self.wrap(select)
                for field, output in zip(side.fields, rel.fields, strict=True):
                    if field.type.shape != output.type.shape:
                        select.columns[field.id] = self.ctx.dialect.cast(select.columns[field.id], output.type)
            text = self.text(select, side.fields, names)
            sides.append(text if _flat(select) else f"({text})")
        operator = rel.op.upper() + (" ALL" if rel.all else "")
        return Select(
            self.ctx,
            {field.id: f"c{field.id}" for field in rel.fields},
            set_operation=f"{sides[0]} {operator} {sides[1]}",
        )

    def _with(self, rel: ir.With) -> Select:
        texts: list[str] = []
        recursive = False
        for table in rel.tables:
            number = len(self._ctes) + 1
            names = [f"c{index}" for index in range(1, len(table.rel.fields) + 1)]
            body = self.text(self.build(table.rel), table.rel.fields, names)
            self._ctes[table.id] = number
            if table.step is not None:
                recursive = True
                if not self.ctx.local and not table.union_all:
                    raise self.ctx.unsupported("a recursive query with UNION")
                step = self.text(self.build(table.step), table.step.fields, names)
                body = f"({body}) UNION {'ALL ' if table.union_all else ''}({step})"
            keyword = ""
            if self.ctx.local and table.step is None and table.materialized is not None:
                keyword = "MATERIALIZED " if table.materialized else "NOT MATERIALIZED "
            texts.append(f"cte{number}({', '.join(names) or 'nothing'}) AS {keyword}({body})")
        select = self.build(rel.body)
        if select.ctes:
            select = self.wrap(select)
        select.ctes = texts
        select.recursive = recursive
        return select

    # ------------------------------------------------------------ helpers

    def wrap(self, select: Select) -> Select:
        """A SELECT that reads `select` as a derived table; its columns are in scope afterwards."""
        wrapped = select.wrapped()
        self.ctx.columns.update(wrapped.columns)
        return wrapped

    def inlinable(self, select: Select, exprs: Sequence[ir.Scalar]) -> bool:
        """Whether the columns that `exprs` use may be replaced by their expressions."""
        if all(map(is_simple, select.columns.values())):
            return True
        counts: Counter[int] = Counter()
        nested: set[int] = set()
        for expr in exprs:
            for id, inside in column_uses(expr):
                counts[id] += 1
                if inside:
                    nested.add(id)
        used = [id for id in counts if id in select.columns]
        if any(id in nested and not is_simple(select.columns[id]) for id in used):
            return False
        return may_inline([select.columns[id] for id in used], [counts[id] for id in used])


def _flat(select: Select) -> bool:
    """Whether a side of a set operation needs no parentheses."""
    return select.set_operation is None and not (select.order_by or select.limited() or select.ctes)


def _window_expressions(call: ir.WindowCall) -> Iterator[ir.Scalar]:
    yield from call.args
    yield from call.partition_by
    for key in call.order_by:
        yield key.expr
    if call.filter is not None:
        yield call.filter


_HANDLERS: dict[type, Callable[[Relations, Any], Select]] = {
    ir.OneRow: Relations._one_row,
    ir.Scan: Relations._scan,
    ir.SystemScan: Relations._system_scan,
    ir.Values: Relations._values,
    ir.FunctionScan: Relations._function_scan,
    ir.Project: Relations._project,
    ir.ProjectSet: Relations._project_set,
    ir.Filter: Relations._filter,
    ir.Join: Relations._join,
    ir.Aggregate: Relations._aggregate,
    ir.Window: Relations._window,
    ir.Deduplicate: Relations._deduplicate,
    ir.Sort: Relations._sort,
    ir.Limit: Relations._limit,
    ir.SetOperation: Relations._set_operation,
    ir.With: Relations._with,
    ir.CteScan: Relations._cte_scan,
}


def _explodable(rel: ir.Join) -> bool:
    """Whether a lateral join is no more than unnesting the lists of set-returning functions."""
    assert isinstance(rel.right, ir.FunctionScan)
    if not all(call.signature.kind is Kind.SET_RETURNING for call in rel.right.functions):
        return False
    always = rel.condition is None or (isinstance(rel.condition, ir.Literal) and rel.condition.value is True)
    return rel.kind in ("cross", "inner") or (rel.kind == "left" and always)
