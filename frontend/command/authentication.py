"""What `tidegate serve` makes of its options on authentication: rules, the first password, pg_hba_file_rules.

Light when it is imported: wrong rules are wrong usage, which is said before anything is loaded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontend.authentication.hba import TlsUse
from frontend.authentication.rules import BadRules, RuleBook
from frontend.command.configuration import Configuration

if TYPE_CHECKING:
    from adapter.sessions.server import Server
    from adapter.workers.colleagues import Colleagues
    from frontend.authentication.login import Authenticator
    from frontend.connections.addresses import IpAddress
    from frontend.connections.tls import Certificates


class BadPasswordFile(Exception):
    """The file with the first password cannot be used; the message says why."""


def rule_book(configuration: Configuration) -> RuleBook:
    """The rules by which clients come in. Raises BadRules."""
    tls = TlsUse(offered=configuration.tls_cert is not None, verifies_clients=configuration.tls_client_ca is not None)
    return RuleBook(_path(configuration.hba_file), _path(configuration.ident_file), tls=tls)


def load_certificates(configuration: Configuration) -> Certificates | None:
    """What TLS needs; None without it. Raises BadCertificate."""
    from frontend.connections.tls import Certificates

    if configuration.tls_cert is None or configuration.tls_key is None:
        return None
    client_ca = configuration.tls_client_ca
    return Certificates(
        Path(configuration.tls_cert), Path(configuration.tls_key), None if client_ca is None else Path(client_ca)
    )


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name).absolute()


def shown_settings(configuration: Configuration) -> dict[str, str]:
    """What SHOW says of these options: PostgreSQL's settings."""
    shown = {
        "authentication_timeout": f"{max(1, round(configuration.authentication_timeout_s))}s",
        "hba_file": str(_path(configuration.hba_file) or ""),
        "ident_file": str(_path(configuration.ident_file) or ""),
        "ssl": "off" if configuration.tls_cert is None else "on",
        "ssl_ca_file": configuration.tls_client_ca or "",
        "ssl_cert_file": configuration.tls_cert or "",
        "ssl_key_file": configuration.tls_key or "",
        "unix_socket_directories": str(_path(configuration.unix_socket_dir) or ""),
    }
    if configuration.max_connections is not None:
        shown["max_connections"] = str(configuration.max_connections)
    return shown


def make_authenticator(configuration: Configuration, colleagues: Colleagues) -> Authenticator:
    """What lets clients in; of several workers each knows of the failures that the others see. Raises BadRules."""
    from adapter.workers.messages import AuthenticationFailed
    from frontend.authentication.login import Authenticator

    telling: set[asyncio.Task[Any]] = set()

    def tell(address: IpAddress | None, user: str) -> None:
        if colleagues.mesh is not None:
            seen = AuthenticationFailed(None if address is None else str(address), user)
            task = asyncio.get_running_loop().create_task(colleagues.mesh.ask_all(seen))
            telling.add(task)
            task.add_done_callback(telling.discard)

    return Authenticator(rule_book(configuration), clock=time.monotonic, tell=tell)


async def give_first_password(configuration: Configuration, backend: Server) -> None:
    """Give the first superuser the password of the file, if it has none yet. Raises BadPasswordFile."""
    if configuration.superuser_password_file is None:
        return
    path = Path(configuration.superuser_password_file)
    try:
        text = await asyncio.to_thread(path.read_text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadPasswordFile(f"cannot read the password file {path}: {reason}") from error
    try:
        await backend.give_first_password(text.partition("\n")[0].rstrip("\r"))
    except ValueError as error:
        raise BadPasswordFile(f"the password file {path} gives the superuser no password: {error}") from error


def shown_rules(book: RuleBook, backend: Server, relation: str) -> Sequence[Mapping[str, Any]]:
    """The rows of pg_hba_file_rules or pg_ident_file_mappings: what the file says now. Raises 58030."""
    from planner.errors import IoError

    try:
        if relation == "pg_ident_file_mappings":
            return book.ident_rows()
        return book.hba_rows(guarded=backend.is_guarded)
    except BadRules as error:
        raise IoError(str(error)) from error
