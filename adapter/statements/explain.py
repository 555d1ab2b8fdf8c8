"""EXPLAIN: the plan, the engine and why, the snapshot, what is read and what is pruned; with ANALYZE also what ran."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from adapter.changes.constraints.target import target_of
from adapter.changes.whole_parts import changes_unseen, whole_parts
from adapter.changes.with_changes import run_rows
from adapter.execution.guards import own_catalog
from adapter.execution.prepared import check_unchanged
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Outcome, RowsOutcome, Running, rows_outcome
from adapter.materialized.freshness import why_stale
from adapter.materialized.journal import UNKNOWN, last_refresh
from adapter.plans.plan_cache import Plan
from adapter.queries.prepared_read import NOTHING, PreparedRead
from adapter.queries.read import inputs_beside, may_skip_engines, prepare_plan
from adapter.queries.single_row import bind_execute_params
from adapter.results import Command, CopyIn, CopyOut
from adapter.statements.explaining.formats import FORMATS, result_column
from adapter.statements.plan_tree import Node, PlanTree, json_node, text_lines
from adapter.wall_clock import utc_now
from planner.ir.bound import BoundChange, BoundDelete, BoundInsert, BoundMerge, BoundUpdate
from planner.statements import records as st
from storage.catalog.model import Relation
from storage.shards.parts import Part


async def run_explain(running: Running, statement: st.Explain) -> Outcome:
    """EXPLAIN of a query, a change of rows, CREATE TABLE AS, DECLARE or EXECUTE."""
    session = running.session
    began = utc_now()
    catalog = running.transaction.catalog
    plan = await session.planned(statement.query, catalog, running.declared)
    match plan.statement:
        case st.Execute():
            prepared = session.statements.require(plan.statement.name)
            await bind_execute_params(running, plan.statement)
            assert prepared.parsed is not None
            plan = await session.planned(prepared.parsed, catalog, running.declared)
            check_unchanged(prepared.columns, plan.columns)
        case st.CreateTableAs() | st.DeclareCursor():
            if isinstance(plan.statement, st.CreateTableAs) and _is_there(running, plan.statement):
                return _output(statement, [], {})
            plan = await session.planned(plan.statement.query, catalog, running.declared)
        case _ if session.values.flat["use_materialized_views"] == "on":
            from adapter.definitions.materialized.answered import answered

            other = await answered(running, catalog, statement.query, plan)
            plan = plan if other is None else await session.planned(other[0], catalog, running.declared)
        case _:
            pass
    if plan.query is None:
        return _output(statement, ["Utility Statement"], {"Plan": {"Node Type": "Utility Statement"}})
    plan.check_access()
    await running.transaction.lock(plan.locks)
    # A query that acts on the session is not prepared: EXPLAIN must not act.
    constants = may_skip_engines(running)
    read = None if plan.acts else await prepare_plan(running, plan, record=False, constants=constants)
    planned = utc_now()
    tree = _tree(running, plan, read, verbose=statement.verbose)
    whole = () if read is None else await _whole_files(running, plan, read)
    rows, first_ms, elapsed_ms = None, 0.0, 0.0
    if statement.analyze:
        rows, first = await _analyze(running, plan)
        first_ms, elapsed_ms = ((moment - planned).total_seconds() * 1000 for moment in (first, utc_now()))
    planning_ms = (planned - began).total_seconds() * 1000
    views = await _views_read(running, plan)
    return _report(running, statement, tree, read, whole, rows, planning_ms, first_ms, elapsed_ms, views)


def _is_there(running: Running, statement: st.CreateTableAs) -> bool:
    """Whether there is the relation already, and that is to be skipped. 42P07 when it is not."""
    from adapter.definitions.common.catalog_changes import exists_already

    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name, temporary=statement.temporary)
    return exists_already(running, catalog, schema, statement.name, skip=statement.if_not_exists)


async def _views_read(running: Running, plan: Plan) -> list[tuple[str, str]]:
    """The materialized views that the query reads, by name, and what it reads of each."""
    found = []
    for view in plan.relied_on:
        if not isinstance(view, Relation) or view.materialized is None or running.transaction.snapshot is None:
            continue
        env, csn = running.services.env, running.transaction.snapshot.csn
        if view.oid in running.session.expanded:
            reason = await why_stale(env, running.transaction, plan.catalog, view)
            found.append((view.name, f"its query ({reason})"))
        elif view.materialized.populated:
            stored = await last_refresh(env, view.materialized.journal, csn)
            since = " and what has changed since" if view.oid in running.session.brought else ""
            moment = "an earlier moment" if stored is None or stored.inputs == UNKNOWN else f"CSN {stored.frontier}"
            found.append((view.name, f"its stored rows (of {moment}){since}"))
    return found


def _tree(running: Running, plan: Plan, read: PreparedRead | None, *, verbose: bool) -> Node:
    assert plan.query is not None
    names = {step.id: step.name for step in plan.steps}

    def built(part: Plan, read: PreparedRead | None = None) -> Node:
        query, operands = part.query, part.operands
        assert query is not None
        worked_out = read is not None and operands is not None and len(read.params) > operands.own
        shown = PlanTree(
            part.catalog,
            verbose=verbose,
            paths=NOTHING if read is None else read.paths,
            params=running.params if read is None else read.params,
            steps=names,
            past=query.past,
            operands=operands if worked_out else None,
        )
        inner = shown.build(operands.query.rel if worked_out and operands is not None else query.rel)
        title = _change_title(running, part)
        if title is None:
            return inner
        operation, relation = title.split(" on ", 1)
        details = [("Operation", operation), ("Relation Name", relation)]
        return Node(title=title, type="ModifyTable", details=details, inputs=[inner])

    tree = built(plan, read)
    for place, step in enumerate(plan.steps):
        child = built(step.plan)
        child.role = f"CTE {step.name}"
        tree.inputs.insert(place, child)
    return tree


def _change_title(running: Running, plan: Plan) -> str | None:
    statement = plan.statement
    verbs = {BoundInsert: "Insert", BoundUpdate: "Update", BoundDelete: "Delete", BoundMerge: "Merge"}
    verb = verbs.get(type(statement))
    if verb is None or not isinstance(statement, BoundChange):
        return None
    relation = plan.catalog.get(statement.relation_oid)
    return f"{verb} on {relation.name if isinstance(relation, Relation) else statement.relation_oid}"


async def _analyze(running: Running, plan: Plan) -> tuple[int, datetime]:
    """Run it: how many rows there were, and when the first of them."""
    outcome = await run_rows(running, plan)
    count, first = 0, None
    match outcome:
        case RowsOutcome() | CopyOut():
            async for batch in outcome.batches:
                first = first or utc_now()
                count += batch.num_rows
        case Command(tag=tag):
            count = int(tag.split()[-1]) if tag.split()[-1].isdigit() else 0
        case CopyIn():
            pass
    return count, first or utc_now()


async def _whole_files(running: Running, plan: Plan, read: PreparedRead) -> tuple[Part, ...]:
    """The files that a DELETE deletes by metadata alone. It reads no other table then."""
    statement = plan.statement
    if not isinstance(statement, BoundDelete) or statement.returning is not None or plan.steps:
        return ()
    target = target_of(running, plan.catalog, statement.relation_oid)
    return (await whole_parts(running, read, target))[0] if changes_unseen(target) else ()


def _report(
    running: Running,
    statement: st.Explain,
    tree: Node,
    read: PreparedRead | None,
    whole: Sequence[Part],
    rows: int | None,
    planning_ms: float,
    first_ms: float,
    elapsed_ms: float,
    views: Sequence[tuple[str, str]],
) -> Outcome:
    note = {} if rows is None else {id(tree): f" (actual rows={rows})"}
    lines = text_lines(tree, annotations=note)
    data: dict[str, Any] = {"Plan": json_node(tree)}
    if rows is not None:
        times = {"Actual Startup Time": round(first_ms, 3), "Actual Total Time": round(elapsed_ms, 3)}
        data["Plan"].update({**times, "Actual Rows": rows, "Actual Loops": 1})
    engine = "none" if read is None or read.engine is None else read.engine.name
    reason = "it acts on the session" if read is None else read.reason
    lines.append(f"Engine: {engine} ({reason})")
    csn = None if running.transaction.snapshot is None else running.transaction.snapshot.csn
    data.update({"Engine": engine, "Engine Reason": reason, "Snapshot CSN": csn})
    lines.append(f"Snapshot: CSN {csn}")
    tables = []
    if read is not None:
        for oid, table in read.resolved.inputs.items():
            total = read.resolved.total_parts[oid]
            gone = {part.id for part in whole}
            left = [part for part in table.inserts if part.id not in gone] if whole else table.inserts
            kept, rows_left = len(left), sum(part.rows for part in left)
            pruned, size = total - kept - len(whole), sum(part.bytes for part in left)
            by_index = read.paths.get(oid)
            lines.append(
                f"Rows of {table.relation.name}: by {by_index[0].index.record.name}, from {total} parts"
                if by_index
                else f"Parts of {table.relation.name}: {kept} of {total} read, {pruned} pruned, "
                f"{len(table.deletes)} with deletes, {size} bytes, {rows_left} rows"
            )
            about = {
                "Relation Name": table.relation.name,
                "Parts Read": kept,
                "Parts Pruned": pruned,
                "Delete Parts": len(table.deletes),
                "Bytes": size,
                "Rows": rows_left,
            }
            if whole:
                gone_rows = sum(part.rows for part in whole)
                files = f"{len(whole)} of {total}, {gone_rows} rows"
                lines.append(f"Files of {table.relation.name} deleted by metadata alone: {files}")
                about.update({"Files Deleted": len(whole), "Rows Deleted by Metadata": gone_rows})
            tables.append(about)
    data["Tables"] = tables
    if read is not None and read.engine is not None:
        expected = running.engines.estimate(read.query, inputs_beside(read.resolved.inputs, read.paths), read.params)
        lines.append(f"Expected: {expected}")
        data["Expected Time"] = {"local": round(expected.local_s * 1000, 3), "spark": round(expected.spark_s * 1000, 3)}
    lines += [f"Materialized view {name}: {what}" for name, what in views]
    if views:
        data["Materialized Views"] = [{"Relation Name": name, "Read": what} for name, what in views]
    if read is not None and read.query.files:
        found: list[dict[str, Any]] = []
        for file_table in read.query.files.values():
            if file_table.remote:
                lines.append(f"Query of {file_table.name}: {file_table.content.asked}")
                found.append({"Relation Name": file_table.name, "Query": file_table.content.asked})
                continue
            kept, listed, size = len(file_table.content.files), file_table.content.listed, file_table.bytes
            if file_table.name is None:
                lines.append(f"Files: {kept}, {size} bytes")
                found.append({"Files": kept, "Bytes": size})
                continue
            lines.append(f"Files of {file_table.name}: {kept} of {listed} read, {listed - kept} pruned, {size} bytes")
            shown = {"Relation Name": file_table.name, "Files": kept, "Files Pruned": listed - kept, "Bytes": size}
            found.append(shown)
        data["File Tables"] = found
    summary = statement.analyze if statement.summary is None else statement.summary
    if summary:
        lines.append(f"Planning Time: {planning_ms:.3f} ms")
        data["Planning Time"] = round(planning_ms, 3)
    if rows is not None:
        lines.append(f"Execution Time: {elapsed_ms:.3f} ms")
        data["Execution Time"] = round(elapsed_ms, 3)
    return _output(statement, lines, data)


def _output(statement: st.Explain, lines: list[str], data: dict[str, Any]) -> Outcome:
    shown = lines if statement.format == "text" else [FORMATS[statement.format](data)]
    return rows_outcome((result_column(statement),), [(line,) for line in shown], "EXPLAIN")
