"""Who is a member of which role, and what a session may act as."""

from __future__ import annotations

import pytest

from adapter.access.membership import (
    has_privileges_of,
    is_admin_of,
    is_member_by_grant,
    is_member_of,
    is_superuser,
    roles_used_by,
)
from storage.catalog.access import Membership, Role
from storage.catalog.model import DATABASE_OWNER_ROLE_OID, POSTGRES_DATABASE_OID, CatalogSnapshot, CatalogUpdate
from storage.catalog.standard_objects import bootstrap_updates
from storage.timestamps.csn import Csn

PG_MONITOR, PG_READ_ALL_STATS = 3373, 3375
ANN, BEN, CLERKS, AUDITORS, LOOSE = 16400, 16401, 16402, 16403, 16404


@pytest.fixture
def catalog() -> CatalogSnapshot:
    """ann -> clerks (admin option) -> auditors -> pg_monitor; loose, which does not inherit, -> clerks."""
    records = (
        Role(oid=ANN, name="ann"),
        Role(oid=BEN, name="ben"),
        Role(oid=CLERKS, name="clerks"),
        Role(oid=AUDITORS, name="auditors"),
        Role(oid=LOOSE, name="loose", inherit=False),
        Membership(oid=16410, role=CLERKS, member=ANN, grantor=10, admin_option=True),
        Membership(oid=16411, role=AUDITORS, member=CLERKS, grantor=10),
        Membership(oid=16412, role=PG_MONITOR, member=AUDITORS, grantor=10),
        Membership(oid=16413, role=CLERKS, member=LOOSE, grantor=10),
    )
    added = (CatalogUpdate(record=record, diff=1) for record in records)
    whole = CatalogSnapshot.empty().apply([*bootstrap_updates(), *added], Csn(1))
    return whole.databases[POSTGRES_DATABASE_OID]


def test_memberships_reach_on(catalog: CatalogSnapshot) -> None:
    assert {CLERKS, AUDITORS, PG_MONITOR, PG_READ_ALL_STATS} <= roles_used_by(catalog, ANN)
    assert has_privileges_of(catalog, ANN, PG_READ_ALL_STATS)
    assert not has_privileges_of(catalog, AUDITORS, ANN)
    assert not has_privileges_of(catalog, BEN, CLERKS)


def test_who_does_not_inherit_is_a_member_without_privileges(catalog: CatalogSnapshot) -> None:
    assert is_member_of(catalog, LOOSE, AUDITORS)
    assert not has_privileges_of(catalog, LOOSE, CLERKS)
    assert has_privileges_of(catalog, LOOSE, LOOSE)


def test_superusers_are_members_of_all_but_not_by_grant(catalog: CatalogSnapshot) -> None:
    assert is_superuser(catalog, 10)
    assert is_member_of(catalog, 10, ANN)
    assert has_privileges_of(catalog, 10, ANN)
    assert is_admin_of(catalog, 10, ANN)
    assert not is_member_by_grant(catalog, 10, ANN)


def test_the_admin_option_comes_from_the_last_step(catalog: CatalogSnapshot) -> None:
    assert is_admin_of(catalog, ANN, CLERKS)
    assert not is_admin_of(catalog, ANN, AUDITORS)
    assert not is_admin_of(catalog, LOOSE, CLERKS)
    assert not is_admin_of(catalog, ANN, ANN)


def test_the_owner_of_the_database_is_a_member_of_pg_database_owner(catalog: CatalogSnapshot) -> None:
    assert is_member_by_grant(catalog, 10, DATABASE_OWNER_ROLE_OID)
    assert not is_member_of(catalog, ANN, DATABASE_OWNER_ROLE_OID)


def test_a_role_that_is_gone_may_nothing(catalog: CatalogSnapshot) -> None:
    assert not is_superuser(catalog, 99_999)
    assert not has_privileges_of(catalog, 99_999, ANN)


def test_other_changes_leave_the_roles_as_they_are(catalog: CatalogSnapshot) -> None:
    assert catalog.apply((), Csn(2)).roles is catalog.roles
