"""COPY ... (ON_ERROR ignore): rows with a value that its type does not take are left out, and what is told of them."""

from __future__ import annotations

from collections.abc import Sequence

from adapter.execution.statement import Running
from adapter.results import Notice, SkippedRow
from planner.errors import InvalidTextRepresentation
from planner.statements import records as st


class Skipping:
    """The rows that one COPY into `relation` leaves out."""

    def __init__(self, running: Running, relation: str, options: st.CopyOptions) -> None:
        self._running = running
        self._relation = relation
        self._options = options
        self._count = 0

    def skip(self, rows: Sequence[SkippedRow]) -> None:
        """Count them, and tell of each where that is asked for. 22P02 for more than REJECT_LIMIT."""
        limit = self._options.reject_limit
        for row in rows:
            self._count += 1
            if limit is not None and self._count > limit:
                raise InvalidTextRepresentation(
                    f"skipped more than REJECT_LIMIT ({limit}) rows due to data type incompatibility",
                    where=f'COPY {self._relation}, line {row.line}, column {row.column}: "{row.text}"',
                )
            if self._options.log_verbosity == "verbose":
                self._notice(
                    f"skipping row due to data type incompatibility at line {row.line} for column"
                    f' "{row.column}": "{row.text}"',
                    where=f"COPY {self._relation}",
                )

    def finish(self) -> None:
        """All rows have come."""
        if self._count and self._options.log_verbosity != "silent":
            rows = "1 row was" if self._count == 1 else f"{self._count} rows were"
            self._notice(f"{rows} skipped due to data type incompatibility")

    def _notice(self, message: str, where: str | None = None) -> None:
        self._running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message, where=where))
