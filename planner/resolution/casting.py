"""Casts applied to scalars: every conversion that PostgreSQL makes becomes an explicit `Cast` node or a new literal.

An unknown literal (a quoted string whose type nothing has said yet) is a `Literal` of type unknown with its text; it
is parsed here, once its type is known. Likewise a parameter of unknown type gets its type here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import partial

from msgspec.structs import replace

from planner.common_errors import Held
from planner.errors import (
    CannotCoerce,
    DatatypeMismatch,
    FeatureNotSupported,
    NumericValueOutOfRange,
    SqlError,
)
from planner.functions import registry
from planner.ir.array_value import ArrayValue
from planner.ir.nodes import ArrayConstructor, Cast, Collate, FieldSelect, Literal, Param, RowConstructor, Scalar
from planner.ir.physical import ELEMENT_ARRAYS
from planner.ir.written import Conversion, KeyWord, RowCast
from planner.resolution.coercion import ANY, POLYMORPHIC, Context, can_coerce, common_type, mismatched
from planner.resolution.date_words import moving_time
from planner.resolution.domains import held_against_rules
from planner.resolution.reg_types import resolve_reg
from planner.resolution.statement import Statement
from planner.types.numeric_shapes import cast_type, common_shape, has_room, shape_of
from planner.types.signature import Signature
from planner.types.type_names import element_of, format_type, subscript_element
from planner.types.types import (
    FLOAT4,
    FLOAT8,
    INT2,
    INT2VECTOR,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    OID,
    OIDVECTOR,
    RECORD,
    REG_TYPES,
    TEXT,
    UNKNOWN,
    WIDE,
    NumericShape,
    SqlType,
    column_type,
    is_wide,
)
from planner.types.user_types import Attribute, attributes, enum_of, is_user_type
from planner.values.floats.float_text import nearest_single
from planner.values.record_text import with_fields
from planner.values.text_values import apply_typmod, date_style, parse_text

_INTEGER_RANGES = {
    INT2: (-(2**15), 2**15 - 1),
    INT4: (-(2**31), 2**31 - 1),
    INT8: (-(2**63), 2**63 - 1),
    OID: (0, 2**32 - 1),
}


MAX_LITERAL_DIGITS = 28
"""Constants of more digits are wide, so that what is computed from them has room."""


def numeric_literal_type(value: Decimal) -> SqlType:
    """The type of a numeric constant: exactly the digits that it has, or wide where those are many."""
    if not value.is_finite():
        return column_type(NUMERIC)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(exponent, 0), scale + 1)
    return SqlType(NUMERIC, -1, NumericShape(precision, scale) if precision <= MAX_LITERAL_DIGITS else WIDE)


def value_type(value: object, type: SqlType) -> SqlType:
    """`type` with the numeric shape that a constant of it has: its own digits where no typmod says otherwise."""
    if type.oid == NUMERIC and type.typmod == -1 and isinstance(value, Decimal):
        return numeric_literal_type(value)
    if isinstance(value, ArrayValue):
        return replace(value_type(value.items, type), dimensioned=True)
    if element_of(type.oid) == NUMERIC and type.typmod == -1 and isinstance(value, tuple):
        shapes = [shape_of(numeric_literal_type(item)) for item in value if isinstance(item, Decimal)]
        return SqlType(type.oid, -1, common_shape(shapes) if shapes else column_type(NUMERIC).shape)
    if type.oid == NUMERIC or element_of(type.oid) == NUMERIC:
        return type if type.shape is not None else replace(type, shape=column_type(NUMERIC).shape)
    return type


def convert_literal(statement: Statement, literal: Literal, type: SqlType) -> Literal:
    """An unknown literal as a constant of `type` (with its typmod for interval alone, as PostgreSQL does).

    Raises what the type's input raises (22P02, 22007, 22008, 22003, ...), with the literal's position.
    """
    location = statement.location(literal)
    text = literal.value
    if type.oid in (TEXT, UNKNOWN):
        value = text
    elif text is None:
        value = None
    else:
        try:
            assert isinstance(text, str)
            wanted = type if type.oid == INTERVAL else type.without_typmod()
            fields = attributes(type.oid) if statement.binds_stored else None
            if fields is not None:
                # The type has got further fields since, maybe.
                text = with_fields(text, len(fields))
            value = parse_text(text, wanted, statement.context.settings, partial(resolve_reg, statement.context))
        except SqlError as error:
            if error.position is None:
                error.position = statement.position(location)
            raise
    enum = enum_of(type.oid)
    if enum is not None and statement.definition is not None and isinstance(value, int) and not statement.view_depth:
        statement.definition.enum_values[location] = (value, enum.oid)
    if statement.definition is not None and type.oid in REG_TYPES and isinstance(value, int):
        statement.definition.objects[location] = (type.oid, value)
    final = type if type.oid == INTERVAL else type.without_typmod()
    result: Literal = statement.at(Literal(value=value, type=value_type(value, final)), location)
    return result


def _moving_time(statement: Statement, literal: Literal, type: SqlType) -> Scalar | None:
    if not isinstance(literal.value, str):
        return None
    location = statement.location(literal)
    try:
        found = moving_time(literal.value, type.oid, date_style(statement.context.settings))
    except SqlError as error:
        error.position = statement.position(location)
        raise
    return None if found is None else statement.at(found, location)


def coerce(statement: Statement, expr: Scalar, target: SqlType, context: Context) -> Scalar:
    """`expr` as a value of `target`'s type, without regard to typmod (coerce_type). The conversion must exist."""
    source = expr.type
    if source.oid == target.oid or target.oid == ANY:
        return expr
    if target.oid in POLYMORPHIC:
        if isinstance(expr, Literal) and source.oid == UNKNOWN and expr.value is None:
            return statement.at(Literal(value=None, type=SqlType(target.oid)), statement.location(expr))
        return expr
    fields = attributes(target.oid) if isinstance(expr, RowConstructor) else None
    if fields is not None and isinstance(expr, RowConstructor):
        return _row_as(statement, expr, target, fields, context, -1)
    if target.oid == RECORD:
        return _unknown_record(statement, expr) if source.oid == UNKNOWN else _as_record(statement, expr)
    if source.oid == UNKNOWN:
        if isinstance(expr, Literal):
            return _moving_time(statement, expr, target) or convert_literal(statement, expr, target)
        if isinstance(expr, Param):
            return statement.set_param_type(expr, target)
        if isinstance(expr, Collate):
            inner = coerce(statement, expr.arg, target, context)
            return statement.at(replace(expr, arg=inner, type=inner.type), statement.location(expr))
    if isinstance(expr, Literal):
        folded = folded_constant(expr, target.oid)
        if folded is not None:
            form = Conversion(arg=expr, type=SqlType(target.oid), explicit=context == Context.EXPLICIT)
            return statement.written_as(statement.at(folded, statement.location(expr)), form)
    final = cast_type(source, target.oid)
    if element_of(target.oid) and target.oid not in (INT2VECTOR, OIDVECTOR):
        # Only the value says what dimensions a text has; the subscripts of a vector begin at 0.
        dimensioned = source.dimensioned or source.oid in (INT2VECTOR, OIDVECTOR) or not subscript_element(source.oid)
        final = replace(final, dimensioned=dimensioned)
    if element_of(target.oid) == NUMERIC:
        inner_type = SqlType(element_of(source.oid)) if element_of(source.oid) else source
        final = replace(final, shape=cast_type(inner_type, NUMERIC).shape)
    result: Scalar = statement.at(
        Cast(arg=expr, type=final, explicit=context == Context.EXPLICIT), statement.location(expr)
    )
    return result


