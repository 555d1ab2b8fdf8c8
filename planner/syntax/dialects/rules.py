"""What has to be repaired: nodes that mean something else in another dialect, one rule for each.

A rule gets a node whose children are PostgreSQL's already, and gives PostgreSQL's node or text; None refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from planner.syntax.dialects.names import words
from planner.syntax.dialects.nodes import VOUCHED
from planner.syntax.dialects.types import type_name

Rule: TypeAlias = Callable[[Any, str], Any]
"""A node and its dialect: a node of sqlglot's, a text of PostgreSQL's, or None."""

SPARK = frozenset({"spark", "databricks", "hive"})
_LIKE_WITHOUT_ESCAPE = frozenset({"duckdb", "trino", "snowflake", "tsql"})
"""Where LIKE has no escape character unless one is named."""

_BACKSLASHED = re.compile(r"\\(?![\\%_])")
_SAFE_REGEX = re.compile(
    r"(?:[\w \-:@/#,;=<>!&%'\"~]|\\[dswDSW.\-+*?()\[\]{}|/]|[.^$*+?|()]|\[\^?[\w\-.@ ]+\]|\{\d+(?:,\d*)?\})*"
)
"""Regular expressions that Java's, RE2's and PostgreSQL's engines read alike."""

_LONG_UNITS = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
_DATES_STAY = SPARK | {"mysql", "trino", "snowflake"}
"""Where a date and an interval of days make a date."""

_FORMATS: Mapping[str, str] = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%H": "HH24", "%I": "HH12", "%M": "MI", "%S": "SS", "%j": "DDD",
    "%p": "AM", "%b": "Mon", "%B": "FMMonth", "%a": "Dy", "%A": "FMDay",
}  # fmt: skip
_UNITS_OF_SPARK: Mapping[str, str] = {
    "MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR", "YY": "YEAR", "DD": "DAY",
}  # fmt: skip
_TRUNCATED = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_FIELDS: Mapping[str, str] = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute",
    "DOY": "doy", "DAYOFYEAR": "doy",
}  # fmt: skip

_DAYS_FROM_ONE: Mapping[str, tuple[str, ...]] = {
    "bigquery": ("DAYOFWEEK",), "spark": ("DAYOFWEEK", "DOW"), "databricks": ("DAYOFWEEK", "DOW"),
}  # fmt: skip
"""Fields that are 1 on Sundays."""

_DAYS_OF_SPARK: Mapping[str, str] = {"DAYOFWEEK_ISO": "isodow", "DOW_ISO": "isodow"}
_FIELDS_OF: Mapping[str, Mapping[str, str]] = {
    "spark": _DAYS_OF_SPARK,
    "databricks": _DAYS_OF_SPARK,
    "snowflake": {"DAYOFWEEK": "dow", "DOW": "dow", "DAYOFWEEKISO": "isodow", "DAYOFWEEK_ISO": "isodow"},
    "duckdb": {"DAYOFWEEK": "dow", "DOW": "dow", "ISODOW": "isodow"},
    "trino": {"DAY_OF_WEEK": "isodow", "DOW": "isodow", "DAY_OF_YEAR": "doy"},
}

_WHOLE = words("Column Literal Paren Var Identifier Null Boolean Subquery Star Distinct")


def text(node: Any) -> str:
    """A node of PostgreSQL's as its text, in parentheses unless it is one word, a constant or a call."""
    written: str = node.sql(dialect="postgres", comments=False)
    whole = type(node).__name__ in _WHOLE
    return written if whole else f"({written})"


def literal(node: Any) -> str | None:
    """A string constant's value."""
    return node.this if type(node).__name__ == "Literal" and node.is_string else None


def whole(node: Any) -> int | None:
    """A whole number's value that is written out."""
    known = type(node).__name__ == "Literal" and not node.is_string and str(node.this).isdigit()
    return int(node.this) if known else None


def _number(node: Any, dialect: str) -> Any:
    if node.is_string:
        return node
    written = str(node.this)
    if "e" in written.lower():
        return None if dialect == "snowflake" else f"{written}::float8"
    if dialect == "bigquery":
        return f"{written}::float8" if "." in written else node
    return node


def _raw_string(node: Any, dialect: str) -> Any:
    return f"'{node.this}'".replace("'", "''")[1:-1] if "'" in node.this else f"'{node.this}'"


