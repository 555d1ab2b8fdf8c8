"""What a transaction has buffered for one shard, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from storage.shards.parts import Part, arrow_bytes
from storage.transactions.local_parts import LocalParts
from storage.transactions.rows_ahead import FIRST_AHEAD, Ints


class BufferedRun(Struct):
    """Consecutive new rows of one schema, `rows` of them; `first` is the provisional id of the first."""

    first: int
    tables: list[pa.Table]
    rows: int
    local: LocalParts = field(default_factory=partial(LocalParts, "insert"))

    def table(self) -> pa.Table:
        """The rows as one table."""
        return self.tables[0] if len(self.tables) == 1 else pa.concat_tables(self.tables)


class Buffer(Struct):
    """One shard's share of one segment. `open_run`: the last run may be continued."""

    open_run: bool = False
    runs: list[BufferedRun] = field(default_factory=list)
    deletes: list[pa.Table] = field(default_factory=list)
    local_deletes: LocalParts = field(default_factory=partial(LocalParts, "delete"))
    parts: list[Part] = field(default_factory=list)

    def nbytes(self) -> int:
        """Arrow bytes held in memory."""
        inserts = sum([arrow_bytes(table) for run in self.runs for table in run.tables])
        deletes = sum([arrow_bytes(table) for table in self.deletes])
        return inserts + deletes

    def absorb(self, later: Buffer) -> None:
        """Take over what was written after this."""
        runs = later.runs
        if runs and self.open_run and not later.parts:
            last, first = self.runs[-1], runs[0]
            if last.first + last.rows == first.first and last.tables[0].schema.equals(first.tables[0].schema):
                last.tables.extend(first.tables)
                last.rows += first.rows
                runs = runs[1:]
        self.runs.extend(runs)
        self.open_run = later.open_run or (self.open_run and not later.runs and not later.parts)
        self.deletes.extend(later.deletes)
        self.parts.extend(later.parts)


def buffered_parts(buffers: Sequence[Buffer]) -> tuple[Part, ...]:
    found: list[Part] = []
    for buffer in buffers:
        found.extend(buffer.parts)
        for run in buffer.runs:
            first = run.first
            for part in run.local.of(run.tables):
                found.append(msgspec.structs.replace(part, first_row_id=first))
                first += part.rows
        found.extend(buffer.local_deletes.of(buffer.deletes))
    return tuple(found)


def missing_rows(buffer: Buffer) -> int:
    inserts = sum([run.local.missing_rows(run.tables) for run in buffer.runs])
    return inserts + buffer.local_deletes.missing_rows(buffer.deletes)


def rows_of(buffers: Sequence[Buffer], ids: Iterable[int]) -> pa.Table | None:
    """The new rows with these provisional ids, in their order; None when one is not there, or in a file, or they are of
    several schemas."""
    found: list[pa.Table] = []
    runs = [run for buffer in buffers for run in buffer.runs]
    for row_id in ids:
        run = next((run for run in runs if run.first <= row_id < run.first + run.rows), None)
        if run is None or (found and not found[0].schema.equals(run.tables[0].schema)):
            return None
        found.append(run.table().slice(row_id - run.first, 1))
    return pa.concat_tables(found) if found else None


def settle(buffers: Sequence[Buffer], committed: Mapping[int, int]) -> None:
    """Put the ids that rows of other transactions have got in the place of their names."""
    for buffer in buffers:
        for number, table in enumerate(buffer.deletes):
            ids = table.column(0).to_pylist()
            if any(row_id >= FIRST_AHEAD for row_id in ids):
                settled = pa.array([committed.get(row_id, row_id) for row_id in ids], pa.int64())
                buffer.deletes[number] = table.set_column(0, table.schema.field(0), settled)
                buffer.local_deletes = LocalParts("delete")


def deleted_ids(buffers: Sequence[Buffer]) -> Ints | None:
    """The ids of the rows that are deleted; None when a file has some of them."""
    if any(part.kind == "delete" for buffer in buffers for part in buffer.parts):
        return None
    found = [table.column(0).to_numpy() for buffer in buffers for table in buffer.deletes]
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])


def rows_in_memory(buffers: Sequence[Buffer]) -> list[tuple[int | None, pa.Table]] | None:
    """The new rows, each table with the provisional id of its first, and the deleted ones (None), whose ids are their
    first column; None when some are in files."""
    if any(buffer.parts for buffer in buffers):
        return None
    found: list[tuple[int | None, pa.Table]] = []
    for buffer in buffers:
        found += [(run.first, run.table()) for run in buffer.runs]
        found += [(None, table) for table in buffer.deletes]
    return found


def slices(table: pa.Table, most_bytes: int, most_rows: int) -> list[pa.Table]:
    """`table` cut so that no piece is much above so many bytes, or above so many rows."""
    pieces = max(1, -(-table.nbytes // most_bytes), -(-table.num_rows // most_rows))
    rows = max(1, -(-table.num_rows // pieces))
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]
