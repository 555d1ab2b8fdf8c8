"""What statements ask of a Spark that runs, whether its driver is a JVM of ours or a server of Spark Connect.

Data frames are PySpark's own, of which both kinds have the same methods; what they do not share is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from adapter.engines.common.engine import RecordBatch
from adapter.engines.spark.profiles import Mode


class RunningSpark(Protocol):
    """A Spark that runs. Everything blocks, on a thread of the runtime's."""

    @property
    def alive(self) -> bool:
        """Whether statements may still be given to it."""
        ...

    @property
    def most_relation_bytes(self) -> int:
        """Arrow bytes that `relation` takes."""
        ...

    def session(self, mode: Mode) -> Any:
        """PySpark's session for statements of `mode`. Raises 53400 when there are too many modes."""
        ...

    def enter(self, mode: Mode, group: str, *, pool: str | None, klass: str, limited: bool) -> None:
        """Makes this thread run a statement of `mode`, which `cancel_group` ends by the name `group`; in the
        scheduler's pool that its user has named, or in that of its class. `limited`: what it writes to temporary files
        is watched (`temporary_bytes`). Raises 0A000 for what there is not."""
        ...

    def leave(self) -> None:
        """Ends `enter`; also when Spark is gone."""
        ...

    def define(self, mode: Mode, sql: str) -> None:
        """Defines the functions in Python that `sql` calls, in the session of `mode`."""
        ...

    def frame(self, mode: Mode, sql: str) -> Any:
        """The analysed statement as PySpark's data frame."""
        ...

    def relation(self, mode: Mode, rows: pa.Table, ddl: str) -> Any:
        """A data frame that has `rows` in it, whose columns are named and typed by `ddl`."""
        ...

    def collect(self, frame: Any) -> list[RecordBatch]:
        """The rows of a data frame, in order. Raises ResultTooLarge, or what Spark raises."""
        ...

    def run_tasks(self, mode: Mode, frame: Any, task: Callable[..., Any], answers: str) -> list[RecordBatch]:
        """What the Python function `task` answers of the batches of each partition of `frame`, in columns as the DDL
        `answers` says."""
        ...

    def shown_path(self, location: str) -> str:
        """What the rows of a file say of where it is."""
        ...

    def check_databases(self) -> None:
        """Raises 0A000 where other databases cannot be read."""
        ...

    def temporary_bytes(self, group: str) -> Mapping[int, int]:
        """What the stages of a statement have written to temporary files, as far as it is known."""
        ...

    def cancel_group(self, group: str) -> None:
        """Ends what runs of a statement, and what it would still start."""
        ...

    def give_up_if_broken(self) -> bool:
        """Whether it can run no more statements; the next one starts another."""
        ...
