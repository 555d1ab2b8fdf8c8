"""Arrays of any dimensions and lower bounds: structs of all elements, `items`, and of `dims`, NULL where the array is
an ordinary list (`planner.ir.array_value`).

`with_dimensions` makes of the form of a routine over ordinary lists (`arrays`) one that takes such arrays too: it says
beside the elements of the result what its dimensions are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from planner.dialects.error_text import error_text
from planner.functions.engines.spark import checked
from planner.functions.forms.form import CallSite, Form, Template, both
from planner.ir.physical import listed
from planner.types.types import INT4

_Build: TypeAlias = Callable[[CallSite, str], str]
"""From a call and the SQL of the routine over the elements, as lists, to the routine's."""

_DIMS, _ITEMS = "({0}).dims", "({0}).items"


def _size(site: CallSite, array: str = "{0}") -> str:
    dialect = site.dialect
    return f"CAST({dialect.length(f'({array}).items')} AS {dialect.scalar_types[INT4]})"


def _python(site: CallSite, text: str) -> str:
    """A call of a function in Python, its arguments spelled for the engine."""
    return text if site.engine == "local" else checked(text)


def _nth(site: CallSite, place: str) -> str:
    return site.dialect.nth(_DIMS, place)


def _of_list(site: CallSite, lists: str, otherwise: str) -> str:
    return f"CASE WHEN {_DIMS} IS NULL THEN {lists} ELSE {otherwise} END"


def _in_dimension(site: CallSite, value: str) -> str:
    return f"CASE WHEN {{1}} BETWEEN 1 AND {_nth(site, '1')} THEN {value} END"


def _length_of(site: CallSite) -> str:
    return _nth(site, "1 + {1}")


def _lower_of(site: CallSite) -> str:
    return _nth(site, f"1 + {_nth(site, '1')} + {{1}}")


def _length(site: CallSite, lists: str) -> str:
    return _of_list(site, lists, _in_dimension(site, _length_of(site)))


def _lower(site: CallSite, lists: str) -> str:
    return _of_list(site, lists, _in_dimension(site, _lower_of(site)))


def _upper(site: CallSite, lists: str) -> str:
    return _of_list(site, lists, _in_dimension(site, f"{_lower_of(site)} + {_length_of(site)} - 1"))


def _number(site: CallSite, lists: str) -> str:
    return _of_list(site, lists, _nth(site, "1"))


def _shown(site: CallSite, lists: str) -> str:
    return _of_list(site, lists, _python(site, f"tg_array_shown_dims({_DIMS}, {_size(site)})"))


def _cat(site: CallSite, lists: str) -> str:
    sizes = [_size(site, "{0}"), _size(site, "{1}")]
    dims = _python(site, f"tg_array_concatenated_dims(({{0}}).dims, {sizes[0]}, ({{1}}).dims, {sizes[1]})")
    both_of = site.dialect.dimensioned(lists, dims)
    return f"CASE WHEN {{0}} IS NULL THEN {{1}} WHEN {{1}} IS NULL THEN {{0}} ELSE {both_of} END"


def _extended(array: str) -> _Build:
    def build(site: CallSite, lists: str) -> str:
        dims = _python(site, f"tg_array_extended_dims(({array}).dims, {_size(site, array)})")
        return site.dialect.dimensioned(lists, dims)

    return build


def _concatenated(site: CallSite, lists: str) -> str:
    """``||`` of two arrays, or of an array and an element."""
    if all(type.dimensioned for type in site.arg_types):
        return _cat(site, lists)
    return _extended("{0}" if site.arg_types[0].dimensioned else "{1}")(site, lists)


def _first_bound(site: CallSite, problem: str) -> str:
    """The lower bound of the one dimension."""
    fault = site.dialect.raise_sql("0A000", problem)
    return f"CASE WHEN {_DIMS} IS NULL THEN 1 WHEN {_nth(site, '1')} = 1 THEN {_nth(site, '3')} ELSE {fault} END"


_SEARCH = "searching for elements in multidimensional arrays is not supported"


def _position(site: CallSite, lists: str) -> str:
    bound = _first_bound(site, _SEARCH)
    found = f"({lists.replace('{2}', f'({{2}} - ({bound}) + 1)')} + ({bound}) - 1)"
    return _of_one_dimension(site, found)


def _positions(site: CallSite, lists: str) -> str:
    return _of_one_dimension(site, site.dialect.transform(lists, "p", f"p + ({_first_bound(site, _SEARCH)}) - 1"))


def _of_one_dimension(site: CallSite, found: str) -> str:
    problem = site.dialect.raise_sql("0A000", "searching for elements in multidimensional arrays is not supported")
    return f"CASE WHEN {_DIMS} IS NOT NULL AND {_nth(site, '1')} > 1 THEN {problem} ELSE {found} END"


def _removed(site: CallSite, lists: str) -> str:
    dialect = site.dialect
    problem = dialect.raise_sql("0A000", "removing elements from multidimensional arrays is not supported")
    size = dialect.length(lists)
    kept = dialect.array(["1", f"CAST({size} AS {dialect.scalar_types[INT4]})", _nth(site, "3")])
    dims = (
        f"CASE WHEN {_DIMS} IS NULL OR ({_nth(site, '1')} = 1 AND {size} = 0) THEN NULL "
        f"WHEN {_nth(site, '1')} = 1 THEN {kept} ELSE {problem} END"
    )
    return f"CASE WHEN {{0}} IS NOT NULL THEN {dialect.dimensioned(lists, dims)} END"


def _replaced(site: CallSite, lists: str) -> str:
    return f"CASE WHEN {{0}} IS NOT NULL THEN {site.dialect.dimensioned(lists, _DIMS)} END"


