"""Values as text inside a query: what a cast to text, `||` with a non-text value or a record gives."""

from __future__ import annotations

from collections.abc import Sequence

from planner.errors import FeatureNotSupported
from planner.functions.forms import zones
from planner.ir.physical import OID_TYPES, element_type
from planner.lowering.context import Context
from planner.lowering.templates import fill
from planner.types import types
from planner.types.type_names import format_type
from planner.types.types import REG_TYPES, SqlType
from planner.values.json_text import quote_json

_TEXT_OIDS = frozenset(
    {types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UNKNOWN, types.UUID, types.JSON,
     types.JSONB, types.RECORD, types.PG_NODE_TREE, 2275, types.ACLITEM, types.TID, 28, types.CIDR}
)  # fmt: skip


def text_template(ctx: Context, source: SqlType) -> str:
    """A template that gives a value of type `source` in PostgreSQL's text form."""
    oid = source.oid
    local = ctx.local
    text = ctx.dialect.text
    if oid in (types.INT2, types.INT4, types.INT8, types.OID, types.XID):
        return f"CAST({{0}} AS {text})"
    if oid in _TEXT_OIDS:
        return "{0}"
    if oid == types.BOOL:
        return f"CAST({{0}} AS {text})"
    if oid == types.NUMERIC:
        if source.shape is None or source.shape.exact_scale:
            return f"CAST({{0}} AS {text})"
        if source.shape.scale == 0:
            return f"CAST({{0}} AS {text})"
        trimmed = "regexp_replace(CAST({0} AS {t}), '\\.?0+$', '')".replace("{t}", text)
        return trimmed if local else trimmed.replace("\\", "\\\\")
    if oid in (types.FLOAT4, types.FLOAT8):
        return _float(ctx, oid)
    if oid == types.INET:
        return ctx.python("tg_inet_show({0})")
    if oid == types.DATE:
        return "CAST({0} AS VARCHAR)" if local else "CAST({0} AS STRING)"
    if oid == types.TIME:
        return "CAST({0} AS VARCHAR)" if local else "CAST({0} AS STRING)"
    if oid == types.TIMESTAMP:
        return "CAST({0} AS VARCHAR)" if local else "CAST({0} AS STRING)"
    if oid == types.TIMESTAMPTZ:
        return _timestamptz(ctx)
    if oid == types.BYTEA:
        return "('\\x' || lower(hex({0})))" if local else "('\\\\x' || lower(hex({0})))"
    if oid == types.INTERVAL:
        if local:
            return f"tg_interval_out({{0}}, {ctx.dialect.string(ctx.settings.intervalstyle)})"
        return _spark_interval(ctx)
    if oid in OID_TYPES and local:
        name = REG_TYPES.get(oid)
        if name is not None:
            return f"tg_{name}_out({ctx.dialect.string(ctx.settings.token)}, {{0}})"
    element = element_type(source)
    if element is not None:
        return _array(ctx, source, element)
    raise FeatureNotSupported(f"cast from {format_type(oid)} to text is not supported on the {ctx.engine} engine")


def output_template(ctx: Context, source: SqlType) -> str:
    """Like `text_template`, by the type's output function: boolean and inet differ."""
    if source.oid == types.BOOL:
        return "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END"
    if source.oid == types.INET:
        return "{0}"
    return text_template(ctx, source)


def json_template(ctx: Context, source: SqlType, *, pretty: bool = False) -> str:
    """A template that gives a value of type `source` as JSON text; SQL NULL stays NULL. `pretty` puts an array's
    elements on lines of their own."""
    oid = source.oid
    if oid in (types.JSON, types.JSONB):
        return "{0}"
    if oid in (types.BOOL, types.INT2, types.INT4, types.INT8, types.NUMERIC, types.OID):
        return text_template(ctx, source)
    if oid in (types.FLOAT4, types.FLOAT8):
        text = text_template(ctx, source)
        finite = "isfinite({0})" if ctx.local else "abs({0}) < double('Infinity')"
        return f"CASE WHEN {finite} THEN {text} ELSE '\"' || {text} || '\"' END"
    element = element_type(source)
    if oid == types.RECORD or (element is not None and element.oid == types.RECORD):
        raise ctx.unsupported("making JSON of a record that is not written out or a whole row")
    if element is not None:
        name = ctx.variable()
        item = fill(ctx, json_template(ctx, element), [name])
        between = ctx.dialect.string(",\n " if pretty else ",")
        if not ctx.local:
            return f"('[' || array_join(transform({{0}}, {name} -> coalesce({item}, 'null')), {between}) || ']')"
        items = f"list_transform({{0}}, lambda {name}: coalesce({item}, 'null'))"
        return f"('[' || array_to_string({items}, {between}) || ']')"
    text = output_template(ctx, source)
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        text = f"replace({text}, ' ', 'T')"
        if oid == types.TIMESTAMPTZ:
            first = "\\1" if ctx.local else "$1"
            text = f"regexp_replace({text}, '([+-][0-9][0-9])$', '{first}:00')"
    return f"tg_json_string({text})" if ctx.local else fill(ctx, _SPARK_JSON_STRING, [text])


