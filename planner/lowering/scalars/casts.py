"""Casts between types, as SQL that gives PostgreSQL's answer or PostgreSQL's error.

`cast` chooses by the pair of types and then applies the target's type modifier: length of varchar and bpchar,
precision of timestamps and times. A numeric modifier is part of the physical type, so its cast is the engine's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planner.common_errors import UnsafeNewEnumValueUsage
from planner.dialects.error_text import error_text
from planner.dialects.quoting import quoted
from planner.errors import FeatureNotSupported
from planner.functions.forms.intervals import unless_null
from planner.ir.array_value import ORDINARY_HINT, ORDINARY_ONLY
from planner.ir.physical import OID_TYPES, element_type, listed
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, simple
from planner.lowering.fragments.templates import calls_python, fill
from planner.lowering.scalars.texts import text_settings, text_template
from planner.types import types
from planner.types.base_types import HSTORE, kind_of, like_text
from planner.types.ranges import range_name, range_of, range_or_multirange
from planner.types.type_names import format_type
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import REG_TYPES, SqlType, is_wide, numeric_typmod
from planner.types.user_types import Attribute, attributes, enum_of
from planner.values.datetimes.calendar_days import MICROS_1970_TO_2000
from planner.values.datetimes.interval_fields import TIME_UNITS, YEAR_FIELD, YEAR_OR_MONTH_FIELDS
from planner.values.geometry.shapes import GEOMETRY
from storage.catalog.model import EnumType
from storage.catalog.types import EnumLabel

TEXT_TYPES = frozenset({types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UNKNOWN, types.CSTRING})
INTEGERS = frozenset({types.INT2, types.INT4, types.INT8})
BITS = frozenset({types.BIT, types.VARBIT})
FLOATS = frozenset({types.FLOAT4, types.FLOAT8})
_MAX_REAL = 3.4028235677973366e38
"""Halfway between the largest real and what would be the next one: from here on a cast overflows."""

INTEGER_NAMES = {types.INT2: "smallint", types.INT4: "integer", types.INT8: "bigint"}


def cast(ctx: Context, value: Fragment, source: SqlType, target: SqlType, *, explicit: bool) -> Fragment:
    """`value`, of type `source`, as `target`; `explicit` truncates where assignment raises 22001."""
    template = cast_template(ctx, source, target)
    result = value if template == "{0}" else fill(ctx, template, [value])
    if target.typmod >= 0:
        modifier = _modifier(ctx, source, target, explicit)
        if modifier is not None:
            result = fill(ctx, modifier, [result])
    return result


def cast_template(ctx: Context, source: SqlType, target: SqlType) -> str:
    """The template of a cast; of the type modifiers only those of numeric are in it."""
    source, target = like_text(source), like_text(target)
    if kind_of(source.oid) == HSTORE and target.oid in (types.JSON, types.JSONB):
        return ctx.python(f"tg_hstore_{format_type(target.oid)}({{0}}, FALSE)")
    if kind_of(target.oid) == HSTORE and element_type(source) is not None:
        items, dims = "{0}", f"CAST(NULL AS {ctx.dialect.dimensions})"
        if source.dimensioned:
            items, dims = "({0}).items", "({0}).dims"
        return ctx.raising(f"tg_hstore_of_list({items}, {dims})")
    if source.dimensioned or target.dimensioned:
        between = _between_arrays(ctx, source, target)
        if between is not None:
            return between
    if source.oid == target.oid and source.shape == target.shape and not _is_narrower(source, target):
        return "{0}"
    if target.oid == types.RECORD:
        return text_template(ctx, source)
    if target.oid == types.NUMERIC:
        return _to_numeric(ctx, source, target)
    if target.oid in TEXT_TYPES:
        return _to_text(ctx, source, target)
    if source.oid == types.RECORD and attributes(target.oid) is not None:
        return _from_text(ctx, target)
    if source.oid in TEXT_TYPES and (source.oid, target.oid) != (types.CHAR, types.INT4):
        return _from_text(ctx, target)
    if target.oid in BITS:
        # A cast without a length is one to bit(1).
        return "{0}" if source.oid in BITS else ctx.python(f"tg_bits_of_integer({{0}}, {max(target.typmod, 1)})")
    plain = ctx.dialect.cast("{0}", target)
    if target.oid in INTEGERS:
        return _to_integer(ctx, source, target, plain)
    if target.oid in FLOATS and (source.oid in INTEGERS or source.oid in FLOATS or source.oid == types.NUMERIC):
        if target.oid == types.FLOAT4 and source.oid == types.FLOAT8:
            fault = ctx.dialect.raise_sql("22003", "value out of range: overflow")
            # NaN is beyond all others.
            finite = f"NOT isnan({{0}}) AND NOT {ctx.dialect.is_infinite('{0}')}"
            beyond = f"abs({{0}}) > {ctx.dialect.float8(_MAX_REAL)} AND {finite}"
            vanished = ctx.dialect.raise_sql("22003", "value out of range: underflow")
            return f"CASE WHEN {beyond} THEN {fault} WHEN {plain} = 0 AND {{0}} <> 0 THEN {vanished} ELSE {plain} END"
        return plain
    if target.oid == types.BOOL and source.oid in INTEGERS:
        return "({0} <> 0)"
    if target.oid in OID_TYPES:
        if source.oid in OID_TYPES:
            return "{0}"
        if source.oid in INTEGERS:
            if source.oid == types.INT8:
                fault = ctx.dialect.raise_sql("22003", "OID out of range")
                return f"CASE WHEN {{0}} < 0 OR {{0}} > 4294967295 THEN {fault} ELSE {plain} END"
            return plain if source.oid != types.INT4 else "(CAST({0} AS BIGINT) & 4294967295)"
    if (source.oid, target.oid) == (_XID8, types.XID):
        return "(CAST({0} AS BIGINT) & 4294967295)"
    if (source.oid, target.oid) == (types.INET, types.CIDR):
        return ctx.python("tg_inet_network({0})")
    if (source.oid, target.oid) == (types.CIDR, types.INET):
        return ctx.python("tg_inet_in({0})")
    if (source.oid, target.oid) == (types.MACADDR, types.MACADDR8):
        return ctx.python("tg_macaddr8_of({0})")
    if (source.oid, target.oid) == (types.MACADDR8, types.MACADDR):
        return ctx.python("tg_macaddr_of({0})")
    if source.oid in GEOMETRY and target.oid in GEOMETRY:
        routine = f"'{GEOMETRY[target.oid]}({GEOMETRY[source.oid]})'"
        return ctx.dialect.python("tg_geometry_1_varchar", routine, "{0}")
    if target.oid == types.MONEY:
        return _to_money(ctx, source)
    chrono = _CHRONO.get((source.oid, target.oid))
    if chrono is not None:
        return chrono(ctx)
    if {source.oid, target.oid} <= {types.JSON, types.JSONB}:
        return "{0}" if target.oid == types.JSON else ctx.python("tg_jsonb_in({0})")
    if source.oid == types.JSONB and target.oid in FLOATS:
        number = ctx.python(f"tg_jsonb_scalar({{0}}, 'number', '{format_type(target.oid)}')")
        return ctx.dialect.cast(number, target)
    if source.oid == types.JSONB and target.oid == types.BOOL:
        truth = ctx.python("tg_jsonb_scalar({0}, 'boolean', 'boolean')")
        return f"CAST({truth} AS BOOLEAN)"
    ranges = range_of(source.oid)
    if ranges is not None and ranges.multirange == target.oid:
        return ctx.python("tg_multirange_of({0})")
    source_element, target_element = element_type(source), element_type(target)
    if source_element is not None and target_element is not None:
        if target_element.oid == types.NUMERIC and not ctx.dialect.python_in_lambdas:
            return _to_numerics(ctx, source_element, target_element)
        template = cast_template(ctx, source_element, target_element)
        return "{0}" if template == "{0}" else _for_each(ctx, "{0}", template)
    raise FeatureNotSupported(
        f"cast from {format_type(source.oid)} to {format_type(target.oid)} is not supported on the {ctx.engine} engine"
    )


_XID8 = 5069

NOT_ORDINARY = error_text("0A000", ORDINARY_ONLY, None, ORDINARY_HINT)


def _between_arrays(ctx: Context, source: SqlType, target: SqlType) -> str | None:
    """A cast from or to arrays of any dimensions; None where something else than a list or a text is at the other
    end."""
    dialect = ctx.dialect
    if not target.dimensioned:
        if element_type(target) is None:
            return None
        many = dialect.error(dialect.string(NOT_ORDINARY))
        items = cast_template(ctx, listed(source), target).replace("{0}", "({0}).items")
        return f"CASE WHEN ({{0}}).dims IS NOT NULL THEN {many} ELSE {items} END"
    if source.oid in TEXT_TYPES:
        items = cast_template(ctx, source, listed(target))
        dims = ctx.raising("tg_array_dims_in({0})")
        return f"CASE WHEN {{0}} IS NOT NULL THEN {dialect.dimensioned(items, dims)} END"
    if element_type(source) is None:
        return None
    items = cast_template(ctx, listed(source), listed(target))
    dims = "NULL"
    if source.oid in (types.INT2VECTOR, types.OIDVECTOR):
        size = f"CAST({dialect.length('{0}')} AS {dialect.scalar_types[types.INT4]})"
        dims = f"CASE WHEN {size} > 0 THEN {dialect.array(['1', size, '0'])} END"
    if source.dimensioned:
        if items == "{0}":
            return "{0}"
        items, dims = items.replace("{0}", "({0}).items"), "({0}).dims"
    return f"CASE WHEN {{0}} IS NOT NULL THEN {dialect.dimensioned(items, dims)} END"


def _is_narrower(source: SqlType, target: SqlType) -> bool:
    """Whether both are numerics that are held as text, or arrays of such, of which the target has a precision that the
    source has not."""
    return is_wide(element_type(target) or target) and target.typmod >= 0 and target.typmod != source.typmod


_PLAIN_NUMBER = "(0|-?[1-9][0-9]*|-?0[.][0-9]*[1-9][0-9]*|-?[1-9][0-9]*[.][0-9]+|0[.]0+)"
"""Texts that are a numeric as PostgreSQL shows it."""


def _to_numeric(ctx: Context, source: SqlType, target: SqlType) -> str:
    """The wide form first where the value has it; from there to a decimal by the modifier."""
    plain = ctx.dialect.shown("{0}", source) if is_wide(target) else ctx.dialect.cast("{0}", target)
    if not is_wide(source) and (source.oid in INTEGERS or source.oid == types.NUMERIC or source.oid in OID_TYPES):
        if is_wide(target) and target.typmod >= 0 and target.typmod != source.typmod:
            return ctx.dialect.python("tg_numeric_fit", plain, str(target.typmod))
        return plain
    if is_wide(source):
        wide = "{0}"
    elif source.oid == types.MONEY:
        wide = "translate({0}, '$,', '')"
    elif source.oid in FLOATS:
        wide = ctx.dialect.python(
            "tg_numeric_of_float", "CAST({0} AS DOUBLE)", "15" if source.oid == types.FLOAT8 else "6"
        )
    elif source.oid in TEXT_TYPES:
        usual = ctx.dialect.matches_fully("{0}", _PLAIN_NUMBER)
        read = ctx.dialect.python("tg_numeric_in", "{0}")
        wide = read if ctx.engine == "spark" else f"CASE WHEN {usual} THEN {{0}} ELSE {read} END"
    elif source.oid == types.JSONB:
        wide = ctx.dialect.python("tg_numeric_in", ctx.python("tg_jsonb_scalar({0}, 'number', 'numeric')"))
    else:
        raise FeatureNotSupported(f"cast from {format_type(source.oid)} to numeric is not supported")
    if is_wide(target):
        return wide if target.typmod < 0 else ctx.dialect.python("tg_numeric_fit", wide, str(target.typmod))
    fitted = ctx.dialect.cast(ctx.dialect.python("tg_numeric_fit_decimal", wide, str(_precise(target))), target)
    if ctx.engine == "spark":
        return fitted
    return f"coalesce(try_cast({wide} AS {ctx.dialect.type_name(target)}), {fitted})"


def _to_numerics(ctx: Context, source: SqlType, target: SqlType) -> str:
    """`_to_numeric` of the elements of a list where functions in Python are called for whole lists alone."""
    template = _to_numeric(ctx, source, target)
    exact = source.oid in INTEGERS or source.oid == types.NUMERIC
    if not calls_python(template, ctx.dialect) or not exact:
        return "{0}" if template == "{0}" else _for_each(ctx, "{0}", template)
    if is_wide(target):
        texts = "{0}" if is_wide(source) else _for_each(ctx, "{0}", ctx.dialect.shown("{0}", source))
        return ctx.dialect.python("tg_numerics_fit", texts, str(target.typmod), "FALSE")
    fitted = ctx.dialect.python("tg_numerics_fit", "{0}", str(_precise(target)), "TRUE")
    return _for_each(ctx, fitted, ctx.dialect.cast("{0}", target))


def _precise(target: SqlType) -> int:
    """The modifier of a decimal: what the engine cannot make one is refused with PostgreSQL's words."""
    assert target.shape is not None
    return target.typmod if target.typmod >= 0 else numeric_typmod(target.shape.precision, target.shape.scale)