def _identifier(node: Any, dialect: str) -> Any:
    """A name in quotes. Names in quotes are as blind to case as others in most dialects."""
    name = str(node.this)
    if re.fullmatch(r"\$\d+", name) and not node.args.get("quoted"):
        return name  # A parameter of the protocol's.
    if not node.args.get("quoted"):
        name = name.lower()
    elif dialect != "snowflake":
        name = name.lower() if re.fullmatch(r"\w+", name) else name
    elif name == name.upper():
        name = name.lower()
    node.set("this", name)
    node.set("quoted", True)
    return node


def _parameter(node: Any, dialect: str) -> Any:
    """``$1``, of which each dialect makes something else."""
    number = text(node.this) if hasattr(node.this, "sql") else str(node.this)
    return f"${number}" if number.isdigit() else None


def _division(node: Any, dialect: str) -> Any:
    a, b = text(node.this), text(node.expression)
    if dialect in ("hive", "duckdb"):
        return f"tidegate.float_quotient({a}, {b})"
    if dialect in ("spark", "databricks", "bigquery"):
        return f"tidegate.quotient({a}, {b})"
    if dialect == "mysql":
        return f"tidegate.scaled_quotient({a}, {b}, 4, 30)"
    if dialect == "snowflake":
        return f"tidegate.scaled_quotient({a}, {b}, 6, 12)"
    return f"({a} / {b})"


def _whole_division(node: Any, dialect: str) -> Any:
    return f"tidegate.whole_quotient({text(node.this)}, {text(node.expression)})"


def _modulo(node: Any, dialect: str) -> Any:
    return (
        f"mod({text(node.this)}, {text(node.expression)})"
        if dialect != "duckdb"
        else f"({text(node.this)} % {text(node.expression)})"
    )


def _sum(node: Any, dialect: str) -> Any:
    """Addition and subtraction, of which one side may be an interval."""
    sign = "+" if type(node).__name__ == "Add" else "-"
    a, b = text(node.this), text(node.expression)
    if dialect == "tsql" and sign == "+":
        return f"tidegate.sum_or_text({a}, {b})"
    if type(node.expression).__name__ == "Interval":
        unit = str(node.expression.args["unit"]).upper()
        if literal(node.this) is not None:
            return None  # It may be meant as a date or as a moment.
        if dialect in _DATES_STAY and unit.removesuffix("S") in _LONG_UNITS:
            return f"tidegate.date_plus({a}, {'-' if sign == '-' else ''}{b})"
        return f"({a} {sign} {b})"
    if dialect == "mysql":
        return f"tidegate.number_{'plus' if sign == '+' else 'minus'}({a}, {b})"
    if sign == "-" and dialect in SPARK | {"trino", "bigquery"}:
        return f"tidegate.difference({a}, {b})"
    return node


def _interval(node: Any, dialect: str) -> Any:
    amount, unit = node.this, node.args.get("unit")
    value = literal(amount) or (str(amount.this) if whole(amount) is not None else None)
    if value is None or unit is None or not re.fullmatch(r"-?\d+", value):
        return None
    name = str(unit.this).upper().removesuffix("S")
    return node if name in _LONG_UNITS - {"QUARTER"} | {"HOUR", "MINUTE", "SECOND"} else None


def _cast(node: Any, dialect: str) -> Any:
    if type(node.args.get("to")).__name__ != "Var":
        return None
    if type(node).__name__ == "TryCast" and dialect not in SPARK:
        return None
    return _as_type(node.args["to"].name, node.this, dialect)


def _converted(node: Any, dialect: str) -> Any:
    """CONVERT(type, value)."""
    return _as_type(node.this.name, node.expression, dialect) if type(node.this).__name__ == "Var" else None


def _as_type(wanted: str, given: Any, dialect: str) -> str:
    value = text(given)
    if literal(given) is not None and wanted.startswith("timestamp(3)"):
        wanted = "timestamp"  # Of as many digits as are written.
    whole = wanted in ("integer", "bigint", "smallint")
    if whole and dialect in SPARK | {"tsql"}:
        return f"tidegate.truncated({value})::{wanted}"
    if whole and dialect not in ("duckdb", "mysql") and literal(given) is None:
        return f"tidegate.rounded_away({value})::{wanted}"
    if wanted == "text" and literal(given) is None:
        return f"tidegate.{'spark_text' if dialect in SPARK else 'text_of'}({value})"
    if wanted.startswith(("varchar", "char")) and literal(given) is None:
        return f"tidegate.text_of({value})::{wanted}"
    return f"{value}::{wanted}"


