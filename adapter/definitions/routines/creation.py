"""CREATE [OR REPLACE] FUNCTION and PROCEDURE."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.common.owners import require_owner
from adapter.definitions.routines.names import check_free, signature
from adapter.definitions.routines.settings import check_leakproof, with_settings
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Running
from planner.definitions.routines import declared, with_body
from planner.errors import InvalidFunctionDefinition, WrongObjectType
from planner.resolution.coercion import POLYMORPHIC
from planner.statements import records as st
from planner.types.types import RECORD
from storage.catalog.model import CatalogUpdate
from storage.catalog.routines import Function, Parameter

LANGUAGE_SQL = 14
"""The oid of the language that all routines are in."""


async def create_routine(running: Running, statement: st.CreateRoutine) -> None:
    """CREATE [OR REPLACE] FUNCTION and PROCEDURE."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name)
    context = running.session.bind_context(catalog)
    running.session.rights(catalog).require("l", LANGUAGE_SQL, "U")
    declaration = declared(statement, context)
    check_leakproof(running, statement.options)
    record = replace(declaration, schema=schema.oid, owner=owner_oid(running))
    record = with_settings(running, record, statement.options)
    same = (other for other in catalog.functions(schema.oid, record.name) if other.input_types == record.input_types)
    existing = next(same, None)
    if existing is not None and not statement.replace:
        check_free(catalog, schema.oid, record)
    if existing is not None:
        require_owner(running, existing)
        _check_replacement(existing, record)
    oid = new_oid(running, schema.oid) if existing is None else existing.oid
    check = running.session.values["check_function_bodies"] == "on"
    record = replace(record, oid=oid, owner=record.owner if existing is None else existing.owner)
    # It may call itself.
    updates = [CatalogUpdate(record, 1)]
    if existing is not None:
        updates.append(CatalogUpdate(existing, -1))
    within = replace(context, catalog=catalog.apply(updates, catalog.csn))
    record = with_body(record, statement, within, check=check)
    running.transaction.rely_on([schema])
    change(running, removed=[] if existing is None else [existing], added=[record])


def _check_replacement(old: Function, new: Function) -> None:
    """42P13 and 42809 for what CREATE OR REPLACE may not change (ProcedureCreate)."""
    if old.kind != new.kind:
        kind = "function" if old.kind == "f" else "procedure"
        raise WrongObjectType("cannot change routine kind", detail=f'"{old.name}" is a {kind}.')
    hint = f"Use DROP {'PROCEDURE' if old.kind == 'p' else 'FUNCTION'} {signature(old)} first."
    if (old.result, old.returns_set) != (new.result, new.returns_set):
        what = "whether a procedure has output parameters" if old.kind == "p" else "return type of existing function"
        raise InvalidFunctionDefinition(f"cannot change {what}", hint=hint)
    if old.result == RECORD and _row(old) != _row(new):
        raise InvalidFunctionDefinition(
            "cannot change return type of existing function",
            detail="Row type defined by OUT parameters is different.",
            hint=hint,
        )
    for before, after in zip(old.inputs, new.inputs, strict=True):
        if before.name and before.name != after.name:
            raise InvalidFunctionDefinition(f'cannot change name of input parameter "{before.name}"', hint=hint)
    if _defaults(new) < _defaults(old):
        raise InvalidFunctionDefinition("cannot remove parameter defaults from existing function", hint=hint)
    for before, after in zip(old.inputs, new.inputs, strict=True):
        if before.default is not None and before.type_oid in POLYMORPHIC and after.default is None:
            raise InvalidFunctionDefinition("cannot change data type of existing parameter default value", hint=hint)


def _row(record: Function) -> list[tuple[str, int]]:
    return [(parameter.name, parameter.type_oid) for parameter in record.outputs]


def _defaults(record: Function) -> int:
    taken: list[Parameter] = [parameter for parameter in record.inputs if parameter.default is not None]
    return len(taken)
