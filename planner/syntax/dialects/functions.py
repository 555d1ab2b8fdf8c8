"""Functions of other dialects as PostgreSQL's: a line for each, of what sqlglot calls it, with the arguments that it is
written with, the dialects in which it means that, and what it is in PostgreSQL.

An argument that is a word is given with it (`unit=DAY`), one that is set with its name. ``{expressions}`` are all of a
list, with commas. What is indented belongs to the line before. A function without a line is refused by name.
tidegate.* are those of `planner.functions.own_bodies`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "all": ("spark", "databricks", "hive", "duckdb", "trino", "mysql", "snowflake", "bigquery", "tsql"),
    "spark": ("spark", "databricks", "hive"),
}
"""Dialects that are named together. Those of `all` are the ones that can be read."""

_LINES = """
Abs(this)|all|abs({this})
Acos(this)|all|acos({this}::float8)
Asin(this)|all|asin({this}::float8)
Atan(this)|all|atan({this}::float8)
Atan2(this expression)|all|atan2({this}::float8, {expression}::float8)
Cos(this)|all|cos({this}::float8)
Sin(this)|all|sin({this}::float8)
Tan(this)|all|tan({this}::float8)
Cot(this)|all|cot({this}::float8)
Degrees(this)|spark duckdb trino mysql snowflake|degrees({this}::float8)
Radians(this)|spark duckdb trino mysql snowflake|radians({this}::float8)
Pi()|all|pi()
Exp(this)|all|exp({this}::float8)
Ln(this)|all|ln({this}::float8)
Sqrt(this)|all|sqrt({this}::float8)
Cbrt(this)|spark duckdb trino snowflake|cbrt({this}::float8)
Pow(this expression)|spark duckdb trino mysql snowflake bigquery|power({this}::float8, {expression}::float8)
Sign(this)|all|sign({this})
Ceil(this)|all|ceil({this})
Floor(this)|all|floor({this})
Round(this)|all|tidegate.rounded({this})
Round(this)|mysql|tidegate.rounded_even({this})
Round(this decimals)|all|tidegate.rounded({this}, {decimals})
Round(this decimals)|mysql|tidegate.rounded_even({this}, {decimals})
Factorial(this)|spark duckdb|factorial({this})
WidthBucket(this min_value max_value num_buckets)|spark trino snowflake|
  width_bucket({this}, {min_value}, {max_value}, {num_buckets})
Upper(this)|all|upper({this})
Lower(this)|all|lower({this})
Length(this)|spark duckdb trino snowflake bigquery mysql|length({this})
Length(this binary)|snowflake bigquery|length({this})
Length(this binary)|mysql|octet_length({this})
Length(this)|tsql|length(rtrim({this}))
Reverse(this)|spark duckdb trino mysql snowflake bigquery tsql|reverse({this})
Repeat(this times)|spark duckdb trino mysql snowflake bigquery tsql|repeat({this}, {times})
Replace(this expression replacement)|all|replace({this}, {expression}, {replacement})
Translate(this from_ to)|spark duckdb trino snowflake bigquery|translate({this}, {from_}, {to})
Space(this)|spark mysql tsql|repeat(' ', {this})
Pad(this expression fill_pattern)|spark duckdb trino mysql snowflake bigquery|
  rpad({this}, {expression}, {fill_pattern})
Pad(this expression fill_pattern is_left)|spark duckdb trino mysql snowflake bigquery|
  lpad({this}, {expression}, {fill_pattern})
