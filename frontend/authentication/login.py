"""Lets clients in: the rule that is a client's, the method that the rule names, and what failing costs.

Errors are PostgreSQL 15's (auth.c), and say no more than it does; why a client was turned away stands in the log. No
secret is logged.
"""

from __future__ import annotations

import asyncio
import pwd
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from adapter.access.logins import Login
from adapter.results import StartupParameters
from frontend.authentication.hba import Rule
from frontend.authentication.host_names import confirmed_name, interfaces
from frontend.authentication.ident import may_come_in
from frontend.authentication.matching import Client, Surroundings, asks_for_host_name, matching_rule
from frontend.authentication.oauth import BadToken, IssuersKeys, bearer_name
from frontend.authentication.passwords import Channel, is_password_of, knows_password
from frontend.authentication.rules import RuleBook
from frontend.authentication.throttle import Throttle
from frontend.connections.addresses import IpAddress
from frontend.connections.tls import PeerCertificate
from planner.errors import InvalidAuthorizationSpecification, InvalidPassword, SqlError

GUESSED = ("scram-sha-256", "md5", "password")
"""The methods whose secrets can be guessed."""

log = structlog.get_logger("frontend")


class Stranger(Channel, Protocol):
    """A client that nobody knows yet."""

    @property
    def address(self) -> IpAddress | None: ...

    @property
    def is_tls(self) -> bool: ...

    @property
    def peer_certificate(self) -> PeerCertificate | None: ...

    @property
    def peer_uid(self) -> int | None: ...


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
        self._keys = IssuersKeys(clock)

    def note_failure(self, address: IpAddress | None, user: str) -> None:
        """Another worker has seen a failure."""
        self._throttle.failed(address, user, self._clock())

    async def authenticate(self, stranger: Stranger, startup: StartupParameters, login: Login) -> None:
        """Return once the client has shown that it may come in as the role that it says.

        Raises fatal SqlErrors (28000, 28P01, 08P01, 0A000), FramingError and ConnectionLost.
        """
        address = stranger.address
        client = Client(address=address, tls=stranger.is_tls, user=startup.user, database=startup.database)
        rule = await self._rule(client, login)
        if rule is None:
            raise InvalidAuthorizationSpecification(
                f"no pg_hba.conf entry for {_described(stranger, startup)}", fatal=True
            )
        if rule.method == "reject":
            raise InvalidAuthorizationSpecification(
                f"pg_hba.conf rejects connection for {_described(stranger, startup)}", fatal=True
            )
        if rule.method == "trust" and rule.option("clientcert") is None:
            return
        if rule.method in GUESSED and self._throttle.is_refused(address, startup.user, self._clock()):
            self._log(stranger, startup, rule, "too many failures")
            raise _failed(rule, startup.user)
        if not await self._has_shown(stranger, startup, login, rule):
            self._log(stranger, startup, rule, _reason(rule, login))
            if rule.method in GUESSED:
                self._tell(address, startup.user)
                await asyncio.sleep(self._throttle.failed(address, startup.user, self._clock()))
            raise _failed(rule, startup.user)
        self._throttle.succeeded(address, startup.user, self._clock())

    async def knows_password(self, address: IpAddress | None, login: Login, password: str) -> bool:
        """Whether who is at `address` knows the role's password, where no rule is asked; guessing is as slow, and ends
        as soon, as at the protocol's own door."""
        if self._throttle.is_refused(address, login.user, self._clock()):
            return False
        if await is_password_of(login, password):
            self._throttle.succeeded(address, login.user, self._clock())
            return True
        self._tell(address, login.user)
        await asyncio.sleep(self._throttle.failed(address, login.user, self._clock()))
        return False

    async def admits_request(self, client: Client, login: Login, password: str | None, *, known: bool = False) -> bool:
        """Whether the rules of a client that comes with a request of HTTP let it in, where it says this password, or is
        `known` by what it was given for one. Only the methods that ask for nothing or for a password can."""
        rule = await self._rule(client, login)
        if rule is None or rule.option("clientcert") is not None:
            return False
        if rule.method == "trust":
            return True
        if rule.method not in GUESSED:
            return False
        if known:
            return login.verifier is not None
        return password is not None and await self.knows_password(client.address, login, password)

    async def _rule(self, client: Client, login: Login) -> Rule | None:
        rules: Sequence[Rule] = self.book.rules(guarded=login.is_guarded)
        name: str | None = None
        if client.address is not None and asks_for_host_name(rules):
            name = await asyncio.to_thread(confirmed_name, client.address)
        around = Surroundings(is_member=login.is_member, host_name=lambda: name, interfaces=interfaces)
        return matching_rule(rules, client, around)

    async def _has_shown(self, stranger: Stranger, startup: StartupParameters, login: Login, rule: Rule) -> bool:
        if rule.method in ("password", "oauth") and stranger.address is not None and not stranger.is_tls:
            raise InvalidAuthorizationSpecification(
                f"{rule.method} authentication requires an encrypted connection",
                hint="Connect with sslmode=require, or let the rule of pg_hba.conf say scram-sha-256.",
                fatal=True,
            )
        if rule.option("clientcert") is not None and stranger.peer_certificate is None:
            raise InvalidAuthorizationSpecification("connection requires a valid client certificate", fatal=True)
        if rule.method in ("cert", "trust"):
            return self._certified(stranger, startup, rule)
        if rule.method == "peer":
            return self._is_peer(stranger, startup, rule)
        if rule.method == "oauth":
            return await self._bears_token(stranger, startup, login, rule)
        plain, md5_allowed = rule.method == "password", rule.method == "md5"
        knows = await knows_password(stranger, login, plain=plain, md5_allowed=md5_allowed)
        return knows and self._certified(stranger, startup, rule)

    def _certified(self, stranger: Stranger, startup: StartupParameters, rule: Rule) -> bool:
        """Whether the client's certificate is the role's, if the rule wants one that is."""
        if rule.option("clientcert") != "verify-full":
            return True
        certificate = stranger.peer_certificate
        assert certificate is not None
        whole = rule.option("clientname") == "DN"
        name = certificate.distinguished_name if whole else certificate.common_name
        return bool(name) and may_come_in(self.book.maps, rule.option("map"), name or "", startup.user)

    async def _bears_token(self, stranger: Stranger, startup: StartupParameters, login: Login, rule: Rule) -> bool:
        """Whether the client's token names who may come in as the role."""
        try:
            name = await bearer_name(stranger, rule, self._keys, login.now_us // 1_000_000)
        except BadToken as error:
            log.info("token refused", client=startup.remote_address, user=startup.user, reason=str(error))
            return False
        if not may_come_in(self.book.maps, rule.option("map"), name, startup.user):
            log.info("token refused", client=startup.remote_address, user=startup.user, reason="it is another's")
            return False
        return self._certified(stranger, startup, rule)

    def _is_peer(self, stranger: Stranger, startup: StartupParameters, rule: Rule) -> bool:
        """Whether the user of this host at the other end of the Unix socket may come in as the role."""
        uid = stranger.peer_uid
        try:
            name = None if uid is None else pwd.getpwuid(uid).pw_name
        except KeyError:
            name = None  # A user that the host does not know.
        return name is not None and may_come_in(self.book.maps, rule.option("map"), name, startup.user)

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


def _reason(rule: Rule, login: Login) -> str:
    """For the log alone."""
    if rule.method == "peer":
        return "the user of this host may not come in as the role"
    if rule.method == "oauth":
        return "the token is no good for the role"
    if rule.method in ("cert", "trust"):
        return "the certificate's name may not come in as the role"
    if login.role is None:
        return "there is no such role"
    if login.role.password is None:
        return "the role has no password"
    if login.is_expired:
        return "the password has expired"
    return "the password does not match" if rule.option("clientcert") is None else "the password or the certificate"


def _failed(rule: Rule, user: str) -> SqlError:
    """PostgreSQL's auth_failed."""
    named = {"peer": "Peer", "cert": "certificate", "trust": '"trust"', "oauth": "OAuth bearer"}.get(rule.method)
    if named is not None:
        return InvalidAuthorizationSpecification(f'{named} authentication failed for user "{user}"', fatal=True)
    return InvalidPassword(f'password authentication failed for user "{user}"', fatal=True)