def _type(node: Any, dialect: str) -> Any:
    kind = getattr(node.this, "name", str(node.this))
    parts = node.expressions
    if kind == "ARRAY" and len(parts) == 1 and type(parts[0]).__name__ == "Var":
        return f"{parts[0].name}[]"
    parameters = tuple(part.this.name for part in parts if type(part).__name__ == "DataTypeParam")
    if len(parameters) != len(parts) or node.args.get("nested") or not all(map(str.isdigit, parameters)):
        return None
    return type_name(dialect, kind, parameters)


def _like(node: Any, dialect: str) -> Any:
    pattern = literal(node.expression)
    if dialect == "tsql" and (pattern is None or "[" in pattern):
        return None
    operator = "ilike" if type(node).__name__ == "ILike" else "like"
    operator = f"not {operator}" if node.args.get("negate") else operator
    if dialect in _LIKE_WITHOUT_ESCAPE:
        return f"({text(node.this)} {operator} {text(node.expression)} escape '')"
    if pattern is not None and _BACKSLASHED.search(pattern):
        return None  # Some read the character after it, others both, and Spark neither.
    return f"({text(node.this)} {operator} {text(node.expression)})"


def _joined(node: Any, dialect: str) -> Any:
    """CONCAT: NULL when one of its arguments is, but for DuckDB and T-SQL, where NULL is the empty string."""
    parts = [_as_text(each, dialect) for each in node.expressions]
    return f"concat({', '.join(parts)})" if dialect in ("duckdb", "tsql") else f"({' || '.join(parts)})"


def _as_text(node: Any, dialect: str) -> str:
    if literal(node) is not None:
        return f"{text(node)}::text"
    return f"tidegate.{'spark_text' if dialect in SPARK else 'text_of'}({text(node)})"


def _joined_with(node: Any, dialect: str) -> Any:
    separator, *parts = node.expressions
    return f"concat_ws({', '.join([text(separator), *[_as_text(each, dialect) for each in parts]])})"


def _pipes(node: Any, dialect: str) -> Any:
    return f"({_as_text(node.this, dialect)} || {_as_text(node.expression, dialect)})"


def _substring(node: Any, dialect: str) -> Any:
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        return None
    at, value = whole(start), text(node.this)
    parts = [value, text(start)] + ([] if length is None else [text(length)])
    if at and (length is None or whole(length) is not None):
        return f"substr({', '.join(parts)})"
    if dialect not in SPARK:
        return None
    return f"tidegate.substring_from_end({', '.join(parts)})"


def _ends(node: Any, dialect: str) -> Any:
    """LEFT and RIGHT, whose negative counts are PostgreSQL's own."""
    count = whole(node.expression)
    wanted = text(node.expression) if count is not None else f"({text(node.expression)})::int"
    if count is None and dialect != "duckdb":
        wanted = f"greatest({wanted}, 0)"
    return f"{type(node).__name__.lower()}({text(node.this)}, {wanted})"


def _most(node: Any, dialect: str) -> Any:
    """GREATEST and LEAST."""
    values = [text(node.this), *map(text, node.expressions)]
    name = type(node).__name__.lower()
    if dialect in SPARK | {"duckdb", "tsql"} and dialect != "hive":
        return f"{name}({', '.join(values)})"
    missing = " or ".join(f"{value} is null" for value in values)
    return f"(case when {missing} then null else {name}({', '.join(values)}) end)"


def _matches(node: Any, dialect: str) -> Any:
    pattern = literal(node.expression)
    if (
        pattern is None
        or node.args.get("flag")
        or not _SAFE_REGEX.fullmatch(pattern)
        or dialect in ("mysql", "snowflake")
    ):
        return None
    return f"({text(node.this)} ~ {text(node.expression)})"


def _replaced(node: Any, dialect: str) -> Any:
    pattern, by = literal(node.expression), literal(node.args.get("replacement"))
    if dialect not in SPARK or pattern is None or by is None or "\\" in by or "$" in by:
        return None
    if not _SAFE_REGEX.fullmatch(pattern):
        return None
    return f"regexp_replace({text(node.this)}, {text(node.expression)}, {text(node.args['replacement'])}, 'g')"


def _logarithm(node: Any, dialect: str) -> Any:
    """LOG of one argument."""
    if node.expression:
        return f"log(({text(node.this)})::numeric, ({text(node.expression)})::numeric)::float8"
    natural = dialect in SPARK | {"mysql", "bigquery", "tsql"}
    return f"{'ln' if natural else 'log'}({text(node.this)}::float8)" if dialect not in ("trino", "snowflake") else None


