"""Values as text inside a query: what a cast to text, `||` with a non-text value or a record gives."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from planner.dialects.quoting import quoted
from planner.errors import FeatureNotSupported
from planner.ir.physical import element_type, listed
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, made, simple
from planner.lowering.fragments.templates import fill
from planner.types import types
from planner.types.base_types import HSTORE, kind_of
from planner.types.ranges import range_name, range_or_multirange
from planner.types.type_names import format_type
from planner.types.types import REG_TYPES, SqlType, is_wide
from planner.types.user_types import attributes, enum_of
from planner.values.array_text import delimiter_of
from planner.values.json.json_text import quote_json
from storage.catalog.model import EnumType

_TEXT_OIDS = frozenset(
    {types.TEXT, types.VARCHAR, types.BPCHAR, types.NAME, types.CHAR, types.UNKNOWN, types.UUID, types.JSON,
     types.JSONB, types.RECORD, types.PG_NODE_TREE, types.CSTRING, types.ACLITEM, types.TID, types.CIDR,
     types.POINT, types.LSEG, types.PATH, types.BOX, types.POLYGON, types.LINE, types.CIRCLE,
     types.BIT, types.VARBIT, types.JSONPATH, types.MACADDR, types.MACADDR8, types.PG_LSN,
     types.MONEY, types.TIMETZ, types.XID8, types.PG_SNAPSHOT, types.TXID_SNAPSHOT, types.REFCURSOR, types.VOID}
)  # fmt: skip


_PLAIN_OIDS = frozenset({types.INT2, types.INT4, types.INT8, types.OID, types.XID, types.CID, types.BOOL})
"""Types that every engine's own cast prints as PostgreSQL does."""
_MOMENT_OIDS = frozenset({types.DATE, types.TIMESTAMP, types.TIMESTAMPTZ})


def text_template(ctx: Context, source: SqlType) -> str:
    """A template that gives a value of type `source` in PostgreSQL's text form."""
    oid = source.oid
    text = ctx.dialect.text
    plain = f"CAST({{0}} AS {text})"
    if oid in _PLAIN_OIDS:
        return plain
    if oid in _TEXT_OIDS or oid == types.ANYARRAY:
        return "{0}"
    if oid == types.TIME:
        return ctx.dialect.time_text("{0}")
    if oid == types.NUMERIC:
        return "{0}" if is_wide(source) else ctx.dialect.shown("{0}", source)
    if oid in (types.FLOAT4, types.FLOAT8):
        return ctx.dialect.float_text(oid)
    if oid == types.INET:
        return ctx.python("tg_inet_show({0})")
    if oid in _MOMENT_OIDS:
        return _moment_text(ctx, oid)
    if oid == types.BYTEA:
        prefix = ctx.dialect.string("\\x")
        return f"({prefix} || lower(hex({{0}})))"
    if oid == types.INTERVAL:
        return ctx.dialect.interval_text(ctx.settings.intervalstyle)
    if ctx.dialect.reads_catalog and oid in REG_TYPES:
        return f"tg_{REG_TYPES[oid]}_out({quoted(ctx.dialect.string(ctx.settings.token))}, {{0}})"
    if range_or_multirange(oid) is not None:
        return ctx.python(f"tg_range_out({{0}}, '{range_name(oid)}', {text_settings(ctx)})")
    enum = enum_of(oid)
    if enum is not None:
        return enum_text(ctx, enum)
    if kind_of(oid) is not None:
        return "{0}"
    fields = attributes(oid)
    if fields is not None:
        shown = record_text(ctx, [(simple(f"({{0}}).{field.physical}"), field.type) for field in fields])
        return f"CASE WHEN {{0}} IS NOT NULL THEN {shown} END"
    element = element_type(source)
    if element is not None and source.dimensioned:
        name = ctx.variable()
        shown_item = fill(ctx, output_template(ctx, element), [simple(name)]).sql
        texts = ctx.dialect.transform("({0}).items", name, shown_item)
        if source.oid in (types.INT2VECTOR, types.OIDVECTOR):
            other = ctx.dialect.raise_sql("42804", f"array is not a valid {format_type(source.oid)}")
        else:
            other = ctx.raising(f"tg_array_text({texts}, ({{0}}).dims, '{delimiter_of(element.oid)}')")
        return _of_list_or(ctx, _array(ctx, listed(source), element), other)
    if element is not None:
        return _array(ctx, source, element)
    raise FeatureNotSupported(f"cast from {format_type(oid)} to text is not supported on the {ctx.engine} engine")


def text_settings(ctx: Context) -> str:
    """The settings that texts of dates and times depend on, as functions in Python take them."""
    return quoted(ctx.dialect.string(f"{ctx.settings.timezone};{ctx.settings.datestyle}"))