def _to_money(ctx: Context, source: SqlType) -> str:
    if source.oid in INTEGERS:
        return ctx.dialect.python("tg_money_of_integer", "CAST({0} AS DECIMAL(36,0)) * 100")
    number = "{0}" if is_wide(source) else ctx.dialect.shown("{0}", source)
    return ctx.dialect.python("tg_money_of_numeric", number)


def _to_integer(ctx: Context, source: SqlType, target: SqlType, plain: str) -> str:
    if source.oid in INTEGERS or source.oid in OID_TYPES:
        if source.oid in OID_TYPES and target.oid == types.INT4:
            return ctx.dialect.cast("CASE WHEN {0} > 2147483647 THEN {0} - 4294967296 ELSE {0} END", target)
        return plain
    if source.oid == types.BOOL:
        return plain
    if source.oid in FLOATS:
        rounded = plain.replace("{0}", ctx.dialect.half_even("{0}"))
        if target.oid != types.INT8 or ctx.dialect.bounded_bigint:
            return rounded
        fault = ctx.dialect.raise_sql("22003", "bigint out of range")
        return f"CASE WHEN {{0}} >= 9223372036854775808D THEN {fault} ELSE {rounded} END"
    if is_wide(source):
        name = INTEGER_NAMES[target.oid]
        return plain.replace("{0}", ctx.dialect.python("tg_numeric_to_integer", "{0}", f"'{name}'"))
    if source.oid == types.NUMERIC:
        return plain.replace("{0}", ctx.dialect.half_away("{0}"))
    if source.oid == types.CHAR:
        return plain.replace("{0}", ctx.python("tg_char_to_integer({0})"))
    if source.oid in BITS:
        return plain.replace("{0}", ctx.python(f"tg_bits_to_integer({{0}}, {32 if target.oid == types.INT4 else 64})"))
    if source.oid == types.JSONB:
        number = ctx.python(f"tg_jsonb_scalar({{0}}, 'number', '{INTEGER_NAMES[target.oid]}')")
        wide = f"CAST({number} AS DECIMAL(38,10))"
        return plain.replace("{0}", ctx.dialect.half_away(wide))
    raise FeatureNotSupported(f"cast from {format_type(source.oid)} to {INTEGER_NAMES[target.oid]} is not supported")


