"""tidegate.changes of views: the rows of a subscription to one that begins and ends in the past.

A table's changes are what its commits have written. Those of a plain view, or of one that is kept on commit, are how
the result of its query differs from commit to commit, which is what a `Feed` of it gives.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from adapter.execution.statement import Running
from adapter.materialized.freshness import views_on_commit
from adapter.plans.plan_cache import make_plan
from adapter.subscriptions.feed import MAX_KEPT_BYTES, Feed
from adapter.transactions.past.looking_back import past_snapshot
from adapter.transactions.past.rows import changes_schema, first_of
from planner.errors import InternalError, ProgramLimitExceeded
from planner.ir.past_rows import PastTable
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import split_and_parse
from storage.catalog.model import Relation, Schema
from storage.timestamps.csn import Csn


def find_view_changes(running: Running) -> None:
    """Let what has been looked up of the past say how the changes of views are read."""
    past = running.session.past
    if not any(isinstance(found, PastTable) and _is_changes(found) for found in past.calls.values()):
        return
    calls = {
        place: replace(found, changes=partial(_changes, running, found))
        if isinstance(found, PastTable) and _is_changes(found)
        else found
        for place, found in past.calls.items()
    }
    running.session.past = replace(past, calls=calls)


def _is_changes(found: PastTable) -> bool:
    return found.moment is not None and found.since is not None


async def _changes(running: Running, view: PastTable) -> pa.Table:
    """The changes of a view. Raises what a subscription to it does, and 54000 for more than can be at hand."""
    env, session = running.services.env, running.session
    schema = changes_schema(view.relation)
    assert view.since is not None
    relation, begin = await first_of(env, view, view.since)
    if relation is None or begin >= view.csn:
        return schema.empty_table()
    # One that was made after the beginning came with all of its rows.
    is_new = begin > view.since
    begin = Csn(begin + 1) if is_new else begin
    catalog = (await past_snapshot(env, begin, session.database_oid)).catalog
    parsed = split_and_parse(f"SELECT * FROM {_name(catalog.get(relation.schema), relation)}")[0]
    before = session.expanded, session.brought
    session.expanded, session.brought = frozenset(each.oid for each in views_on_commit(catalog)), {}
    try:
        plan = make_plan(parsed, session.bind_context(catalog), ())
        plan.check_access()
        inner = replace(running, params=())
        feed = Feed(inner, plan, parsed, as_of=begin, up_to=view.csn, snapshot=is_new, progress=False)
        await feed.begin()
        batches, size = [], 0
        async for batch in feed.batches():
            batches.append(pa.RecordBatch.from_arrays(_shaped(batch, schema), schema=schema))
            size += batch.nbytes
            if size > MAX_KEPT_BYTES:
                raise ProgramLimitExceeded(
                    f'the changes of view "{relation.name}" are too many to be read at once',
                    detail=f"{MAX_KEPT_BYTES} bytes can be at hand.",
                    hint="Follow them by COPY (SUBSCRIBE ... WITH (SNAPSHOT = false) AS OF ... UP TO ...) TO STDOUT.",
                )
    finally:
        session.expanded, session.brought = before
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _name(schema: Any, relation: Relation) -> str:
    if not isinstance(schema, Schema):
        raise InternalError("a view without schema")
    return f"{quote_identifier(schema.name)}.{quote_identifier(relation.name)}"


def _shaped(batch: Any, schema: pa.Schema) -> list[Any]:
    return [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
