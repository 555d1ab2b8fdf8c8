"""The order in which PostgreSQL gives the rows of a relation, as keys to sort them by.

What collects rows (ARRAY(SELECT ...), array_agg and its like) takes them as they come, and statements rely on it where
they sort a subquery first, or read a function's rows (PostgreSQL 15, "Aggregate Functions": input from a sorted
subquery). No engine keeps an order of rows across its tasks or threads on the way to an aggregate, so the keys go along
with the rows, and the aggregate sorts.

An order is known of sorted rows, of the rows of functions, of VALUES, and of what takes these one by one. None is known
where PostgreSQL promises none: tables, most joins, groups, DISTINCT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from planner.functions import registry
from planner.ir import nodes as ir
from planner.ir.barriers import is_barrier
from planner.types.signature import Kind
from planner.types.types import INT4, INT8, SqlType

Ordered: TypeAlias = tuple[ir.Rel, tuple[ir.SortKey, ...]]
"""A relation's rows with columns added, and the keys that put them in order, over its columns: no keys where there is
one row at most."""

NewId: TypeAlias = Callable[[], int]

_NUMBER = SqlType(INT8)

WHOLE_PARTITION = ir.Frame(
    mode="range", start=ir.FrameBound(kind="unbounded_preceding"), end=ir.FrameBound(kind="unbounded_following")
)


def in_order(rel: ir.Rel, new_id: NewId) -> Ordered | None:
    """`rel` with its order as keys, or None where it has none. `new_id` gives the ids of new columns."""
    match rel:
        case ir.OneRow():
            return rel, ()
        case ir.Values():
            return _values(rel, new_id)
        case ir.FunctionScan():
            return _function_scan(rel, new_id)
        case ir.ProjectSet():
            return _project_set(rel, new_id)
        case ir.Project():
            return _project(rel, new_id)
        case ir.Filter():
            found = in_order(rel.input, new_id)
            return found and (replace(rel, input=found[0], fields=found[0].fields), found[1])
        case ir.Sort():
            return _sort(rel, new_id)
        case ir.Limit():
            return _limit(rel, new_id)
        case ir.Deduplicate() if rel.on and rel.order_by:
            return rel, rel.order_by
        case ir.Aggregate() if not rel.keys and rel.grouping_sets is None:
            return rel, ()
        case ir.Join():
            return _join(rel, new_id)
        case ir.SetOperation() if rel.op == "union" and rel.all and rel.by is None:
            return _union(rel, new_id)
        case ir.Window():
            return _window(rel, new_id)
        case ir.With():
            found = in_order(rel.body, new_id)
            return found and (replace(rel, body=found[0], fields=found[0].fields), found[1])
    return None


def _values(rel: ir.Values, new_id: NewId) -> Ordered:
    if len(rel.rows) < 2:
        return rel, ()
    field = ir.Field(id=new_id(), name="n", type=SqlType(INT4))
    rows = tuple([(*row, ir.Literal(value=place, type=field.type)) for place, row in enumerate(rel.rows)])
    return replace(rel, rows=rows, fields=(*rel.fields, field)), (_ascending(_column(field)),)


def _function_scan(rel: ir.FunctionScan, new_id: NewId) -> Ordered:
    if all(call.signature.kind is not Kind.SET_RETURNING for call in rel.functions):
        return rel, ()
    if rel.ordinality is not None:
        return rel, (_ascending(ir.ColumnRef(id=rel.ordinality, type=_NUMBER)),)
    only = rel.functions[0]
    if len(rel.functions) == 1 and only.signature.name == "generate_series":
        step = only.args[2] if len(only.args) > 2 else ir.Literal(value=1, type=_NUMBER)
        if isinstance(step, ir.Literal) and isinstance(step.value, int) and step.value:
            key = _ascending(_column(only.fields[0]))
            return rel, (replace(key, descending=step.value < 0),)
    field = ir.Field(id=new_id(), name="ordinality", type=_NUMBER)
    return replace(rel, ordinality=field.id, fields=(*rel.fields, field)), (_ascending(_column(field)),)


def _project_set(rel: ir.ProjectSet, new_id: NewId) -> Ordered | None:
    """The functions of a select list are those of a lateral join, as long as the longest of them."""
    given = tuple([field for call in rel.functions for field in call.fields])
    scan = ir.FunctionScan(functions=rel.functions, ordinality=None, fields=given)
    fields = (*rel.input.fields, *given)
    return in_order(
        scan
        if isinstance(rel.input, ir.OneRow)
        else ir.Join(kind="cross", left=rel.input, right=scan, condition=None, lateral=True, fields=fields),
        new_id,
    )


def _project(rel: ir.Project, new_id: NewId) -> Ordered | None:
    found = in_order(rel.input, new_id)
    if found is None:
        return None
    below, keys = found
    columns = {expr: field for expr, field in zip(rel.exprs, rel.fields, strict=True) if isinstance(expr, ir.ColumnRef)}
    exprs, fields = list(rel.exprs), list(rel.fields)
    ordered: list[ir.SortKey] = []
    for key in keys:
        field = columns.get(key.expr) if isinstance(key.expr, ir.ColumnRef) else None
        if field is None:
            field = ir.Field(id=new_id(), name="key", type=key.expr.type)
            exprs.append(key.expr)
            fields.append(field)
        ordered.append(replace(key, expr=_column(field)))
    return replace(rel, input=below, exprs=tuple(exprs), fields=tuple(fields)), tuple(ordered)


def _sort(rel: ir.Sort, new_id: NewId) -> Ordered:
    """Rows that are alike to a sort stay as they were, where that is known."""
    below, keys = in_order(rel.input, new_id) or (rel.input, ())
    return below, (*rel.keys, *keys)


def _limit(rel: ir.Limit, new_id: NewId) -> Ordered | None:
    if rel.ties:
        return (rel, rel.input.keys) if isinstance(rel.input, ir.Sort) else None
    found = in_order(rel.input, new_id)
    if found is None:
        return None
    below, keys = found
    if keys and not is_barrier(rel):
        below = ir.Sort(input=below, keys=keys, fields=below.fields)
    return replace(rel, input=below, fields=below.fields), keys


def _join(rel: ir.Join, new_id: NewId) -> Ordered | None:
    """A lateral join takes the left side's rows one by one. Other joins promise nothing, unless a side is one row."""
    if rel.kind not in ("cross", "inner", "left"):
        return None
    left, right = in_order_by_columns(rel.left, new_id), in_order(rel.right, new_id)
    if left is None or right is None or not (rel.lateral or not left[1] or not right[1]):
        return None
    if right[1] and not _tells_rows_apart(left[0]):
        # The rows beside one of the left side stay together.
        numbered, number = with_numbers(*left, new_id)
        left = numbered, (_ascending(number),)
    joined = replace(rel, left=left[0], right=right[0], fields=(*left[0].fields, *right[0].fields))
    return joined, (*left[1], *right[1])


