"""BEGIN, COMMIT, savepoints and transaction characteristics."""

from __future__ import annotations

from typing import Literal as OneOf

from msgspec import Struct


class TransactionModes(Struct, frozen=True, kw_only=True):
    """Transaction characteristics; None means not mentioned. `isolation` is the SQL name in lower case."""

    isolation: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None


class Begin(Struct, frozen=True, kw_only=True):
    """BEGIN or START TRANSACTION (`start` tells which, for the tag)."""

    modes: TransactionModes = TransactionModes()
    start: bool = False


class Commit(Struct, frozen=True, kw_only=True):
    """COMMIT or END; `chain` is AND CHAIN."""

    chain: bool = False


class Rollback(Struct, frozen=True, kw_only=True):
    """ROLLBACK or ABORT; `chain` is AND CHAIN."""

    chain: bool = False


class Savepoint(Struct, frozen=True, kw_only=True):
    name: str


class Release(Struct, frozen=True, kw_only=True):
    name: str


class RollbackTo(Struct, frozen=True, kw_only=True):
    name: str


class PreparedTransaction(Struct, frozen=True, kw_only=True):
    """PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED."""

    action: OneOf["prepare", "commit", "rollback"]
    gid: str


class SetTransaction(Struct, frozen=True, kw_only=True):
    """SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION when `session`."""

    modes: TransactionModes
    session: bool = False
    snapshot: str | None = None
