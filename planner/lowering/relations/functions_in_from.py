"""Set-returning functions, in FROM and in the select list.

A set-returning function's form gives a list: of values, or of structs (fields by column name) where it has several
columns. Lists are unnested side by side, padded with NULL, as PostgreSQL does with ROWS FROM and with several functions
in one select list.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.functions.forms.form import CallSite
from planner.functions.registry import form, output_columns
from planner.ir import nodes as ir
from planner.lowering.fragments.fragment import Fragment, column, listed, made
from planner.lowering.fragments.templates import fill
from planner.lowering.relations.inlining import inlinable
from planner.lowering.relations.protocols import RelationLowering
from planner.lowering.relations.select import Select, derived
from planner.lowering.scalars.routines import apply
from planner.lowering.scalars.scalars import Scalars
from planner.types.signature import Kind


def function_scan(relations: RelationLowering, rel: ir.FunctionScan) -> Select:
    """Functions in FROM."""
    if len(rel.functions) == 1 and rel.ordinality is None:
        return _single(relations, rel.functions[0])
    return _zipped(relations, rel)


def project_set(relations: RelationLowering, rel: ir.ProjectSet) -> Select:
    """Set-returning functions of a select list."""
    ctx, scalars = relations.ctx, relations.scalars
    calls = rel.functions
    if isinstance(rel.input, ir.OneRow) and len(calls) == 1 and _table(scalars, calls[0]) is not None:
        return _single(relations, calls[0])
    select = relations.build(rel.input)
    if not select.plain() or not inlinable(select, [arg for call in calls for arg in call.args]):
        select = relations.wrap(select)
    lists = [_list(scalars, call) for call in calls]
    if len(lists) > 1 and not ctx.dialect.lateral_lists:
        return _expanded(relations, select, calls, lists)
    ids = [call.fields[0].id for call in calls]
    word = ctx.dialect.expanding_function
    expanded = {id: made(f"{word}({array})", array) for id, array in zip(ids, lists, strict=True)}
    select.columns = {**select.columns, **expanded}
    select.expanded = True
    select = relations.wrap(select)
    for id, call in zip(ids, calls, strict=True):
        alias = select.columns[id].alias
        if len(call.fields) != 1 and alias is not None:
            select.columns = {**select.columns, **_members(scalars, call, alias, f"c{id}")}
    return select


def lateral_lists(relations: RelationLowering, left: Select, rel: ir.FunctionScan, *, outer: bool) -> Select:
    """A lateral join of `left` with set-returning functions: each row beside what its lists hold; with `outer` also the
    rows whose lists are empty. Spark has no such join, and DuckDB would give the elements of a list backwards."""
    select = left
    if not select.plain() or not inlinable(select, [arg for call in rel.functions for arg in call.args]):
        select = relations.wrap(select)
    relations.ctx.columns.update(select.columns)
    lists = [_list(relations.scalars, call) for call in rel.functions]
    if relations.ctx.dialect.lateral_lists:
        return _unnested(relations, select, rel, lists, outer=outer)
    return _expanded(relations, select, rel.functions, lists, outer=outer, ordinality=rel.ordinality)


def _unnested(
    relations: RelationLowering, select: Select, rel: ir.FunctionScan, lists: list[Fragment], *, outer: bool
) -> Select:
    """DuckDB's SELECT of `select`'s columns beside the elements of lists, which are unnested side by side."""
    ctx, scalars = relations.ctx, relations.scalars
    ids = [*select.columns]
    outputs = [(fragment, f"c{id}") for id, fragment in select.columns.items()]
    lists = [_of_a_type(call, array) for call, array in zip(rel.functions, lists, strict=True)]
    if outer or rel.ordinality is not None or len(lists) > 1 or any(array.subquery for array in lists):
        # What is looked at more than once has to be the same list.
        beneath = ctx.alias()
        named = [*outputs, *((array, f"l{index}") for index, array in enumerate(lists))]
        select = Select(ctx, {}, derived(select.render(named), beneath))
        outputs = [(column(beneath, name), name) for _, name in outputs]
        lists = [column(beneath, f"l{index}") for index in range(len(lists))]
    lengths = [f"coalesce(len({array}), 0)" for array in lists]
    longest = f"greatest({', '.join(lengths)})" if len(lists) > 1 else lengths[0]
    items = [array.sql for array in lists]
    if rel.ordinality is not None:
        items.append(f"range(1, {longest} + 1)")
    if outer:
        items = [f"CASE WHEN {longest} = 0 THEN [NULL] ELSE {item} END" for item in items]
    word = ctx.dialect.expanding_function
    generated = [(made(f"{word}({item})", *lists), f"l{index}") for index, item in enumerate(items)]
    alias = ctx.alias()
    source = derived(select.render([*outputs, *generated]), alias)
    columns = {id: column(alias, f"c{id}") for id in ids}
    for index, call in enumerate(rel.functions):
        columns.update(_members(scalars, call, alias, f"l{index}"))
    if rel.ordinality is not None:
        columns[rel.ordinality] = column(alias, f"l{len(lists)}")
    ctx.columns.update(columns)
    return Select(ctx, columns, source)


def _of_a_type(call: ir.FunctionCall, array: Fragment) -> Fragment:
    """The list of a function. A part of what is always NULL is of no type for DuckDB, and nothing that it expands."""
    if all(isinstance(arg, ir.ColumnRef) for arg in call.args):
        return array
    return made(f"coalesce({array}, [])", array)


# ---------------------------------------------------------------- lists


def _site(scalars: Scalars, call: ir.FunctionCall) -> CallSite:
    return CallSite(
        engine=scalars.ctx.engine,
        arg_types=tuple([arg.type for arg in call.args]),
        type=call.fields[0].type,
        constants=tuple([scalars.constant(arg) for arg in call.args]),
        settings=scalars.ctx.settings,
        spread=call.signature.spread,
    )


def _result(scalars: Scalars, call: ir.FunctionCall) -> Fragment:
    args = [scalars.lower(arg) for arg in call.args]
    return apply(scalars, call.signature, args, _site(scalars, call))


def _list(scalars: Scalars, call: ir.FunctionCall) -> Fragment:
    """The list that a function returns; a function that is not set-returning gives a list of one."""
    result = _result(scalars, call)
    if call.signature.kind is Kind.SET_RETURNING:
        return result
    return made(scalars.ctx.dialect.array([result.sql]), result)


def _members(scalars: Scalars, call: ir.FunctionCall, alias: str, item: str) -> dict[int, Fragment]:
    """The columns of a function, whose rows are the column `item` of a FROM item."""
    if len(call.fields) == 1:
        return {call.fields[0].id: column(alias, item)}
    columns = output_columns(call.signature)
    assert columns is not None
    return {
        field.id: column(alias, f"{item}.{scalars.ctx.dialect.quoted_name(name)}")
        for field, (name, _) in zip(call.fields, columns, strict=True)
    }


def _table(scalars: Scalars, call: ir.FunctionCall) -> Fragment | None:
    """The engine's table function, where it has one that streams and the arguments are constants."""
    given = form(call.signature)
    chosen = None if given is None else given.table_on(scalars.ctx.engine)
    if chosen is None:
        return None
    site = _site(scalars, call)
    if not all(isinstance(value, int) for value in site.constants):
        return None
    template = chosen(site) if callable(chosen) else chosen
    return None if template is None else fill(scalars.ctx, template, [scalars.lower(arg) for arg in call.args])


