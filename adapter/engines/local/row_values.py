"""Expressions over rows at hand, computed by the thread that asks: the keys of indexes over expressions.

They have a database of their own, which is opened when the first expression comes that needs an engine. They read
nothing but the rows, and mean the same whatever the session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from adapter.engines.common.lowered_queries import KnownQuery
from adapter.execution_context import ExecutionContext
from planner.functions.engines import local as local_udfs
from planner.ir.bound import BoundQuery
from planner.ir.nodes import RETURNING_ROWS
from planner.lowering.engine_errors import translate
from planner.lowering.fragments.sources import ScanSource
from storage.catalog.model import CatalogSnapshot

if TYPE_CHECKING:
    from adapter.engines.local.database import LocalDatabase

BATCH_ROWS = 65_536
MEMORY = "512MB"
"""What it may take of memory before it spills: batches of rows and what one expression makes of them."""

_NOBODY = ExecutionContext(token="", catalog=CatalogSnapshot.empty(), search_path=(), user="", database="", settings={})


class RowValues:
    """See the module. `directory` is a private scratch directory. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._database: LocalDatabase | None = None
        self._made = 0

    def computing(self, query: BoundQuery) -> Callable[[pa.Table], pa.Array]:
        """What gives the one column of `query`, which reads nothing but `RETURNING_ROWS`, for a table with the columns
        of these. Raises the errors of the expression. Blocks: for the event loop it is nothing.

        Raises 0A000 for what the engine cannot compute.
        """
        known = KnownQuery(query, "local")
        with self._lock:
            self._made += 1
            name = f"rows{self._made}"

        def compute(rows: pa.Table) -> pa.Array:
            return self._compute(known, name, rows)

        return compute

    def unsupported(self, query: BoundQuery) -> str | None:
        """Why `query` cannot be computed, or None when it can."""
        return KnownQuery(query, "local").unsupported

    def close(self) -> None:
        """Close the database. Nothing may be computed any more."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _opened(self) -> LocalDatabase:
        with self._lock:
            if self._database is not None and self._database.is_broken:
                self._database.close()
                self._database = None
            if self._database is None:
                from adapter.engines.local import database

                self._database = database.LocalDatabase(
                    directories=(),
                    scratch=self._directory,
                    memory_limit=MEMORY,
                    threads=1,
                    register=(local_udfs.register,),
                )
            return self._database

    def _compute(self, known: KnownQuery, name: str, rows: pa.Table) -> pa.Array:
        from adapter.engines.local.database import Error

        type_ = known.shape.schema.field(0).type
        if not rows.num_rows:
            return pa.array([], type_)
        database = self._opened()
        cursor = database.acquire()
        try:
            cursor.offer(name, rows.rename_columns([f"c{number}" for number in range(1, rows.num_columns + 1)]))
            text = known.text({RETURNING_ROWS: ScanSource(name)}, (), _NOBODY)
            batches = [known.shape.conform(batch) for batch in cursor.stream(text.sql, BATCH_ROWS, text.values)]
        except (Error, pa.ArrowException) as error:
            translated = translate("local", str(error))
            database.is_lost_before(error)
            raise translated from error
        finally:
            cursor.withdraw(name)
            database.release(cursor)
        return pa.concat_arrays([batch.column(0) for batch in batches])
