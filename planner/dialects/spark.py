"""The SQL of Spark, in ANSI mode."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import ClassVar

from planner.dialects import spark_texts
from planner.dialects.dialect import JSON_FRACTIONS, Dialect
from planner.dialects.engine_name import EngineName
from planner.dialects.literals import COMMON_TYPES
from planner.dialects.quoting import quoted
from planner.dialects.time_zones import is_utc, known_to_engines
from planner.errors import FeatureNotSupported
from planner.ir.nodes import Interval
from planner.types import types
from planner.types.types import NumericShape, SqlType
from planner.values.datetimes.calendar_days import DAY_MICROS
from planner.values.datetimes.time_zones import setting_zone
from planner.values.floats.float_input import DECIMAL, HEXADECIMAL, INFINITE, NAN

_DAY = r"\d\d\d\d-\d\d-\d\d"
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d\d?\d?\d?\d?\d?)?)?"
_HEX4 = "[0-9a-fA-F]" * 4
_LONG = "make_dt_interval(0, 6)"
"""Longer than any hour that comes twice."""

BEFORE_PYTHON = "transform(array("
AFTER_PYTHON = "), u -> CASE WHEN u.e IS NULL THEN u.v ELSE raise_error(u.e) END)[0]"
"""Around a call of a function in Python: its value, or the error that it returns in its place."""


class SparkDialect(Dialect):
    """Spark SQL, ANSI mode."""

    string_constant = re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
    reads_catalog = False
    takes_values = False
    borrows_functions = True
    python_in_lambdas = False
    let_of_subqueries = False
    list_quantifiers = True
    quantified_subqueries = False
    computed_rows = False
    row_source = "VALUES (0)"  # Spark evaluates a projection of listed rows while it plans; without FROM it runs a job.
    late_constant = None
    python_in_all_joins = False
    subqueries_in_on = False
    lateral_lists = False
    recursive_union = False
    recursive_groups = False
    materialized_tables = False
    lazy_logic = True
    max_row_count = 2**31 - 1
    computed_row_counts = False
    subqueries_among_groups = False
    loses_volatile_conditions = False
    barrier = "rand() >= 0"
    subqueries_as_sort_keys = False
    windows_as_sort_keys = False
    outputs_in_sort_keys = False
    grouping_in_having = False
    lambdas_in_having = True
    sorts_above_having = False
    aggregated_subqueries = False
    totals_of_nothing = False
    ordered_aggregates = False
    volatile_window_keys = True
    unordered_ranks = False
    unordered_ranges = False
    filtered_windows = False
    group_frames = False
    frame_exclusion = False
    computed_frame_offsets = False
    dates_in_months = True
    usual_inputs: ClassVar[dict[int, str]] = {
        types.DATE: rf"\s*{_DAY}\s*",
        types.TIMESTAMP: rf"\s*{_DAY}([ T]{_CLOCK})?\s*",
        types.TIMESTAMPTZ: rf"\s*{_DAY}[ T]{_CLOCK}[+-]\d\d(:\d\d)?\s*",
        types.TIME: rf"\s*{_CLOCK}\s*",
        types.UUID: rf"\s*{_HEX4 * 2}-{_HEX4}-{_HEX4}-{_HEX4}-{_HEX4 * 3}\s*",
    }
    bounded_bigint = False  # Spark lets 2^63 through, and gives one less.
    first_group = "$1"
    list_function = "collect_list"
    expanding_function = "explode"
    first_position = 0
    whole_division = "div"
    json_string = spark_texts.JSON_STRING
    json_equality_key = f"regexp_replace({{0}}, r'{JSON_FRACTIONS}', '$1$2')"

    name: EngineName = "spark"
    text = "STRING"
    scalar_types: ClassVar[dict[int, str]] = {
        **COMMON_TYPES, types.INT4: "INT", types.BYTEA: "BINARY", types.TIME: "TIME(6)",
        types.TIMESTAMP: "TIMESTAMP_NTZ", types.TIMESTAMPTZ: "TIMESTAMP",
        types.INTERVAL: "STRUCT<months: INT, days: INT, micros: BIGINT>",
    }  # fmt: skip

    _ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024", "\n": "\\n", "\r": "\\r", "\t": "\\t"})

    def list_type(self, element: str) -> str:
        return f"ARRAY<{element}>"

    def struct_type(self, members: Sequence[tuple[str, str]]) -> str:
        return f"STRUCT<{', '.join([f'{name}: {kind}' for name, kind in members])}>"

    def string(self, value: str) -> str:
        return "'" + value.translate(self._ESCAPES) + "'"

    def binary(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def float8(self, value: float) -> str:
        if math.isfinite(value):
            return f"({value!r}D)" if value < 0 else f"{value!r}D"
        return f"CAST('{'Infinity' if value > 0 else '-Infinity' if value < 0 else 'NaN'}' AS DOUBLE)"

    def integer(self, value: int, oid: int) -> str:
        suffix = "" if oid == types.INT4 else "S" if oid == types.INT2 else "L"
        return f"{value}{suffix}" if value >= 0 else f"({value}{suffix})"

    def decimal(self, digits: str, shape: NumericShape) -> str:
        sign = "-" if digits[0] == "-" else ""
        whole, _, fraction = digits.lstrip("-").partition(".")
        if len(fraction) == shape.scale and len(whole.lstrip("0")) + len(fraction) == shape.precision:
            literal = f"{sign}{digits.lstrip('-')}BD"
            return f"({literal})" if sign else literal
        return f"CAST('{digits}' AS DECIMAL({shape.precision},{shape.scale}))"

    def infinite(self, oid: int, negative: bool) -> str:
        return spark_texts.infinite(oid, negative=negative)

    def date_of_days(self, days: str) -> str:
        return f"date_from_unix_date({days})"

    def days_of_date(self, date: str) -> str:
        return f"CAST(unix_date({date}) AS BIGINT)"

    def timestamp(self, text: str) -> str:
        return f"TIMESTAMP_NTZ '{text}'"

    def timestamptz(self, text: str) -> str:
        return f"TIMESTAMP '{text}+00:00'"

    def interval(self, months: str, days: str, micros: str) -> str:
        # Members of constants would count as never NULL, also where an outer join puts NULL for the whole.
        made = f"named_struct('months', {months}, 'days', {days}, 'micros', {micros})"
        return f"CAST({made} AS {self.scalar_types[types.INTERVAL]})"

    def array(self, items: Sequence[str]) -> str:
        return f"array({', '.join(items)})"

    def quoted_name(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def let(self, value: str, name: str, body: str) -> str:
        return f"transform(array({value}), {name} -> {body})[0]"

    def error(self, message: str) -> str:
        return f"raise_error({message})"

    def distinct(self, left: str, right: str, *, negated: bool) -> str:
        return f"({left} <=> {right})" if negated else f"(NOT ({left} <=> {right}))"

    def grouping(self, keys: Sequence[str]) -> str:
        bits = [f"CAST(grouping({key}) AS INT) * {1 << (len(keys) - 1 - index)}" for index, key in enumerate(keys)]
        return f"({' + '.join(bits)})"

    # ------------------------------------------------------------ lists and structs

    def record_field(self, record: str, index: int) -> str:
        # NOTE: possessive, so that Java's matcher does not call itself for each character.
        field = r'(?:"(?:[^"\\]++|""|\\\\)*+"|[^",()]*+)'
        pattern = self.string(f"^[(]{f'(?:{field},)' * index}({field})[,)]")
        found = f"regexp_extract({record}, {pattern}, 1)"
        bare = f"substring({found}, 2, length({found}) - 2)"
        for doubled in ('"', "\\"):
            bare = f"replace({bare}, {self.string(doubled * 2)}, {self.string(doubled)})"
        return f"CASE WHEN {found} = '' THEN NULL WHEN left({found}, 1) = '\"' THEN {bare} ELSE {found} END"

    def struct(self, members: Sequence[tuple[str, str]]) -> str:
        listed = ", ".join([f"'{name}', {sql}" for name, sql in members])
        return f"named_struct({listed})"

    def transform(self, array: str, name: str, body: str) -> str:
        return f"transform({array}, {name} -> {body})"

    def transform_indexed(self, array: str, name: str, position: str, body: str) -> str:
        return f"transform({array}, ({name}, {position}) -> {body})"

    def filter(self, array: str, name: str, condition: str) -> str:
        return f"filter({array}, {name} -> {condition})"

    def length(self, array: str) -> str:
        return f"size({array})"

    def join(self, array: str, separator: str) -> str:
        return f"array_join({array}, {separator})"

    def element(self, *, zero_based: bool, in_range: bool) -> str:
        return f"get({{0}}, {'{1}' if zero_based else '{1} - 1'})"

    def slice(self, type: SqlType) -> str:
        # greatest() passes over NULL.
        return "CASE WHEN {2} IS NOT NULL THEN slice({0}, {1}, greatest({2} - {1} + 1, 0)) END"

    def selected(self, array: str, places: str) -> str:
        # A lambda cannot hold what calls a function in Python, as the array may.
        both = f"named_struct('i', {array}, 'p', {places})"
        return f"transform(array({both}), b -> transform(b.p, p -> get(b.i, p - 1)))[0]"

    def repeated(self, item: str, count: str) -> str:
        return f"array_repeat({item}, {count})"

    def concatenated(self, left: str, right: str) -> str:
        return f"concat({left}, {right})"

    def nth(self, array: str, place: str) -> str:
        return f"get({array}, {place} - 1)"

    def with_elements(self, array: str, *, lower: str, upper: str, items: str, element: SqlType) -> str:
        before = f"slice({array}, 1, least({lower} - 1, size({array})))"
        missing = f"array_repeat({self.cast('NULL', element)}, greatest({lower} - 1 - size({array}), 0))"
        placed = f"slice({items}, 1, {upper} - {lower} + 1)"
        behind = f"slice({array}, {upper} + 1, greatest(size({array}) - {upper}, 0))"
        return f"concat({before}, {missing}, {placed}, {behind})"

    def element_key(self, element: str, key: str) -> str:
        return f"named_struct('n', {element} IS NULL, 'v', {key})"

    # ------------------------------------------------------------ texts

    def without_trailing_blanks(self, text: str) -> str:
        return f"rtrim({text})"

    def without_leading(self, text: str, characters: str) -> str:
        return f"trim(LEADING {characters} FROM {text})"

    def without_trailing_zeros(self, digits: str) -> str:
        return f"regexp_replace({digits}, '\\\\.?0+$', '')"

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} RLIKE {self.string(pattern)}"

    def matches_fully(self, text: str, pattern: str) -> str:
        return f"({text} RLIKE {self.string(f'^{pattern}$')})"

    def float_input(self, oid: int) -> str:
        # Java takes hexadecimal numbers, with exponents only. No function in Python: Spark calls none in lambdas.
        name = "real" if oid == types.FLOAT4 else "double precision"
        held = self.scalar_types[oid]
        blanks = self.string(r"^\s+|\s+$")
        trimmed = f"regexp_replace({{0}}, {blanks}, '')"
        number = (
            f"CASE WHEN {self.matches('{0}', '[xX]')} AND NOT {self.matches('{0}', '[pP]')} "
            f"THEN concat({trimmed}, 'p0') ELSE {trimmed} END"
        )
        value = f"CAST({number} AS {held})"
        some = self.matches("{0}", r"^\s*[+-]?(0[xX][0.]*[1-9a-fA-F]|[0.]*[1-9])")
        out_of_range = self.raise_about("22003", '"', trimmed, f'" is out of range for type {name}')
        nan, infinite, finite = (
            self.matches("{0}", rf"^\s*[+-]?({pattern})\s*$") for pattern in (NAN, INFINITE, f"{HEXADECIMAL}|{DECIMAL}")
        )
        return (
            f"CASE WHEN {nan} THEN CAST('NaN' AS {held}) WHEN {infinite} THEN CAST({trimmed} AS {held}) "
            f"WHEN {finite} THEN CASE WHEN {self.is_infinite(value)} OR ({value} = 0 AND {some}) THEN {out_of_range} "
            f"ELSE {value} END WHEN {{0}} IS NOT NULL THEN {self.raise_invalid_input(name, '{0}')} END"
        )

    def float_text(self, oid: int) -> str:
        return spark_texts.float_text(oid)

    def interval_text(self, style: str) -> str:
        if style != "postgres":
            raise FeatureNotSupported("a cast of an interval to text in this IntervalStyle is not supported on spark")
        return spark_texts.INTERVAL

    def moment_text(self, moment: str) -> str:
        return spark_texts.moment_text(moment)

    def timestamptz_text(self, timezone: str) -> str:
        return spark_texts.timestamptz_text(self.to_local_time(timezone), utc=is_utc(timezone))

    # ------------------------------------------------------------ numbers

    def is_finite(self, number: str) -> str:
        return f"abs({number}) < double('Infinity')"

    def is_infinite(self, number: str) -> str:
        return f"abs({number}) = double('Infinity')"

    def significant_digits(self, number: str, digits: int) -> str:
        return f"format_string('%.{digits - 1}e', {number})"

    def half_even(self, number: str) -> str:
        return f"rint({number})"

    def half_away(self, number: str) -> str:
        return f"round({number})"

    def wide_integer(self) -> str:
        return "DECIMAL(19,0)"

    # ------------------------------------------------------------ moments

    def time_micros(self, time: str) -> str:
        return f"time_diff('MICROSECOND', TIME '00:00:00', {time})"

    def moment_micros(self, moment: str, oid: int) -> str:
        return f"unix_micros(CAST({moment} AS TIMESTAMP))" if oid == types.TIMESTAMP else f"unix_micros({moment})"

    def moment_of_micros(self, micros: str, oid: int) -> str:
        moment = f"timestamp_micros({micros})"
        return f"CAST({moment} AS TIMESTAMP_NTZ)" if oid == types.TIMESTAMP else moment

    def time_of_timestamp(self, timestamp: str) -> str:
        clock = f"make_time(hour({timestamp}), minute({timestamp}), extract(SECOND FROM {timestamp}))"
        return self.if_finite(timestamp, clock, "NULL")

    def time_of_micros(self, micros: str) -> str:
        return f"CAST(CAST(timestamp_micros(CAST({micros} AS BIGINT)) AS TIMESTAMP_NTZ) AS TIME(6))"

    def clock_of_micros(self, micros: str) -> str:
        # Spark keeps and compares 24:00:00, but nothing in its SQL gives it.
        return self.python("tg_clock", micros)

    def time_text(self, time: str) -> str:
        return f"CASE WHEN {time} > TIME '23:59:59.999999' THEN '24:00:00' ELSE CAST({time} AS STRING) END"

    def micros_interval(self, micros: str) -> str:
        # Its seconds are of twelve digits, which hold less than all microseconds of an interval.
        days = f"CAST({micros} div {DAY_MICROS} AS INT)"
        return f"make_dt_interval({days}, 0, 0, CAST({micros} % {DAY_MICROS} / 1000000BD AS DECIMAL(18,6)))"

    def interval_struct(self, months: str, days: str, micros: str) -> str:
        # A struct of constants would count as never NULL even where the whole struct is.
        months, days, micros = (f"nullif({part}, 1)" if part == "0" else part for part in (months, days, micros))
        return (
            f"named_struct('months', CAST({months} AS INT), 'days', CAST({days} AS INT), 'micros', CAST({micros} AS"
            " BIGINT))"
        )

    def frame_interval(self, interval: Interval) -> str | None:
        if interval.months and (interval.days or interval.micros):
            return None
        if interval.months:
            return f"INTERVAL '{interval.months}' MONTH"
        micros = interval.days * 86_400_000_000 + interval.micros
        return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06d}' SECOND"

    def python(self, name: str, *args: str) -> str:
        # A function returns its error beside its value.
        return f"{BEFORE_PYTHON}{name}({', '.join(args)}){AFTER_PYTHON}"

    def if_finite(self, moment: str, then: str, otherwise: str) -> str:
        return f"CASE WHEN {spark_texts.is_infinite(moment)} THEN {otherwise} ELSE {then} END"

    def midnight(self, date: str) -> str:
        low, high = (self.moment_of_micros(f"{micros}L", types.TIMESTAMP) for micros in spark_texts.INFINITE_MICROS)
        infinite = f"CASE WHEN year({date}) < 1 THEN {low} ELSE {high} END"
        return self.if_finite(date, f"CAST({date} AS TIMESTAMP_NTZ)", infinite)

    def is_infinite_moment(self, moment: str) -> str:
        return spark_texts.is_infinite(moment)

    def wall_in_place(self, moment: str, place: str) -> str:
        wall = f"CAST({moment} AS TIMESTAMP_NTZ)"
        return self.if_finite(moment, f"convert_timezone('UTC', {place}, {wall})", wall)

    def moment_in_place(self, timestamp: str, place: str) -> str:
        finite = _finite_moment_in_place(timestamp, place)
        return f"CAST({self.if_finite(timestamp, finite, timestamp)} AS TIMESTAMP)"

    def moved_on_clock(self, timezone: str, moment: str, steps: Sequence[str]) -> str:
        zone = setting_zone(timezone)
        if zone.offset is not None or not known_to_engines(zone):
            # NOTE: conversions in Python would be called too often, so a step that leads into the hour which a spring
            # leaves out is taken as it is where another one follows.
            return super().moved_on_clock(timezone, moment, [" ".join(steps)])
        place = quoted(self.string(zone.name))
        wall = f"convert_timezone('UTC', {place}, CAST({moment} AS TIMESTAMP_NTZ))"
        for number, step in enumerate(steps):
            if number:
                wall = f"convert_timezone('UTC', {place}, convert_timezone({place}, 'UTC', {wall}))"
            wall = f"({wall} {step})"
        return f"CAST({_finite_moment_in_place(wall, place)} AS TIMESTAMP)"

    def shifted(self, timestamp: str, by: str) -> str:
        return self.if_finite(timestamp, f"({timestamp} {by})", timestamp)

    def date_of_timestamp(self, timestamp: str) -> str:
        low, high = (self.infinite(types.DATE, negative) for negative in (True, False))
        infinite = f"CASE WHEN year({timestamp}) < 1 THEN {low} ELSE {high} END"
        return self.if_finite(timestamp, f"CAST({timestamp} AS DATE)", infinite)


def _finite_moment_in_place(timestamp: str, place: str) -> str:
    # Spark takes the first of an hour that comes twice, PostgreSQL the second: the one that counts from after.
    first = f"convert_timezone({place}, 'UTC', {timestamp})"
    second = f"(convert_timezone({place}, 'UTC', {timestamp} + {_LONG}) - {_LONG})"
    again = f"convert_timezone('UTC', {place}, {second})"
    return f"CASE WHEN {again} = {timestamp} THEN {second} ELSE {first} END"
