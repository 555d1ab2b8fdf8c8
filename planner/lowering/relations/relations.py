"""Relational nodes to SELECT statements, merged so that small queries stay one flat SELECT.

Every FROM item has an alias of its own (``t<n>``) and every column of it is referred to as ``t<n>.c<m>``, so names are
unique in the whole statement and correlated references need nothing special. `build` returns a `Select` and enters the
SQL of its columns into the context, where scalars find them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from planner.dialects.dialect import Dialect
from planner.ir import nodes as ir
from planner.ir.barriers import is_barrier
from planner.ir.physical import element_type
from planner.ir.rewrite import conjuncts, is_volatile, transform, walk
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, OrderKey, column, listed, made, simple
from planner.lowering.fragments.sources import place_of
from planner.lowering.fragments.templates import calls_python
from planner.lowering.relations.functions_in_from import function_scan, project_set
from planner.lowering.relations.groups import deduplicated, grouped
from planner.lowering.relations.inlining import inlinable
from planner.lowering.relations.joins import join
from planner.lowering.relations.repeated_subqueries import add_conditions, projected, repeats
from planner.lowering.relations.row_counts import limit, offset
from planner.lowering.relations.select import Select
from planner.lowering.relations.windows import (
    by_row_numbers,
    compared_by_rows,
    is_of_outer_rows,
    windowed,
    with_ties,
)
from planner.lowering.scalars.scalars import Scalars
from planner.types.types import RECORD, SqlType
from planner.types.user_types import attributes


class Relations:
    """The relational half of a lowering."""

    def __init__(self, ctx: Context, scalars: Scalars) -> None:
        self.ctx = ctx
        self.scalars = scalars
        scalars.relations = self
        self._tables: dict[int, int] = {}
        """By id of a common table: its number."""
        self._computed_keys: dict[ir.ScalarSubquery, int] = {}
        """By sort key: the id of the column that it became."""

    def build(self, rel: ir.Rel) -> Select:
        """The SELECT of a node; the SQL of its columns is in scope afterwards."""
        select = _HANDLERS[rel.__class__](self, rel)
        self.ctx.columns.update(select.columns)
        return select

    def subquery(self, rel: ir.Rel) -> Fragment:
        """A node as a SELECT whose columns are ``c<id>``, in the order of its fields."""
        hoisted, repeated = self.ctx.hoisted, self.ctx.repeated
        self.ctx.hoisted = self.ctx.repeated = None
        text = self.complete(self.build(rel), rel.fields)
        self.ctx.hoisted, self.ctx.repeated = hoisted, repeated
        return text

    def complete(self, select: Select, fields: Sequence[ir.Field], names: Sequence[str] | None = None) -> Fragment:
        """A SELECT with exactly the columns `fields`, under `names` if given."""
        if select.set_operation is not None and (names is not None or list(select.columns) != [f.id for f in fields]):
            select = self.wrap(select)
        outputs = [
            (select.columns[field.id], f"c{field.id}" if names is None else names[index])
            for index, field in enumerate(fields)
        ]
        return select.render(outputs)

    def wrap(self, select: Select) -> Select:
        """A SELECT that reads `select` as a derived table; its columns are in scope afterwards."""
        wrapped = select.wrapped()
        self.ctx.columns.update(wrapped.columns)
        return wrapped

    # ------------------------------------------------------------ leaves

    def _one_row(self, rel: ir.OneRow) -> Select:
        return Select(self.ctx, {})

    def _source(self, oid: int, alias: str) -> Fragment:
        self.ctx.relations.add(oid)
        return Fragment(f"{place_of(oid)} AS {alias}")

    def _scan(self, rel: ir.Scan) -> Select:
        alias = self.ctx.alias()
        columns: dict[int, Fragment] = {}
        for field in rel.fields:
            if field.id == rel.row_id:
                columns[field.id] = column(alias, "_row_id")
            else:
                assert field.origin is not None
                columns[field.id] = column(alias, f"c{field.origin.attnum}")
        if rel.relation_oid in self.ctx.extendable:
            self.ctx.scans[alias] = rel.relation_oid
            self.ctx.constants.setdefault(rel.relation_oid, [])
        return Select(self.ctx, columns, self._source(rel.relation_oid, alias))

    def _system_scan(self, rel: ir.SystemScan) -> Select:
        if not self.ctx.dialect.reads_catalog:
            raise self.ctx.unsupported(f"system relation {rel.schema}.{rel.name}")
        alias = self.ctx.alias()
        columns: dict[int, Fragment] = {}
        for field in rel.fields:
            assert field.origin is not None
            attnum = field.origin.attnum
            columns[field.id] = column(alias, f"c{attnum}" if attnum > 0 else f"s{-attnum}")
        return Select(self.ctx, columns, self._source(rel.relation_oid, alias))

    def _values(self, rel: ir.Values) -> Select:
        alias = self.ctx.alias()
        rows = [
            [self.scalars.typed(value, field.type) for value, field in zip(row, rel.fields, strict=True)]
            for row in rel.rows
        ]
        if len(rows) == 1:
            return Select(self.ctx, {field.id: value for field, value in zip(rel.fields, rows[0], strict=True)})
        constant = all(isinstance(value, ir.Literal) for row in rel.rows for value in row)
        plain = constant and not any(calls_python(value.sql, self.ctx.dialect) for row in rows for value in row)
        if self.ctx.dialect.computed_rows or plain:
            body = f"VALUES {', '.join([f'({listed(row)})' for row in rows])}"
        else:
            body = " UNION ALL ".join([f"SELECT {listed(row)}" for row in rows])
        names = [f"c{field.id}" for field in rel.fields]
        source = made(f"({body}) AS {alias}({', '.join(names)})", *[value for row in rows for value in row])
        return Select(
            self.ctx, {field.id: column(alias, name) for field, name in zip(rel.fields, names, strict=True)}, source
        )

    # ------------------------------------------------------------ one input

    def _project(self, rel: ir.Project) -> Select:
        select = self.build(rel.input)
        if (
            select.set_operation is not None
            or not inlinable(select, rel.exprs)
            or (select.distinct and not _renames_all(rel))
            or self._refused_among_groups(select, rel.exprs)
        ):
            select = self.wrap(select)
        exprs = rel.exprs
        if not self.ctx.dialect.let_of_subqueries:
            select, exprs = self._assigned_first(select, exprs)
        return projected(self, select, exprs, rel.fields)

    def _assigned_first(self, select: Select, exprs: tuple[ir.Scalar, ...]) -> tuple[Select, tuple[ir.Scalar, ...]]:
        """What is assigned to a part of an array goes through functions in which the engine allows no subquery, and so
        do arrays and rows that become something else: those become columns first."""
        columns: dict[int, Fragment] = {}

        def held(node: object) -> object | None:
            return column_for(node) if isinstance(node, ir.ScalarSubquery) else None

        def column_for(node: ir.ScalarSubquery | ir.ArraySubquery) -> ir.ColumnRef:
            place = ir.ColumnRef(id=self.ctx.new_id(), type=node.type)
            columns[place.id] = self.scalars.lower(node)
            return place

        def assigned(node: object) -> object | None:
            if isinstance(node, (ir.ScalarSubquery, ir.ArraySubquery)):
                return column_for(node) if _has_parts(node.type) else node
            if isinstance(node, (ir.Exists, ir.QuantifiedSubquery)):
                return node
            return transform(node, held) if isinstance(node, ir.SubscriptAssignment) else None

        def is_alone(expr: ir.Scalar) -> bool:
            return isinstance(expr, (ir.ScalarSubquery, ir.ArraySubquery))

        changed = tuple([expr if is_alone(expr) else transform(expr, assigned) for expr in exprs])
        if not columns:
            return select, exprs
        select.columns = {**select.columns, **columns}
        return self.wrap(select), changed

    def _refused_among_groups(self, select: Select, exprs: Sequence[ir.Scalar]) -> bool:
        """Whether the engine would take a correlated subquery among `exprs` for one that depends on more than the
        groups."""
        return (
            not self.ctx.dialect.subqueries_among_groups
            and select.group_by is not None
            and any(isinstance(node, ir.ScalarSubquery) for node in walk(tuple(exprs)))
        )

    def _filter(self, rel: ir.Filter) -> Select:
        select = self.build(rel.input)
        open_ = not (select.distinct or select.windowed or select.expanded or select.limited() or select.set_operation)
        if not self.ctx.dialect.let_of_subqueries and select.group_by is None:
            select, (condition,) = self._assigned_first(select, (rel.condition,))
            rel = replace(rel, condition=condition)
        conditions = (rel.condition,)
        mergeable = open_ and inlinable(select, conditions) and not self._refused_among_groups(select, conditions)
        if not mergeable or (select.tells_grouping and not self.ctx.dialect.grouping_in_having):
            select = self.wrap(select)
        if self.ctx.dialect.loses_volatile_conditions and select.source is not None and is_volatile(rel.condition):
            return self._where_columns_hold(select if select.group_by is None else self.wrap(select), rel.condition)
        if select.group_by is None:
            return add_conditions(self, select, rel.condition)
        having = self.scalars.conjuncts(rel.condition)
        lambdas = not self.ctx.dialect.lambdas_in_having and any(" lambda " in each.sql for each in having)
        if lambdas or repeats(self, rel.condition):
            return add_conditions(self, self.wrap(select), rel.condition)
        select.having.extend(having)
        return select

    def _where_columns_hold(self, select: Select, condition: ir.Scalar) -> Select:
        """Conditions with the volatile ones as columns first, which stay with the rows that they are asked about."""
        volatile = [part for part in conjuncts(condition) if is_volatile(part)]
        for part in conjuncts(condition):
            if part not in volatile:
                select = add_conditions(self, select, part)
        ids = [self.ctx.new_id() for _ in volatile]
        select.columns = {**select.columns, **dict(zip(ids, map(self.scalars.lower, volatile), strict=True))}
        select = self.wrap(select)
        select.where += [select.columns[id] for id in ids]
        select.columns = {id: fragment for id, fragment in select.columns.items() if id not in ids}
        return select

    def _limit(self, rel: ir.Limit) -> Select:
        if rel.ties:
            return with_ties(self, rel)
        if is_of_outer_rows(rel):
            return self.build(by_row_numbers(rel, self.ctx.new_id))
        select = self.build(rel.input)
        if is_barrier(rel) and self.ctx.dialect.barrier is not None:
            # The engine knows that OFFSET 0 does nothing.
            select = self.wrap(select)
            select.where.append(simple(self.ctx.dialect.barrier))
            return self.wrap(select)
        if select.limited() or select.expanded:
            select = self.wrap(select)
        select.limit = limit(self.scalars, rel.count)
        select.offset = offset(self.scalars, rel.offset)
        return select

    # ------------------------------------------------------------ order

    def _sort(self, rel: ir.Sort) -> Select:
        select = self._with_computed_keys(self.build(rel.input), rel)
        keys = tuple([key.expr for key in rel.keys])
        above_having = not select.having or self.ctx.dialect.sorts_above_having
        sortable = above_having and self._sortable(select, keys)
        if select.limited() or select.set_operation is not None or not sortable:
            select = self.wrap(select)
        select.order_by = self.order_keys(rel.keys)
        return select

    def _with_computed_keys(self, select: Select, rel: ir.Sort) -> Select:
        """Keys that are subqueries as columns, where the engine orders by none."""
        subqueries = [key.expr for key in rel.keys if isinstance(key.expr, ir.ScalarSubquery)]
        if self.ctx.dialect.subqueries_as_sort_keys or not subqueries:
            return select
        select = self.wrap(select)
        for subquery in subqueries:
            id = self._computed_keys[subquery] = self.ctx.new_id()
            select.columns[id] = self.scalars.lower(subquery)
        return self.wrap(select)

    def _sortable(self, select: Select, keys: Sequence[ir.Scalar]) -> bool:
        dialect = self.ctx.dialect
        closed = select.distinct or select.group_by is not None or select.windowed or select.expanded
        for key in keys:
            output = select.columns.get(key.id) if isinstance(key, ir.ColumnRef) else None
            if output is not None:
                # One that became a column has to stay one.
                if output.subquery and not dialect.subqueries_as_sort_keys:
                    return False
                if select.windowed and output.alias is None and not dialect.windows_as_sort_keys:
                    return False
                if closed and not dialect.outputs_in_sort_keys and not self.scalars.orders_as_is(key.type):
                    return False
            elif isinstance(key, ir.ScalarSubquery) and key in self._computed_keys:
                continue
            elif closed or not inlinable(select, (key,)):
                return False
        return True

    def order_keys(self, keys: Sequence[ir.SortKey]) -> list[OrderKey]:
        """ORDER BY keys with their null order; literals order nothing, and engines take them for positions: they are
        left out."""
        ordered: list[OrderKey] = []
        for key in keys:
            if isinstance(key.expr, (ir.Literal, ir.Param)):
                continue
            computed = self._computed_keys.get(key.expr) if isinstance(key.expr, ir.ScalarSubquery) else None
            value = self.scalars.lower(key.expr) if computed is None else self.ctx.columns[computed]
            if value.simple and value.alias is None:
                continue
            ordered.append(OrderKey(self.scalars.key(value, key.expr.type), key.descending, key.nulls_first))
        return ordered

    # ------------------------------------------------------------ set operations and common tables

    def _set_operation(self, rel: ir.SetOperation) -> Select:
        if rel.by is not None or not all(self.scalars.compares_as_is(field.type) for field in rel.fields):
            if rel.op != "union":
                return self.build(compared_by_rows(rel, self.ctx.new_id))
            if not rel.all:
                columns = tuple([ir.ColumnRef(id=field.id, type=field.type) for field in rel.fields])
                on = () if rel.by is None else tuple([columns[place] for place in rel.by])
                both = replace(rel, all=True, by=None)
                return self.build(ir.Deduplicate(input=both, on=on, order_by=(), fields=rel.fields))
        members = _united(rel)
        if len(members) > 2 and not rel.all:
            # An engine would remove duplicates once for each member.
            whole = members[0]
            for member in members[1:]:
                whole = replace(rel, all=True, left=whole, right=member)
            return self.build(ir.Deduplicate(input=whole, on=(), order_by=(), fields=rel.fields))
        names = [f"c{field.id}" for field in rel.fields]
        sides: list[Fragment] = []
        for side in members:
            select = self.build(side)
            if any(
                field.type.shape != output.type.shape for field, output in zip(side.fields, rel.fields, strict=True)
            ):
                select = self.wrap(select)
                for field, output in zip(side.fields, rel.fields, strict=True):
                    if field.type.shape != output.type.shape:
                        value = select.columns[field.id]
                        select.columns[field.id] = made(self.ctx.dialect.cast(value.sql, output.type), value)
            text = self.complete(select, side.fields, names)
            sides.append(text if _flat(select) else made(f"({text})", text))
        operator = rel.op.upper() + (" ALL" if rel.all else "")
        return Select(
            self.ctx,
            {field.id: simple(f"c{field.id}") for field in rel.fields},
            set_operation=made(listed(sides, f" {operator} "), *sides),
        )

    def _with(self, rel: ir.With) -> Select:
        texts: list[Fragment] = []
        recursive = False
        for table in rel.tables:
            number = len(self._tables) + 1
            names = [f"c{index}" for index in range(1, len(table.rel.fields) + 1)]
            body = self.complete(self.build(table.rel), table.rel.fields, names)
            self._tables[table.id] = number
            if table.step is not None:
                recursive = True
                refused = refused_recursion(table, self.ctx.dialect)
                if refused is not None:
                    raise self.ctx.unsupported(refused)
                step = self.complete(self.build(table.step), table.step.fields, names)
                body = made(f"({body}) UNION {'ALL ' if table.union_all else ''}({step})", body, step)
            keyword = ""
            if self.ctx.dialect.materialized_tables and table.step is None and table.materialized is not None:
                keyword = "MATERIALIZED " if table.materialized else "NOT MATERIALIZED "
            texts.append(made(f"cte{number}({', '.join(names) or 'nothing'}) AS {keyword}({body})", body))
        select = self.build(rel.body)
        if select.ctes:
            select = self.wrap(select)
        select.ctes = texts
        select.recursive = recursive
        return select

    def _cte_scan(self, rel: ir.CteScan) -> Select:
        alias = self.ctx.alias()
        columns = {field.id: column(alias, f"c{index}") for index, field in enumerate(rel.fields, 1)}
        if rel.cte <= ir.RETURNING_ROWS:
            return Select(self.ctx, columns, self._source(rel.cte, alias))
        return Select(self.ctx, columns, Fragment(f"cte{self._tables[rel.cte]} AS {alias}"))


def refused_recursion(table: ir.CommonTable, dialect: Dialect) -> str | None:
    """What of the recursive `table` an engine's own WITH RECURSIVE cannot do, or None."""
    if not table.union_all and not dialect.recursive_union:
        return "a recursive query with UNION"
    if not dialect.recursive_groups and table.step is not None and _groups_rows_of(table.step, table.id):
        return "a recursive query that groups or sorts the rows so far"
    return None