def _trimmed(site: CallSite, lists: str) -> str:
    dialect = site.dialect
    whole = _nth(site, "2")
    fault = dialect.raise_about(
        "2202E", "number of elements to trim must be between 0 and ", f"CAST({whole} AS {dialect.text})", ""
    )
    first = _nth(site, f"2 + {_nth(site, '1')}")
    last = f"{first} + {whole} - {{1}} - 1"
    bounds = f"CAST({dialect.array(['NULL'])} AS {dialect.dimensions}), {dialect.array([last])}, 'og'"
    places = _python(site, f"tg_array_slice_places({_DIMS}, {_size(site)}, {bounds})")
    dims = _python(site, f"tg_array_slice_dims({_DIMS}, {_size(site)}, {bounds})")
    cut = dialect.dimensioned(dialect.selected(_ITEMS, places), dims)
    return (
        f"CASE WHEN {{0}} IS NULL OR {{1}} IS NULL THEN NULL WHEN {_DIMS} IS NULL THEN "
        f"{dialect.dimensioned(lists, 'NULL')} WHEN {{1}} < 0 OR {{1}} > {whole} THEN {fault} ELSE {cut} END"
    )


def _subscripts(site: CallSite, lists: str) -> str:
    lower, length = _lower_of(site), _length_of(site)
    integers = site.dialect.dimensions
    known = f"{{1}} BETWEEN 1 AND {_nth(site, '1')}"
    if site.engine == "local":
        numbers = f"range({lower}, {lower} + {length})"
    else:
        numbers = f"sequence({lower}, {lower} + {length} - 1)"
    if len(site.arg_types) == 3:
        reverse = "list_reverse" if site.engine == "local" else "reverse"
        numbers = f"CASE WHEN {{2}} THEN {reverse}({numbers}) ELSE {numbers} END"
    empty = f"CAST({site.dialect.array([])} AS {integers})"
    return _of_list(site, lists, f"CASE WHEN {known} THEN CAST({numbers} AS {integers}) ELSE {empty} END")


def _bucket(site: CallSite, lists: str) -> str:
    fault = site.dialect.raise_sql("2202E", "thresholds must be one-dimensional array")
    thresholds = "({1}).dims"
    many = f"{thresholds} IS NOT NULL AND {site.dialect.nth(thresholds, '1')} > 1"
    return f"CASE WHEN {many} THEN {fault} ELSE {lists} END"


_BUILDERS: Mapping[str, _Build] = {
    "array_length": _length,
    "array_lower": _lower,
    "array_upper": _upper,
    "array_ndims": _number,
    "array_dims": _shown,
    "||": _concatenated,
    "array_cat": _cat,
    "array_append": _extended("{0}"),
    "array_prepend": _extended("{1}"),
    "array_position": _position,
    "array_positions": _positions,
    "array_remove": _removed,
    "array_replace": _replaced,
    "trim_array": _trimmed,
    "generate_subscripts": _subscripts,
    "width_bucket": _bucket,
}

OF_DIMENSIONS = frozenset({*_BUILDERS, "array_fill"})
"""The routines that look at the dimensions of arrays."""


def with_dimensions(key: str, form: Form) -> Form:
    """The form of a routine over ordinary lists as one over arrays of any dimensions."""
    build = _BUILDERS.get(key.partition("(")[0])
    if build is None:
        return form
    return Form(
        local=None if form.local is None else _dimensioned(form.local, build),
        spark=None if form.spark is None else _dimensioned(form.spark, build),
    )


def _dimensioned(template: Template, build: _Build) -> Template:
    def chosen(site: CallSite) -> str | None:
        if not any(type.dimensioned for type in site.arg_types):
            return template(site) if callable(template) else template
        over_lists = replace(site, arg_types=tuple(map(listed, site.arg_types)), type=listed(site.type))
        lists = template(over_lists) if callable(template) else template
        if lists is None:
            return None
        lists = lists.replace("{t}", site.dialect.type_name(over_lists.type))
        for place, type in enumerate(site.arg_types):
            if type.dimensioned:
                lists = lists.replace(f"{{{place}}}", f"({{{place}}}).items")
        return build(site, f"({lists})")

    return chosen


_ONE_DIMENSION = error_text("2202E", "wrong number of array subscripts", "Dimension array must be one dimensional.")


def _filled(site: CallSite) -> str:
    dialect = site.dialect
    bounds = "{2}" if len(site.arg_types) == 3 else f"CAST({dialect.array([])} AS {dialect.dimensions})"
    dims = _python(site, f"tg_array_filled_dims({{1}}, {bounds})")
    size = _python(site, f"tg_array_filled_size({{1}}, {bounds})")
    items = dialect.cast(dialect.repeated("{0}", size), listed(site.type))
    many = dialect.error(dialect.string(_ONE_DIMENSION))
    ordinary = f"{dialect.nth(dims, '1')} = 1 AND {dialect.nth(dims, '3')} = 1"
    made = dialect.dimensioned(items, f"CASE WHEN {ordinary} THEN NULL ELSE {dims} END")
    for place, type in reversed(list(enumerate(site.arg_types))[1:]):
        if type.dimensioned:
            argument = f"({{{place}}})"
            made = made.replace(f"{{{place}}}", f"{argument}.items")
            several = f"{argument}.dims IS NOT NULL AND {dialect.nth(f'{argument}.dims', '1')} > 1"
            made = f"CASE WHEN {several} THEN {many} ELSE {made} END"
    return made


def dimension_forms() -> Mapping[str, Form]:
    """The forms of routines that make dimensions."""
    return {"array_fill(anyelement,int4[])": both(_filled), "array_fill(anyelement,int4[],int4[])": both(_filled)}
