"""Which results of type numeric are held as decimals: the static half of PostgreSQL's display scale.

PostgreSQL computes numerics with as many digits as it takes. An engine computes with DECIMAL(precision, scale) of at
most 38 digits, both fixed before the query runs. The rules here choose that shape from the shapes of the arguments
where the display scale of PostgreSQL's result depends on nothing but the arguments' scales (addition, multiplication,
round to a constant, sum, min, ...). Where it depends on the values (division, avg, sqrt, CASE over unlike scales, ...)
the result is `WIDE`, and so is what is computed from it.

A value that does not fit its shape raises 22003 in the engine; digits are never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.common_errors import Held
from planner.types.signature import Signature
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import (
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    MAX_DECIMAL_PRECISION,
    NUMERIC,
    OID,
    TIMESTAMP,
    TIMESTAMPTZ,
    WIDE,
    NumericShape,
    SqlType,
    computed_type,
    declared_shape,
)

MAX_PRODUCT_SCALE = 30
"""Products with more fraction digits than this are wide where they may have more than 38 digits in all."""

INTEGER_DIGITS = {INT2: 5, INT4: 10, INT8: 19, OID: 10}
"""Decimal digits that an integer type's widest value has."""


def shape_of(type: SqlType) -> NumericShape:
    """The shape in which a value of `type` (a numeric or an integer type) is held as a decimal."""
    if type.shape is not None:
        return type.shape
    digits = INTEGER_DIGITS.get(type.oid)
    if digits is not None:
        return NumericShape(digits, 0)
    return WIDE


def common_shape(shapes: Sequence[NumericShape]) -> NumericShape:
    """The shape that holds every value of all `shapes`: what CASE, COALESCE, set operations and VALUES need.

    PostgreSQL keeps each value's own display scale there, so unequal scales need the wide form.
    """
    scale = shapes[0].scale
    if not all(shape.exact_scale and shape.scale == scale for shape in shapes):
        return WIDE
    return NumericShape(max(shape.precision for shape in shapes), scale)


def common_decimal(shapes: Sequence[NumericShape]) -> NumericShape | None:
    """The decimal that holds the numbers of all `shapes`, whatever zeros they show at their ends; None without one."""
    if not all(shape.exact_scale for shape in shapes):
        return None
    scale = max(shape.scale for shape in shapes)
    precision = max(shape.precision - shape.scale for shape in shapes) + scale
    return NumericShape(precision, scale) if precision <= MAX_DECIMAL_PRECISION else None


def common_type(types: Sequence[SqlType]) -> SqlType:
    """One of `types` (all of the same OID) with the shape that fits them all and the type modifier that they share."""
    first = types[0]
    typmod = first.typmod if all(type.typmod == first.typmod for type in types) else -1
    shapes = [type.shape for type in types]
    dimensioned = any(type.dimensioned for type in types)
    if all(shape is None for shape in shapes):
        return SqlType(first.oid, typmod, dimensioned=dimensioned)
    return SqlType(first.oid, typmod, common_shape([shape or WIDE for shape in shapes]), dimensioned=dimensioned)


def cast_type(source: SqlType, oid: int, typmod: int = -1) -> SqlType:
    """The type of a cast from `source` to the type (`oid`, `typmod`), with the shape of a numeric result."""
    if oid != NUMERIC:
        return SqlType(oid, typmod)
    if typmod >= 0:
        return computed_type(SqlType(oid, typmod, declared_shape(typmod)))
    return SqlType(oid, -1, WIDE if source.oid in (FLOAT4, FLOAT8) else shape_of(source))


