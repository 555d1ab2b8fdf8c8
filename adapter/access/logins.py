"""What authentication asks of roles, as the newest catalog has them."""

from __future__ import annotations

from msgspec import Struct

from adapter.access.membership import is_member_by_grant
from adapter.access.roles import role_called
from storage.catalog.access import AUTHENTICATION_SECRET_OID, AuthenticationSecret, Role
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, CatalogSnapshot


class Login(Struct, frozen=True, kw_only=True):
    """The role that a client wants to come in as; `role` is None when there is none of that name."""

    user: str
    role: Role | None
    catalog: CatalogSnapshot
    now_us: int
    """Microseconds since 1970."""

    @property
    def verifier(self) -> str | None:
        """What a password is checked against; None without one, or when it is not valid any more."""
        return None if self.role is None or self.is_expired else self.role.password

    @property
    def is_expired(self) -> bool:
        """Whether the password was valid until a moment that is over."""
        until = None if self.role is None else self.role.valid_until_us
        return until is not None and until < self.now_us

    @property
    def is_guarded(self) -> bool:
        """Whether the environment's first superuser has a password."""
        return is_guarded(self.catalog)

    @property
    def secret(self) -> bytes:
        """The environment's secret, from which the salts of those come who have none."""
        record = self.catalog.get(AUTHENTICATION_SECRET_OID)
        assert isinstance(record, AuthenticationSecret)
        return bytes.fromhex(record.value)

    def is_member(self, user: str, role: str) -> bool:
        """Whether one role is the other or a member of it; no superuser is for that alone."""
        member, other = role_called(self.catalog, user), role_called(self.catalog, role)
        return member is not None and other is not None and is_member_by_grant(self.catalog, member.oid, other.oid)


def is_guarded(catalog: CatalogSnapshot) -> bool:
    """Whether the environment's first superuser has a password, or is gone."""
    first = catalog.roles.records.get(BOOTSTRAP_SUPERUSER_OID)
    return first is None or first.password is not None
