"""Rules of dates and moments: texts of a format in both directions, what lies between two, and what is moved.

See `planner.syntax.dialects.rules` for what a rule is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from planner.syntax.dialects.names import sqlglot_module
from planner.syntax.dialects.rules import SPARK, Rule, literal, text

_FORMATS: Mapping[str, str] = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%H": "HH24", "%I": "HH12", "%M": "MI", "%S": "SS", "%j": "DDD",
    "%p": "AM", "%b": "Mon", "%B": "FMMonth", "%a": "Dy", "%A": "FMDay", "%-m": "FMMM", "%-d": "FMDD",
    "%-H": "FMHH24", "%-I": "FMHH12", "%-M": "FMMI", "%-S": "FMSS", "%-j": "FMDDD", "%f": "US",
}  # fmt: skip
"""What the parts of a format, as sqlglot writes them, are for to_char."""

_PIECES = re.compile(r"%-?[A-Za-z](?:strict)?|%.?|[^%]+")
_PIECES_OF_LETTERS = re.compile(r"%-?[A-Za-z](?:strict)?|%.?|'(?:[^']|'')*'|S+|[^%'S]+")
_LETTERS = SPARK | {"tsql"}
"""Where each letter of a format stands for something, unless it is in quotes."""

_FAMILIES: Mapping[str, str] = {
    "Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day", "j": "day of the year",
    "H": "hour", "I": "hour", "M": "minute", "S": "second", "f": "fraction", "a": "weekday", "A": "weekday",
}  # fmt: skip

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_READ: Mapping[str, tuple[str, str]] = {
    "%Y": ("year", r"\d{4}"), "%m": ("month", r"\d{1,2}"), "%d": ("day", r"\d{1,2}"), "%H": ("hour", r"\d{1,2}"),
    "%I": ("hour", r"\d{1,2}"), "%M": ("minute", r"\d{1,2}"), "%S": ("second", r"\d{1,2}"),
    "%f": ("fraction", r"\d{1,6}"), "%p": ("half", "AM|PM"), "%B": ("month", _MONTHS),
    "%b": ("month", "[A-Za-z]{3}"),
}  # fmt: skip
"""What the parts of a format read: a part of a moment, and how it is written."""


def _pieces(pattern: str, dialect: str) -> list[str] | None:
    """The parts of a format: what begins with % has a meaning, all else stands for itself. None where a letter is
    left that has a meaning which nobody has vouched for."""
    if dialect not in _LETTERS:
        return _PIECES.findall(pattern)
    found = []
    for piece in _PIECES_OF_LETTERS.findall(pattern):
        if piece.startswith("%"):
            found.append(piece)
        elif piece.startswith("'"):
            found.append(piece[1:-1].replace("''", "'") or "'")
        elif set(piece) == {"S"} and dialect in SPARK and len(piece) <= 6:
            found.append(f"%{len(piece)}f")
        elif re.search("[A-Za-z]", piece):
            return None
        else:
            found.append(piece)
    families = [_FAMILIES.get(piece.removesuffix("strict")[-1]) if piece.startswith("%") else None for piece in found]
    if "day of the year" in families or any(one and one == other for one, other in pairwise(families)):
        return None  # Of three letters or five, of which sqlglot has read two.
    return found


def _formatted(node: Any, dialect: str) -> Any:
    """DATE_FORMAT and its like."""
    return _formatted_text(text(node.this), literal(node.args.get("format")), dialect)


def _formatted_text(value: str, pattern: str | None, dialect: str) -> str | None:
    pieces = None if pattern is None else _pieces(pattern, dialect)
    if pieces is None:
        return None
    parts: list[str] = []
    for piece in pieces:
        known = _FORMATS.get(piece.removesuffix("strict"))
        known = {"%3f": "MS", "%6f": "US"}.get(piece, known)
        if known is None and (piece.startswith("%") or '"' in piece or "\\" in piece):
            return None
        parts.append(known or (f'"{piece}"' if re.search(r"[A-Za-z]", piece) else piece))
    return f"to_char({value}::timestamp, '{''.join(parts).replace(chr(39), chr(39) * 2)}')"


def _parsed(node: Any, dialect: str) -> Any:
    """TO_DATE, STR_TO_DATE, STRPTIME and their like: a text of a format that is written out. What has another shape is
    an error, also where it is NULL, or is read in some way, elsewhere."""
    kind, format = type(node).__name__, node.args.get("format")
    if format is None:
        known = dialect == "tsql" or not node.args.get("default_date")
        return f"{text(node.this)}::date" if kind == "TsOrDsToDate" and known else None
    pattern = literal(format)
    shape = None if pattern is None or dialect in ("hive", "tsql") else _shape(pattern, dialect)
    if shape is None:
        return None
    reads, moment = shape
    shown = _as_written(format, dialect)
    reads = "'" + reads.replace("'", "''") + "'"
    made = f"regexp_replace(tidegate.shaped({text(node.this)}, {reads}, {shown}), {reads}, '{moment}')"
    if kind in ("TsOrDsToDate", "StrToDate"):
        return f"{made}::timestamp::date"
    return f"{made}::{'timestamptz' if dialect in SPARK else 'timestamp'}"


def _as_written(format: Any, dialect: str) -> str:
    """A format as the dialect has it, as a constant."""
    sqlglot = sqlglot_module()
    own = sqlglot.Dialect.get_or_raise(dialect).generator()
    written = own.format_time(sqlglot.exp.StrToTime(this=sqlglot.exp.Null(), format=format.copy()))
    shown = str(sqlglot.parse_one(written, read=dialect).name)
    return "'" + shown.replace("'", "''") + "'"


def _shape(pattern: str, dialect: str) -> tuple[str, str] | None:
    """The regular expression of a text of a format, and what it is replaced by: the moment as PostgreSQL reads it."""
    pieces = _pieces(pattern, dialect) or []
    shape, places = "", dict[str, int]()
    for number, piece in enumerate(pieces):
        if not piece.startswith("%"):
            shape += re.sub(r"([^\w ,:;/'\-])", r"\\\1", piece)
            continue
        strict = piece.endswith("strict") or (piece[1].isdigit() and len(piece) == 3)
        name = re.sub(r"(?<=%)[-\d]", "", piece.removesuffix("strict"))
        if name not in _READ:
            return None
        part, digits = _READ[name]
        if name == "%b" and dialect in SPARK:
            digits = "|".join(month[:3] for month in _MONTHS.split("|"))
        beside = [each[:1] == "%" for each in pieces[max(number - 1, 0) : number] + pieces[number + 1 : number + 2]]
        if digits.startswith(r"\d{1") and any(beside) and not strict:
            if piece[1] == "-" or name == "%f":
                return None  # How many digits are its own?
            strict = True
        if strict:
            width = int(piece[1]) if piece[1].isdigit() else 2
            digits = rf"\d{{{width}}}"
        if part in places:
            return None
        places[part] = len(places) + 1
        shape += f"({digits})"
    if "year" not in places or ("half" in places) != ("%I" in re.sub("strict|-", "", pattern)):
        return None
    if dialect == "mysql" and not {"month", "day"} <= places.keys():
        return None  # Days of no month.
    year, month, day = (rf"\{places[part]}" if part in places else "01" for part in ("year", "month", "day"))
    hour, minute, second = (rf"\{places[part]}" if part in places else "00" for part in ("hour", "minute", "second"))
    fraction = rf".\{places['fraction']}" if "fraction" in places else ""
    half = rf" \{places['half']}" if "half" in places else ""
    return f"^{shape}$", f"{year}-{month}-{day} {hour}:{minute}:{second}{fraction}{half}"


_SECONDS: Mapping[str, int] = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_MONTHS_OF: Mapping[str, int] = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _unit(node: Any) -> str:
    return str(getattr(node.args.get("unit"), "this", "")).upper()


def _span(node: Any, dialect: str) -> Any:
    """TIMESTAMPDIFF: whole units between two moments."""
    if dialect not in ("spark", "databricks", "mysql", "bigquery"):
        return None
    unit, later, earlier = _unit(node), f"{text(node.this)}::timestamp", f"{text(node.expression)}::timestamp"
    months = _MONTHS_OF.get(unit)
    if months is not None and dialect != "bigquery":
        between = "calendar_months" if dialect == "mysql" else "whole_months"
        return f"(tidegate.{between}({later}, {earlier}) / {months})"
    seconds = _SECONDS.get(unit)
    if seconds is None or (unit == "WEEK" and dialect == "bigquery"):
        return None
    return f"trunc(extract(epoch from {later} - {earlier}) / {seconds})::bigint"


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
    return _formatted_text(f"to_timestamp({text(node.this)})", literal(node.args.get("format")), dialect)


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


_MOVED: Mapping[str, str] = {
    "DAY": "days", "WEEK": "weeks", "MONTH": "months", "QUARTER": "months", "YEAR": "years", "HOUR": "hours",
    "MINUTE": "mins", "SECOND": "secs",
}  # fmt: skip


def _interval_of(node: Any) -> tuple[str, bool] | None:
    """The interval by which a date or moment is moved, and whether it is one of hours and less."""
    unit = _unit(node)
    name = _MOVED.get(unit)
    if name is None:
        return None
    amount = f"({text(node.expression)})::int" + (" * 3" if unit == "QUARTER" else "")
    sign = "-" if type(node).__name__.endswith("Sub") else ""
    return f"make_interval({name} => {sign}{amount})", name in ("hours", "mins", "secs")


def _moved(node: Any, dialect: str) -> Any:
    """DATE_ADD and DATE_SUB of a date or a moment; what a text is meant as, each dialect decides by itself."""
    interval = _interval_of(node)
    if interval is None or literal(node.this) is not None or dialect in SPARK | {"duckdb"}:
        return None
    return f"tidegate.{'moment_plus' if interval[1] else 'date_plus'}({text(node.this)}, {interval[0]})"


def _moment_moved(node: Any, dialect: str) -> Any:
    """TIMESTAMPADD, and BigQuery's functions of moments."""
    if dialect == "mysql":
        return _moved(node, dialect)
    interval = _interval_of(node)
    if interval is None:
        return None
    if dialect in ("spark", "databricks"):
        return f"({text(node.this)}::timestamptz + {interval[0]})"
    long = type(node).__name__.startswith("Timestamp") and _unit(node) in ("WEEK", "MONTH", "QUARTER", "YEAR")
    return f"tidegate.moment_plus({text(node.this)}, {interval[0]})" if dialect == "bigquery" and not long else None


LINES: tuple[tuple[str, str, Rule], ...] = (
    ("TimeToStr", "this format", _formatted),
    ("TsOrDsToDate", "this format safe default_date", _parsed),
    ("StrToTime StrToDate", "this format default_year", _parsed),
    ("TimestampDiff", "this expression unit", _span),
    ("StrToUnix", "this format", _seconds),
    ("UnixToStr", "this format", _moment_of_seconds),
    ("ToChar", "this format", _shown),
    ("DateAdd DateSub", "this expression unit", _moved),
    ("TimestampAdd TimestampSub DatetimeAdd DatetimeSub", "this expression unit", _moment_moved),
)
"""See `planner.syntax.dialects.rules.RULES`."""