def enum_text(ctx: Context, enum: EnumType) -> str:
    """A template that gives the label of a value of `enum`."""
    labels = [
        f" WHEN {ctx.dialect.integer(label.position, types.INT8)} THEN {quoted(ctx.dialect.string(label.name))}"
        for label in enum.labels
    ]
    return f"CASE {{0}}{''.join(labels)} END" if labels else f"CAST({{0}} AS {ctx.dialect.text})"


def _iso_text(ctx: Context, oid: int) -> str:
    """A template that gives a date or timestamp in DateStyle ISO."""
    if oid == types.TIMESTAMPTZ:
        return ctx.dialect.timestamptz_text(ctx.settings.timezone)
    return ctx.dialect.moment_text("{0}")


def _moment_text(ctx: Context, oid: int) -> str:
    """A template that gives a date or timestamp in the session's DateStyle."""
    settings = ctx.settings
    if settings.datestyle.upper().startswith("ISO"):
        return _iso_text(ctx, oid)
    number = ctx.dialect.days_of_date("{0}") if oid == types.DATE else ctx.dialect.moment_micros("{0}", oid)
    name = quoted(ctx.dialect.string(format_type(oid)))
    shown = ctx.dialect.python("tg_moment_out", number, name, text_settings(ctx))
    return ctx.dialect.if_finite("{0}", shown, f"CAST({{0}} AS {ctx.dialect.text})")


def output_template(ctx: Context, source: SqlType) -> str:
    """Like `text_template`, by the type's output function: boolean and inet differ."""
    if source.oid == types.BOOL:
        return "CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END"
    if source.oid == types.INET:
        return "{0}"
    return text_template(ctx, source)


def iso_template(ctx: Context, source: SqlType) -> str:
    """Like `output_template`, with dates and timestamps in DateStyle ISO: for functions that read the text again."""
    return _iso_text(ctx, source.oid) if source.oid in _MOMENT_OIDS else output_template(ctx, source)


_JSON_ARRAY = 199


def json_template(ctx: Context, source: SqlType, *, pretty: bool = False) -> str:
    """A template that gives a value of type `source` as JSON text; SQL NULL stays NULL. `pretty` puts an array's
    elements on lines of their own."""
    oid = source.oid
    if oid in (types.JSON, types.JSONB):
        return "{0}"
    if kind_of(oid) == HSTORE:
        return ctx.python("tg_hstore_json({0}, FALSE)")
    if is_wide(source):
        return "CASE WHEN left({0}, 1) IN ('N', 'I') OR {0} = '-Infinity' THEN '\"' || {0} || '\"' ELSE {0} END"
    if oid in (types.BOOL, types.INT2, types.INT4, types.INT8, types.NUMERIC):
        return text_template(ctx, source)
    if oid in (types.FLOAT4, types.FLOAT8):
        text = text_template(ctx, source)
        return f"CASE WHEN {ctx.dialect.is_finite('{0}')} THEN {text} ELSE '\"' || {text} || '\"' END"
    element = element_type(source)
    if oid == types.RECORD or (element is not None and element.oid == types.RECORD):
        raise ctx.unsupported("making JSON of a record that is not written out or a whole row")
    fields = attributes(oid)
    if fields is not None:
        members = [
            (field.name, fill(ctx, json_template(ctx, field.type), [simple(f"({{0}}).{field.physical}")]))
            for field in fields
        ]
        return f"CASE WHEN {{0}} IS NOT NULL THEN {json_object(ctx, members, pretty=pretty)} END"
    if element is not None and kind_of(element.oid) == HSTORE:
        # Engines call no functions in Python for the elements of a list.
        items = ctx.python(f"tg_hstore_jsons({'({0}).items' if source.dimensioned else '{0}'})")
        whole = ctx.dialect.dimensioned(items, "({0}).dims") if source.dimensioned else items
        return json_template(ctx, replace(source, oid=_JSON_ARRAY), pretty=pretty).replace("{0}", whole)
    if element is not None and source.dimensioned:
        lists = json_template(ctx, listed(source), pretty=pretty)
        name = ctx.variable()
        item = fill(ctx, json_template(ctx, element), [simple(name)])
        texts = ctx.dialect.transform("({0}).items", name, f"coalesce({item}, 'null')")
        between = ctx.dialect.string(",\n " if pretty else ",")
        return _of_list_or(ctx, lists, ctx.raising(f"tg_array_json({texts}, ({{0}}).dims, {between})"))
    if element is not None:
        name = ctx.variable()
        item = fill(ctx, json_template(ctx, element), [simple(name)])
        between = ctx.dialect.string(",\n " if pretty else ",")
        items = ctx.dialect.transform("{0}", name, f"coalesce({item}, 'null')")
        return f"('[' || {ctx.dialect.join(items, between)} || ']')"
    text = _iso_text(ctx, oid) if oid in _MOMENT_OIDS else output_template(ctx, source)
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        first = ctx.dialect.first_group
        text = f"regexp_replace({text}, ' ([0-9])', 'T{first}')"
        if oid == types.TIMESTAMPTZ:
            # BC may be behind the zone.
            text = f"regexp_replace({text}, '([+-][0-9][0-9])($| )', '{first}:00{first.replace('1', '2')}')"
    return fill(ctx, ctx.dialect.json_string, [Fragment(text)]).sql


