"""Arrays held as ordinary lists: of one dimension, whose lower bound is 1. Others: `array_dimensions`.

NULL elements are kept, and equal to each other where PostgreSQL compares elements with IS NOT DISTINCT FROM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planner.dialects.comparison_keys import equality_key, order_key
from planner.functions.families.array_dimensions import dimension_forms, with_dimensions
from planner.functions.forms.form import CallSite, Form, Template, both
from planner.ir.physical import element_type
from planner.types.base_types import kind_of
from planner.types.types import BOOL, INT2VECTOR, INT4, OIDVECTOR, SqlType, is_wide


def _is_vector(site: CallSite) -> bool:
    """Whether it is of oids or of int2, one of which has its dimension even without elements."""
    return site.arg_types[0].oid in (INT2VECTOR, OIDVECTOR)


def _when_dimensioned(site: CallSite, size: str, then: str) -> str:
    some = ">= 0" if _is_vector(site) else "> 0"
    return f"CASE WHEN {size} {some} THEN {then} END"


def _array_length(site: CallSite) -> str:
    size = "CAST(len({0}) AS INTEGER)" if site.engine == "local" else "size({0})"
    return _when_dimensioned(site, f"{{1}} = 1 AND {size}", size)


def _array_lower(site: CallSite) -> str:
    size = "len({0})" if site.engine == "local" else "size({0})"
    return _when_dimensioned(site, f"{{1}} = 1 AND {size}", "0" if _is_vector(site) else "1")


def _array_upper(site: CallSite) -> str:
    size = "CAST(len({0}) AS INTEGER)" if site.engine == "local" else "size({0})"
    return _when_dimensioned(site, f"{{1}} = 1 AND {size}", f"{size} - 1" if _is_vector(site) else size)


def _array_ndims(site: CallSite) -> str:
    return _when_dimensioned(site, "len({0})" if site.engine == "local" else "size({0})", "1")


def _cat(site: CallSite) -> str:
    concat = "list_concat({0}, {1})" if site.engine == "local" else "concat({0}, {1})"
    return f"CASE WHEN {{0}} IS NULL THEN {{1}} WHEN {{1}} IS NULL THEN {{0}} ELSE {concat} END"


def _append(site: CallSite) -> str:
    if site.engine == "local":
        return "list_concat(coalesce({0}, CAST([] AS {t})), [{1}])"
    return "concat(coalesce({0}, CAST(array() AS {t})), array({1}))"


def _prepend(site: CallSite) -> str:
    if site.engine == "local":
        return "list_concat([{0}], coalesce({1}, CAST([] AS {t})))"
    return "concat(array({0}), coalesce({1}, CAST(array() AS {t})))"


def _to_string(site: CallSite) -> str:
    element = element_type(site.arg_types[0])
    text = "{element_text:0}"
    if element is not None and element.oid == BOOL:
        text = "CASE WHEN e THEN 't' WHEN NOT e THEN 'f' END"
    if site.engine == "local":
        # DuckDB's array_to_string wants a constant separator; concat_ws passes over the elements that are NULL.
        joined = f"concat_ws({{1}}, list_transform({{0}}, lambda e: {text}))"
        if len(site.arg_types) == 3:
            replaced = f"concat_ws({{1}}, list_transform({{0}}, lambda e: coalesce({text}, {{2}})))"
            joined = f"CASE WHEN {{2}} IS NULL THEN {joined} ELSE {replaced} END"
        return f"CASE WHEN {{0}} IS NOT NULL AND {{1}} IS NOT NULL THEN {joined} END"
    if len(site.arg_types) == 2:
        return f"array_join(transform({{0}}, e -> {text}), {{1}})"
    return (
        f"CASE WHEN {{2}} IS NULL THEN array_join(transform({{0}}, e -> {text}), {{1}}) "
        f"ELSE array_join(transform({{0}}, e -> coalesce({text}, {{2}})), {{1}}) END"
    )


def _position(site: CallSite) -> str:
    if site.engine == "local":
        start = "" if len(site.arg_types) == 2 else " AND i >= {2}"
        return (
            f"CAST(list_filter(range(1, len({{0}}) + 1), lambda i: ({{0}})[i] IS NOT DISTINCT FROM {{1}}{start})[1] AS"
            " INTEGER)"
        )
    start = "" if len(site.arg_types) == 2 else " AND i + 1 >= {2}"
    return (
        f"CASE WHEN size({{0}}) > 0 THEN get(filter(sequence(0, size({{0}}) - 1), i -> get({{0}}, i) <=> {{1}}{start}),"
        " 0) + 1 END"
    )


def _positions(site: CallSite) -> str:
    if site.engine == "spark":
        return "filter(transform({0}, (e, i) -> CASE WHEN e <=> {1} THEN i + 1 END), p -> p IS NOT NULL)"
    return (
        "list_transform(list_filter(range(1, len({0}) + 1), lambda i: ({0})[i] IS NOT DISTINCT FROM {1}), lambda i:"
        " CAST(i AS INTEGER))"
    )


def _remove(site: CallSite) -> str:
    element, wanted = _element_keys(site)
    if site.engine == "local":
        return f"list_filter({{0}}, lambda e: {element} IS DISTINCT FROM {wanted})"
    return f"filter({{0}}, e -> NOT ({element} <=> {wanted}))"


def _replace(site: CallSite) -> str:
    element, wanted = _element_keys(site)
    if site.engine == "local":
        return (
            f"list_transform({{0}}, lambda e: CASE WHEN {element} IS NOT DISTINCT FROM {wanted} THEN {{2}} ELSE e END)"
        )
    return f"transform({{0}}, e -> CASE WHEN {element} <=> {wanted} THEN {{2}} ELSE e END)"


def _is_keyed(type: SqlType) -> bool:
    """Whether values are compared by keys here: numerics that are held as text, and what extensions make."""
    return is_wide(type) or kind_of(type.oid) is not None


def _element_keys(site: CallSite) -> tuple[str, str]:
    """What the element ``e`` and the second argument are compared by."""
    key = f"({equality_key(site.arg_types[1], site.dialect)})" if _is_keyed(site.arg_types[1]) else "{0}"
    return key.replace("{0}", "e"), key.replace("{0}", "{1}")


def _by_value(template: Template) -> Callable[[CallSite], str]:
    """A template that compares elements, with those compared by their keys that have one."""

    def keyed(site: CallSite) -> str:
        sql = template if isinstance(template, str) else template(site) or ""
        for index, type in enumerate(site.arg_types):
            if _is_keyed(element_type(type) or type):
                place = f"{{{index}}}"
                sql = sql.replace(place, f"({equality_key(type, site.dialect).replace('{0}', place)})")
        return sql

    return keyed


def _dims(site: CallSite) -> str:
    size = "len({0})" if site.engine == "local" else "size({0})"
    text = "VARCHAR" if site.engine == "local" else "STRING"
    first, less = ("0", " - 1") if _is_vector(site) else ("1", "")
    return _when_dimensioned(site, size, f"'[{first}:' || CAST({size}{less} AS {text}) || ']'")


def _bucket(site: CallSite) -> str:
    dialect = site.dialect
    null = dialect.raise_sql("22004", "thresholds array must not contain NULLs")
    key = f"({order_key(site.arg_types[0], dialect)})" if _is_keyed(site.arg_types[0]) else "{0}"
    found = dialect.length(dialect.filter("{1}", "b", f"{key.replace('{0}', 'b')} <= {key}"))
    without = dialect.length(dialect.filter("{1}", "b", "b IS NOT NULL"))
    return (
        f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN {without} < {dialect.length('{1}')} THEN {null} "
        f"ELSE CAST({found} AS {dialect.scalar_types[INT4]}) END"
    )


def _string_to_array(site: CallSite) -> str | None:
    null = "" if len(site.arg_types) == 2 else ", {2}"
    if site.engine == "local":
        return f"tg_string_to_array({{0}}, {{1}}{null or ', NULL'})"
    delimiter = site.constants[1]
    if not isinstance(delimiter, str) or not delimiter or null:
        return None
    from planner.functions.families.patterns import literal

    escaped = "".join("\\" + char if not char.isalnum() and char not in " _-," else char for char in delimiter)
    return (
        f"CASE WHEN {{0}} = '' THEN CAST(array() AS ARRAY<STRING>) ELSE split({{0}}, {literal(site, escaped)}, -1) END"
    )


def _subscripts(site: CallSite) -> str:
    start = 0 if site.arg_types[0].oid in (INT2VECTOR, OIDVECTOR) else 1
    if site.engine == "local":
        numbers = (
            "list_transform(range(1, CASE WHEN {1} = 1 THEN len({0}) ELSE 0 END + 1), lambda i: CAST(i -"
            f" {1 - start} AS INTEGER))"
        )
        reverse = "list_reverse"
    else:
        numbers = (
            f"CASE WHEN {{1}} = 1 AND size({{0}}) > 0 THEN sequence({start}, size({{0}}) - {1 - start}) ELSE"
            " CAST(array() AS ARRAY<INT>) END"
        )
        reverse = "reverse"
    return numbers if len(site.arg_types) == 2 else f"CASE WHEN {{2}} THEN {reverse}({numbers}) ELSE {numbers} END"


def forms() -> Mapping[str, Form]:
    """The family's forms."""
    contains = Form(
        local=(
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(len(list_filter({1}, lambda e: e IS NULL OR"
            " NOT list_contains({0}, e))) = 0, TRUE) END"
        ),
        spark="CASE WHEN {0} IS NOT NULL THEN forall({1}, e -> coalesce(array_contains({0}, e), FALSE)) END",
    )
    contained = Form(
        local=(
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN coalesce(len(list_filter({0}, lambda e: e IS NULL OR"
            " NOT list_contains({1}, e))) = 0, TRUE) END"
        ),
        spark="CASE WHEN {1} IS NOT NULL THEN forall({0}, e -> coalesce(array_contains({1}, e), FALSE)) END",
    )
    overlap = Form(
        local="list_has_any({0}, {1})",
        spark="CASE WHEN {1} IS NOT NULL THEN exists({0}, e -> coalesce(array_contains({1}, e), FALSE)) END",
    )
    lists: dict[str, Form] = {
        "@>(anyarray,anyarray)": Form(local=_by_value(contains.local or ""), spark=_by_value(contains.spark or "")),
        "<@(anyarray,anyarray)": Form(local=_by_value(contained.local or ""), spark=_by_value(contained.spark or "")),
        "&&(anyarray,anyarray)": Form(local=_by_value(overlap.local or ""), spark=_by_value(overlap.spark or "")),
        "||(anycompatiblearray,anycompatiblearray)": both(_cat),
        "||(anycompatiblearray,anycompatible)": both(_append),
        "||(anycompatible,anycompatiblearray)": both(_prepend),
        "array_cat(anycompatiblearray,anycompatiblearray)": both(_cat),
        "array_append(anycompatiblearray,anycompatible)": both(_append),
        "array_prepend(anycompatible,anycompatiblearray)": both(_prepend),
        "array_length(anyarray,int4)": both(_array_length),
        "array_lower(anyarray,int4)": both(_array_lower),
        "array_upper(anyarray,int4)": both(_array_upper),
        "array_ndims(anyarray)": both(_array_ndims),
        "array_dims(anyarray)": both(_dims),
        "cardinality(anyarray)": Form(local="CAST(len({0}) AS INTEGER)", spark="size({0})"),
        "array_to_string(anyarray,text)": both(_to_string),
        "array_to_string(anyarray,text,text)": both(_to_string),
        "array_position(anycompatiblearray,anycompatible)": both(_by_value(_position)),
        "array_position(anycompatiblearray,anycompatible,int4)": both(_by_value(_position)),
        "array_positions(anycompatiblearray,anycompatible)": both(_by_value(_positions)),
        "array_remove(anycompatiblearray,anycompatible)": both(_remove),
        "array_replace(anycompatiblearray,anycompatible,anycompatible)": both(_replace),
        "width_bucket(anycompatible,anycompatiblearray)": both(_bucket),
        "trim_array(anyarray,int4)": Form(
            local=(
                "CASE WHEN {1} < 0 OR {1} > len({0}) THEN error('TG:2202E:number of elements to trim must be between 0"
                " and ' || len({0})) ELSE list_slice({0}, 1, len({0}) - {1}) END"
            ),
            spark=(
                "CASE WHEN {0} IS NULL THEN NULL WHEN {1} < 0 OR {1} > size({0}) THEN raise_error('TG:2202E:number of"
                " elements to trim must be between 0 and ' || size({0})) ELSE slice({0}, 1, size({0}) - {1}) END"
            ),
        ),
        "string_to_array(text,text)": both(_string_to_array),
        "string_to_array(text,text,text)": both(_string_to_array),
        "string_to_table(text,text)": both(_string_to_array),
        "string_to_table(text,text,text)": both(_string_to_array),
        "generate_subscripts(anyarray,int4)": both(_subscripts),
        "generate_subscripts(anyarray,int4,bool)": both(_subscripts),
        "unnest(anyarray)": both("{0}"),
    }
    return {**{key: with_dimensions(key, form) for key, form in lists.items()}, **dimension_forms()}
