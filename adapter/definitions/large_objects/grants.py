"""GRANT and REVOKE, those ON LARGE OBJECT among them (PostgreSQL 15's ExecGrant_Largeobject)."""

from __future__ import annotations

from msgspec.structs import replace

from adapter.access.granting import Entries
from adapter.definitions.privileges import grants
from adapter.definitions.privileges.targets import Target
from adapter.execution.statement import Running
from adapter.queries.large_objects import metadata
from adapter.queries.large_objects.metadata import KIND, LargeObject
from adapter.queries.large_objects.tables import Tables, tables_for
from planner.statements import records as st
from storage.catalog.model import CatalogSnapshot


async def grant(running: Running, statement: st.Grant) -> None:
    """GRANT and REVOKE of privileges on objects of any kind. Raises as `grants.grant`."""
    if statement.kind != "large object":
        await grants.grant(running, statement)
        return
    grantees, letters = grants.begin(running, statement)
    # Of several that are named all have to be there before one is changed.
    oids = [(await metadata.require(running, int(name.name))).oid for name in statement.objects]
    tables = await tables_for(running)
    for oid in oids:
        large_object = await metadata.require(running, oid)
        target = Target(kind=KIND, oid=oid, owner=large_object.owner, name=f"large object {oid}")
        _LargeObjectGrant(running, statement, target, grantees, large_object, tables).apply(letters, ())


class _LargeObjectGrant(grants.GrantOn):
    """One statement on one large object, whose privileges are in its row."""

    def __init__(
        self,
        running: Running,
        statement: st.Grant,
        target: Target,
        grantees: tuple[int, ...],
        large_object: LargeObject,
        tables: Tables,
    ) -> None:
        super().__init__(running, statement, target, grantees)
        self._large_object = large_object
        self._tables = tables

    def _entries(self, catalog: CatalogSnapshot, subid: int) -> Entries:
        return self._large_object.entries

    def _refusal(self, catalog: CatalogSnapshot, subid: int) -> str:
        return f"permission denied for large object {self._target.name}"

    def _record(self, catalog: CatalogSnapshot, subid: int, before: Entries, after: Entries) -> None:
        known = self._large_object
        if after != before or known.acl is None:
            metadata.change(self._running, self._tables, known, replace(known, acl=after))