def _groups_rows_of(step: ir.Rel, cte: int) -> bool:
    """Whether the recursive term `step` groups, sorts or numbers the rows that the common table has so far."""
    return any(
        isinstance(node, (ir.Aggregate, ir.Window, ir.Sort))
        and any(isinstance(inner, ir.CteScan) and inner.cte == cte for inner in walk(node.input))
        for node in walk(step)
    )


def _renames_all(rel: ir.Project) -> bool:
    """Whether a projection is its input's columns, each once."""
    ids = [expr.id for expr in rel.exprs if isinstance(expr, ir.ColumnRef)]
    return len(ids) == len(rel.exprs) and sorted(ids) == sorted(field.id for field in rel.input.fields)


def _united(rel: ir.SetOperation) -> list[ir.Rel]:
    """What `rel` unites, in order: the sides of a set operation, and in place of a side those that it unites itself, if
    that makes no difference."""
    members: list[ir.Rel] = []
    sides: list[ir.Rel] = [rel.right, rel.left]
    while sides:
        side = sides.pop()
        if (
            rel.op == "union"
            and isinstance(side, ir.SetOperation)
            and side.op == "union"
            and (side.all or not rel.all)
            and all(field.type == whole.type for field, whole in zip(side.fields, rel.fields, strict=True))
        ):
            sides += [side.right, side.left]
        else:
            members.append(side)
    return members


def _flat(select: Select) -> bool:
    """Whether a side of a set operation needs no parentheses."""
    return select.set_operation is None and not (select.order_by or select.limited() or select.ctes)


_HANDLERS: dict[type, Callable[[Relations, Any], Select]] = {
    ir.OneRow: Relations._one_row,
    ir.Scan: Relations._scan,
    ir.SystemScan: Relations._system_scan,
    ir.Values: Relations._values,
    ir.FunctionScan: function_scan,
    ir.Project: Relations._project,
    ir.ProjectSet: project_set,
    ir.Filter: Relations._filter,
    ir.Join: join,
    ir.Aggregate: grouped,
    ir.Window: windowed,
    ir.Deduplicate: deduplicated,
    ir.Sort: Relations._sort,
    ir.Limit: Relations._limit,
    ir.SetOperation: Relations._set_operation,
    ir.With: Relations._with,
    ir.CteScan: Relations._cte_scan,
}


def _has_parts(type: SqlType) -> bool:
    """Whether values of the type are arrays or rows."""
    return element_type(type) is not None or type.oid == RECORD or attributes(type.oid) is not None