def _unknown_record(statement: Statement, expr: Scalar) -> Scalar:
    """A constant or parameter of no type as a record. Raises 0A000 for a text: nobody knows its fields."""
    if isinstance(expr, Param):
        return statement.set_param_type(expr, SqlType(RECORD))
    if isinstance(expr, Literal) and expr.value is not None:
        raise FeatureNotSupported(
            "input of anonymous composite types is not implemented", position=statement.position_of(expr)
        )
    return statement.at(Literal(value=None, type=SqlType(RECORD)), statement.location(expr))


def _as_record(statement: Statement, expr: Scalar) -> Scalar:
    """A value of a composite type as a row whose fields are known."""
    if isinstance(expr, RowConstructor):
        row = replace(expr, type=SqlType(RECORD))
        return statement.at(statement.written_as(row, expr), statement.location(expr))
    fields = attributes(expr.type.oid) or ()
    items = tuple(
        FieldSelect(arg=expr, name=field.name, type=field.type, index=index) for index, field in enumerate(fields)
    )
    names = tuple(field.name for field in fields)
    row = RowConstructor(items=items, names=names, type=SqlType(RECORD), nullable=True, value=expr)
    return statement.at(statement.written_as(row, expr), statement.location(expr))


def _row_as(
    statement: Statement,
    row: RowConstructor,
    target: SqlType,
    fields: Sequence[Attribute],
    context: Context,
    location: int,
) -> RowConstructor:
    """A row as a value of a composite type (coerce_record_to_complex); `location` is that of the cast. Raises 42846."""

    def fault(detail: str, at: Scalar) -> CannotCoerce:
        return CannotCoerce(
            f"cannot cast type {format_type(row.type.oid)} to {format_type(target.oid)}",
            detail=detail,
            position=statement.position(location if location >= 0 else statement.location(at)),
        )

    if len(row.items) > len(fields):
        raise fault("Input has too many columns.", row)
    given = list(row.items)
    if len(given) < len(fields):
        if not statement.binds_stored:
            raise fault("Input has too few columns.", row)
        # The type has got further fields since.
        for field in fields[len(given) :]:
            missing = Literal(value=None, type=field.type)
            given.append(statement.written_as(missing, KeyWord(text="NULL")))
    items = []
    for number, (item, field) in enumerate(zip(given, fields, strict=True), 1):
        converted = coerce_to_target(statement, item, field.type, context)
        if converted is None:
            types = f"{format_type(item.type.oid)} to {format_type(field.type.oid)}"
            raise fault(f"Cannot cast type {types} in column {number}.", item)
        items.append(with_shape(statement, converted, field.type))
    names = tuple(field.name for field in fields)
    done = replace(row, items=tuple(items), names=names, type=target.without_typmod().without_domain())
    made: RowConstructor = statement.at(done, statement.location(row))
    return made