def _tells_rows_apart(rel: ir.Rel) -> bool:
    """Whether no two rows of what `in_order` made are alike in its keys."""
    match rel:
        case ir.OneRow() | ir.Values() | ir.FunctionScan() | ir.Aggregate():
            return True
        case ir.Project() | ir.Filter() | ir.Limit() | ir.Sort():
            return _tells_rows_apart(rel.input)
        case ir.Join() | ir.SetOperation():
            return _tells_rows_apart(rel.left) and _tells_rows_apart(rel.right)
    return False


def with_numbers(rel: ir.Rel, keys: tuple[ir.SortKey, ...], new_id: NewId) -> tuple[ir.Rel, ir.ColumnRef]:
    """`rel` with a column of the numbers of its rows in the order of `keys`, from 1 on."""
    (signature,) = registry.window_functions("row_number")
    field = ir.Field(id=new_id(), name="n", type=_NUMBER)
    call = ir.WindowCall(
        signature=signature, args=(), type=field.type, partition_by=(), order_by=keys, frame=WHOLE_PARTITION
    )
    return ir.Window(input=rel, calls=(call,), fields=(*rel.fields, field)), _column(field)


def _union(rel: ir.SetOperation, new_id: NewId) -> Ordered | None:
    """The left side's rows, then the right side's."""
    sides = [in_order(side, new_id) for side in (rel.left, rel.right)]
    if any(side is None for side in sides):
        return None
    known = [side for side in sides if side is not None]
    place = ir.Field(id=new_id(), name="side", type=SqlType(INT4))
    own = [[ir.Field(id=new_id(), name="key", type=key.expr.type) for key in keys] for _, keys in known]
    added = (place, *own[0], *own[1])
    united: list[ir.Rel] = []
    for number, ((below, keys), given) in enumerate(zip(known, (rel.left.fields, rel.right.fields), strict=True)):
        values: list[ir.Scalar] = [_column(field) for field in given]
        values.append(ir.Literal(value=number, type=place.type))
        for side, fields in enumerate(own):
            for index, field in enumerate(fields):
                value = keys[index].expr if side == number else ir.Literal(value=None, type=field.type)
                values.append(value)
        columns = tuple([replace(field, id=new_id()) for field in (*given, *added)])
        united.append(ir.Project(input=below, exprs=tuple(values), fields=columns))
    sorted_by = [_ascending(_column(place))]
    for (_, keys), fields in zip(known, own, strict=True):
        sorted_by += [replace(key, expr=_column(field)) for key, field in zip(keys, fields, strict=True)]
    return replace(rel, left=united[0], right=united[1], fields=(*rel.fields, *added)), tuple(sorted_by)


