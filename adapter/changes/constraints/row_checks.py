"""What a table requires of each of its rows: what the domains of its columns demand, NOT NULL and CHECK.

Rows that pass this process are checked batch by batch, before they enter the transaction: conditions that Arrow can
evaluate by themselves, the others in one query of an engine. Rows that executors wrote are checked by one query over
the parts that they wrote.

The error is that of the first row which breaks a rule: those of domains first, NOT NULL before CHECK, and of several
checks the first by name. (What is inside an array or a row of a column is an error whatever comes before it.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from adapter.access.row_security import is_subject
from adapter.changes.constraints.table_checks import TableChecks
from adapter.changes.constraints.target import Target
from adapter.changes.rows.over_rows import over_rows
from adapter.engines.common.engine import TableInput
from adapter.execution.cursors import of_route
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.plans.arrow_conditions import Vector, false_rows
from adapter.plans.row_text import row_text
from adapter.queries.acting.session_functions import with_session_values
from adapter.queries.prepared_read import with_token
from adapter.queries.read import execution_context
from adapter.results import RecordBatch
from planner.definitions.row_expressions import RowConditions
from planner.errors import CheckViolation, NotNullViolation, SqlError
from planner.ir.domain_faults import DomainFault
from planner.resolution.session_values import session_values
from storage.catalog.model import Column, Constraint
from storage.off_loop import AT_ONCE_ROWS, MANY_COLUMNS
from storage.shards.parts import Part


async def check_rows(running: Running, target: Target, rows: RecordBatch) -> None:
    """Raise 23502 or 23514 for the first of `rows` that breaks a rule of `target`."""
    null = _first_null(target, rows)
    if target.domains is not None and target.domains.conditions is not None:
        before = rows if null is None else rows.slice(0, null[0] + 1)
        found = await _first_failing(running, target.domains.vectors, target.domains.conditions, before)
        fault = None if found is None else target.domains.faults[found[1]]
        if found is not None and fault is not None:
            if target.checks is not None:
                await _check(running, target, target.checks, rows.slice(0, found[0]))
            raise in_row(broken(fault), found[0])
    if target.checks is not None:
        # What comes before the row with a NULL, which is an error whatever else holds for it.
        await _check(running, target, target.checks, rows if null is None else rows.slice(0, null[0]))
    if null is not None:
        raise in_row(_null_violation(running, target, rows, *null), null[0])


def in_row(error: SqlError, row: int) -> SqlError:
    """`error`, which is about this row, counted from 0, of those that a statement writes."""
    error.row = row
    return error


def broken(fault: DomainFault) -> SqlError:
    """The error for a value that breaks a rule of a domain."""
    kind = NotNullViolation if fault.constraint is None else CheckViolation
    return kind(fault.message, schema=fault.schema, datatype=fault.datatype, constraint=fault.constraint)


def _first_null(target: Target, rows: RecordBatch) -> tuple[int, Column] | None:
    failing: tuple[int, Column] | None = None
    for index, column in enumerate(target.columns):
        if column.attnum in target.not_null and rows.column(index).null_count:
            row = pc.index(pc.is_null(rows.column(index)), True).as_py()
            if failing is None or row < failing[0]:
                failing = (row, column)
    return failing


def _null_violation(running: Running, target: Target, rows: RecordBatch, row: int, column: Column) -> NotNullViolation:
    return NotNullViolation(
        f'null value in column "{column.name}" of relation "{target.relation.name}" violates not-null constraint',
        detail=failing_row(running, target, rows, row),
        schema=target.schema_name,
        table=target.relation.name,
        column=column.name,
    )


def failing_row(running: Running, target: Target, rows: RecordBatch, row: int) -> str | None:
    """What messages say of a row that breaks a rule: nothing to who is subject to row-level security; to who may not
    read the table the columns that he may read or that the statement gives values to."""
    if is_subject(running.transaction.catalog, target.relation, running.session.values.identity.current):
        return None
    oid = target.relation.oid
    rights = running.session.rights(own_catalog(running))
    if not rights.is_superuser and not rights.may("r", oid, "r"):
        given = running.given.get(oid, frozenset())
        places = [
            place
            for place, column in enumerate(target.columns)
            if column.attnum in given or rights.may_with_columns(oid, "r", [column.attnum])
        ]
        if not places:
            return None
        names = ", ".join(target.columns[place].name for place in places)
        types = [target.types[place] for place in places]
        values = row_text(rows.select(places), row, types, running.session.values)
        return f"Failing row contains ({names}) = {values}."
    return f"Failing row contains {row_text(rows, row, target.types, running.session.values)}."


async def _check(running: Running, target: Target, checks: TableChecks, rows: RecordBatch) -> None:
    first = await _first_failing(running, checks.vectors, checks.conditions, rows)
    if first is not None:
        raise in_row(_violation(running, target, checks.constraints[first[1]], rows, first[0]), first[0])


async def _first_failing(
    running: Running, vectors: Sequence[Vector | None], conditions: RowConditions, rows: RecordBatch
) -> tuple[int, int] | None:
    """The first row that fails, and the place of its first condition that is false."""
    if not rows.num_rows:
        return None
    if rows.num_rows > AT_ONCE_ROWS or len(vectors) > MANY_COLUMNS:
        first = await asyncio.to_thread(_first_by_vectors, vectors, rows)
    else:
        first = _first_by_vectors(vectors, rows)
    if None in vectors:
        found = await _first_by_engine(running, conditions, rows)
        if found is not None and (first is None or found <= first):
            first = found
    return first


def _first_by_vectors(vectors: Sequence[Vector | None], rows: RecordBatch) -> tuple[int, int] | None:
    first: tuple[int, int] | None = None
    for place, vector in enumerate(vectors):
        failed = None if vector is None else false_rows(vector(rows), rows.num_rows)
        if failed is not None:
            row = pc.index(failed, False).as_py()
            if first is None or row < first[0]:
                first = (row, place)
    return first


async def _first_by_engine(running: Running, conditions: RowConditions, rows: RecordBatch) -> tuple[int, int] | None:
    before = 0
    async with aclosing(_closable(over_rows(running, conditions.failing, rows, "checks"))) as batches:
        async for batch in batches:
            failing = batch.column(0)
            hits = pc.not_equal(failing, 0)
            if hits.true_count:
                row = pc.index(hits, True).as_py()
                return before + row, failing[row].as_py() - 1
            before += batch.num_rows
    return None


def _violation(running: Running, target: Target, check: Constraint, rows: RecordBatch, row: int) -> CheckViolation:
    return CheckViolation(
        f'new row for relation "{target.relation.name}" violates check constraint "{check.name}"',
        detail=failing_row(running, target, rows, row),
        schema=target.schema_name,
        table=target.relation.name,
        constraint=check.name,
    )


# ---------------------------------------------------------------- rows that an engine wrote


async def check_parts(running: Running, target: Target, parts: Sequence[Part]) -> None:
    """`check_rows` of the rows of `parts`, which an engine wrote."""
    reader = running.services.env.reader
    if target.domains is not None and target.domains.conditions is not None and parts:
        found = await _violated_in(running, target, target.domains.conditions, parts)
        fault = None if found is None else target.domains.faults[found[1] - 1]
        if fault is not None:
            raise broken(fault)
    for part in parts:
        for attnum in target.not_null:
            stats = part.stats.get(f"c{attnum}")
            if part.rows and (stats is None or stats.null_count != 0):
                rows = await reader.read_part(part, target.names)
                for batch in rows.to_batches():
                    null = _first_null(target, batch)
                    if null is not None:
                        raise _null_violation(running, target, batch, *null)
    if target.checks is None or not parts:
        return
    found = await _violated_in(running, target, target.checks.conditions, parts)
    if found is not None:
        rows, number = found
        raise _violation(running, target, target.checks.constraints[number - 1], rows, 0)


async def _violated_in(
    running: Running, target: Target, conditions: RowConditions, parts: Sequence[Part]
) -> tuple[RecordBatch, int] | None:
    """A row of `parts` that breaks a condition, and the number of that condition."""
    query = conditions.violated
    query = await with_session_values(running, query, session_values(query))
    table = TableInput(
        relation=target.relation,
        inserts=tuple(parts),
        deletes=(),
        bytes=sum(part.bytes for part in parts),
        rows=sum(part.rows for part in parts),
    )
    inputs = {target.relation.oid: table}
    route = running.engines.choose_engine(query, inputs, running.params, running.session.values.flat)
    context = with_token(execution_context(running, running.transaction.catalog), "checks")
    rows = of_route(route, query, inputs, running.params, context)
    async with aclosing(_closable(rows())) as batches:
        async for batch in batches:
            if batch.num_rows:
                *columns, failing = batch.columns
                return pa.record_batch(columns, names=target.names), failing[0].as_py()
    return None


def _closable(stream: Any) -> Any:
    """Every stream of batches is an async generator; their types only promise iterators."""
    return stream
