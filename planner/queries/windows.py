"""Window definitions: named windows, inheritance, frames (PostgreSQL's transformWindowDefinitions)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from planner.calls.window_calls import PendingWindow
from planner.errors import FeatureNotSupported, InvalidColumnReference, UndefinedObject, WindowingError
from planner.expressions.bind import bind_clause
from planner.ir.nodes import ColumnRef, Frame, FrameBound, Scalar, SortKey, WindowCall
from planner.ir.rewrite import walk
from planner.resolution.casting import coerce_to_target, resolve_unknown, to_specific
from planner.resolution.coercion import Context, category
from planner.resolution.operators import check_groupable
from planner.resolution.sorting import sort_keys
from planner.resolution.statement import Level
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import (
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARCHAR,
    SqlType,
    column_type,
)

_NON_DEFAULT = 0x00001
_RANGE, _ROWS, _GROUPS = 0x00002, 0x00004, 0x00008
_BETWEEN = 0x00010
_START_UNBOUNDED_PRECEDING, _END_UNBOUNDED_PRECEDING = 0x00020, 0x00040
_START_UNBOUNDED_FOLLOWING, _END_UNBOUNDED_FOLLOWING = 0x00080, 0x00100
_START_CURRENT_ROW, _END_CURRENT_ROW = 0x00200, 0x00400
_START_OFFSET_PRECEDING, _END_OFFSET_PRECEDING = 0x00800, 0x01000
_START_OFFSET_FOLLOWING, _END_OFFSET_FOLLOWING = 0x02000, 0x04000
_EXCLUDE_CURRENT_ROW, _EXCLUDE_GROUP, _EXCLUDE_TIES = 0x08000, 0x10000, 0x20000

_DEFAULT_FRAME = Frame(mode="range", start=FrameBound(kind="unbounded_preceding"), end=FrameBound(kind="current_row"))


class WindowSpec(Struct):
    """A window definition, bound."""

    partition: tuple[Scalar, ...]
    order: tuple[SortKey, ...]
    frame: Frame


def bind_windows(level: Level) -> list[WindowCall]:
    """The window calls found in `level`'s expressions, in the order of `level.windows`."""
    if not level.windows and not level.window_definitions:
        return []
    named: dict[str, tuple[WindowSpec, Tree]] = {}
    for name, tree in level.window_definitions.items():
        named[name] = (_bind_definition(level, tree, named), tree)
    calls = []
    for pending, _ in level.windows:
        assert isinstance(pending, PendingWindow)
        tree = pending.definition
        if tree.name:
            found = named.get(tree.name)
            if found is None:
                raise UndefinedObject(
                    f'window "{tree.name}" does not exist', position=level.statement.position(tree.location)
                )
            spec = found[0]
        else:
            spec = _bind_definition(level, tree, named)
        calls.append(
            WindowCall(
                signature=pending.signature,
                args=pending.args,
                type=pending.type,
                partition_by=spec.partition,
                order_by=spec.order,
                frame=spec.frame,
                filter=pending.filter,
            )
        )
    return calls


def _bind_definition(level: Level, tree: Tree, named: dict[str, tuple[WindowSpec, Tree]]) -> WindowSpec:
    statement = level.statement
    position = statement.position(tree.location)
    partition = tuple(resolve_unknown(statement, bind_clause(level, node, "window")) for node in tree.partition_clause)
    for expr in partition:
        check_groupable(level, expr)
    order = [
        key
        for node in tree.order_clause
        for key in sort_keys(level, node.sort_by, bind_clause(level, node.sort_by.node, "window"))
    ]
    if tree.refname:
        found = named.get(tree.refname)
        if found is None:
            raise UndefinedObject(f'window "{tree.refname}" does not exist', position=position)
        base, base_tree = found
        if partition:
            raise WindowingError(f'cannot override PARTITION BY clause of window "{tree.refname}"', position=position)
        if order and base.order:
            raise WindowingError(f'cannot override ORDER BY clause of window "{tree.refname}"', position=position)
        if base_tree.frame_options & _NON_DEFAULT:
            if order or tree.frame_options & _NON_DEFAULT:
                raise WindowingError(
                    f'cannot copy window "{tree.refname}" because it has a frame clause', position=position
                )
            raise WindowingError(
                f'cannot copy window "{tree.refname}" because it has a frame clause',
                hint="Omit the parentheses in this OVER clause.",
                position=position,
            )
        partition = base.partition
        order = order or list(base.order)
    spec = WindowSpec(partition, tuple(order), _frame(level, tree, tuple(order)))
    if statement.notes is not None:
        statement.notes.windows[id(tree)] = (tree, spec)
    return spec