def _single(relations: RelationLowering, call: ir.FunctionCall) -> Select:
    ctx, scalars = relations.ctx, relations.scalars
    if call.signature.kind is not Kind.SET_RETURNING:
        result = _result(scalars, call)
        if len(call.fields) == 1:
            return Select(ctx, {call.fields[0].id: result})
        alias = ctx.alias()
        source = derived(made(f"SELECT {result} AS c1", result), alias)
        return Select(ctx, _members(scalars, call, alias, "c1"), source)
    alias = ctx.alias()
    table = _table(scalars, call)
    if table is not None:
        field = call.fields[0]
        number = Fragment(ctx.dialect.cast(f"{alias}.c1", field.type))
        return Select(ctx, {field.id: number}, made(f"{table} AS {alias}(c1)", table))
    array = _list(scalars, call)
    if ctx.dialect.lateral_lists:
        array = _of_a_type(call, array)
    expanded = made(f"{ctx.dialect.expanding_function}({array})", array)
    if len(call.fields) == 1 or ctx.dialect.lateral_lists:
        source = made(f"{expanded} AS {alias}(c1)", expanded)
    else:
        source = derived(made(f"SELECT {expanded} AS c1", expanded), alias)
    return Select(ctx, _members(scalars, call, alias, "c1"), source)


