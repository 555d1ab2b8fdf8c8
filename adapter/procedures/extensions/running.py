"""Functions of extensions that are in no SQL, carried out: the queries whose texts they get run as statements of the
caller's, in the call's snapshot."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from copy import copy
from typing import Any

from adapter.execution.statement import RowsOutcome, Running
from adapter.plans.plan_cache import Plan, make_plan
from adapter.plans.row_text import field_texts
from adapter.procedures.extensions.table_functions import FUNCTIONS, Call, Source, Texts
from planner.errors import FeatureNotSupported, SqlError
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.type_scope import types_of
from planner.types.types import SqlType
from storage.catalog.routines import Function


async def run_native(
    running: Running, record: Function, args: Sequence[Any], columns: Sequence[SqlType]
) -> list[tuple[Any, ...]]:
    """The rows, of `columns`, that the function `record` gives for `args`. Raises what the queries raise, and what its
    function of `FUNCTIONS` raises."""
    session = running.session
    opened: list[AsyncGenerator[Texts]] = []

    async def query(text: str) -> Source:
        source_types, rows = await _run(running, text, len(opened))
        opened.append(rows)
        return Source(types=source_types, rows=rows)

    context = session.bind_context(running.transaction.catalog)
    try:
        with types_of(context.catalog, context.search_path):
            call = Call(args=args, columns=columns, settings=session.values.flat)
            return await FUNCTIONS[record.body](call, query)
    finally:
        for rows in opened:
            await rows.aclose()


async def _run(running: Running, text: str, place: int) -> tuple[Sequence[SqlType], AsyncGenerator[Texts]]:
    """The types of the columns and the rows of the last statement in `text`. Without one there are no rows."""
    types: Sequence[SqlType] = ()
    rows = _no_rows()
    for number, parsed in enumerate(_parsed(text)):
        await rows.aclose()
        within = copy(running)
        within.parsed, within.params, within.declared = parsed, (), ()
        within.depth, within.in_block, within.may_retry = running.depth + 1, True, False
        within.token = f"{running.token}.{running.depth}.{place}.{number}"
        outcome = await running.run(within, _plan(running, parsed))
        if isinstance(outcome, RowsOutcome):
            types = tuple(column.type for column in outcome.columns)
            rows = _texts(running, outcome, types)
    return types, rows


def _parsed(text: str) -> tuple[Parsed, ...]:
    try:
        return tuple(split_and_parse(text))
    except SqlError as error:
        error.position = None
        raise


def _plan(running: Running, parsed: Parsed) -> Plan:
    """Raises 0A000 for what is no query. Positions in the text are none in the client's."""
    try:
        plan = make_plan(parsed, running.session.bind_context(running.transaction.catalog), ())
    except SqlError as error:
        error.position = None
        raise
    check_only_reads(parsed, plan)
    return plan


def check_only_reads(parsed: Parsed, plan: Plan, may_lock: bool = False) -> None:
    """Raises 0A000 unless the statement is a query, of no locks if it may have none (CommandIsReadOnly)."""
    tag = None if parsed.kind == "select_stmt" else plan.tag
    if tag is None and not may_lock and plan.query is not None and plan.query.locking is not None:
        tag = f"SELECT {plan.query.locking}"
    if tag is not None:
        raise FeatureNotSupported(f"{tag} is not allowed in a non-volatile function")


async def _no_rows() -> AsyncGenerator[Texts]:
    nothing: Sequence[Texts] = ()
    for texts in nothing:
        yield texts


async def _texts(running: Running, outcome: RowsOutcome, types: Sequence[SqlType]) -> AsyncGenerator[Texts]:
    settings = running.session.values.flat
    stream: Any = outcome.batches
    async with aclosing(stream) as batches:
        async for batch in batches:
            for row in range(batch.num_rows):
                yield list(field_texts(batch.columns, row, types, settings))
