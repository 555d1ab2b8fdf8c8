"""Aggregates and window functions; see `planner.lowering.aggregates` for the marks in their templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.dialects.comparison_keys import AS_IT_IS, order_key
from planner.errors import InvalidArgumentForNthValue, InvalidArgumentForNtile
from planner.functions.engines.spark import checked, portable
from planner.functions.forms.form import CallSite, Form, both, local_only
from planner.functions.forms.limits import interval_in_range
from planner.functions.forms.numeric_division import number_scale, quotient, quotient_number
from planner.ir.physical import element_type
from planner.types.base_types import kind_of
from planner.types.numeric_shapes import INTEGER_DIGITS, shape_of
from planner.types.types import CIDR, FLOAT8, INET, INTERVAL, NUMERIC, NumericShape, SqlType

_COLLECTED = both("")
"""Printed by `planner.lowering.collected`."""
_LISTS = (
    "array_agg(anynonarray)", "array_agg(anyarray)", "string_agg(text,text)", "string_agg(bytea,bytea)",
    "json_agg(anyelement)", "jsonb_agg(anyelement)", "json_object_agg(any,any)", "jsonb_object_agg(any,any)",
)  # fmt: skip
_COUNT_SHAPE = NumericShape(12, 0)
_ORDERED = [
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "oid",
    "anyarray",
    "anyenum",
]


_NUMBER = "CASE WHEN count({d}{0}){f} > 0 THEN count({d}{0}){f} END"
"""How many values there are. NOTE: not nullif(), for which Spark makes a projection over the groups, and looks for the
rows of the outer query to which a correlated subquery has none in the product of its tables."""


def _average(site: CallSite) -> str | None:
    narrow = shape_of(site.arg_types[0])
    if not narrow.exact_scale:
        if site.distinct:
            return _over_distinct_wide(site, "avg")
        return site.dialect.python("tg_numeric_avg", *_addends(site), "count({0}){f}")
    if site.engine == "local":
        return "tg_numeric_div(CAST(sum({d}{0}){f} AS VARCHAR), CAST(nullif(count({d}{0}){f}, 0) AS VARCHAR))"
    integer = site.arg_types[0].oid in INTEGER_DIGITS
    summed = f"sum({{d}}CAST({{0}} AS DECIMAL({narrow.precision},0))){{f}}" if integer else "sum({d}{0}){f}"
    divided = quotient_of_sum(site.arg_types[0], lambda _: summed, number=shape_of(site.type).exact_scale)
    return None if divided is None else divided.replace("{count}", _NUMBER)


def _sum_shape(narrow: NumericShape) -> NumericShape:
    return NumericShape(min(38, narrow.precision + 10), narrow.scale)


def average_number(type: SqlType) -> NumericShape | None:
    """The decimal that holds averages of numbers of `type` on Spark, where only their value matters."""
    narrow = shape_of(type)
    whole = narrow.precision - narrow.scale
    scale = number_scale(_sum_shape(narrow), _COUNT_SHAPE, whole)
    return None if scale is None else NumericShape(whole + scale, scale)


def quotient_of_sum(type: SqlType, summed: Callable[[str], str], *, number: bool = False) -> str | None:
    """avg() on Spark of integers or decimals of `type`: their sum, which `summed` gives in the type of a name, through
    their number, whose place is ``{count}``; with `number` as an `average_number`. None where the engine has no room
    for it."""
    narrow = shape_of(type)
    shape, whole = _sum_shape(narrow), narrow.precision - narrow.scale
    if number:
        divided: str | None = quotient_number(shape, _COUNT_SHAPE, whole)
    else:
        divided = quotient("spark", shape, _COUNT_SHAPE, whole_digits=whole)
    if divided is None:
        return None
    return _joined(divided, summed(f"DECIMAL({shape.precision},{shape.scale})"), "CAST({count} AS DECIMAL(12,0))")


_ADDED = ("DECIMAL(30,12)", 12, 30)
"""Wide numbers of no more fraction digits and no longer texts are added up as decimals; there is room for 10^8."""
_ADDED_LONG = ("DECIMAL(28,20)", NumericShape(38, 20), 28)
"""So are those of more fraction digits, as quotients have them, and of at most eight whole ones, by themselves."""


def _over_distinct_wide(site: CallSite, kind: str) -> str:
    """Equal numbers count once, whatever zeros they show."""
    return site.dialect.python("tg_numeric_over_distinct", f"'{kind}'", f"{site.dialect.list_function}({{0}}){{f}}")


def _addends(site: CallSite) -> list[str]:
    """Of the wide numbers of a group: the sum of those that are added up as decimals, their largest scale, and a list
    of the others, with the sum of those that are long."""
    dialect = site.dialect
    digits = "(length({0}) - instr({0}, '.')) * CAST(instr({0}, '.') > 0 AS INT)"
    type_, scale, length = _ADDED
    number = f"try_cast({{0}} AS {type_})"
    small = f"length({{0}}) <= {length} AND {digits} <= {scale} AND {number} IS NOT NULL"
    type_, shape, length = _ADDED_LONG
    long_number = f"try_cast({{0}} AS {type_})"
    long = f"length({{0}}) <= {length} AND {digits} BETWEEN {scale + 1} AND {shape.scale} AND {long_number} IS NOT NULL"
    long_sum = dialect.shown(f"sum(CASE WHEN {long} THEN {long_number} END){{f}}", SqlType(NUMERIC, -1, shape))
    shown = f"length({long_sum}) - {shape.scale} + max(CASE WHEN {long} THEN CAST({digits} AS INT) END){{f}}"
    others = f"{dialect.list_function}(CASE WHEN {small} THEN NULL WHEN {long} THEN NULL ELSE {{0}} END){{f}}"
    return [
        f"CAST(sum(CASE WHEN {small} THEN {number} END){{f}} AS {dialect.text})",
        f"max(CASE WHEN {small} THEN CAST({digits} AS INT) END){{f}}",
        dialect.concatenated(others, dialect.array([f"substr({long_sum}, 1, CAST({shown} AS INT))"])),
    ]


def _joined(template: str, total: str, count: str) -> str:
    """A quotient's template with both operands put in at once: they have places of their own."""
    before, _, rest = template.partition("{0}")
    middle, _, after = rest.partition("{1}")
    return before + total + middle + count + after


