"""Privileges on what is built in: each database has its own."""

from __future__ import annotations

from collections.abc import Iterable

from adapter.execution.statement import Running
from storage.catalog.model import FIRST_USER_OID
from storage.catalog.record import BUILTIN_ACLS_FORMAT


async def allow_privileges_on(running: Running, oids: Iterable[int], database: int) -> None:
    """Raises 55000 where one of the objects `oids` is built in and has privileges in another database than `database`
    already, as long as servers may be at work that know of one database's alone."""
    known = running.services.catalog().acls.by_object
    builtin = [acl for oid in oids if oid < FIRST_USER_OID for acl in known.get(oid, ())]
    if any(acl.database != database and not acl.is_shared for acl in builtin):
        await running.services.env.formats.require(BUILTIN_ACLS_FORMAT)
