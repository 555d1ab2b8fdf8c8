"""What the environment and this server are doing, as rows of the relations of schema `tidegate`.

`statements` follow from the rows of `sessions`; `transactions`, `shards`, `servers`, `oracle` and `engines` are
of the environment, as this process knows it at the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from adapter.execution_context import Row
from planner.types.own_relations import OWN_RELATIONS
from planner.types.type_names import format_type
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.temporary import is_temporary
from storage.environment.environment import Environment
from storage.errors import UnknownShard
from storage.timestamps.csn import Csn, csn_ms

WATCHED = frozenset({"sessions", "statements", "transactions", "shards", "servers", "oracle", "engines", "controllers"})
"""Those of the server's own relations that tell what it is doing."""


def statement_rows(sessions: Iterable[Row], now: datetime) -> list[Row]:
    """tidegate.statements: those of `sessions` that run."""
    return [
        {
            "pid": row["pid"],
            "server": row["server"],
            "usename": row["usename"],
            "datname": row["datname"],
            "statement": row["statement"],
            "engine": row["engine"],
            "waits_for_lock": row["waits_for_lock"],
            "workload_class": row["workload_class"],
            "waits_for_slot": row["waits_for_slot"],
            "queued": None if row["queued_s"] is None else _interval(timedelta(seconds=row["queued_s"])),
            "began_at": row["statement_began_at"],
            "elapsed": _interval(now - row["statement_began_at"]),
        }
        for row in sessions
        if row.get("statement_began_at") is not None
    ]


def transaction_rows(env: Environment, sessions: Iterable[Row]) -> list[Row]:
    """tidegate.transactions: open blocks, and what the log holds that is not done yet."""
    rows: list[Row] = [
        {"kind": "open", "pid": row["pid"], "began_at": row["transaction_began_at"], "csn": row["snapshot_csn"]}
        for row in sessions
        if row.get("transaction_began_at") is not None
    ]
    state = env.cache.state
    rows += [
        {"kind": "prepared", "gid": each.gid, "xid": each.xid, "csn": int(each.csn), "began_at": _moment(each.csn)}
        for each in state.prepared.values()
    ]
    rows += [
        {"kind": "staged", "txid": each.txid, "process": each.process, "csn": int(each.csn),
         "began_at": _moment(each.csn)}
        for each in state.staged.values()
    ]  # fmt: skip
    rows += [
        {"kind": "unapplied", "shard": shard, "csn": int(write.csn), "began_at": _moment(write.csn)}
        for shard, writes in state.pending.items()
        for write in writes
    ]
    return rows


async def shard_rows(env: Environment, catalog: CatalogSnapshot) -> list[Row]:
    """tidegate.shards: of the tables of this database."""
    as_of = await env.oracle.read_ts("user")
    rows: list[Row] = []
    for record in catalog.all():
        if not isinstance(record, Relation) or record.shard is None or is_temporary(record.oid):
            continue
        row: dict[str, Any] = {
            "shard": record.shard,
            "relid": record.oid,
            "relation": record.name,
            "unapplied": len(env.cache.state.pending.get(record.shard, ())),
        }
        rows.append(row)
        with suppress(UnknownShard):
            snapshot = await env.reader.snapshot(record.shard, as_of)
            state = (await env.handles.open(record.shard)).state
            row |= {
                "since": int(state.since),
                "since_time": _moment(state.since),
                "upper": int(state.upper),
                "upper_time": _moment(state.upper),
                "parts": len(snapshot.inserts) + len(snapshot.deletes),
                "rows": snapshot.rows,
                "bytes": snapshot.bytes,
            }
    return rows


def server_rows(env: Environment) -> Iterator[Row]:
    """tidegate.servers: the processes that have a lease."""
    for process, lease in env.cache.state.leases.items():
        yield {
            "process": process,
            "is_this": process == env.process,
            "is_alone": lease.sole,
            "read_lower": int(lease.read_lower),
            "read_lower_time": _moment(lease.read_lower),
            "renewed_at": datetime.fromtimestamp(lease.renewed_ms / 1000, UTC),
        }


def oracle_rows(env: Environment) -> list[Row]:
    """tidegate.oracle: one row."""
    state = env.cache.state
    first = state.first_unapplied()
    return [
        {
            "environment": env.id,
            "csn": max(int(env.cache.upper) - 1, 0),
            "time": _moment(Csn(max(int(env.cache.upper) - 1, 0))),
            "asks_store": env.oracle.asks_store,
            "first_unapplied": None if first is None else int(first),
            "shards": len(state.registered),
            "servers": len(state.leases),
            "staged": len(state.staged),
            "prepared": len(state.prepared),
            "unapplied": sum(map(len, state.pending.values())),
        }
    ]


def engine_rows(started: Mapping[str, bool], sessions: Iterable[Row]) -> list[Row]:
    """tidegate.engines: whether each is `started`, and how many sessions run a statement on it."""
    running = [row["engine"] for row in sessions if row.get("statement_began_at") is not None]
    return [{"engine": name, "is_started": on, "statements": running.count(name)} for name, on in started.items()]


def _moment(csn: Csn) -> datetime | None:
    return None if csn <= 0 else datetime.fromtimestamp(csn_ms(csn) / 1000, UTC)


def _interval(elapsed: timedelta) -> dict[str, int]:
    micros = int(max(elapsed, timedelta()).total_seconds() * 1_000_000)
    return {"months": 0, "days": 0, "micros": micros}


def column_rows() -> list[Row]:
    """tidegate.columns: the relations of the schema and their columns."""
    rows: list[Row] = []
    for relation, own in OWN_RELATIONS.items():
        rows.append({"relation": relation, "position": 0, "comment": own.comment})
        rows += [
            {"relation": relation, "position": position, "name": name, "type": format_type(column.type_oid),
             "comment": column.comment}
            for position, (name, column) in enumerate(own.columns.items(), 1)
        ]  # fmt: skip
    return rows
