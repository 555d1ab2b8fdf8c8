"""The two tables that a database keeps its large objects in: ``metadata``, a row for each, and ``pages``, their bytes
in pages of 2 kB, as PostgreSQL's pg_largeobject_metadata and pg_largeobject have them.

They are tables as users' are, in a schema that the system catalogs do not show, so that large objects commit, conflict,
are read at snapshots, compacted, copied with a database and dropped with it as all rows are. A database gets them with
its first large object.

Whoever writes to a large object, or removes it, replaces its row in ``metadata``; whoever reads one has read that row.
So two writers of one large object conflict at that row, those of different ones nowhere, and what is read of a large
object is validated without a look at its pages, whose keys nobody has to claim.
"""

from __future__ import annotations

import pyarrow as pa
from msgspec import Struct

from adapter.execution.statement import Running
from adapter.plans.key_indexes import key_index, stored_columns
from planner.ir.physical import arrow_type
from planner.types.types import BYTEA, INT4, OID, type_of_column
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    CatalogSnapshot,
    CatalogUpdate,
    Column,
    Constraint,
    Relation,
    Schema,
)
from storage.catalog.record import LARGE_OBJECT_SCHEMA
from storage.ids import ShardId
from storage.shards.indexes.definition import IndexDefinition, StoredColumn

PAGE_BYTES = 2048
"""PostgreSQL's LOBLKSIZE."""

PAGES, METADATA = "pg_largeobject", "pg_largeobject_metadata"

_TEXT_ARRAY = 1009


class Table(Struct, frozen=True, kw_only=True):
    """One of the tables, with the index of its primary key."""

    relation: Relation
    shard: ShardId
    index: IndexDefinition
    columns: tuple[StoredColumn, ...]
    names: tuple[str, ...]


class Tables(Struct, frozen=True, kw_only=True):
    """Both of a database's tables."""

    metadata: Table
    pages: Table


def tables_in(catalog: CatalogSnapshot) -> Tables | None:
    """The tables in `catalog`; None in a database that has had no large object."""
    schema = catalog.schema(LARGE_OBJECT_SCHEMA)
    if schema is None:
        return None
    metadata, pages = catalog.relation(schema.oid, METADATA), catalog.relation(schema.oid, PAGES)
    if metadata is None or pages is None:
        return None
    return Tables(metadata=_table(metadata, (1,)), pages=_table(pages, (1, 2)))


def hidden_tables(catalog: CatalogSnapshot) -> frozenset[int]:
    """The oids of both: no statement that names no table may come upon them, as they have no name for users."""
    tables = tables_in(catalog)
    return frozenset() if tables is None else frozenset({tables.metadata.relation.oid, tables.pages.relation.oid})


def _table(relation: Relation, key: tuple[int, ...]) -> Table:
    assert relation.shard is not None
    columns = stored_columns(relation)
    return Table(
        relation=relation,
        shard=relation.shard,
        index=key_index(relation, key),
        columns=columns,
        names=tuple([column.name for column in columns]),
    )


async def tables_for(running: Running) -> Tables:
    """The tables, made by this transaction if the database has none."""
    found = tables_in(running.transaction.catalog)
    if found is not None:
        return found
    await running.services.provide_oids()
    schema = Schema(
        oid=running.services.allocate_oid(),
        name=LARGE_OBJECT_SCHEMA,
        owner=BOOTSTRAP_SUPERUSER_OID,
        database=running.session.database_oid,
        iceberg=False,
    )
    text_array = Column(attnum=3, name="lomacl", type_oid=_TEXT_ARRAY)
    metadata = _made(running, schema, METADATA, (_key(1, "oid", OID), _key(2, "lomowner", OID), text_array), (1,))
    columns = (_key(1, "loid", OID), _key(2, "pageno", INT4), _key(3, "data", BYTEA))
    pages = _made(running, schema, PAGES, columns, (1, 2))
    updates = [CatalogUpdate(record=record, diff=1) for record in (schema, *metadata, *pages)]
    running.transaction.change_catalog(updates)
    made = tables_in(running.transaction.catalog)
    assert made is not None
    return made


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of a table's rows."""
    return pa.schema([pa.field(f"c{column.attnum}", arrow_type(type_of_column(column))) for column in columns])


def _key(attnum: int, name: str, type_oid: int) -> Column:
    return Column(attnum=attnum, name=name, type_oid=type_oid, not_null=True)


def _made(
    running: Running, schema: Schema, name: str, columns: tuple[Column, ...], key: tuple[int, ...]
) -> tuple[Relation, Constraint]:
    """The records of a new table, whose shard the transaction makes."""
    services, transaction = running.services, running.transaction
    oid, constraint_oid, shard = services.allocate_oid(), services.allocate_oid(), services.env.new_shard_id()
    relation = Relation(
        oid=oid, name=name, schema=schema.oid, owner=BOOTSTRAP_SUPERUSER_OID, kind="r", columns=columns, shard=shard,
        constraints=(constraint_oid,),
    )  # fmt: skip
    constraint = Constraint(oid=constraint_oid, name=f"{name}_pkey", relation=oid, kind="p", columns=key, enforced=True)
    transaction.writable(services.env).create_shard(shard, schema_of(columns))
    transaction.created_shards.add(shard)
    return relation, constraint
