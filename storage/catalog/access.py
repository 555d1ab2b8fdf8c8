"""Roles, who is a member of which, and row-level security: catalog records, and what every snapshot knows by them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from immutables import Map
from msgspec import Struct
from msgspec.structs import replace

from storage.catalog.record import Record


class Role(Record, frozen=True, kw_only=True, tag="role"):
    """A role, as pg_authid has it. What a record of an earlier version lacks has the default."""

    name: str
    superuser: bool = False
    login: bool = True
    create_db: bool = False
    create_role: bool = False
    inherit: bool = True
    """Whether it may do without SET ROLE what the roles may that it is a member of."""
    replication: bool = False
    bypass_rls: bool = False
    password: str | None = None
    """SCRAM or md5 verifier as PostgreSQL stores it, never clear text."""
    connection_limit: int = -1
    """How many sessions it may have at once; -1: as many as it likes."""
    valid_until_us: int | None = None
    """Until when the password counts, microseconds since 1970; `FOREVER_US` for 'infinity'."""


AUTHENTICATION_SECRET_OID = 9000
FOREVER_US = 2**63 - 1


class AuthenticationSecret(Record, frozen=True, kw_only=True, tag="authentication_secret"):
    """What salts are made of for roles that have none: 32 random bytes in hexadecimal, one record for all servers."""

    value: str


class Membership(Record, frozen=True, kw_only=True, tag="membership"):
    """`member` is a member of `role` (a row of pg_auth_members)."""

    role: int
    member: int
    grantor: int
    admin_option: bool = False
    """Whether the member may make others members."""


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """The roles of a catalog and their memberships. Immutable, and the same object until one of them changes, so that
    what follows from it can be kept by its identity."""

    records: Map[int, Role] = field(default_factory=Map)
    by_name: Map[str, int] = field(default_factory=Map)
    memberships: Map[int, Membership] = field(default_factory=Map)
    """By oid."""

    def changed(self, updates: Iterable[tuple[Any, int]]) -> Roles:
        """After `updates`, pairs of a record and -1 or +1, retractions first; others than roles and memberships do not
        matter. Raises ValueError when two roles would have one name."""
        records, by_name, memberships = self.records, self.by_name, self.memberships
        for record, diff in updates:
            if isinstance(record, Role):
                if diff == -1:
                    records, by_name = records.delete(record.oid), by_name.delete(record.name)
                    continue
                if record.name in by_name:
                    raise ValueError(f"role {record.name!r} exists")
                records, by_name = records.set(record.oid, record), by_name.set(record.name, record.oid)
            elif isinstance(record, Membership):
                memberships = memberships.delete(record.oid) if diff == -1 else memberships.set(record.oid, record)
        if records is self.records and memberships is self.memberships:
            return self
        return Roles(records, by_name, memberships)


# ---------------------------------------------------------------- row-level security

PUBLIC = 0
"""In place of a role: everybody."""

ALL_COMMANDS = "*"


class RowSecurity(Record, frozen=True, kw_only=True, tag="row_security"):
    """That a table has row-level security, or FORCE for its owner. A table without a record has neither."""

    relation: int
    enabled: bool = False
    forced: bool = False
    database: int


class Policy(Record, frozen=True, kw_only=True, tag="policy"):
    """A policy of a table (a row of pg_policy)."""

    name: str
    relation: int
    command: str
    """As pg_policy.polcmd: ``r`` SELECT, ``a`` INSERT, ``w`` UPDATE, ``d`` DELETE, ``*`` all of them."""
    permissive: bool = True
    roles: tuple[int, ...] = (PUBLIC,)
    using: str | None = None
    """The condition on rows that are there: the text of an expression over a row of the table."""
    check: str | None = None
    """The condition on rows that are written; without one, `using`."""
    columns: tuple[int, ...] = ()
    """The attnums of the table's columns that the conditions name."""
    depends_on: tuple[int, ...] = ()
    """The oids of the relations and functions that they name."""
    database: int


class SecuredTable(Struct, frozen=True, kw_only=True):
    """What is known of one table. `policies` are in the order of their names."""

    enabled: bool = False
    forced: bool = False
    policies: tuple[Policy, ...] = ()


_NOTHING = SecuredTable()


@dataclass(frozen=True, slots=True, eq=False)
class Policies:
    """The row-level security of a catalog. Immutable, and the same object until it changes."""

    by_table: Map[int, SecuredTable] = field(default_factory=Map)

    def of(self, relation: int) -> SecuredTable:
        """What the table with this oid has."""
        return self.by_table.get(relation, _NOTHING)

    def changed(self, updates: Iterable[tuple[Any, int]]) -> Policies:
        """After `updates`, pairs of a record and -1 or +1, retractions first; other records do not matter. Raises
        ValueError when a table would have two policies of one name."""
        by_table = self.by_table
        for record, diff in updates:
            if not isinstance(record, (RowSecurity, Policy)):
                continue
            known = by_table.get(record.relation, _NOTHING)
            if isinstance(record, RowSecurity):
                now = replace(known, enabled=diff == 1 and record.enabled, forced=diff == 1 and record.forced)
            else:
                rest = [policy for policy in known.policies if policy.oid != record.oid]
                if diff == 1:
                    if any(policy.name == record.name for policy in rest):
                        raise ValueError(f"policy {record.name!r} exists on relation {record.relation}")
                    rest.append(record)
                now = replace(known, policies=tuple(sorted(rest, key=lambda policy: policy.name)))
            by_table = by_table.delete(record.relation) if now == _NOTHING else by_table.set(record.relation, now)
        return self if by_table is self.by_table else Policies(by_table)
