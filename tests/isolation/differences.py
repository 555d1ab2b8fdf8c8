"""The isolation specs whose output differs from PostgreSQL's, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_FUNCTIONS = "Needs functions or triggers in PL/pgSQL, which there are not."
_PARTITIONS = "Needs partitioned tables, which there are not."
_INHERITANCE = "Needs table inheritance, which there is not."
_DIFFERENT_SSI = (
    "SERIALIZABLE is kept by other means. PostgreSQL fails a transaction when two dependencies meet in it, at whatever "
    "statement that happens; here the commit fails the transaction, and only that one, whose reads are no longer true. "
    "So another step of a dangerous order fails, and some orders that PostgreSQL refuses are serializable and commit."
)
_STRICT_SSI = (
    "SERIALIZABLE is strict here: what a transaction has read must still be so when it commits, also where another "
    "order of the transactions would explain it, which PostgreSQL allows."
)
_REINDEX = (
    "REINDEX CONCURRENTLY does not wait for transactions that have read the table before: nothing that they read is "
    "taken away."
)

_REASONS: Mapping[str, tuple[str, ...]] = {
    _FUNCTIONS: (
        "alter-table-3", "create-trigger", "eval-plan-qual", "eval-plan-qual-trigger", "horizons",
        "insert-conflict-specconflict", "multiple-cic", "plpgsql-toast", "ri-trigger", "stats",
    ),
    _PARTITIONS: (
        "cluster-conflict-partition", "detach-partition-concurrently-1", "detach-partition-concurrently-2",
        "detach-partition-concurrently-3", "detach-partition-concurrently-4", "fk-partitioned-1", "fk-partitioned-2",
        "fk-snapshot", "insert-conflict-do-update-4", "merge-delete", "merge-match-recheck", "merge-update",
        "partition-concurrent-attach", "partition-drop-index-locking", "partition-key-update-1",
        "partition-key-update-2", "partition-key-update-3", "partition-key-update-4", "tuplelock-partition",
        "vacuum-concurrent-drop", "vacuum-skip-locked",
    ),
    "Takes advisory locks in the parallel workers of one query, which PostgreSQL lets through to each other ahead of "
    "others; here a query's locks are its session's, and the order of two steps is another.": ("deadlock-parallel",),
    _INHERITANCE: ("alter-table-4", "inherit-temp"),
    _DIFFERENT_SSI: (
        "classroom-scheduling", "partial-index", "predicate-hash", "project-manager",
        "receipt-report", "referential-integrity", "temporal-range-integrity", "total-cash", "two-ids",
        "update-conflict-out",
    ),
    "SERIALIZABLE is kept by other means: another step of a dangerous order fails. What is read by a condition that is "
    "more than a column and a constant (arrays that contain one, points beside one) counts as the whole table, so that "
    "some orders that PostgreSQL lets through fail as well.": ("predicate-gin", "predicate-gist"),
    _STRICT_SSI: (
        "multiple-row-versions", "read-only-anomaly-2", "read-write-unique-4", "serializable-parallel",
    ),
    "SERIALIZABLE is kept by other means: of two transactions that are prepared at once, each has to be able to commit "
    "before the other, where PostgreSQL refuses the third of a dangerous order only.": ("prepared-transactions",),
    _REINDEX: ("reindex-concurrently",),
    "CREATE INDEX CONCURRENTLY does not wait for a prepared transaction by a lock, which lock_timeout would end.": (
        "prepared-transactions-cic",
    ),
    "Needs functions in PL/pgSQL, and the temporary schemas of other sessions, which there are not.": (
        "temp-schema-cleanup",
    ),
    "Locks rows of pg_class (SELECT ... FOR UPDATE), and needs DO in PL/pgSQL.": ("intra-grant-inplace",),
    "Looks at the plans that PostgreSQL chooses.": ("drop-index-concurrently-1", "merge-join"),
    "Needs the setting allow_system_table_mods, to rename a TOAST table.": ("reindex-concurrently-toast",),
    "A DEFERRABLE READ ONLY transaction does not wait for a safe snapshot: every snapshot is one.": (
        "read-only-anomaly-3",
    ),
}  # fmt: skip

DIFFERENCES = {name: reason for reason, names in _REASONS.items() for name in names}
"""By name of the spec, why it differs."""
