"""What engine tests need: an environment on disk, tables in it, and bound queries built by hand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import pyarrow as pa

from adapter.engines.common.engine import Engine, TableInput
from adapter.execution_context import ExecutionContext
from adapter.plans.computed.constant_rows import batch_of
from planner.functions.registry import aggregates, operators
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type
from planner.types import types
from planner.types.types import SqlType, column_type
from storage.catalog.model import PUBLIC_SCHEMA_OID, Column, Relation
from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.shards.parts import Part, UploadedPart
from storage.transactions.txn import Txn
from storage.transactions.txns_shard import Committed

INT8 = SqlType(types.INT8)
BOOL = SqlType(types.BOOL)


class World:
    """An environment and the tables in it; `close` it."""

    def __init__(self, env: Environment, folder: Path) -> None:
        self.env = env
        self.folder = folder
        self.blob_root = folder / "data" / "blob"
        self._oids = itertools.count(20_000)
        self._tokens = itertools.count(1)

    @staticmethod
    async def open(folder: Path) -> World:
        """A new environment in `folder`."""
        return World(await open_local_environment(folder / "data"), folder)

    async def close(self) -> None:
        """Closes the environment."""
        await self.env.close()

    async def table(self, *columns: tuple[str, SqlType]) -> Relation:
        """A new table."""
        shard = self.env.new_shard_id()
        txn = self.env.begin()
        schema = pa.schema([(f"c{number}", arrow_type(type)) for number, (_, type) in enumerate(columns, 1)])
        txn.create_shard(shard, schema)
        await self.commit(txn)
        return Relation(
            oid=next(self._oids),
            name="t",
            schema=PUBLIC_SCHEMA_OID,
            owner=10,
            kind="r",
            shard=shard,
            columns=tuple(
                Column(attnum=number, name=name, type_oid=type.oid, typmod=type.typmod)
                for number, (name, type) in enumerate(columns, 1)
            ),
        )

    async def commit(self, txn: Txn) -> None:
        """Commits at the next CSN."""
        oracle = self.env.oracle
        ts = await oracle.write_ts("user")
        while True:
            result = await self.env.committer.commit(txn, ts=ts)
            if isinstance(result, Committed):
                await oracle.apply_write("user", result.ts)
                return
            ts = result.least_committable

    async def insert(self, relation: Relation, rows: Sequence[Sequence[object]], *, as_file: bool = False) -> None:
        """Commits rows (Python values as in ir.Literal): inline when they are few, unless `as_file`."""
        assert relation.shard is not None
        live = relation.live_columns()
        batch = batch_of([column_type(column.type_oid, column.typmod) for column in live], rows)
        table = pa.Table.from_batches([batch.rename_columns([f"c{column.attnum}" for column in live])])
        txn = self.env.begin()
        if as_file:
            part = await self.env.parts.upload("insert", relation.shard, table)
            assert part.key is not None
            await txn.write_part(relation.shard, UploadedPart(key=part.key))
        else:
            txn.write(relation.shard, table)
        await self.commit(txn)

    async def delete(self, relation: Relation, rows: pa.Table) -> None:
        """Commits the deletion of `rows`: ``_row_id`` and old values."""
        assert relation.shard is not None
        txn = self.env.begin()
        txn.delete(relation.shard, rows)
        await self.commit(txn)

    async def input(self, relation: Relation, own: Sequence[Part] = ()) -> TableInput:
        """The newest snapshot of `relation`, with parts of an open transaction."""
        assert relation.shard is not None
        snapshot = await self.env.reader.snapshot(relation.shard, await self.env.oracle.read_ts("user"))
        inserts = (*snapshot.inserts, *(part for part in own if part.kind == "insert"))
        return TableInput(
            relation=relation,
            inserts=inserts,
            deletes=(*snapshot.deletes, *(part for part in own if part.kind == "delete")),
            bytes=sum(part.bytes for part in inserts),
            rows=sum(part.rows for part in inserts),
        )

    def context(self, settings: Mapping[str, str] | None = None) -> ExecutionContext:
        """A context with a token of its own, and these settings besides."""
        return ExecutionContext(
            token=f"statement{next(self._tokens)}",
            catalog=self.env.catalog.current(),
            search_path=("public",),
            user="postgres",
            database="postgres",
            settings={"TimeZone": "UTC", **(settings or {})},
        )

    async def rows(
        self,
        engine: Engine,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[ir.Literal] = (),
        context: ExecutionContext | None = None,
    ) -> list[tuple[object, ...]]:
        """Runs `query` and returns its rows as Python values."""
        found: list[tuple[object, ...]] = []
        stream = engine.execute(query, tables, params, context or self.context())
        async with aclosing(stream) as batches:  # type: ignore[type-var]
            async for batch in batches:
                columns = [column.to_pylist() for column in batch.columns]
                found.extend(zip(*columns, strict=True) if columns else [()] * batch.num_rows)
        return found


def scan(relation: Relation, *, row_id: bool = False, first: int = 1) -> ir.Scan:
    """A scan of all columns; field ids count from `first`, the row id comes last."""
    fields = tuple(
        ir.Field(
            id=first + index,
            name=column.name,
            type=column_type(column.type_oid, column.typmod),
            origin=ir.Origin(relation_oid=relation.oid, attnum=column.attnum),
        )
        for index, column in enumerate(relation.live_columns())
    )
    last = first + len(fields)
    if row_id:
        fields = (*fields, ir.Field(id=last, name="_row_id", type=INT8))
    return ir.Scan(relation_oid=relation.oid, fields=fields, row_id=last if row_id else None)


def query(rel: ir.Rel, *relations: Relation) -> BoundQuery:
    """`rel` as a bound query."""
    return BoundQuery(rel=rel, relations=frozenset(relation.oid for relation in relations))


def ordered(rel: ir.Rel) -> ir.Sort:
    """`rel` in the order of its first column: more than a lookup."""
    key = ir.ColumnRef(id=rel.fields[0].id, type=rel.fields[0].type)
    return ir.Sort(input=rel, keys=(ir.SortKey(expr=key, descending=False, nulls_first=False),), fields=rel.fields)


def same(field: ir.Field, value: ir.Scalar) -> ir.Scalar:
    """`field IS NOT DISTINCT FROM value`."""
    return ir.Distinct(left=ir.ColumnRef(id=field.id, type=field.type), right=value, negated=True, type=BOOL)


def equal(field: ir.Field, value: ir.Scalar) -> ir.Scalar:
    """`field = value`."""
    signature = next(found for found in operators("=") if found.args == (field.type.oid, value.type.oid))
    return ir.Call(signature=signature, args=(ir.ColumnRef(id=field.id, type=field.type), value), type=BOOL)


def literal(value: object, type: SqlType = INT8) -> ir.Literal:
    """A constant."""
    return ir.Literal(value=value, type=type)


def constants(*values: ir.Scalar) -> BoundQuery:
    """`SELECT value, ...`."""
    fields = tuple(ir.Field(id=index, name="x", type=value.type) for index, value in enumerate(values, 1))
    return query(ir.Project(input=ir.OneRow(), exprs=values, fields=fields))


def endless(relation: Relation) -> BoundQuery:
    """Counts the pairs of rows of `relation` with itself, four times over: more than can be counted in a test."""
    joined: ir.Rel = scan(relation, first=100)
    for first in (200, 300, 400):
        right = scan(relation, first=first)
        joined = ir.Join(
            kind="cross",
            left=joined,
            right=right,
            condition=None,
            lateral=False,
            fields=(*joined.fields, *right.fields),
        )
    count = next(signature for signature in aggregates("count") if not signature.args)
    call = ir.AggregateCall(signature=count, args=(), type=INT8)
    return query(
        ir.Aggregate(input=joined, keys=(), calls=(call,), fields=(ir.Field(id=1, name="count", type=INT8),)), relation
    )