# ---------------------------------------------------------------- text


def _to_text(ctx: Context, source: SqlType, target: SqlType) -> str:
    if source.oid == types.BPCHAR and target.oid != types.BPCHAR:
        return ctx.dialect.without_trailing_blanks("{0}")
    if source.oid in TEXT_TYPES:
        if target.oid == types.NAME:
            return "left({0}, 63)"
        if target.oid == types.CHAR:
            return ctx.python("tg_char_in({0})")
        return "{0}"
    if target.oid == types.CHAR and source.oid == types.INT4:
        return ctx.python("tg_char_of_integer({0})")
    return text_template(ctx, source)


def _checked_number(ctx: Context, target: SqlType, name: str, plain: str) -> str:
    pattern = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*" if name == "numeric" else r"\s*[+-]?\d+\s*"
    return _checked(ctx, pattern, plain.replace("{0}", "trim({0})"), name)


def _checked(ctx: Context, pattern: str, then: str, name: str) -> str:
    fault = ctx.dialect.raise_invalid_input(name, "{0}")
    test = ctx.dialect.matches_fully("{0}", pattern)
    return f"CASE WHEN {test} THEN {then} WHEN {{0}} IS NOT NULL THEN {fault} END"


_TRUE = "'t', 'tr', 'tru', 'true', 'y', 'ye', 'yes', 'on', '1'"
_FALSE = "'f', 'fa', 'fal', 'fals', 'false', 'n', 'no', 'of', 'off', '0'"
_PARSED_NAMES = {
    types.DATE: "date", types.TIMESTAMP: "timestamp", types.TIMESTAMPTZ: "timestamptz", types.TIME: "time",
    types.INTERVAL: "interval", types.UUID: "uuid", types.JSON: "json", types.JSONB: "jsonb", types.BYTEA: "bytea",
}  # fmt: skip