Pad(this expression)|spark snowflake bigquery|rpad({this}, {expression})
Pad(this expression is_left)|spark snowflake bigquery|lpad({this}, {expression})
Trim(this)|spark duckdb mysql snowflake tsql|btrim({this})
Trim(this position=BOTH)|spark duckdb mysql snowflake tsql|btrim({this})
Trim(this position=LEADING)|spark duckdb mysql snowflake tsql|ltrim({this})
Trim(this position=TRAILING)|spark duckdb mysql snowflake tsql|rtrim({this})
Trim(this expression)|spark duckdb snowflake bigquery|btrim({this}, {expression})
Trim(this position=BOTH expression)|spark duckdb snowflake bigquery|btrim({this}, {expression})
Trim(this position=LEADING expression)|spark duckdb snowflake bigquery|ltrim({this}, {expression})
Trim(this position=TRAILING expression)|spark duckdb snowflake bigquery|rtrim({this}, {expression})
StrPosition(this substr)|spark duckdb trino mysql snowflake bigquery tsql|strpos({this}, {substr})
StrPosition(this substr position)|spark mysql snowflake tsql|tidegate.position_after({this}, {substr}, {position})
StartsWith(this expression)|spark duckdb trino snowflake bigquery|starts_with({this}, {expression})
EndsWith(this expression)|spark duckdb trino snowflake bigquery|(right({this}, length({expression})) = {expression})
Contains(this expression)|spark duckdb snowflake bigquery|(strpos({this}, {expression}) > 0)
SplitPart(this delimiter part_index)|spark duckdb|split_part({this}, {delimiter}, {part_index})
Overlay(this expression from_ for_)|spark|overlay({this} placing {expression} from {from_} for {for_})
MD5(this)|spark duckdb mysql snowflake|md5({this})
Uuid()|spark databricks mysql bigquery snowflake|gen_random_uuid()::text
Ascii(this)|spark duckdb|ascii({this})
Coalesce(this expressions)|all|coalesce({this}, {expressions})
Coalesce(this expressions is_nvl)|all|coalesce({this}, {expressions})
Coalesce(this expressions is_null)|all|coalesce({this}, {expressions})
Coalesce(this)|all|{this}
Nullif(this expression)|all|nullif({this}, {expression})
Nvl2(this true false)|all|(case when {this} is not null then {true} else {false} end)
If(this true)|all|(case when {this} then {true} end)
If(this true false)|all|(case when {this} then {true} else {false} end)
If(this true)|mysql|(case when tidegate.truth({this}) then {true} end)
If(this true false)|mysql|
  (case when tidegate.truth({this}) then {true} else {false} end)
Count(this)|all|count({this})
Sum(this)|all|sum({this})
Sum(this)|mysql|sum(tidegate.counted({this}))
Avg(this)|spark duckdb trino bigquery|avg(tidegate.number({this}))
Avg(this)|snowflake|avg({this})
Avg(this)|mysql|avg(tidegate.counted({this}))
Min(this)|all|min({this})
Max(this)|all|max({this})
CountIf(this)|spark duckdb trino snowflake bigquery|count(*) filter (where {this})
AnyValue(this)|spark trino mysql snowflake bigquery|(array_agg({this}))[1]
AnyValue(this)|duckdb|(array_agg({this}) filter (where {this} is not null))[1]
DateFromParts(year month day)|duckdb tsql snowflake|make_date({year}, {month}, {day})
PercentileCont(this expression)|duckdb|percentile_cont({expression}) within group (order by {this})
ArgMax(this expression)|spark duckdb trino snowflake bigquery|
  (array_agg({this} order by {expression} desc) filter (where {expression} is not null))[1]
ArgMin(this expression)|spark duckdb trino snowflake bigquery|
  (array_agg({this} order by {expression}) filter (where {expression} is not null))[1]