def _window(rel: ir.Window, new_id: NewId) -> Ordered | None:
    """Rows are sorted for a window function: by its partitions, then in the order inside of them."""
    first = rel.calls[0]
    if any((call.partition_by, call.order_by) != (first.partition_by, first.order_by) for call in rel.calls):
        return None
    own = (*map(_ascending, first.partition_by), *first.order_by)
    found = in_order(rel.input, new_id)
    if found is None:
        return (rel, own) if own else None
    below, keys = found
    calls = rel.fields[len(rel.input.fields) :]
    if keys and not all(call.order_by for call in rel.calls):
        below = ir.Sort(input=below, keys=keys, fields=below.fields)  # These take rows as they come.
    return replace(rel, input=below, fields=(*below.fields, *calls)), (*own, *keys)


def _column(field: ir.Field) -> ir.ColumnRef:
    return ir.ColumnRef(id=field.id, type=field.type)


def _ascending(expr: ir.Scalar) -> ir.SortKey:
    return ir.SortKey(expr=expr, descending=False, nulls_first=False)


def in_order_by_columns(rel: ir.Rel, new_id: NewId) -> Ordered | None:
    """`in_order` with keys that are columns: an aggregate or a window sorts by no subquery."""
    ordered = in_order(rel, new_id)
    if ordered is None or all(isinstance(key.expr, ir.ColumnRef) for key in ordered[1]):
        return ordered
    return keys_as_columns(ordered[0], ordered[0].fields, ordered[1], new_id)


def keys_as_columns(rel: ir.Rel, kept: Sequence[ir.Field], keys: Sequence[ir.SortKey], new_id: NewId) -> Ordered:
    """`rel`'s columns `kept`, then one for each of `keys`; and the keys over these."""
    fields = tuple([ir.Field(id=new_id(), name="key", type=key.expr.type) for key in keys])
    exprs = (*map(_column, kept), *[key.expr for key in keys])
    sorted_by = tuple([replace(key, expr=_column(field)) for key, field in zip(keys, fields, strict=True)])
    return ir.Project(input=rel, exprs=exprs, fields=(*kept, *fields)), sorted_by
