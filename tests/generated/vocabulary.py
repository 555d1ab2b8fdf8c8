"""What random expressions are made of: for each type its constants and its templates, in which `{type}` stands for any
expression of that type. A reader extends them by a line. Templates raise no errors on the values of `tables.py`, so that
both servers have to give rows: what an error depends on (the order of evaluation) SQL leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

CONSTANTS: Mapping[str, tuple[str, ...]] = {
    "int": ("0", "1", "2", "3", "-1", "7", "10", "100", "null::int"),
    "bigint": ("0::bigint", "5000000000", "-3::bigint", "null::bigint"),
    "numeric": ("0.00", "12.34", "-0.05", "7.0", "1e3", "null::numeric(10,2)"),
    "float": ("0.1::float8", "2.5::float8", "-3.5::float8", "1e10::float8", "null::float8"),
    "text": ("'eng'", "'hello'", "''", "'b'", "'Ab c'", "'naïve'", "'a_b%c'", "'10'", "null::text"),
    "bool": ("true", "false", "null::bool"),
    "date": ("date '2016-01-01'", "date '2000-02-29'", "date '1969-07-20'", "null::date"),
    "timestamp": ("timestamp '2020-02-29 12:34:56.789'", "timestamp '1999-12-31 23:59:59.999999'", "null::timestamp"),
    "timestamptz": ("timestamptz '2021-03-28 00:59:59+00'", "timestamptz '2020-02-29 12:34:56+02'", "null::timestamptz"),
    "time": ("time '12:34:56.789'", "time '00:00'", "time '23:59:59.999999'", "null::time"),
    "interval": ("interval '1 month'", "interval '-2 days 03:04:05'", "interval '0'", "interval '1 year 2 mons 3 days'", "null::interval"),
    "jsonb": ("""'{"a": 1, "b": [1, 2, {"c": null}]}'::jsonb""", "'[1, \"two\", null, true]'::jsonb", "'\"str\"'::jsonb", "'5'::jsonb", "null::jsonb"),
    "int[]": ("array[1,2,3]", "'{}'::int[]", "array[1,null,3]", "array[5]", "null::int[]"),
    "text[]": ("array['a','b']", "'{}'::text[]", "array['x', null, 'a b']", "null::text[]"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "'00000000-0000-0000-0000-000000000001'::uuid", "null::uuid"),
    "bytea": (r"'\x0102ff'::bytea", r"'\x'::bytea", "'abc'::bytea", "null::bytea"),
    "range": ("int4range(1, 5)", "'empty'::int4range", "int4range(null, 3)", "int4range(2, 2, '[]')", "null::int4range"),
    "bit": ("B'1010'", "B'0001'", "B'1111'", "null::bit(4)"),
}  # fmt: skip
"""Constants of each type, NULL among them."""

TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "int": (
        "{int} % 100 + {int} % 100", "{int} % 50 - {int} % 50", "({int} % 30) * ({int} % 30)", "-({int} % 1000)",
        "{int} / nullif({int}, 0)", "{int} % nullif({int}, 0)", "abs({int} % 1000)", "sign({int})::int", "{int} & {int}", "{int} | {int}", "{int} # {int}", "~{int}",
        "({int} % 10) << 2", "{int} >> 1", "length({text})", "octet_length({text})", "char_length({text})", "bit_length({text})", "position({text} in {text})",
        "strpos({text}, {text})", "ascii({text})", "cardinality({int[]})", "cardinality({text[]})", "array_length({int[]}, 1)", "array_position({int[]}, {int})", "array_upper({text[]}, 1)",
        "({int[]})[1]", "({int[]})[{int} % 3]", "coalesce({int}, {int})", "nullif({int}, {int})", "greatest({int}, {int})", "least({int}, {int}, {int})",
        "case when {bool} then {int} else {int} end", "case {int} when {int} then {int} when 3 then {int} end", "case {text} when 'eng' then {int} end",
        "extract(day from {timestamp})::int", "extract(dow from {timestamp})::int", "extract(month from {interval})::int", "extract(hour from {time})::int", "extract(minute from {timestamptz})::int",
        "date_part('quarter', {timestamp})::int", "({bool})::int", "({numeric} % 1000)::int", "round({numeric} % 1000)::int", "jsonb_array_length(case jsonb_typeof({jsonb}) when 'array' then '[1,2]'::jsonb end)",
        "length({bytea})", "lower({range})", "upper({range})", "length({bit})", "({bit})::int", "num_nulls({int}, {text}, {bool})", "num_nonnulls({int}, {date})", "width_bucket({int}, 0, 100, 5)",
        "gcd({int} % 1000, {int} % 1000)", "lcm({int} % 100, {int} % 100)", "array_ndims({int[]})", "regexp_count({text}, '[a-e]')", "regexp_instr({text}, '[l-n]')", "date '2020-01-01' - date '2019-06-05'",
        "min_scale({numeric})", "bit_count({bit})::int", "get_byte('\\x0102ff'::bytea, abs({int} % 3))", "div({numeric}, 7)::int % 1000",
    ),
    "bigint": (
        "{bigint} % 1000 + {int}", "{bigint} - {int} % 100", "({int} % 1000)::bigint * 1000000", "coalesce({bigint}, {int})", "abs({bigint})", "greatest({bigint}, {int})",
        "case when {bool} then {bigint} else {int} end", "round(({numeric}) % 1000)::bigint", "factorial(5)::bigint", "extract(epoch from date '2020-01-01')::bigint", "{bigint} & {bigint}",
        "bit_length({text})::bigint * {int}",
    ),
    "numeric": (
        "{numeric} + {numeric}", "{numeric} - {int}", "({numeric} % 1000) * ({numeric} % 1000)", "round({numeric} / nullif({numeric}, 0), 4)", "round({numeric}, 1)", "round({numeric}, -1)", "trunc({numeric}, 1)", "abs({numeric})", "-({numeric})",
        "ceil({numeric})", "floor({numeric})", "sign({numeric})", "mod({numeric}, nullif({numeric}, 0))", "coalesce({numeric}, {int})", "greatest({numeric}, {numeric})", "case when {bool} then {numeric} end",
        "({int})::numeric(12,2)", "nullif({numeric}, {numeric})", "round(sqrt(abs({numeric})), 5)", "round(({numeric} % 10) ^ 2, 4)", "trim_scale({numeric})", "div({numeric}, nullif({int}, 0))", "{numeric} * 0.5",
        "extract(epoch from {interval})", "extract(second from {timestamp})", "extract(year from {timestamp})", "extract(epoch from {timestamp})",
    ),
    "float": (
        "{float} + {float}", "{float} - {int}", "{float} * 0.5", "{float} / nullif({float}, 0)", "abs({float})", "sqrt(abs({float}))", "floor({float})", "ceil({float})", "round({float})", "trunc({float})", "sign({float})", "-({float})", "cbrt({float})",
        "({int})::float8", "({numeric})::float8", "coalesce({float}, {float})", "greatest({float}, {int})", "case when {bool} then {float} else {int} end", "atan2({float}, 1)", "sin({float} / 1e11)", "degrees({float} / 1e10)", "exp(({int} % 10)::float8)", "ln(abs({float}) + 1)", "pi()",
        "date_part('epoch', {interval})", "extract(epoch from {interval})::float8", "nullif({float}, {float})",
    ),
    "text": (
        "{text} || {text}", "{text} || {int}", "upper({text})", "lower({text})", "initcap({text})", "trim({text})", "ltrim({text}, 'ae')", "rtrim({text}, ' c')", "btrim({text}, 'eh')", "substring({text} from 2 for 3)", "substr({text}, {int})", "left({text}, {int} % 20)", "right({text}, {int} % 20)",
        "replace({text}, 'l', {text})", "reverse({text})", "repeat({text}, {int} % 4)", "lpad({text}, abs({int} % 12), '*')", "rpad({text}, abs({int} % 12), 'xy')", "split_part({text}, 'l', 1)", "translate({text}, 'elo', 'xyz')", "concat({text}, {int}, {bool})", "concat_ws(', ', {text}, {date}, {text})",
        "coalesce({text}, {text})", "nullif({text}, {text})", "case when {bool} then {text} else {text} end", "greatest({text}, {text})", "md5({text})", "to_hex(abs({int} % 1000))", "quote_literal({text})", "quote_ident({text})", "quote_nullable({text})", "({int})::text", "({numeric})::text", "({bool})::text",
        "({date})::text", "({timestamp})::text", "({interval})::text", "({int[]})::text", "({text[]})[1]", "array_to_string({text[]}, '|', 'NIL')", "array_to_string({int[]}, ',')", "({jsonb})::text", "{jsonb} ->> 'a'", "{jsonb} #>> '{{b,0}}'", "jsonb_typeof({jsonb})", "to_char({timestamp}, 'YYYY-MM-DD HH24:MI:SS.US')",
        "to_char({int}, 'S999,999')", "to_char({numeric} % 1000, 'FM9990.00')", "to_char({timestamp}, 'Dy DD Mon IYYY IW Q')", "regexp_replace({text}, '[aeiou]', '#', 'g')", "regexp_replace({text}, '(.)(.)', '\\2\\1')", "regexp_substr({text}, '[a-z]+')", "regexp_match({text}, '(.)l')::text",
        "format('%s-%s|%5s', {text}, {int}, {text})", "overlay({text} placing 'XX' from 2 for 1)", "encode({bytea}, 'hex')", "encode({bytea}, 'base64')", "({uuid})::text", "({range})::text", "({bit})::text", "chr(abs({int} % 90) + 33)", "starts_with({text}, 'h')::text", "({text})::varchar(3)", "({text})::char(4)::text", "to_char({interval}, 'HH24:MI:SS')",
        "coalesce({text}, '-') || '!'", "unistr('\\0041') || {text}", "({time})::text", "{text} collate \"C\"", "concat({text}, {jsonb})", "pg_typeof({int})::text",
    ),
    "bool": (
        "{int} = {int}", "{int} <> {int}", "{int} < {int}", "{numeric} <= {numeric}", "{float} > {float}", "{text} >= {text}", "{text} = {text}", "{date} < {date}", "{timestamp} > {timestamp}", "{timestamptz} <= {timestamptz}", "{interval} < {interval}", "{interval} = {interval}", "{time} > {time}", "{jsonb} = {jsonb}", "{jsonb} @> {jsonb}", "{jsonb} ? 'a'", "{jsonb} ?| array['a','d']",
        "{int[]} = {int[]}", "{int[]} < {int[]}", "{int[]} @> {int[]}", "{int[]} && {int[]}", "{text[]} <@ {text[]}", "{uuid} < {uuid}", "{bytea} < {bytea}", "{range} @> {int}", "{range} && {range}", "{range} < {range}", "{range} << {range}", "isempty({range})", "lower_inf({range})", "{bit} < {bit}",
        "not ({bool})", "({bool}) and ({bool})", "({bool}) or ({bool})", "({bool}) is true", "({bool}) is not false", "({bool}) is unknown", "({bool}) = ({bool})", "({int}) is null", "({text}) is not null", "{int} is distinct from {int}", "{text} is not distinct from {text}", "{int} between {int} and {int}", "{text} not between {text} and {text}", "{int} between symmetric {int} and {int}",
        "{int} in ({int}, {int}, {int})", "{text} not in ({text}, {text})", "{text} like '%l%'", "{text} not like '_e%'", "{text} ilike 'H%'", "{text} similar to '(a|h)%'", "{text} ~ '^[a-h]'", "{text} !~* 'L+o'", "{int} = any({int[]})", "{int} <> all({int[]})", "{text} = any({text[]})", "{int} > any(array[{int}, {int}])", "row({int}, {text}) = row({int}, {text})", "row({int}, {int}) < row({int}, {int})", "({int}, {text}) in (({int}, {text}), ({int}, {text}))",
        "({int}, {date}) is null", "({int}, {date}) is not null", "(date '2020-01-01', date '2020-01-20') overlaps (date '2020-01-10', date '2020-02-01')", "coalesce({bool}, {bool})", "case when {bool} then {bool} end", "starts_with({text}, {text})", "{text} ^@ 'h'", "isfinite({date})", "{int} = (case when {bool} then 1 else 2 end)",
        "jsonb_path_exists({jsonb}, '$.b[*] ? (@ > 1)')", "{jsonb} @@ '$.a == 1'", "({int})::bool", "'{{1,2}}'::int[] @> {int[]}",
    ),
    "date": (
        "{date} + {int} % 1000", "{date} - {int} % 1000", "({timestamp})::date", "coalesce({date}, {date})", "greatest({date}, {date})", "make_date(2000 + abs({int} % 20), 1 + abs({int} % 12), 5)", "case when {bool} then {date} end", "date_trunc('month', {timestamp})::date", "to_date('2020-0' || (1 + abs({int} % 9)), 'YYYY-MM')", "nullif({date}, {date})",
    ),
    "timestamp": (
        "{timestamp} + {interval}", "{timestamp} - {interval}", "date_trunc('hour', {timestamp})", "date_trunc('week', {timestamp})", "date_trunc('quarter', {timestamp})", "coalesce({timestamp}, {timestamp})", "{timestamptz} at time zone 'Europe/Berlin'", "({date})::timestamp", "{date} + {time}", "make_timestamp(2020, 2, 1 + abs({int} % 28), 3, 4, 5.5)", "least({timestamp}, {timestamp})", "date_bin('15 minutes', {timestamp}, timestamp '2001-01-01')",
        "({timestamp})::timestamp(0)", "case when {bool} then {timestamp} end",
    ),
    "timestamptz": (
        "{timestamptz} + {interval}", "{timestamp} at time zone 'America/New_York'", "date_trunc('day', {timestamptz})", "date_trunc('day', {timestamptz}, 'Asia/Tokyo')", "coalesce({timestamptz}, {timestamptz})", "to_timestamp({int})", "({timestamp})::timestamptz", "case when {bool} then {timestamptz} else {timestamp} end",
    ),
    "time": ("{time} + {interval}", "({timestamp})::time", "make_time(abs({int} % 24), 5, 7.5)", "coalesce({time}, {time})", "({time})::time(0)", "date_trunc('minute', {time})::time", "({interval})::time"),
    "interval": (
        "{interval} + {interval}", "{interval} * 2", "{interval} / 3", "-({interval})", "{timestamp} - {timestamp}", "{time} - {time}", "age({timestamp}, {timestamp})", "justify_days({interval})", "justify_hours({interval})", "justify_interval({interval})", "make_interval(days => {int} % 100, hours => 3)", "coalesce({interval}, {interval})", "date_trunc('hour', {interval})", "({time})::interval",
        "{timestamptz} - {timestamptz}", "greatest({interval}, {interval})", "({int} % 100) * interval '1 hour'",
    ),
    "jsonb": (
        "{jsonb} -> 'a'", "{jsonb} -> 'b' -> 2", "{jsonb} #> '{{b,2,c}}'", "to_jsonb({int})", "to_jsonb({text})", "to_jsonb({int[]})", "to_jsonb({bool})", "to_jsonb({date})", "to_jsonb({numeric})", "jsonb_build_object('k', {int}, 'l', {text})", "jsonb_build_array({int}, {text}, {bool}, null)", "{jsonb} || {jsonb}", "jsonb_strip_nulls({jsonb})", "coalesce({jsonb}, {jsonb})",
        "jsonb_set(case jsonb_typeof({jsonb}) when 'object' then '{{\"a\": 2}}'::jsonb end, '{{a}}', '9')", "jsonb_path_query_first({jsonb}, '$.b[*]')", "jsonb_path_query_array({jsonb}, '$.**')", "case when {bool} then {jsonb} end", "to_jsonb({text[]})", "to_jsonb(row({int}, {text}))", "('{{\"z\": 1, \"aa\": 2, \"a\": 3}}'::jsonb) - 'z'", "to_jsonb({timestamp})",
    ),
    "int[]": (
        "{int[]} || {int[]}", "{int[]} || {int}", "{int} || {int[]}", "array_append({int[]}, {int})", "array_remove({int[]}, {int})", "array_replace({int[]}, {int}, {int})", "array[{int}, {int}]", "({int[]})[2:3]", "({int[]})[:1]", "coalesce({int[]}, {int[]})", "array(select x from unnest({int[]}) x order by x)", "case when {bool} then {int[]} end", "array_positions({int[]}, {int})", "array_cat({int[]}, {int[]})", "array(select g from generate_series(1, abs({int} % 4)) g order by 1)",
        "greatest({int[]}, {int[]})", "nullif({int[]}, {int[]})",
    ),
    "text[]": ("{text[]} || {text[]}", "{text[]} || {text}", "array[{text}, {text}]", "string_to_array({text}, 'l')", "string_to_array({text}, null)", "regexp_split_to_array({text}, '[lo ]')", "regexp_match({text}, '(.)(.)')", "({int[]})::text[]", "coalesce({text[]}, {text[]})", "array_remove({text[]}, {text})"),
    "uuid": ("coalesce({uuid}, {uuid})", "case when {bool} then {uuid} else {uuid} end", "md5({text})::uuid", "nullif({uuid}, {uuid})"),
    "bytea": ("{bytea} || {bytea}", "substring({bytea} from 2)", "convert_to({text}, 'UTF8')", "decode(md5({text}), 'hex')", "sha256({bytea})", "coalesce({bytea}, {bytea})", "trim('\\x00'::bytea from {bytea})", "overlay({bytea} placing '\\xff'::bytea from 1)"),
    "range": ("{range} * {range}", "int4range(least({int}, {int}), greatest({int}, {int}))", "coalesce({range}, {range})", "range_merge({range}, {range})", "case when {bool} then {range} end"),
    "bit": ("{bit} & {bit}", "{bit} | {bit}", "{bit} # {bit}", "~{bit}", "{bit} << 1", "({int} % 8)::bit(4)", "coalesce({bit}, {bit})"),
}  # fmt: skip
"""How an expression of each type is made of others."""

AGGREGATES: Mapping[str, tuple[str, ...]] = {
    "int": ("min({int})", "max({int})", "count(*)::int", "count({text})::int", "count(distinct {int})::int", "bit_and({int})", "bit_or({int})", "array_length(array_agg({int}), 1)", "regr_count({float}, {float})::int", "mode() within group (order by {int})", "percentile_disc(0.5) within group (order by {int})", "bit_xor({int})"),
    "bigint": ("sum({int} % 1000)", "count(*)", "count(distinct {text})", "sum(distinct {int} % 100)", "count(*) filter (where {bool})", "max({bigint})"),
    "numeric": ("sum({numeric} % 1000)", "round(avg({numeric} % 1000), 6)", "round(avg({int} % 1000), 6)", "max({numeric})", "min({numeric}) filter (where {bool})", "round(variance({int} % 100), 4)", "round(stddev_pop({int} % 100), 4)", "sum({bigint} % 1000)"),
    "float": ("min({float})", "max({float})", "percentile_cont(0.5) within group (order by {float})", "count(*)::float8"),
    "text": ("min({text})", "max({text})", "string_agg({text}, ',' order by {text})", "string_agg({text}, '' order by {text}, {text})", "min({text}) filter (where {bool})"),
    "bool": ("bool_and({bool})", "bool_or({bool})", "every({bool})", "count(*) > {int}", "max({int}) > 3"),
    "date": ("min({date})", "max({date})"),
    "timestamp": ("min({timestamp})", "max({timestamp})"),
    "timestamptz": ("min({timestamptz})",),
    "time": ("max({time})",),
    "interval": ("sum({interval})", "max({interval})", "min({interval})"),
    "jsonb": ("jsonb_agg({int} order by {int})", "jsonb_object_agg(coalesce({text}, '-'), 1)" ),
    "int[]": ("array_agg({int} order by {int})", "array_agg({int} % 10 order by {int} % 10)"),
    "text[]": ("array_agg({text} order by {text})", "array_agg({text} order by {text} desc nulls last)"),
    "uuid": ("(array_agg({uuid} order by {uuid}))[1]",),
    "bytea": ("string_agg({bytea}, '\\x00' order by {bytea})",),
    "range": ("(array_agg({range} order by {range}))[1]",),
    "bit": ("bit_and({bit})", "bit_or({bit})"),
}  # fmt: skip
"""Aggregates whose result does not depend on the order of rows."""

PLACE = re.compile(r"(?<!\{)\{([a-z]+(?:\[\])?)\}(?!\})")
"""A place for an expression of a type; `{{` and `}}` stand for braces."""
