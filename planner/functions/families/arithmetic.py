"""Arithmetic operators on numbers, and the mathematical functions.

Both engines raise on overflow and on division by zero (see `planner.lowering.engine_errors`). Decimal results are cast
to the shape that `planner.types.numeric_shapes` chose where the engine's own rule gives another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.functions.engines.spark import checked
from planner.functions.forms.form import NOT_CONSTANT, CallSite, Form, both, local_only
from planner.functions.forms.numeric_division import quotient
from planner.functions.forms.wide_numerics import ABSOLUTE, OPPOSITE, computed, rounded, wide
from planner.types.numeric_shapes import shape_of
from planner.types.types import FLOAT4, INT2, INT8

_INTS = ("int2", "int4", "int8")
_MIXED = [(a, b) for a in _INTS for b in _INTS]
_FLOATS = [(a, b) for a in ("float4", "float8") for b in ("float4", "float8")]


_OPERATIONS = {"+": "add", "-": "sub", "*": "mul"}


def _decimal(symbol: str) -> Callable[[CallSite], str | None]:
    def template(site: CallSite) -> str | None:
        shape = shape_of(site.type)
        if not shape.exact_scale:
            return computed(site, _OPERATIONS[symbol], 2)
        left, right = shape_of(site.arg_types[0]), shape_of(site.arg_types[1])
        sql = f"({{0}} {symbol} {{1}})"
        if site.engine == "local" and max(left.precision, right.precision) <= 18 < shape.precision:
            # DuckDB computes DECIMALs of up to 18 digits in 64 bits, and does not widen.
            return f"CAST(CAST({{0}} AS DECIMAL({shape.precision},{left.scale})) {symbol} {{1}} AS {{t}})"
        whole = max(left.precision - left.scale, right.precision - right.scale) + 1
        natural = min(38, whole + max(left.scale, right.scale))
        return sql if natural == shape.precision else f"CAST({sql} AS {{t}})"

    return template


def _product(site: CallSite) -> str | None:
    left, right = shape_of(site.arg_types[0]), shape_of(site.arg_types[1])
    if not shape_of(site.type).exact_scale:
        return computed(site, "mul", 2)
    if site.engine == "local":
        if max(left.precision, right.precision) <= 18 < left.precision + right.precision:
            return f"CAST(CAST({{0}} AS DECIMAL(19,{left.scale})) * {{1}} AS {{t}})"
        return "({0} * {1})"
    return "CAST({0} * {1} AS {t})"


def _division(site: CallSite) -> str | None:
    return quotient(site.engine, shape_of(site.arg_types[0]), shape_of(site.arg_types[1]), subquery=site.subquery)


def _to_scale(name: str) -> Callable[[CallSite], str | None]:
    """round or trunc to a number of fraction digits."""

    def template(site: CallSite) -> str | None:
        digits = site.constants[1] if len(site.constants) > 1 else 0
        shape = shape_of(site.type)
        if not shape.exact_scale or not isinstance(digits, int):
            called = computed(site, name, 1, "{1}" if len(site.arg_types) > 1 else "0")
            return rounded(site, digits, called) if name == "round" and isinstance(digits, int) else called
        if digits >= shape_of(site.arg_types[0]).scale:
            return "CAST({0} AS {t})"
        if digits < 0 or (name == "trunc" and digits and site.engine == "local"):
            return f"CAST({computed(site, name, 1, str(digits))} AS {{t}})"
        return _truncated(site, digits) if name == "trunc" else _nearest(site, digits)

    return template


def _nearest(site: CallSite, digits: int) -> str:
    return f"CAST(round({{0}}, {digits}) AS {{t}})" if site.engine == "spark" else "CAST({0} AS {t})"


def _truncated(site: CallSite, digits: int) -> str:
    if site.engine == "local":
        return "CAST(trunc({0}) AS {t})"
    unit = f"1{'0' * digits}BD"
    return (
        f"CAST(CASE WHEN {{0}} >= 0 THEN floor({{0}} * {unit}) ELSE ceil({{0}} * {unit}) END / {unit} AS {{t}})"
        if digits
        else "CAST(CASE WHEN {0} >= 0 THEN floor({0}) ELSE ceil({0}) END AS {t})"
    )


def _unless_wide(decimal: str, name: str, arity: int = 1, *, text: str | None = None) -> Form:
    """A template over decimals; over the wide form one of texts, or a function in Python."""

    def template(site: CallSite) -> str | None:
        return decimal if shape_of(site.type).exact_scale else text or computed(site, name, arity)

    return both(template)


_ROUNDED_DIGITS = 34
"""Digits to which Spark's own `-x` and `abs` round a decimal."""


