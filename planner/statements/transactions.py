"""BEGIN, COMMIT, savepoints and transaction characteristics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionModes:
    """Transaction characteristics; None means not mentioned. `isolation` is the SQL name in lower case."""

    isolation: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """BEGIN or START TRANSACTION (`start` tells which, for the tag)."""

    modes: TransactionModes = TransactionModes()
    start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """COMMIT or END; `chain` is AND CHAIN."""

    chain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """ROLLBACK or ABORT; `chain` is AND CHAIN."""

    chain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackTo:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTransaction:
    """PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED."""

    action: OneOf["prepare", "commit", "rollback"]
    gid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction:
    """SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION when `session`."""

    modes: TransactionModes
    session: bool = False
    snapshot: str | None = None
