"""Functions in FROM that are carried out by statement: their rows take their place in the query before it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.plans.plan_cache import has_acting_calls
from adapter.procedures.bodies import run_body
from planner.errors import FeatureNotSupported
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.composite import Composite
from planner.ir.rewrite import column_ids, transform, walk
from planner.types.signature import Kind
from planner.types.types import INT8, VOID, SqlType
from planner.types.user_types import attributes

CarryOut = Callable[[Running, ir.Scalar, "ReadRows"], Awaitable[ir.Scalar]]
"""Carries out the calls in an argument."""

ReadRows = Callable[[ir.Rel], Awaitable[Sequence[Sequence[Any]]]]
"""Runs a part of a query and returns its rows as `ir.Literal` has values."""


def has_functions_to_run(rel: object) -> bool:
    """Whether a function in FROM has to be carried out."""
    return any(isinstance(node, ir.FunctionCall) and node.signature.acts for node in walk(rel))


async def with_rows_of_functions(
    running: Running, query: BoundQuery, carry_out: CarryOut, read_rows: ReadRows
) -> BoundQuery:
    """`query` with the rows of such functions in their places, but of those whose arguments depend on rows."""
    scans: dict[int, ir.FunctionScan] = {}

    def note(node: Any) -> Any:
        if isinstance(node, ir.FunctionScan) and has_functions_to_run(node) and not _depends_on_rows(node):
            scans[id(node)] = node
            return node
        return None

    transform(query.rel, note)

    async def read(rel: ir.Rel) -> Sequence[Sequence[Any]]:
        return await read_rows(with_tables(query.rel, rel))

    rows = {key: await _rows_of(running, scan, carry_out, read) for key, scan in scans.items()}
    return replace(query, rel=transform(query.rel, lambda node: rows.get(id(node))))


async def _rows_of(running: Running, scan: ir.FunctionScan, carry_out: CarryOut, read_rows: ReadRows) -> ir.Rel:
    (call,) = scan.functions
    args = []
    for arg in call.args:
        carried_out = await carry_out(running, arg, read_rows)
        known, value = constant_value(carried_out, running.params)
        if not known:
            value = await _computed(carried_out, read_rows)
        args.append(value)
    types = [field.type for field in scan.fields]
    if call.signature.strict and any(arg is None for arg in args):
        found: list[tuple[Any, ...]] = []
    else:
        found, _ = await run_body(running, call.signature, args, types)
    if call.signature.result == VOID:
        found = []
    found = [_spread(row, types) for row in found]
    if call.signature.kind is not Kind.SET_RETURNING:
        found = found[:1] or [(None,) * len(types)]
    return constant_rows(scan.fields, found)


def _depends_on_rows(node: ir.FunctionScan) -> bool:
    """Whether an argument is of the rows of a query around it."""
    args = tuple(arg for call in node.functions for arg in call.args)
    inner = {field.id for part in walk(args) for field in getattr(part, "fields", ())}
    return not inner.issuperset(column_ids(args))


async def _computed(arg: ir.Scalar, read_rows: ReadRows) -> Any:
    """The value of an argument that takes a query."""
    inner = {field.id for node in walk(arg) for field in getattr(node, "fields", ())}
    fields = (ir.Field(id=max(inner, default=0) + 1, name="argument", type=arg.type),)
    ((value,),) = await read_rows(ir.Project(input=ir.OneRow(), exprs=(arg,), fields=fields))
    return value


def _spread(row: tuple[Any, ...], types: Sequence[SqlType]) -> tuple[Any, ...]:
    """The fields of a row that a body gives as one value of a composite type, where they stand in columns."""
    if len(row) != 1 or (len(types) == 1 and not isinstance(row[0], Composite)) or attributes(types[0].oid) is not None:
        return row
    return tuple(row[0].items) if isinstance(row[0], Composite) else (None,) * len(types)


def constant_rows(fields: tuple[ir.Field, ...], rows: Sequence[Sequence[Any]]) -> ir.Rel:
    """A relation of these rows of values, as `ir.Literal` has them."""
    types = [field.type for field in fields]
    return expression_rows(
        fields,
        [tuple(ir.Literal(value=value, type=type) for value, type in zip(row, types, strict=True)) for row in rows],
    )


def expression_rows(fields: tuple[ir.Field, ...], rows: Sequence[tuple[ir.Scalar, ...]]) -> ir.Rel:
    """A relation of these rows of expressions without columns."""
    if rows:
        return ir.Values(rows=tuple(rows), fields=fields)
    nulls = tuple(ir.Literal(value=None, type=field.type) for field in fields)
    zero = ir.Literal(value=0, type=SqlType(INT8))
    return ir.Limit(input=ir.Values(rows=(nulls,), fields=fields), count=zero, offset=None, ties=False, fields=fields)


def with_tables(rel: ir.Rel, inner: ir.Rel, found: ir.Rel | None = None) -> ir.Rel:
    """`inner`, a part of `rel` that is read beforehand (for `found`, if that is said), with the common tables of `rel`
    that it needs. 0A000 where one of them acts itself."""
    known = {part.id: part for part in walk(rel) if isinstance(part, ir.CommonTable)}
    own = {part.id for part in walk(inner) if isinstance(part, ir.CommonTable)}
    needed: dict[int, ir.CommonTable] = {}

    def need(node: object) -> None:
        for part in walk(node):
            if isinstance(part, ir.CteScan) and part.cte in known.keys() - own - needed.keys():
                table = known[part.cte]
                if has_acting_calls(table) or (found is not None and any(each is found for each in walk(table))):
                    raise unsupported_place()
                need(table)
                needed[table.id] = table

    need(inner)
    return ir.With(tables=tuple(needed.values()), body=inner, fields=inner.fields) if needed else inner


def unsupported_place() -> FeatureNotSupported:
    """0A000 for a call that stands where it cannot be carried out."""
    return FeatureNotSupported(
        "functions that act on the session are not supported in the conditions of joins, and in queries in WHERE that "
        "depend on the query around them"
    )
