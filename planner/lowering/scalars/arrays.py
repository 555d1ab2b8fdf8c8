"""Arrays: constructors, subscripts, slices, and comparisons with their elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from planner.dialects.error_text import error_text
from planner.errors import ArraySubscriptError
from planner.ir import nodes as ir
from planner.ir.array_value import MAX_DIMENSIONS, MAX_ELEMENTS, ArrayValue, items_of
from planner.ir.physical import element_type, listed
from planner.lowering.fragments.fragment import Fragment, made, simple
from planner.lowering.fragments.fragment import listed as joined
from planner.lowering.fragments.templates import fill, let
from planner.lowering.scalars.casts import NOT_ORDINARY
from planner.lowering.scalars.comparison_runs import compares_keys
from planner.lowering.scalars.logic import BOOLEAN, among
from planner.lowering.scalars.routines import call
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.types import types
from planner.types.types import SqlType
from planner.values.geometry.shapes import GEOMETRY, SUBSCRIPTABLE


def _array(scalars: Scalars, expr: ir.ArrayConstructor) -> Fragment:
    element = element_type(expr.type)
    assert element is not None
    if expr.type.dimensioned:
        return _array_of_arrays(scalars, expr, element)
    items = [scalars.typed(item, element) for item in expr.items]
    dialect = scalars.ctx.dialect
    return made(dialect.cast(dialect.array([item.sql for item in items]), expr.type), *items)


def _array_of_arrays(scalars: Scalars, expr: ir.ArrayConstructor, element: SqlType) -> Fragment:
    dialect = scalars.ctx.dialect
    written = _written_out(expr)
    if written is not None:
        items, lengths = written
        values = [scalars.typed(item, element) for item in items]
        listed_items = dialect.cast(dialect.array([value.sql for value in values]), listed(expr.type))
        dims = [len(lengths), *lengths, *[1] * len(lengths)]
        return made(dialect.dimensioned(listed_items, dialect.array([str(number) for number in dims])), *values)
    whole = expr.type
    arrays = [scalars.lower(item) for item in expr.items]
    gathered = made(
        f"CAST({dialect.array([array.sql for array in arrays])} AS {dialect.list_type(dialect.type_name(whole))})",
        *arrays,
    )
    return joined_arrays(scalars, gathered, "tg_array_constructed_dims")


def joined_arrays(scalars: Scalars, arrays: Fragment, dims_function: str) -> Fragment:
    """The array of the arrays that the list `arrays` has; `dims_function` gives its dimensions."""
    ctx, dialect = scalars.ctx, scalars.ctx.dialect
    name = ctx.variable()
    inner = dialect.transform("{0}", name, f"({name}).dims")
    sizes = dialect.transform(
        "{0}", name, f"CAST({dialect.length(f'({name}).items')} AS {dialect.scalar_types[types.INT4]})"
    )
    dims = ctx.raising(f"{dims_function}({{0}}, {{1}})")
    kept = dialect.filter("{0}", name, f"{name} IS NOT NULL")
    items = f"flatten({dialect.transform(kept, name, f'({name}).items')})"
    known = fill(ctx, dims, [fill(ctx, inner, [arrays]), fill(ctx, sizes, [arrays])])
    return fill(ctx, f"CASE WHEN {{0}} IS NOT NULL THEN {dialect.dimensioned(items, '{1}')} END", [arrays, known])


def _written_out(expr: ir.ArrayConstructor) -> tuple[list[ir.Scalar], list[int]] | None:
    """The elements and lengths of an array of arrays that are written out to the last element; None for another, and
    where the lengths differ."""
    inner: list[tuple[list[ir.Scalar], list[int]]] = []
    for item in expr.items:
        if isinstance(item, ir.Cast) and replace(item.type, dimensioned=False) == item.arg.type:
            item = item.arg
        if not isinstance(item, ir.ArrayConstructor) or not item.items:
            return None
        found = _written_out(item) if item.type.dimensioned and element_type(item.items[0].type) else None
        if found is None:
            if any(element_type(part.type) is not None for part in item.items):
                return None
            found = list(item.items), [len(item.items)]
        inner.append(found)
    if not inner or any(lengths != inner[0][1] for _, lengths in inner):
        return None
    lengths = [len(inner), *inner[0][1]]
    return ([item for items, _ in inner for item in items], lengths) if len(lengths) <= MAX_DIMENSIONS else None


def _subscript(scalars: Scalars, expr: ir.Subscript) -> Fragment:
    zero_based = expr.arg.type.oid in (types.INT2VECTOR, types.OIDVECTOR, types.NAME)
    array = scalars.lower(expr.arg)
    if expr.arg.type.oid in SUBSCRIPTABLE:
        return _part_of_shape(scalars, array, expr)
    if expr.arg.type.dimensioned:
        return (_slice_of_any if expr.slice else _element_of_any)(scalars, array, expr)
    if len(expr.lower) > 1:
        # An ordinary list has one dimension.
        fragments = [array, *[scalars.lower(bound) for bound in (*expr.lower, *expr.upper) if bound is not None]]
        known = " AND ".join([f"{{{place}}} IS NOT NULL" for place in range(len(fragments))])
        empty = scalars.ctx.dialect.cast(scalars.ctx.dialect.array([]), listed(expr.type))
        return fill(
            scalars.ctx, f"CASE WHEN {known} THEN {empty} END", fragments
        ) if expr.slice else scalars.null(expr.type)  # fmt: skip
    if expr.slice:
        return _slice(scalars, array, expr)
    (subscript,) = expr.lower
    assert subscript is not None
    index = scalars.lower(subscript)
    constant = scalars.constant(subscript)
    in_range = isinstance(constant, int) and constant + zero_based >= 1
    return fill(scalars.ctx, scalars.ctx.dialect.element(zero_based=zero_based, in_range=in_range), [array, index])


def _part_of_shape(scalars: Scalars, shape: Fragment, expr: ir.Subscript) -> Fragment:
    """A number or a corner of a point, line, segment or box."""
    if len(expr.lower) > 1:
        return scalars.null(expr.type)
    (subscript,) = expr.lower
    assert subscript is not None
    is_number = expr.type.oid == types.FLOAT8
    name = "tg_geometry_number" if is_number else "tg_geometry_corner"
    called = scalars.ctx.dialect.python(name, "{0}", f"'{GEOMETRY[expr.arg.type.oid]}'", "{1}")
    called = f"CAST({called} AS DOUBLE)" if is_number else called
    return fill(scalars.ctx, called, [shape, scalars.lower(subscript)])


def _part_assigned(scalars: Scalars, expr: ir.SubscriptAssignment) -> Fragment:
    """What `_part_of_shape` reads replaced; a NULL, in its place or as the whole, changes nothing."""
    if len(expr.lower) > 1:
        raise ArraySubscriptError("wrong number of array subscripts")
    (subscript,) = expr.lower
    assert subscript is not None
    dialect = scalars.ctx.dialect
    name = "tg_geometry_with_number" if expr.items.type.oid == types.FLOAT8 else "tg_geometry_with_corner"
    changed = dialect.python(name, "{0}", f"'{GEOMETRY[expr.type.oid]}'", "{1}", "{2}")
    fault = dialect.raise_sql("22004", "array subscript in assignment must not be null")
    template = f"CASE WHEN {{0}} IS NULL OR {{2}} IS NULL THEN {{0}} WHEN {{1}} IS NULL THEN {fault} ELSE {changed} END"
    return fill(scalars.ctx, template, [scalars.lower(expr.arg), scalars.lower(subscript), scalars.lower(expr.items)])


def _size(scalars: Scalars, array: str) -> str:
    dialect = scalars.ctx.dialect
    return f"CAST({dialect.length(f'({array}).items')} AS {dialect.scalar_types[types.INT4]})"


def _element_of_any(scalars: Scalars, array: Fragment, expr: ir.Subscript) -> Fragment:
    ctx, dialect = scalars.ctx, scalars.ctx.dialect
    subscripts = [scalars.lower(bound) for bound in expr.lower if bound is not None]
    listed_subscripts = dialect.array([f"{{{place}}}" for place in range(1, len(subscripts) + 1)])
    place = ctx.raising(f"tg_array_place(({{0}}).dims, {_size(scalars, '{0}')}, {listed_subscripts})")
    found = dialect.nth("({0}).items", place)
    if len(subscripts) == 1:
        plain = f"CASE WHEN {{1}} >= 1 THEN {dialect.nth('({0}).items', '{1}')} END"
        found = f"CASE WHEN ({{0}}).dims IS NULL THEN {plain} ELSE {found} END"
    return fill(ctx, found, [array, *subscripts])


def _bounds_of_slice(
    scalars: Scalars, expr: ir.Subscript | ir.SubscriptAssignment, first: int
) -> tuple[list[Fragment], str, list[int]]:
    """The bounds of a slice, or the subscripts of an element, that are given; the arguments for them from place `first`
    on as `planner.functions.udfs.arrays` takes them; and their places."""
    dialect = scalars.ctx.dialect
    fragments: list[Fragment] = []
    places: list[int] = []
    sides: list[str] = []
    for bounds in (expr.lower, expr.upper):
        members: list[str] = []
        for bound in bounds:
            if bound is None:
                members.append("NULL")
                continue
            members.append(f"{{{first + len(fragments)}}}")
            places.append(first + len(fragments))
            fragments.append(scalars.lower(bound))
        sides.append(f"CAST({dialect.array(members)} AS {dialect.dimensions})")
    omitted = "".join(
        ["o" if bound is None else "g" for pair in zip(expr.lower, expr.upper, strict=False) for bound in pair]
    )
    return fragments, f"{sides[0]}, {sides[1]}, '{omitted}'", places


def _slice_of_any(scalars: Scalars, array: Fragment, expr: ir.Subscript) -> Fragment:
    ctx, dialect = scalars.ctx, scalars.ctx.dialect
    bounds, arguments, places = _bounds_of_slice(scalars, expr, 1)
    dims, size = "({0}).dims", _size(scalars, "{0}")
    found = ctx.raising(f"tg_array_slice_places({dims}, {size}, {arguments})")
    lengths = ctx.raising(f"tg_array_slice_dims({dims}, {size}, {arguments})")
    made_of = dialect.dimensioned(dialect.selected("({0}).items", found), lengths)
    known = " AND ".join([f"{{{place}}} IS NOT NULL" for place in (0, *places)])
    return fill(ctx, f"CASE WHEN {known} THEN {made_of} END", [array, *bounds])


def _slice(scalars: Scalars, array: Fragment, expr: ir.Subscript) -> Fragment:
    dialect = scalars.ctx.dialect
    template = dialect.slice(expr.type)
    first, last = expr.lower[0], expr.upper[0]
    lower, upper = simple("1"), simple("1")
    if first is None:
        template = template.replace("{1}", "1")
    else:
        index = scalars.lower(first)
        lower = made(f"greatest({index}, 1)", index)
        if not isinstance(scalars.constant(first), int):
            # greatest() passes over NULL.
            lower = fill(scalars.ctx, "CASE WHEN {0} IS NOT NULL THEN greatest({0}, 1) END", [index])
    if last is None:
        template = template.replace("{2}", dialect.length("{0}"))
    else:
        upper = scalars.lower(last)
    return fill(scalars.ctx, template, [array, lower, upper])


_NO_BOUNDS = error_text(
    "2202E",
    "array slice subscript must provide both boundaries",
    "When assigning to a slice of an empty array value, slice boundaries must be fully specified.",
)


def _assigned(scalars: Scalars, expr: ir.SubscriptAssignment) -> Fragment:
    if expr.type.oid in SUBSCRIPTABLE:
        return _part_assigned(scalars, expr)
    if expr.type.dimensioned:
        return _assigned_in_any(scalars, expr)
    return _assigned_in_list(scalars, expr)


def _assigned_in_any(scalars: Scalars, expr: ir.SubscriptAssignment) -> Fragment:
    """The old elements and the new ones, each at its place."""
    ctx, dialect = scalars.ctx, scalars.ctx.dialect
    array, given = scalars.lower(expr.arg), scalars.lower(expr.items)
    if expr.items.type.dimensioned:
        given = fill(ctx, "({0}).items", [given])
    bounds, arguments, _ = _bounds_of_slice(scalars, expr, 2)
    integer = dialect.scalar_types[types.INT4]
    old = f"coalesce(({{0}}).items, {dialect.cast(dialect.array([]), listed(expr.type))})"
    size = f"CAST({dialect.length(old)} AS {integer})"
    count = f"CAST({dialect.length('{1}')} AS {integer})"
    values = f"({{0}}).dims, {size}, {arguments}, {count}"
    places = ctx.raising(f"tg_array_assigned_places({values})")
    dims = ctx.raising(f"tg_array_assigned_dims({values})")
    changed = dialect.dimensioned(dialect.selected(dialect.concatenated(old, "{1}"), places), dims)
    if expr.slice:
        # Nothing is assigned where NULL is.
        empty = dialect.dimensioned(dialect.cast(dialect.array([]), listed(expr.type)), "NULL")
        before = f"coalesce({dialect.cast('{0}', expr.type)}, {dialect.cast(empty, expr.type)})"
        changed = f"CASE WHEN {{1}} IS NULL THEN {before} ELSE {changed} END"
    return fill(ctx, changed, [array, given, *bounds])


def _assigned_in_list(scalars: Scalars, expr: ir.SubscriptAssignment) -> Fragment:
    """The elements before, the new ones and those behind; between the former two NULLs for elements that are not there
    yet."""
    dialect = scalars.ctx.dialect
    array, items = scalars.lower(expr.arg), scalars.lower(expr.items)
    if expr.items.type.dimensioned:
        items = fill(scalars.ctx, "({0}).items", [items])
    element = element_type(expr.type)
    assert element is not None
    first, last = expr.lower[0], expr.upper[0] if expr.slice else None
    empty = dialect.cast(dialect.array([]), expr.type)
    length = f"coalesce({dialect.length('{0}')}, 0)"
    lower = "1" if first is None else "{1}"
    upper = "{2}" if last is not None else length if expr.slice else lower

    def refused(condition: str, sqlstate: str, message: str) -> str:
        return f"WHEN {condition} THEN {dialect.raise_sql(sqlstate, message)} "

    whens = ""
    for bound, place in ((first, "{1}"), (last, "{2}")):
        if bound is not None:
            whens += refused(f"{place} IS NULL", "22004", "array subscript in assignment must not be null")
    if expr.slice:
        whens += f"WHEN {{3}} IS NULL THEN coalesce({{0}}, {empty}) "
        if first is None or last is None:
            whens += f"WHEN {length} = 0 THEN {dialect.error(dialect.string(_NO_BOUNDS))} "
        whens += refused(f"{upper} < {lower}", "2202E", "upper bound cannot be less than lower bound")
        given = dialect.length("{3}")
        whens += refused(f"{given} < {upper} - {lower} + 1", "2202E", "source array too small")
    whens += f"WHEN {lower} < 1 OR ({length} = 0 AND {lower} > 1) THEN {dialect.error(dialect.string(NOT_ORDINARY))} "
    most = f"array size exceeds the maximum allowed ({MAX_ELEMENTS})"
    whens += refused(f"{upper} > {MAX_ELEMENTS}", "54000", most)
    made_of = dialect.with_elements(f"coalesce({{0}}, {empty})", lower=lower, upper=upper, items="{3}", element=element)
    one = simple("1")
    bounds = [one if bound is None else scalars.lower(bound) for bound in (first, last)]
    return fill(scalars.ctx, f"CASE {whens}ELSE {made_of} END", [array, *bounds, items])


# ---------------------------------------------------------------- = ANY (array), < ALL (array)


def _quantified(scalars: Scalars, expr: ir.QuantifiedArray) -> Fragment:
    element = element_type(expr.array.type)
    assert element is not None
    ctx = scalars.ctx
    items = _items(scalars, expr.array)
    if items and expr.operator.name == {"any": "=", "all": "<>"}[expr.quantifier] and compares_keys(expr.operator):
        return among(scalars, expr.arg, items, negated=expr.quantifier == "all")
    arg = scalars.lower(expr.arg)
    if items and arg.simple:
        tests = [
            call(scalars, expr.operator, [arg, scalars.lower(item)], [expr.arg.type, item.type], BOOLEAN)
            for item in items
        ]
        return made(f"({joined(tests, ' OR ' if expr.quantifier == 'any' else ' AND ')})", *tests)
    array = scalars.lower(expr.array)
    if expr.array.type.dimensioned:
        array = fill(ctx, "({0}).items", [array])
    if arg.volatile or (arg.subquery and ctx.dialect.let_of_subqueries):
        # The test of one element, a lambda, cannot hold a subquery, and is evaluated for each.
        name = ctx.variable()
        body = _over_list(scalars, expr, simple(f"{name}.a0"), simple(f"{name}.a1"), element)
        value = made(ctx.dialect.struct([("a0", arg.sql), ("a1", array.sql)]), arg, array)
        return let(ctx, value, name, body)
    return _over_list(scalars, expr, arg, array, element)


def _over_list(
    scalars: Scalars, expr: ir.QuantifiedArray, arg: Fragment, array: Fragment, element: SqlType
) -> Fragment:
    dialect = scalars.ctx.dialect
    name = scalars.ctx.variable()
    test = call(scalars, expr.operator, [arg, simple(name)], [expr.arg.type, element], BOOLEAN)
    if dialect.list_quantifiers:
        return made(
            f"{'exists' if expr.quantifier == 'any' else 'forall'}({array}, {name} -> {test})", array, test
        )  # fmt: skip
    decisive, other = ("TRUE", "FALSE") if expr.quantifier == "any" else ("FALSE", "TRUE")
    tests = made(dialect.transform(array.sql, name, test.sql), array, test)
    known = dialect.length(dialect.filter("{0}", name, f"{name} IS NOT NULL"))
    return fill(
        scalars.ctx,
        f"CASE WHEN {{0}} IS NULL THEN NULL WHEN list_contains({{0}}, {decisive}) THEN {decisive} "
        f"WHEN {dialect.length('{0}')} > {known} THEN NULL ELSE {other} END",
        [tests],
    )


def _items(scalars: Scalars, expr: ir.Scalar) -> Sequence[ir.Scalar] | None:
    """The elements of an array that is written out; None where they are not known one by one."""
    if isinstance(expr, ir.ArrayConstructor):
        return None if expr.type.dimensioned else expr.items
    if isinstance(expr, ir.Cast) and isinstance(expr.arg, ir.ArrayConstructor):
        element = element_type(expr.type)
        if element is None or expr.type.dimensioned:
            return None
        return [ir.Cast(arg=item, type=element, explicit=expr.explicit) for item in expr.arg.items]
    if isinstance(expr, (ir.Literal, ir.Param)):
        value = scalars.constant(expr)
        element = element_type(expr.type)
        if isinstance(value, (tuple, list, ArrayValue)) and element is not None:
            items = value if isinstance(value, list) else items_of(value)
            return [ir.Literal(value=item, type=element) for item in items]
    return None


HANDLERS: Mapping[type, Handler] = {
    ir.ArrayConstructor: _array,
    ir.Subscript: _subscript,
    ir.SubscriptAssignment: _assigned,
    ir.QuantifiedArray: _quantified,
}
