"""ALTER FUNCTION, PROCEDURE and ROUTINE. Expressions that the catalog keeps call functions by their oids, so that no
text changes."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change
from adapter.definitions.common.owners import check_new_owner, require_owner
from adapter.definitions.routines.names import check_free, find_routine, schema_called
from adapter.definitions.routines.settings import check_leakproof, with_settings
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import require_target_schema
from adapter.execution.statement import Running
from planner.errors import InvalidFunctionDefinition, InvalidParameterValue
from planner.statements import records as st
from storage.catalog.routines import Function


async def alter_routine(running: Running, statement: st.AlterRoutine) -> None:
    """ALTER FUNCTION: RENAME TO, SET SCHEMA, OWNER TO, and its options."""
    record = find_routine(running, statement.routine)
    require_owner(running, record)
    catalog = own_catalog(running)
    changed = record
    if statement.new_name is not None:
        changed = replace(record, name=statement.new_name)
        check_free(catalog, record.schema, changed, schema_called(catalog, record.schema))
    elif statement.new_schema is not None:
        schema = require_target_schema(catalog, statement.new_schema)
        if schema.oid == record.schema:
            return
        changed = replace(record, schema=schema.oid)
        check_free(catalog, schema.oid, changed, schema.name)
        running.transaction.rely_on([schema])
    elif statement.owner is not None:
        changed = replace(record, owner=check_new_owner(running, record, statement.owner).oid)
    elif statement.options is not None:
        changed = _with_options(running, record, statement.options)
    if changed != record:
        change(running, removed=[record], added=[changed])


def _with_options(running: Running, record: Function, options: st.RoutineOptions) -> Function:
    if record.kind == "p" and options.refused:
        raise InvalidFunctionDefinition("invalid attribute in procedure definition", position=options.refused[0][1])
    if options.rows is not None and not record.returns_set:
        raise InvalidParameterValue("ROWS is not applicable when function does not return a set")
    check_leakproof(running, options)
    given = {
        name: value
        for name in ("volatility", "strict", "security_definer", "leakproof", "parallel", "cost", "rows")
        if (value := getattr(options, name)) is not None
    }
    return with_settings(running, replace(record, **given), options)