def json_key_template(ctx: Context, source: SqlType) -> str:
    """A template that gives a value of type `source` as the text of a JSON object's key; an array, a row or what is
    JSON itself is none (22023)."""
    structured = source.oid in (types.RECORD, types.JSON, types.JSONB) or kind_of(source.oid) == HSTORE
    if not structured and element_type(source) is None and attributes(source.oid) is None:
        return output_template(ctx, source)
    fault = ctx.dialect.raise_sql("22023", "key value must be scalar, not array, composite, or json")
    return f"CASE WHEN {{0}} IS NOT NULL THEN {fault} END"


def _of_list_or(ctx: Context, lists: str, otherwise: str) -> str:
    """`lists` of the elements of an array that is an ordinary list, `otherwise` of any other."""
    return f"CASE WHEN ({{0}}).dims IS NULL THEN {lists.replace('{0}', '({0}).items')} ELSE {otherwise} END"


def _array(ctx: Context, source: SqlType, element: SqlType) -> str:
    dialect = ctx.dialect
    name = ctx.variable()
    item = fill(ctx, output_template(ctx, element), [simple(name)]).sql
    if source.oid in (types.INT2VECTOR, types.OIDVECTOR):
        return dialect.join(dialect.transform("{0}", name, item), "' '")
    if delimiter_of(element.oid) != ",":
        parts = dialect.transform("{0}", name, f"coalesce({item}, 'NULL')")
        return f"('{{' || {dialect.join(parts, quoted(dialect.string(delimiter_of(element.oid))))} || '}}')"
    special = dialect.matches(item, r'[\s{},"\\]')
    text = (
        f"CASE WHEN {name} IS NULL THEN 'NULL' WHEN {item} = '' OR lower({item}) = 'null' OR {special} THEN "
        f"{_in_double_quotes(ctx, item, quote=BACKSLASH + DOUBLE_QUOTE)} ELSE {item} END"
    )
    items = dialect.join(dialect.transform("{0}", name, text), "','")
    return f"('{{' || {items} || '}}')"


def _in_double_quotes(ctx: Context, text: str, *, quote: str) -> str:
    """`text` between double quotes, those inside written as `quote`, a backslash doubled."""
    string = ctx.dialect.string
    doubled = f"replace({text}, {string(BACKSLASH)}, {string(BACKSLASH * 2)})"
    return f"'\"' || replace({doubled}, '\"', {string(quote)}) || '\"'"


BACKSLASH, DOUBLE_QUOTE = "\\", '"'


def json_object(ctx: Context, members: Sequence[tuple[str, Fragment]], *, pretty: bool = False) -> Fragment:
    """A JSON object of names and JSON texts, as row_to_json prints it."""
    parts: list[str] = []
    for name, value in members:
        between = "{" if not parts else ",\n " if pretty else ","
        start = ctx.dialect.string(f"{between}{quote_json(name)}:")
        parts.append(f"{start} || coalesce({value}, 'null')")
    sql = f"({' || '.join(parts)} || '}}')" if parts else "'{}'"
    return made(sql, *[value for _, value in members])


_NEVER_QUOTED = frozenset({types.INT2, types.INT4, types.INT8, types.OID, types.BOOL, types.NUMERIC, types.UUID})
"""Types whose texts need no quotes in a record."""


def record_text(ctx: Context, items: Sequence[tuple[Fragment, SqlType]]) -> Fragment:
    """A row as record_out prints it: ``(1,"a b",)``."""
    special = ctx.dialect.matches("{0}", r'[\s(),"\\]')
    between_quotes = _in_double_quotes(ctx, "{0}", quote=DOUBLE_QUOTE * 2)
    member = f"CASE WHEN {{0}} IS NULL THEN '' WHEN {{0}} = '' OR {special} THEN {between_quotes} ELSE {{0}} END"
    parts: list[Fragment] = []
    for value, type in items:
        text = fill(ctx, output_template(ctx, type), [value])
        parts.append(fill(ctx, "coalesce({0}, '')" if type.oid in _NEVER_QUOTED else member, [text]))
    sql = "('(' || " + " || ',' || ".join([f"({part})" for part in parts]) + " || ')')" if parts else "'()'"
    return made(sql, *parts)