def folded_constant(literal: Literal, oid: int) -> Literal | None:
    """`literal` converted to the type with this oid where that is known without an engine: NULL and numbers. Raises
    22003."""
    value, source = literal.value, literal.type.oid
    if value is None:
        return Literal(value=None, type=column_type(oid))
    if source not in _INTEGER_RANGES or not isinstance(value, int):
        if source == NUMERIC and oid in (FLOAT4, FLOAT8) and isinstance(value, Decimal):
            return Literal(value=_as_float(value, oid), type=SqlType(oid))
        return None
    limits = _INTEGER_RANGES.get(oid)
    if limits is not None:
        return Literal(value=value, type=SqlType(oid)) if limits[0] <= value <= limits[1] else None
    if oid == NUMERIC:
        number = Decimal(value)
        return Literal(value=number, type=numeric_literal_type(number))
    if oid == FLOAT8:
        return Literal(value=float(value), type=SqlType(FLOAT8))
    return None


def _as_float(value: Decimal, oid: int) -> float:
    """A numeric constant as a float; numeric has no negative zero. Raises 22003 where it is out of range."""
    number = float(value) or 0.0
    if oid == FLOAT4 and value.is_finite():
        number = nearest_single(number, value)
    if (math.isinf(number) and value.is_finite()) or (value and not number):
        name = "real" if oid == FLOAT4 else "double precision"
        raise NumericValueOutOfRange(f'"{value:f}" is out of range for type {name}')
    return number


def coerce_to_target(statement: Statement, expr: Scalar, target: SqlType, context: Context) -> Scalar | None:
    """`expr` as a value of `target`, typmod included (coerce_to_target_type); None when no conversion exists."""
    if not can_coerce(expr.type.oid, target.oid, context):
        return None
    source = expr.type.declared_oid
    converted = coerce(statement, expr, target, context)
    if statement.written is not None and converted is not expr and target.typmod >= 0:
        # Of a conversion in two steps only the second is shown.
        form = statement.written.get(id(converted), (None, None))[1]
        if isinstance(form, Conversion):
            statement.written_as(converted, replace(form, explicit=False))
    fitting = apply_type_modifier(statement, converted, target, explicit=context == Context.EXPLICIT)
    if target.declared_oid == source or not is_user_type(target.declared_oid):
        return fitting
    return as_domain(statement, fitting, target, explicit=context == Context.EXPLICIT)


def as_domain(statement: Statement, expr: Scalar, target: SqlType, *, explicit: bool) -> Scalar:
    """`expr`, of the type under `target`, as a value of the domain that `target` is or is made of."""
    made = held_against_rules(statement, expr, target.declared_oid, explicit=explicit)
    return expr if made is expr else statement.at(made, statement.location(expr))


