"""Finding roles: those of users, and PostgreSQL's predefined ones, which every environment has unrecorded."""

from __future__ import annotations

from functools import cache

from planner.catalog_data import content as catalog_data
from planner.common_errors import missing_role
from storage.catalog.access import Membership, Role
from storage.catalog.model import CatalogSnapshot


@cache
def predefined() -> dict[int, Role]:
    """The roles ``pg_...`` of PostgreSQL ("Predefined Roles") by oid."""
    data = catalog_data.columns("pg_authid")
    return {
        oid: Role(oid=oid, name=name, login=False)
        for oid, name in zip(data["oid"], data["rolname"], strict=True)
        if name.startswith("pg_")
    }


@cache
def _predefined_by_name() -> dict[str, Role]:
    return {role.name: role for role in predefined().values()}


@cache
def predefined_memberships() -> tuple[Membership, ...]:
    """Which predefined roles are members of others (pg_monitor of those that it is made of). They have no oids."""
    data = catalog_data.columns("pg_auth_members")
    return tuple(
        Membership(oid=0, role=role, member=member, grantor=grantor)
        for role, member, grantor in zip(data["roleid"], data["member"], data["grantor"], strict=True)
    )


def role_with(catalog: CatalogSnapshot, oid: int) -> Role | None:
    """The role with this oid, or None."""
    return catalog.roles.records.get(oid) or predefined().get(oid)


def role_called(catalog: CatalogSnapshot, name: str) -> Role | None:
    """The role of this name, or None."""
    oid = catalog.roles.by_name.get(name)
    return _predefined_by_name().get(name) if oid is None else catalog.roles.records[oid]


def require_role(catalog: CatalogSnapshot, name: str) -> Role:
    """The role of this name. 42704."""
    role = role_called(catalog, name)
    if role is None:
        raise missing_role(name)
    return role


def role_name(catalog: CatalogSnapshot, oid: int) -> str:
    """What the role is called; of one that is gone what PostgreSQL's functions say."""
    role = role_with(catalog, oid)
    return f"unknown (OID={oid})" if role is None else role.name
