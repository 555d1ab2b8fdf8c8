"""The interface that both engines implement.

An engine gets a bound query in which session values are already literals, the parameter values, and for each user
table that the query reads a `TableInput`: the shard's snapshot plus the open transaction's own parts. It streams Arrow
record batches of the physical types (planner.ir.physical). It never sees SQL text from a client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from adapter.execution_context import ExecutionContext
from planner.errors import InternalError
from planner.ir.bound import BoundQuery
from planner.ir.nodes import Literal as LiteralValue
from storage.catalog.model import Relation
from storage.ids import ShardId
from storage.layouts.layout import TableLayout
from storage.shards.parts import Bytes, UploadedPart

RecordBatch: TypeAlias = Any
ArrowTable: TypeAlias = Any
Part: TypeAlias = Any
"""storage.shards.parts.Part"""

EngineName: TypeAlias = Literal["spark", "local"]


class TableInput(Struct, frozen=True, kw_only=True):
    """What an engine reads of one table: insert parts less the rows that delete parts name, after pruning.

    `inserts` and `deletes` hold the snapshot's parts and then the transaction's own. Parts may be inline. `bytes`
    is the sum over the inserts that are left after pruning.

    `picked`: the rows that the query needs of the table, and possibly more, in `scan_sources.scan_schema` and in one
    piece. They have been found by an index, and are read instead of parts; only the local engine does that.
    """

    relation: Relation
    inserts: tuple[Part, ...]
    deletes: tuple[Part, ...]
    bytes: int
    rows: int
    picked: ArrowTable | None = None


class WrittenPart(Struct, frozen=True, kw_only=True):
    """A Parquet file that an engine wrote straight to the blob store: `key` in the blob store, row count, bytes; its
    checksum and its footer where the writer knows them (`UploadedPart`)."""

    key: str
    rows: int
    bytes: int
    checksum: str = ""
    footer: Bytes = b""

    def uploaded(self) -> UploadedPart:
        """What the storage is told of it."""
        return UploadedPart(key=self.key, rows=self.rows, bytes=self.bytes, checksum=self.checksum, footer=self.footer)


class RowTasks(Struct, frozen=True, kw_only=True):
    """What executors do with the rows of a query. `task` gets a number that no other run of it has, and the rows of one
    task, in columns as the query calls them (``c<id>``); what it gives has the columns `answers`. Rows that agree in
    the output columns at the places `by` come together, where the query says no order; with `at_once` all rows do."""

    task: Callable[[int, Iterator[RecordBatch]], Iterator[RecordBatch]]
    answers: str
    by: tuple[int, ...] = ()
    at_once: bool = False


class Engine(Protocol):
    """An engine. All methods may raise `planner.errors.SqlError`; `execute` and `write` raise QueryCanceled once
    cancelled."""

    name: EngineName

    def unsupported(self, query: BoundQuery) -> str | None:
        """Why this engine cannot run `query` (naming the construct), or None when it can."""
        ...

    def avoided(self, query: BoundQuery) -> str | None:
        """Why another engine is better asked for `query` if that one can run it, or None."""
        ...

    def knows(self, query: BoundQuery) -> bool:
        """Whether it has been asked for this query before, so that `unsupported` has its answer at hand."""
        ...

    def execute(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        *,
        extra: Mapping[int, ArrowTable] | None = None,
    ) -> AsyncIterator[RecordBatch]:
        """Runs the query; batches come as they are pulled, and closing the iterator ends the work.

        `tables` is keyed by relation oid. `extra` binds Arrow tables to `CteScan` ids (RETURNING_ROWS).
        """
        ...

    async def write(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        *,
        shard: ShardId,
        columns: Sequence[tuple[int, ...]],
        names: Sequence[Sequence[str]],
        layout: TableLayout | None = None,
        is_ordered: bool = False,
        extra: Mapping[int, ArrowTable],
    ) -> Sequence[Sequence[WrittenPart]]:
        """Runs the query once and writes its rows as Parquet parts straight to the blob store.

        Each entry of `columns` (positions in the query's output) with its `names` (physical column names) makes one
        set of parts, so that UPDATE writes delete parts and insert parts from one run. Returns the parts of each
        set. Executors write; the rows do not pass this process on Spark. New rows, which have no row id, are laid out
        as `layout` says; where the query's rows come in the order of that (`is_ordered`), whatever they have, they are
        only cut into its files.
        """
        ...

    def reaches(self, path: str, options: Mapping[str, str]) -> bool:
        """Whether tasks can write below `path` by themselves: a local folder, or a URL of a store with `options`."""
        ...

    async def hand_over(
        self,
        query: BoundQuery,
        tables: Mapping[int, TableInput],
        params: Sequence[LiteralValue],
        context: ExecutionContext,
        *,
        tasks: RowTasks,
        extra: Mapping[int, ArrowTable],
    ) -> Sequence[RecordBatch]:
        """Runs the query once and hands its rows to tasks, which see what they write about where it `reaches`. Returns
        the answers of those that count: another attempt of a task may have done the same."""
        ...

    async def cancel(self, token: str) -> None:
        """Ends the execution that `token` names, if it still runs."""
        ...

    async def close(self) -> None:
        """Stops the engine."""
        ...


class WithoutTasks:
    """What an `Engine` has in common with others whose rows come to this process."""

    def reaches(self, path: str, options: Mapping[str, str]) -> bool:
        """See `Engine.reaches`: there are no tasks."""
        return False

    async def hand_over(self, *_: Any, **__: Any) -> Sequence[RecordBatch]:
        """See `Engine.hand_over`. Nobody asks for it where nothing is reached."""
        raise InternalError("this engine has no tasks")
