"""The errors of the storage layer: few, and each tells its caller what to do.

The one distinction that everything rests on: a `Determinate` error says that the operation did **not** take
effect, so it may be treated as a failure or retried at once; an `Indeterminate` error says that it **may**
have, so the caller has to read back (every state diff carries its writer's idempotency token) before it says
anything to anybody. A cancelled operation is indeterminate too.

Conflicts that the protocols expect (a compare-and-set that finds another value, an upper that has moved) are
return values, not errors.
"""

from __future__ import annotations


class StorageError(Exception):
    """Base of every error that `storage` raises on purpose."""


class Determinate(StorageError):
    """The operation failed and did not take effect."""


class Indeterminate(StorageError):
    """The operation may or may not have taken effect; read back before deciding."""


class StoreUnavailable(Determinate):
    """The store could not be reached, so nothing was asked of it."""


class StoreFull(Determinate):
    """The store has no room left; nothing was written. Free space and try again."""


class StoreTimeout(Indeterminate):
    """The store did not answer within the limit."""


class InvalidKey(StorageError, ValueError):
    """A key that is not portable across stores was used; a bug in the caller."""


class InvalidStore(StorageError):
    """The name of a store, or an option of it, is not one that can be used."""


class CorruptData(StorageError):
    """Durable bytes are not what was written: truncated, bit-flipped or foreign."""


class CorruptPart(CorruptData):
    """A part's bytes do not have the length, checksum or row count that the state recorded."""


class CorruptState(CorruptData):
    """A state diff or rollup cannot be decoded, or does not fit the state before it."""


class MissingBlob(CorruptData):
    """The state refers to a blob that is not in the store."""


class NewerFormat(StorageError):
    """The environment was written by a newer version, whose format this one must not touch. Upgrade."""


class ForeignEnvironment(StorageError):
    """The data directory or store holds something else, or only half of an environment."""


class EnvironmentFenced(StorageError):
    """This process has been deposed by the others and must stop; its unacknowledged work is undecided."""


class DataDirectoryInUse(StorageError):
    """Another live server has the data directory open, and sharing it is not possible."""


class StorageClosed(Determinate):
    """The object was closed; nothing was done."""


class SnapshotTooOld(StorageError):
    """Too much has committed since a snapshot to tell its running transactions. Take a newer one."""


class AsOfNotReadable(StorageError):
    """The requested CSN is before all that the shard can be read at: its history has been compacted away."""

    earliest: int | None = None
    """The first CSN that it can be read at, where that is known."""


class UnknownShard(StorageError):
    """The shard is not registered in this environment at the CSN asked for."""


class UnknownDatabase(StorageError):
    """There is no such database any more."""


class PartPrevented(StorageError):
    """A promised part's key holds a tombstone: another process decided that the transaction aborts."""


class HoldExpired(StorageError):
    """A read hold's lease ran out without a heartbeat; what it protected may be gone."""


class CatalogConflict(Determinate):
    """The catalog has changed since the snapshot that a definition was worked out from. Read it again, and retry."""


class NotPrepared(Determinate):
    """No transaction is prepared under the name that is the message: it never was, or somebody has ended it."""


class PreparedAlready(Determinate):
    """Another transaction is prepared under the name that is the message."""


# ---------------------------------------------------------------- errors that are raised in several places


def store_closed(store: str) -> StorageClosed:
    return StorageClosed(f"the {store} store is closed")


def unknown_shard(shard: object) -> UnknownShard:
    return UnknownShard(f"shard {shard} is not registered")


def not_readable(shard: object, at: int, since: int) -> AsOfNotReadable:
    error = AsOfNotReadable(f"shard {shard} cannot be read at {at}: its since is {since}")
    error.earliest = since
    return error


def missing_blob(key: str) -> MissingBlob:
    return MissingBlob(f"{key} is not in the blob store")


def missing_part(key: str) -> MissingBlob:
    return missing_blob(f"part {key}")


def wrong_size(what: str, size: int | None, expected: int) -> CorruptPart:
    return CorruptPart(f"{what} has {size} bytes, expected {expected}")


def not_stored(what: str, failure: BaseException) -> Determinate:
    """A file could not be stored, by `failure`; what that says of the store's room is said on."""
    kind = StoreFull if isinstance(failure, StoreFull) else Determinate
    return kind(f"{what}: {failure}")


def part_not_stored(failure: BaseException) -> Determinate:
    return not_stored("a part could not be stored", failure)
