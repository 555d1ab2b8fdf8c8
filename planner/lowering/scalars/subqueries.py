"""Subqueries as expressions: scalar, EXISTS, IN and other comparisons with their rows, ARRAY(SELECT ...)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from planner.functions.registry import operators
from planner.ir import nodes as ir
from planner.ir.rewrite import is_correlated
from planner.lowering.fragments.decided import folded
from planner.lowering.fragments.fragment import Fragment, OrderKey, column, listed, made
from planner.lowering.fragments.python_conditions import depends_in_python
from planner.lowering.fragments.row_order import in_order, keys_as_columns
from planner.lowering.scalars.arrays import joined_arrays
from planner.lowering.scalars.collected import in_order_of, key_members
from planner.lowering.scalars.logic import BOOLEAN
from planner.lowering.scalars.routines import call
from planner.lowering.scalars.scalars import Handler, Scalars
from planner.types.signature import COMPARISONS
from planner.values.geometry.shapes import GEOMETRY


def _inside(scalars: Scalars, rel: ir.Rel) -> Fragment:
    """A subquery for use inside an expression."""
    return replace(scalars.relations.subquery(rel), subquery=True)


def _scalar(scalars: Scalars, expr: ir.ScalarSubquery) -> Fragment:
    inner = _inside(scalars, expr.rel)
    value = made(f"({inner})", inner)
    if isinstance(expr.rel, ir.Project | ir.Filter) and _counts(scalars, expr.rel):
        alias, dialect = scalars.ctx.alias(), scalars.ctx.dialect
        fault = dialect.raise_sql("21000", "more than one row returned by a subquery used as an expression")
        first = f"first({alias}.c{expr.rel.fields[0].id})"
        value = made(f"(SELECT CASE WHEN count(*) > 1 THEN {fault} ELSE {first} END FROM ({inner}) AS {alias})", inner)
    if scalars.ctx.repeated is not None:
        scalars.ctx.repeated.lowered.append((expr, value))
    return value


def _exists(scalars: Scalars, expr: ir.Exists) -> Fragment:
    inner = _inside(scalars, expr.rel)
    if _counts(scalars, expr.rel):
        alias = scalars.ctx.alias()
        return made(f"((SELECT count(*) FROM ({inner}) AS {alias}) {'=' if expr.negated else '>'} 0)", inner)
    return made(f"({'NOT ' if expr.negated else ''}EXISTS ({inner}))", inner)


def _counts(scalars: Scalars, rel: ir.Rel) -> bool:
    """Whether the engine tells whether `rel` has a row by counting them only."""
    counts = not scalars.ctx.dialect.python_in_all_joins and depends_in_python(scalars.calls_python, rel)
    scalars.ctx.pairs_in_python = scalars.ctx.pairs_in_python or counts
    return counts


# ---------------------------------------------------------------- comparisons with each row


def _quantified(scalars: Scalars, expr: ir.QuantifiedSubquery) -> Fragment:
    return _compared(scalars, expr, exact=True)


def _quantified_condition(scalars: Scalars, expr: ir.QuantifiedSubquery) -> Fragment:
    return _compared(scalars, expr, exact=False)


def _with_rows(scalars: Scalars, expr: ir.Scalar) -> ir.QuantifiedSubquery | None:
    """A comparison with the elements of ARRAY(subquery) as one with its rows, where the engine cannot collect the rows
    of a subquery that depends on others; None for everything else."""
    if not isinstance(expr, ir.QuantifiedArray) or not isinstance(expr.array, ir.ArraySubquery):
        return None
    if expr.array.type.dimensioned or expr.operator.name not in COMPARISONS:
        return None
    if scalars.ctx.dialect.quantified_subqueries:
        return None
    rel = expr.array.rel
    return ir.QuantifiedSubquery(
        args=(expr.arg,), operators=(expr.operator,), quantifier=expr.quantifier, rel=rel, type=expr.type
    )


def _quantified_array_condition(scalars: Scalars, expr: ir.QuantifiedArray) -> Fragment:
    rows = _with_rows(scalars, expr)
    return scalars.lower(expr) if rows is None else scalars.condition(rows)


def _bool_op_condition(scalars: Scalars, expr: ir.BoolOp) -> Fragment:
    decided = folded(expr, scalars.ctx.decided)
    if not isinstance(decided, ir.BoolOp):
        return scalars.condition(decided)
    expr = decided
    if expr.op != "not":
        args = [scalars.condition(arg) for arg in expr.args]
        return made(f"({listed(args, f' {expr.op.upper()} ')})", *args)
    negated = _negation(_with_rows(scalars, expr.args[0]) or expr.args[0])
    return scalars.lower(expr) if negated is None else scalars.condition(negated)


def _negation(expr: ir.Scalar) -> ir.QuantifiedSubquery | None:
    """NOT IN for IN (subquery); None for everything else."""
    if not isinstance(expr, ir.QuantifiedSubquery) or expr.quantifier != "any" or len(expr.operators) != 1:
        return None
    equals = expr.operators[0]
    if equals.name != "=":
        return None
    # By its oid: of arrays, ranges and enums the signature has the types of the call.
    declared = next((candidate.args for candidate in operators("=") if candidate.oid == equals.oid), None)
    unequal = next((candidate for candidate in operators("<>") if candidate.args == declared), None)
    return None if unequal is None else replace(expr, operators=(unequal,), quantifier="all")


def _compared(scalars: Scalars, expr: ir.QuantifiedSubquery, *, exact: bool) -> Fragment:
    """`exact` says that NULL differs from false."""
    dialect = scalars.ctx.dialect
    if any(arg.type.oid in GEOMETRY for arg in expr.args):
        raise scalars.ctx.unsupported("a geometric value compared with the rows of a subquery")
    names = [operator.name for operator in expr.operators]
    key = scalars.comparable_as if set(names) <= {"=", "<>"} else scalars.key_as
    pairs = [(arg.type, field.type) for arg, field in zip(expr.args, expr.rel.fields, strict=True)]
    args = [key(scalars.lower(arg), arg.type, pair) for arg, pair in zip(expr.args, pairs, strict=True)]
    if not dialect.quantified_subqueries and any(arg.volatile for arg in args):
        # It would be another value for each row of the subquery.
        raise scalars.ctx.unsupported("a volatile expression compared with the rows of a subquery")
    alias = scalars.ctx.alias()
    inner = _inside(scalars, expr.rel)
    source = made(f"({inner}) AS {alias}", inner)
    columns = [
        key(column(alias, f"c{field.id}"), field.type, pair) for field, pair in zip(expr.rel.fields, pairs, strict=True)
    ]
    if dialect.quantified_subqueries and _loses_false(expr, inner, args):
        return _counted(scalars, expr, source, alias)
    if dialect.quantified_subqueries and len(args) > 1 and is_correlated(expr.rel):
        # DuckDB compares several columns with the rows of no subquery that depends on the row outside.
        if any(arg.volatile for arg in args):
            raise scalars.ctx.unsupported("a volatile expression compared with the rows of a subquery")
        return _counted(scalars, expr, source, alias, exact=exact)
    parts = [*args, *columns, source]
    left = args[0].sql if len(args) == 1 else f"({listed(args)})"
    counts = _counts(scalars, expr.rel)
    membership = not counts and (
        (expr.quantifier == "any" and all(name == "=" for name in names))
        or (expr.quantifier == "all" and all(name == "<>" for name in names))
    )
    if membership and (dialect.quantified_subqueries or not exact):
        word = "IN" if expr.quantifier == "any" else "NOT IN"
        return made(f"({left} {word} (SELECT {listed(columns)} FROM {source}))", *parts)
    if dialect.quantified_subqueries and len(args) == 1 and names[0] in COMPARISONS:
        return made(f"({left} {names[0]} {expr.quantifier.upper()} (SELECT {columns[0]} FROM {source}))", *parts)
    return _counted(scalars, expr, source, alias, counts=counts)


def _loses_false(expr: ir.QuantifiedSubquery, inner: Fragment, args: list[Fragment]) -> bool:
    """Whether the local engine would answer NULL where no row of the subquery decides: it does so when these depend on
    the row outside and something inside is volatile to it, as an error is."""
    if not (inner.volatile or inner.may_raise) or any(arg.volatile for arg in args):
        return False
    return is_correlated(expr.rel)


def _counted(
    scalars: Scalars, expr: ir.QuantifiedSubquery, source: Fragment, alias: str, *,
    exact: bool = True, counts: bool = False,
) -> Fragment:  # fmt: skip
    """The three-valued answer from whether a row decides it and whether one leaves it unknown; unless `exact` only
    whether it is true. `counts`: the engine tells whether there is a row by counting them only."""
    tests = [
        call(
            scalars, operator, [scalars.lower(arg), column(alias, f"c{field.id}")], [arg.type, field.type], BOOLEAN
        )
        for operator, arg, field in zip(expr.operators, expr.args, expr.rel.fields, strict=True)
    ]  # fmt: skip
    any_ = expr.quantifier == "any"
    row_joiner = " OR " if len(tests) > 1 and all(operator.name == "<>" for operator in expr.operators) else " AND "
    test = f"({listed(tests, row_joiner)})"
    decisive, other = ("TRUE", "FALSE") if any_ else ("FALSE", "TRUE")
    if not scalars.ctx.dialect.python_in_all_joins and any(test.python for test in tests):
        counts = True

    def is_there(condition: str) -> str:
        if counts:
            return f"((SELECT count(*) FROM {source} WHERE {condition}) > 0)"
        return f"EXISTS (SELECT 1 FROM {source} WHERE {condition})"

    if any_ and not exact:
        sql = is_there(test)
    elif scalars.ctx.dialect.quantified_subqueries:
        sql = (
            f"(SELECT CASE WHEN coalesce(bool_or({test} IS {decisive}), FALSE) THEN {decisive} "
            f"WHEN coalesce(bool_or({test} IS NULL), FALSE) THEN NULL ELSE {other} END FROM {source})"
        )
    else:
        found, unknown = is_there(f"{'' if any_ else 'NOT '}{test}"), is_there(f"{test} IS NULL")
        sql = f"CASE WHEN {found} THEN {decisive} WHEN {unknown} THEN NULL ELSE {other} END"
    return made(sql, source, *tests)


def _array(scalars: Scalars, expr: ir.ArraySubquery) -> Fragment:
    dialect = scalars.ctx.dialect
    of_arrays = expr.type.dimensioned
    list_type = dialect.list_type(dialect.type_name(expr.type)) if of_arrays else dialect.type_name(expr.type)
    collected = _listed_in_order(scalars, expr.rel, list_type)
    if not of_arrays:
        return made(f"({collected})", collected)
    outer = scalars.ctx.alias()
    whole = joined_arrays(scalars, column(outer, "l"), "tg_array_gathered_dims")
    return made(f"(SELECT {whole} FROM ({collected}) AS {outer})", collected, whole)


def _listed_in_order(scalars: Scalars, rel: ir.Rel, list_type: str) -> Fragment:
    """A SELECT of the list of a subquery's only column, in the order of its rows."""
    ctx, value = scalars.ctx, rel.fields[0]
    alias = ctx.alias()
    keys: list[OrderKey] = []
    ordered = in_order(rel, ctx.new_id)
    if ordered is None or not ordered[1]:
        inner = _inside(scalars, rel)
    else:
        rel, sorted_by = keys_as_columns(ordered[0], (value,), ordered[1], ctx.new_id)
        inner = _inside(scalars, rel)
        ctx.columns.update({field.id: column(alias, f"c{field.id}") for field in rel.fields})
        keys = scalars.relations.order_keys(sorted_by)
    item = f"{alias}.c{value.id}"
    if ctx.dialect.ordered_aggregates:
        ordering = f" ORDER BY {', '.join(map(str, keys))}" if keys else ""
        empty = f"CAST({ctx.dialect.array([])} AS {list_type})"
        values = f"coalesce({ctx.dialect.list_function}({item}{ordering}), {empty})"
    else:
        # A struct that holds NULL: NULLs themselves are passed over.
        rows = f"{ctx.dialect.list_function}({ctx.dialect.struct([*key_members(keys), ('v', item)])})"
        each = ctx.variable()
        values = ctx.dialect.transform(in_order_of(ctx, rows, keys) if keys else rows, each, f"{each}.v")
    return made(f"SELECT {values} AS l FROM ({inner}) AS {alias}", inner, *[key.key for key in keys])


HANDLERS: Mapping[type, Handler] = {
    ir.ScalarSubquery: _scalar,
    ir.Exists: _exists,
    ir.QuantifiedSubquery: _quantified,
    ir.ArraySubquery: _array,
}
CONDITIONS: Mapping[type, Handler] = {
    ir.BoolOp: _bool_op_condition,
    ir.QuantifiedSubquery: _quantified_condition,
    ir.QuantifiedArray: _quantified_array_condition,
}
"""Those that print otherwise where only true matters."""
