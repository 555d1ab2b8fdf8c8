"""Values to and from text: PostgreSQL's input and output functions, for literals, text parameters and COPY.

`parse_text` gives a value as `ir.Literal` holds it, `format_text` is its inverse, `apply_typmod` enforces a length or
precision. Types without a representation of their own (time with time zone, xml, ...) are kept as their
text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import ROUND_HALF_UP, Context, Decimal

from planner.common_errors import numeric_overflow
from planner.errors import (
    FeatureNotSupported,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    StringDataRightTruncation,
)
from planner.ir.array_value import ArrayValue, items_of, map_items
from planner.ir.nodes import Interval
from planner.types import types as t
from planner.types.ranges import range_or_multirange
from planner.types.type_names import element_of, format_type
from planner.types.types import SqlType, numeric_precision_scale
from planner.types.user_types import is_user_type
from planner.values.array_text import delimiter_of, parse_array, quote_element, show_array
from planner.values.bytea_text import char_text, from_escapes, from_hex
from planner.values.datetime_output import format_date, format_moment, format_time
from planner.values.datetime_text import (
    parse_date,
    parse_time,
    parse_timestamp,
    parse_timestamptz,
    parse_timetz,
)
from planner.values.datetimes.calendar_days import (
    MICROS_1970_TO_2000,
    clock_micros,
    clock_of,
    days_of,
    micros_of,
    timestamp_of,
    timestamptz_of,
)
from planner.values.datetimes.interval_fields import fields_kept
from planner.values.datetimes.interval_input import parse_interval
from planner.values.datetimes.time_zones import setting_zone
from planner.values.floats.float_input import read_float
from planner.values.floats.float_text import format_float
from planner.values.geometry.shapes import GEOMETRY, held
from planner.values.interval_text import format_interval
from planner.values.json.json_text import check_json, normalize_jsonb
from planner.values.json.jsonpath_text import parse_jsonpath, show_jsonpath
from planner.values.opaque.address_text import parse_lsn, parse_macaddr, parse_macaddr8, parse_tid
from planner.values.opaque.bit_text import fit_bits, parse_bits
from planner.values.opaque.money_text import parse_money
from planner.values.opaque.network_text import parse_cidr, parse_inet
from planner.values.opaque.timetz import rounded_timetz
from planner.values.range_text import parse_ranges, show_ranges
from planner.values.user_values import format_user_value, parse_user_value

_EMPTY: Mapping[str, str] = {}
Names = Callable[[int, str], int]
"""The oid of the object that a text names, for one of `REG_TYPES` (regclass, regtype, ...)."""
_SPACE = " \t\n\r\v\f"
_WIDE = Context(prec=1001)


def _setting(settings: Mapping[str, str], name: str, default: str) -> str:
    value = settings.get(name)
    return value if value is not None else settings.get(name.lower(), default)


def parse_text(text: str, type: SqlType, settings: Mapping[str, str] = _EMPTY, names: Names | None = None) -> object:
    """The value of `type` that `text` stands for, typmod applied as in an assignment.

    `settings` are TimeZone and DateStyle (as PostgreSQL spells them). Where no `names` are known, one of `REG_TYPES` is
    left as its text, for who does know them; inside an array or a row it is refused (0A000). Raises 22P02, 22003,
    22007, 22008, 22001, ... with PostgreSQL's texts.
    """
    parse = _PARSERS.get(type.oid)
    if parse is not None:
        value = parse(text, type, settings)
    elif (ranges := range_or_multirange(type.oid)) is not None:
        several = ranges.oid != type.oid
        return parse_ranges(text, ranges, lambda part, of: parse_text(part, of, settings), several=several)
    else:
        element = element_of(type.oid)
        if is_user_type(type.oid) and not element:
            value = parse_user_value(text, type, lambda item, of: parse_text(item, of, settings, names or _unknown))
        elif element:
            value = _parse_array(text, type, element, settings, names or _unknown)
        else:
            value = names(type.oid, text) if names is not None and type.oid in t.REG_TYPES else text
    if type.typmod >= 0 and value is not None:
        return apply_typmod(value, type, explicit=False)
    return value


# ---------------------------------------------------------------- input


def _invalid(type_name: str, text: str) -> InvalidTextRepresentation:
    return InvalidTextRepresentation(f'invalid input syntax for type {type_name}: "{text}"')


def _bool(text: str, type: SqlType, settings: Mapping[str, str]) -> bool:
    word = text.strip(_SPACE).lower()
    if word:
        if "true".startswith(word) or "yes".startswith(word) or word in ("on", "1"):
            return True
        if "false".startswith(word) or "no".startswith(word) or word in ("of", "off", "0"):
            return False
    raise _invalid("boolean", text)


_INTEGER = re.compile(r"[ \t\n\r\v\f]*[+-]?[0-9]+[ \t\n\r\v\f]*\Z")
_INTEGER_TYPES = {t.INT2: ("smallint", 15), t.INT4: ("integer", 31), t.INT8: ("bigint", 63)}


def _integer(text: str, type: SqlType, settings: Mapping[str, str]) -> int:
    name, bits = _INTEGER_TYPES[type.oid]
    if not _INTEGER.match(text):
        raise _invalid(name, text)
    value = int(text)
    if not -(1 << bits) <= value < 1 << bits:
        raise NumericValueOutOfRange(f'value "{text}" is out of range for type {name}')
    return value


_C_NUMBER = re.compile(r"[ \t\n\r\v\f]*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([0-9]+))?", re.ASCII)


def _c_number(text: str) -> int:
    """A number of 64 bits as C's strtoul reads it, with the base that its first digits say; what follows does not
    matter, and what is none is 0. PostgreSQL 15's xidin and xid8in check no more."""
    match = _C_NUMBER.match(text)
    assert match is not None
    sign, hexadecimal, octal, decimal = match.groups()
    value = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal or "0")
    if value >= 1 << 64:
        return (1 << 64) - 1
    return (-value if sign == "-" else value) % (1 << 64)


