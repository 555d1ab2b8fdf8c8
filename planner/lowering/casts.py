"""Casts between types, as SQL that gives PostgreSQL's answer or PostgreSQL's error.

`cast_sql` chooses by the pair of types and then applies the target's type modifier: length of varchar and bpchar,
precision of timestamps and times. A numeric modifier is part of the physical type, so its cast is the engine's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from planner.errors import FeatureNotSupported
from planner.functions.engines.spark import checked
from planner.functions.forms import zones
from planner.ir.physical import OID_TYPES, element_type
from planner.lowering.context import Context
from planner.lowering.templates import fill
from planner.lowering.text_output import text_template
from planner.types import types
from planner.types.type_names import format_type
from planner.types.types import REG_TYPES, SqlType

TEXT_TYPES = frozenset({types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UNKNOWN, 2275})
INTEGERS = frozenset({types.INT2, types.INT4, types.INT8})
FLOATS = frozenset({types.FLOAT4, types.FLOAT8})
INTEGER_NAMES = {types.INT2: "smallint", types.INT4: "integer", types.INT8: "bigint"}

_Maker: TypeAlias = Callable[[Context, SqlType, SqlType], "str | None"]


def cast_sql(ctx: Context, sql: str, source: SqlType, target: SqlType, *, explicit: bool) -> str:
    """`sql`, of type `source`, as `target`; `explicit` truncates where assignment raises 22001."""
    template = cast_template(ctx, source, target)
    result = sql if template == "{0}" else fill(ctx, template, [sql])
    if target.typmod >= 0:
        modifier = _modifier(ctx, source, target, explicit)
        if modifier is not None:
            result = fill(ctx, modifier, [result])
    return result


def cast_template(ctx: Context, source: SqlType, target: SqlType) -> str:
    """The template of a cast without type modifiers."""
    if source.oid == target.oid and source.shape == target.shape:
        return "{0}"
    if target.oid == types.NUMERIC:
        return _to_numeric(ctx, source, target)
    if target.oid in TEXT_TYPES:
        return _to_text(ctx, source, target)
    if source.oid in TEXT_TYPES:
        return _from_text(ctx, target)
    plain = ctx.dialect.cast("{0}", target)
    if target.oid in INTEGERS:
        return _to_integer(ctx, source, target, plain)
    if target.oid in FLOATS and (source.oid in INTEGERS or source.oid in FLOATS or source.oid == types.NUMERIC):
        if target.oid == types.FLOAT4 and source.oid == types.FLOAT8:
            fault = ctx.dialect.raise_sql("22003", "value out of range: overflow")
            infinite = "isinf({0})" if ctx.local else "abs({0}) = double('Infinity')"
            return (
                f"CASE WHEN abs({{0}}) > 3.4028235677973366e38{'' if ctx.local else 'D'} AND NOT {infinite} THEN"
                f" {fault} ELSE {plain} END"
            )
        return plain
    if target.oid == types.BOOL and source.oid in INTEGERS:
        return "({0} <> 0)"
    if target.oid in OID_TYPES:
        if source.oid in OID_TYPES:
            return "{0}"
        if source.oid in INTEGERS:
            return plain if source.oid != types.INT4 else "(CAST({0} AS BIGINT) & 4294967295)"
    if (source.oid, target.oid) == (types.INET, types.CIDR):
        return ctx.python("tg_inet_network({0})")
    if (source.oid, target.oid) == (types.CIDR, types.INET):
        return ctx.python("tg_inet_in({0})")
    chrono = _CHRONO.get((source.oid, target.oid))
    if chrono is not None:
        made = chrono(ctx)
        if made is not None:
            return made
    if {source.oid, target.oid} <= {types.JSON, types.JSONB}:
        return "{0}" if target.oid == types.JSON else ctx.python("tg_jsonb_in({0})")
    if source.oid == types.JSONB and target.oid in FLOATS:
        number = ctx.python(f"tg_jsonb_scalar({{0}}, 'number', '{format_type(target.oid)}')")
        return ctx.dialect.cast(number, target)
    if source.oid == types.JSONB and target.oid == types.BOOL:
        truth = ctx.python("tg_jsonb_scalar({0}, 'boolean', 'boolean')")
        return f"CAST({truth} AS BOOLEAN)"
    source_element, target_element = element_type(source), element_type(target)
    if source_element is not None and target_element is not None:
        name = ctx.variable()
        body = fill(ctx, cast_template(ctx, source_element, target_element), [name])
        if body == name:
            return "{0}"
        return f"list_transform({{0}}, lambda {name}: {body})" if ctx.local else f"transform({{0}}, {name} -> {body})"
    raise FeatureNotSupported(
        f"cast from {format_type(source.oid)} to {format_type(target.oid)} is not supported on the {ctx.engine} engine"
    )


def _to_numeric(ctx: Context, source: SqlType, target: SqlType) -> str:
    plain = ctx.dialect.cast("{0}", target)
    if source.oid in INTEGERS or source.oid == types.NUMERIC or source.oid in OID_TYPES:
        return plain
    if source.oid in FLOATS:
        digits = 15 if source.oid == types.FLOAT8 else 6
        fault = ctx.dialect.raise_sql("0A000", "numeric NaN and infinity are not supported")
        if ctx.local:
            return (
                f"CASE WHEN isfinite({{0}}) THEN CAST(printf('%.{digits}g', CAST({{0}} AS DOUBLE)) "
                f"AS {ctx.dialect.type_name(target)}) WHEN {{0}} IS NOT NULL THEN {fault} END"
            )
        return (
            f"CASE WHEN abs({{0}}) < double('Infinity') THEN CAST(format_string('%.{digits - 1}e', {{0}}) "
            f"AS {ctx.dialect.type_name(target)}) WHEN {{0}} IS NOT NULL THEN {fault} END"
        )
    if source.oid in TEXT_TYPES:
        return _checked_number(ctx, target, "numeric", plain)
    if source.oid == types.JSONB:
        return ctx.dialect.cast(ctx.python("tg_jsonb_scalar({0}, 'number', 'numeric')"), target)
    raise FeatureNotSupported(f"cast from {format_type(source.oid)} to numeric is not supported")


def _to_integer(ctx: Context, source: SqlType, target: SqlType, plain: str) -> str:
    if source.oid in INTEGERS or source.oid in OID_TYPES:
        if source.oid in OID_TYPES and target.oid == types.INT4:
            return "CAST(CASE WHEN {0} > 2147483647 THEN {0} - 4294967296 ELSE {0} END AS " + (
                "INTEGER)" if ctx.local else "INT)"
            )
        return plain
    if source.oid == types.BOOL:
        return plain
    if source.oid in FLOATS:
        if ctx.local:
            return plain
        rounded = plain.replace("{0}", "rint({0})")
        if target.oid != types.INT8:
            return rounded
        # Spark lets 2^63 through, and gives one less.
        fault = ctx.dialect.raise_sql("22003", "bigint out of range")
        return f"CASE WHEN {{0}} >= 9223372036854775808D THEN {fault} ELSE {rounded} END"
    if source.oid == types.NUMERIC:
        return plain if ctx.local else plain.replace("{0}", "round({0})")
    if source.oid == types.CHAR:
        return "ascii({0})"
    if source.oid == types.JSONB:
        number = ctx.python(f"tg_jsonb_scalar({{0}}, 'number', '{INTEGER_NAMES[target.oid]}')")
        wide = f"CAST({number} AS DECIMAL(38,10))"
        return plain.replace("{0}", wide if ctx.local else f"round({wide})")
    raise FeatureNotSupported(f"cast from {format_type(source.oid)} to {INTEGER_NAMES[target.oid]} is not supported")


# ---------------------------------------------------------------- text


def _to_text(ctx: Context, source: SqlType, target: SqlType) -> str:
    if source.oid == types.BPCHAR and target.oid != types.BPCHAR:
        return "rtrim({0}, ' ')" if ctx.local else "rtrim({0})"
    if source.oid in TEXT_TYPES:
        if target.oid == types.NAME:
            return "left({0}, 63)"
        if target.oid == types.CHAR:
            return "left({0}, 1)"
        return "{0}"
    if target.oid == types.CHAR and source.oid == types.INT4:
        return "chr({0})"
    return text_template(ctx, source)


def _checked_number(ctx: Context, target: SqlType, name: str, plain: str) -> str:
    pattern = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*" if name == "numeric" else r"\s*[+-]?\d+\s*"
    return _checked(ctx, pattern, plain.replace("{0}", "trim({0})"), name)


def _checked(ctx: Context, pattern: str, then: str, name: str) -> str:
    prefix = ctx.dialect.string(f'TG:22P02:invalid input syntax for type {name}: "')
    suffix = ctx.dialect.string('"')
    fault = ctx.dialect.error(f"concat({prefix}, {{0}}, {suffix})")
    if ctx.local:
        test = f"regexp_full_match({{0}}, '{pattern}')"
    else:
        test = f"({{0}} RLIKE {ctx.dialect.string('^' + pattern + '$')})"
    return f"CASE WHEN {test} THEN {then} WHEN {{0}} IS NOT NULL THEN {fault} END"


_TRUE = "'t', 'tr', 'tru', 'true', 'y', 'ye', 'yes', 'on', '1'"
_FALSE = "'f', 'fa', 'fal', 'fals', 'false', 'n', 'no', 'of', 'off', '0'"
_DAY = r"\d\d\d\d-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d\d?\d?\d?\d?\d?)?)?"
_HEX4 = "[0-9a-fA-F]" * 4
_SPARK_PATTERNS = {
    types.DATE: rf"\s*{_DAY}\s*",
    types.TIMESTAMP: rf"\s*{_DAY}([ T]{_CLOCK})?\s*",
    types.TIMESTAMPTZ: rf"\s*{_DAY}[ T]{_CLOCK}[+-]\d\d(:\d\d)?\s*",
    types.TIME: rf"\s*{_CLOCK}\s*",
    types.UUID: rf"\s*{_HEX4 * 2}-{_HEX4}-{_HEX4}-{_HEX4}-{_HEX4 * 3}\s*",
}
_PARSED_NAMES = {
    types.DATE: "date", types.TIMESTAMP: "timestamp", types.TIMESTAMPTZ: "timestamptz", types.TIME: "time",
    types.INTERVAL: "interval", types.UUID: "uuid", types.JSON: "json", types.JSONB: "jsonb", types.BYTEA: "bytea",
}  # fmt: skip


def _from_text(ctx: Context, target: SqlType) -> str:
    plain = ctx.dialect.cast("{0}", target)
    if target.oid in INTEGERS:
        return _checked_number(ctx, target, INTEGER_NAMES[target.oid], plain)
    if target.oid in FLOATS:
        name = "real" if target.oid == types.FLOAT4 else "double precision"
        pattern = r"\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[nN][aA][nN]|[iI][nN][fF]([iI][nN][iI][tT][yY])?)\s*"
        return _checked(ctx, pattern, plain.replace("{0}", "trim({0})"), name)
    if target.oid == types.BOOL:
        prefix = ctx.dialect.string('TG:22P02:invalid input syntax for type boolean: "')
        fault = ctx.dialect.error(f"concat({prefix}, {{0}}, {ctx.dialect.string(chr(34))})")
        return (
            f"CASE WHEN lower(trim({{0}})) IN ({_TRUE}) THEN TRUE WHEN lower(trim({{0}})) IN ({_FALSE}) THEN FALSE "
            f"WHEN {{0}} IS NOT NULL THEN {fault} END"
        )
    if target.oid in (types.INET, types.CIDR):
        return ctx.python(f"tg_{'inet' if target.oid == types.INET else 'cidr'}_in({{0}})")
    if ctx.local and target.oid in REG_TYPES:
        return f"tg_{REG_TYPES[target.oid]}_in({ctx.dialect.string(ctx.settings.token)}, {{0}})"
    if ctx.local and target.oid in OID_TYPES:
        return _checked_number(ctx, target, "oid", plain)
    if target.oid in _PARSED_NAMES:
        return _parsed(ctx, target, plain)
    element = element_type(target)
    if element is not None and element.oid in _ARRAY_ITEMS:
        name = ctx.variable()
        item = fill(ctx, cast_template(ctx, SqlType(types.TEXT), element), [name])
        parsed = ctx.python("tg_array_in({0})")
        if item == name:
            return parsed
        if ctx.local:
            return f"list_transform({parsed}, lambda {name}: {item})"
        if "tg_" not in item:
            return f"transform({parsed}, {name} -> {item})"
    raise FeatureNotSupported(
        f"cast from text to {format_type(target.oid)} is not supported on the {ctx.engine} engine"
    )


_ARRAY_ITEMS = TEXT_TYPES | INTEGERS | OID_TYPES | FLOATS | {types.BOOL, types.UUID}


def _parsed(ctx: Context, target: SqlType, plain: str) -> str:
    """Text read by PostgreSQL's input rules, in Python. On Spark the usual forms need no Python."""
    zone = ctx.dialect.string(f"{ctx.settings.timezone};{ctx.settings.datestyle}")
    extra = f", {zone}" if target.oid in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ) else ""
    usual = None if ctx.local else _SPARK_PATTERNS.get(target.oid)
    if usual is None:
        parsed = ctx.python(f"tg_{_PARSED_NAMES[target.oid]}_in({{0}}{extra})")
        return f"make_timestamptz({parsed})" if ctx.local and target.oid == types.TIMESTAMPTZ else parsed
    test = f"({{0}} RLIKE {ctx.dialect.string('^' + usual + '$')})"
    then = (
        "lower(trim({0}))"
        if target.oid == types.UUID
        else "try_cast" + plain.removeprefix("CAST").replace("{0}", "trim({0})")
    )
    then = f"CASE WHEN {test} THEN {then} END"
    parsed = checked(f"tg_{_PARSED_NAMES[target.oid]}_in(CASE WHEN ({then}) IS NULL THEN {{0}} END{extra})")
    if target.oid == types.TIMESTAMPTZ:
        parsed = f"timestamp_micros({parsed})"
    return f"coalesce({then}, {parsed})"


