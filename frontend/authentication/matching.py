"""Which rule of pg_hba.conf is a client's: the first whose type, address, database and role are (hba.c, check_hba).

Pure: what it asks of the network (names of hosts, the server's interfaces) and of roles it is given as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from frontend.authentication.hba import Address, Network, Rule
from frontend.authentication.tokens import Field
from frontend.connections.addresses import IpAddress


class Client(Struct, frozen=True, kw_only=True):
    """Who asks to come in. `address` is None on a Unix socket."""

    address: IpAddress | None
    tls: bool
    user: str
    database: str
    replication: bool = False


class Surroundings(Struct, frozen=True, kw_only=True):
    """What rules refer to. `is_member` takes a role's name and another's; `host_name` gives the client's confirmed
    name, None without; `interfaces` are the networks of the server's own addresses, each with that address."""

    is_member: Callable[[str, str], bool]
    host_name: Callable[[], str | None]
    interfaces: Callable[[], Sequence[tuple[IpAddress, Network]]]


def asks_for_host_name(rules: Sequence[Rule]) -> bool:
    """Whether a rule names a host."""
    return any(rule.address is not None and rule.address.kind == "hostname" for rule in rules)


def matching_rule(rules: Sequence[Rule], client: Client, around: Surroundings) -> Rule | None:
    """The first rule that is for the client."""
    for rule in rules:
        if (
            _is_connection(rule, client)
            and (rule.address is None or _is_address(rule.address, client, around))
            and _is_database(rule.databases, client, around)
            and _is_role(rule.roles, client, around)
        ):
            return rule
    return None


def _is_connection(rule: Rule, client: Client) -> bool:
    if client.address is None or rule.type == "local":
        return client.address is None and rule.type == "local"
    if rule.type == "hostgssenc":
        return False
    return client.tls if rule.type == "hostssl" else not client.tls if rule.type == "hostnossl" else True


def _is_address(address: Address, client: Client, around: Surroundings) -> bool:
    assert client.address is not None
    match address.kind:
        case "all":
            return True
        case "samehost":
            return any(own == client.address for own, _ in around.interfaces())
        case "samenet":
            return any(network.covers(client.address) for _, network in around.interfaces())
        case "hostname":
            name = (around.host_name() or "").lower()
            wanted = address.name.lower()
            return bool(name) and (name.endswith(wanted) if wanted.startswith(".") else name == wanted)
        case _:
            assert address.network is not None
            return address.network.covers(client.address)


def _is_database(databases: Field, client: Client, around: Surroundings) -> bool:
    for token in databases:
        if client.replication:
            if token.is_keyword("replication"):
                return True
        elif token.is_keyword("all"):
            return True
        elif token.is_keyword("sameuser"):
            if client.database == client.user:
                return True
        elif token.is_keyword("samegroup") or token.is_keyword("samerole"):
            if around.is_member(client.user, client.database):
                return True
        elif not token.is_keyword("replication") and token.text == client.database:
            return True
    return False


def _is_role(roles: Field, client: Client, around: Surroundings) -> bool:
    for token in roles:
        if not token.quoted and token.text.startswith("+"):
            if around.is_member(client.user, token.text[1:]):
                return True
        elif token.text == client.user or token.is_keyword("all"):
            return True
    return False
