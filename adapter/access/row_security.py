"""Who is subject to the row-level security of a table (PostgreSQL's check_enable_rls)."""

from __future__ import annotations

from collections.abc import Callable

from adapter.access.membership import has_privileges_of
from adapter.access.ownership import owns
from adapter.access.roles import role_with
from planner.errors import InsufficientPrivilege
from storage.catalog.access import PUBLIC, Policy
from storage.catalog.model import CatalogSnapshot, Relation


def policies_for(
    catalog: CatalogSnapshot, current: int, *, enforced: bool
) -> Callable[[Relation, int | None], tuple[Policy, ...] | None] | None:
    """What gives the policies that a role (None: `current`) is subject to on a table; None for no table at all.

    It gives None for a table whose policies do not concern the role, and raises 42501 when they do and are not
    `enforced` (row_security).
    """
    if not catalog.policies.by_table:
        return None

    def policies(table: Relation, role: int | None) -> tuple[Policy, ...] | None:
        who = current if role is None else role
        if not is_subject(catalog, table, who):
            return None
        if not enforced:
            raise affected(catalog, table, who)
        known = catalog.policies.of(table.oid).policies
        return tuple(policy for policy in known if any(_is_for(catalog, who, each) for each in policy.roles))

    return policies


def is_subject(catalog: CatalogSnapshot, table: Relation, role: int) -> bool:
    """Whether policies limit what the role sees and writes of the table."""
    known = catalog.policies.of(table.oid)
    record = role_with(catalog, role)
    if not known.enabled or (record is not None and (record.superuser or record.bypass_rls)):
        return False
    return known.forced or not owns(catalog, role, table)


def _is_for(catalog: CatalogSnapshot, role: int, named: int) -> bool:
    return named == PUBLIC or has_privileges_of(catalog, role, named)


def affected(catalog: CatalogSnapshot, table: Relation, role: int) -> InsufficientPrivilege:
    """42501 with row_security off, for a role whose statement policies would limit."""
    hint = "To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY."
    return InsufficientPrivilege(
        f'query would be affected by row-level security policy for table "{table.name}"',
        hint=hint if owns(catalog, role, table) else None,
    )
