"""The rows of an INSERT that are written out, worked out once: constants, parameters, defaults, now(), the next numbers
of sequences.

Which values they are follows from the plan alone; a run has them computed with Python's values, and makes a batch of
columns of them. Other expressions are left to an engine.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
from msgspec import Struct

from adapter.execution.session_state import SessionState
from adapter.execution.statement import Running, given_to
from adapter.plans.computed.constant_rows import (
    LONG_VALUE,
    NeedsEngine,
    array_of,
    cast_value,
    constant_value,
    has_length,
)
from adapter.plans.computed.row_values import INTEGERS, Given, RowColumns, Value
from adapter.queries.acting.sequences import find_sequence, next_values
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import walk
from planner.types.types import SqlType
from storage.bounded_map import BoundedMap

MAX_QUERIES = 1000
"""Queries of which it is known how their rows are made."""

MAX_ROWS = 1000
"""More rows are made in a thread."""

_ANY_NUMBER = 1
"""Stands for a number of a sequence where it is tried whether Python's values do for what becomes of it."""


class _Numbered(Struct, frozen=True):
    """The next number of a sequence, through these casts (the last one first)."""

    sequence: str | int
    casts: tuple[ir.Cast, ...]


class _WrittenRows(Struct, frozen=True, kw_only=True, eq=False):
    """Rows of values, and what becomes of each: the columns of the table. `numbered`: values of rows are numbers of
    sequences."""

    rows: tuple[tuple[Value | _Numbered, ...], ...]
    numbered: bool
    computes: bool
    """Whether a column is more than a value of its row."""
    texts: tuple[int, ...]
    """The columns that may have long values."""
    columns: tuple[Value | _Numbered, ...]
    numbers: tuple[tuple[int, _Numbered], ...]
    """Which of them are numbers of sequences."""
    types: tuple[SqlType, ...]
    names: tuple[str, ...]


_known: BoundedMap[int, tuple[BoundQuery, _WrittenRows | None]] = BoundedMap(max_entries=MAX_QUERIES)
"""By identity of the query, which an entry keeps alive; None: it takes an engine."""


async def written_rows(running: Running, query: BoundQuery) -> RecordBatch | None:
    """The rows of the source `query` of an INSERT, under any names; None when it takes an engine to make them.

    Raises the errors of values that do not fit their types, and of sequences.
    """
    known = _known.get(id(query))
    if known is None:
        known = query, _made(query.rel)
        _known.put(id(query), known)
    made = known[1]
    if made is None:
        return None
    given = given_to(running)
    columns: list[list[Any]] = list(map(list, [()] * len(made.columns)))
    sources = [(running.session, given)]
    if running.beside:
        times = given.transaction_began, given.statement_began, given.zone
        sources += [(each.session, Given(each.params, *times)) for each in running.beside]
    try:
        for session, own in sources:
            rows: list[list[Any]] = []
            if made.numbered:
                rows = await _numbered_rows(running, session, made, own)
            else:
                for written in made.rows:
                    rows.append([value((), own) for value in written])  # type: ignore[operator]
            for values, column in zip(columns, made.columns, strict=True):
                if not isinstance(column, _Numbered):
                    values.extend([column(row, own) for row in rows])
        if made.numbers:
            # Last, as an engine that has to make the rows asks for numbers of its own.
            for session, _ in sources:
                for _ in made.rows:
                    for place, numbered in made.numbers:
                        columns[place].append(await _number(running, session, numbered))
    except NeedsEngine:
        return None
    for place in made.texts:
        for item in columns[place]:
            if item is not None and len(item) > LONG_VALUE:
                return await asyncio.to_thread(_batch, made, columns)
    arrays = [array_of(type_, values) for type_, values in zip(made.types, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=made.names)


def _batch(made: _WrittenRows, columns: list[list[Any]]) -> RecordBatch:
    arrays = [array_of(type_, values) for type_, values in zip(made.types, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=made.names)


async def _numbered_rows(running: Running, session: SessionState, made: _WrittenRows, given: Given) -> list[list[Any]]:
    """`made.rows` with their numbers, which are asked for when it is known that no engine is needed."""
    rows = [[_ANY_NUMBER if isinstance(value, _Numbered) else value((), given) for value in row] for row in made.rows]
    if made.computes:
        for column in made.columns:
            if not isinstance(column, _Numbered):
                for row in rows:
                    column(row, given)
    for written, row in zip(made.rows, rows, strict=True):
        for place, value in enumerate(written):
            if isinstance(value, _Numbered):
                row[place] = await _number(running, session, value)
    return rows


async def _number(running: Running, session: SessionState, numbered: _Numbered) -> Any:
    (number,) = await next_values(running, find_sequence(running, numbered.sequence, to_number=True), 1, session)
    for cast in reversed(numbered.casts):
        number = cast_value(cast, number)
    return number


def _made(rel: ir.Rel) -> _WrittenRows | None:
    projects: list[ir.Project] = []
    at = rel
    while isinstance(at, ir.Project):
        projects.append(at)
        at = at.input
    if not isinstance(at, (ir.OneRow, ir.Values)) or not rel.fields:
        return None
    written = at.rows if isinstance(at, ir.Values) else ((),)
    if len(written) > MAX_ROWS:
        return None
    constants, row = RowColumns({}), RowColumns({})
    rows = [[_numbered(expr) or constants.value_of(expr) for expr in values] for values in written]
    if any(None in values for values in rows):
        return None
    for place, field in enumerate(at.fields):
        row.named[field.id] = _at(place)
    numbered: dict[int, _Numbered] = {}
    computes = False
    for project in reversed(projects):
        for field, expr in zip(project.fields, project.exprs, strict=True):
            number = _numbered(expr) if project is rel else None
            if number is not None:
                numbered[field.id] = number
                continue
            value = row.value_of(expr)
            if value is None:
                return None
            computes = computes or not isinstance(expr, ir.ColumnRef)
            row.named[field.id] = value
    columns = [numbered.get(field.id) or row.column(field.id) for field in rel.fields]
    if None in columns:
        return None
    numbers: list[tuple[int, _Numbered]] = []
    for place, column in enumerate(columns):
        if isinstance(column, _Numbered):
            numbers.append((place, column))
    return _WrittenRows(
        rows=tuple([tuple([value for value in values if value is not None]) for values in rows]),
        numbered=any(isinstance(value, _Numbered) for values in rows for value in values),
        computes=computes,
        columns=tuple([column for column in columns if column is not None]),
        numbers=tuple(numbers),
        texts=tuple([place for place, field in enumerate(rel.fields) if has_length(field.type)]),
        types=tuple([field.type for field in rel.fields]),
        names=tuple([f"c{number}" for number in range(1, len(rel.fields) + 1)]),
    )


def _numbered(expr: ir.Scalar) -> _Numbered | None:
    """``nextval('name')``, as the default of a column has it."""
    casts: list[ir.Cast] = []
    while isinstance(expr, ir.Cast):
        casts.append(expr)
        expr = expr.arg
    if not isinstance(expr, ir.Call) or expr.signature.name != "nextval":
        return None
    if any(isinstance(node, ir.Param) for node in walk(expr.args)):
        return None
    known, name = constant_value(expr.args[0], ())
    if not known or not isinstance(name, (str, int)):
        return None
    try:
        for cast in casts:
            if cast.type.oid not in INTEGERS:
                cast_value(cast, _ANY_NUMBER)
    except NeedsEngine:
        return None
    return _Numbered(name, tuple(casts))


def _at(place: int) -> Value:
    return lambda row, given: row[place]
