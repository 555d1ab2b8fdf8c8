"""Functions of Tidegate's own that are queries in SQL: what statements of other dialects become where the types of
operands, which nobody knows before names are looked up, decide what is meant (`planner.syntax.dialects`).

Each line is a function: its arguments' types, its result's, and the expression that it is. They are put into the query
that calls them, as functions of users are (`planner.calls.inlining`). Where one has no line for some types, the
operation has no translation for them. What is indented belongs to the line before.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.types.types import (
    BOOL,
    DATE,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NAME,
    NUMERIC,
    RECORD,
    REGCLASS,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
)
from storage.catalog.model import OWN_SCHEMA_OID
from storage.catalog.routines import Function, Parameter

FIRST_OID = 15_000
"""OIDs that PostgreSQL never gives out."""

LINEAGE = 200
"""How far after them lineage() stands."""

_TYPES: Mapping[str, int] = {
    "bool": BOOL,
    "int2": INT2,
    "int4": INT4,
    "int8": INT8,
    "numeric": NUMERIC,
    "float8": FLOAT8,
    "text": TEXT,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "timestamptz": TIMESTAMPTZ,
    "interval": INTERVAL,
    "uuid": UUID,
}

_LINES = """
quotient(int8 int8) float8: $1::float8 / $2
quotient(numeric numeric) numeric: $1 / $2
quotient(float8 float8) float8: $1 / $2
quotient(interval float8) interval: $1 / $2
float_quotient(float8 float8) float8: $1 / $2
scaled_quotient(int4 int4 int4 int4) numeric: round($1::numeric / $2, $3)
scaled_quotient(int8 int8 int4 int4) numeric: round($1::numeric / $2, $3)
scaled_quotient(numeric numeric int4 int4) numeric: round($1 / $2, greatest(scale($1), least(scale($1) + $3, $4)))
scaled_quotient(float8 float8 int4 int4) float8: $1 / $2
whole_quotient(int4 int4) int8: $1::int8 / $2
whole_quotient(int8 int8) int8: $1 / $2
whole_quotient(numeric numeric) int8: div($1, $2)::int8
number(int8) float8: $1::float8
number(numeric) numeric: $1
number(float8) float8: $1
number(interval) interval: $1
rounded(int8) int8: $1
rounded(numeric) numeric: round($1)
rounded(float8) float8: round($1::numeric)::float8
rounded(int8 int4) numeric: round($1::numeric, $2)
rounded(numeric int4) numeric: round($1, $2)
rounded(float8 int4) float8: round($1::numeric, $2)::float8
truncated(int2) int2: $1
truncated(int4) int4: $1
truncated(int8) int8: $1
truncated(numeric) numeric: trunc($1)
truncated(float8) float8: trunc($1)
truncated(text) text: $1
truncated(bool) int4: $1::int4
rounded_away(int2) int2: $1
rounded_away(int4) int4: $1
rounded_away(int8) int8: $1
rounded_away(numeric) numeric: round($1)
rounded_away(float8) numeric: round($1::numeric)
rounded_away(text) text: $1
rounded_away(bool) int4: $1::int4
text_of(text) text: $1
text_of(int2) text: $1::text
text_of(int4) text: $1::text
text_of(int8) text: $1::text
text_of(numeric) text: $1::text
text_of(bool) text: $1::text
text_of(date) text: $1::text
text_of(timestamp) text: $1::text
text_of(uuid) text: $1::text
spark_text(text) text: $1
spark_text(int2) text: $1::text
spark_text(int4) text: $1::text
spark_text(int8) text: $1::text
spark_text(numeric) text: $1::text
spark_text(bool) text: $1::text
spark_text(date) text: $1::text
spark_text(timestamp) text: $1::text
spark_text(timestamptz) text: $1::timestamp::text
date_plus(date interval) date: ($1 + $2)::date
date_plus(timestamp interval) timestamp: $1 + $2
date_plus(timestamptz interval) timestamptz: $1 + $2
moment_plus(timestamp interval) timestamp: $1 + $2
moment_plus(timestamptz interval) timestamptz: $1 + $2
months_crossed(timestamp timestamp) int8:
  (extract(year from $1) * 12 + extract(month from $1) - extract(year from $2) * 12 - extract(month from $2))::int8
