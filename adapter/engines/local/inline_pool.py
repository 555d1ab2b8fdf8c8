"""Inline parts (and small files) as native tables of the local engine, so that a point read need not decode them again.

The parts of one shard, as a relation's present columns see them, share one table with the columns ``_part``
(a number given here), ``_row_id`` and ``c<attnum>``. A read selects its parts by number. Parts are added when a read
first needs them; when most of the parts in a table have not been asked for by the read at hand (they were compacted
away, or deleted), the next one starts a new table, and the old one is dropped once nobody reads it.

A `Generation` is one such table. It is leased for as long as an execution refers to it by name.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct, field

from adapter.engines.common.scan_sources import PartIdentity, ScanColumn, identity
from planner.dialects.of_engine import dialect_of
from storage.bounded_map import BoundedMap
from storage.cache_memory import ages, share
from storage.ids import ShardId
from storage.shards.parts import ROW_ID, Part

if TYPE_CHECKING:
    from adapter.engines.local.database import Connection, LocalDatabase

MAX_TABLES = 512
"""Tables kept; the least recently read goes first. Each holds the inline parts of one shard."""

MAX_BYTES = share(8)
"""Arrow bytes put into all tables; beyond it, too, the least recently read goes first."""

SPARE_PARTS = 128
"""Parts of no present use that a table may hold beside as many as are in use, before it is started anew."""


class Generation(Struct, eq=False):
    """One table: its name and its parts' numbers. `numbers` only grows.

    An interrupt may come between any two statements here, or after one has done its work: the table may be there
    without a part, and a number whose rows may be there is never given again.
    """

    name: str
    columns: tuple[ScanColumn, ...]
    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: dict[PartIdentity, int] = field(default_factory=dict)
    next_number: int = 0
    bytes: int = 0
    leases: int = 0
    condemned: bool = False

    def missing(self, parts: Sequence[Part]) -> list[Part]:
        """Those of `parts` whose rows are not in the table yet."""
        return [part for part in parts if identity(part) not in self.numbers]

    def add(self, connection: Connection, rows: Mapping[PartIdentity, pa.Table]) -> None:
        """Puts the rows of parts (in `scan_schema` of the columns) into the table; blocks."""
        with self.lock:
            new = {key: table for key, table in rows.items() if key not in self.numbers}
            if not new:
                return
            given = dict(zip(new, itertools.count(self.next_number)))
            tagged = [
                table.add_column(0, "_part", pa.array([given[key]] * table.num_rows, pa.int32()))
                for key, table in new.items()
            ]
            if not self.numbers:
                connection.execute(f"CREATE TABLE IF NOT EXISTS {self.name} ({self._definition()})")
            self.next_number += len(new)
            view = f"{self.name}_new"
            connection.register(view, pa.concat_tables(tagged).combine_chunks())
            try:
                connection.execute(f"INSERT INTO {self.name} SELECT * FROM {view}")
            finally:
                connection.unregister(view)
            self.numbers.update(given)
            self.bytes += sum([table.nbytes for table in new.values()])

    def condition(self, parts: Sequence[Part]) -> str:
        """SQL that selects the rows of `parts`, all of which are in the table."""
        numbers = sorted(self.numbers[identity(part)] for part in parts)
        if numbers[-1] == len(numbers) - 1:
            return f"_part <= {numbers[-1]}"
        return f"_part IN ({', '.join(map(str, numbers))})"

    def _definition(self) -> str:
        local = dialect_of("local")
        columns = "".join(f", {column.name} {local.type_name(column.type)}" for column in self.columns)
        return f"_part INTEGER, {ROW_ID} BIGINT{columns}"


class InlinePool:
    """The tables of all shards. Thread-safe."""

    def __init__(self, database: LocalDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._current: BoundedMap[tuple[ShardId, tuple[ScanColumn, ...]], Generation] = BoundedMap(
            max_entries=MAX_TABLES, max_bytes=MAX_BYTES
        )
        self._names = (f"inline{number}" for number in itertools.count())
        self._dropped: list[Generation] = []
        ages(self._age)

    @property
    def has_unused(self) -> bool:
        """Whether there are tables that `drop_unused` would drop."""
        return bool(self._dropped)

    def lease(self, shard: ShardId, columns: tuple[ScanColumn, ...], parts: Sequence[Part]) -> Generation:
        """The table for `parts` of `shard`; `release` it afterwards. Rows of `missing` parts are to be added."""
        key = (shard, columns)
        with self._lock:
            found = self._current.get(key)
            if found is not None and len(found.numbers) > 2 * len(parts) + SPARE_PARTS:
                self._current.pop(key)
                self._condemn(found)
                found = None
            if found is None:
                found = Generation(name=next(self._names), columns=columns)
                for known, generation in self._current.items():
                    self._current.resize(known, generation.bytes)
                for _, oldest in self._current.put(key, found):
                    self._condemn(oldest)
            else:
                self._current.touch(key)
            found.leases += 1
            return found

    def release(self, generation: Generation) -> None:
        """Ends a lease."""
        with self._lock:
            generation.leases -= 1
            if generation.condemned and not generation.leases:
                self._dropped.append(generation)

    def drop_unused(self, connection: Connection) -> None:
        """Drops the tables that nobody can refer to any more; blocks."""
        if not self._dropped:
            return
        with self._lock:
            dropped, self._dropped = self._dropped, []
        try:
            while dropped:
                connection.execute(f"DROP TABLE IF EXISTS {dropped[-1].name}")
                dropped.pop()
        finally:
            # An interrupt leaves the others to who comes next.
            if dropped:
                with self._lock:
                    self._dropped.extend(dropped)

    def _age(self, limit: int) -> list[object]:
        with self._lock:
            for known, generation in self._current.items():
                self._current.resize(known, generation.bytes)
            dropped = self._current.age(limit)
            for _, generation in dropped:
                self._condemn(generation)
            return [*dropped]

    def _condemn(self, generation: Generation) -> None:
        generation.condemned = True
        if not generation.leases:
            self._dropped.append(generation)