_ADDRESS_INPUTS = {
    types.MACADDR: "tg_macaddr_in",
    types.MACADDR8: "tg_macaddr8_in",
    types.PG_LSN: "tg_lsn_in",
    types.TID: "tg_tid_in",
    types.MONEY: "tg_money_in",
}


_USUAL_DOUBLE = r" *[+-]?(\d{1,50}(\.\d{0,50})?|\.\d{1,50})([eE][+-]?\d{1,2})? *"
_USUAL_REAL = r" *[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d)? *"
"""Texts of numbers that are never out of range."""


def _from_text(ctx: Context, target: SqlType) -> str:
    plain = ctx.dialect.cast("{0}", target)
    if target.oid in INTEGERS:
        return _checked_number(ctx, target, INTEGER_NAMES[target.oid], plain)
    if target.oid in FLOATS:
        usual = _USUAL_REAL if target.oid == types.FLOAT4 else _USUAL_DOUBLE
        read = plain.replace("{0}", "trim({0})")
        return (
            f"CASE WHEN {ctx.dialect.matches_fully('{0}', usual)} THEN {read} "
            f"ELSE {ctx.dialect.float_input(target.oid)} END"
        )
    if target.oid == types.BOOL:
        fault = ctx.dialect.raise_invalid_input("boolean", "{0}")
        return (
            f"CASE WHEN lower(trim({{0}})) IN ({_TRUE}) THEN TRUE WHEN lower(trim({{0}})) IN ({_FALSE}) THEN FALSE "
            f"WHEN {{0}} IS NOT NULL THEN {fault} END"
        )
    if target.oid in BITS:
        return ctx.python("tg_bits_in({0})")
    if target.oid in (types.INET, types.CIDR):
        return ctx.python(f"tg_{'inet' if target.oid == types.INET else 'cidr'}_in({{0}})")
    if target.oid == types.JSONPATH:
        return ctx.python("tg_jsonpath_in({0})")
    if target.oid == types.TIMETZ:
        return ctx.python(f"tg_timetz_in({{0}}, {text_settings(ctx)})")
    if target.oid in GEOMETRY:
        return ctx.python(f"tg_geometry_in({{0}}, '{GEOMETRY[target.oid]}')")
    if target.oid in _ADDRESS_INPUTS:
        return ctx.python(f"{_ADDRESS_INPUTS[target.oid]}({{0}})")
    if ctx.dialect.reads_catalog and target.oid in REG_TYPES:
        return f"tg_{REG_TYPES[target.oid]}_in({quoted(ctx.dialect.string(ctx.settings.token))}, {{0}})"
    if ctx.dialect.reads_catalog and target.oid in OID_TYPES:
        return _checked_number(ctx, target, "oid", plain)
    if target.oid in _PARSED_NAMES:
        return _parsed(ctx, target, plain)
    if range_or_multirange(target.oid) is not None:
        return ctx.python(f"tg_range_in({{0}}, '{range_name(target.oid)}', {text_settings(ctx)})")
    if kind_of(target.oid) == HSTORE:
        return ctx.python("tg_hstore_in({0})")
    enum = enum_of(target.oid)
    if enum is not None:
        return _to_enum(ctx, enum, target)
    fields = attributes(target.oid)
    if fields is not None:
        return _to_composite(ctx, fields)
    element = element_type(target)
    if element is not None:
        if kind_of(element.oid) == HSTORE:
            return ctx.python("tg_hstore_all_in(tg_array_items({0}))")
        template = cast_template(ctx, SqlType(types.TEXT), element)
        parsed = ctx.python("tg_array_items({0})")
        if template == "{0}":
            return parsed
        if ctx.dialect.python_in_lambdas or not calls_python(template, ctx.dialect):
            return _for_each(ctx, parsed, template)
    raise FeatureNotSupported(
        f"cast from text to {format_type(target.oid)} is not supported on the {ctx.engine} engine"
    )


