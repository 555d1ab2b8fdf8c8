"""What has to be repaired: nodes that mean something else in another dialect, one rule for each.

A rule gets a node whose children are PostgreSQL's already, and gives PostgreSQL's node or text; None refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from planner.syntax.dialects.names import sqlglot_module, words
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
    """A text whose backslashes are themselves."""
    return sqlglot_module().exp.Literal.string(node.this)


def _national(node: Any, dialect: str) -> Any:
    """N'...', a text like others."""
    return sqlglot_module().exp.Literal.string(node.this) if dialect in ("tsql", "mysql") else None


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
    return f"({text(node.this)} ~ {_regex(pattern)})"


_OTHER_MATCH = re.compile(r"\||[*+?}]\?|\)[*+?{]")
"""Where PostgreSQL's engine may find a longer match than those that try one way after the other: alternatives, lazy
counts and groups that are repeated."""


def _regex(pattern: str) -> str:
    """A regular expression whose dots mean no newline, as those of other engines do."""
    parts = re.findall(r"\\.|\[\^?[^\]]*\]|.", pattern, re.DOTALL)
    return "'" + "".join(r"[^\n]" if part == "." else part for part in parts).replace("'", "''") + "'"


def _replaced(node: Any, dialect: str) -> Any:
    """REGEXP_REPLACE, of all matches but for DuckDB's without 'g'."""
    pattern, by = literal(node.expression), literal(node.args.get("replacement"))
    options = literal(node.args["modifiers"]) if node.args.get("modifiers") else ""
    if dialect not in SPARK | {"trino", "bigquery", "duckdb"} or pattern is None or by is None:
        return None
    if "\\" in by or "$" in by or not _SAFE_REGEX.fullmatch(pattern) or _OTHER_MATCH.search(pattern):
        return None
    if options not in ("", "g") or (options and dialect != "duckdb"):
        return None
    every = ", 'g'" if options or dialect != "duckdb" else ""
    return f"regexp_replace({text(node.this)}, {_regex(pattern)}, {text(node.args['replacement'])}{every})"


def _decoded(node: Any, dialect: str) -> Any:
    """DECODE with pairs of values and results: CASE where NULL is like NULL."""
    value, *rest = map(text, node.expressions)
    pairs = zip(rest[::2], rest[1::2], strict=False)
    branches = " ".join(f"when {value} is not distinct from {wanted} then {result}" for wanted, result in pairs)
    other = f" else {rest[-1]}" if len(rest) % 2 else ""
    return f"(case {branches}{other} end)" if dialect in ("spark", "databricks", "snowflake") and branches else None


def _within_group(node: Any, dialect: str) -> Any:
    """PERCENTILE_CONT ... WITHIN GROUP of one order, as PostgreSQL has it."""
    kind, order = type(node.this).__name__, node.expression
    keys = order.expressions if type(order).__name__ == "Order" else []
    if kind != "Var" or not str(node.this.this).startswith("percentile_") or len(keys) != 1:
        return None
    down = " desc" if keys[0].args.get("desc") else ""
    return f"{node.this.this} within group (order by {text(keys[0].this)}{down})"


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


def _truncated(node: Any, dialect: str) -> Any:
    """DATE_TRUNC: `DateTrunc` is that of a date in the Spark family, and of what it is given elsewhere."""
    unit = node.args.get("unit")
    if dialect == "hive":
        return None  # What sqlglot reads there it also reads of Spark's, and not the other way round.
    name = "" if unit is None else str(unit.this).upper()
    name = _UNITS_OF_SPARK.get(name, name) if dialect in SPARK else name
    if name == "ISOWEEK" and dialect == "bigquery":
        return f"tidegate.date_trunc_alike('week', {text(node.this)})"
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


def _safe_quotient(node: Any, dialect: str) -> Any:
    """SAFE_DIVIDE."""
    a, b = text(node.this), text(node.expression)
    return f"tidegate.quotient({a}, nullif({b}, 0))" if dialect == "bigquery" else None


_TRUTHS = words("EQ NEQ GT GTE LT LTE Is Between In Exists Boolean Null And Or Not NullSafeEQ NullSafeNEQ")


def _truth(node: Any) -> Any:
    """MySQL's condition, which may be a number; a text is none that could be translated."""
    inner = node.unnest()
    if type(inner).__name__ in _TRUTHS:
        return node
    return sqlglot_module().exp.Var(this=f"tidegate.truth({text(node)})")


def _either(node: Any, dialect: str) -> Any:
    """OR and AND, of which MySQL's ``||`` is one, NOT and conditions: MySQL takes numbers for them."""
    if dialect == "mysql":
        for key in ("this", "expression"):
            if node.args.get(key) is not None:
                node.set(key, _truth(node.args[key]))
    return node


def _one_of_two(node: Any, dialect: str) -> Any:
    """XOR."""
    if dialect != "mysql":
        return None
    return f"({text(_truth(node.this))} <> {text(_truth(node.expression))})"


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
    ("octet_length", 1): (frozenset({"spark", "databricks", "mysql", "duckdb"}), "octet_length({0})"),
    ("zeroifnull", 1): (frozenset({"spark", "databricks"}), "coalesce({0}, 0)"),
    ("nullifzero", 1): (frozenset({"spark", "databricks"}), "nullif({0}, 0)"),
    ("mid", 3): (frozenset({"mysql"}), "tidegate.substring_from_end({0}, {1}, {2})"),
    ("adddate", 2): (frozenset({"mysql"}), "tidegate.date_plus({0}, make_interval(days => ({1})::int))"),
    ("subdate", 2): (frozenset({"mysql"}), "tidegate.date_plus({0}, make_interval(days => -({1})::int))"),
    ("choose", 3): (frozenset({"tsql"}), "(case {0} when 1 then {1} when 2 then {2} end)"),
    ("gcd", 2): (frozenset({"duckdb"}), "gcd({0}, {1})"),
    ("lcm", 2): (frozenset({"duckdb"}), "lcm({0}, {1})"),
    ("e", 0): (frozenset({"trino", "spark", "databricks", "hive"}), "exp(1::float8)"),
    ("from_iso8601_date", 1): (frozenset({"trino"}), "{0}::date"),
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
    ("RegexpReplace", "this expression replacement modifiers single_replace", _replaced),
    ("Log", "this expression", _logarithm),
    ("SHA2", "this length", _hash),
    ("DateTrunc TimestampTrunc", "this unit input_type_preserved", _truncated),
    ("Extract", "this expression", _field),
    ("ArrayAgg", "this nulls_excluded", _list),
    ("Anonymous", "this expressions", _of_user),
    ("BitwiseAnd BitwiseOr BitwiseXor BitwiseNot", "this expression", _bits),
    ("BitwiseLeftShift BitwiseRightShift", "this expression", _shifted),
    ("Group", "expressions rollup cube grouping_sets", _grouped),
    ("Select", " ".join(VOUCHED["Select"]) + " hint laterals", _select),
    ("GroupConcat", "this separator", _concatenated),
    ("IgnoreNulls", "this", _without_nulls),
    ("SafeDivide", "this expression", _safe_quotient),
    ("And Or Not Where Having", "this expression", _either),
    ("Xor", "this expression", _one_of_two),
    ("DecodeCase", "expressions", _decoded),
    ("WithinGroup", "this expression", _within_group),
    ("National", "this", _national),
)
"""By node: the arguments that it may have, and its rule."""
