"""What a statement must not do where it stands: in a failed or read-only transaction, inside or outside of a block,
after the first query. Each guard raises PostgreSQL's error, or returns."""

from __future__ import annotations

from adapter.execution.statement import Running
from adapter.transactions.transaction import Isolation, Transaction
from planner.errors import (
    ActiveSqlTransaction,
    InFailedSqlTransaction,
    InternalError,
    NoActiveSqlTransaction,
    ReadOnlySqlTransaction,
)
from storage.catalog.model import CatalogSnapshot


def own_catalog(running: Running) -> CatalogSnapshot:
    """The catalog as the transaction's statements see it."""
    catalog = running.transaction.catalog
    if catalog is None:
        raise InternalError("a definition changes without a snapshot")
    return catalog


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


def set_isolation(transaction: Transaction, name: str) -> None:
    """The isolation level by SQL name. 25001 after the first query."""
    isolation = Isolation(name)
    if isolation is transaction.isolation:
        return
    if transaction.snapshot is not None:
        raise ActiveSqlTransaction("SET TRANSACTION ISOLATION LEVEL must be called before any query")
    if transaction.savepoint_depth:
        raise ActiveSqlTransaction("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
    transaction.isolation = isolation


def set_read_only(transaction: Transaction, read_only: bool) -> None:
    """READ ONLY or READ WRITE. READ WRITE only before any query."""
    if not read_only and transaction.read_only:
        if transaction.savepoint_depth:
            raise ActiveSqlTransaction("cannot set transaction read-write mode inside a read-only transaction")
        if transaction.snapshot is not None:
            raise ActiveSqlTransaction("transaction read-write mode must be set before any query")
    transaction.read_only = read_only


def check_writable(running: Running, command: str) -> None:
    """25006 in a read-only transaction."""
    if running.transaction.read_only:
        raise ReadOnlySqlTransaction(f"cannot execute {command} in a read-only transaction")