def _opposite(site: CallSite) -> str:
    shape = shape_of(site.type)
    if not shape.exact_scale:
        return OPPOSITE
    if site.engine == "spark" and shape.precision > _ROUNDED_DIGITS:
        return _SUBTRACTED
    return "(-{0})"


def _absolute(site: CallSite) -> str:
    shape = shape_of(site.type)
    if not shape.exact_scale:
        return ABSOLUTE
    if site.engine == "spark" and shape.precision > _ROUNDED_DIGITS:
        return f"greatest({{0}}, {_SUBTRACTED})"
    return "abs({0})"


_SUBTRACTED = "CAST(CAST(0 AS {t}) - {0} AS {t})"


_NEGLIGIBLE = 1e30
"""A number that cannot carry any finite float4 or float8 out of range when it is added."""


def _float(symbol: str) -> Callable[[CallSite], str]:
    """PostgreSQL raises where the result of an operation on floats leaves the range of finite numbers."""

    def template(site: CallSite) -> str:
        divisor, result = site.constants[1], f"({{0}} {symbol} {{1}})"
        if symbol == "/" and site.engine == "spark" and site.type.oid == FLOAT4:
            # Spark divides in double precision.
            result = f"CAST({result} AS FLOAT)"
        if symbol == "/" and isinstance(divisor, float) and 1.0 <= abs(divisor) <= 1e3:
            return result
        if symbol in "+-" and any(isinstance(value, float) and abs(value) < _NEGLIGIBLE for value in site.constants):
            return result
        infinite = "isinf({p})" if site.engine == "local" else "(abs({p}) = double('Infinity'))"
        outside, left, right = (infinite.replace("{p}", place) for place in (result, "{0}", "{1}"))
        over = site.dialect.raise_sql("22003", "value out of range: overflow")
        if symbol == "/" and not isinstance(divisor, float):
            left_is_nan = "WHEN isnan({0}) AND {1} IS NOT NULL THEN CAST('NaN' AS {t}) "
        else:
            left_is_nan = "WHEN isnan({0}) THEN CAST('NaN' AS {t}) " if symbol == "/" else ""
        if symbol in "+-":
            return f"CASE WHEN {outside} AND NOT {left} AND NOT {right} THEN {over} ELSE {result} END"
        under = site.dialect.raise_sql("22003", "value out of range: underflow")
        vanished = f"{result} = 0 AND {{0}} <> 0" + (" AND {1} <> 0" if symbol == "*" else f" AND NOT {right}")
        return (
            f"CASE {left_is_nan}WHEN {outside} AND NOT {left} AND NOT {right} THEN {over} "
            f"WHEN {vanished} THEN {under} ELSE {result} END"
        )

    return template


_POWER_OF_NAN = (
    "WHEN {0} IS NULL OR {1} IS NULL THEN NULL "
    "WHEN isnan({0}) THEN CASE WHEN {1} = 0 THEN CAST(1 AS DOUBLE) ELSE {0} END "
    "WHEN isnan({1}) THEN CASE WHEN {0} = 1 THEN CAST(1 AS DOUBLE) ELSE {1} END"
)


def _power(site: CallSite) -> str:
    if site.engine == "local":
        return f"CASE {_POWER_OF_NAN} ELSE tg_float8_power({{0}}, {{1}}) END"
    raised = site.dialect.raise_sql
    zero = raised("2201F", "zero raised to a negative power is undefined")
    complex_ = raised("2201F", "a negative number raised to a non-integer power yields a complex result")
    over = raised("22003", "value out of range: overflow")
    return (
        f"CASE {_POWER_OF_NAN} WHEN {{0}} = 0D AND {{1}} < 0D THEN {zero} "
        "WHEN abs({0}) = 1D AND abs({1}) = double('Infinity') THEN 1D "
        f"WHEN {{0}} < 0D AND abs({{1}}) <> double('Infinity') AND {{1}} <> floor({{1}}) THEN {complex_} "
        "WHEN power({0}, {1}) = double('Infinity') AND abs({0}) <> double('Infinity') "
        f"AND abs({{1}}) <> double('Infinity') THEN {over} ELSE power({{0}}, {{1}}) END"
    )