def _oid(text: str, type: SqlType, settings: Mapping[str, str]) -> int:
    if type.oid == t.XID:
        return _c_number(text) % (1 << 32)
    if not _INTEGER.match(text):
        raise _invalid("oid", text)
    value = int(text)
    if not -(1 << 31) <= value < 1 << 32:
        raise NumericValueOutOfRange(f'value "{text}" is out of range for type oid')
    return value % (1 << 32)


def _xid8(text: str, type: SqlType, settings: Mapping[str, str]) -> str:
    return str(_c_number(text))


_SNAPSHOT = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):((?:[0-9]{1,19}(?:,[0-9]{1,19})*)?)\Z", re.ASCII)


def _snapshot(text: str, type: SqlType, settings: Mapping[str, str]) -> str:
    """pg_snapshot_in: xmin, xmax and ascending xids between them; one that comes twice is taken once."""
    match = _SNAPSHOT.match(text)
    if match is not None:
        xmin, xmax = int(match[1]), int(match[2])
        xip = [int(item) for item in match[3].split(",")] if match[3] else []
        if 0 < xmin <= xmax < 1 << 63 and xip == sorted(xip) and all(xmin <= xid < xmax for xid in xip):
            return f"{xmin}:{xmax}:{','.join(map(str, dict.fromkeys(xip)))}"
    raise _invalid("pg_snapshot", text)


def _float(text: str, type: SqlType, settings: Mapping[str, str]) -> float:
    return read_float(text, single=type.oid == t.FLOAT4)


MAX_WHOLE_DIGITS, MAX_FRACTION_DIGITS = 131_072, 16_383
"""Of a numeric."""


_NUMERIC = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d+))?", re.ASCII)
_NUMERIC_WORDS = {"nan": "NaN", **dict.fromkeys(("infinity", "+infinity", "inf", "+inf"), "Infinity"),
                  **dict.fromkeys(("-infinity", "-inf"), "-Infinity")}  # fmt: skip
