"""CALL: a procedure's statements, and the row of its OUT parameters."""

from __future__ import annotations

from adapter.execution.statement import Outcome, Running, rows_outcome
from adapter.plans.plan_cache import describe_fields
from adapter.procedures.bodies import run_body
from adapter.queries.single_row import evaluate
from adapter.results import Command
from planner.definitions.routines import BoundCall
from planner.statements import records as st


async def call_procedure(running: Running, statement: st.CallProcedure) -> Outcome:
    """CALL. Raises what the statements do."""
    catalog = running.transaction.catalog
    call = statement.bound
    assert isinstance(call, BoundCall)
    running.session.rights(catalog).require("f", call.signature.oid, "X")
    await running.services.provide_oids()
    values = await evaluate(running, catalog, call.args) if call.signature.args else ()
    columns = [field.type for field in call.fields]
    rows, _ = await run_body(running, call.signature, values, columns or None)
    if not call.fields:
        return Command(tag="CALL")
    row = rows[0] if rows else (None,) * len(columns)
    return rows_outcome(describe_fields(call.fields), [row], "CALL")
