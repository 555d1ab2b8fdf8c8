"""Who a session acts as: the roles behind current_user and session_user."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID


@dataclass(frozen=True, slots=True)
class Identity:
    """Oids of roles, so that a role which takes the name of another does not take its sessions."""

    authenticated: int
    """Who logged in: decides on SET SESSION AUTHORIZATION."""
    session: int
    """session_user: decides on SET ROLE."""
    role: int | None = None
    """What SET ROLE has made of it; None for NONE."""
    definer: int | None = None
    """The owner of the SECURITY DEFINER function that runs."""
    outer: int = field(init=False)
    """Who it acts as outside of any such function."""
    current: int = field(init=False)
    """current_user, whose privileges count."""

    def __post_init__(self) -> None:
        outer = self.session if self.role is None else self.role
        object.__setattr__(self, "outer", outer)
        object.__setattr__(self, "current", outer if self.definer is None else self.definer)

    def with_session(self, role: int) -> Identity:
        """After SET SESSION AUTHORIZATION, which ends SET ROLE."""
        return Identity(authenticated=self.authenticated, session=role)

    def with_role(self, role: int | None) -> Identity:
        """After SET ROLE; None: NONE."""
        return replace(self, role=role)

    def within(self, definer: int) -> Identity:
        """Inside a SECURITY DEFINER function of `definer`."""
        return replace(self, definer=definer)


BOOTSTRAP_SUPERUSER = Identity(authenticated=BOOTSTRAP_SUPERUSER_OID, session=BOOTSTRAP_SUPERUSER_OID)
"""The role that every environment has from its start."""