def _to_composite(ctx: Context, fields: Sequence[Attribute]) -> str:
    """The row that a text stands for."""
    members = []
    for index, field in enumerate(fields):
        item = ctx.python(f"tg_record_item({{0}}, {index}, {len(fields)})")
        template = cast_template(ctx, SqlType(types.TEXT), field.type).replace("{0}", item)
        modifier = _modifier(ctx, SqlType(types.TEXT), field.type, explicit=False) if field.type.typmod >= 0 else None
        members.append((field.physical, template if modifier is None else modifier.replace("{0}", template)))
    return f"CASE WHEN {{0}} IS NOT NULL THEN {ctx.dialect.struct(members)} END"


def _to_enum(ctx: Context, enum: EnumType, target: SqlType) -> str:
    """The value that a label stands for."""
    new, name = TYPE_SCOPE.get().new_labels, format_type(target.oid)

    def value(label: EnumLabel) -> str:
        if label.oid not in new:
            return ctx.dialect.integer(label.position, types.INT8)
        error = UnsafeNewEnumValueUsage(label.name, name)
        return quoted(ctx.dialect.error(ctx.dialect.string(error_text(error.sqlstate, str(error), None, error.hint))))

    labels = [f" WHEN {quoted(ctx.dialect.string(label.name))} THEN {value(label)}" for label in enum.labels]
    invalid = f"invalid input value for enum {format_type(target.oid)}: "
    fault = ctx.dialect.raise_quoting("22P02", invalid, "{0}")
    found = f"CASE {{0}}{''.join(labels)} END" if labels else ctx.dialect.null(target)
    return f"coalesce({found}, CASE WHEN {{0}} IS NOT NULL THEN {fault} END)"