_EXPONENT_END = (2**31 - 1) // 2
"""PostgreSQL reads no exponent as large as this, not of zero either; Python's decimals have none much larger."""


def _numeric(text: str, type: SqlType, settings: Mapping[str, str]) -> Decimal:
    body = text.strip(_SPACE)
    word = _NUMERIC_WORDS.get(body.lower())
    if word is not None:
        return Decimal(word)
    match = _NUMERIC.match(body)
    if match is not None and abs(int(match[1] or 0)) >= _EXPONENT_END:
        raise numeric_overflow()
    if match is None or match.end() < len(body):
        raise _invalid("numeric", text)
    value = Decimal(body)
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if value.adjusted() >= MAX_WHOLE_DIGITS or exponent < -MAX_FRACTION_DIGITS:
        if value or exponent < -MAX_FRACTION_DIGITS:
            raise numeric_overflow()
        return Decimal(0)
    if exponent > 0:
        value = value.quantize(Decimal(1), context=Context(prec=200000))
    return value.copy_abs() if value == 0 else value


def _bytea(text: str, type: SqlType, settings: Mapping[str, str]) -> bytes:
    return from_hex(text[2:]) if text.startswith("\\x") else from_escapes(text)


_UUID = re.compile(r"[0-9a-f]{4}(-?[0-9a-f]{4}){7}\Z")


def _uuid(text: str, type: SqlType, settings: Mapping[str, str]) -> str:
    body = text.lower()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1]
    if not _UUID.match(body):
        raise _invalid("uuid", text)
    digits = body.replace("-", "")
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _interval(text: str, type: SqlType, settings: Mapping[str, str]) -> Interval:
    fields = 0x7FFF if type.typmod < 0 else (type.typmod >> 16) & 0x7FFF
    return parse_interval(text, fields, interval_style(settings))


def _geometry(text: str, type: SqlType, settings: Mapping[str, str]) -> str:
    return held(text, GEOMETRY[type.oid])


def _vector(text: str, type: SqlType, settings: Mapping[str, str]) -> tuple[int, ...]:
    element = SqlType(t.OID if type.oid == t.OIDVECTOR else t.INT2)
    return tuple(parse_text(part, element) for part in text.split())  # type: ignore[misc]


def date_style(settings: Mapping[str, str]) -> str:
    """The DateStyle among session settings."""
    return _setting(settings, "DateStyle", "ISO, MDY")


def interval_style(settings: Mapping[str, str]) -> str:
    """The IntervalStyle among session settings."""
    return _setting(settings, "IntervalStyle", "postgres")


def time_zone(settings: Mapping[str, str]) -> str:
    """The TimeZone among session settings."""
    return _setting(settings, "TimeZone", "UTC")