def _hash(node: Any, dialect: str) -> Any:
    length = node.args.get("length")
    if length is not None and whole(length) not in (0, 224, 256, 384, 512):
        return None
    bits = (whole(length) if length is not None else None) or 256
    return f"encode(sha{bits}(convert_to({text(node.this)}, 'UTF8')), 'hex')"


def _formatted(node: Any, dialect: str) -> Any:
    """DATE_FORMAT and its like."""
    return _formatted_text(text(node.this), literal(node.args.get("format")))


def _formatted_text(value: str, pattern: str | None) -> str | None:
    if pattern is None:
        return None
    parts: list[str] = []
    for piece in re.findall(r"%[A-Za-z](?:strict)?|%.?|[^%]+", pattern):
        known = _FORMATS.get(piece.removesuffix("strict"))
        if known is None and (piece.startswith("%") or '"' in piece or "\\" in piece):
            return None
        parts.append(known or (f'"{piece}"' if re.search(r"[A-Za-z]", piece) else piece))
    return f"to_char({value}::timestamp, '{''.join(parts).replace(chr(39), chr(39) * 2)}')"


def _truncated(node: Any, dialect: str) -> Any:
    """DATE_TRUNC: `DateTrunc` is that of a date in the Spark family, and of what it is given elsewhere."""
    unit = node.args.get("unit")
    if dialect == "hive":
        return None  # What sqlglot reads there it also reads of Spark's, and not the other way round.
    name = "" if unit is None else str(unit.this).upper()
    name = _UNITS_OF_SPARK.get(name, name) if dialect in SPARK else name
    if name not in _TRUNCATED or (name == "WEEK" and dialect in ("bigquery", "tsql", "snowflake")):
        return None
    value, kind = text(node.this), type(node).__name__
    if kind == "DateTrunc" and dialect in SPARK:
        return f"date_trunc('{name.lower()}', {value}::date)::date"
    if dialect in SPARK:
        return f"date_trunc('{name.lower()}', {value}::timestamp)"
    return f"tidegate.{'date_trunc_alike' if dialect != 'duckdb' else 'date_trunc_plain'}('{name.lower()}', {value})"


def _field(node: Any, dialect: str) -> Any:
    name = str(node.this.this if hasattr(node.this, "this") else node.this).upper()
    value = text(node.expression)
    if name in _DAYS_FROM_ONE.get(dialect, ()):
        return f"(extract(dow from {value})::int + 1)"
    field = _FIELDS_OF.get(dialect, {}).get(name) or _FIELDS.get(name)
    return None if field is None else f"extract({field} from {value})::int"


def _bits(node: Any, dialect: str) -> Any:
    """Operators on bits, whose results are unsigned in MySQL."""
    return None if dialect in ("mysql", "snowflake", "tsql") else node


def _shifted(node: Any, dialect: str) -> Any:
    return node if dialect in SPARK else None


def _grouped(node: Any, dialect: str) -> Any:
    """GROUP BY, of which WITH ROLLUP and WITH CUBE at the end mean all that stands before."""
    for name in ("rollup", "cube"):
        parts = node.args.get(name) or []
        if len(parts) == 1 and not parts[0].expressions:
            parts[0].set("expressions", node.expressions)
            node.set("expressions", [])
    return node


def _select(node: Any, dialect: str) -> Any:
    """A SELECT: hints say how and not what, and LATERAL VIEW explode(...) is a join with the elements."""
    node.set("hint", None)
    node.set("joins", [*(node.args.get("joins") or []), *(node.args.get("laterals") or [])])
    node.set("laterals", None)
    return node


def _span(node: Any, dialect: str) -> Any:
    """TIMESTAMPDIFF: whole units between two moments."""
    unit = str(getattr(node.args.get("unit"), "this", "")).upper()
    seconds = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400}.get(unit)
    if seconds is None or dialect not in ("spark", "databricks", "mysql"):
        return None
    later, earlier = text(node.this), text(node.expression)
    return f"trunc(extract(epoch from {later}::timestamp - {earlier}::timestamp) / {seconds})::bigint"


def _seconds(node: Any, dialect: str) -> Any:
    """UNIX_TIMESTAMP of a moment, or of a text as a cast reads it."""
    if dialect not in SPARK or literal(node.args.get("format")) != _SPARKS_OWN:
        return None
    return f"floor(extract(epoch from {text(node.this)}::timestamptz))::bigint"


