"""What may be read of the past: what its privileges allowed then and those of today allow as well.

Who looks back is bound with the catalog of then, privileges and policies among it. What was revoked since must not be
had by a date in a statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from adapter.access.privileges import denial, rights_of
from adapter.access.roles import role_name
from adapter.access.row_security import is_subject
from planner.errors import InsufficientPrivilege
from planner.ir.required import Required
from storage.catalog.model import CatalogSnapshot, Relation


def check_access_now(now: CatalogSnapshot, then: CatalogSnapshot, role: int, required: Sequence[Required]) -> None:
    """42501 when `role` may not have today what a statement at `then` requires, and for tables whose rows are hidden
    from it by other policies than then. What was dropped since has the privileges of then."""
    left = [each for each in required if now.get(each.oid) is not None]
    denied = denial(now, role_name(now, role), left)
    if denied is not None:
        raise InsufficientPrivilege(denied)
    for each in left:
        changed = _with_other_policies(now, then, role, each)
        if changed is not None:
            raise InsufficientPrivilege(changed)


def policies_since(now: CatalogSnapshot, user: str, required: Iterable[Required]) -> str | None:
    """What the role called `user` is told that reads tables of the past in a statement of `now`, where other policies
    hide rows of them today; None: there is none such."""
    for each in required:
        if each.then is not None:
            changed = _with_other_policies(now, each.then, rights_of(now, user).role, each)
            if changed is not None:
                return changed
    return None


def _with_other_policies(now: CatalogSnapshot, then: CatalogSnapshot, role: int, each: Required) -> str | None:
    table = now.get(each.oid)
    if not isinstance(table, Relation) or now.policies.of(table.oid) == then.policies.of(table.oid):
        return None
    if is_subject(now, table, role if each.role is None else each.role):
        return f'the row-level security of table "{table.name}" has changed since'
    return None
