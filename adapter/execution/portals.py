"""The portals of a session: statements that were bound and wait to be executed, and cursors.

SQL cursors and protocol portals share one namespace. Portals end with their transaction, except cursors WITH HOLD once
their transaction has committed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct, field

from adapter.execution.cursors import KnownRow, PortalCursor, RowReader
from adapter.plans.plan_cache import Plan
from adapter.results import ColumnDescription
from planner.ir.nodes import Literal
from planner.syntax.parse import Parsed
from storage.timestamps.csn import Csn


class Portal(Struct, kw_only=True):
    """A bound statement on its way, or a cursor (`cursor` set).

    `rows` is set once a statement that returns rows has begun; `finished` once a statement has run to its end.
    `depth` is the number of savepoints around its creation.
    """

    name: str
    text: str
    parsed: Parsed | None
    plan: Plan | None
    params: tuple[Literal, ...]
    columns: tuple[ColumnDescription, ...] | None
    result_formats: tuple[int, ...]
    created_at: datetime
    depth: int = 0
    rows: RowReader | None = None
    tag: Callable[[int], str] | None = None
    finished: bool = False
    failed: bool = False
    cursor: PortalCursor | None = None
    scroll: bool = False
    binary: bool = False
    hold: bool = False
    held: bool = False
    known_rows: tuple[KnownRow, ...] = ()
    """The rows that a cursor knows it is on."""
    csn: Csn | None = None
    """The snapshot that a cursor reads."""

    async def close(self) -> None:
        """Free what the portal keeps."""
        if self.rows is not None:
            await self.rows.close()
            self.rows = None
        if self.cursor is not None:
            await self.cursor.close()


class PortalTable(Struct):
    """The portals of a session. `by_name` is looked up, and changed by the methods alone."""

    by_name: dict[str, Portal] = field(default_factory=dict)

    async def put(self, portal: Portal) -> None:
        """Add `portal`, replacing one of its name (the unnamed one, by rule)."""
        await self.drop(portal.name)
        self.by_name[portal.name] = portal

    async def drop(self, name: str) -> None:
        """Close the portal called `name`, if there is one."""
        portal = self.by_name.pop(name, None)
        if portal is not None:
            await portal.close()

    async def drop_all(self, *, keep_held: bool) -> None:
        """Close all portals; with `keep_held` those that outlive transactions stay."""
        for name in [name for name, portal in self.by_name.items() if not (keep_held and portal.held)]:
            await self.drop(name)

    async def drop_deeper(self, depth: int) -> None:
        """Close the portals made inside savepoints that are rolled back."""
        for name in [name for name, portal in self.by_name.items() if portal.depth >= depth and not portal.held]:
            await self.drop(name)

    def on_rows_of(self, relation_oid: int) -> bool:
        """Whether a cursor may be on a row of this table."""
        return any(row.relation_oid == relation_oid for portal in self.by_name.values() for row in portal.known_rows)

    def to_hold(self) -> list[Portal]:
        """The cursors WITH HOLD that the transaction's commit must preserve."""
        return [portal for portal in self.by_name.values() if portal.hold and not portal.held]