# ---------------------------------------------------------------- dates and times


def to_local_time(ctx: Context, sql: str = "{0}", zone: str | None = None) -> str:
    """A timestamptz as the wall-clock timestamp in `zone` (an SQL string), by default the session's."""
    return zones.to_local_time(ctx.engine, ctx.settings.timezone, sql, zone)


def from_local_time(ctx: Context, sql: str = "{0}", zone: str | None = None) -> str:
    """A wall-clock timestamp in `zone` (an SQL string), by default the session's, as a timestamptz."""
    return zones.from_local_time(ctx.engine, ctx.settings.timezone, sql, zone)


def _ntz(ctx: Context) -> str:
    return "TIMESTAMP" if ctx.local else "TIMESTAMP_NTZ"


def _time_of(ctx: Context, sql: str) -> str:
    if ctx.local:
        return f"CAST(CASE WHEN isfinite({sql}) THEN {sql} END AS TIME)"
    return f"make_time(hour({sql}), minute({sql}), extract(SECOND FROM {sql}))"


_CHRONO: dict[tuple[int, int], Callable[[Context], str | None]] = {
    (types.DATE, types.TIMESTAMP): lambda ctx: f"CAST({{0}} AS {_ntz(ctx)})",
    (types.DATE, types.TIMESTAMPTZ): lambda ctx: from_local_time(ctx, f"CAST({{0}} AS {_ntz(ctx)})"),
    (types.TIMESTAMP, types.DATE): lambda ctx: "CAST({0} AS DATE)",
    (types.TIMESTAMP, types.TIMESTAMPTZ): from_local_time,
    (types.TIMESTAMP, types.TIME): lambda ctx: _time_of(ctx, "{0}"),
    (types.TIMESTAMPTZ, types.TIMESTAMP): to_local_time,
    (types.TIMESTAMPTZ, types.DATE): lambda ctx: f"CAST({to_local_time(ctx)} AS DATE)",
    (types.TIMESTAMPTZ, types.TIME): lambda ctx: _time_of(ctx, to_local_time(ctx)),
    (types.TIME, types.INTERVAL): lambda ctx: ctx.dialect.interval(
        "0" if not ctx.local else "CAST(0 AS INTEGER)",
        "0" if not ctx.local else "CAST(0 AS INTEGER)",
        _time_micros(ctx),
    ),
    (types.INTERVAL, types.TIME): lambda ctx: (
        "(TIME '00:00:00' + to_microseconds((({0}.micros % 86400000000) + 86400000000) % 86400000000))"
        if ctx.local
        else (
            "CAST(timestampadd(MICROSECOND, 0, TIMESTAMP_NTZ '1970-01-01') + "
            "make_dt_interval(0, 0, 0, pmod({0}.micros, 86400000000) / 1000000BD) AS TIME(6))"
        )
    ),
}