_SPARKS_OWN = "%Y-%mstrict-%dstrict %Hstrict:%Mstrict:%Sstrict"


def _moment_of_seconds(node: Any, dialect: str) -> Any:
    """FROM_UNIXTIME of the Spark family, a text."""
    if dialect not in SPARK:
        return None
    return _formatted_text(f"to_timestamp({text(node.this)})", literal(node.args.get("format")))


def _shown(node: Any, dialect: str) -> Any:
    """Snowflake's TO_CHAR and TO_VARCHAR of a date or a moment."""
    pattern = literal(node.args.get("format"))
    if dialect != "snowflake" or (pattern is None and node.args.get("format") is not None):
        return None
    if pattern is None:
        return f"tidegate.text_of({text(node.this)})"
    parts = re.findall(r"[A-Za-z]+\d*|[^A-Za-z]+", pattern)
    known = [_OF_SNOWFLAKE.get(part.upper()) if part[0].isalpha() else part for part in parts]
    if None in known or re.search(r"[\"'\\\d]", "".join(part for part in parts if not part[0].isalpha())):
        return None
    return f"to_char({text(node.this)}::timestamp, '{''.join(map(str, known))}')"


_OF_SNOWFLAKE: Mapping[str, str] = {
    "YYYY": "YYYY", "YY": "YY", "MM": "MM", "DD": "DD", "HH24": "HH24", "HH12": "HH12", "MI": "MI", "SS": "SS",
    "MON": "Mon", "MMMM": "FMMonth", "DY": "Dy", "AM": "AM", "PM": "AM", "YYYYMMDD": "YYYYMMDD", "YYYYMM": "YYYYMM",
    "FF3": "MS", "FF6": "US",
}  # fmt: skip


def _safe_quotient(node: Any, dialect: str) -> Any:
    """SAFE_DIVIDE."""
    a, b = text(node.this), text(node.expression)
    return f"tidegate.quotient({a}, nullif({b}, 0))" if dialect == "bigquery" else None


def _either(node: Any, dialect: str) -> Any:
    """OR and AND, of which MySQL's ``||`` is one: it takes texts for numbers."""
    texts = any(literal(each) is not None for each in (node.this, node.expression))
    return None if texts and dialect == "mysql" else node


_MOVED: Mapping[str, str] = {
    "DAY": "days", "WEEK": "weeks", "MONTH": "months", "YEAR": "years", "HOUR": "hours", "MINUTE": "mins",
}  # fmt: skip


def _moved(node: Any, dialect: str) -> Any:
    """DATE_ADD and DATE_SUB of a date or a moment; what a text is meant as, each dialect decides by itself."""
    unit = _MOVED.get(str(getattr(node.args.get("unit"), "this", "")).upper())
    if unit is None or literal(node.this) is not None or dialect in SPARK | {"duckdb"}:
        return None
    sign = "-" if type(node).__name__ == "DateSub" else ""
    interval = f"make_interval({unit} => {sign}({text(node.expression)})::int)"
    moved = "moment_plus" if unit in ("hours", "mins") else "date_plus"
    return f"tidegate.{moved}({text(node.this)}, {interval})"


def _list(node: Any, dialect: str) -> Any:
    """COLLECT_LIST."""
    if dialect in ("duckdb", "trino"):
        return f"array_agg({_inner(node.this)})"
    if dialect not in SPARK:
        return None
    value = text(node.this)
    return f"coalesce(array_agg({value}) filter (where {value} is not null), '{{}}')"


def _inner(node: Any) -> str:
    """An argument with what ORDER BY says after it."""
    written: str = node.sql(dialect="postgres", comments=False)
    return written


def _concatenated(node: Any, dialect: str) -> Any:
    """string_agg and its like, whose order stands behind the separator."""
    separator = node.args.get("separator")
    if separator is None and dialect != "mysql":
        return None
    value, order = node.this, ""
    if type(value).__name__ == "Order":
        order = " ORDER BY " + ", ".join(map(_inner, value.expressions))
        value = value.this
    cast = "::text" if dialect in ("mysql", "snowflake") else ""
    distinct = "DISTINCT " if type(value).__name__ == "Distinct" else ""
    if distinct:
        if len(value.expressions) != 1 or order:
            return None
        value = value.expressions[0]
    between = "','" if separator is None else text(separator)
    return f"string_agg({distinct}{text(value)}{cast}, {between}{order})"