quarters_crossed(timestamp timestamp) int8:
  (extract(year from $1) * 4 + extract(quarter from $1) - extract(year from $2) * 4 - extract(quarter from $2))::int8
years_crossed(timestamp timestamp) int8: (extract(year from $1) - extract(year from $2))::int8
hours_crossed(timestamp timestamp) int8:
  (extract(epoch from date_trunc('hour', $1) - date_trunc('hour', $2)) / 3600)::int8
whole_months(date date) int8:
  ((extract(year from $1)::int8 * 12 + extract(month from $1)::int8) * 32 + extract(day from $1)::int8
  - (extract(year from $2)::int8 * 12 + extract(month from $2)::int8) * 32 - extract(day from $2)::int8) / 32
difference(int4 int4) int4: $1 - $2
difference(int8 int8) int8: $1 - $2
difference(numeric numeric) numeric: $1 - $2
difference(float8 float8) float8: $1 - $2
difference(date int4) date: $1 - $2
difference(date date) interval: $1::timestamp - $2::timestamp
difference(timestamp timestamp) interval: $1 - $2
difference(timestamptz timestamptz) interval: $1 - $2
difference(timestamp interval) timestamp: $1 - $2
difference(timestamptz interval) timestamptz: $1 - $2
difference(interval interval) interval: $1 - $2
number_plus(int4 int4) int8: $1::int8 + $2
number_plus(int8 int8) int8: $1 + $2
number_plus(numeric numeric) numeric: $1 + $2
number_plus(float8 float8) float8: $1 + $2
number_minus(int4 int4) int8: $1::int8 - $2
number_minus(int8 int8) int8: $1 - $2
number_minus(numeric numeric) numeric: $1 - $2
number_minus(float8 float8) float8: $1 - $2
position_after(text text int4) int4:
  case when $3 < 1 or strpos(substr($1, $3), $2) = 0 then 0 else strpos(substr($1, $3), $2) + $3 - 1 end
substring_from_end(text int4) text:
  substr($1, case when $2 < 0 then greatest(length($1) + $2 + 1, 1) else greatest($2, 1) end)
substring_from_end(text int4 int4) text:
  substr($1, case when $2 < 0 then length($1) + $2 + 1 else greatest($2, 1) end, greatest($3, 0))
date_trunc_plain(text date) timestamp: date_trunc($1, $2::timestamp)
date_trunc_plain(text timestamp) timestamp: date_trunc($1, $2)
date_trunc_plain(text timestamptz) timestamptz: date_trunc($1, $2)
date_trunc_alike(text date) date: date_trunc($1, $2)::date
date_trunc_alike(text timestamp) timestamp: date_trunc($1, $2)
date_trunc_alike(text timestamptz) timestamptz: date_trunc($1, $2)
rounded_even(int8) int8: $1
rounded_even(numeric) numeric: round($1)
rounded_even(float8) float8: round($1)
rounded_even(int8 int4) numeric: round($1::numeric, $2)
rounded_even(numeric int4) numeric: round($1, $2)
rounded_even(float8 int4) float8: round($1 * power(10, $2)) / power(10, $2)
whole_days(date date) int8: ($1 - $2)::int8
whole_days(timestamp timestamp) int8: trunc(extract(epoch from $1 - $2) / 86400)::int8
whole_days(timestamptz timestamptz) int8: trunc(extract(epoch from $1 - $2) / 86400)::int8
sum_or_text(text text) text: $1 || $2
sum_or_text(int4 int4) int4: $1 + $2
sum_or_text(int8 int8) int8: $1 + $2
sum_or_text(numeric numeric) numeric: $1 + $2
sum_or_text(float8 float8) float8: $1 + $2
moment_plus(date interval) timestamp: $1::timestamp + $2
whole_months(timestamp timestamp) int8:
  tidegate.whole_months(($1::date - case when $1::date > $2::date and $1::time < $2::time then 1
  when $1::date < $2::date and $1::time > $2::time then -1 else 0 end), $2::date)
