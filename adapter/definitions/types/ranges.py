"""CREATE TYPE ... AS RANGE, which makes a multirange type too. Values are held as
`planner.values.range_bounds` says."""

from __future__ import annotations

from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.types.names import check_free_type
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import creation_schema
from adapter.execution.statement import Running
from planner.errors import (
    FeatureNotSupported,
    InvalidFunctionDefinition,
    UndefinedFunction,
    UndefinedObject,
    WrongObjectType,
)
from planner.functions.routines import routines
from planner.statements import records as st
from planner.types.operator_classes import default_operator_class, key_collation, operator_class
from planner.types.type_names import format_type, type_row
from planner.types.types import FLOAT8
from planner.values.range_codecs import CODECS
from storage.catalog.model import CatalogSnapshot, Schema
from storage.catalog.types import UserRange

MAX_NAME_BYTES = 63


async def create_range(running: Running, statement: st.CreateRange) -> None:
    """CREATE TYPE ... AS RANGE. 42710, 42704, 42804, 42809, 42883, 42P17, and 0A000 for a subtype whose values are not
    held in ranges here."""
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name)
    check_free_type(catalog, schema.oid, statement.name.name)
    subtype = statement.subtype.declared_oid
    row = type_row(subtype)
    if statement.collation and (row is None or not row.collation):
        raise WrongObjectType("range collation specified but subtype does not support collation")
    if not statement.operator_class and default_operator_class(subtype) is None:
        raise UndefinedObject(
            f'data type {format_type(subtype)} has no default operator class for access method "btree"',
            hint="You must specify an operator class for the range type or define a default operator class for the "
            "subtype.",
        )
    ordering = operator_class(subtype, "btree", statement.operator_class)
    if subtype not in CODECS:
        raise FeatureNotSupported(f"ranges over type {format_type(subtype)} are not supported")
    difference = _difference(running, catalog, statement, subtype) if statement.difference else 0
    several, name = schema, _multirange_name(statement.name.name)
    if statement.multirange is not None:
        several, name = creation_schema(running, catalog, statement.multirange), statement.multirange.name
    if statement.multirange is not None and (several, name) == (schema, statement.name.name):
        check_free_type(catalog, several.oid, name, always=True)
    check_free_type(catalog, several.oid, name)
    running.transaction.rely_on([schema, several])
    oid = new_oid(running, schema.oid)
    multirange = new_oid(running, several.oid)

    def made(own: int, of: Schema, called: str) -> UserRange:
        return UserRange(
            oid=own,
            name=called,
            schema=of.oid,
            owner=owner_oid(running),
            range=oid,
            multirange=multirange,
            subtype=subtype,
            collation=key_collation(subtype, statement.collation),
            operator_class=ordering,
            difference=difference,
        )

    change(running, added=[made(oid, schema, statement.name.name), made(multirange, several, name)])


def _multirange_name(name: str) -> str:
    """What the multirange of the range `name` is called (makeMultirangeTypeName)."""
    if "range" in name:
        return _fitting(name.replace("range", "multirange", 1), "")
    return _fitting(name, "_multirange")


def _fitting(name: str, ending: str) -> str:
    return name.encode()[: MAX_NAME_BYTES - len(ending)].decode(errors="ignore") + ending


def _difference(running: Running, catalog: CatalogSnapshot, statement: st.CreateRange, subtype: int) -> int:
    """The oid of the function of SUBTYPE_DIFF. 42883, 42P17."""
    names = statement.difference
    row = type_row(subtype)
    assert row is not None
    built_in = routines().get(f"{names[-1]}({row.name},{row.name})")
    shown = ".".join(names)
    if built_in is not None and names[:-1] in ((), ("pg_catalog",)):
        signature = built_in.signature
        _check_difference(shown, signature.result, signature.volatility.value)
        return signature.oid
    for path in running.session.search_path() if len(names) == 1 else names[-2:-1]:
        schema = catalog.schema(path)
        for function in () if schema is None else catalog.functions(schema.oid, names[-1]):
            if function.input_types == (subtype, subtype):
                _check_difference(shown, function.result, function.volatility)
                return function.oid
    types = f"{format_type(subtype)}, {format_type(subtype)}"
    raise UndefinedFunction(f"function {shown}({types}) does not exist")


def _check_difference(name: str, result: int, volatility: str) -> None:
    if result != FLOAT8:
        raise InvalidFunctionDefinition(f"range subtype diff function {name} must return type double precision")
    if volatility != "i":
        raise InvalidFunctionDefinition(f"range subtype diff function {name} must be immutable")
