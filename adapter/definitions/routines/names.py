"""Functions and procedures by name in DDL, and what messages call them."""

from __future__ import annotations

from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import check_database
from adapter.execution.statement import Running
from planner.catalog_data.content import columns
from planner.common_errors import missing_schema
from planner.errors import (
    AmbiguousFunction,
    DuplicateFunction,
    FeatureNotSupported,
    InsufficientPrivilege,
    UndefinedFunction,
    WrongObjectType,
)
from planner.functions.own_routines import own_routines_named
from planner.statements.routines import RoutineName
from planner.types.type_names import format_type
from storage.catalog.model import OWN_SCHEMA, CatalogSnapshot, Schema
from storage.catalog.record import holds_temporary
from storage.catalog.routines import Function

KINDS = {"f": "function", "p": "procedure"}


def list_of_types(oids: tuple[int, ...]) -> str:
    """Types as messages list them."""
    return ",".join(format_type(oid) for oid in oids)


def signature(record: Function) -> str:
    """``name(type,type)`` with the input types, as messages call a function."""
    return f"{record.name}({list_of_types(record.input_types)})"


def find_routine(running: Running, named: RoutineName) -> Function:
    """The function or procedure that ALTER, DROP or COMMENT names. 42883, 42725, 42809, 3F000."""
    found = candidates(running, named)
    shown = str(named.name)
    if named.inputs is not None:
        exact = [record for record in found if _fits(record, named)]
        if len(exact) > 1:
            raise AmbiguousFunction(f'{named.kind} name "{shown}" is not unique')
        if not exact:
            _refuse_built_in(named)
            what = "function" if named.kind == "routine" else named.kind
            types = ", ".join(map(format_type, named.inputs))
            raise UndefinedFunction(f"{what} {shown}({types}) does not exist")
        record = exact[0]
        if named.kind != "routine" and KINDS[record.kind] != named.kind:
            raise WrongObjectType(f"{shown}({', '.join(map(format_type, named.inputs))}) is not a {named.kind}")
        return record
    wanted = [record for record in found if named.kind in ("routine", KINDS[record.kind])]
    if not wanted:
        _refuse_built_in(named)
        what = "function" if named.kind == "routine" else named.kind
        raise UndefinedFunction(f'could not find a {what} named "{shown}"')
    if len(wanted) > 1:
        what = "routine" if named.kind == "routine" else named.kind
        raise AmbiguousFunction(
            f'{what} name "{shown}" is not unique',
            hint=f"Specify the argument list to select the {what} unambiguously.",
        )
    return wanted[0]


def _fits(record: Function, named: RoutineName) -> bool:
    if record.input_types == named.inputs:
        return True
    # Without modes OUT parameters of procedures may stand among the others, as in the SQL standard.
    every = tuple(parameter.type_oid for parameter in record.parameters)
    return record.kind == "p" and named.all_types is not None and every == named.all_types


def _refuse_built_in(named: RoutineName) -> None:
    """0A000 for a function that is PostgreSQL's own, 42501 for one of the server's."""
    if named.name.schema == OWN_SCHEMA.name and own_routines_named(named.name.name):
        raise InsufficientPrivilege(
            f"permission denied for schema {OWN_SCHEMA.name}",
            detail="System catalog modifications are currently disallowed.",
        )
    if named.name.schema in (None, "pg_catalog") and named.name.name in columns("pg_proc")["proname"]:
        data = columns("pg_proc")
        same = [
            types
            for name, types in zip(data["proname"], data["proargtypes"], strict=True)
            if name == named.name.name and (named.inputs is None or tuple(types) == named.inputs)
        ]
        if same:
            raise FeatureNotSupported(f"built-in function {named.name.name} cannot be changed")


def candidates(running: Running, named: RoutineName) -> list[Function]:
    """The functions of this name, those hidden by others in the search path apart. 3F000."""
    check_database(running, named.name)
    catalog = own_catalog(running)
    if named.name.schema is not None:
        schema = catalog.schema(named.name.schema)
        if schema is None:
            raise missing_schema(named.name.schema)
        return list(catalog.functions(schema.oid, named.name.name))
    found: list[Function] = []
    for path in running.session.search_path():
        schema = None if holds_temporary(path) else catalog.schema(path)
        for record in catalog.functions(schema.oid, named.name.name) if schema is not None else ():
            if all(record.input_types != other.input_types for other in found):
                found.append(record)
    return found


def schema_called(catalog: CatalogSnapshot, oid: int) -> str:
    """The name of a schema."""
    schema = catalog.get(oid)
    return schema.name if isinstance(schema, Schema) else ""


def check_free(catalog: CatalogSnapshot, schema: int, record: Function, where: str | None = None) -> None:
    """42723 when a function with these argument types is there already; `where` is the schema that one comes to."""
    for other in catalog.functions(schema, record.name):
        if other.input_types == record.input_types:
            if where is None:
                raise DuplicateFunction(f'function "{record.name}" already exists with same argument types')
            types = ", ".join(map(format_type, record.input_types))
            raise DuplicateFunction(f'{KINDS[record.kind]} {record.name}({types}) already exists in schema "{where}"')