def _parsed(ctx: Context, target: SqlType, plain: str) -> str:
    """Text read by PostgreSQL's input rules, in Python; the usual forms by the engine itself, where it can."""
    extra = f", {text_settings(ctx)}" if target.oid in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ) else ""
    if target.oid == types.INTERVAL:
        extra = f", '{ctx.settings.intervalstyle}'"
    usual = ctx.dialect.usual_inputs.get(target.oid)
    if usual is None:
        return _moment(ctx, target, ctx.python(f"tg_{_PARSED_NAMES[target.oid]}_in({{0}}{extra})"))
    test = ctx.dialect.matches_fully("{0}", usual)
    then = (
        "lower(trim({0}))"
        if target.oid == types.UUID
        else "try_cast" + plain.removeprefix("CAST").replace("{0}", "trim({0})")
    )
    then = f"CASE WHEN {test} THEN {then} END"
    parsed = ctx.raising(f"tg_{_PARSED_NAMES[target.oid]}_in(CASE WHEN ({then}) IS NULL THEN {{0}} END{extra})")
    return f"coalesce({then}, {_moment(ctx, target, parsed)})"


def _moment(ctx: Context, target: SqlType, parsed: str) -> str:
    """What our input function gives for `target` as its physical type: dates and timestamps come as numbers."""
    if target.oid == types.TIME:
        return ctx.dialect.clock_of_micros(parsed)
    if target.oid in (types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ):
        return ctx.dialect.moment_read(parsed, target.oid)
    return parsed