whole_months(timestamptz timestamptz) int8: tidegate.whole_months($1::timestamp, $2::timestamp)
calendar_months(timestamp timestamp) int8: tidegate.months_crossed($1, $2)
  - case when $1 > $2 and $1 - date_trunc('month', $1) < $2 - date_trunc('month', $2) then 1
  when $1 < $2 and $1 - date_trunc('month', $1) > $2 - date_trunc('month', $2) then -1 else 0 end
fitted_months(timestamp timestamp) int8:
  case when $1 < $2 then -tidegate.fitted_months_after($2, $1) else tidegate.fitted_months_after($1, $2) end
fitted_months_after(timestamp timestamp) int8: tidegate.months_crossed($1, $2)
  - case when $1 - date_trunc('month', $1) < least(extract(day from $2), case when extract(month from $1)
  <> extract(month from $1 + interval '1 day') then extract(day from $1) else 31 end)::int * interval '1 day'
  - interval '1 day' + ($2 - date_trunc('day', $2)) then 1 else 0 end
minutes_crossed(timestamp timestamp) int8:
  (extract(epoch from date_trunc('minute', $1) - date_trunc('minute', $2)) / 60)::int8
seconds_crossed(timestamp timestamp) int8:
  extract(epoch from date_trunc('second', $1) - date_trunc('second', $2))::int8
days_crossed(timestamp timestamp) int8: ($1::date - $2::date)::int8
mondays_crossed(timestamp timestamp) int8:
  ((date_trunc('week', $1)::date - date_trunc('week', $2)::date) / 7)::int8
sundays_crossed(timestamp timestamp) int8:
  ((date_trunc('week', $1 + interval '1 day')::date - date_trunc('week', $2 + interval '1 day')::date) / 7)::int8
truth(bool) bool: $1
truth(int4) bool: $1 <> 0
truth(int8) bool: $1 <> 0
truth(numeric) bool: $1 <> 0
truth(float8) bool: $1 <> 0
counted(bool) int4: $1::int4
counted(int4) int4: $1
counted(int8) int8: $1
counted(numeric) numeric: $1
counted(float8) float8: $1
cut(int8 int4) int8: trunc($1::numeric, $2)::int8
cut(numeric int4) numeric: trunc($1, $2)
cut(float8 int4) float8: trunc($1::numeric, $2)::float8
"""


def _functions() -> dict[int, Function]:
    found: dict[int, Function] = {}
    for oid, line in enumerate(_LINES.strip().replace("\n  ", " ").splitlines(), FIRST_OID):
        head, _, body = line.partition(": ")
        name, _, rest = head.partition("(")
        args, _, result = rest.partition(") ")
        found[oid] = Function(
            oid=oid,
            name=name,
            schema=OWN_SCHEMA_OID,
            owner=10,
            parameters=tuple(Parameter(type_oid=_TYPES[arg]) for arg in args.split()),
            result=_TYPES[result],
            volatility="s",
            strict=False,
            body=f"SELECT {body}",
        )
    record = _lineage()
    return found | {record.oid: record}


def _lineage() -> Function:
    """lineage(view): the columns of tables that each column of a view comes from."""
    columns = ("column_name", "source_schema", "source_name", "source_column")
    return Function(
        oid=FIRST_OID + LINEAGE,
        name="lineage",
        schema=OWN_SCHEMA_OID,
        owner=10,
        parameters=(
            Parameter(name="view", type_oid=REGCLASS),
            *(Parameter(name=name, type_oid=NAME, mode="t") for name in columns),
        ),
        result=RECORD,
        returns_set=True,
        volatility="s",
        strict=True,
        body=f"SELECT {', '.join(f'l.{name}' for name in columns)} FROM tidegate.view_lineage l WHERE l.view = $1::oid",
    )


FUNCTIONS: Mapping[int, Function] = _functions()
"""By oid."""


def functions_named(name: str) -> tuple[Function, ...]:
    """Those called `name`."""
    return tuple(record for record in FUNCTIONS.values() if record.name == name)
