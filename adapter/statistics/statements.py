"""Which statements were executed, how often and how long: what the extension pg_stat_statements shows.

Counted is as long as some database has the extension; without it nothing is looked at (`StatementStatistics.is_on`).
Statements that differ in constants only are one: a text is parsed, its constants become parameters, and what is then
printed is hashed. That is done once for each text that the plan cache may have, too; later executions cost a look into
two dictionaries.

Memory is bounded: by `pg_stat_statements.max` statements, and their texts together. When there are too many, those go
that were executed least, of which long ago counts less (PostgreSQL's entry_dealloc). Each process counts by itself; who
asks adds up (`merged`).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Struct

from adapter.access.passwords import without_passwords
from adapter.wall_clock import utc_now
from planner.syntax.formatting import Fingerprint, fingerprint
from planner.syntax.parse import LONG_TEXT_CHARS, Parsed
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging
from storage.catalog.outside import Extension

EXTENSION = "pg_stat_statements"

PLANNED = frozenset({"select_stmt", "insert_stmt", "update_stmt", "delete_stmt", "merge_stmt"})
"""Statements that are planned; the constants of all others stay, and `track_utility` says whether they count."""

_NEVER = frozenset({"prepare_stmt", "deallocate_stmt", "execute_stmt"})
"""What EXECUTE runs counts instead."""

_WITH_ROWS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "COPY", "FETCH"})
"""First words of the command tags whose number counts as rows."""

_PREPARE = re.compile(r"prepare\s+(?:\w+|\"[^\"]*\")\s*(?:\([^)]*\))?\s*as\s+", re.IGNORECASE)
"""In front of a statement that PREPARE has named: it belongs to the text that is shown."""

MAX_QUERY_CHARS = 64 * 1024
"""So much of a statement's text is kept."""

MAX_TEXT_BYTES = 32 << 20
"""What the texts of all statements may take."""

MAX_FINGERPRINTS = 5_000
MAX_FINGERPRINT_BYTES = 16 << 20
"""Texts of which it is known which statement they are."""

DECAY = 0.99
FORGOTTEN_SHARE = 20
"""When there are too many statements, one of so many goes; at least `LEAST_FORGOTTEN`."""
LEAST_FORGOTTEN = 10


class Counted(Struct):
    """A statement of one role in one database. Times are milliseconds."""

    query: str
    calls: int = 0
    rows: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    """The sum of the squared distances from the mean."""
    usage: float = 1.0

    def add(self, ms: float, rows: int) -> None:
        """Another execution (Welford's method)."""
        self.calls += 1
        self.rows += rows
        self.total += ms
        self.usage += 1
        if self.calls == 1:
            self.least = self.most = self.mean = ms
            return
        before = self.mean
        self.mean += (ms - before) / self.calls
        self.squares += (ms - before) * (ms - self.mean)
        self.least = min(self.least, ms)
        self.most = max(self.most, ms)

    def go_on(self, ms: float, rows: int) -> None:
        """More of the latest execution."""
        self.rows += rows
        self.total += ms
        self.mean = self.total / max(self.calls, 1)
        self.most = max(self.most, self.mean)


Key = tuple[int, int, int, bool]
"""Role, database, query id, and whether it was sent by a client."""


class Delta(Protocol):
    """A change of the catalog."""

    @property
    def updates(self) -> Sequence[Any]:
        """Records with `diff` 1 or -1."""
        ...


