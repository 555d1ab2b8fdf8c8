"""What ANALYZE has gathered: kept in a shard of the environment's own, a row for each column, and shown by pg_stats and
pg_statistic.

A row says of which relation (`c1`) and column (`c2`) it is; `c3` is a `ColumnStatistics` as MessagePack. It is replaced
in the transaction that gathers it anew. The rows of relations that are gone are taken out by the next ANALYZE; until
then they stand for nothing, as oids are not given out again.

What was gathered of a temporary table its session keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from adapter.access.privileges import Rights
from adapter.access.row_security import is_subject
from adapter.execution.statement import Running
from adapter.execution_context import Row
from adapter.statistics.column_statistics import ColumnStatistics
from adapter.transactions.snapshots import own_parts
from planner.catalog_data import content as catalog_data
from planner.types.operator_classes import input_type
from planner.types.type_names import type_row
from planner.types.types import column_type
from planner.values.array_text import quote_element, show_array
from storage.catalog.model import CatalogSnapshot, Column, Relation, Schema
from storage.catalog.temporary import FIRST_TEMPORARY_OID
from storage.errors import UnknownShard
from storage.ids import STATISTICS_SHARD
from storage.offline.export import commit_alone
from storage.shards.parts import ROW_ID

SCHEMA = pa.schema([pa.field("c1", pa.int64()), pa.field("c2", pa.int32()), pa.field("c3", pa.binary())])

SHOWN = frozenset({"pg_stats", "pg_statistic"})
"""The relations that show it."""

Gathered: TypeAlias = Mapping[tuple[int, int], ColumnStatistics]
"""By oid of the relation and attnum."""

_MCV, _HISTOGRAM, _CORRELATION = 1, 2, 3
_SLOTS = 5


async def gathered_by_now(running: Running) -> Gathered:
    """All that the transaction sees."""
    return {key: statistics for key, (_, statistics) in (await _rows(running)).items()}


async def replace_gathered(running: Running, oid: int, found: Mapping[int, ColumnStatistics]) -> None:
    """Put what is `found` of a relation, by attnum, in place of what is known of these columns, as part of the
    transaction."""
    if oid >= FIRST_TEMPORARY_OID:
        running.session.gathered.update({(oid, attnum): statistics for attnum, statistics in found.items()})
        return
    env = running.services.env
    before = await _rows(running)
    if STATISTICS_SHARD not in env.cache.state.registered:
        txn = env.begin()
        txn.create_shard(STATISTICS_SHARD, SCHEMA)
        # Another process may be about the same.
        with suppress(ValueError):
            await commit_alone(env, txn)
    everything = env.catalog.current()
    gone = [
        (row_id, *key, statistics)
        for key, (row_id, statistics) in before.items()
        if row_id is not None and ((key[0] == oid and key[1] in found) or everything.get(key[0]) is None)
    ]
    txn = running.transaction.writable(env)
    if gone:
        ids = pa.array([row_id for row_id, *_ in gone], pa.int64())
        txn.delete(STATISTICS_SHARD, _stored([row for _, *row in gone]).add_column(0, ROW_ID, ids))
    txn.write(STATISTICS_SHARD, _stored([[oid, attnum, statistics] for attnum, statistics in found.items()]))


def _stored(rows: list[list[Any]]) -> pa.Table:
    oids, attnums, statistics = zip(*rows, strict=True)
    packed = [msgspec.msgpack.encode(each) for each in statistics]
    return pa.table([pa.array(oids, pa.int64()), pa.array(attnums, pa.int32()), pa.array(packed, pa.binary())], SCHEMA)


async def _rows(running: Running) -> dict[tuple[int, int], tuple[int | None, ColumnStatistics]]:
    """What the transaction sees, with the ids of the rows that are stored."""
    env, transaction = running.services.env, running.transaction
    found: dict[tuple[int, int], tuple[int | None, ColumnStatistics]] = {
        key: (None, statistics) for key, statistics in running.session.gathered.items()
    }
    inserts, deletes = [], []
    snapshot = transaction.snapshot
    assert snapshot is not None
    with suppress(UnknownShard):
        stored = await env.reader.snapshot(STATISTICS_SHARD, snapshot.csn)
        inserts, deletes = [*stored.inserts], [*stored.deletes]
    for part in await own_parts(transaction, STATISTICS_SHARD):
        (inserts if part.kind == "insert" else deletes).append(part)
    gone: set[int] = set()
    for part in deletes:
        gone.update((await env.reader.read_part(part, [ROW_ID])).column(ROW_ID).to_pylist())
    for part in inserts:
        table = await env.reader.read_part(part, [ROW_ID, *SCHEMA.names])
        for row_id, oid, attnum, packed in zip(*(column.to_pylist() for column in table.columns), strict=True):
            if row_id not in gone:
                found[oid, attnum] = row_id, msgspec.msgpack.decode(packed, type=ColumnStatistics)
    return found


def gathered_rows(name: str, catalog: CatalogSnapshot, rights: Rights, gathered: Gathered) -> list[Row]:
    """The rows of the relation `name`, one of `SHOWN`. pg_stats has those of columns that the role may read, of tables
    whose rows it sees all of."""
    make = _stats_row if name == "pg_stats" else _statistic_row
    found = []
    for relation, column, statistics in _current(catalog, gathered):
        if name == "pg_stats" and (
            not rights.may_with_columns(relation.oid, "r", [column.attnum])
            or is_subject(catalog, relation, rights.role)
        ):
            continue
        found.append(make(catalog, relation, column, statistics))
    return found


def _current(catalog: CatalogSnapshot, gathered: Gathered) -> Iterator[tuple[Relation, Column, ColumnStatistics]]:
    """What is known of columns that are still of the types that they were of."""
    for (oid, attnum), statistics in sorted(gathered.items()):
        relation = catalog.get(oid)
        if isinstance(relation, Relation):
            for column in relation.live_columns():
                if column.attnum == attnum and column.type_oid == statistics.type_oid:
                    yield relation, column, statistics


def _array(texts: tuple[str, ...]) -> str | None:
    return show_array([quote_element(text) for text in texts], None) if texts else None


def _stats_row(catalog: CatalogSnapshot, relation: Relation, column: Column, statistics: ColumnStatistics) -> Row:
    schema = catalog.get(relation.schema)
    return {
        "schemaname": schema.name if isinstance(schema, Schema) else None,
        "tablename": relation.name,
        "attname": column.name,
        "inherited": False,
        "null_frac": statistics.null_frac,
        "avg_width": statistics.avg_width,
        "n_distinct": statistics.n_distinct,
        "most_common_vals": _array(statistics.most_common_vals),
        "most_common_freqs": list(statistics.most_common_freqs) or None,
        "histogram_bounds": _array(statistics.histogram_bounds),
        "correlation": statistics.correlation,
    }


def _statistic_row(_: CatalogSnapshot, relation: Relation, column: Column, statistics: ColumnStatistics) -> Row:
    row: dict[str, Any] = {
        "starelid": relation.oid,
        "staattnum": column.attnum,
        "stainherit": False,
        "stanullfrac": statistics.null_frac,
        "stawidth": statistics.avg_width,
        "stadistinct": statistics.n_distinct,
    }
    equal, less = _operator(column.type_oid, "="), _operator(column.type_oid, "<")
    slots: list[tuple[int, int, list[float] | None, str | None]] = []
    if statistics.most_common_vals:
        common = list(statistics.most_common_freqs), _array(statistics.most_common_vals)
        slots.append((_MCV, equal, *common))
    if statistics.histogram_bounds:
        slots.append((_HISTOGRAM, less, None, _array(statistics.histogram_bounds)))
    if statistics.correlation is not None:
        slots.append((_CORRELATION, less, [statistics.correlation], None))
    of_type = type_row(column.type_oid)
    collation = column.collation or (0 if of_type is None else of_type.collation)
    for number in range(_SLOTS):
        kind, operator, numbers, values = slots[number] if number < len(slots) else (0, 0, None, None)
        row[f"stakind{number + 1}"] = kind
        row[f"staop{number + 1}"] = operator
        row[f"stacoll{number + 1}"] = collation if kind else 0
        row[f"stanumbers{number + 1}"] = numbers
        row[f"stavalues{number + 1}"] = values
    return row


def _operator(type_oid: int, name: str) -> int:
    """The oid of the operator `name` between two values of the type, 0 when there is none."""
    of = input_type(column_type(type_oid).oid)
    data = catalog_data.columns("pg_operator")
    rows = zip(data["oid"], data["oprname"], data["oprleft"], data["oprright"], strict=True)
    return next((oid for oid, called, left, right in rows if (called, left, right) == (name, of, of)), 0)
