"""What a statement must not do where it stands: in a failed transaction, inside or outside of a block.
Each guard raises PostgreSQL's error, or returns."""

from __future__ import annotations

from adapter.execution.statement import Running
from planner.errors import (
    ActiveSqlTransaction,
    InFailedSqlTransaction,
    NoActiveSqlTransaction,
)
from storage.catalog.model import CatalogSnapshot


def own_catalog(running: Running) -> CatalogSnapshot:
    """The catalog as the transaction's statements see it."""
    return running.transaction.catalog


def in_failed_transaction() -> InFailedSqlTransaction:
    """25P02, for whatever is neither the end of a failed block nor a way back into it."""
    return InFailedSqlTransaction("current transaction is aborted, commands ignored until end of transaction block")


def require_block(running: Running, what: str) -> None:
    """25P01 unless inside a block or a query string of several statements (PostgreSQL's RequireTransactionBlock)."""
    if not running.in_block:
        raise NoActiveSqlTransaction(f"{what} can only be used in transaction blocks")


def prevent_in_block(running: Running, what: str) -> None:
    """25001 inside a block or a query string of several statements (PostgreSQL's PreventInTransactionBlock)."""
    if running.in_block:
        raise ActiveSqlTransaction(f"{what} cannot run inside a transaction block")
