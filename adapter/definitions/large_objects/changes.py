"""ALTER LARGE OBJECT, COMMENT ON LARGE OBJECT, and the large objects of roles that go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from msgspec.structs import replace

from adapter.access.granting import with_owner, without_role
from adapter.access.membership import has_privileges_of, is_superuser, roles_used_by
from adapter.definitions.common.catalog_changes import change, named_role, new_oid
from adapter.definitions.common.owners import require_member
from adapter.execution.guards import own_catalog
from adapter.execution.statement import Running
from adapter.queries.large_objects import metadata
from adapter.queries.large_objects.calls import unlink
from adapter.queries.large_objects.metadata import KIND, LargeObject
from adapter.queries.large_objects.tables import tables_for
from planner.errors import InsufficientPrivilege
from planner.statements import records as st
from storage.catalog.acl import AclEntry
from storage.catalog.model import CatalogSnapshot, Comment
from storage.catalog.record import LARGE_OBJECT_COMMENTS


async def alter_owner(running: Running, statement: st.AlterOwner) -> None:
    """ALTER LARGE OBJECT ... OWNER TO. 42704, 42501."""
    large_object, role = await metadata.require(running, int(statement.name)), named_role(running, statement.owner)
    catalog, current = own_catalog(running), running.session.values.identity.current
    if large_object.owner == role.oid:
        return
    if not is_superuser(catalog, current):
        if not has_privileges_of(catalog, current, large_object.owner):
            raise InsufficientPrivilege(f"must be owner of large object {large_object.oid}")
        require_member(running, role)
    await give(running, large_object, role.oid)


async def give(running: Running, large_object: LargeObject, owner: int) -> None:
    """Let `owner` own a large object; nobody is asked."""
    acl = large_object.acl
    after = replace(large_object, owner=owner, acl=None if acl is None else with_owner(acl, large_object.owner, owner))
    metadata.change(running, await tables_for(running), large_object, after)


async def comment(running: Running, statement: st.Comment) -> None:
    """COMMENT ON LARGE OBJECT. 42704, 42501."""
    large_object = await metadata.require(running, int(statement.name))
    metadata.require_owner(running, large_object, compatible=True)
    # Whoever removes it has to meet who comments on it.
    await metadata.begin_to_write(running, large_object.oid)
    known = metadata.comment_on(own_catalog(running), large_object.oid)
    added = []
    if statement.text:
        added.append(
            Comment(
                oid=new_oid(running),
                object_oid=LARGE_OBJECT_COMMENTS + large_object.oid,
                text=statement.text,
                database=running.session.database_oid,
            )
        )
    change(running, removed=[] if known is None else [known], added=added)


# ---------------------------------------------------------------- roles that go


async def reassign(running: Running, roles: Collection[int], owner: int) -> None:
    """Let `owner` own the large objects of `roles`."""
    for each in await metadata.all_of(running):
        if each.owner in roles:
            await give(running, each, owner)


async def drop(running: Running, roles: Collection[int]) -> None:
    """Remove the large objects of `roles`, and what they have been granted and have granted on others."""
    catalog = own_catalog(running)

    def roles_of(role: int) -> frozenset[int]:
        return roles_used_by(catalog, role) | {role}

    for each in await metadata.all_of(running):
        if each.owner in roles:
            await unlink(running, each.oid)
            continue
        acl = each.acl
        for role in roles if acl is not None else ():
            acl = without_role(acl or (), role, each.owner, KIND, roles_of)
        if acl != each.acl:
            metadata.change(running, await tables_for(running), each, replace(each, acl=acl))


async def named(running: Running, role: int) -> list[str]:
    """What keeps `role` from being dropped, as PostgreSQL lists it: large objects that it owns or has privileges on."""
    found = await metadata.all_of(running)
    lines = [f"owner of large object {each.oid}" for each in found if each.owner == role]
    lines += [
        f"privileges for large object {each.oid}"
        for each in found
        if each.owner != role and _names(each.acl or (), role)
    ]
    return lines


async def counted_elsewhere(running: Running, role: int, whole: CatalogSnapshot) -> Counter[int]:
    """How many large objects of each other database `role` owns or has privileges on, by the databases' oids."""
    found = await metadata.all_elsewhere(running, whole)
    return Counter(
        {
            database: count
            for database, each in found.items()
            if (count := sum(one.owner == role or _names(one.acl or (), role) for one in each))
        }
    )


def _names(entries: tuple[AclEntry, ...], role: int) -> bool:
    return any(role in (entry.grantee, entry.grantor) for entry in entries)
