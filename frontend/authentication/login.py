"""Lets clients in: the rule that is a client's, the method that the rule names, and what failing costs.

Errors are PostgreSQL 15's (auth.c), and say no more than it does; why a client was turned away stands in the log. No
secret is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from adapter.access.logins import Login
from adapter.results import StartupParameters
from frontend.authentication.hba import Rule
from frontend.authentication.host_names import confirmed_name, interfaces
from frontend.authentication.matching import Client, Surroundings, asks_for_host_name, matching_rule
from frontend.authentication.passwords import Channel, knows_password
from frontend.authentication.rules import RuleBook
from frontend.authentication.throttle import Throttle
from frontend.connections.addresses import IpAddress
from planner.errors import InvalidAuthorizationSpecification, InvalidPassword, SqlError

log = structlog.get_logger("frontend")


class Stranger(Channel, Protocol):
    """A client that nobody knows yet."""

    @property
    def address(self) -> IpAddress | None: ...

    @property
    def is_tls(self) -> bool: ...


class Authenticator:
    """See the module's contract. `clock` gives seconds; `tell` lets the other workers know of a failure."""

    def __init__(
        self,
        book: RuleBook,
        *,
        clock: Callable[[], float],
        tell: Callable[[IpAddress | None, str], None] = lambda address, user: None,
    ) -> None:
        self.book = book
        self._clock = clock
        self._tell = tell
        self._throttle = Throttle()

    def note_failure(self, address: IpAddress | None, user: str) -> None:
        """Another worker has seen a failure."""
        self._throttle.failed(address, user, self._clock())

    async def authenticate(self, stranger: Stranger, startup: StartupParameters, login: Login) -> None:
        """Return once the client has shown that it may come in as the role that it says.

        Raises fatal SqlErrors (28000, 28P01, 08P01, 0A000), FramingError and ConnectionLost.
        """
        address = stranger.address
        rule = await self._rule(stranger, startup, login)
        if rule is None:
            raise InvalidAuthorizationSpecification(
                f"no pg_hba.conf entry for {_described(stranger, startup)}", fatal=True
            )
        if rule.method == "reject":
            raise InvalidAuthorizationSpecification(
                f"pg_hba.conf rejects connection for {_described(stranger, startup)}", fatal=True
            )
        if rule.method == "trust":
            return
        if self._throttle.is_refused(address, startup.user, self._clock()):
            self._log(stranger, startup, rule, "too many failures")
            raise _failed(rule, startup.user)
        if not await self._has_shown(stranger, startup, login, rule):
            self._tell(address, startup.user)
            delay = self._throttle.failed(address, startup.user, self._clock())
            self._log(stranger, startup, rule, _reason(login))
            await asyncio.sleep(delay)
            raise _failed(rule, startup.user)
        self._throttle.succeeded(address, startup.user, self._clock())

    async def _rule(self, stranger: Stranger, startup: StartupParameters, login: Login) -> Rule | None:
        rules: Sequence[Rule] = self.book.rules(guarded=login.is_guarded)
        address = stranger.address
        name: str | None = None
        if address is not None and asks_for_host_name(rules):
            name = await asyncio.to_thread(confirmed_name, address)
        client = Client(address=address, tls=stranger.is_tls, user=startup.user, database=startup.database)
        around = Surroundings(is_member=login.is_member, host_name=lambda: name, interfaces=interfaces)
        return matching_rule(rules, client, around)

    async def _has_shown(self, stranger: Stranger, startup: StartupParameters, login: Login, rule: Rule) -> bool:
        if rule.method == "password" and stranger.address is not None and not stranger.is_tls:
            raise InvalidAuthorizationSpecification(
                "password authentication requires an encrypted connection",
                hint="Connect with sslmode=require, or let the rule of pg_hba.conf say scram-sha-256.",
                fatal=True,
            )
        return await knows_password(stranger, login, plain=rule.method == "password", md5_allowed=rule.method == "md5")

    def _log(self, stranger: Stranger, startup: StartupParameters, rule: Rule, reason: str) -> None:
        log.warning(
            "authentication failed",
            user=startup.user,
            database=startup.database,
            client=startup.remote_address or "[local]",
            method=rule.method,
            rule=rule.line,
            reason=reason,
        )


def _described(stranger: Stranger, startup: StartupParameters) -> str:
    host = "[local]" if stranger.address is None else str(stranger.address)
    encryption = "SSL encryption" if stranger.is_tls else "no encryption"
    return f'host "{host}", user "{startup.user}", database "{startup.database}", {encryption}'


def _reason(login: Login) -> str:
    """For the log alone."""
    if login.role is None:
        return "there is no such role"
    if login.role.password is None:
        return "the role has no password"
    return "the password has expired" if login.is_expired else "the password does not match"


def _failed(rule: Rule, user: str) -> SqlError:
    """PostgreSQL's auth_failed."""
    return InvalidPassword(f'password authentication failed for user "{user}"', fatal=True)