_SPARK_JSON_STRING = (
    "CASE WHEN {0} RLIKE '[\\\\x00-\\\\x1f]' THEN '\"' || array_join(transform(split({0}, ''), c -> CASE "
    "WHEN c IN ('\"', '\\\\') THEN '\\\\' || c WHEN c = '\\b' THEN '\\\\b' WHEN c = '\\u000c' THEN '\\\\f' "
    "WHEN c = '\\n' THEN '\\\\n' WHEN c = '\\r' THEN '\\\\r' WHEN c = '\\t' THEN '\\\\t' "
    "WHEN ascii(c) < 32 THEN '\\\\u00' || lower(lpad(hex(ascii(c)), 2, '0')) ELSE c END), '') || '\"' "
    "ELSE '\"' || replace(replace({0}, '\\\\', '\\\\\\\\'), '\"', '\\\\\"') || '\"' END"
)
"""A text as a JSON string, in Spark SQL."""


def _float(ctx: Context, oid: int) -> str:
    if ctx.local:
        return "tg_float4_out({0})" if oid == types.FLOAT4 else "tg_float8_out({0})"
    million = (
        "WHEN abs({0}) >= 1e6D AND abs({0}) < 1e7D THEN regexp_replace(regexp_replace("
        "replace(CAST({0} AS STRING), '.', ''), '^(-?\\\\d)', '$1.'), '\\\\.?0+$', '') || 'e+06' "
        if oid == types.FLOAT4
        else ""
    )
    # Java prints the shortest digits, with an exponent outside 10^-3..10^7; PostgreSQL's bounds are 10^-4 and 10^15, of
    # real 10^6.
    high, low = ("1e6D", "CAST(1e-4D AS FLOAT)") if oid == types.FLOAT4 else ("1e15D", "1e-4D")
    return (
        "CASE WHEN {0} IS NULL THEN NULL WHEN isnan({0}) THEN 'NaN' WHEN {0} = double('Infinity') THEN 'Infinity' "
        "WHEN {0} = double('-Infinity') THEN '-Infinity' WHEN {0} = 0 THEN CASE WHEN CAST({0} AS STRING) LIKE '-%' "
        "THEN '-0' ELSE '0' END "
        f"{million}WHEN abs({{0}}) >= {high} OR abs({{0}}) < {low} THEN "
        "regexp_replace(regexp_replace(regexp_replace(regexp_replace(CAST({0} AS STRING), '\\\\.0E', 'E'), "
        "'E(\\\\d)', 'e+$1'), 'E-', 'e-'), '([+-])(\\\\d)$', '$10$2') "
        "ELSE regexp_replace(regexp_replace(CAST(CAST(CAST({0} AS STRING) AS DECIMAL(38,20)) AS STRING), '0+$', ''), "
        "'\\\\.$', '') END"
    )


def _timestamptz(ctx: Context) -> str:
    if ctx.local:
        if ctx.utc:
            return (
                "CASE WHEN isfinite({0}) THEN CAST(CAST({0} AS TIMESTAMP) AS VARCHAR) || '+00' ELSE CAST({0} AS"
                " VARCHAR) END"
            )
        return f"tg_timestamptz_out(epoch_us({{0}}), {ctx.dialect.string(ctx.settings.timezone)})"
    wall = zones.to_local_time(ctx.engine, ctx.settings.timezone)
    if ctx.utc:
        return f"(CAST({wall} AS STRING) || '+00')"
    offset = f"timestampdiff(MINUTE, CAST({{0}} AS TIMESTAMP_NTZ), {wall})"
    hours = f"format_string('%+03d', {offset} div 60)"
    minutes = f"CASE WHEN {offset} % 60 = 0 THEN '' ELSE format_string(':%02d', abs({offset} % 60)) END"
    return f"(CAST({wall} AS STRING) || {hours} || {minutes})"


