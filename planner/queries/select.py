"""A single SELECT: target list, FROM, WHERE, GROUP BY, HAVING, WINDOW, DISTINCT, ORDER BY, LIMIT.

Aggregates, window functions and set-returning functions are found while expressions are bound and stand in them as
references to columns that are computed later. `build` stacks the relational nodes in PostgreSQL's order of evaluation:
FROM, WHERE, groups, HAVING, windows, set-returning functions, projection, DISTINCT, ORDER BY, LIMIT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from planner.common_errors import MAX_TARGETS, too_many_targets
from planner.errors import (
    AmbiguousColumn,
    FeatureNotSupported,
    GroupingError,
    InvalidColumnReference,
    SqlSyntaxError,
    WindowingError,
)
from planner.expressions.alike import has_own, is_alike
from planner.expressions.bind import bind_clause
from planner.ir.nodes import (
    Aggregate,
    AggregateCall,
    ColumnRef,
    Deduplicate,
    Field,
    Filter,
    FunctionCall,
    LockRows,
    Origin,
    Project,
    ProjectSet,
    Rel,
    RowConstructor,
    Scalar,
    Sort,
    SortKey,
    Window,
)
from planner.ir.rewrite import column_ids
from planner.ir.row_marks import RowMark
from planner.queries.from_clause import bind_from
from planner.queries.grouping import Grouping, expand_sets, parts_of
from planner.queries.in_from.presences import with_presences
from planner.queries.query_tail import bind_limit, limited
from planner.queries.row_locking import RowLocking, clause_name, passed_through
from planner.queries.target_list import Target, bind_targets
from planner.queries.windows import bind_windows
from planner.resolution.casting import finish_row, resolve_unknown, to_boolean
from planner.resolution.operators import check_groupable
from planner.resolution.records import (
    fields_of,
    is_record,
    lack_of,
    may_look_different,
    ordered_by,
    record_fields,
    told_apart_by,
)
from planner.resolution.scope import find_column
from planner.resolution.sorting import sort_direction
from planner.resolution.statement import Level
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, tree_location
from planner.types.types import RECORD, UNKNOWN, SqlType


class SortItem(Struct):
    """An ORDER BY item over the target at `index`."""

    index: int
    descending: bool
    nulls_first: bool
    record: int | None = None
    """The target of the record that this is a field of."""
    whole: Scalar | None = None
    """That record."""

    @property
    def named(self) -> int:
        """The target that the clause names."""
        return self.index if self.record is None else self.record


def _gives_one_row(tree: Tree) -> bool:
    """Whether a SELECT evaluates its select list once: it reads and tests nothing, and wants a row."""
    count = tree.limit_count.a_const if tree.HasField("limit_count") else None
    tests = any(tree.HasField(clause) for clause in ("where_clause", "having_clause"))
    return not tree.from_clause and not tests and (count is None or count.isnull or count.ival.ival > 0)


class SelectQuery:
    """An analyzed SELECT; see `planner.resolution.statement.Analyzed`."""

    def __init__(self, level: Level, tree: Tree) -> None:
        self.level = level
        self.tree = tree
        self.targets: list[Target] = []
        self.grouping: Grouping | None = None
        for node in tree.window_clause:
            definition = node.window_def
            if definition.name in level.window_definitions:
                raise WindowingError(
                    f'window "{definition.name}" is already defined',
                    position=level.statement.position(definition.location),
                )
            level.window_definitions[definition.name] = definition
        level.presences = []
        self.source = bind_from(level, tree.from_clause)
        level.calls_once = _gives_one_row(tree)
        self.targets = bind_targets(level, tree.target_list, "SELECT", tree)
        self.where = _condition(level, tree.where_clause, "WHERE") if tree.HasField("where_clause") else None
        self.having = _condition(level, tree.having_clause, "HAVING") if tree.HasField("having_clause") else None
        self.order = [item for node in tree.sort_clause for item in self._sort_items(node.sort_by)]
        self._group()
        self.distinct, self.distinct_on = self._distinct()
        if len(self.targets) > MAX_TARGETS:
            raise too_many_targets()
        self._drop_spent_targets()
        self.count, self.offset = bind_limit(level, tree)
        self.ties = tree.limit_option == pb.LIMIT_OPTION_WITH_TIES
        self.windows = bind_windows(level)
        if self.grouping is None and level.aggregates:
            # Aggregates that stand in window definitions only.
            self.grouping = Grouping(level)
        self.source = with_presences(level, self.source)
        self.locking = self._row_locking()

    # ---- what surrounds the query asks

    @property
    def names(self) -> list[str]:
        return [target.name for target in self.targets if not target.junk]

    @property
    def types(self) -> list[SqlType]:
        return [target.expr.type for target in self.targets if not target.junk]

    def origins(self) -> list[Origin | None]:
        return [target.origin for target in self.targets if not target.junk]

    def column_expr(self, index: int) -> Scalar | None:
        # The junk ones come last.
        return self.targets[index].expr

    def set_column(self, index: int, expr: Scalar) -> None:
        """Puts a coerced expression in the place of one of unknown type."""
        self.targets[index].expr = expr

    # ---- analysis

    def find_target(self, node: Tree, clause: str, *, by_name: bool = True) -> int:
        """The target that an item of ORDER BY, GROUP BY or DISTINCT ON means; a junk one is added for a new
        expression (findTargetlistEntrySQL92)."""
        level = self.level
        statement = level.statement
        if by_name and node.HasField("column_ref") and len(node.column_ref.fields) == 1:
            reference = node.column_ref
            if reference.fields[0].HasField("string"):
                found = self._by_output_name(reference.fields[0].string.sval, clause, reference.location)
                if found is not None:
                    return found
        if by_name and node.HasField("a_const"):
            constant = node.a_const
            position = statement.position(constant.location)
            if not constant.HasField("ival"):
                raise SqlSyntaxError(f"non-integer constant in {clause}", position=position)
            visible = [index for index, target in enumerate(self.targets) if not target.junk]
            number = constant.ival.ival
            if not 1 <= number <= len(visible):
                raise InvalidColumnReference(f"{clause} position {number} is not in select list", position=position)
            return visible[int(number) - 1]
        srfs = len(level.srfs)
        expr = bind_clause(level, node, clause)
        if len(level.srfs) > srfs:
            reused = self._same_srf(srfs)
            if reused is not None:
                return reused
        return self._add(expr)

    def _same_srf(self, start: int) -> int | None:
        """A target that is the very set-returning call just bound for ORDER BY: it is computed once."""
        level = self.level
        if len(level.srfs) != start + 1:
            return None
        new = level.srfs[start]
        for call in level.srfs[:start]:
            if call.signature == new.signature and call.args == new.args:
                for index, target in enumerate(self.targets):
                    if isinstance(target.expr, ColumnRef) and target.expr.id == call.fields[0].id:
                        del level.srfs[start], level.srf_depth[start]
                        return index
        return None

    def _by_output_name(self, name: str, clause: str, location: int) -> int | None:
        level = self.level
        if clause == "GROUP BY" and find_column(level, name, location) is not None:
            in_from = any(
                item.cols_visible and (name in item.by_name or name in item.system_columns) for item in level.namespace
            )
            if in_from:
                return None
        found: int | None = None
        for index, target in enumerate(self.targets):
            if target.junk or target.name != name:
                continue
            if found is not None and not is_alike(self.targets[found].expr, target.expr):
                raise AmbiguousColumn(f'{clause} "{name}" is ambiguous', position=level.statement.position(location))
            found = index if found is None else found
        return found

    def _add(self, expr: Scalar) -> int:
        own = has_own(expr)
        for index, target in enumerate(self.targets):
            if type(target.expr) is type(expr) and (target.expr == expr or (own and is_alike(target.expr, expr))):
                return index
        self.targets.append(Target(expr, "?column?", junk=True))
        return len(self.targets) - 1

    def _typed(self, index: int) -> Scalar:
        """The expression of a target, as text when it was of unknown type."""
        target = self.targets[index]
        if target.expr.type.oid == UNKNOWN:
            target.expr = resolve_unknown(self.level.statement, target.expr)
        return target.expr

    def _sort_items(self, tree: Tree) -> list[SortItem]:
        """One item, or for a record one for each field of it."""
        index = self.find_target(tree.node, "ORDER BY")
        expr = self._typed(index)
        descending, nulls_first = sort_direction(self.level, tree, expr)
        keys = list(ordered_by(self.level, expr))
        if keys == [expr]:
            return [SortItem(index, descending, nulls_first)]
        items = []
        lack = lack_of(expr)
        if lack is not None:
            items.append(SortItem(len(self.targets), nulls_first, nulls_first, index, expr))
            self.targets.append(Target(expr=lack, name="?column?", junk=True))
        for key in keys:
            # NULL in a record is larger than anything else in its place, wherever records that are NULL come.
            items.append(SortItem(len(self.targets), descending, descending, index, expr))
            self.targets.append(Target(expr=resolve_unknown(self.level.statement, key), name="?column?", junk=True))
        return items

    def _group(self) -> None:
        level, tree = self.level, self.tree
        if not (tree.group_clause or level.aggregates or self.having is not None or level.grouping_refs):
            return
        grouping = self.grouping = Grouping(level)
        sets = any(node.HasField("grouping_set") for node in tree.group_clause)

        def key_indexes(node: Tree) -> list[int]:
            if node.HasField("row_expr") and node.row_expr.row_format == pb.COERCE_IMPLICIT_CAST:
                return [index for item in node.row_expr.args for index in key_indexes(item)]
            if node.HasField("grouping_set"):
                raise SqlSyntaxError("nested grouping sets are not supported here")
            index = self.find_target(node, "GROUP BY")
            expr = self._typed(index)
            self._check_key(expr)
            check_groupable(level, expr, tree_location(node))
            if isinstance(expr, RowConstructor):
                parts = [resolve_unknown(level.statement, part) for part in parts_of(expr)]
                if not sets:
                    return grouping.add_parts(parts)
                indexes = grouping.add_row(expr, parts)
                for item in self.order:
                    if item.named == index and self.targets[item.index].expr in parts:
                        grouping.by_target[item.index] = indexes[parts.index(self.targets[item.index].expr)]
                return indexes
            names, fields = record_fields(level, expr) or (), fields_of(level, expr) or ()
            if expr.type.oid == RECORD and may_look_different(fields) and all(f.type.oid != RECORD for f in fields):
                return grouping.add_record(expr, fields, [name for name, _ in names])
            return [grouping.add_target(index, expr) if sets else grouping.add_key(expr)]

        grouping.sets = expand_sets(tree.group_clause, key_indexes, level.statement.position)
        if grouping.sets is not None and tree.group_distinct:
            unique = {tuple(sorted(item)): item for item in grouping.sets}
            grouping.sets = tuple(unique.values())

    def _check_key(self, expr: Scalar) -> None:
        statement = self.level.statement
        for id in column_ids(expr):
            if statement.aggregate_owner.get(id) is self.level:
                raise GroupingError(
                    "aggregate functions are not allowed in GROUP BY", position=statement.position_of(expr)
                )
            if statement.window_owner.get(id) is self.level:
                raise WindowingError(
                    "window functions are not allowed in GROUP BY", position=statement.position_of(expr)
                )

    def _distinct(self) -> tuple[bool, list[int]]:
        tree = self.tree
        if not tree.distinct_clause:
            return False, []
        on = [node for node in tree.distinct_clause if node.WhichOneof("node") is not None]
        statement = self.level.statement
        if not on:
            for index, target in enumerate(self.targets):
                if not target.junk:
                    check_groupable(self.level, self._typed(index))
            for item in self.order:
                if self.targets[item.named].junk:
                    raise InvalidColumnReference(
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                        position=statement.position_of(self.targets[item.named].expr),
                    )
            return True, []
        locations: dict[int, int] = {}
        for node in on:
            locations.setdefault(self.find_target(node, "DISTINCT ON"), tree_location(node))
        indexes = list(locations)
        for index in indexes:
            check_groupable(self.level, self._typed(index))
        remaining = set(indexes)
        skipped = False
        for item in self.order:
            if item.named in indexes:
                if skipped and item.named in remaining:
                    raise InvalidColumnReference(
                        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                        position=statement.position(locations[item.named]),
                    )
                remaining.discard(item.named)
            else:
                skipped = True
        if skipped and remaining:
            raise InvalidColumnReference(
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                position=statement.position(locations[next(i for i in indexes if i in remaining)]),
            )
        return True, indexes

    def _drop_spent_targets(self) -> None:
        """Removes the targets that served GROUP BY only: rows that differ in nothing else are the same to DISTINCT."""
        used = {item.index for item in self.order} | set(self.distinct_on)
        kept = [index for index, target in enumerate(self.targets) if index in used or not target.junk]
        places = {index: place for place, index in enumerate(kept)}
        self.targets = [self.targets[index] for index in kept]
        for item in self.order:
            item.index = places[item.index]
        self.distinct_on = [places[index] for index in self.distinct_on]

    def _row_locking(self) -> RowLocking | None:
        clauses = self.tree.locking_clause
        if not clauses:
            return None
        refused = (
            "DISTINCT clause" if self.tree.distinct_clause
            else "GROUP BY clause" if self.tree.group_clause
            else "HAVING clause" if self.having is not None
            else "aggregate functions" if self.level.aggregates
            else "window functions" if self.level.windows
            else "set-returning functions in the target list" if self.level.srfs
            else None
        )  # fmt: skip
        if refused is not None:
            raise FeatureNotSupported(f"{clause_name(clauses[0].locking_clause)} is not allowed with {refused}")
        return RowLocking(self.level, clauses)

    # ---- building

    def build(self) -> Rel:
        """The relational nodes of this SELECT."""
        level = self.level
        statement = level.statement
        rel, marks = (self.source, ()) if self.locking is None else self.locking.exposed(self.source, self.where)
        if self.where is not None:
            rel = Filter(input=rel, condition=self.where, fields=rel.fields)
        exprs = [finish_row(level.statement, target.expr) for target in self.targets]
        windows = self.windows
        pending = self._srf_layers()
        if self.grouping is not None:
            key_ids = {id for key in self.grouping.keys for id in column_ids(key)}
            below = [layer for layer in pending if any(f.id in key_ids for call in layer for f in call.fields)]
            for layer in below:
                rel = _project_set(rel, layer)
                pending.remove(layer)
                for call in layer:
                    for field in call.fields:
                        level.from_ids[field.id] = (None, field.name)
            rel, exprs, windows, pending = self._grouped(rel, exprs, windows, pending)
        if windows:
            fields = tuple(field for _, field in level.windows)
            rel = Window(input=rel, calls=tuple(windows), fields=rel.fields + fields)
        sorted_before = self._sorts_before_sets(exprs, pending)
        if sorted_before:
            rel = Sort(input=rel, keys=self._sort_keys(exprs), fields=rel.fields)
        for layer in pending:
            rel = _project_set(rel, layer)
        fields_out: list[Field] = []
        for target, expr in zip(self.targets, exprs, strict=True):
            field = statement.new_field(target.name, expr.type, target.origin)
            if expr.type.oid == RECORD:
                known = record_fields(level, expr)
                if known is not None:
                    statement.record_columns[field.id] = known
            fields_out.append(field)
        rel = Project(input=rel, exprs=tuple(exprs), fields=tuple(fields_out))
        if marks:
            rel, marks = passed_through(statement, rel, marks)
        return self._finish(rel, marks, sorted_before=sorted_before)

    def _sorts_before_sets(self, exprs: Sequence[Scalar], pending: Sequence[Sequence[FunctionCall]]) -> bool:
        """Whether ORDER BY sorts the rows before set-returning functions make several of each, whose order it then
        leaves as it is: PostgreSQL does so where no sort key is made of such a function (make_sort_input_target)."""
        if not pending or not self.order or self.distinct or self.ties or self.level.statement.volatile:
            return False
        made = {field.id for layer in pending for call in layer for field in call.fields}
        return not any(made & set(column_ids(exprs[item.index])) for item in self.order)

    def _sort_keys(self, exprs: Sequence[Scalar]) -> tuple[SortKey, ...]:
        return tuple(
            SortKey(expr=exprs[item.index], descending=item.descending, nulls_first=item.nulls_first)
            for item in self.order
        )

    def _grouped(
        self, rel: Rel, exprs: list[Scalar], windows: list[Any], pending: list[list[FunctionCall]]
    ) -> tuple[Rel, list[Scalar], list[Any], list[list[FunctionCall]]]:
        level = self.level
        grouping = self.grouping
        assert grouping is not None
        grouping.check_direct_arguments()
        having = grouping.rewrite(self.having) if self.having is not None else None
        exprs = [grouping.rewrite_target(index, expr) for index, expr in enumerate(exprs)]
        windows = [grouping.rewrite(call) for call in windows]
        pending = [[grouping.rewrite(call) for call in layer] for layer in pending]
        groupings, grouping_fields = self._grouping_calls(grouping)
        calls: list[AggregateCall] = [call for call, _ in level.aggregates]
        fields = (*grouping.fields, *(field for _, field in level.aggregates), *grouping_fields)
        rel = Aggregate(
            input=rel,
            keys=tuple(grouping.keys),
            calls=tuple(calls),
            fields=tuple(fields),
            grouping_sets=grouping.sets,
            groupings=groupings,
        )
        if having is not None:
            rel = Filter(input=rel, condition=having, fields=rel.fields)
        return rel, exprs, windows, pending

    def _grouping_calls(self, grouping: Grouping) -> tuple[tuple[tuple[int, ...], ...], list[Field]]:
        groupings: list[tuple[int, ...]] = []
        fields: list[Field] = []
        for args, field, location, is_own in self.level.grouping_refs:
            indexes = []
            for arg in args:
                key = grouping.key_of(arg, in_subquery=not is_own)
                if key is None:
                    raise GroupingError(
                        "arguments to GROUPING must be grouping expressions of the associated query level",
                        position=self.level.statement.position_of(arg) or self.level.statement.position(location),
                    )
                indexes.append(key)
            groupings.append(tuple(indexes))
            fields.append(field)
        return tuple(groupings), fields

    def _srf_layers(self) -> list[list[FunctionCall]]:
        """Set-returning functions by nesting: those of one layer run side by side."""
        layers: dict[int, list[FunctionCall]] = {}
        for call, depth in zip(self.level.srfs, self.level.srf_depth, strict=True):
            layers.setdefault(depth, []).append(call)
        return [layers[depth] for depth in sorted(layers)]

    def _finish(self, rel: Rel, marks: tuple[RowMark, ...], *, sorted_before: bool) -> Rel:
        """DISTINCT, ORDER BY, locks and LIMIT over the projection; junk columns and the ids of rows go last of all."""
        fields = rel.fields
        keys = () if sorted_before else self._sort_keys([ColumnRef(id=each.id, type=each.type) for each in fields])
        if self.distinct:
            on = tuple(ColumnRef(id=fields[index].id, type=fields[index].type) for index in self.distinct_on)
            if isinstance(rel, Project):
                rel, on = self._records_by_field(rel, on)
                fields = rel.fields
            rel = Deduplicate(input=rel, on=on, order_by=keys if self.distinct_on else (), fields=fields)
        if keys:
            rel = Sort(input=rel, keys=keys, fields=fields)
        if not marks:
            rel = limited(rel, self.count, self.offset, self.ties)
        elif self.ties:
            rel = LockRows(input=rel, marks=marks, count=None, offset=None, fields=fields)
            rel = limited(Sort(input=rel, keys=keys, fields=fields), self.count, self.offset, True)
        else:
            rel = LockRows(input=rel, marks=marks, count=self.count, offset=self.offset, fields=fields)
        if marks or len(fields) > len(self.targets) or any(target.junk for target in self.targets):
            kept = [field for field, target in zip(fields, self.targets, strict=False) if not target.junk]
            exprs = tuple(ColumnRef(id=field.id, type=field.type) for field in kept)
            statement = self.level.statement
            final = []
            for field in kept:
                fresh = statement.new_field(field.name, field.type, field.origin)
                if field.id in statement.record_columns:
                    statement.record_columns[fresh.id] = statement.record_columns[field.id]
                final.append(fresh)
            rel = Project(input=rel, exprs=exprs, fields=tuple(final))
        return rel

    def _records_by_field(self, rel: Project, named: tuple[ColumnRef, ...]) -> tuple[Project, tuple[ColumnRef, ...]]:
        """The projection of a DISTINCT (ON the columns `named`, where there are any), and what its rows are told apart
        by: its columns, where this is nothing. The fields of records become further columns, at its end."""
        level, statement = self.level, self.level.statement
        exprs, fields, on = list(rel.exprs), list(rel.fields), list[ColumnRef]()
        ids = {column.id for column in named}
        for field, expr in zip(rel.fields, rel.exprs, strict=True):
            if ids and field.id not in ids:
                continue
            parts = told_apart_by(level, expr) if is_record(field.type.oid) else None
            if parts is None:
                on.append(ColumnRef(id=field.id, type=field.type))
            for part in parts or ():
                hidden = statement.new_field("field", part.type)
                exprs.append(part)
                fields.append(hidden)
                on.append(ColumnRef(id=hidden.id, type=part.type))
        if len(fields) == len(rel.fields):
            return rel, named
        return Project(input=rel.input, exprs=tuple(exprs), fields=tuple(fields)), tuple(on)


def _project_set(rel: Rel, functions: Sequence[FunctionCall]) -> Rel:
    added = tuple(field for call in functions for field in call.fields)
    return ProjectSet(input=rel, functions=tuple(functions), fields=rel.fields + added)


def _condition(level: Level, node: Tree, clause: str) -> Scalar:
    return to_boolean(level.statement, bind_clause(level, node, clause), clause)
