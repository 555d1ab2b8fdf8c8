"""How often tables and indexes were read and changed, and databases committed to: what pg_stat_user_tables and its like
show (PostgreSQL, "The Cumulative Statistics System").

Counted in the process that does it, also what is rolled back later, and gone when the process is; who asks adds up the
workers of a server. Work of the server of its own accord (compaction, checks of uniqueness) does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

MOST = 50_000
"""Of so many tables, and so many indexes, something is known at once; of more, the oldest are forgotten. Those that
were dropped are among them until somebody asks."""


class TableActivity(Struct):
    """Of one table. Names are those of pg_stat_all_tables."""

    seq_scan: int = 0
    seq_tup_read: int = 0
    idx_scan: int = 0
    idx_tup_fetch: int = 0
    n_tup_ins: int = 0
    n_tup_upd: int = 0
    n_tup_del: int = 0
    n_mod_since_analyze: int = 0
    n_ins_since_vacuum: int = 0
    vacuum_count: int = 0
    analyze_count: int = 0
    last_vacuum: datetime | None = None
    last_analyze: datetime | None = None


class IndexActivity(Struct):
    """Of one index. Names are those of pg_stat_all_indexes."""

    idx_scan: int = 0
    idx_tup_read: int = 0
    idx_tup_fetch: int = 0


class DatabaseActivity(Struct):
    """Of one database. Names are those of pg_stat_database."""

    xact_commit: int = 0
    xact_rollback: int = 0
    tup_returned: int = 0
    tup_fetched: int = 0
    tup_inserted: int = 0
    tup_updated: int = 0
    tup_deleted: int = 0
    sessions: int = 0
    deadlocks: int = 0
    stats_reset: datetime | None = None


Counted = TableActivity | IndexActivity | DatabaseActivity


class Activity:
    """What one process counts, by oid of the database, and of the table or index. Oids of temporary tables are not
    counted: they are given to others again."""

    def __init__(self) -> None:
        self.databases: dict[int, DatabaseActivity] = {}
        """Sessions keep their database's: it is added to, and never another."""
        self.tables: dict[tuple[int, int], TableActivity] = {}
        self.indexes: dict[tuple[int, int], IndexActivity] = {}

    def database(self, oid: int) -> DatabaseActivity:
        """The counts of a database, to be added to."""
        found = self.databases.get(oid)
        if found is None:
            found = self.databases[oid] = DatabaseActivity()
        return found

    def table(self, database: int, oid: int) -> TableActivity:
        """The counts of a table, to be added to."""
        found = self.tables.get((database, oid))
        if found is None:
            if len(self.tables) >= MOST:
                del self.tables[next(iter(self.tables))]
            found = self.tables[database, oid] = TableActivity()
        return found

    def changed(self, database: int, table: int, inserted: int, updated: int, deleted: int) -> None:
        """A statement has changed so many rows of a table."""
        # NOTE: every small statement comes by here and by `found`, so that look-ups are written out.
        counts = self.tables.get((database, table)) or self.table(database, table)
        whole = self.databases.get(database) or self.database(database)
        counts.n_tup_ins += inserted
        counts.n_tup_upd += updated
        counts.n_tup_del += deleted
        counts.n_mod_since_analyze += inserted + updated + deleted
        counts.n_ins_since_vacuum += inserted
        whole.tup_inserted += inserted
        whole.tup_updated += updated
        whole.tup_deleted += deleted

    def scanned(self, database: int, table: int, rows: int) -> None:
        """So many rows of a table have been read from one end to the other, or those of the files that were needed."""
        counts = self.table(database, table)
        counts.seq_scan += 1
        counts.seq_tup_read += rows
        self.database(database).tup_returned += rows

    def found(self, database: int, table: int, index: int, rows: int) -> None:
        """So many rows of a table have been found by an index."""
        counts = self.tables.get((database, table)) or self.table(database, table)
        whole = self.databases.get(database) or self.database(database)
        by_index = self.indexes.get((database, index))
        if by_index is None:
            if len(self.indexes) >= MOST:
                del self.indexes[next(iter(self.indexes))]
            by_index = self.indexes[database, index] = IndexActivity()
        by_index.idx_scan += 1
        by_index.idx_tup_read += rows
        by_index.idx_tup_fetch += rows
        counts.idx_scan += 1
        counts.idx_tup_fetch += rows
        whole.tup_fetched += rows

    def vacuumed(self, database: int, table: int, at: datetime) -> None:
        """VACUUM has been at a table."""
        counts = self.table(database, table)
        counts.vacuum_count += 1
        counts.last_vacuum, counts.n_ins_since_vacuum = at, 0

    def analyzed(self, database: int, table: int, at: datetime) -> None:
        """ANALYZE has been at a table."""
        counts = self.table(database, table)
        counts.analyze_count += 1
        counts.last_analyze, counts.n_mod_since_analyze = at, 0

    def forget(self, database: int, oid: int, at: datetime) -> None:
        """pg_stat_reset and pg_stat_reset_single_table_counters: forget what was counted of a database and all in it,
        or (`oid` not 0) of one table or index."""
        if oid:
            self.tables.pop((database, oid), None)
            self.indexes.pop((database, oid), None)
            self.database(database).stats_reset = at
            return
        for counted in (self.tables, self.indexes):
            for key in [key for key in counted if key[0] == database]:
                del counted[key]
        whole, fresh = self.database(database), DatabaseActivity(stats_reset=at)
        for name in DatabaseActivity.__struct_fields__:
            setattr(whole, name, getattr(fresh, name))

    def keep(self, exists: Callable[[int, int], bool]) -> None:
        """Forget tables and indexes that do not exist any more; `exists` is asked with the oids of database and
        relation."""
        for counted in (self.tables, self.indexes):
            for key in [key for key in counted if not exists(*key)]:
                del counted[key]

    def rows(self) -> list[Mapping[str, Any]]:
        """All of it, for who adds up: each with `kind` (r, i or d), `database` and `oid`."""
        return [
            *({"kind": "r", "database": db, "oid": oid} | asdict(each) for (db, oid), each in self.tables.items()),
            *({"kind": "i", "database": db, "oid": oid} | asdict(each) for (db, oid), each in self.indexes.items()),
            *({"kind": "d", "database": oid, "oid": oid} | asdict(each) for oid, each in self.databases.items()),
        ]


def added_up(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int, int], dict[str, Any]]:
    """`Activity.rows` of several processes by kind, database and oid: numbers are added, of moments the latest
    counts."""
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for row in rows:
        key = row["kind"], row["database"], row["oid"]
        known = found.get(key)
        if known is None:
            found[key] = dict(row)
            continue
        for name, value in row.items():
            if name in ("kind", "database", "oid") or value is None:
                continue
            before = known[name]
            if before is None:
                known[name] = value
            else:
                known[name] = max(before, value) if isinstance(value, datetime) else before + value
    return found
