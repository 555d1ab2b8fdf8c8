"""Who is a member of which role, and what follows from it (PostgreSQL 15, "Role Membership"; acl.c).

Two questions are kept apart. A role *has the privileges* of another when it may use them at once: it reaches the other
by memberships of roles that inherit, itself included. It *is a member* when it may become the other by SET ROLE,
whether or not roles on the way inherit. A superuser has every role's privileges, and is a member of all. The owner of
a database is, in it, a member of pg_database_owner.

Answers are kept for each `Roles`, which is the same object until a role or a membership changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from adapter.access.roles import predefined_memberships
from storage.catalog.access import Membership, Roles
from storage.catalog.model import DATABASE_OWNER_ROLE_OID, CatalogSnapshot, Database


def is_superuser(catalog: CatalogSnapshot, role: int) -> bool:
    """Whether the role may do everything. A role that is gone may nothing."""
    record = catalog.roles.records.get(role)
    return record is not None and record.superuser


def has_privileges_of(catalog: CatalogSnapshot, role: int, other: int) -> bool:
    """Whether `role` may at once what `other` may (has_privs_of_role)."""
    return role == other or is_superuser(catalog, role) or other in roles_used_by(catalog, role)


def is_member_of(catalog: CatalogSnapshot, role: int, other: int) -> bool:
    """Whether `role` may become `other` (is_member_of_role)."""
    return is_superuser(catalog, role) or is_member_by_grant(catalog, role, other)


def is_member_by_grant(catalog: CatalogSnapshot, role: int, other: int) -> bool:
    """Whether `role` is `other` or a member of it; a superuser is none for that alone (is_member_of_role_nosuper)."""
    return role == other or other in _reached(catalog.roles, role, _database_owner(catalog), inherits=False)


def is_admin_of(catalog: CatalogSnapshot, role: int, other: int) -> bool:
    """Whether `role` may make others members of `other` (is_admin_of_role): it has the ADMIN OPTION, itself or by a
    role that it is a member of. No role administers itself."""
    if is_superuser(catalog, role):
        return True
    if role == other:
        return False
    holders = _reached(catalog.roles, role, _database_owner(catalog), inherits=False) | {role}
    return any(
        membership.role == other and membership.admin_option
        for holder in holders
        for membership in _by_member(catalog.roles).get(holder, ())
    )


def roles_used_by(catalog: CatalogSnapshot, role: int) -> frozenset[int]:
    """The roles whose privileges `role` has by membership, itself left out. A superuser has those of all others too."""
    return _reached(catalog.roles, role, _database_owner(catalog), inherits=True)


def memberships(roles: Roles) -> Sequence[Membership]:
    """Every membership, those of predefined roles first."""
    return (*predefined_memberships(), *roles.memberships.values())


def membership_of(roles: Roles, role: int, member: int) -> Membership | None:
    """The membership of `member` in `role`, or None."""
    return next((each for each in _by_member(roles).get(member, ()) if each.role == role), None)


def _database_owner(catalog: CatalogSnapshot) -> int:
    database = catalog.get(catalog.database)
    return database.owner if isinstance(database, Database) else 0


@lru_cache(maxsize=8)
def _by_member(roles: Roles) -> Mapping[int, Sequence[Membership]]:
    found: dict[int, list[Membership]] = defaultdict(list)
    for membership in memberships(roles):
        found[membership.member].append(membership)
    return dict(found)


@lru_cache(maxsize=4096)
def _reached(roles: Roles, role: int, database_owner: int, *, inherits: bool) -> frozenset[int]:
    """The roles that `role` is a member of, directly or not; with `inherits` only by way of roles that inherit."""
    by_member = _by_member(roles)
    found: set[int] = set()
    open_ends = [role]
    while open_ends:
        member = open_ends.pop()
        record = roles.records.get(member)
        if inherits and record is not None and not record.inherit:
            continue
        above = [membership.role for membership in by_member.get(member, ())]
        if member == database_owner:
            above.append(DATABASE_OWNER_ROLE_OID)
        for each in above:
            if each not in found and each != role:
                found.add(each)
                open_ends.append(each)
    return frozenset(found)
