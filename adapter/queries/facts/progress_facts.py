"""How far long statements are, as rows of pg_stat_progress_copy and pg_stat_progress_cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from adapter.execution.session_registry import Backend

BLOCK_BYTES = 8192
"""PostgreSQL's BLCKSZ, by which the views count."""


def copy_row(backend: Backend) -> Mapping[str, Any] | None:
    """A row of pg_stat_progress_copy; None of a session that runs no COPY."""
    progress = backend.state.copying
    if progress is None or not _is_of_now(progress.started_at, backend):
        return None
    return {
        **_who(backend),
        "relid": progress.relation,
        "command": progress.command,
        "type": progress.type,
        "bytes_processed": progress.bytes_processed,
        "bytes_total": progress.bytes_total,
        "tuples_processed": progress.tuples_processed,
        "tuples_excluded": progress.tuples_excluded,
    }


def cluster_row(backend: Backend) -> Mapping[str, Any] | None:
    """A row of pg_stat_progress_cluster; None of a session that runs no VACUUM (FULL), which is what it tells of here.
    Blocks are of the files that are to be rewritten, tuples are the rows of groups of them that were read, and that
    were written and swapped."""
    progress = backend.state.rewriting
    if progress is None or not _is_of_now(progress.started_at, backend):
        return None
    return {
        **_who(backend),
        "relid": progress.relation,
        "command": "VACUUM FULL",
        "phase": progress.phase,
        "cluster_index_relid": 0,
        "heap_tuples_scanned": progress.rows_read,
        "heap_tuples_written": progress.rows_written,
        "heap_blks_total": -(-progress.bytes_total // BLOCK_BYTES),
        "heap_blks_scanned": -(-progress.bytes_read // BLOCK_BYTES),
        "index_rebuild_count": 0,
    }


PROGRESS: Mapping[str, Callable[[Backend], Mapping[str, Any] | None]] = {
    "pg_stat_progress_copy": copy_row,
    "pg_stat_progress_cluster": cluster_row,
}
"""By system relation: what one session contributes to it."""


def _is_of_now(started_at: datetime | None, backend: Backend) -> bool:
    """Whether it began with the statement that the session runs."""
    return started_at is not None and started_at == backend.statement_began_at


def _who(backend: Backend) -> Mapping[str, Any]:
    session = backend.state
    return {
        "pid": session.backend_pid,
        "datid": session.database_oid,
        "datname": session.database,
        "usesysid": session.values.identity.current,
    }
