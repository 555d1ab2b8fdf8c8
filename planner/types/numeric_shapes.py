"""How many digits the result of an expression of type numeric needs: the static half of PostgreSQL's display scale.

PostgreSQL computes numerics with as many digits as it takes. An engine computes with DECIMAL(precision, scale) of at
most 38 digits, both fixed before the query runs. The rules here choose that shape from the shapes of the arguments.
Where the display scale of PostgreSQL's result depends on nothing but the arguments' scales (addition, multiplication,
round to a constant, sum, min, ...) the shape has exactly that scale; where it depends on the values (division, avg,
sqrt, ...) the shape is wide enough for what PostgreSQL prints and `exact_scale` is false.

A value that does not fit its shape raises 22003 in the engine; digits are never dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.types.signature import Signature
from planner.types.types import (
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    MAX_DECIMAL_PRECISION,
    NUMERIC,
    OID,
    NumericShape,
    SqlType,
    numeric_precision_scale,
)

INTEGER_DIGITS = {INT2: 5, INT4: 10, INT8: 19, OID: 10}
"""Decimal digits that an integer type's widest value has."""

QUOTIENT_SCALE = 20
"""PostgreSQL gives a quotient at least 16 significant digits, in groups of 4: 20 fraction digits below 1."""
WIDE_QUOTIENT_SCALE = 24
"""For quotients whose whole part is known to be short: 24 fraction digits below 0.0001."""
MAX_PRODUCT_SCALE = 30
"""Products with more fraction digits than this are held with `PRODUCT_SCALE`, and raise 22003 when that loses one."""
PRODUCT_SCALE = 22

ANY_NUMERIC = NumericShape(MAX_DECIMAL_PRECISION, 16, exact_scale=False)
"""The shape when nothing is known about the value."""


def shape_of(type: SqlType) -> NumericShape:
    """The shape in which a value of `type` (a numeric or an integer type) is held as a decimal."""
    if type.shape is not None:
        return type.shape
    digits = INTEGER_DIGITS.get(type.oid)
    if digits is not None:
        return NumericShape(digits, 0)
    return ANY_NUMERIC


def common_shape(shapes: Sequence[NumericShape]) -> NumericShape:
    """The shape that holds every value of all `shapes`: what CASE, COALESCE, set operations and VALUES need.

    PostgreSQL keeps each value's own display scale there, so unequal scales make the result inexact.
    """
    scale = max(shape.scale for shape in shapes)
    whole = max(shape.precision - shape.scale for shape in shapes)
    exact = all(shape.exact_scale and shape.scale == scale for shape in shapes)
    return NumericShape(min(MAX_DECIMAL_PRECISION, whole + scale), scale, exact)


def common_type(types: Sequence[SqlType]) -> SqlType:
    """One of `types` (all of the same OID) with the shape that fits them all and the type modifier that they share."""
    first = types[0]
    typmod = first.typmod if all(type.typmod == first.typmod for type in types) else -1
    shapes = [type.shape for type in types]
    dimensioned = any(type.dimensioned for type in types)
    if all(shape is None for shape in shapes):
        return SqlType(first.oid, typmod, dimensioned=dimensioned)
    return SqlType(first.oid, typmod, common_shape([shape or ANY_NUMERIC for shape in shapes]), dimensioned=dimensioned)


def cast_type(source: SqlType, oid: int, typmod: int = -1) -> SqlType:
    """The type of a cast from `source` to the type (`oid`, `typmod`), with the shape of a numeric result."""
    if oid != NUMERIC:
        return SqlType(oid, typmod)
    declared = numeric_precision_scale(typmod)
    if declared is not None:
        precision, scale = declared
        if scale < 0:
            return SqlType(oid, typmod, NumericShape(min(MAX_DECIMAL_PRECISION, precision - scale), 0))
        if scale > precision:
            return SqlType(oid, typmod, NumericShape(min(MAX_DECIMAL_PRECISION, scale), min(scale, 38)))
        return SqlType(oid, typmod, NumericShape(min(MAX_DECIMAL_PRECISION, precision), min(scale, 38)))
    if source.oid in (FLOAT4, FLOAT8):
        return SqlType(oid, -1, NumericShape(MAX_DECIMAL_PRECISION, QUOTIENT_SCALE, exact_scale=False))
    return SqlType(oid, -1, shape_of(source))


def add(left: NumericShape, right: NumericShape) -> NumericShape:
    """Sum or difference: the larger scale, one more whole digit."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale) + 1
    return NumericShape(min(MAX_DECIMAL_PRECISION, whole + scale), scale, left.exact_scale and right.exact_scale)


def multiply(left: NumericShape, right: NumericShape) -> NumericShape:
    """Product: the scales add up, as long as room for whole digits is left."""
    scale = left.scale + right.scale
    if scale > MAX_PRODUCT_SCALE and left.precision + right.precision > MAX_DECIMAL_PRECISION:
        return NumericShape(MAX_DECIMAL_PRECISION, max(PRODUCT_SCALE, left.scale, right.scale), exact_scale=False)
    precision = min(MAX_DECIMAL_PRECISION, left.precision + right.precision)
    return NumericShape(precision, scale, left.exact_scale and right.exact_scale)


def divide(left: NumericShape, right: NumericShape) -> NumericShape:
    """Quotient: the scale depends on the values (see `planner.lowering.numeric`)."""
    whole = left.precision - left.scale + right.scale
    scale = max(left.scale, right.scale, min(WIDE_QUOTIENT_SCALE, max(QUOTIENT_SCALE, 38 - whole)))
    return NumericShape(MAX_DECIMAL_PRECISION, scale, exact_scale=False)


def remainder(left: NumericShape, right: NumericShape) -> NumericShape:
    """Remainder: the larger scale, no more whole digits than either side."""
    scale = max(left.scale, right.scale)
    whole = min(left.precision - left.scale, right.precision - right.scale)
    return NumericShape(
        max(1, min(MAX_DECIMAL_PRECISION, whole + scale)), scale, left.exact_scale and right.exact_scale
    )


def total(shape: NumericShape) -> NumericShape:
    """sum(): all digits there are."""
    return NumericShape(MAX_DECIMAL_PRECISION, shape.scale, shape.exact_scale)


def average(shape: NumericShape) -> NumericShape:
    """avg(): a quotient whose whole part is no longer than the argument's."""
    whole = shape.precision - shape.scale
    scale = max(shape.scale, min(WIDE_QUOTIENT_SCALE, max(QUOTIENT_SCALE, 38 - whole)))
    return NumericShape(MAX_DECIMAL_PRECISION, scale, exact_scale=False)