def add(left: NumericShape, right: NumericShape) -> NumericShape:
    """Sum or difference: the larger scale, one more whole digit."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale) + 1
    return NumericShape(min(MAX_DECIMAL_PRECISION, whole + scale), scale)


def multiply(left: NumericShape, right: NumericShape) -> NumericShape:
    """Product: the scales add up, as long as room for whole digits is left."""
    scale = left.scale + right.scale
    if scale > MAX_PRODUCT_SCALE and left.precision + right.precision > MAX_DECIMAL_PRECISION:
        return WIDE
    return NumericShape(min(MAX_DECIMAL_PRECISION, left.precision + right.precision), scale)


def remainder(left: NumericShape, right: NumericShape) -> NumericShape:
    """Remainder: the larger scale, no more whole digits than either side. Wide where no decimal holds both sides, as
    engines want them."""
    if common_decimal([left, right]) is None:
        return WIDE
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return NumericShape(max(1, min(MAX_DECIMAL_PRECISION, whole + scale)), scale)


def total(shape: NumericShape) -> NumericShape:
    """sum(): all digits there are."""
    return NumericShape(MAX_DECIMAL_PRECISION, shape.scale)


def rounded(shape: NumericShape, scale: object) -> NumericShape:
    """round(x, scale) and trunc(x, scale) with a constant scale (an int), or with one known only at run time."""
    if not isinstance(scale, int) or not shape.exact_scale:
        return WIDE
    digits = max(scale, 0)
    precision = max(1, shape.precision - shape.scale + 1 + digits)
    return NumericShape(precision, digits) if precision <= MAX_DECIMAL_PRECISION else WIDE


def whole(shape: NumericShape) -> NumericShape:
    """ceil, floor, round and trunc to an integer."""
    return NumericShape(min(MAX_DECIMAL_PRECISION, max(1, shape.precision - shape.scale + 1)), 0)


EXTRACT_SCALES = {
    "epoch": 6, "epochs": 6, "second": 6, "seconds": 6, "sec": 6, "secs": 6, "s": 6,
    "millisecond": 3, "milliseconds": 3, "ms": 3, "msec": 3, "msecs": 3, "mseconds": 3, "msecond": 3,
}  # fmt: skip
"""Fraction digits of extract(field from ...); fields not listed here are whole numbers."""


def extracted(field: object, source: SqlType, value: object = None) -> NumericShape:
    """extract(field from source); `field` is the constant or None, and so is `value`, of the source."""
    if not isinstance(field, str) or (field.lower() == "julian" and source.oid != DATE):
        return WIDE
    if value in ("infinity", "-infinity"):
        return WIDE
    if source.oid in (DATE, TIMESTAMP, TIMESTAMPTZ) and Held.NAN in TYPE_SCOPE.get().held:
        # Of an infinite one it may be infinite: where one is met the statement runs once more, with such numbers as
        # texts.
        return WIDE
    if source.oid == DATE:
        return NumericShape(20, 0)
    scale = EXTRACT_SCALES.get(field.lower(), 0)
    return NumericShape(20 + scale, scale)


_Binary = Callable[[NumericShape, NumericShape], NumericShape]
_BINARY: dict[str, _Binary] = {
    "+": add, "numeric_add": add, "-": add, "numeric_sub": add, "*": multiply, "numeric_mul": multiply,
    "%": remainder, "mod": remainder,
    "div": lambda left, right: whole(NumericShape(min(38, left.precision - left.scale + right.scale), 0)),
}  # fmt: skip
_UNARY: dict[str, Callable[[NumericShape], NumericShape]] = {
    "+": lambda shape: shape, "-": lambda shape: shape, "abs": lambda shape: shape, "@": lambda shape: shape,
    "ceil": whole, "ceiling": whole, "floor": whole, "round": whole, "trunc": whole,
    "sign": lambda shape: NumericShape(1, 0), "sum": total, "numeric_uminus": lambda shape: shape,
}  # fmt: skip
"""Those whose results are decimals where their arguments are. All others have results of their own scale."""
_CHOOSING = frozenset({
    "min", "max", "lag", "lead", "first_value", "last_value", "nth_value", "generate_series", "mode",
    "percentile_disc", "array_agg", "unnest",
})  # fmt: skip
"""Those whose result is one of their arguments."""


def numeric_result(signature: Signature, arg_types: Sequence[SqlType], constants: Sequence[object]) -> NumericShape:
    """The shape of a call whose result is numeric. `constants[i]` is the value of argument i where it is a literal."""
    name = signature.name
    shapes = [shape_of(type) for type in arg_types]
    if name in ("extract", "date_part"):
        return extracted(*(constants[0], arg_types[1], constants[1]) if len(constants) > 1 else (None, arg_types[1]))
    if name in ("round", "trunc") and len(shapes) == 2:
        return rounded(shapes[0], constants[1] if len(constants) > 1 else None)
    if not all(shape.exact_scale for shape in shapes):
        return WIDE
    if len(shapes) == 2 and name in _BINARY:
        return _BINARY[name](*shapes)
    if len(shapes) == 1 and name in _UNARY:
        return _UNARY[name](shapes[0])
    if name in _CHOOSING:
        numerics = [shape_of(type) if name == "generate_series" else type.shape for type in arg_types]
        known = [shape for shape in numerics if shape is not None]
        return common_shape(known) if known else WIDE
    return WIDE


_ROOM_TO_ADD = 12
"""Digits that a sum may have more than what is added, over 10^12 rows."""
ADDING = frozenset({
    "sum", "avg", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop",
})  # fmt: skip
"""The aggregates that add numbers up."""
_ROOM_TO_DIVIDE = 14
"""Whole digits of a quotient for which Spark has room whatever the values are."""
_GROWING = frozenset({"+", "numeric_add", "-", "numeric_sub", "*", "numeric_mul", "div"})


def has_room(signature: Signature, arg_types: Sequence[SqlType], result: SqlType) -> bool:
    """Whether decimals hold what a call gives whatever its arguments are, if it computes with decimals at all."""
    if signature.name in ADDING:
        decimals = [type.shape for type in arg_types if type.shape is not None and type.shape.exact_scale]
        return all(shape.precision + _ROOM_TO_ADD <= MAX_DECIMAL_PRECISION for shape in decimals)
    if len(arg_types) != 2 or signature.result != NUMERIC:
        return True
    if signature.name == "/":
        left, right = map(shape_of, arg_types)
        held = left.exact_scale and right.exact_scale
        return not held or left.precision - left.scale + right.scale <= _ROOM_TO_DIVIDE
    if signature.name in ("round", "trunc"):
        left, shown = shape_of(arg_types[0]), shape_of(result)
        return not left.exact_scale or left.precision + shown.scale < MAX_DECIMAL_PRECISION
    if signature.name not in _GROWING:
        return True
    shape = result.shape
    return shape is None or not shape.exact_scale or shape.precision < MAX_DECIMAL_PRECISION


def fits(type: SqlType, shape: NumericShape) -> bool:
    """Whether the decimal of `shape` holds all numbers of `type`, or is a smaller one than engines have: they say what
    is wrong with those."""
    given = shape_of(type)
    if shape.precision < MAX_DECIMAL_PRECISION or not given.exact_scale:
        return True
    return given.precision - given.scale <= shape.precision - shape.scale