_PARSERS: dict[int, Callable[[str, SqlType, Mapping[str, str]], object]] = {
    t.BOOL: _bool,
    t.INT2: _integer,
    t.INT4: _integer,
    t.INT8: _integer,
    t.OID: _oid,
    t.XID: _oid,
    29: _oid,
    t.XID8: _xid8,
    t.PG_SNAPSHOT: _snapshot,
    t.TXID_SNAPSHOT: _snapshot,
    t.FLOAT4: _float,
    t.FLOAT8: _float,
    t.NUMERIC: _numeric,
    t.BYTEA: _bytea,
    t.UUID: _uuid,
    t.INTERVAL: _interval,
    t.DATE: lambda text, type, settings: parse_date(text, date_style(settings)),
    t.TIME: lambda text, type, settings: parse_time(text, date_style(settings)),
    t.TIMETZ: lambda text, type, settings: parse_timetz(text, date_style(settings), time_zone(settings)),
    t.MONEY: lambda text, type, settings: parse_money(text),
    t.TIMESTAMP: lambda text, type, settings: parse_timestamp(text, date_style(settings)),
    t.TIMESTAMPTZ: lambda text, type, settings: parse_timestamptz(text, date_style(settings), time_zone(settings)),
    t.BIT: lambda text, type, settings: parse_bits(text),
    t.VARBIT: lambda text, type, settings: parse_bits(text),
    t.JSON: lambda text, type, settings: check_json(text),
    t.JSONB: lambda text, type, settings: normalize_jsonb(text),
    t.JSONPATH: lambda text, type, settings: show_jsonpath(parse_jsonpath(text)),
    t.INET: lambda text, type, settings: parse_inet(text).inet(),
    t.MACADDR: lambda text, type, settings: parse_macaddr(text),
    t.MACADDR8: lambda text, type, settings: parse_macaddr8(text),
    **dict.fromkeys(GEOMETRY, _geometry),
    t.TID: lambda text, type, settings: parse_tid(text),
    t.PG_LSN: lambda text, type, settings: parse_lsn(text),
    t.CIDR: lambda text, type, settings: parse_cidr(text).cidr(),
    t.INT2VECTOR: _vector,
    t.OIDVECTOR: _vector,
    t.CHAR: lambda text, type, settings: char_text(text),
    t.NAME: lambda text, type, settings: text.encode()[:63].decode(errors="ignore"),
}


def _parse_array(text: str, type: SqlType, element: int, settings: Mapping[str, str], names: Names) -> object:
    item = SqlType(element, type.typmod, type.shape)
    return parse_array(text, delimiter_of(element), lambda part: parse_text(part, item, settings, names))


def _unknown(oid: int, text: str) -> int:
    if text.isdecimal() and text.isascii():
        return int(_oid(text, SqlType(t.OID), _EMPTY))
    raise FeatureNotSupported(f"{t.REG_TYPES[oid]} values that are names are not supported inside arrays and rows here")


# ---------------------------------------------------------------- typmods


def apply_typmod(value: object, type: SqlType, *, explicit: bool) -> object:
    """`value` with the length or precision of `type` enforced. Raises 22001 (unless `explicit`, which truncates) and
    22003 for a numeric that does not fit."""
    typmod = type.typmod
    if typmod < 0 or value is None:
        return value
    element = element_of(type.oid)
    if element and isinstance(value, (tuple, ArrayValue)):
        inner = SqlType(element, typmod, type.shape)
        return map_items(value, lambda item: apply_typmod(item, inner, explicit=explicit))
    if type.oid in (t.VARCHAR, t.BPCHAR) and isinstance(value, str):
        return _fit_string(value, type, typmod - 4, explicit=explicit)
    if type.oid in (t.BIT, t.VARBIT) and isinstance(value, str):
        return fit_bits(value, type.oid, typmod, explicit=explicit)
    if type.oid == t.NUMERIC and isinstance(value, Decimal):
        return fit_numeric(value, typmod)
    if type.oid in (t.TIMESTAMP, t.TIMESTAMPTZ) and isinstance(value, (datetime, int)) and typmod < 6:
        # By the distance from 2000 (AdjustTimestampForTypmod).
        rounded = _rounded(micros_of(value) - MICROS_1970_TO_2000, typmod) + MICROS_1970_TO_2000
        return (timestamp_of if type.oid == t.TIMESTAMP else timestamptz_of)(rounded)
    if type.oid == t.TIMETZ and isinstance(value, str) and typmod < 6:
        return rounded_timetz(value, typmod)
    if type.oid == t.TIME and isinstance(value, (time, int)) and typmod < 6:
        return clock_of(_rounded(clock_micros(value), typmod))
    if type.oid == t.INTERVAL and isinstance(value, Interval):
        value = fields_kept(value, (typmod >> 16) & 0x7FFF)
        precision = typmod & 0xFFFF
        if precision < 6:
            return Interval(value.months, value.days, _rounded(value.micros, precision))
    return value