LogicalAnd(this)|spark duckdb trino bigquery snowflake|bool_and({this})
LogicalOr(this)|spark duckdb trino bigquery snowflake|bool_or({this})
Stddev(this)|spark duckdb trino snowflake bigquery|stddev_samp({this}::float8)
StddevSamp(this)|spark duckdb trino mysql snowflake bigquery|stddev_samp({this}::float8)
StddevPop(this)|spark duckdb trino mysql snowflake bigquery|stddev_pop({this}::float8)
Variance(this)|spark duckdb trino snowflake bigquery|var_samp({this}::float8)
VariancePop(this)|spark duckdb trino snowflake bigquery mysql|var_pop({this}::float8)
Corr(this expression)|spark duckdb trino snowflake bigquery|corr({this}::float8, {expression}::float8)
CovarPop(this expression)|spark duckdb trino snowflake bigquery|covar_pop({this}::float8, {expression}::float8)
CovarSamp(this expression)|spark duckdb trino snowflake bigquery|covar_samp({this}::float8, {expression}::float8)
Median(this)|spark duckdb snowflake|percentile_cont(0.5) within group (order by {this})
Quantile(this quantile)|spark|percentile_cont({quantile}) within group (order by {this})
RowNumber()|all|row_number()
Rank()|all|rank()
DenseRank()|all|dense_rank()
PercentRank()|all|percent_rank()
CumeDist()|all|cume_dist()
Ntile(this)|all|ntile({this})
Lag(this)|all|lag({this})
Lag(this offset)|all|lag({this}, {offset})
Lag(this offset default)|all|lag({this}, {offset}, {default})
Lead(this)|all|lead({this})
Lead(this offset)|all|lead({this}, {offset})
Lead(this offset default)|all|lead({this}, {offset}, {default})
FirstValue(this)|spark duckdb trino mysql bigquery tsql|first_value({this})
LastValue(this)|spark duckdb trino mysql bigquery tsql|last_value({this})
Grouping(expressions)|spark duckdb trino mysql snowflake tsql|grouping({expressions})
CurrentDate()|all|current_date
CurrentTimestamp()|spark duckdb trino snowflake bigquery|current_timestamp
CurrentTimestamp()|tsql|localtimestamp(3)
CurrentTimestamp()|mysql|date_trunc('second', localtimestamp)
Date(this)|spark duckdb mysql bigquery snowflake|{this}::date
Timestamp(this)|spark|{this}::timestamptz
TimeStrToTime(this)|all|{this}::timestamp
TsOrDsToTimestamp(this)|all|{this}::timestamp
Year(this)|all|extract(year from {this}::date)::int
Month(this)|all|extract(month from {this}::date)::int
Day(this)|all|extract(day from {this}::date)::int
DayOfMonth(this)|all|extract(day from {this}::date)::int
Quarter(this)|all|extract(quarter from {this}::date)::int
DayOfYear(this)|all|extract(doy from {this}::date)::int
DayOfWeek(this)|spark databricks hive mysql|(extract(dow from {this}::date)::int + 1)
DayOfWeek(this)|duckdb snowflake|extract(dow from {this}::date)::int
DayOfWeekIso(this)|duckdb trino snowflake|extract(isodow from {this}::date)::int
WeekOfYear(this)|spark duckdb trino|extract(week from {this}::date)::int
Week(this)|duckdb trino|extract(week from {this}::date)::int
Hour(this)|all|extract(hour from {this}::timestamp)::int
Minute(this)|all|extract(minute from {this}::timestamp)::int
Second(this)|spark mysql snowflake duckdb trino|floor(extract(second from {this}::timestamp))::int
LastDay(this)|all|(date_trunc('month', {this}::date) + interval '1 month' - interval '1 day')::date
DateDiff(this expression)|spark mysql|({this}::date - {expression}::date)
DateDiff(this expression unit=DAY)|all|({this}::date - {expression}::date)
DateDiff(this expression unit=DAY)|trino spark databricks|tidegate.whole_days({this}, {expression})
TsOrDsDiff(this expression unit=DAY)|all|({this}::date - {expression}::date)
TsOrDsAdd(this expression unit=DAY)|spark databricks hive|({this}::date + ({expression})::int)
AddMonths(this expression)|spark databricks hive|({this}::date + make_interval(months => {expression}))::date
DateDiff(this expression unit=MONTH)|tsql snowflake bigquery duckdb|tidegate.months_crossed({this}, {expression})
DateDiff(this expression unit=QUARTER)|tsql snowflake bigquery duckdb|tidegate.quarters_crossed({this}, {expression})
DateDiff(this expression unit=YEAR)|tsql snowflake bigquery duckdb|tidegate.years_crossed({this}, {expression})
DateDiff(this expression unit=HOUR)|tsql snowflake duckdb|tidegate.hours_crossed({this}, {expression})
DateDiff(this expression unit=MONTH)|spark databricks|tidegate.whole_months({this}, {expression})
DateDiff(this expression unit=YEAR)|spark databricks|(tidegate.whole_months({this}, {expression}) / 12)
UnixToTime(this)|mysql|to_timestamp({this})::timestamp
PercentileCont(this)|spark databricks snowflake|percentile_cont({this})
ApproxQuantile(this quantile)|spark databricks trino|percentile_disc({quantile}) within group (order by {this})
Mode(this)|spark databricks duckdb snowflake|mode() within group (order by {this})
NthValue(this offset)|spark databricks trino mysql bigquery duckdb|nth_value({this}, {offset})
BitwiseAndAgg(this)|spark databricks duckdb trino|bit_and({this})
BitwiseOrAgg(this)|spark databricks duckdb trino|bit_or({this})
Trunc(this)|trino duckdb bigquery|trunc({this})
Trunc(this decimals)|mysql trino bigquery|tidegate.cut({this}, {decimals})
Trunc(this decimals fractions_supported)|snowflake|tidegate.cut({this}, {decimals})
Rand()|spark databricks hive trino mysql bigquery duckdb|random()
Uuid()|trino duckdb|gen_random_uuid()
Uuid(is_string)|bigquery snowflake|gen_random_uuid()::text
Localtimestamp()|duckdb|localtimestamp
Localtimestamp()|trino|localtimestamp(3)
IsNan(this)|trino duckdb bigquery|({this}::float8 = 'NaN')
IsNan(this)|spark databricks|coalesce({this}::float8 = 'NaN', false)
ByteLength(this)|bigquery|octet_length({this})
Chr(expressions)|trino duckdb bigquery snowflake|chr({expressions})
BitLength(this)|spark databricks mysql|bit_length({this})
Unicode(this empty_is_zero)|snowflake|ascii({this})
Unicode(this)|bigquery|ascii({this})
UnixDate(this)|spark databricks bigquery|({this} - date '1970-01-01')
DateFromUnixDate(this)|spark databricks bigquery|(date '1970-01-01' + ({this})::int)
UnixSeconds(this)|spark databricks bigquery|floor(extract(epoch from {this}))::bigint
TimeToUnix(this)|trino duckdb|extract(epoch from {this}::timestamp)::float8
LastDay(this unit=MONTH)|bigquery snowflake|
  (date_trunc('month', {this}::date) + interval '1 month' - interval '1 day')::date