def _frame(level: Level, tree: Tree, order: tuple[SortKey, ...]) -> Frame:
    options = tree.frame_options
    if not options & _NON_DEFAULT:
        return _DEFAULT_FRAME
    statement = level.statement
    position = statement.position(tree.location)
    mode: Any = "rows" if options & _ROWS else "groups" if options & _GROUPS else "range"
    offsets = options & (
        _START_OFFSET_PRECEDING | _END_OFFSET_PRECEDING | _START_OFFSET_FOLLOWING | _END_OFFSET_FOLLOWING
    )
    if mode == "range" and offsets and len(order) != 1:
        raise WindowingError(
            "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column", position=position
        )
    if mode == "groups" and not order:
        raise WindowingError("GROUPS mode requires an ORDER BY clause", position=position)
    start = _bound(level, tree, order, mode, options, start=True)
    end = _bound(level, tree, order, mode, options, start=False)
    exclude: Any = "no_others"
    if options & _EXCLUDE_CURRENT_ROW:
        exclude = "current_row"
    elif options & _EXCLUDE_GROUP:
        exclude = "group"
    elif options & _EXCLUDE_TIES:
        exclude = "ties"
    return Frame(mode=mode, start=start, end=end, exclude=exclude)


def _bound(level: Level, tree: Tree, order: tuple[SortKey, ...], mode: str, options: int, *, start: bool) -> FrameBound:
    def has(at_start: int, at_end: int) -> bool:
        return bool(options & (at_start if start else at_end))

    if has(_START_UNBOUNDED_PRECEDING, _END_UNBOUNDED_PRECEDING):
        return FrameBound(kind="unbounded_preceding")
    if has(_START_UNBOUNDED_FOLLOWING, _END_UNBOUNDED_FOLLOWING):
        return FrameBound(kind="unbounded_following")
    if has(_START_CURRENT_ROW, _END_CURRENT_ROW):
        return FrameBound(kind="current_row")
    node = tree.start_offset if start else tree.end_offset
    preceding = has(_START_OFFSET_PRECEDING, _END_OFFSET_PRECEDING)
    offset = _offset(level, node, order, mode)
    return FrameBound(kind="offset_preceding" if preceding else "offset_following", offset=offset)


_RANGE_OFFSETS = {
    INT2: INT8, INT4: INT8, INT8: INT8, FLOAT4: FLOAT8, FLOAT8: FLOAT8, NUMERIC: NUMERIC, DATE: INTERVAL,
    TIMESTAMP: INTERVAL, TIMESTAMPTZ: INTERVAL, TIME: INTERVAL, INTERVAL: INTERVAL,
}  # fmt: skip
"""The type of a RANGE offset by the type of the ORDER BY column (btree's in_range support functions)."""


def _offset(level: Level, node: Tree, order: tuple[SortKey, ...], mode: str) -> Scalar:
    statement = level.statement
    expr = bind_clause(level, node, f"window {mode.upper()}")
    if mode in ("rows", "groups"):
        result = to_specific(statement, expr, SqlType(INT8), mode.upper())
    else:
        key_type = order[0].expr.type.oid
        # Sorted as `text`, which errors say.
        key_type = TEXT if key_type == VARCHAR else key_type
        wanted = _RANGE_OFFSETS.get(key_type)
        if wanted is None:
            raise FeatureNotSupported(
                f"RANGE with offset PRECEDING/FOLLOWING is not supported for column type {format_type(key_type)}",
                position=statement.position_of(expr),
            )
        if expr.type.oid == UNKNOWN and wanted == INT8:
            wanted = key_type
        if expr.type.oid in (INT2, INT4, INT8) and category(key_type) == "N" and wanted == INT8:
            return expr
        converted = coerce_to_target(statement, expr, column_type(wanted), Context.IMPLICIT)
        if converted is None:
            raise FeatureNotSupported(
                f"RANGE with offset PRECEDING/FOLLOWING is not supported for column type {format_type(key_type)} and "
                f"offset type {format_type(expr.type.oid)}",
                hint="Cast the offset value to an appropriate type.",
                position=statement.position_of(expr),
            )
        result = converted
    for part in walk(result):
        if isinstance(part, ColumnRef) and statement.owner.get(part.id) is level:
            raise InvalidColumnReference(
                f"argument of {mode.upper()} must not contain variables", position=statement.position_of(part)
            )
    return result
