"""What may be read of the past: what its privileges allowed then and those of today allow as well.

Who looks back is bound with the catalog of then, privileges and policies among it. What was revoked since must not be
had by a date in a statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from adapter.access.privileges import denial
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
        table = now.get(each.oid)
        if not isinstance(table, Relation) or now.policies.of(table.oid) == then.policies.of(table.oid):
            continue
        if is_subject(now, table, role if each.role is None else each.role):
            raise InsufficientPrivilege(f'the row-level security of table "{table.name}" has changed since')