def _time_micros(ctx: Context) -> str:
    if ctx.local:
        return "epoch_us({0})"
    return "time_diff('MICROSECOND', TIME '00:00:00', {0})"


# ---------------------------------------------------------------- type modifiers


def _modifier(ctx: Context, source: SqlType, target: SqlType, explicit: bool) -> str | None:
    oid = target.oid
    if oid in (types.VARCHAR, types.BPCHAR):
        return _length(ctx, source, target, explicit)
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ, types.TIME) and target.typmod < 6 and source.typmod != target.typmod:
        return _rounded_time(ctx, target)
    element = element_type(target)
    if element is not None and element.oid in (types.VARCHAR, types.BPCHAR):
        source_element = element_type(source)
        if source_element is None:
            source_element = SqlType(types.TEXT)
        inner = _length(ctx, source_element, element, explicit)
        if inner is None:
            return None
        name = ctx.variable()
        body = fill(ctx, inner, [name])
        return f"list_transform({{0}}, lambda {name}: {body})" if ctx.local else f"transform({{0}}, {name} -> {body})"
    return None


def _length(ctx: Context, source: SqlType, target: SqlType, explicit: bool) -> str | None:
    limit = target.typmod - 4
    if source.oid == target.oid and 0 <= source.typmod <= target.typmod and target.oid == types.VARCHAR:
        return None
    if source.oid == target.oid and source.typmod == target.typmod:
        return None
    if target.oid == types.VARCHAR:
        if explicit:
            return f"left({{0}}, {limit})"
        fault = ctx.dialect.raise_sql("22001", f"value too long for type character varying({limit})")
        return _assigned(ctx, limit, fault, f"left({{0}}, {limit})", "{0}")
    padded = f"rpad(left({{0}}, {limit}), {limit}, ' ')"
    if explicit:
        return padded
    fault = ctx.dialect.raise_sql("22001", f"value too long for type character({limit})")
    return _assigned(ctx, limit, fault, padded, padded)