def rounded(shape: NumericShape, scale: object) -> NumericShape:
    """round(x, scale) and trunc(x, scale) with a constant scale (an int), or with one known only at run time."""
    if not isinstance(scale, int):
        return NumericShape(MAX_DECIMAL_PRECISION, shape.scale, exact_scale=False)
    digits = min(max(scale, 0), 38)
    whole = shape.precision - shape.scale + 1
    if digits > shape.scale:
        return NumericShape(min(MAX_DECIMAL_PRECISION, whole + digits), digits)
    return NumericShape(max(1, min(MAX_DECIMAL_PRECISION, whole + digits)), digits)


def whole(shape: NumericShape) -> NumericShape:
    """ceil, floor, round and trunc to an integer."""
    return NumericShape(min(MAX_DECIMAL_PRECISION, max(1, shape.precision - shape.scale + 1)), 0)


EXTRACT_SCALES = {
    "epoch": 6, "epochs": 6, "second": 6, "seconds": 6, "sec": 6, "secs": 6, "s": 6,
    "millisecond": 3, "milliseconds": 3, "ms": 3, "msec": 3, "msecs": 3, "mseconds": 3, "msecond": 3, "julian": 20,
}  # fmt: skip
"""Fraction digits of extract(field from ...); fields not listed here are whole numbers."""


def extracted(field: object, source: SqlType) -> NumericShape:
    """extract(field from source); `field` is the constant or None."""
    from planner.types.types import DATE

    if not isinstance(field, str):
        return NumericShape(MAX_DECIMAL_PRECISION, 6, exact_scale=False)
    if source.oid == DATE:
        return NumericShape(20, 0)
    scale = EXTRACT_SCALES.get(field.lower(), 0)
    return NumericShape(20 + scale if scale < 18 else 38, scale, exact_scale=field.lower() != "julian")


_Binary = Callable[[NumericShape, NumericShape], NumericShape]
_BINARY: dict[str, _Binary] = {
    "+": add, "numeric_add": add, "-": add, "numeric_sub": add, "*": multiply, "numeric_mul": multiply,
    "/": divide, "numeric_div": divide, "%": remainder, "mod": remainder,
    "div": lambda left, right: whole(NumericShape(min(38, left.precision - left.scale + right.scale), 0)),
    "gcd": lambda left, right: common_shape([left, right]), "lcm": lambda left, right: total(add(left, right)),
}  # fmt: skip
_UNARY: dict[str, Callable[[NumericShape], NumericShape]] = {
    "+": lambda shape: shape, "-": lambda shape: shape, "abs": lambda shape: shape, "@": lambda shape: shape,
    "ceil": whole, "ceiling": whole, "floor": whole, "round": whole, "trunc": whole,
    "sign": lambda shape: NumericShape(1, 0), "sum": total, "avg": average,
    "trim_scale": lambda shape: NumericShape(shape.precision, shape.scale, exact_scale=False),
    "factorial": lambda shape: NumericShape(38, 0), "numeric_uminus": lambda shape: shape,
}  # fmt: skip
_INEXACT_ROOTS = NumericShape(MAX_DECIMAL_PRECISION, QUOTIENT_SCALE, exact_scale=False)


def numeric_result(signature: Signature, arg_types: Sequence[SqlType], constants: Sequence[object]) -> NumericShape:
    """The shape of a call whose result is numeric. `constants[i]` is the value of argument i where it is a literal."""
    name = signature.name
    shapes = [shape_of(type) for type in arg_types]
    if name in ("extract", "date_part"):
        return extracted(constants[0] if constants else None, arg_types[1])
    if name in ("round", "trunc") and len(shapes) == 2:
        return rounded(shapes[0], constants[1] if len(constants) > 1 else None)
    if len(shapes) == 2 and name in _BINARY:
        return _BINARY[name](*shapes)
    if len(shapes) == 1 and name in _UNARY:
        return _UNARY[name](shapes[0])
    if name in ("generate_series",):
        return common_shape(shapes)
    if name in ("sqrt", "exp", "ln", "log", "log10", "power", "pow", "^", "to_number") or name.startswith(
        ("stddev", "var", "regr", "covar", "corr")
    ):
        return _INEXACT_ROOTS
    numerics = [type.shape for type in arg_types if type.shape is not None]
    return common_shape(numerics) if numerics else ANY_NUMERIC
