"""Calls of functions of users: in expressions, in select lists as sets, and in FROM."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from planner.calls.inlining import fields_named, inlined_rows, inlined_value, is_row_itself, rows_as_values
from planner.calls.overloads import Resolved
from planner.calls.set_returning import check_place
from planner.calls.user_functions import record_of
from planner.errors import FeatureNotSupported, SqlSyntaxError, WrongObjectType
from planner.expressions.arrays import array_type
from planner.functions import registry
from planner.functions.own_bodies import FUNCTIONS
from planner.ir.nodes import (
    ArraySubquery,
    Call,
    ColumnRef,
    Field,
    FieldSelect,
    FunctionCall,
    FunctionScan,
    Join,
    Limit,
    Literal,
    OneRow,
    Project,
    Rel,
    Scalar,
)
from planner.ir.rewrite import column_ids
from planner.ir.written import FunctionCall as WrittenCall
from planner.resolution.casting import explicit_cast
from planner.resolution.coercion import concrete_signature
from planner.resolution.operators import BOOLEAN
from planner.resolution.statement import Level, Statement
from planner.syntax.parse import Tree
from planner.types.signature import Kind, Signature
from planner.types.type_names import array_of, format_type
from planner.types.types import INT8, RECORD, TEXT, SqlType
from planner.types.user_types import attributes


def note_call(level: Level, tree: Tree, signature: Signature) -> None:
    """Remember, for who writes out a definition, which function a FuncCall means."""
    statement = level.statement
    if signature.oid in FUNCTIONS:
        return  # Everybody may call those, and nobody can drop them.
    statement.functions.add(signature.oid)
    statement.required.call(signature.oid)
    if statement.definition is not None and statement.view_depth == 0:
        statement.definition.functions.append((tree, signature.oid))


def call_text(resolved: Resolved) -> str:
    """``name(type, ...)``, as messages call the function that is meant."""
    return f"{resolved.signature.name}({', '.join(format_type(arg.type.oid) for arg in resolved.given)})"


def refuse_procedure(level: Level, resolved: Resolved, location: int) -> None:
    """42809 for a procedure where a function is called."""
    if resolved.signature.kind is Kind.PROCEDURE:
        raise WrongObjectType(
            f"{call_text(resolved)} is a procedure",
            hint="To call a procedure, use CALL.",
            position=level.statement.position(location),
        )


def user_call(level: Level, resolved: Resolved, tree: Tree, start_srfs: int) -> Scalar:
    """The value of a call of a function of a user."""
    statement = level.statement
    location = tree.location
    refuse_procedure(level, resolved, location)
    note_call(level, tree, resolved.signature)
    if resolved.signature.kind is Kind.SET_RETURNING:
        value = _set(level, resolved, location, start_srfs)
    else:
        found = inlined_value(level, resolved)
        value = _acting(level, resolved, location) if found is None else found
    if statement.written is not None:
        value = replace(value)
        form = WrittenCall(
            name=resolved.signature.name,
            args=resolved.given,
            variadic=tree.func_variadic,
            oid=resolved.signature.oid,
        )
        statement.written_as(value, form)
    known = resolved.columns
    if known is not None and resolved.type.oid == RECORD:
        statement.records[id(value)] = (value, known)
    return statement.at(value, location)


def _acting(level: Level, resolved: Resolved, location: int) -> Scalar:
    if (resolved.columns is not None or resolved.type.oid == RECORD) and not level.statement.is_shown:
        raise FeatureNotSupported(
            f"function {call_text(resolved)}, which is carried out by statement, is only supported in FROM: "
            "it returns a row",
            position=level.statement.position(location),
        )
    level.statement.volatile = True
    signature = replace(resolved.signature, acts=True)
    return Call(signature=signature, args=tuple(resolved.args), type=resolved.type)


def _as(statement: Statement, rel: Rel, type: SqlType) -> Rel:
    """The only column of `rel` as values of `type`."""
    (field,) = rel.fields
    value = explicit_cast(statement, ColumnRef(id=field.id, type=field.type), type, -1)
    return Project(input=rel, exprs=(value,), fields=(statement.new_field(field.name, value.type),))


def _set(level: Level, resolved: Resolved, location: int, start_srfs: int) -> Scalar:
    """A set in a select list: the elements of the array of all that the function returns."""
    statement = level.statement
    check_place(level, location)
    known = resolved.columns
    rel = inlined_rows(level, resolved, known)
    is_known = known is not None or resolved.type.oid != RECORD
    called_once = level.calls_once and is_known and not list(column_ids(tuple(resolved.args)))
    if rel is None and (statement.is_shown or called_once):
        shown = known or [(resolved.signature.name, resolved.type)]
        rel = _acting_rows(resolved, [statement.new_field(name, type) for name, type in shown])
        statement.volatile = True
    if rel is not None and known is not None:
        rel = rows_as_values(statement, rel, known, resolved.type)
    elif rel is not None and resolved.type.oid == RECORD and not _is_row(rel):
        # Its fields have names, but nobody may select them.
        named = [(field.name, field.type) for field in rel.fields]
        rel = rows_as_values(statement, rel, named, resolved.type)
    if rel is None or len(rel.fields) != 1 or (resolved.type.oid == RECORD and rel.fields[0].type.oid != RECORD):
        raise FeatureNotSupported(
            f"function {call_text(resolved)} in a select list is not supported",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            position=statement.position(location),
        )
    held = rel.fields[0].type
    if not array_of(held.declared_oid):
        # There are no arrays of arrays: those of their texts.
        rel = _as(statement, rel, SqlType(TEXT))
    element = rel.fields[0].type
    array = array_type(element, statement.position(location))
    (unnest,) = [signature for signature in registry.functions("unnest") if len(signature.args) == 1][:1]
    field = statement.new_field(resolved.signature.name, element)
    call = FunctionCall(
        signature=concrete_signature(unnest, (array.oid,), element.oid),
        args=(ArraySubquery(rel=rel, type=array),),
        fields=(field,),
    )
    depth = max((level.srf_depth[index] for index in range(start_srfs, len(level.srfs))), default=-1) + 1
    level.srfs.append(call)
    level.srf_depth.append(depth)
    level.srf_locations.append(location)
    if known is not None and element.oid == RECORD:
        statement.record_columns[field.id] = tuple(known)
    value = ColumnRef(id=field.id, type=field.type)
    return value if element is held else explicit_cast(statement, value, held, location)


def _is_row(rel: Rel) -> bool:
    """Whether its only column has rows."""
    (type, *others) = [field.type for field in rel.fields] or [SqlType(TEXT)]
    return not others and (type.oid == RECORD or attributes(type.oid) is not None)


# ---------------------------------------------------------------- in FROM


class UserRows(Struct, frozen=True, kw_only=True):
    """A function of a user in FROM, or one that is a query. `is_value`: its row is a value of a scalar type;
    `row_type` is the composite type that it is of, 0 of none. `written` is the call, where it can be printed."""

    name: str
    rel: Rel
    is_value: bool
    row_type: int = 0
    written: WrittenCall | None = None


def rows_in_from(
    level: Level, resolved: Resolved, tree: Tree, definitions: Sequence[Tree], alias: str | None
) -> UserRows:
    """The rows of a call in FROM, whose columns are called as they are to be seen, but for an alias list. `alias` is
    what a single column of a scalar type is called, when the function is alone."""
    statement = level.statement
    location = tree.location
    refuse_procedure(level, resolved, location)
    note_call(level, tree, resolved.signature)
    columns = _columns(level, resolved, definitions, location)
    signature = resolved.signature
    outputs = record_of(statement.context, signature).outputs
    label = outputs[0].name if len(outputs) == 1 else ""
    written = WrittenCall(name=signature.name, args=resolved.given, variadic=tree.func_variadic, oid=signature.oid)
    shown = columns or [(label or alias or signature.name, resolved.type)]
    names = tuple(name for name, _ in shown)
    row_type = resolved.type.oid if attributes(resolved.type.oid) else 0
    rel = inlined_rows(level, resolved, columns)
    if rel is not None and columns is not None and is_row_itself(rel, resolved.type):
        rel = _fields_of_rows(statement, rel, columns)
    if rel is None or (columns is not None and len(rel.fields) != len(names)):
        statement.volatile = True
        return UserRows(
            name=signature.name,
            rel=_acting_rows(resolved, [statement.new_field(name, type) for name, type in shown]),
            is_value=columns is None,
            row_type=row_type,
            written=written,
        )
    if signature.kind is not Kind.SET_RETURNING:
        rel = _one_row(rel)
    rel = fields_named(statement, rel, names)
    return UserRows(name=signature.name, rel=rel, is_value=columns is None, row_type=row_type, written=written)


def _acting_rows(resolved: Resolved, fields: Sequence[Field]) -> Rel:
    """The rows of a function whose statements are carried out."""
    signature = replace(resolved.signature, acts=True)
    call = FunctionCall(signature=signature, args=tuple(resolved.args), fields=tuple(fields))
    return FunctionScan(functions=(call,), ordinality=None, fields=tuple(fields))


def _fields_of_rows(statement: Statement, rel: Rel, columns: Sequence[tuple[str, SqlType]]) -> Rel:
    """The fields of the rows that the only column of `rel` has, in columns of their own."""
    row = ColumnRef(id=rel.fields[0].id, type=rel.fields[0].type)
    exprs = tuple([
        FieldSelect(arg=row, name=name, type=type, index=index) for index, (name, type) in enumerate(columns)
    ])  # fmt: skip
    return Project(input=rel, exprs=exprs, fields=tuple([statement.new_field(name, type) for name, type in columns]))


def _one_row(rel: Rel) -> Rel:
    """The first row of `rel`, or one of NULLs."""
    if isinstance(rel, Project) and isinstance(rel.input, OneRow):
        return rel
    one = Literal(value=1, type=SqlType(INT8))
    first = Limit(input=rel, count=one, offset=None, ties=False, fields=rel.fields)
    always = Literal(value=True, type=BOOLEAN)
    return Join(kind="left", left=OneRow(), right=first, condition=always, lateral=False, fields=rel.fields)


def _columns(
    level: Level, resolved: Resolved, definitions: Sequence[Tree], location: int
) -> Sequence[tuple[str, SqlType]] | None:
    statement = level.statement
    if not definitions:
        if resolved.type.oid == RECORD and resolved.columns is None:
            raise SqlSyntaxError(
                'a column definition list is required for functions returning "record"',
                position=statement.position(location),
            )
        return resolved.columns
    position = statement.position(definitions[0].column_def.location)
    if resolved.columns is not None:
        what = (
            "a function with OUT parameters"
            if resolved.type.oid == RECORD
            else "a function returning a named composite type"
        )
        raise SqlSyntaxError(f"a column definition list is redundant for {what}", position=position)
    if resolved.type.oid != RECORD:
        raise SqlSyntaxError(
            'a column definition list is only allowed for functions returning "record"', position=position
        )
    return [(node.column_def.colname, statement.type_named(node.column_def.type_name)) for node in definitions]