def _logarithm(function: str) -> Form:
    def template(site: CallSite) -> str:
        zero = site.dialect.raise_sql("2201E", "cannot take logarithm of zero")
        negative = site.dialect.raise_sql("2201E", "cannot take logarithm of a negative number")
        return f"CASE WHEN {{0}} = 0 THEN {zero} WHEN {{0}} < 0 THEN {negative} ELSE {function}({{0}}) END"

    return both(template)


def _square_root(site: CallSite) -> str:
    fault = site.dialect.raise_sql("2201F", "cannot take square root of a negative number")
    return f"CASE WHEN {{0}} < 0 THEN {fault} ELSE sqrt({{0}}) END"


_ENDLESS = "abs({0}) = CAST('Infinity' AS DOUBLE)"


def _domain(function: str, condition: str) -> Form:
    """A function that is not defined where `condition` is true."""
    return both(lambda site: _defined(site, condition, f"{function}({{0}})"))


def _defined(site: CallSite, condition: str, value: str) -> str:
    fault = site.dialect.raise_sql("22003", "input is out of range")
    return f"CASE WHEN isnan({{0}}) THEN {{0}} WHEN {condition} THEN {fault} ELSE {value} END"


def _cotangent(site: CallSite) -> str:
    value = "cot({0})"
    if site.engine == "local":
        # DuckDB has no value for zero.
        endless = "CASE WHEN signbit({0}) THEN CAST('-Infinity' AS DOUBLE) ELSE CAST('Infinity' AS DOUBLE) END"
        value = f"CASE WHEN {{0}} = 0 THEN {endless} ELSE {value} END"
    return _defined(site, _ENDLESS, value)


def _arc_tangent_degrees(site: CallSite) -> str:
    degrees = site.dialect.python("tg_atan2d", "{0}", "{1}")
    return f"CASE WHEN isnan({{0}}) OR isnan({{1}}) THEN {{0}} + {{1}} ELSE {degrees} END"


def _unless_nan(function: str, *first: str) -> Callable[[CallSite], str]:
    """A function in Python of the arguments `first` and a number, whose result would be NULL where it is NaN."""

    def template(site: CallSite) -> str:
        return f"CASE WHEN isnan({{0}}) THEN {{0}} ELSE {site.dialect.python(function, *first, '{0}')} END"

    return template


_RADIANS_PER_DEGREE = "CAST('0.017453292519943295' AS DOUBLE)"
_LARGEST_IN_RADIANS = "CAST('3.1375664143845866e306' AS DOUBLE)"
"""What is the largest finite number as degrees."""


def _in_degrees(site: CallSite) -> str:
    over = site.dialect.raise_sql("22003", "value out of range: overflow")
    huge = f"abs({{0}}) > {_LARGEST_IN_RADIANS} AND abs({{0}}) < CAST('Infinity' AS DOUBLE)"
    return f"CASE WHEN {huge} THEN {over} ELSE {{0}} / {_RADIANS_PER_DEGREE} END"


def _degrees(function: str) -> Form:
    return both(_unless_nan("tg_degrees", f"'{function}'"))


def _shift(local: str, spark: str) -> Callable[[CallSite], str]:
    def template(site: CallSite) -> str:
        bits = 64 if site.type.oid == INT8 else 32
        shifted = f"tg_shift('{local}', CAST({{0}} AS BIGINT), {{1}}, {bits})"
        if site.engine == "spark":
            shifted = f"{spark}({{0}}, {{1}})"
        if site.type.oid == INT2:
            # An int is shifted, and its lower half is kept.
            shifted = f"((CAST({shifted} AS BIGINT) + 32768) & 65535) - 32768"
        return f"CAST({shifted} AS {{t}})"

    return template


def _random(site: CallSite) -> str:
    return "random()" if site.engine == "local" else "rand()"