class StatementStatistics:
    """See the module's contract. Belongs to the event loop of one process."""

    def __init__(self) -> None:
        self.is_on = False
        """Whether anybody wants to know."""
        self.max_entries = 5_000
        self._wanted: set[int] = set()
        """The extensions (oids) that show it."""
        self._counted: dict[Key, Counted] = {}
        self._bytes = 0
        self._forgotten = 0
        self._reset_at = utc_now()
        self._fingerprints: BoundedMap[tuple[str, int], Fingerprint] = aging(
            BoundedMap(max_entries=MAX_FINGERPRINTS, max_bytes=MAX_FINGERPRINT_BYTES)
        )
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Count no more."""
        self.is_on = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def follow(self, delta: Delta, is_first: bool) -> None:
        """Count as long as some database has the extension: the catalog has changed, or (`is_first`) is this."""
        if is_first:
            self._wanted.clear()
        for update in delta.updates:
            record = update.record
            if isinstance(record, Extension) and record.name == EXTENSION:
                (self._wanted.add if update.diff == 1 else self._wanted.discard)(record.oid)
        self.is_on = bool(self._wanted)

    # ------------------------------------------------------------ counting

    def note(
        self, parsed: Parsed, settings: Mapping[str, str], role: int, database: int, tag: str, seconds: float,
        *, goes_on: bool = False, is_sent: bool = True,
    ) -> None:  # fmt: skip
        """A statement has been executed: its command tag, and how long it took. `goes_on`: more of the latest
        execution. `is_sent`: by a client, and not inside a function."""
        track = settings["pg_stat_statements.track"]
        if track == "none" or not (is_sent or track == "all"):
            return
        if parsed.kind in _NEVER:
            return
        if parsed.kind not in PLANNED and settings["pg_stat_statements.track_utility"] == "off":
            return
        word, _, number = tag.partition(" ")
        rows = int(number.rpartition(" ")[2] or 0) if word in _WITH_ROWS else 0
        known = self._fingerprints.get((parsed.text, parsed.start))
        if known is None and parsed.end - parsed.start > LONG_TEXT_CHARS:
            noting = self._note_later(parsed, role, database, seconds * 1000, rows, goes_on, is_sent)
            task = asyncio.get_running_loop().create_task(noting, name="count-statement")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        if known is None:
            known = _fingerprint(parsed)
            size = 2 * len(parsed.text) + 2 * len(known.query)
            self._fingerprints.put((parsed.text, parsed.start), known, size)
        self._add((role, database, known.id, is_sent), known.query, seconds * 1000, rows, goes_on)

    async def _note_later(
        self, parsed: Parsed, role: int, database: int, ms: float, rows: int, goes_on: bool, is_sent: bool
    ) -> None:
        found = await asyncio.to_thread(_fingerprint, parsed)
        self._add((role, database, found.id, is_sent), found.query, ms, rows, goes_on)

    def _add(self, key: Key, query: str, ms: float, rows: int, goes_on: bool) -> None:
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = Counted(query=query)
            self._bytes += len(query)
            if len(self._counted) > self.max_entries or self._bytes > MAX_TEXT_BYTES:
                self._forget_some()
        if goes_on and counted.calls:
            counted.go_on(ms, rows)
        else:
            counted.add(ms, rows)

    def _forget_some(self) -> None:
        """Drop those that were executed least."""
        newest = next(reversed(self._counted))
        for counted in self._counted.values():
            counted.usage *= DECAY
        ordered = sorted((key for key in self._counted if key != newest), key=lambda key: self._counted[key].usage)
        least = max(LEAST_FORGOTTEN, len(ordered) // FORGOTTEN_SHARE)
        for number, key in enumerate(ordered):
            if number >= least and self._bytes <= MAX_TEXT_BYTES:
                break
            self._bytes -= len(self._counted.pop(key).query)
        self._forgotten += 1

    # ------------------------------------------------------------ telling

    def id_of(self, parsed: Parsed | None) -> int | None:
        """The query id of a statement, if it is known."""
        if parsed is None or not self.is_on:
            return None
        known = self._fingerprints.get((parsed.text, parsed.start))
        return None if known is None else known.id

    def rows(self) -> list[Mapping[str, Any]]:
        """What this process has counted; `merged` makes the rows of pg_stat_statements of it."""
        return [
            {"userid": role, "dbid": database, "queryid": query_id, "toplevel": is_sent, "query": counted.query,
             "calls": counted.calls, "rows": counted.rows, "total": counted.total, "least": counted.least,
             "most": counted.most, "mean": counted.mean, "squares": counted.squares}
            for (role, database, query_id, is_sent), counted in self._counted.items()
        ]  # fmt: skip

    def info(self) -> Mapping[str, Any]:
        """How often statements had to go, and since when is counted."""
        return {"dealloc": self._forgotten, "stats_reset": self._reset_at}

    def reset(self, role: int = 0, database: int = 0, query_id: int = 0) -> None:
        """Forget what was counted: of a role, a database, a statement; 0 is all of them."""
        if not (role or database or query_id):
            self._counted.clear()
            self._bytes = self._forgotten = 0
            self._reset_at = utc_now()
            return
        for key in list(self._counted):
            if role in (0, key[0]) and database in (0, key[1]) and query_id in (0, key[2]):
                self._bytes -= len(self._counted.pop(key).query)


def _fingerprint(parsed: Parsed) -> Fingerprint:
    source, before = parsed.source, ""
    is_planned = parsed.kind in PLANNED and parsed.extension is None
    if parsed.kind == "select_stmt" and parsed.tree.HasField("into_clause"):
        is_planned = False
    prepared = _PREPARE.match(source) if is_planned else None
    if prepared is not None:
        before, source = prepared[0], source[prepared.end() :]
    found = fingerprint(source, lift=is_planned)
    query = before + found.query if is_planned else without_passwords(found.query)
    return Fingerprint(id=found.id, query=query[:MAX_QUERY_CHARS])


def merged(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of pg_stat_statements, of what all processes have counted."""
    added: dict[Key, Counted] = {}
    for row in rows:
        key = (row["userid"], row["dbid"], row["queryid"], row["toplevel"])
        one = Counted(query=row["query"], calls=row["calls"], rows=row["rows"], total=row["total"], least=row["least"],
                      most=row["most"], mean=row["mean"], squares=row["squares"])  # fmt: skip
        other = added.get(key)
        added[key] = one if other is None else _sum(one, other)
    return [
        {"userid": role, "dbid": database, "toplevel": is_sent, "queryid": query_id, "query": counted.query,
         "calls": counted.calls, "total_exec_time": counted.total, "min_exec_time": counted.least,
         "max_exec_time": counted.most, "mean_exec_time": counted.mean,
         "stddev_exec_time": math.sqrt(counted.squares / counted.calls) if counted.calls else 0.0,
         "rows": counted.rows}
        for (role, database, query_id, is_sent), counted in added.items()
    ]  # fmt: skip


def _sum(one: Counted, other: Counted) -> Counted:
    calls = one.calls + other.calls
    apart = other.mean - one.mean
    return Counted(
        query=one.query,
        calls=calls,
        rows=one.rows + other.rows,
        total=one.total + other.total,
        least=min(one.least, other.least),
        most=max(one.most, other.most),
        mean=(one.total + other.total) / calls,
        squares=one.squares + other.squares + apart * apart * one.calls * other.calls / calls,
    )


def merged_info(infos: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The row of pg_stat_statements_info, of what all processes say."""
    found = list(infos)
    since: list[datetime] = [info["stats_reset"] for info in found]
    return {"dealloc": sum(info["dealloc"] for info in found), "stats_reset": max(since)}