def _sum_numeric(site: CallSite) -> str:
    if not shape_of(site.type).exact_scale:
        return (
            _over_distinct_wide(site, "sum")
            if site.distinct
            else site.dialect.python("tg_numeric_sum", *_addends(site))
        )
    return "sum({d}{0}){f}" if site.engine == "local" else "CAST(sum({d}{0}){f} AS {t})"


def extreme(name: str) -> Callable[[CallSite], str]:
    """min or max."""

    def template(site: CallSite) -> str | None:
        if site.arg_types[0].oid == INTERVAL:
            if site.engine == "local":
                return f"arg_{name}({{0}}, {site.dialect.interval_key('{0}')}){{f}}"
            return f"{name}_by({{0}}, {site.dialect.interval_key('{0}')}){{f}}"
        if site.arg_types[0].oid in (INET, CIDR):
            if site.engine == "local":
                return f"arg_{name}({{0}}, tg_inet_key({{0}})){{f}}"
            return f"{name}_by({{0}}, {portable('tg_inet_key({0})')}){{f}}"
        wide = site.type.oid == NUMERIC and not shape_of(site.type).exact_scale
        key = order_key(site.arg_types[0], site.dialect)
        arrays = element_type(site.arg_types[0]) is not None and key != AS_IT_IS
        if wide or arrays or kind_of(site.arg_types[0].oid) is not None:
            if site.engine == "local":
                return f"arg_{name}({{0}}, {key}){{f}}"
            return f"{name}_by({{0}}, {key}){{f}}"
        return f"{name}({{0}}){{f}}"

    return template  # type: ignore[return-value]


def _over_distinct(site: CallSite, kind: str) -> str:
    parts = "concat_ws(' ', {0}.months, {0}.days, {0}.micros)"
    if site.engine == "local":
        return f"tg_interval_over_distinct('{kind}', list(DISTINCT {parts}){{f}})"
    return checked(f"tg_interval_over_distinct('{kind}', collect_set({parts}){{f}})")


def _average_interval(site: CallSite) -> str:
    if site.distinct:
        return _over_distinct(site, "avg")
    return _AVERAGE_INTERVAL if site.engine == "local" else checked(_AVERAGE_INTERVAL)


