"""Rows: ROW(...), and the fields of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from planner.common_errors import MAX_TARGETS
from planner.errors import TooManyColumns, UndefinedColumn, UndefinedTable, WrongObjectType
from planner.expressions.bind import bind
from planner.ir.nodes import ColumnRef, FieldSelect, RowConstructor, Scalar
from planner.resolution.casting import resolve_unknown
from planner.resolution.records import record_fields
from planner.resolution.scope import expand_star, is_whole_row
from planner.resolution.statement import Handler, Level, Statement
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import RECORD, SqlType
from planner.types.user_types import attributes, kept_field


def _row(level: Level, tree: Tree) -> Scalar:
    items: list[Scalar] = []
    for node in tree.args:
        items.extend(starred(level, node) or [bind(level, node)])
    if len(items) > MAX_TARGETS:
        raise TooManyColumns(
            f"ROW expressions can have at most {MAX_TARGETS} entries", position=level.statement.position(tree.location)
        )
    names = tuple(f"f{index}" for index in range(1, len(items) + 1))
    result = RowConstructor(items=tuple(items), names=names, type=SqlType(RECORD))
    return level.statement.at(result, tree.location)


def starred(level: Level, node: Tree) -> list[Scalar] | None:
    """What ``name.*`` and ``(row).*`` in ROW(...) stand for; None where `node` is something else."""
    if node.HasField("a_indirection"):
        steps = node.a_indirection.indirection
        if not steps[len(steps) - 1].HasField("a_star"):
            return None
        bare = pb.Node()
        bare.CopyFrom(node)
        del bare.a_indirection.indirection[-1]
        scalar = bind(level, bare if len(steps) > 1 else node.a_indirection.arg)
        return [expr for _, expr in expand_record(level, scalar)]
    if not node.HasField("column_ref"):
        return None
    fields = node.column_ref.fields
    if len(fields) < 2 or not fields[len(fields) - 1].HasField("a_star"):
        return None
    return [expr for _, expr in columns_of_star(level, fields, node.column_ref.location)]


def columns_of_star(level: Level, fields: Sequence[Tree], location: int) -> list[tuple[str, Scalar]]:
    """The columns that `name.*`, a ColumnRef of `fields`, stands for: those of a FROM item, or the fields of an
    argument of the function whose statement it is."""
    try:
        return expand_star(level, fields, location)
    except UndefinedTable:
        row = argument(level, strings(list(fields)[:-1]), location)
        if row is None:
            raise
        return expand_record(level, row)


def argument(level: Level, parts: Sequence[str], location: int) -> Scalar | None:
    """The argument of the function whose statement it is that goes by this name; None where there is none."""
    arguments = level.statement.arguments
    found = None if arguments is None else arguments.named(parts)
    return None if found is None else level.statement.occurrence(found, location)


def without_stars(level: Level, select: Tree) -> Tree:
    """VALUES with what each star in its rows stands for in its place. A definition, whose tree is its own, is changed;
    any other tree stays as it is."""
    if not any(_is_star(item) for row in select.values_lists for item in row.list.items):
        return select
    made = select
    if level.statement.definition is None:
        made = type(select)()
        made.CopyFrom(select)
    for row in made.values_lists:
        items = [each for item in row.list.items for each in (_fields_of(level, item) if _is_star(item) else [item])]
        copies = pb.List()
        copies.items.extend(items)
        row.list.CopyFrom(copies)
    return made


def _is_star(node: Tree) -> bool:
    """Whether it is ``name.*`` or ``(row).*``."""
    if node.HasField("column_ref"):
        steps = node.column_ref.fields
        return len(steps) > 1 and bool(steps[len(steps) - 1].HasField("a_star"))
    steps = node.a_indirection.indirection if node.HasField("a_indirection") else ()
    return len(steps) > 0 and bool(steps[len(steps) - 1].HasField("a_star"))


def _fields_of(level: Level, star: Tree) -> list[Tree]:
    """The selections of single columns or fields that a star stands for."""
    steps = "fields" if star.HasField("column_ref") else "indirection"
    if star.HasField("column_ref"):
        columns = columns_of_star(level, star.column_ref.fields, star.column_ref.location)
    else:
        row = pb.Node()
        row.CopyFrom(star.a_indirection.arg if len(star.a_indirection.indirection) == 1 else star)
        if len(star.a_indirection.indirection) > 1:
            del row.a_indirection.indirection[-1]
        columns = expand_record(level, bind(level, row))
    found = []
    for name, _ in columns:
        node = pb.Node()
        node.CopyFrom(star)
        last = getattr(node.column_ref if steps == "fields" else node.a_indirection, steps)
        del last[-1]
        last.add().string.sval = name
        found.append(node)
    return found


def row_before(tree: Tree, step: int) -> Tree:
    """What stands before a step of an A_Indirection, or before the last name of a ColumnRef: a row."""
    node = pb.Node()
    if tree.DESCRIPTOR.name == "ColumnRef":
        node.column_ref.CopyFrom(tree)
        node.column_ref.fields[-1].a_star.SetInParent()
    elif step == 0:
        node.CopyFrom(tree.arg)
    else:
        node.a_indirection.arg.CopyFrom(tree.arg)
        node.a_indirection.indirection.extend(list(tree.indirection)[:step])
    return node


def field_or_call(level: Level, scalar: Scalar, name: str, tree: Tree, step: int, location: int) -> Scalar:
    """`(scalar).name`, or where no field is called so the call `name(scalar)` (PostgreSQL, "Composite Type Usage");
    it is a step of `tree`. Raises 42703 and 42809."""
    try:
        return select_field(level, scalar, name, location)
    except (UndefinedColumn, WrongObjectType):
        found = level.statement.grammar.field_function(level, name, scalar, tree, step, location)
        if found is None:
            raise
        return found


def expand_record(level: Level, scalar: Scalar) -> list[tuple[str, Scalar]]:
    """The fields of a row, by name, for ``(row).*``. Raises 42809 where they are not known."""
    fields = record_fields(level, scalar)
    if fields is None:
        if scalar.type.oid == RECORD:
            raise WrongObjectType("record type has not been registered")
        raise WrongObjectType(
            f"type {format_type(scalar.type.oid)} is not composite", position=level.statement.position_of(scalar)
        )
    location = level.statement.location(scalar)
    return [(name, select_field(level, scalar, name, location)) for name, _ in fields]


def select_field(level: Level, scalar: Scalar, name: str, location: int) -> Scalar:
    """`(scalar).name`. Raises 42703 and 42809."""
    statement = level.statement
    fields = record_fields(level, scalar)
    if fields is None:
        if scalar.type.oid == RECORD:
            raise UndefinedColumn(
                f'could not identify column "{name}" in record data type', position=statement.position(location)
            )
        raise _not_composite(level, scalar, name, location)
    index = _place(scalar, fields, name)
    if index is not None:
        if isinstance(scalar, RowConstructor):
            part = scalar.items[index]
            if isinstance(part, ColumnRef):
                # It stands by itself now.
                part = statement.at(ColumnRef(id=part.id, type=part.type), location)
            return _as_field(statement, scalar, resolve_unknown(statement, part), index, fields[index][0])
        field, type = fields[index]
        return statement.at(FieldSelect(arg=scalar, name=field, type=type, index=index), location)
    if scalar.type.oid != RECORD:
        what = f'column "{name}" not found in data type {format_type(scalar.type.oid)}'
        raise UndefinedColumn(what, position=statement.position(location))
    raise UndefinedColumn(
        f'could not identify column "{name}" in record data type', position=statement.position(location)
    )


def _as_field(statement: Statement, row: RowConstructor, part: Scalar, index: int, name: str) -> Scalar:
    """`part`, a field of a row that is written out, remembered as one if anybody prints."""
    if statement.written is None or is_whole_row(statement, row):
        return part
    form = FieldSelect(arg=row, name=name, type=part.type, index=index)
    # Not the item itself, which is printed inside of the row.
    return statement.written_as(replace(part), form)


def _place(scalar: Scalar, fields: Sequence[tuple[str, SqlType]], name: str) -> int | None:
    """The place of the field called `name`, in an expression that the catalog keeps by the name that lasts."""
    for index, (field, _) in enumerate(fields):
        if field == name:
            return index
    declared = enumerate(attributes(scalar.type.oid) or ())
    return next((index for index, field in declared if kept_field(scalar.type.oid, field) == name), None)


def field_of(scalar: Scalar, index: int) -> Scalar:
    """Field `index` (from 0) of a value of a composite type."""
    if isinstance(scalar, RowConstructor):
        return scalar.items[index]
    field = (attributes(scalar.type.oid) or ())[index]
    return FieldSelect(arg=scalar, name=field.name, type=field.type, index=index)


def _not_composite(level: Level, scalar: Scalar, name: str, location: int) -> Exception:
    return WrongObjectType(
        f"column notation .{name} applied to type {format_type(scalar.type.oid)}, which is not a composite type",
        position=level.statement.position(location),
    )


HANDLERS: Mapping[str, Handler] = {"row_expr": _row}