def _without_nulls(node: Any, dialect: str) -> Any:
    """any_value of DuckDB, which it reads as one that leaves out NULLs."""
    known = type(node.this).__name__ == "Var" and str(node.this.this).startswith("(array_agg(")
    return node.this if known and dialect == "duckdb" else None


def _given(node: Any) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, False, [])]


def _of_user(node: Any, dialect: str) -> Any:
    """A function that sqlglot has no node for: some that are known by their names, else a user's."""
    name = str(node.this).lower()
    values = [text(each) for each in node.expressions]
    template = _BY_NAME.get((name, len(values)))
    if template is not None and dialect in template[0]:
        return template[1].format(*values)
    return None


_BY_NAME: Mapping[tuple[str, int], tuple[frozenset[str], str]] = {
    ("unix_timestamp", 0): (frozenset({"mysql"}), "floor(extract(epoch from now()))::bigint"),
    ("unix_timestamp", 1): (frozenset({"mysql"}), "trim_scale(extract(epoch from {0}::timestamptz))"),
    ("isnull", 1): (SPARK | {"mysql"}, "({0} is null)"),
    ("isnotnull", 1): (SPARK, "({0} is not null)"),
    ("now", 0): (frozenset({"spark", "databricks", "trino", "duckdb", "mysql"}), "now()"),
    ("weekday", 1): (SPARK | {"mysql"}, "(extract(isodow from {0}::date)::int - 1)"),
    ("pmod", 2): (SPARK, "mod(mod({0}, {1}) + {1}, {1})"),
    ("every", 1): (SPARK | {"trino"}, "bool_and({0})"),
    ("some", 1): (SPARK, "bool_or({0})"),
    ("make_date", 3): (SPARK | {"duckdb"}, "make_date({0}, {1}, {2})"),
    ("bigint", 1): (SPARK, "tidegate.truncated({0})::bigint"),
    ("cardinality", 1): (SPARK | {"trino"}, "cardinality({0})"),
}

LINES: tuple[tuple[str, str, Rule], ...] = (
    ("Literal", "this is_string", _number),
    ("RawString", "this", _raw_string),
    ("Identifier", "this quoted", _identifier),
    ("Parameter Placeholder", "this", _parameter),
    ("Div", "this expression typed safe", _division),
    ("IntDiv", "this expression", _whole_division),
    ("Mod", "this expression", _modulo),
    ("Add Sub", "this expression", _sum),
    ("Interval", "this unit", _interval),
    ("Cast TryCast", "this to", _cast),
    ("Convert", "this expression", _converted),
    ("DataType", "this expressions nested", _type),
    ("Like ILike", "this expression negate", _like),
    ("Concat", "expressions safe coalesce", _joined),
    ("ConcatWs", "expressions safe coalesce flatten", _joined_with),
    ("DPipe", "this expression safe", _pipes),
    ("Substring", "this start length zero_start", _substring),
    ("Left Right", "this expression", _ends),
    ("Greatest Least", "this expressions ignore_nulls", _most),
    ("RegexpLike", "this expression", _matches),
    ("RegexpReplace", "this expression replacement modifiers", _replaced),
    ("Log", "this expression", _logarithm),
    ("SHA2", "this length", _hash),
    ("TimeToStr", "this format", _formatted),
    ("DateTrunc TimestampTrunc", "this unit input_type_preserved", _truncated),
    ("Extract", "this expression", _field),
    ("DateAdd DateSub", "this expression unit", _moved),
    ("TimestampDiff", "this expression unit", _span),
    ("ArrayAgg", "this nulls_excluded", _list),
    ("Anonymous", "this expressions", _of_user),
    ("BitwiseAnd BitwiseOr BitwiseXor BitwiseNot", "this expression", _bits),
    ("BitwiseLeftShift BitwiseRightShift", "this expression", _shifted),
    ("Group", "expressions rollup cube grouping_sets", _grouped),
    ("Select", " ".join(VOUCHED["Select"]) + " hint laterals", _select),
    ("GroupConcat", "this separator", _concatenated),
    ("IgnoreNulls", "this", _without_nulls),
    ("StrToUnix", "this format", _seconds),
    ("UnixToStr", "this format", _moment_of_seconds),
    ("ToChar", "this format", _shown),
    ("SafeDivide", "this expression", _safe_quotient),
    ("And Or", "this expression", _either),
)
"""By node: the arguments that it may have, and its rule."""
