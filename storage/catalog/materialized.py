"""What the catalog has of a materialized view besides what every relation has."""

from __future__ import annotations

import msgspec

from storage.ids import ShardId


class Materialized(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a materialized view is kept (`Relation.materialized`). Its rows are in the relation's shard."""

    populated: bool = True
    """False until the first refresh (WITH NO DATA): it cannot be read."""
    refresh: str = "manual"
    """``manual``: by REFRESH alone; ``on commit``: a read always gives what the query would; ``every``: again and
    again."""
    interval_us: int = 0
    """Of ``every``: the pause between two refreshes."""
    parameters: tuple[str, ...] = ()
    """What WITH (...) says, as pg_class.reloptions has it."""
    journal: ShardId
    """A shard of one row: which moment the stored rows are of, and what their last refresh cost."""

    @property
    def is_kept(self) -> bool:
        """Whether the server refreshes it by itself; its rows are then changed in place."""
        return self.refresh != "manual"