def apply_type_modifier(statement: Statement, expr: Scalar, target: SqlType, *, explicit: bool) -> Scalar:
    """`expr` (already of `target`'s type) with its length or precision enforced."""
    if target.typmod < 0 or expr.type.typmod == target.typmod:
        return expr
    location = statement.location(expr)
    if isinstance(expr, Literal):
        form = Conversion(arg=expr, type=target, explicit=explicit)
        if expr.value is None:
            return statement.written_as(statement.at(Literal(value=None, type=target), location), form)
        try:
            value = apply_typmod(expr.value, target, explicit=explicit)
        except SqlError:
            # PostgreSQL reports this when it runs the length coercion, after analysis: keep it for then.
            return statement.at(Cast(arg=expr, type=target, explicit=explicit), location)
        return statement.written_as(statement.at(Literal(value=value, type=target), location), form)
    if isinstance(expr, Cast) and expr.type.typmod == -1 and expr.explicit == explicit:
        return statement.at(replace(expr, type=target), location)
    return statement.at(Cast(arg=expr, type=target, explicit=explicit), location)


def with_shape(statement: Statement, expr: Scalar, type: SqlType) -> Scalar:
    """`expr` (of the same type oid) in exactly the shape of `type`: numerics of unlike scale are cast, arrays that are
    held in another way."""
    if expr.type.shape == type.shape and expr.type.dimensioned == type.dimensioned:
        return expr
    location = statement.location(expr)
    if isinstance(expr, Literal) and (type.dimensioned or not isinstance(expr.value, ArrayValue)):
        return statement.written_as(statement.at(Literal(value=expr.value, type=type), location), expr)
    if isinstance(expr, Param) and expr.type.dimensioned == type.dimensioned:
        return expr if type.shape is None else statement.at(Cast(arg=expr, type=type), location)
    return statement.at(Cast(arg=expr, type=type), location)


_NUMERICS = ELEMENT_ARRAYS[NUMERIC]


def with_like_arrays(statement: Statement, exprs: list[Scalar]) -> list[Scalar]:
    """`exprs`, arguments of one routine, with all arrays of one type held in the same way, and numerics as the
    arrays of numerics among them hold theirs."""
    dimensioned: set[int] = set()
    of_numerics = False
    for expr in exprs:
        of_numerics = of_numerics or expr.type.oid == _NUMERICS
        if expr.type.dimensioned:
            dimensioned.add(expr.type.oid)
    if dimensioned:
        exprs = [
            with_shape(statement, expr, replace(expr.type, dimensioned=True)) if expr.type.oid in dimensioned else expr
            for expr in exprs
        ]
    if not of_numerics:
        return exprs
    shapes = {expr.type.shape or WIDE for expr in exprs if expr.type.oid in (NUMERIC, _NUMERICS)}
    if len(shapes) < 2:
        return exprs
    shape = common_shape(list(shapes))
    return [
        with_shape(statement, expr, SqlType(expr.type.oid, -1, shape, dimensioned=expr.type.dimensioned))
        if expr.type.oid in (NUMERIC, _NUMERICS) and (expr.type.shape or WIDE) != shape
        else expr
        for expr in exprs
    ]


def unify(statement: Statement, exprs: Sequence[Scalar], construct: str) -> tuple[list[Scalar], SqlType]:
    """All `exprs` cast to the type that they have in common, and that type: CASE, COALESCE, VALUES, ARRAY, ...

    Raises 42804 (`CASE types integer and text cannot be matched`) and 42846.
    """
    inputs = [expr.type.oid for expr in exprs]
    chosen = common_type(inputs)
    if chosen is None:
        first, second, index = mismatched(inputs)
        raise DatatypeMismatch(
            f"{construct} types {format_type(first)} and {format_type(second)} cannot be matched",
            position=statement.position_of(exprs[index]),
        )
    converted = [to_common(statement, expr, chosen, construct) for expr in exprs]
    type = unified_type([expr.type for expr in converted], chosen)
    if inputs[0] == chosen and exprs[0].type.domain and len({expr.type.declared_oid for expr in exprs}) == 1:
        type = replace(type, domain=exprs[0].type.domain)
    return [with_shape(statement, expr, type) for expr in converted], type


def unified_type(inputs: Sequence[SqlType], oid: int) -> SqlType:
    """One type for values of `inputs` (all of type `oid`): the typmod they share, a shape that holds them all."""
    typmod = inputs[0].typmod if all(type.typmod == inputs[0].typmod for type in inputs) else -1
    shapes = [type.shape for type in inputs if type.shape is not None]
    dimensioned = any(type.dimensioned for type in inputs)
    return SqlType(oid, typmod, common_shape(shapes) if shapes else None, dimensioned=dimensioned)


