"""The local engine's database: DuckDB in this process, closed to the outside.

One in-memory database holds nothing durable: decoded inline parts, system relations, and what a query spills.
Settings make its arithmetic and null order PostgreSQL's; then its file access is limited to the blob root and a
scratch directory, and its configuration is locked, in that order, so that no statement can undo it.

A `Cursor` is a connection to that database; each runs one execution at a time. Cursors are reused: making one costs
more than a point read. Each keeps the plans of statements that it has run again and again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import structlog

from planner.errors import InternalError
from storage.bounded_map import BoundedMap

log = structlog.get_logger(__name__)

Error = duckdb.Error
"""What the engine raises."""

_REWRITING = ("delim_join_as_cte", "enable_optimizer")
"""Settings of the engine without which a statement has the same rows, slower; those first that cost least."""

OptimizerErrors = (duckdb.InternalException, duckdb.SerializationException)
"""How the engine's rewriting fails on what runs without it. DuckDB 2.0 loses columns of some subqueries that refer to
the queries around them twice over, as it pushes conditions and pulls common tables about, finds what it puts in their
place cyclic, and cannot copy a common table that names a column twice in a call."""

_UNBOUND = "BindBuiltinScalarFunction did not return"
"""What the engine says, as if it were the statement's fault, where it folds a function in the rewriting."""

Connection: TypeAlias = Any
"""duckdb.DuckDBPyConnection."""

MAX_IDLE_CURSORS = 32
"""Cursors kept for reuse: about as many as statements that run at once; an idle one costs some 100 KiB."""

MAX_PREPARED = 64
"""Plans that a cursor keeps; the least recently run goes first."""

MAX_SEEN = 256
"""Texts that a cursor remembers to have run once: a plan is worth keeping from the second run on."""

MAX_PREPARED_CHARS = 16 * 1024
"""Longer texts carry data and rarely come again."""


INVALIDATED = "database has been invalidated because of a previous fatal error"
"""What the engine says of a database that an error has taken with it, whatever the statement."""

MAX_ERROR_CHARS = 400
"""Of an engine's error in the log; it holds its stack."""

MAX_SOURCES = 256
"""Names that a cursor may know. Plans refer to what is under them, so one that knows more is not used again."""


class RowSource:
    """What the engine finds under a name: for the length of one execution, `rows`. Belongs to one cursor."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows: pa.Table | None = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self.rows is None:
            raise InternalError("rows are read after their execution has ended")
        return self.rows.__arrow_c_stream__(requested_schema)


class Cursor:
    """A connection for one execution at a time, with the plans it keeps. Used by one thread at a time, but for
    `interrupt`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._prepared: BoundedMap[str, str] = BoundedMap(max_entries=MAX_PREPARED)
        self._seen: BoundedMap[str, bool] = BoundedMap(max_entries=MAX_SEEN)
        self._numbers = itertools.count()
        self._sources: dict[str, RowSource] = {}
        self._is_plain = False

    @property
    def spent(self) -> bool:
        """Whether it is better closed than used again."""
        return self._is_plain or len(self._sources) > MAX_SOURCES

    def offer(self, name: str, rows: pa.Table) -> None:
        """Makes `rows` what statements on this cursor find under `name`, until `withdraw`; always of one schema."""
        source = self._sources.get(name)
        if source is not None:
            source.rows = rows
            return
        source = RowSource(rows)
        # NOTE: first, for it fails when the statement is cancelled meanwhile.
        self.connection.register(name, source)
        self._sources[name] = source

    def withdraw(self, name: str) -> None:
        """Takes back what was offered, if anything was; the name stays known."""
        source = self._sources.get(name)
        if source is not None:
            source.rows = None

    def stream(self, sql: str, batch_rows: int, values: Sequence[str | bytes] = ()) -> Any:
        """Runs a query, with the `values` of its parameters, and returns a reader of record batches; blocks until the
        first rows are there. What the engine's rewriting of queries fails on is run with less and less of it."""
        text = sql
        for setting in (*_REWRITING, None):
            try:
                if not self._is_plain and not values:
                    name = self._plan(sql)
                    text = sql if name is None else f"EXECUTE {name}"
                return self._submit(text, batch_rows, values)
            except (*OptimizerErrors, duckdb.InvalidInputException) as error:
                # No row has been given yet.
                if setting is None or (isinstance(error, duckdb.InvalidInputException) and _UNBOUND not in str(error)):
                    raise
                reason = str(error)[:MAX_ERROR_CHARS]
                log.warning("the engine's rewriting failed; running without it", rewriting=setting, error=reason)
                text, self._is_plain = sql, True
                self.connection.execute(f"SET SESSION {setting} = false")
        raise AssertionError("the last attempt returns or raises")

    def interrupt(self) -> None:
        """Interrupts what runs; from any thread."""
        self.connection.interrupt()

    def close(self) -> None:
        """Closes the connection."""
        self.connection.close()

    def _submit(self, text: str, batch_rows: int, values: Sequence[str | bytes]) -> Any:
        # The relation that `sql()` would make binds the text a second time, which costs more than a point read; this
        # is the call that it makes in the end.
        return self.connection._submit(text, list(values) or None, "stream", batch_rows).arrow_reader()

    def _plan(self, sql: str) -> str | None:
        """The name of the plan kept for `sql`, if there is one. The engine makes it anew when a table that it reads
        has changed."""
        name = self._prepared.get(sql)
        if name is not None:
            self._prepared.touch(sql)
            return name
        if self._seen.get(sql) is None:
            if len(sql) <= MAX_PREPARED_CHARS:
                self._seen.put(sql, True)
            return None
        self._seen.pop(sql)
        name = f"plan{next(self._numbers)}"
        self.connection.execute(f"PREPARE {name} AS {sql}")
        for _, dropped in self._prepared.put(sql, name):
            self.connection.execute(f"DEALLOCATE {dropped}")
        return name