def _sum_interval(site: CallSite) -> str:
    if site.distinct:
        return _over_distinct(site, "sum")
    wide = site.dialect.wide_integer()
    months, days, micros = (f"sum(CAST({{0}}.{part} AS {wide})){{f}}" for part in ("months", "days", "micros"))
    return f"CASE WHEN count({{0}}){{f}} > 0 THEN {interval_in_range(site, months, days, micros)} END"


_PART = 13
"""Digits of a part of a number; the product of two parts is summed exactly over 10^11 rows."""


def _variance(kind: str) -> Callable[[CallSite], str | None]:
    def template(site: CallSite) -> str:
        text = site.dialect.text
        given = shape_of(site.arg_types[0])
        if not given.exact_scale:
            if site.distinct:
                return _over_distinct_wide(site, kind)
            listed = f"{site.dialect.list_function}({{0}}){{f}}"
            return site.dialect.python("tg_numeric_variance_of", f"'{kind}'", listed)
        scale = 0 if site.arg_types[0].oid in INTEGER_DIGITS else given.scale
        value = f"CAST({{0}} AS DECIMAL(38,{scale}))"
        if site.distinct:
            listed = f"{site.dialect.list_function}(DISTINCT CAST({value} AS {text})){{f}}"
            return site.dialect.python("tg_numeric_variance_of", f"'{kind}'", listed)
        squares = [f"CAST({square} AS {text})" for square in _squares(given.precision, value, text)]
        counted = f"count({{0}}){{f}}, CAST(sum({value}){{f}} AS {text})"
        return site.dialect.python("tg_numeric_variance", f"'{kind}'", counted, site.dialect.array(squares))

    return template


