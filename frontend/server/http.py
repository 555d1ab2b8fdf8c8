"""What a server answers over HTTP: `/metrics` for Prometheus, `/healthz` and `/readyz` for who starts and watches it,
and below `/iceberg` the catalog of published tables, which has rules of its own (`iceberg_rest`).

Who comes from the host itself is asked for nothing, and neither is anybody about the server's health. Everybody else
has to show, over TLS, that he knows the password of a role that is a superuser or a member of pg_monitor (HTTP's basic
authentication, RFC 7617), and is slowed down when he guesses, as at the protocol's own door.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from frontend.authentication.login import Authenticator
from frontend.connections.tls import Certificates
from frontend.server.http_access import LoginSource, basic_credentials, client_address
from frontend.server.iceberg_rest import IcebergRest
from planner.errors import SqlError

MONITOR = "pg_monitor"
"""The role whose members may read everything that is counted (PostgreSQL, "Predefined Roles")."""

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="tidegate", charset="UTF-8"'}

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

MAX_HEADER_BYTES = 8190


class HttpServer:
    """See the module's contract. `metrics` gives their text; `is_ready` says whether clients are served."""

    def __init__(
        self,
        *,
        metrics: Callable[[], Awaitable[bytes]],
        is_ready: Callable[[], bool],
        logins: LoginSource,
        authenticator: Authenticator,
        certificates: Certificates | None,
        iceberg: IcebergRest,
    ) -> None:
        self._metrics = metrics
        self._is_ready = is_ready
        self._logins = logins
        self._authenticator = authenticator
        self._certificates = certificates
        application = web.Application(client_max_size=1 << 16)
        application.router.add_get("/metrics", self._show_metrics)
        application.router.add_get("/healthz", self._show_health)
        application.router.add_get("/readyz", self._show_readiness)
        iceberg.add_to(application.router)
        self._runner = web.AppRunner(
            application, access_log=None, max_field_size=MAX_HEADER_BYTES, max_line_size=MAX_HEADER_BYTES
        )

    async def serve_on(self, sockets: Sequence[socket.socket]) -> None:
        """Answer at sockets that listen already."""
        await self._runner.setup()
        context = None if self._certificates is None else self._certificates.http_context()
        for one in sockets:
            await web.SockSite(self._runner, one, ssl_context=context).start()

    async def stop(self) -> None:
        """Answer no more."""
        await self._runner.cleanup()

    async def _show_health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _show_readiness(self, request: web.Request) -> web.Response:
        ready = self._is_ready()
        return web.Response(text="ready\n" if ready else "not ready\n", status=200 if ready else 503)

    async def _show_metrics(self, request: web.Request) -> web.Response:
        refused = await self._refusal(request)
        if refused is not None:
            return refused
        return web.Response(body=await self._metrics(), headers={"Content-Type": CONTENT_TYPE})

    async def _refusal(self, request: web.Request) -> web.Response | None:
        """Why who asks may not know; None when he may."""
        address = client_address(request)
        if address is None or address.is_loopback:
            return None
        if not request.secure:
            return web.Response(text="this needs TLS: start the server with --tls-cert and --tls-key\n", status=403)
        given = basic_credentials(request.headers.get("Authorization", ""))
        if given is None:
            return web.Response(text="who are you?\n", status=401, headers=_CHALLENGE)
        user, password = given
        try:
            login = await self._logins.login(user)
        except SqlError:
            return web.Response(text="the server is about to stop\n", status=503)
        if not await self._authenticator.knows_password(address, login, password):
            return web.Response(text="wrong user or password\n", status=401, headers=_CHALLENGE)
        role = login.role
        if role is None or not role.login or not (role.superuser or login.is_member(user, MONITOR)):
            return web.Response(text=f"only superusers and members of {MONITOR} may read this\n", status=403)
        return None
