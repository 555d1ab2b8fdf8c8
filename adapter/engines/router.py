"""Which engine runs a query, and why: the text that EXPLAIN shows.

The setting `engine` decides: ``auto``, ``spark`` or ``local``. Catalog queries always run on the local engine. With
``auto`` a query whose pruned snapshots are within `fast_path_limit` runs on the local engine, others on Spark; where
the limit is -1, whichever is expected to be faster. What one of them cannot run, or runs slowly by its nature, goes to
the other, and so does what it fails at by itself. A forced engine that cannot run a query is an error that names the
construct.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from adapter.engines.common.engine import Engine, TableInput
from adapter.engines.common.estimates import Estimate
from planner.errors import FeatureNotSupported
from planner.ir.bound import BoundQuery
from planner.ir.file_rows import FileTable


class Route(Struct, frozen=True, kw_only=True):
    """The engine for a query, and the reason in words."""

    engine: Engine
    reason: str
    other: Engine | None = None
    """What runs the query if `engine` fails at it by itself; it has not been asked whether it can."""


def choose(
    query: BoundQuery,
    tables: Mapping[int, TableInput],
    *,
    engine: str,
    fast_path_limit: int | None,
    expected: Callable[[], Estimate],
    local: Engine,
    spark: Engine | None,
) -> Route:
    """The engine for `query` over the pruned `tables`. `fast_path_limit` is in bytes, None when there is none; then
    `expected` is asked. `spark` is None when the server runs without it. Raises FeatureNotSupported (0A000) when the
    engine asked for, or every engine, cannot run it."""
    read_bytes = sum(table.bytes for table in tables.values()) + sum(table.bytes for table in query.files.values())
    remote = next((table for table in query.files.values() if table.remote), None)
    if remote is not None:
        return _only_spark(query, remote, engine, spark)
    if query.system:
        return _only(local, query, "it reads the system catalogs")
    if engine == "local":
        return _only(local, query, "engine = local")
    if engine == "spark":
        if spark is None:
            raise FeatureNotSupported("the Spark engine is not configured")
        return _only(spark, query, "engine = spark")
    if fast_path_limit is None:
        times = expected()
        within = times.local_s <= times.spark_s
        why = f"expected: {times}"
    else:
        within = read_bytes <= fast_path_limit
        limit = f"{'within' if within else 'above'} fast_path_limit ({_size(fast_path_limit)})"
        why = f"it reads {_size(read_bytes)}, {limit}"
    preferred, other = (local, spark) if within else (spark, local)
    if preferred is None:
        return _only(local, query, "the Spark engine is not configured")
    reason = preferred.unsupported(query)
    if reason is None and preferred is spark and other is not None:
        avoided = preferred.avoided(query)
        if avoided is not None and other.unsupported(query) is None:
            return Route(engine=other, reason=avoided, other=preferred)
    if reason is None:
        return Route(engine=preferred, reason=why, other=other)
    if other is not None and other.unsupported(query) is None:
        return Route(engine=other, reason=reason)
    raise FeatureNotSupported(reason)


def _only_spark(query: BoundQuery, remote: FileTable, engine: str, spark: Engine | None) -> Route:
    what = f'foreign table "{remote.name}" is one of another database, which only the spark engine reads'
    if spark is None:
        raise FeatureNotSupported(what, detail="The Spark engine is not configured.")
    if engine == "local":
        raise FeatureNotSupported(what, hint="SET engine = auto.")
    return _only(spark, query, "it reads a table of another database")


def _only(engine: Engine, query: BoundQuery, reason: str) -> Route:
    unsupported = engine.unsupported(query)
    if unsupported is not None:
        raise FeatureNotSupported(unsupported)
    return Route(engine=engine, reason=reason)


def _size(size: int) -> str:
    """Bytes in the unit that keeps them readable, as PostgreSQL's pg_size_pretty does."""
    if size < 10 * 1024:
        return f"{size} bytes"
    for unit in ("kB", "MB", "GB"):
        size = (size + 512) // 1024
        if size < 10 * 1024:
            return f"{size} {unit}"
    return f"{(size + 512) // 1024} TB"