def _squares(precision: int, value: str, text: str) -> list[str]:
    """The sums of the products of each pair of parts of the digits of `value`; see udfs.numbers.numeric.variance."""
    count = -(-precision // _PART)
    digits = f"lpad(replace(replace(CAST({value} AS {text}), '.', ''), '-', ''), {3 * _PART}, '0')"
    whole = "HUGEINT" if text == "VARCHAR" else f"DECIMAL({_PART},0)"
    parts = [
        f"CAST(substring({digits}, {(3 - count + index) * _PART + 1}, {_PART}) AS {whole})" for index in range(count)
    ]
    return [f"sum({parts[left]} * {parts[right]}){{f}}" for left in range(count) for right in range(left, count)]


_SORTED = {
    "local": "list_sort(list_filter(list({1}){f}, lambda x: x IS NOT NULL), "
    "CASE WHEN '{dir}' = '' THEN 'ASC' ELSE 'DESC' END)",
    "spark": "sort_array(collect_list({1}){f}, '{dir}' = '')",
}
_PLACE = "<p> * (count({1}){f} - 1)"
_BETWEEN = {
    "local": "list_transform([struct_pack(s := " + _SORTED["local"] + f", r := {_PLACE})], lambda q: "
    "CASE WHEN floor(q.r) = q.r THEN q.s[CAST(q.r AS BIGINT) + 1] ELSE q.s[CAST(floor(q.r) AS BIGINT) + 1] + "
    "(q.s[CAST(ceil(q.r) AS BIGINT) + 1] - q.s[CAST(floor(q.r) AS BIGINT) + 1]) * (q.r - floor(q.r)) END)[1]",
    "spark": "transform(array(named_struct('s', " + _SORTED["spark"] + f", 'r', {_PLACE})), q -> "
    "CASE WHEN floor(q.r) = q.r THEN get(q.s, CAST(q.r AS INT)) ELSE get(q.s, CAST(floor(q.r) AS INT)) + "
    "(get(q.s, CAST(ceil(q.r) AS INT)) - get(q.s, CAST(floor(q.r) AS INT))) * (q.r - floor(q.r)) END)[0]",
}
"""percentile_cont of the fraction `<p>`: between the two values where it falls, by float8_lerp's formula. The engines'
own functions round otherwise."""
_BETWEEN_INTERVALS = {
    "local": f"tg_interval_percentile(list({{1}}){{f}}, CAST({_PLACE} AS DOUBLE), '{{dir}}' = '')",
}
"""The same of intervals."""
_AT = {
    "local": _SORTED["local"] + "[greatest(CAST(ceil(<p> * count({1}){f}) AS BIGINT), 1)]",
    "spark": "get(" + _SORTED["spark"] + ", greatest(CAST(ceil(<p> * count({1}){f}) AS INT), 1) - 1)",
}
"""percentile_disc of the fraction `<p>`: the first value that it reaches."""


def _percentile(name: str, computed: Mapping[str, str]) -> Callable[[CallSite], str]:
    """percentile_cont or percentile_disc of one fraction or of an array of them: the engine's own where it has it for
    these constants, else looked up in the sorted values."""

    def template(site: CallSite) -> str:
        given = site.constants[0]
        fractions = given if isinstance(given, tuple) else (given,)
        known = bool(fractions) and all(isinstance(each, float) and 0 <= each <= 1 for each in fractions)
        if known and site.engine == "local" and name == "percentile_disc":
            return name + "({0}) WITHIN GROUP (ORDER BY {1} {dir}){f}"
        several = element_type(site.arg_types[0]) is not None
        number = "p" if several else "{0}"
        rounded = f"CAST({site.dialect.significant_digits(number, 6)} AS DOUBLE)"
        shown = site.dialect.float_text(FLOAT8).replace("{0}", rounded)
        fault = site.dialect.raise_about("22003", "percentile value ", shown, " is not between 0 and 1")
        one = (
            f"CASE WHEN {number} NOT BETWEEN 0 AND 1 THEN {fault} "
            f"WHEN {number} IS NOT NULL THEN {computed[site.engine].replace('<p>', number)} END"
        )
        if site.arg_types[0].dimensioned:
            items = site.dialect.transform("({0}).items", "p", one)
            one = f"CASE WHEN {{0}} IS NOT NULL THEN {site.dialect.dimensioned(items, '({0}).dims')} END"
        elif several:
            one = site.dialect.transform("{0}", "p", one)
        return f"CASE WHEN count({{1}}){{f}} > 0 THEN {one} END"

    return template


_SINGLE_ON_SPARK = frozenset({"regr_avgx", "regr_avgy", "regr_sxx", "regr_syy"})
"""Spark computes these over one of the two numbers, so that its DISTINCT would not see the other."""


def _of_pairs(name: str) -> Callable[[CallSite], str | None]:
    """An aggregate of pairs of numbers."""

    def template(site: CallSite) -> str | None:
        if site.distinct and site.engine == "spark" and name in _SINGLE_ON_SPARK:
            return None
        form = f"{name}({{d}}{{0}}, {{1}}){{f}}"
        if site.engine == "spark" or name not in ("regr_slope", "corr"):
            return form
        # Without a spread there is no value, where DuckDB says NaN.
        flat = [f"regr_{of}({{d}}{{0}}, {{1}}){{f}} = 0" for of in (["sxx", "syy"] if name == "corr" else ["sxx"])]
        return f"CASE WHEN {' OR '.join(flat)} THEN NULL ELSE {form} END"

    return template


_AVERAGE_INTERVAL = (
    "tg_interval_avg(CAST(sum({0}.months){f} AS BIGINT), CAST(sum({0}.days){f} AS BIGINT), "
    "CAST(sum({0}.micros){f} AS BIGINT), count({0}){f})"
)


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    given: dict[str, Form] = {
        "count()": both("count(*){f}"),
        "count(any)": both("count({d}{0}){f}"),
        "sum(int2)": Form(local="CAST(sum({d}{0}){f} AS BIGINT)", spark="sum({d}CAST({0} AS BIGINT)){f}"),
        "sum(int4)": Form(local="CAST(sum({d}{0}){f} AS BIGINT)", spark="sum({d}{0}){f}"),
        "sum(int8)": Form(
            local="CAST(sum({d}{0}){f} AS DECIMAL(38,0))",
            spark="CAST(sum({d}CAST({0} AS DECIMAL(19,0))){f} AS DECIMAL(38,0))",
        ),
        "sum(numeric)": both(_sum_numeric),
        "sum(float4)": both("CAST(sum({d}{0}){f} AS FLOAT)"),
        "sum(float8)": both("sum({d}{0}){f}"),
        "sum(interval)": both(_sum_interval),
        "avg(int2)": both(_average),
        "avg(int4)": both(_average),
        "avg(int8)": both(_average),
        "avg(numeric)": both(_average),
        "avg(float4)": both("avg({d}CAST({0} AS DOUBLE)){f}"),
        "avg(float8)": both("avg({d}{0}){f}"),
        "avg(interval)": both(_average_interval),
        "bool_and(bool)": both("bool_and({0}){f}"),
        "every(bool)": both("bool_and({0}){f}"),
        "bool_or(bool)": both("bool_or({0}){f}"),
        **dict.fromkeys(_LISTS, _COLLECTED),
        "mode(anyelement)": Form(local="mode({0} ORDER BY {w}){f}", spark="mode() WITHIN GROUP (ORDER BY {0}){f}"),
        "percentile_cont(float8,float8)": both(_percentile("percentile_cont", _BETWEEN)),
        "percentile_cont(float8[],float8)": both(_percentile("percentile_cont", _BETWEEN)),
        "percentile_cont(float8,interval)": local_only(_percentile("percentile_cont", _BETWEEN_INTERVALS)),
        "percentile_cont(float8[],interval)": local_only(_percentile("percentile_cont", _BETWEEN_INTERVALS)),
        "percentile_disc(float8,anyelement)": both(_percentile("percentile_disc", _AT)),
        "percentile_disc(float8[],anyelement)": both(_percentile("percentile_disc", _AT)),
        "regr_count(float8,float8)": both("CAST(regr_count({d}{0}, {1}){f} AS BIGINT)"),
    }
    for name in (
        "corr",
        "covar_pop",
        "covar_samp",
        "regr_avgx",
        "regr_avgy",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
    ):
        given[f"{name}(float8,float8)"] = both(_of_pairs(name))
    for name in ("min", "max"):
        for type in (*_ORDERED, "bpchar", "interval", "inet", "anyarray"):
            given[f"{name}({type})"] = both(extreme(name))
    for name, kind in {
        "stddev": "stddev_samp", "stddev_samp": "stddev_samp", "stddev_pop": "stddev_pop", "variance": "var_samp",
        "var_samp": "var_samp", "var_pop": "var_pop",
    }.items():  # fmt: skip
        for type in ("int2", "int4", "int8", "numeric"):
            given[f"{name}({type})"] = both(_variance(kind))
        for type in ("float4", "float8"):
            form = f"{kind}({{d}}CAST({{0}} AS DOUBLE)){{f}}"
            if kind.endswith("_pop"):
                # Engines say 0 of a single value, also where it is NaN or infinite.
                form = f"({form} + max(CAST({{0}} AS DOUBLE) - CAST({{0}} AS DOUBLE)){{f}})"
            given[f"{name}({type})"] = both(form)
    for type in ("int2", "int4", "int8"):
        for name in ("bit_and", "bit_or", "bit_xor"):
            given[f"{name}({type})"] = both(f"{name}({{d}}{{0}}){{f}}")
    given.update(_window_functions())
    return given


def _ntile(site: CallSite) -> str:
    count = site.constants[0]
    if isinstance(count, int) and count <= 0:
        raise InvalidArgumentForNtile("argument of ntile must be greater than zero")
    return "CAST(ntile({0}){f} AS INTEGER)" if site.engine == "local" else "ntile({0}){f}"


def _nth_value(site: CallSite) -> str:
    number = site.constants[1]
    if isinstance(number, int) and number <= 0:
        raise InvalidArgumentForNthValue("argument of nth_value must be greater than zero")
    return "nth_value({0}, {1}){f}"


def _window_functions() -> dict[str, Form]:
    given: dict[str, Form] = {}
    for name in ("row_number", "rank", "dense_rank"):
        given[f"{name}()"] = Form(local=f"{name}(){{f}}", spark=f"CAST({name}(){{f}} AS BIGINT)")
    for name in ("percent_rank", "cume_dist"):
        given[f"{name}()"] = both(f"{name}(){{f}}")
    given["ntile(int4)"] = both(_ntile)
    for name in ("lag", "lead"):
        given[f"{name}(anyelement)"] = both(f"{name}({{0}}){{f}}")
        given[f"{name}(anyelement,int4)"] = both(f"{name}({{0}}, {{1}}){{f}}")
        given[f"{name}(anycompatible,int4,anycompatible)"] = both(f"{name}({{0}}, {{1}}, {{2}}){{f}}")
    given["first_value(anyelement)"] = both("first_value({0}){f}")
    given["last_value(anyelement)"] = both("last_value({0}){f}")
    given["nth_value(anyelement,int4)"] = both(_nth_value)
    return given
