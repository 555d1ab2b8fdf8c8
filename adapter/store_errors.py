"""What a client is told when the storage layer fails its statement, or other transactions are in its way."""

from __future__ import annotations

from datetime import UTC, datetime

import structlog

from planner import errors as sql
from planner.errors import DataCorrupted, DiskFull, InvalidCatalogName, IoError, SerializationFailure, SqlError
from storage.durable.formats import FormatNotYet
from storage.errors import (
    AsOfNotReadable,
    CorruptData,
    Determinate,
    Indeterminate,
    NewerFormat,
    NotPrepared,
    PreparedAlready,
    SnapshotTooOld,
    StorageError,
    StoreFull,
    UnknownDatabase,
    UnknownShard,
)
from storage.lake.troubles import FileTrouble, TroubleKind
from storage.timestamps.csn import Csn, csn_ms

_TROUBLES: dict[TroubleKind, type[SqlError]] = {
    "forbidden": sql.InsufficientPrivilege,
    "relative": sql.InvalidName,
    "missing": sql.UndefinedFile,
    "changed": IoError,
    "malformed": sql.BadCopyFileFormat,
    "mismatch": sql.DatatypeMismatch,
    "unreachable": sql.SqlclientUnableToEstablishSqlconnection,
    "unreadable": IoError,
    "exists": sql.DuplicateFile,
    "column": sql.UndefinedColumn,
    "unsupported": sql.FeatureNotSupported,
}

log = structlog.get_logger(__name__)

FSCK_HINT = "Run tidegate admin fsck to see what else is damaged, and restore it from a copy."

CONCURRENT_DDL = "could not serialize access due to concurrent DDL"
CONCURRENT_UPDATE = "could not serialize access due to concurrent update"
CONCURRENT_DELETE = "could not serialize access due to concurrent delete"
READ_WRITE_DEPENDENCIES = "could not serialize access due to read/write dependencies among transactions"


def serialization_failure(reason: str) -> SerializationFailure:
    """40001 for a transaction that cannot go on, or commit, for `reason`: one of the texts above."""
    says_why = reason in (CONCURRENT_UPDATE, CONCURRENT_DELETE)
    return SerializationFailure(reason, hint=None if says_why else "The transaction might succeed if retried.")


def too_old(error: Exception) -> sql.SnapshotTooOld:
    """72000 for a moment whose history is gone."""
    earliest = error.earliest if isinstance(error, AsOfNotReadable) else None
    if earliest is None:
        return sql.SnapshotTooOld("what was there then is no longer kept")
    time = datetime.fromtimestamp(csn_ms(Csn(earliest)) / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
    return sql.SnapshotTooOld(
        "what was there then is no longer kept",
        detail=f"The earliest moment that can be read is {time}, CSN {earliest}.",
        hint="How much of the past is kept is said by retain_history.",
    )


def sql_error(error: StorageError) -> SqlError:
    """The SQL error for `error`, of a statement that committed nothing."""
    match error:
        case UnknownDatabase():
            return InvalidCatalogName(
                "the database does not exist any more", detail="It seems to have just been dropped.", fatal=True
            )
        case StoreFull():
            return DiskFull(
                f"could not write to the store: {error}", hint="Free space where the data are, then try again."
            )
        case SnapshotTooOld():
            return sql.SnapshotTooOld(f"snapshot too old: {error}")
        case NewerFormat() | FormatNotYet():
            return sql.ObjectNotInPrerequisiteState(str(error))
        case CorruptData():
            return DataCorrupted(str(error), hint=FSCK_HINT)
        case NotPrepared():
            return sql.UndefinedObject(f'prepared transaction with identifier "{error}" does not exist')
        case PreparedAlready():
            return sql.DuplicateObject(f'transaction identifier "{error}" is already in use')
        case FileTrouble():
            return _TROUBLES[error.kind](error.message, hint=error.hint)
        case AsOfNotReadable() | UnknownShard():
            return serialization_failure(CONCURRENT_DDL)
        case _:
            return IoError(str(error))


def commit_error(error: Exception) -> SqlError:
    """The SQL error for `error`, which ended a commit."""
    match error:
        case SqlError():
            return error
        case NotPrepared() | PreparedAlready():
            return sql_error(error)
        case Indeterminate():
            return sql.StatementCompletionUnknown(f"the outcome of the commit is not known: {error}")
        case Determinate() if not isinstance(error, StoreFull):
            return IoError(f"could not write to the store: {error}")
        case StorageError():
            return sql_error(error)
        case _:
            log.error("group commit failed", exc_info=error)
            return sql.StatementCompletionUnknown("the outcome of the commit is not known")