class LocalDatabase:
    """DuckDB, set up and locked. Thread-safe: `acquire` and `release` may be called from any thread.

    `directories` are the only ones whose files SQL can reach; `scratch` receives what does not fit in `memory_limit`
    (a size such as ``1GB``), at most `scratch_limit` of it (None: what the disk has room for). `register` adds
    functions before the configuration is locked.
    """

    def __init__(
        self,
        *,
        directories: Sequence[Path],
        scratch: Path,
        memory_limit: str,
        scratch_limit: str | None = None,
        threads: int | None = None,
        register: Sequence[Callable[[Connection], None]] = (),
    ) -> None:
        self._root = duckdb.connect(":memory:")
        self.is_broken = False
        """Whether it runs nothing any more and another one has to take its place."""
        self._lock = threading.Lock()
        self._idle: list[Cursor] = []
        scratch.mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {
            "integer_division": True,
            # A key that turns out to be a constant orders nothing.
            "order_by_non_integer_literal": True,
            "ieee_floating_point_ops": False,
            "default_null_order": "postgres",
            "TimeZone": "UTC",
            "memory_limit": memory_limit,
            "temp_directory": str(scratch),
            "parquet_metadata_cache": True,
            # Arrow's plain offsets and lists; the encoder of results and storage know no view types.
            "arrow_large_buffer_size": False,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "errors_as_json": False,
            # What a query has freed goes back to the system within seconds.
            "allocator_background_threads": True,
            # What the planner lets through fits a thread's stack several times over.
            "max_expression_depth": 4000,
        }
        if threads is not None:
            settings["threads"] = threads
        if scratch_limit is not None:
            settings["max_temp_directory_size"] = scratch_limit
        for name, value in settings.items():
            self._root.execute(f"SET GLOBAL {name} = {_setting(value)}")
        for function in register:
            function(self._root)
        allowed = ", ".join(_setting(str(directory.absolute())) for directory in (*directories, scratch))
        self._root.execute(f"SET GLOBAL allowed_directories = [{allowed}]")
        self._root.execute("SET GLOBAL enable_external_access = false")
        # A cursor may do without the optimizer; no statement of a client can say so.
        self._root.execute(f"SET GLOBAL allowed_configs = {list(_REWRITING)}")
        self._root.execute("SET GLOBAL lock_configuration = true")

    def acquire(self) -> Cursor:
        """A cursor for one execution; give it back with `release`."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            return Cursor(self._root.cursor())

    def release(self, cursor: Cursor) -> None:
        """Takes a cursor back. Its execution must have ended, its registered tables must be gone."""
        with self._lock:
            if len(self._idle) < MAX_IDLE_CURSORS and not cursor.spent:
                self._idle.append(cursor)
                return
        cursor.close()

    def is_lost_before(self, error: BaseException) -> bool:
        """Finds out whether `error` has taken the whole database with it (the engine runs nothing in one of which it
        does not know whether it is whole), and says whether another error had done so before."""
        # NOTE: while a result streams, pyarrow wraps what the engine raises.
        if not any(kind in str(error) for kind in ("INTERNAL Error", "FATAL Error")):
            return False
        with self._lock:
            try:
                self._root.execute("SELECT 1").fetchall()
            except duckdb.FatalException as lost:
                log.error("a database of the local engine is given up", error=str(lost)[:MAX_ERROR_CHARS])
                self.is_broken = True
        return self.is_broken and INVALIDATED in str(error)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs one statement of the engine itself (never a client's) and returns its rows."""
        cursor = self.acquire()
        try:
            rows: list[tuple[Any, ...]] = cursor.connection.execute(sql).fetchall()
            return rows
        finally:
            self.release(cursor)

    def close(self) -> None:
        """Closes every connection; the database's memory is freed."""
        with self._lock:
            for cursor in self._idle:
                cursor.close()
            self._idle.clear()
            self._root.close()


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("'", "''") + "'"
