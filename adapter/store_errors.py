"""What a client is told when the storage layer fails its statement."""

from __future__ import annotations

from planner import errors as sql
from planner.errors import DataCorrupted, DiskFull, IoError, SerializationFailure, SqlError
from storage.errors import AsOfNotReadable, CorruptData, SnapshotTooOld, StorageError, StoreFull, UnknownShard

FSCK_HINT = "Run tidegate admin fsck to see what else is damaged, and restore it from a copy."


def sql_error(error: StorageError) -> SqlError:
    """The SQL error for `error`, of a statement that committed nothing."""
    match error:
        case StoreFull():
            return DiskFull(
                f"could not write to the store: {error}", hint="Free space where the data are, then try again."
            )
        case SnapshotTooOld():
            return sql.SnapshotTooOld(f"snapshot too old: {error}")
        case CorruptData():
            return DataCorrupted(str(error), hint=FSCK_HINT)
        case AsOfNotReadable() | UnknownShard():
            return SerializationFailure(
                "could not serialize access due to concurrent DDL", hint="The transaction might succeed if retried."
            )
        case _:
            return IoError(str(error))
