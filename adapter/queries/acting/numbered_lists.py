"""nextval in the select list of many rows: the rows stay batches of Arrow, and their numbers are columns beside them.

That is `UPDATE t SET id = nextval('s')`, `ALTER TABLE ... ADD COLUMN id bigint DEFAULT nextval('s')` and
`CREATE TABLE ... AS SELECT nextval('s'), ...`, where nothing else acts and no condition decides whether a number is
taken. The numbers are given in the order of the rows, and within a row in that of the list.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

import pyarrow as pa

from adapter.engines.common.kept_rows import KeptRows
from adapter.execution.statement import Running
from adapter.plans.computed.constant_rows import constant_value
from adapter.queries.acting.calls import SUBQUERIES, acts_under_condition
from adapter.queries.acting.read_before import Templates
from adapter.queries.acting.sequences import next_values, sequence_to_number
from adapter.results import RecordBatch
from planner.ir import nodes as ir
from planner.ir.rewrite import transform, walk
from planner.resolution.session_values import acts
from planner.types.types import INT8, SqlType

FIRST_AT_HAND = ir.RETURNING_ROWS - 3000
"""The id of the first `CteScan` of numbered rows; lower ones follow."""

ReadBatches: TypeAlias = Callable[[ir.Rel], Awaitable[AsyncIterator[RecordBatch]]]
"""Runs a part of a query and returns its rows."""

_NUMBER = SqlType(INT8)


def numbering_calls(running: Running, exprs: Sequence[ir.Scalar]) -> list[tuple[ir.Call, str | int]] | None:
    """The calls of nextval in a select list, in order, with the sequences that constants name; None where something
    else in it acts, or may not be carried out."""
    calls: list[tuple[ir.Call, str | int]] = []
    for node in walk(tuple(exprs)):
        if isinstance(node, SUBQUERIES) or acts_under_condition(node):
            return None
        if not isinstance(node, ir.Call) or not acts(node.signature):
            continue
        known, name = constant_value(node.args[0], running.params) if node.args else (False, None)
        if node.signature.name != "nextval" or not known or name is None:
            return None
        calls.append((node, name))
    return calls


async def with_numbers(
    running: Running,
    below: ir.Rel,
    templates: Templates,
    fields: tuple[ir.Field, ...],
    calls: Sequence[tuple[ir.Call, str | int]],
    read: ReadBatches,
    at_hand: dict[int, Any],
) -> ir.Rel:
    """The select list of `templates`, called `fields`, over the rows of `below`, whose numbers are taken: these rows
    come to the others `at_hand`. Raises what nextval raises."""
    ids = range(templates.next_id, templates.next_id + len(calls))
    numbers = tuple([ir.Field(id=id, name="number", type=_NUMBER) for id in ids])
    rows = (*below.fields, *numbers)
    scratch = running.services.scratch
    kept = KeptRows(rows, (Path(tempfile.gettempdir()) if scratch is None else scratch) / "numbered")
    async with aclosing(cast(Any, await read(below))) as batches:
        async for batch in batches:
            running.scope.check()
            columns = [*batch.columns, *await _numbers(running, [name for _, name in calls], batch.num_rows)]
            numbered = pa.record_batch(columns, names=[f"c{place}" for place, _ in enumerate(columns, 1)])
            await running.services.file_threads.run(partial(kept.append, numbered))
    key = FIRST_AT_HAND - len(at_hand)
    at_hand[key] = kept.table()
    columns_of = {
        id(call): ir.ColumnRef(id=field.id, type=field.type) for (call, _), field in zip(calls, numbers, strict=True)
    }
    made = transform(tuple(templates.exprs), lambda node: columns_of.get(id(node)))
    return ir.Project(input=ir.CteScan(cte=key, fields=rows), exprs=made, fields=fields)


async def _numbers(running: Running, names: Sequence[str | int], count: int) -> list[Any]:
    """A column of `count` numbers for each of the sequences `names`; row by row, where one is named several times."""
    if not count:
        return [pa.array([], pa.int64()) for _ in names]
    sequences = [sequence_to_number(running, name) for name in names]
    columns: list[Any] = [None] * len(names)
    for sequence in {sequence.oid: sequence for sequence in sequences}.values():
        own = [place for place, each in enumerate(sequences) if each.oid == sequence.oid]
        values = await next_values(running, sequence, count * len(own))
        for index, place in enumerate(own):
            columns[place] = pa.array(values[index :: len(own)], pa.int64())
    return columns
