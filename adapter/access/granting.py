"""What GRANT and REVOKE make of an object's privileges (PostgreSQL 15's aclupdate, recursive_revoke, aclnewowner and
select_best_grantor). Pure: entries in, entries out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from adapter.access.acls import held, in_order
from planner.errors import DependentObjectsStillExist, InvalidGrantOperation
from storage.catalog.acl import PUBLIC, AclEntry

Entries = tuple[AclEntry, ...]
RolesOf = Callable[[int], frozenset[int]]
"""A role with those whose privileges it has."""


class Change(Struct, frozen=True, kw_only=True):
    """What one GRANT or REVOKE does: `letters` to (or from) each of `grantees`. `options`: WITH GRANT OPTION, GRANT
    OPTION FOR. `kind` is that of the object."""

    grant: bool
    grantees: tuple[int, ...]
    letters: str
    options: bool
    cascade: bool
    kind: str


def changed(entries: Entries, change: Change, grantor: int, owner: int, roles_of: RolesOf) -> Entries:
    """`entries` of an object of `owner` after `grantor` has granted or revoked something. 0LP01, 2BP01."""
    for grantee in change.grantees:
        if change.grant and change.options and grantee == PUBLIC:
            raise InvalidGrantOperation("grant options can only be granted to roles")
        letters = "" if not change.grant and change.options else change.letters
        options = change.letters if change.options or not change.grant else ""
        item = AclEntry(grantee=grantee, grantor=grantor, privileges=letters, grantable=options)
        if change.grant:
            if options:
                _check_circle(entries, item, owner, change.kind, roles_of)
            entries = _added(entries, item)
        else:
            entries = _without(entries, item, owner, change.kind, roles_of, cascade=change.cascade)
    return entries


def _place(entries: Sequence[AclEntry], item: AclEntry) -> int | None:
    for place, entry in enumerate(entries):
        if entry.grantee == item.grantee and entry.grantor == item.grantor:
            return place
    return None


def _added(entries: Entries, item: AclEntry) -> Entries:
    if not item.privileges and not item.grantable:
        return entries
    place = _place(entries, item)
    if place is None:
        return (*entries, item)
    known = entries[place]
    both = replace(
        known,
        privileges=in_order(known.privileges + item.privileges),
        grantable=in_order(known.grantable + item.grantable),
    )
    return (*entries[:place], both, *entries[place + 1 :])


def _less(letters: str, gone: Iterable[str]) -> str:
    return in_order(set(letters) - set(gone))


def _without(entries: Entries, item: AclEntry, owner: int, kind: str, roles_of: RolesOf, *, cascade: bool) -> Entries:
    place = _place(entries, item)
    if place is None:
        return entries
    known = entries[place]
    left = replace(
        known,
        privileges=_less(known.privileges, item.privileges),
        grantable=_less(known.grantable, item.grantable),
    )
    kept = (left,) if left.privileges or left.grantable else ()
    entries = (*entries[:place], *kept, *entries[place + 1 :])
    lost = set(known.grantable) - set(left.grantable)
    if lost and item.grantee != PUBLIC:
        entries = _abandoned(entries, item.grantee, lost, owner, kind, roles_of, cascade=cascade)
    return entries


def _abandoned(
    entries: Entries, grantee: int, lost: set[str], owner: int, kind: str, roles_of: RolesOf, *, cascade: bool
) -> Entries:
    """`entries` without what `grantee` had granted by options that are lost. 2BP01 unless with CASCADE."""
    if grantee == owner:
        return entries
    lost = lost - held(entries, roles_of(grantee), owner, kind, grant_options=True)
    while True:
        dependent = next((e for e in entries if e.grantor == grantee and lost & set(e.privileges)), None)
        if dependent is None:
            return entries
        if not cascade:
            raise DependentObjectsStillExist("dependent privileges exist", hint="Use CASCADE to revoke them too.")
        item = replace(dependent, privileges=in_order(lost), grantable=in_order(lost))
        entries = _without(entries, item, owner, kind, roles_of, cascade=True)


def _check_circle(entries: Entries, item: AclEntry, owner: int, kind: str, roles_of: RolesOf) -> None:
    """0LP01 when the grantor has its grant options from the grantee."""
    if item.grantor == owner:
        return
    # As if the grantee had none: what the grantor still may grant, it may without it.
    without = entries
    while True:
        options = next((e for e in without if e.grantee == item.grantee and e.grantable), None)
        if options is None:
            break
        gone = replace(options, privileges="", grantable=options.grantable)
        without = _without(without, gone, owner, kind, roles_of, cascade=True)
    own = held(without, frozenset({item.grantor}), owner, kind, grant_options=True)
    if not set(item.grantable) <= own:
        raise InvalidGrantOperation("grant options cannot be granted back to your own grantor")


def without_role(entries: Entries, role: int, owner: int, kind: str, roles_of: RolesOf) -> Entries:
    """`entries` without what `role` has been granted, what it has granted, and what others granted by its options."""
    while True:
        known = next((entry for entry in entries if role in (entry.grantee, entry.grantor)), None)
        if known is None:
            return entries
        gone = replace(known, grantable=known.privileges)
        entries = _without(entries, gone, owner, kind, roles_of, cascade=True)


def with_owner(entries: Entries, old: int, new: int) -> Entries:
    """`entries` of an object that has a new owner, who gets what the old one had and gave."""
    found: Entries = ()
    for entry in entries:
        grantee = new if entry.grantee == old else entry.grantee
        grantor = new if entry.grantor == old else entry.grantor
        found = _added(found, replace(entry, grantee=grantee, grantor=grantor))
    return found


def best_grantor(
    entries: Entries, role: int, roles: Sequence[int], owner: int, letters: str, *, acts_as_owner: bool
) -> tuple[int, str]:
    """Who grants `letters`, and which of them it may grant: the owner where `role` acts as it, else that of `roles`
    (`role` first, then those whose privileges it has) which may grant the most."""
    if acts_as_owner:
        return owner, letters
    best, most = role, ""
    for each in roles:
        own = {letter for entry in entries if entry.grantee == each for letter in entry.grantable if letter in letters}
        if len(own) > len(most):
            best, most = each, in_order(own)
    return best, most