Dayname(this)|duckdb mysql|to_char({this}::date, 'FMDay')
Monthname(this)|duckdb mysql|to_char({this}::date, 'FMMonth')
WeekOfYear(this)|mysql|extract(week from {this}::date)::int
DateDiff(this expression unit=MINUTE)|tsql snowflake duckdb|tidegate.minutes_crossed({this}, {expression})
DateDiff(this expression unit=SECOND)|tsql snowflake duckdb|tidegate.seconds_crossed({this}, {expression})
DateDiff(this expression unit=WEEK)|tsql|tidegate.sundays_crossed({this}, {expression})
DateDiff(this expression unit=WEEK)|snowflake|tidegate.mondays_crossed({this}, {expression})
DateDiff(this expression unit=WEEK)|bigquery|tidegate.sundays_crossed({this}, {expression})
DateDiff(this expression unit=ISOWEEK)|bigquery|tidegate.mondays_crossed({this}, {expression})
DateDiff(this expression unit=MONTH)|trino|tidegate.fitted_months({this}, {expression})
DateDiff(this expression unit=QUARTER)|trino|(tidegate.fitted_months({this}, {expression}) / 3)
DateDiff(this expression unit=WEEK)|trino|(tidegate.whole_days({this}, {expression}) / 7)
DateDiff(this expression unit=HOUR)|trino|
  trunc(extract(epoch from {this}::timestamp - {expression}::timestamp) / 3600)::bigint