def _rounded(micros: int, precision: int) -> int:
    """Microseconds rounded to so many digits of a second, halves away from zero."""
    step: int = 10 ** (6 - precision)
    rounded = (abs(micros) + step // 2) // step * step
    return rounded if micros >= 0 else -rounded


def _fit_string(value: str, type: SqlType, length: int, *, explicit: bool) -> str:
    if len(value) > length:
        if not explicit and value[length:].strip(" "):
            raise StringDataRightTruncation(f"value too long for type {format_type(type.oid, type.typmod)}")
        value = value[:length]
    return value.ljust(length) if type.oid == t.BPCHAR else value


def fit_numeric(value: Decimal, typmod: int) -> Decimal:
    """A numeric rounded (half away from zero) to the scale of `typmod`. Raises 22003 when it does not fit."""
    shape = numeric_precision_scale(typmod)
    if shape is None or value.is_nan():
        return value
    precision, scale = shape
    if value.is_infinite():
        raise NumericValueOutOfRange(
            "numeric field overflow",
            detail=f"A field with precision {precision}, scale {scale} cannot hold an infinite value.",
        )
    whole = precision - scale
    if value and value.adjusted() >= whole:
        raise _beyond_precision(precision, scale)
    rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_WIDE)
    if rounded.copy_abs() >= Decimal(10) ** whole:
        raise _beyond_precision(precision, scale)
    return rounded if rounded else rounded.copy_abs()


def _beyond_precision(precision: int, scale: int) -> NumericValueOutOfRange:
    bound = f"10^{precision - scale}" if precision != scale else "1"
    return NumericValueOutOfRange(
        "numeric field overflow",
        detail=f"A field with precision {precision}, scale {scale} must round to an absolute value less than {bound}.",
    )


# ---------------------------------------------------------------- output


def format_text(value: object, type: SqlType, settings: Mapping[str, str] = _EMPTY) -> str:
    """PostgreSQL's text of a (non-null) value of `type`, by DateStyle, IntervalStyle, TimeZone, bytea_output and
    extra_float_digits in `settings`."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if is_user_type(type.oid) and not isinstance(value, (tuple, ArrayValue, bytes)):
        return format_user_value(value, type, lambda item, of: format_text(item, of, settings))
    if isinstance(value, float):
        return format_float(value, single=type.oid == t.FLOAT4)
    if isinstance(value, str):
        return value
    if type.oid == t.DATE and isinstance(value, (date, int)):
        return format_date(days_of(value), date_style(settings))
    if type.oid in (t.TIMESTAMP, t.TIMESTAMPTZ) and isinstance(value, (datetime, int)):
        zone = setting_zone(time_zone(settings)) if type.oid == t.TIMESTAMPTZ else None
        return format_moment(micros_of(value), date_style(settings), zone)
    if type.oid == t.TIME and isinstance(value, (time, int)):
        return format_time(clock_micros(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return format_numeric(value)
    if isinstance(value, bytes):
        ranges = range_or_multirange(type.oid)
        if ranges is not None:
            several = ranges.oid != type.oid
            return show_ranges(value, ranges, lambda item, of: format_text(item, of, settings), several=several)
        return "\\x" + value.hex()
    if isinstance(value, Interval):
        return format_interval(value, interval_style(settings))
    if isinstance(value, (tuple, ArrayValue)):
        if type.oid in (t.INT2VECTOR, t.OIDVECTOR):
            return " ".join(str(item) for item in items_of(value))
        inner = SqlType(element_of(type.oid), type.typmod, type.shape)
        between = delimiter_of(inner.oid)
        texts = [None if item is None else format_text(item, inner, settings) for item in items_of(value)]
        items = ["NULL" if text is None else text if between == ";" else quote_element(text) for text in texts]
        return show_array(items, value.dims if isinstance(value, ArrayValue) else None, between)
    raise TypeError(f"no text form for {value!r}")


def format_numeric(value: Decimal) -> str:
    """The text of a numeric."""
    if value.is_nan():
        return "NaN"
    if value.is_infinite():
        return "-Infinity" if value < 0 else "Infinity"
    return format(value, "f")