def _assigned(ctx: Context, limit: int, fault: str, cut: str, fits: str) -> str:
    trimmed = "rtrim({0}, ' ')" if ctx.local else "rtrim({0})"
    return (
        f"CASE WHEN length({{0}}) <= {limit} THEN {fits} WHEN length({trimmed}) > {limit} THEN {fault} ELSE {cut} END"
    )


_EPOCH_2000 = 946_684_800_000_000
"""Microseconds from 1970 to 2000, PostgreSQL's epoch: halves are rounded away from it."""


def _rounded_time(ctx: Context, target: SqlType) -> str:
    unit = 10 ** (6 - target.typmod)
    if target.oid == types.TIME:
        if ctx.local:
            return (
                f"(TIME '00:00:00' + to_microseconds(least(((epoch_us({{0}}) + {unit // 2}) // {unit}) * {unit},"
                " 86399999999)))"
            )
        raise FeatureNotSupported("a time with fewer than six digits is not supported on the spark engine")
    if ctx.local:
        since = f"(epoch_us({{0}}) - {_EPOCH_2000})"
        rounded = (
            f"make_timestamp(CASE WHEN {since} >= 0 THEN ({since} + {unit // 2}) // {unit} * {unit} "
            f"ELSE -(({unit // 2} - {since}) // {unit} * {unit}) END + {_EPOCH_2000})"
        )
        return rounded if target.oid == types.TIMESTAMP else rounded.replace("make_timestamp(", "make_timestamptz(")
    micros = "unix_micros(CAST({0} AS TIMESTAMP))"
    since = f"({micros} - {_EPOCH_2000})"
    rounded = (
        f"timestamp_micros(CASE WHEN {since} >= 0 THEN ({since} + {unit // 2}) div {unit} * {unit} "
        f"ELSE -(({unit // 2} - {since}) div {unit} * {unit}) END + {_EPOCH_2000})"
    )
    return f"CAST({rounded} AS TIMESTAMP_NTZ)" if target.oid == types.TIMESTAMP else rounded