def _remainder(site: CallSite) -> str:
    """DuckDB takes the smallest number % -1 for an overflow, in the type that it computes in."""
    divisor = site.constants[1]
    if divisor == -1:
        return "({0} & CAST(0 AS {t}))"
    if divisor is not NOT_CONSTANT:
        return "({0} % {1})"
    wider = "HUGEINT" if site.type.oid == INT8 else "BIGINT"
    return f"CAST({{0}} % CAST({{1}} AS {wider}) AS {{t}})"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {}
    for a, b in _MIXED:
        mark = " /*int8*/" if "int8" in (a, b) else ""
        # NOTE: DuckDB takes the constant 7 to be of the type of what stands beside it, and so computes in that one.
        left, right = (
            f"{{{place}}}" if _INTS.index(own) >= _INTS.index(other) else f"CAST({{{place}}} AS {{t}})"
            for place, (own, other) in enumerate(((a, b), (b, a)))
        )
        for symbol in "+-*":
            # Spark does not say of which type a sum overflows; the comment is in the fragment that it quotes.
            given[f"{symbol}({a},{b})"] = Form(
                local=f"({left} {symbol} {right})", spark=f"({{0}} {symbol}{mark} {{1}})"
            )
        given[f"/({a},{b})"] = Form(local=f"({left} // {right})", spark="CAST({0} div {1} AS {t})")
    for name in _INTS:
        given[f"%({name},{name})"] = given[f"mod({name},{name})"] = Form(local=_remainder, spark="({0} % {1})")
        given[f"-({name})"] = Form(
            local="(CAST(0 AS {t}) - {0})", spark=f"(CAST(0 AS {{t}}) -{' /*int8*/' if name == 'int8' else ''} {{0}})"
        )
        given[f"+({name})"] = both("{0}")
        given[f"abs({name})"] = given[f"@({name})"] = Form(
            local="abs({0})",
            spark="CASE WHEN {0} >= 0 THEN {0} ELSE (CAST(0 AS {t}) -"
            + (" /*int8*/" if name == "int8" else "")
            + " {0}) END",
        )
        given[f"&({name},{name})"] = both("({0} & {1})")
        given[f"|({name},{name})"] = both("({0} | {1})")
        given[f"#({name},{name})"] = Form(local="xor({0}, {1})", spark="({0} ^ {1})")
        given[f"~({name})"] = both("(~{0})")
        given[f"<<({name},int4)"] = both(_shift("<<", "shiftleft"))
        given[f">>({name},int4)"] = both(_shift(">>", "shiftright"))
        if name != "int2":
            wider = "HUGEINT" if name == "int8" else "BIGINT"
            for key in ("gcd", "lcm"):
                exact = checked(f"tg_numeric_{key}(CAST({{0}} AS STRING), CAST({{1}} AS STRING))")
                # Of bigints it is found in a wider type, so that it is the cast that says what overflows.
                found = f"{key}(CAST({{0}} AS {wider}), CAST({{1}} AS {wider}))"
                given[f"{key}({name},{name})"] = Form(
                    local=f"CAST({found} AS {{t}})", spark=f"CAST(CAST({exact} AS DECIMAL(38,0)) AS {{t}})"
                )
            given[f"to_hex({name})"] = Form(
                local=(
                    "printf('%x', CASE WHEN {0} < 0 THEN CAST({0} AS HUGEINT) +"
                    f" {2**32 if name == 'int4' else 2**64} ELSE {{0}} END::UBIGINT)"
                    if name == "int4"
                    else "tg_to_hex({0})"
                ),
                spark="lower(hex({0}))" if name == "int8" else "lower(hex(CAST({0} AS BIGINT) & 4294967295L))",
            )
    for a, b in _FLOATS:
        for symbol in "+-*/":
            given[f"{symbol}({a},{b})"] = both(_float(symbol))
    for name in ("float4", "float8"):
        given[f"-({name})"] = both("(-{0})")
        given[f"+({name})"] = both("{0}")
        given[f"abs({name})"] = given[f"@({name})"] = both("abs({0})")
    for name, key in {"ceil": "ceil", "ceiling": "ceil", "floor": "floor", "trunc": "trunc"}.items():
        whole = "CAST(CAST({0} AS BIGINT) AS DOUBLE)" if key == "trunc" else f"CAST({key}({{0}}) AS DOUBLE)"
        spark = (
            "CASE WHEN abs({0}) >= 4503599627370496D OR isnan({0}) THEN {0} "
            f"WHEN {{0}} < 0D AND {whole} = 0D THEN -0.0D ELSE {whole} END"
        )
        given[f"{name}(float8)"] = Form(local=f"{key}({{0}})", spark=spark)
        given[f"{name}(numeric)"] = (
            both(_to_scale("trunc")) if key == "trunc" else _unless_wide(f"CAST({key}({{0}}) AS {{t}})", key)
        )
    given["round(float8)"] = Form(local="round_even({0}, 0)", spark="rint({0})")
    given["round(numeric)"] = given["round(numeric,int4)"] = both(_to_scale("round"))
    given["trunc(numeric,int4)"] = both(_to_scale("trunc"))
    given["sign(float8)"] = Form(
        local="CAST(sign({0}) AS DOUBLE)", spark="CASE WHEN isnan({0}) OR {0} = 0 THEN 0D ELSE sign({0}) END"
    )
    given["sign(numeric)"] = _unless_wide("CAST(sign({0}) AS {t})", "sign")

    for symbol in "+-":
        given[f"{symbol}(numeric,numeric)"] = both(_decimal(symbol))
    given["*(numeric,numeric)"] = both(_product)
    given["/(numeric,numeric)"] = both(_division)
    given["%(numeric,numeric)"] = given["mod(numeric,numeric)"] = _unless_wide("CAST({0} % {1} AS {t})", "mod", 2)
    given["div(numeric,numeric)"] = both(_whole_quotient)
    given["-(numeric)"] = both(_opposite)
    given["+(numeric)"] = both("{0}")
    given["abs(numeric)"] = given["@(numeric)"] = both(_absolute)
    for key in ("sqrt", "exp", "ln", "log", "log10", "factorial"):
        argument = "int8" if key == "factorial" else "numeric"
        given[f"{key}({argument})"] = both(wide("log10" if key == "log" else key, 1))
    for key, name in {"power": "power", "pow": "power", "^": "power", "log": "log", "gcd": "gcd", "lcm": "lcm"}.items():
        given[f"{key}(numeric,numeric)"] = both(wide(name, 2))
    given["scale(numeric)"] = both(_scale)
    given["min_scale(numeric)"] = both(wide("min_scale", 1))
    given["trim_scale(numeric)"] = both(wide("trim_scale", 1))
    given["width_bucket(float8,float8,float8,int4)"] = local_only("tg_width_bucket({0}, {1}, {2}, {3})")
    given["width_bucket(numeric,numeric,numeric,int4)"] = both(lambda site: computed(site, "width_bucket", 3, "{3}"))

    for key in ("power", "pow", "^"):
        given[f"{key}(float8,float8)"] = both(_power)
    given["sqrt(float8)"] = given["|/(float8)"] = both(_square_root)
    given["cbrt(float8)"] = given["||/(float8)"] = both("cbrt({0})")
    given["exp(float8)"] = both(_unless_nan("tg_float8_exp"))
    given["ln(float8)"] = _logarithm("ln")
    given["log(float8)"] = given["log10(float8)"] = _logarithm("log10")
    for key in ("atan", "sinh", "cosh", "tanh", "asinh"):
        given[f"{key}(float8)"] = both(f"{key}({{0}})")
    for key in ("sin", "cos", "tan"):
        given[f"{key}(float8)"] = _domain(key, _ENDLESS)
    given["cot(float8)"] = both(_cotangent)
    given["degrees(float8)"] = both(_in_degrees)
    given["radians(float8)"] = both(f"({{0}} * {_RADIANS_PER_DEGREE})")
    for key in ("asin", "acos", "atanh"):
        given[f"{key}(float8)"] = _domain(key, "abs({0}) > 1")
    given["acosh(float8)"] = _domain("acosh", "{0} < 1")
    given["atan2(float8,float8)"] = both("atan2({0}, {1})")
    for key in ("sind", "cosd", "tand", "cotd", "asind", "acosd", "atand"):
        given[f"{key}(float8)"] = _degrees(key)
    given["atan2d(float8,float8)"] = both(_arc_tangent_degrees)
    given["pi()"] = both("pi()")
    given["random()"] = both(_random)
    for name in ("float4", "float8"):
        given[f"{name}send({name})"] = local_only(f"tg_float_send('{name}', CAST({{0}} AS DOUBLE))")
    given["bit_count(bytea)"] = local_only("tg_bit_count({0})")
    return given


def _scale(site: CallSite) -> str | None:
    shape = shape_of(site.arg_types[0])
    if shape.exact_scale:
        return f"CASE WHEN {{0}} IS NOT NULL THEN {shape.scale} END"
    return computed(site, "scale", 1)


def _whole_quotient(site: CallSite) -> str:
    called = computed(site, "idiv", 2)
    return f"CAST({called} AS {{t}})" if shape_of(site.type).exact_scale else called