def _zipped(relations: RelationLowering, rel: ir.FunctionScan) -> Select:
    """Several functions side by side, or one with its rows numbered."""
    ctx, scalars = relations.ctx, relations.scalars
    lists = [_list(scalars, call) for call in rel.functions]
    alias = ctx.alias()
    columns: dict[int, Fragment] = {}
    if not ctx.dialect.lateral_lists:
        arrays = ", ".join([f"coalesce({array}, array())" for array in lists])
        source = derived(made(f"SELECT posexplode(arrays_zip({arrays})) AS (p, z)", *lists), alias)
        for index, call in enumerate(rel.functions):
            columns.update(_members(scalars, call, alias, f"z.`{index}`"))
        if rel.ordinality is not None:
            columns[rel.ordinality] = Fragment(f"CAST({alias}.p + 1 AS BIGINT)")
        return Select(ctx, columns, source)
    beneath = ""
    if rel.ordinality is not None and any(array.alias is None for array in lists):
        # Their elements and their lengths are to be of the same lists, and these made once.
        inner = ctx.alias()
        named = ", ".join([f"{array} AS l{index}" for index, array in enumerate(lists)])
        lists = [made(f"{inner}.l{index}", array) for index, array in enumerate(lists)]
        beneath = f" FROM (SELECT {named}) AS {inner}"
    items = [f"unnest({array}) AS l{index}" for index, array in enumerate(lists)]
    if rel.ordinality is not None:
        lengths = ", ".join([f"coalesce(len({array}), 0)" for array in lists])
        longest = f"greatest({lengths})" if len(lists) > 1 else lengths
        items.append(f"unnest(range(1, {longest} + 1)) AS o")
    source = derived(made(f"SELECT {', '.join(items)}{beneath}", *lists), alias)
    for index, call in enumerate(rel.functions):
        columns.update(_members(scalars, call, alias, f"l{index}"))
    if rel.ordinality is not None:
        columns[rel.ordinality] = column(alias, "o")
    return Select(ctx, columns, source)


def _expanded(
    relations: RelationLowering, select: Select, calls: Sequence[ir.FunctionCall], lists: list[Fragment],
    *, outer: bool = False, ordinality: int | None = None,
) -> Select:  # fmt: skip
    """Spark's SELECT of `select`'s columns beside the elements of lists, which are unnested side by side."""
    ctx, scalars = relations.ctx, relations.scalars
    generator = ("explode" if ordinality is None else "posexplode") + "_outer" * outer
    elements = lists[0]
    if len(lists) > 1:
        arrays = [made(f"coalesce({array}, array())", array) for array in lists]
        elements = made(f"arrays_zip({listed(arrays)})", *arrays)
    outputs = [(fragment, f"c{id}") for id, fragment in select.columns.items()]
    generated = (made(f"{generator}({elements})", elements), "z" if ordinality is None else "(p, z)")
    inner = select.render([*outputs, generated])
    alias = ctx.alias()
    columns = {id: column(alias, f"c{id}") for id in select.columns}
    for index, call in enumerate(calls):
        columns.update(_members(scalars, call, alias, "z" if len(lists) == 1 else f"z.`{index}`"))
    if ordinality is not None:
        columns[ordinality] = Fragment(f"CAST({alias}.p + 1 AS BIGINT)")
    ctx.columns.update(columns)
    return Select(ctx, columns, derived(inner, alias))