def _spark_interval(ctx: Context) -> str:
    if ctx.settings.intervalstyle != "postgres":
        raise FeatureNotSupported("a cast of an interval to text in this IntervalStyle is not supported on spark")

    def part(value: str, unit: str, before: str) -> str:
        plus = f"CASE WHEN {value} > 0 AND ({before}) THEN '+' ELSE '' END || " if before else ""
        return (
            f"CASE WHEN {value} = 0 THEN NULL ELSE {plus}CAST({value} AS STRING) || ' {unit}' || "
            f"CASE WHEN {value} = 1 THEN '' ELSE 's' END END"
        )

    years, months = "({0}.months div 12)", "({0}.months % 12)"
    negative_months = "{0}.months < 0"
    negative_day = "{0}.days < 0 OR ({0}.days = 0 AND {0}.months < 0)"
    micros = "abs({0}.micros)"
    clock = (
        f"format_string('%02d:%02d:%02d', {micros} div 3600000000, ({micros} div 60000000) % 60, "
        f"({micros} div 1000000) % 60) || CASE WHEN {micros} % 1000000 = 0 THEN '' ELSE "
        f"rtrim('0', format_string('.%06d', {micros} % 1000000)) END".replace("rtrim('0', ", "regexp_replace(").replace(
            "% 1000000)) END", "% 1000000), '0+$', '') END"
        )
    )
    time = (
        "CASE WHEN {0}.micros = 0 AND ({0}.months <> 0 OR {0}.days <> 0) THEN NULL ELSE "
        f"CASE WHEN {{0}}.micros < 0 THEN '-' WHEN {negative_day} THEN '+' ELSE '' END || {clock} END"
    )
    year_part = part(years, "year", "").replace("years", "years")
    month_part = part(months, "mon", "")
    day_part = part("{0}.days", "day", negative_months)
    return f"CASE WHEN {{0}} IS NULL THEN NULL ELSE concat_ws(' ', {year_part}, {month_part}, {day_part}, {time}) END"


def _array(ctx: Context, source: SqlType, element: SqlType) -> str:
    name = ctx.variable()
    item = fill(ctx, output_template(ctx, element), [name])
    if source.oid in (types.INT2VECTOR, types.OIDVECTOR):
        if ctx.local:
            return f"array_to_string(list_transform({{0}}, lambda {name}: {item}), ' ')"
        return f"array_join(transform({{0}}, {name} -> {item}), ' ')"
    if ctx.local:
        quoted = (
            f"CASE WHEN {name} IS NULL THEN 'NULL' WHEN {item} = '' OR lower({item}) = 'null' OR "
            f"regexp_matches({item}, '[\\s{{}},\"\\\\]') THEN '\"' || replace(replace({item}, '\\', '\\\\'), '\"', "
            f"'\\\"') || '\"' ELSE {item} END"
        )
        return f"('{{' || array_to_string(list_transform({{0}}, lambda {name}: {quoted}), ',') || '}}')"
    quoted = (
        f"CASE WHEN {name} IS NULL THEN 'NULL' WHEN {item} = '' OR lower({item}) = 'null' OR "
        f"{item} RLIKE '[\\\\s{{}},\"\\\\\\\\]' THEN '\"' || replace(replace({item}, '\\\\', '\\\\\\\\'), '\"', "
        f"'\\\\\"') || '\"' ELSE {item} END"
    )
    return f"('{{' || array_join(transform({{0}}, {name} -> {quoted}), ',') || '}}')"


def json_object(ctx: Context, members: Sequence[tuple[str, str]], *, pretty: bool = False) -> str:
    """A JSON object of names and JSON texts, as row_to_json prints it."""
    parts: list[str] = []
    for name, sql in members:
        between = "{" if not parts else ",\n " if pretty else ","
        start = ctx.dialect.string(f"{between}{quote_json(name)}:")
        parts.append(f"{start} || coalesce({sql}, 'null')")
    return f"({' || '.join(parts)} || '}}')" if parts else "'{}'"


def record_text(ctx: Context, items: Sequence[tuple[str, SqlType]]) -> str:
    """A row as record_out prints it: ``(1,"a b",)``."""
    parts: list[str] = []
    for sql, type in items:
        text = fill(ctx, output_template(ctx, type), [sql])
        if type.oid in (
            types.INT2,
            types.INT4,
            types.INT8,
            types.OID,
            types.BOOL,
            types.NUMERIC,
            types.DATE,
            types.UUID,
        ):
            parts.append(fill(ctx, "coalesce({0}, '')", [text]))
            continue
        if ctx.local:
            test = "regexp_matches({0}, '[\\s(),\"\\\\]')"
            doubled = "replace(replace({0}, '\\', '\\\\'), '\"', '\"\"')"
        else:
            test = "{0} RLIKE '[\\\\s(),\"\\\\\\\\]'"
            doubled = "replace(replace({0}, '\\\\', '\\\\\\\\'), '\"', '\"\"')"
        parts.append(
            fill(
                ctx,
                f"CASE WHEN {{0}} IS NULL THEN '' WHEN {{0}} = '' OR {test} THEN '\"' || {doubled} || '\"' ELSE"
                " {0} END",
                [text],
            )
        )
    return "('(' || " + " || ',' || ".join(f"({part})" for part in parts) + " || ')')" if parts else "'()'"
