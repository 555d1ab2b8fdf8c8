"""SET: what it gives to columns (transformUpdateTargetList) and to parts of them: ``a[2] = ...``, ``a[2:3] = ...``,
``c.field = ...`` (transformAssignmentIndirection)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, takewhile

from msgspec.structs import replace

from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlSyntaxError, UndefinedColumn
from planner.expressions.arrays import element_type
from planner.expressions.bind import bind_clause
from planner.expressions.indirection import hstore_key, json_subscript, subscript_bounds
from planner.expressions.rows import field_of, starred
from planner.functions import of_extensions, own
from planner.ir.nodes import (
    ArrayConstructor,
    Call,
    Coalesce,
    ColumnRef,
    Literal,
    Param,
    RowConstructor,
    Scalar,
    ScalarSubquery,
    Subscript,
    SubscriptAssignment,
)
from planner.ir.physical import listed
from planner.ir.written import KeyWord
from planner.queries.changes.column_values import assign, default_value
from planner.queries.changes.targets import ChangeTarget
from planner.resolution.casting import coerce, coerce_to_target, finish_row, with_shape
from planner.resolution.coercion import Context
from planner.resolution.query import bind_query, single_column
from planner.resolution.statement import Assigned, Level, PartNotes
from planner.syntax.parse import Tree, tree_location
from planner.types.base_types import HSTORE, base_type, kind_of
from planner.types.type_names import array_of, format_type, type_row
from planner.types.types import INT4, JSONB, TEXT, SqlType
from planner.types.user_types import attributes
from planner.values.geometry.shapes import SUBSCRIPTABLE
from storage.catalog.model import Column


def assigned_twice(column: Column) -> SqlSyntaxError:
    return SqlSyntaxError(f'multiple assignments to same column "{column.name}"')


def given_values(level: Level, tree: Tree) -> list[Scalar | None]:
    """What each item of SET gives to its column, as it is written; None stands for DEFAULT. PostgreSQL binds all of
    them before it looks for the columns."""
    given: list[Scalar | None] = []
    multiple: list[Scalar | None] = []
    for node in tree.target_list:
        named = node.res_target
        if named.val.HasField("multi_assign_ref"):
            reference = named.val.multi_assign_ref
            if reference.colno == 1:
                multiple = _multiple(level, reference, level.statement.position(named.location))
            given.append(multiple[reference.colno - 1])
        else:
            given.append(None if named.val.HasField("set_to_default") else _updated(level, named.val))
    return given


def assigned_values(
    level: Level,
    target: ChangeTarget,
    tree: Tree,
    given: Sequence[Scalar | None],
    old: Sequence[Scalar],
    verb: str = "update",
) -> tuple[dict[int, Scalar], set[int]]:
    """The new values, by place among the live columns, and the places of those that are not the default. `given` are
    those of `given_values`; `old` are the values that there are, parts of which may stay."""
    statement, live, types = level.statement, target.live, target.types
    changes: dict[int, Scalar] = {}
    not_default: set[int] = set()
    in_parts: set[int] = set()
    noted = None if statement.notes is None else statement.notes.change(tree).assigned
    for node, expr in zip(tree.target_list, given, strict=True):
        named = node.res_target
        place = target.index(named.name, statement.position(named.location), assigned=True)
        index = target.assigned(place, verb)
        if index in changes and not (named.indirection and index in in_parts):
            raise assigned_twice(live[index])
        column, type = live[index], types[index]
        if named.indirection:
            in_parts.add(index)
            not_default.add(index)
            value = None if expr is None else finish_row(statement, expr, type)
            changes[index] = assign_part(level, named, column, type, changes.get(index, old[index]), value)
        elif expr is None:
            # Of a view without one the DEFAULT is NULL, other than in an INSERT.
            named_column = target.named.live_columns()[place]
            value = default_value(statement, named_column, type)
            changes[index] = statement.written_as(value, KeyWord(text="DEFAULT"))
            if target.views:
                not_default.add(index)
        else:
            not_default.add(index)
            changes[index] = assign(statement, finish_row(statement, expr, type), column, type)
        if noted is not None:
            _note_assigned(noted, named, changes[index] if expr is None else expr, changes[index])
    return changes, not_default


def _note_assigned(noted: list[Assigned], named: Tree, given: Scalar, value: Scalar) -> None:
    """Notes what an item of SET gives to a column: `given`, which is `value` in the column's type. Columns that get the
    row of a query do so together."""
    reference = named.val.multi_assign_ref
    if not (named.val.HasField("multi_assign_ref") and reference.source.HasField("sub_link")):
        noted.append(Assigned([(named.name, named)], value))
    elif reference.colno == 1:
        noted.append(Assigned([(named.name, named)], given, of_query=True))
    else:
        noted[-1].columns.append((named.name, named))


def _updated(level: Level, node: Tree) -> Scalar:
    return bind_clause(level, node, "UPDATE")


def _multiple(level: Level, reference: Tree, position: int | None) -> list[Scalar | None]:
    """The values of ``SET (a, b) = ...``; None stands for DEFAULT."""
    statement = level.statement
    source = reference.source
    if source.HasField("row_expr"):
        values: list[Scalar | None] = []
        for node in source.row_expr.args:
            values += [None] if node.HasField("set_to_default") else starred(level, node) or [_updated(level, node)]
        if len(values) != reference.ncolumns:
            raise SqlSyntaxError(
                "number of columns does not match number of values",
                position=statement.position(source.row_expr.location),
            )
        return values
    if source.HasField("sub_link"):
        outer, level.clause = level.clause, "UPDATE"
        rel = bind_query(Level(statement, level), source.sub_link.subselect.select_stmt)
        level.clause = outer
        if len(rel.fields) != reference.ncolumns:
            raise SqlSyntaxError(
                "number of columns does not match number of values",
                position=statement.position(source.sub_link.location),
            )
        return [
            ScalarSubquery(rel=single_column(statement, rel, index), type=field.type)
            for index, field in enumerate(rel.fields)
        ]
    raise FeatureNotSupported(
        "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
        position=statement.position(tree_location(source)) or position,
    )


def part_type(named: Tree, type: SqlType) -> SqlType:
    """The type of the part of a column of `type` that `named` (a ResTarget) means."""
    steps = [*named.indirection]
    while steps:
        if steps[0].HasField("string"):
            name = steps.pop(0).string.sval
            found = next((field.type for field in attributes(type.oid) or () if field.name == name), None)
            if found is None:
                return type
            type = found
            continue
        indices = [*takewhile(lambda step: not step.HasField("string"), steps)]
        del steps[: len(indices)]
        if kind_of(type.oid) == HSTORE:
            type = SqlType(TEXT)
        elif type.oid != JSONB and not any(step.a_indices.is_slice for step in indices):
            type = element_type(type)
    return type


def assign_part(
    level: Level, named: Tree, column: Column, type: SqlType, before: Scalar, value: Scalar | None
) -> Scalar:
    """The whole of `column`, which was `before`, with the part that `named` (a ResTarget) means replaced by `value`
    (None: DEFAULT). Raises 42804, 0A000."""
    notes = level.statement.notes
    if notes is None:
        return _assigned(level, named, list(named.indirection), column, type, before, value)
    part = notes.parts[id(named)] = PartNotes(named)
    whole = _assigned(level, named, list(named.indirection), column, type, before, value)
    return whole if part.value is None else level.statement.written_as(whole, part.value)


def _note_step(level: Level, named: Tree, step: str | Subscript) -> None:
    if level.statement.notes is not None:
        level.statement.notes.parts[id(named)].steps.append(step)


def _note_value(level: Level, named: Tree, value: Scalar) -> None:
    """Notes `value` for the part, unless it is a whole around one that was noted before."""
    if level.statement.notes is not None:
        part = level.statement.notes.parts[id(named)]
        part.value = part.value or value


def _assigned(
    level: Level,
    named: Tree,
    steps: Sequence[Tree],
    column: Column,
    type: SqlType,
    before: Scalar,
    value: Scalar | None,
) -> Scalar:
    """`before`, of `type`, with the part that `steps` lead to replaced."""
    statement = level.statement
    position = statement.position(named.location)
    if steps[0].HasField("string") and attributes(type.oid) is not None:
        return _with_field(level, named, steps, column, type, before, value)
    if value is None:
        raise FeatureNotSupported("cannot set an array element to DEFAULT", position=position)
    element = element_type(type)
    row = type_row(type.oid)
    is_array = row is not None and row.category == "A" and bool(element.oid)
    within = [*dropwhile(lambda step: not step.HasField("string"), steps)]
    field = within[0].string.sval if within else None
    of_element = is_array and len(steps) > len(within) > 0 and attributes(element.oid) is not None
    if field is not None and not of_element:
        whole = format_type(element.oid if is_array and len(steps) > 1 else type.oid)
        raise DatatypeMismatch(
            f'cannot assign to field "{field}" of column "{column.name}" because its type {whole} is not a composite '
            "type",
            position=position,
        )
    if kind_of(type.oid) == HSTORE:
        return _hstore_assigned(level, named, steps, column, before, value)
    if type.oid in SUBSCRIPTABLE:
        return _shape_assigned(level, named, steps, column, type, before, value)
    if not is_array and type.oid != JSONB:
        raise DatatypeMismatch(
            f"cannot subscript type {format_type(type.oid)} because it does not support subscripting", position=position
        )
    indices = [step.a_indices for step in steps[: len(steps) - len(within)]]
    sliced = any(item.is_slice for item in indices)
    lower, upper = ((), ()) if type.oid == JSONB else subscript_bounds(level, indices, sliced=sliced)
    keys = [json_subscript(level, item) for item in indices] if type.oid == JSONB else []
    step = Subscript(arg=before, lower=tuple(keys) or lower, upper=upper, slice=sliced, type=element)
    _note_step(level, named, step)
    again = None if sliced else _same_element(before, lower)
    if again is not None:
        # What was put there is not computed a second time.
        before = again.arg
    if of_element and not sliced:
        is_new = isinstance(before, Literal) and before.value is None
        known = Subscript(arg=before, lower=lower, upper=(), slice=False, type=element)
        old: Scalar = Literal(value=None, type=element) if is_new else known
        if again is not None and isinstance(again.items, ArrayConstructor):
            (old,) = again.items.items
        value = _with_field(level, named, within, column, element, old, value)
    wanted = type if sliced or keys else element
    converted = _converted(level, named, value, wanted, column)
    if keys:
        return _json_assigned(level, keys, before, converted)
    items = with_shape(statement, converted, replace(wanted, dimensioned=converted.type.dimensioned))
    if not sliced:
        items = ArrayConstructor(items=(items,), type=listed(type))
    result = replace(type, dimensioned=type.dimensioned or len(lower) > 1)
    before = with_shape(statement, before, result)
    put = SubscriptAssignment(arg=before, lower=lower, upper=upper, slice=sliced, items=items, type=result)
    return with_shape(statement, put, type)


def _same_element(before: Scalar, lower: Sequence[Scalar | None]) -> SubscriptAssignment | None:
    """The assignment that `before` is, when it is to the very element that `lower` means."""
    if not isinstance(before, SubscriptAssignment) or before.slice or before.lower != tuple(lower):
        return None
    return before if all(isinstance(index, Literal | Param | ColumnRef) for index in lower) else None


def _shape_assigned(
    level: Level, named: Tree, steps: Sequence[Tree], column: Column, type: SqlType, before: Scalar, value: Scalar
) -> Scalar:
    """A geometric value of fixed length with one of its numbers or corners replaced."""
    indices = [step.a_indices for step in steps]
    sliced = any(item.is_slice for item in indices)
    put = _converted(level, named, value, type if sliced else element_type(type), column)
    if sliced:
        raise FeatureNotSupported("updates on slices of fixed-length arrays not implemented")
    lower, _ = subscript_bounds(level, indices, sliced=False)
    _note_step(level, named, Subscript(arg=before, lower=lower, upper=(), slice=False, type=put.type))
    return SubscriptAssignment(arg=before, lower=lower, upper=(), slice=False, items=put, type=type)


def _converted(level: Level, named: Tree, value: Scalar, wanted: SqlType, column: Column) -> Scalar:
    """`value` as one of the type that the part of `column` has. Raises 42804."""
    converted = coerce_to_target(level.statement, value, wanted, Context.ASSIGNMENT)
    if converted is None:
        raise DatatypeMismatch(
            f'subscripted assignment to "{column.name}" requires type {format_type(wanted.oid)} but expression is of '
            f"type {format_type(value.type.oid)}",
            hint="You will need to rewrite or cast the expression.",
            position=level.statement.position(named.location),
        )
    _note_value(level, named, converted)
    return converted


JSONB_ASSIGN = own.function("jsonb_assign")


def _json_assigned(level: Level, keys: Sequence[Scalar], before: Scalar, value: Scalar) -> Scalar:
    """`before`, of type jsonb, with what `keys` lead to replaced. NULL is an empty array where the first of them is a
    number, else an empty object; as a value it is null."""
    empty = Literal(value="[]" if keys[0].type.oid == INT4 else "{}", type=before.type)
    null = Literal(value="null", type=before.type)
    path = [coerce(level.statement, key, SqlType(TEXT), Context.EXPLICIT) for key in keys]
    return Call(
        signature=JSONB_ASSIGN,
        args=(
            Coalesce(args=(before, empty), type=before.type),
            ArrayConstructor(items=tuple(path), type=SqlType(array_of(TEXT))),
            Coalesce(args=(value, null), type=before.type),
        ),
        type=before.type,
    )


_HSTORE_ASSIGN = "hstore_assign"


def _hstore_assigned(
    level: Level, named: Tree, steps: Sequence[Tree], column: Column, before: Scalar, value: Scalar
) -> Scalar:
    """`before`, of type hstore, with another value for one key. NULL is an empty hstore."""
    key = hstore_key(level, [step.a_indices for step in steps])
    converted = _converted(level, named, value, SqlType(TEXT), column)
    _note_step(level, named, Subscript(arg=before, lower=(key,), upper=(), slice=False, type=converted.type))
    made = base_type(before.type.oid)
    assert made is not None
    (signature,) = of_extensions.functions(made, _HSTORE_ASSIGN)
    whole = Coalesce(args=(before, Literal(value="", type=before.type)), type=before.type)
    return Call(signature=signature, args=(whole, key, converted), type=before.type)


def _with_field(
    level: Level,
    named: Tree,
    steps: Sequence[Tree],
    column: Column,
    type: SqlType,
    before: Scalar,
    value: Scalar | None,
) -> Scalar:
    """`before`, of a composite `type`, with a field, or a part of one, replaced. Raises 42703, 42804, 0A000."""
    statement = level.statement
    position = statement.position(named.location)
    if value is None:
        raise FeatureNotSupported("cannot set a subfield to DEFAULT", position=position)
    name = steps[0].string.sval
    fields = attributes(type.oid) or ()
    place = next((place for place, field in enumerate(fields) if field.name == name), None)
    if place is None:
        raise UndefinedColumn(
            f'cannot assign to field "{name}" of column "{column.name}" because there is no such column in data type '
            f"{format_type(type.oid)}",
            position=position,
        )
    wanted = fields[place].type
    _note_step(level, named, name)
    if len(steps) > 1:
        put = _assigned(level, named, steps[1:], column, wanted, _field_before(before, place, wanted), value)
    else:
        converted = coerce_to_target(statement, value, wanted, Context.ASSIGNMENT)
        if converted is None:
            raise DatatypeMismatch(
                f'subfield "{name}" is of type {format_type(wanted.oid)} but expression is of type '
                f"{format_type(value.type.oid)}",
                hint="You will need to rewrite or cast the expression.",
                position=position,
            )
        _note_value(level, named, converted)
        put = with_shape(statement, converted, wanted)
    items = tuple(
        put if index == place else _field_before(before, index, field.type) for index, field in enumerate(fields)
    )
    return RowConstructor(items=items, names=tuple(field.name for field in fields), type=type)


def _field_before(before: Scalar, index: int, type: SqlType) -> Scalar:
    if isinstance(before, Literal) and before.value is None:
        return Literal(value=None, type=type)
    return field_of(before, index)


def earlier_parts(places: Sequence[int]) -> list[int | None]:
    """For each of the columns at `places` that an INSERT lists the one before that is the same."""
    last: dict[int, int] = {}
    found = []
    for index, place in enumerate(places):
        found.append(last.get(place))
        last[place] = index
    return found
