"""ALTER TYPE ... RENAME TO, SET SCHEMA and OWNER TO. Expressions that the catalog keeps call types by the oids of their
records, so no text changes."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change
from adapter.definitions.common.owners import check_new_owner, give
from adapter.definitions.types.names import check_free_type, require_own_type
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import require_target_schema
from adapter.execution.statement import Running
from planner.common_errors import existing_relation
from planner.errors import DuplicateObject
from planner.statements import records as st
from planner.types.table_indexes import is_taken
from planner.types.user_types import type_in
from storage.catalog.model import Relation
from storage.catalog.types import UserRange


def rename_type(running: Running, name: st.QualifiedName, new_name: str, kind: str = "type") -> None:
    """ALTER TYPE, or DOMAIN (`kind`), ... RENAME TO."""
    record = require_own_type(running, name, kind)
    if isinstance(record, Relation) and is_taken(own_catalog(running), record.schema, new_name):
        raise existing_relation(new_name)
    check_free_type(own_catalog(running), record.schema, new_name)
    change(running, removed=[record], added=[replace(record, name=new_name)])


def move_type(running: Running, name: st.QualifiedName, schema_name: str, kind: str = "type") -> None:
    """ALTER TYPE, or DOMAIN (`kind`), ... SET SCHEMA."""
    record = require_own_type(running, name, kind)
    catalog = own_catalog(running)
    schema = require_target_schema(catalog, schema_name)
    if schema.oid == record.schema:
        return
    if type_in(catalog, schema.oid, record.name):
        raise DuplicateObject(f'type "{record.name}" already exists in schema "{schema.name}"')
    running.transaction.rely_on([schema])
    change(running, removed=[record], added=[replace(record, schema=schema.oid)])


async def change_owner(running: Running, statement: st.ChangeTypeOwner) -> None:
    """ALTER TYPE or DOMAIN ... OWNER TO."""
    record = require_own_type(running, statement.name, statement.kind)
    owner = check_new_owner(running, record, statement.owner).oid
    give(running, record, owner)
    other = own_catalog(running).get(record.multirange) if isinstance(record, UserRange) else None
    if isinstance(other, UserRange) and other.oid != record.oid:
        give(running, other, owner)