# ---------------------------------------------------------------- dates and times


def _to_local(ctx: Context) -> str:
    return ctx.dialect.to_local_time(ctx.settings.timezone)


def _from_local(ctx: Context, timestamp: str = "{0}") -> str:
    return ctx.dialect.from_local_time(ctx.settings.timezone, timestamp)


def _midnight(ctx: Context) -> str:
    return ctx.dialect.midnight("{0}")


def _time_interval(ctx: Context) -> str:
    zero = ctx.dialect.integer(0, types.INT4)
    return unless_null("0", ctx.dialect.interval(zero, zero, ctx.dialect.time_micros("{0}")))


_DAY_MICROS = 86_400_000_000
_CHRONO: dict[tuple[int, int], Callable[[Context], str]] = {
    (types.DATE, types.TIMESTAMP): _midnight,
    (types.DATE, types.TIMESTAMPTZ): lambda ctx: _from_local(ctx, _midnight(ctx)),
    (types.TIMESTAMP, types.DATE): lambda ctx: ctx.dialect.date_of_timestamp("{0}"),
    (types.TIMESTAMP, types.TIMESTAMPTZ): _from_local,
    (types.TIMESTAMP, types.TIME): lambda ctx: ctx.dialect.time_of_timestamp("{0}"),
    (types.TIMESTAMPTZ, types.TIMESTAMP): _to_local,
    (types.TIMESTAMPTZ, types.DATE): lambda ctx: ctx.dialect.date_of_timestamp(_to_local(ctx)),
    (types.TIMESTAMPTZ, types.TIME): lambda ctx: ctx.dialect.time_of_timestamp(_to_local(ctx)),
    (types.TIME, types.INTERVAL): _time_interval,
    (types.TIME, types.TIMETZ): lambda ctx: ctx.dialect.python(
        "tg_timetz_of_time", ctx.dialect.time_micros("{0}"), quoted(ctx.dialect.string(ctx.settings.timezone))
    ),
    (types.TIMESTAMPTZ, types.TIMETZ): lambda ctx: ctx.dialect.python(
        "tg_timetz_of_moment",
        # Infinite ones have no time.
        ctx.dialect.if_finite("{0}", ctx.dialect.moment_micros("{0}", types.TIMESTAMPTZ), "NULL"),
        quoted(ctx.dialect.string(ctx.settings.timezone)),
    ),
    (types.TIMETZ, types.TIME): lambda ctx: ctx.dialect.clock_of_micros(ctx.dialect.python("tg_timetz_micros", "{0}")),
    (types.INTERVAL, types.TIME): lambda ctx: ctx.dialect.time_of_micros(
        f"((({{0}}.micros % {_DAY_MICROS}) + {_DAY_MICROS}) % {_DAY_MICROS})"
    ),
}
"""By source and target: the template of a cast between moments, times and intervals."""


# ---------------------------------------------------------------- type modifiers