DateDiff(this expression unit=MINUTE)|trino|
  trunc(extract(epoch from {this}::timestamp - {expression}::timestamp) / 60)::bigint
DateDiff(this expression unit=SECOND)|trino|
  trunc(extract(epoch from {this}::timestamp - {expression}::timestamp))::bigint
DatetimeDiff(this expression unit=SECOND)|bigquery|tidegate.seconds_crossed({this}, {expression})
DatetimeDiff(this expression unit=MINUTE)|bigquery|tidegate.minutes_crossed({this}, {expression})
DatetimeDiff(this expression unit=HOUR)|bigquery|tidegate.hours_crossed({this}, {expression})
DatetimeDiff(this expression unit=DAY)|bigquery|tidegate.days_crossed({this}, {expression})
DatetimeDiff(this expression unit=MONTH)|bigquery|tidegate.months_crossed({this}, {expression})
DatetimeDiff(this expression unit=QUARTER)|bigquery|tidegate.quarters_crossed({this}, {expression})
DatetimeDiff(this expression unit=YEAR)|bigquery|tidegate.years_crossed({this}, {expression})
ApproxDistinct(this)|all|count(distinct {this})
ApproxDistinct(this accuracy)|all|count(distinct {this})
Array(expressions)|spark duckdb trino bigquery|ARRAY[{expressions}]
ArraySize(this)|spark duckdb trino bigquery|cardinality({this})
ArrayContains(this expression)|spark databricks duckdb trino|({expression} = any({this}))
ArrayToString(this expression)|spark databricks trino bigquery|array_to_string({this}, {expression})
ArrayMax(this)|spark databricks|(select max(e) from unnest({this}) as _u(e))
ArrayMin(this)|spark databricks|(select min(e) from unnest({this}) as _u(e))
ArrayMax(this)|trino|(select case when count(*) = count(e) then max(e) end from unnest({this}) as _u(e))
ArrayMin(this)|trino|(select case when count(*) = count(e) then min(e) end from unnest({this}) as _u(e))
ArrayDistinct(this)|spark databricks trino|(case when {this} is not null then
  array(select e from unnest({this}) with ordinality as _u(e, o) group by e order by min(o)) end)
ArraySort(this nulls_first)|trino|(case when {this} is not null then
  array(select e from unnest({this}) as _u(e) order by e nulls last) end)
ArrayPosition(this expression)|spark databricks trino|
  (case when {this} is not null and {expression} is not null then
  coalesce(array_position({this}, {expression}), 0)::bigint end)
ArrayConcat(this expressions)|bigquery|(case when {this} is not null then {this} || {expressions} end)
Explode(this)|spark databricks hive duckdb|unnest({this})
CurrentUser()|all|current_user
"""


class Written(Struct, frozen=True):
    """A function with its arguments: `words` are those that have a certain value, `names` those that have any."""

    function: str
    names: frozenset[str]
    words: frozenset[tuple[str, str]]


def _tables() -> Mapping[str, Mapping[Written, str]]:
    tables: dict[str, dict[Written, str]] = {name: {} for name in FAMILIES["all"]}
    for line in _LINES.strip().replace("\n  ", " ").splitlines():
        written, dialects, template = line.split("|", 2)
        function, _, rest = written.removesuffix(")").partition("(")
        parts = rest.split()
        key = Written(
            function,
            frozenset(part for part in parts if "=" not in part),
            frozenset((part.split("=")[0], part.split("=")[1]) for part in parts if "=" in part),
        )
        for named in dialects.split():
            for dialect in FAMILIES.get(named, (named,)):
                tables[dialect][key] = template.strip()
    return tables


TEMPLATES: Mapping[str, Mapping[Written, str]] = _tables()
"""For each dialect, what its functions are in PostgreSQL, as text to be filled with their arguments."""