def to_common(statement: Statement, expr: Scalar, oid: int, construct: str) -> Scalar:
    """`expr` cast implicitly to `oid` (coerce_to_common_type). Raises 42846."""
    if expr.type.oid == oid:
        return expr
    if not can_coerce(expr.type.oid, oid, Context.IMPLICIT):
        raise CannotCoerce(
            f"{construct} could not convert type {format_type(expr.type.oid)} to {format_type(oid)}",
            position=statement.position_of(expr),
        )
    return coerce(statement, expr, column_type(oid), Context.IMPLICIT)


def to_boolean(statement: Statement, expr: Scalar, construct: str) -> Scalar:
    """`expr` as a condition. Raises 42804: `argument of WHERE must be type boolean, not type integer`."""
    return to_specific(statement, expr, SqlType(16), construct)


def to_specific(statement: Statement, expr: Scalar, target: SqlType, construct: str) -> Scalar:
    """`expr` as the one type that `construct` takes (coerce_to_specific_type)."""
    if expr.type.oid == target.oid:
        return expr
    converted = coerce_to_target(statement, expr, target, Context.ASSIGNMENT)
    if converted is None:
        raise DatatypeMismatch(
            f"argument of {construct} must be type {format_type(target.oid)}, not type {format_type(expr.type.oid)}",
            position=statement.position_of(expr),
        )
    return converted


def explicit_cast(statement: Statement, expr: Scalar, target: SqlType, location: int) -> Scalar:
    """`expr::target`. Raises 42846 when there is no such cast."""
    if isinstance(expr, RowConstructor) and target.oid == RECORD:
        return expr
    fields = attributes(target.oid) if isinstance(expr, RowConstructor) and expr.type.oid == RECORD else None
    if fields is not None and isinstance(expr, RowConstructor):
        row = _row_as(statement, expr, target, fields, Context.EXPLICIT, location)
        statement.written_as(row, RowCast(items=row.items, type=target))
        return as_domain(statement, row, target, explicit=True) if target.domain else row
    if isinstance(expr, ArrayConstructor) and not expr.items and element_of(target.oid):
        return statement.at(replace(expr, type=target), location)
    converted = coerce_to_target(statement, expr, target, Context.EXPLICIT)
    if converted is None:
        raise CannotCoerce(
            f"cannot cast type {format_type(expr.type.oid)} to {format_type(target.oid)}",
            position=statement.position(location),
        )
    if converted is expr and expr.type.domain and not target.domain:
        # A cast to the type under a domain: the value is no longer one of the domain.
        return statement.at(Cast(arg=expr, type=expr.type.without_domain(), explicit=True), location)
    if converted is expr and expr.type != target and expr.type.oid == target.oid and target.typmod < 0:
        if expr.type.typmod < 0:
            return expr
        # A cast to the type without a modifier: PostgreSQL keeps the value and forgets the modifier.
        shape = expr.type.shape
        plain = SqlType(target.oid, -1, shape)
        return statement.at(Cast(arg=expr, type=plain, explicit=True), location)
    return converted


def resolve_unknown(statement: Statement, expr: Scalar) -> Scalar:
    """`expr`, as text when its type is still unknown (resolveTargetListUnknowns)."""
    if expr.type.oid == UNKNOWN:
        return coerce(statement, expr, SqlType(TEXT), Context.IMPLICIT)
    return expr


def finish_row(statement: Statement, scalar: Scalar, target: SqlType | None = None) -> Scalar:
    """A row constructor whose unknown literals are text, unless the type `target` that it becomes says what they are;
    anything else unchanged."""
    if target is not None and is_user_type(target.oid):
        return scalar
    if isinstance(scalar, RowConstructor) and any(item.type.oid == UNKNOWN for item in scalar.items):
        items = tuple(resolve_unknown(statement, item) if isinstance(item, Literal) else item for item in scalar.items)
        done = replace(scalar, items=items)
        return statement.at(done, statement.location(scalar))
    return scalar


_WIDE_NUMERIC = SqlType(NUMERIC, -1, WIDE)


def call_type(
    statement: Statement, signature: Signature, args: list[Scalar], constants: Sequence[object]
) -> tuple[list[Scalar], SqlType]:
    """The arguments of a call of `signature`, and its type. `constants` are the values of those that are literals. A
    statement that has met a result of more than 38 digits computes with texts where decimals may have no room for what
    comes out."""
    type = registry.result_type(signature, [arg.type for arg in args], constants)
    if Held.LONG not in statement.context.held or has_room(signature, [arg.type for arg in args], type):
        return args, type
    args = [
        Cast(arg=arg, type=_WIDE_NUMERIC) if arg.type.oid == NUMERIC and not is_wide(arg.type) else arg for arg in args
    ]
    return args, registry.result_type(signature, [arg.type for arg in args], constants)