def _modifier(ctx: Context, source: SqlType, target: SqlType, explicit: bool) -> str | None:
    oid = target.oid
    if oid in (types.VARCHAR, types.BPCHAR):
        return _length(ctx, source, target, explicit)
    if oid in BITS:
        name = "tg_bits_fit" if oid == types.BIT else "tg_varbits_fit"
        return None if source.oid in INTEGERS else ctx.python(f"{name}({{0}}, {target.typmod}, {explicit})")
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ, types.TIME) and target.typmod < 6 and source.typmod != target.typmod:
        return _rounded_time(ctx, target)
    if oid == types.TIMETZ and target.typmod < 6 and source.typmod != target.typmod:
        return ctx.python(f"tg_timetz_rounded({{0}}, {target.typmod})")
    if oid == types.INTERVAL and source.typmod != target.typmod:
        return _interval_fields(ctx, target)
    if target.dimensioned:
        inner = _modifier(ctx, listed(source), listed(target), explicit)
        if inner is None:
            return None
        items = inner.replace("{0}", "({0}).items")
        return f"CASE WHEN {{0}} IS NOT NULL THEN {ctx.dialect.dimensioned(items, '({0}).dims')} END"
    element = element_type(target)
    if element is None or element.typmod < 0:
        return None
    inner = _modifier(ctx, element_type(source) or SqlType(types.TEXT), element, explicit)
    if inner is None:
        return None
    if calls_python(inner, ctx.dialect) and not ctx.dialect.python_in_lambdas:
        raise FeatureNotSupported(f"cast to {format_type(target.oid)} is not supported on the {ctx.engine} engine")
    return _for_each(ctx, "{0}", inner)


def _for_each(ctx: Context, array: str, template: str) -> str:
    """`template` for each element of `array`."""
    name = ctx.variable()
    return ctx.dialect.transform(array, name, fill(ctx, template, [simple(name)]).sql)


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
    trimmed = ctx.dialect.without_trailing_blanks("{0}")
    return (
        f"CASE WHEN length({{0}}) <= {limit} THEN {fits} WHEN length({trimmed}) > {limit} THEN {fault} ELSE {cut} END"
    )


def _interval_fields(ctx: Context, target: SqlType) -> str | None:
    """The fields and the precision that a type such as `interval day to hour` or `interval second(2)` keeps
    (AdjustIntervalForTypmod)."""
    fields, precision = (target.typmod >> 16) & 0x7FFF, target.typmod & 0xFFFF
    months, days, micros = "{0}.months", "{0}.days", "{0}.micros"
    div = ctx.dialect.whole_division
    if fields in YEAR_OR_MONTH_FIELDS:
        days = micros = "0"
        if fields == YEAR_FIELD:
            months = f"{months} {div} 12 * 12"
    elif fields in TIME_UNITS:
        micros = "0" if TIME_UNITS[fields] is None else f"{micros} {div} {TIME_UNITS[fields]} * {TIME_UNITS[fields]}"
    elif precision < 6:
        unit = 10 ** (6 - precision)
        micros = (
            f"CASE WHEN {micros} >= 0 THEN ({micros} + {unit // 2}) {div} {unit} * {unit} "
            f"ELSE -(({unit // 2} - {micros}) {div} {unit} * {unit}) END"
        )
    else:
        return None
    return unless_null("0", ctx.dialect.interval_struct(months, days, micros))


def _rounded_time(ctx: Context, target: SqlType) -> str:
    dialect, div = ctx.dialect, ctx.dialect.whole_division
    unit = 10 ** (6 - target.typmod)
    if target.oid == types.TIME:
        rounded = f"((({dialect.time_micros('{0}')} + {unit // 2}) {div} {unit}) * {unit})"
        return unless_null("0", dialect.clock_of_micros(rounded))
    since = f"({dialect.moment_micros('{0}', target.oid)} - {MICROS_1970_TO_2000})"
    rounded = (
        f"CASE WHEN {since} >= 0 THEN ({since} + {unit // 2}) {div} {unit} * {unit} "
        f"ELSE -(({unit // 2} - {since}) {div} {unit} * {unit}) END + {MICROS_1970_TO_2000}"
    )
    return dialect.if_finite("{0}", dialect.moment_of_micros(rounded, target.oid), "{0}")
