"""The isolation specs whose output differs from PostgreSQL's, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_FUNCTIONS = "needs functions in PL/pgSQL or SQL, which there are not"
_PARTITIONS = "needs partitioned tables, which there are not"
_INHERITANCE = "needs table inheritance, which there is not"
_REASONS: Mapping[str, tuple[str, ...]] = {
    _FUNCTIONS: (
        "alter-table-3", "create-trigger", "deadlock-parallel", "eval-plan-qual", "eval-plan-qual-trigger", "horizons",
        "insert-conflict-specconflict", "multiple-cic", "plpgsql-toast", "read-write-unique-3", "ri-trigger", "stats",
    ),
    _PARTITIONS: (
        "cluster-conflict-partition", "detach-partition-concurrently-1", "detach-partition-concurrently-2",
        "detach-partition-concurrently-3", "detach-partition-concurrently-4", "fk-partitioned-1", "fk-partitioned-2",
        "fk-snapshot", "insert-conflict-do-update-4", "merge-delete", "merge-match-recheck", "merge-update",
        "partition-concurrent-attach", "partition-drop-index-locking", "partition-key-update-1",
        "partition-key-update-2", "partition-key-update-3", "partition-key-update-4", "tuplelock-partition",
    ),
    _INHERITANCE: ("alter-table-4", "inherit-temp"),
}  # fmt: skip

DIFFERENCES = {name: reason for reason, names in _REASONS.items() for name in names}
"""By name of the spec, why it differs."""
