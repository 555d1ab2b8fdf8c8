"""The listener: accepts connections, brings each through start-up, and drains them at a stop.

Every connection is a task of its own; a CancelRequest comes on a fresh connection and is served while the main one is
busy. Until a client has shown who it is (`frontend.authentication`) it has no place among the clients, little memory
and little time. A stop accepts no more, lets running transactions finish for a while, and tells idle clients 57P01.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import structlog
from msgspec import Struct

from adapter.workers.colleagues import Colleagues
from adapter.workers.messages import AuthenticationFailed, CancelByKey
from frontend.authentication.login import Authenticator
from frontend.connections.addresses import ip_address
from frontend.connections.cancel_keys import CancelRegistry
from frontend.connections.channel import ClientProtocol
from frontend.connections.client_channel import ConnectionLost
from frontend.connections.client_log import ClientLog
from frontend.connections.connection import Connection
from frontend.connections.session_protocol import Metrics, Session, SessionFactory
from frontend.connections.startup import Negotiated, negotiate
from frontend.connections.tls import Certificates
from frontend.protocol import backend
from frontend.protocol.client_encoding import CLIENT_ENCODING, converted_encoding
from frontend.protocol.codec import FramingError
from frontend.protocol.messages import PROTOCOL_3_2 as NEWEST_PROTOCOL
from frontend.protocol.messages import CancelRequest, GssEncRequest, SslRequest, Startup
from frontend.server.listening import BACKLOG, listening
from frontend.server.strangers import Strangers
from planner.catalog_data.encodings import UTF8
from planner.common_errors import canceled, shut_down
from planner.errors import (
    CannotConnectNow,
    InternalError,
    ProtocolViolation,
    QueryCanceled,
    SqlError,
    TooManyConnections,
)

log = structlog.get_logger("frontend")

_DRAIN_POLL_S = 0.02
_STRANGERS_PER_PLACE = 2
"""Clients that nobody knows yet, for each place among the clients: as many as PostgreSQL lets in."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Bounds of the listener."""

    max_connections: int = 200
    """Clients served at once; PostgreSQL's default is 100, and ours cost less."""
    max_message_bytes: int = 256 << 20
    """The longest Query, Bind or CopyData taken in."""
    authentication_timeout_s: float = 60.0
    """How long a client may take to come in."""
    drain_timeout_s: float = 30.0
    """How long running transactions may take at a stop."""


class Server:
    """Serves the sessions of one factory on any number of addresses."""

    def __init__(
        self,
        factory: SessionFactory,
        *,
        authenticator: Authenticator,
        limits: ServerLimits | None = None,
        certificates: Certificates | None = None,
        colleagues: Colleagues | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`colleagues`: the other workers, when this is one of several. `metrics`: who counts, if anybody does."""
        self._factory = factory
        self._metrics = metrics
        self._limits = limits or ServerLimits()
        self._authenticator = authenticator
        self._strangers = Strangers(_STRANGERS_PER_PLACE * self._limits.max_connections)
        self._certificates = certificates
        self._cancels = CancelRegistry()
        self._colleagues = colleagues or Colleagues()
        if self._colleagues.servers is not None:
            self._colleagues.servers.answer(CancelByKey, lambda asked: self._cancels.cancel(asked.pid, asked.secret))
        if self._colleagues.mesh is not None:
            self._colleagues.mesh.answer(CancelByKey, lambda asked: self._cancels.cancel(asked.pid, asked.secret))
            self._colleagues.mesh.answer(AuthenticationFailed, self._note_failure)
        self._sessions = 0
        """Clients that have a place, or are about to get one."""
        self._taking: set[asyncio.Task[Any]] = set()
        self._listeners: list[asyncio.Server] = []
        self._clients: dict[asyncio.Task[None], ClientProtocol] = {}
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._stopping = False

    @property
    def is_stopping(self) -> bool:
        """Whether nobody comes in any more."""
        return self._stopping

    @property
    def connection_count(self) -> int:
        """Clients with a session."""
        return len(self._connections)

    async def start(self, host: str, port: int) -> int:
        """Listens on host:port (port 0 lets the system choose) and returns the port. Raises OSError."""
        sockets = listening(host, port)
        bound: int = sockets[0].getsockname()[1]
        await self.serve_on(sockets)
        return bound

    async def serve_on(self, sockets: Sequence[socket.socket]) -> None:
        """Accepts the clients of sockets that listen already, and closes them at the stop."""
        loop = asyncio.get_running_loop()
        for one in sockets:
            if one.family is socket.AF_UNIX:
                listener = await loop.create_unix_server(self._client, sock=one, backlog=BACKLOG)
            else:
                listener = await loop.create_server(self._client, sock=one, backlog=BACKLOG)
            self._listeners.append(listener)

    def take(self, client: socket.socket) -> None:
        """Serves a client that has been accepted elsewhere."""
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        taking = loop.create_task(loop.connect_accepted_socket(self._client, client))
        self._taking.add(taking)
        taking.add_done_callback(self._taken)

    def _taken(self, taking: asyncio.Task[Any]) -> None:
        self._taking.discard(taking)
        if taking.cancelled() or taking.exception() is not None:
            self._note_closed()  # The client has gone already.

    def _note_closed(self) -> None:
        place = self._colleagues.place
        if place is not None:
            place.memory.closed.own += 1

    def _client(self) -> ClientProtocol:
        return ClientProtocol(
            self._accept, max_message_bytes=self._limits.max_message_bytes, certificates=self._certificates
        )

    def _accept(self, client: ClientProtocol) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._clients[task] = client
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._clients.pop(task, None)
        self._note_closed()
        if not task.cancelled() and task.exception() is not None:
            log.error("connection failed", exc_info=task.exception())

    def _note_failure(self, seen: AuthenticationFailed) -> None:
        address = None if seen.address is None else ip_address(seen.address)
        self._authenticator.note_failure(address, seen.user)

    # ------------------------------------------------------------ one connection

    async def _serve(self, client: ClientProtocol) -> None:
        try:
            await self._serve_client(client)
        except FramingError as error:
            client.send_last(backend.error_response(error.error) if error.error is not None else b"")
        except SqlError as error:
            log.error("FATAL", sqlstate=error.sqlstate, message=error.message, host=str(client.address or "[local]"))
            client.send_last(backend.error_response(error, severity="FATAL"))
        except (ConnectionLost, ConnectionError, TimeoutError):
            client.close()
        except Exception as error:
            log.error("connection failed", exc_info=error)
            client.send_last(backend.error_response(InternalError("internal error"), severity="FATAL"))
        finally:
            client.on_vanished = None
            client.close()

    async def _serve_client(self, client: ClientProtocol) -> None:
        with self._strangers.one_more(client.address, self._turning_away(client)):
            loop = asyncio.get_running_loop()
            deadline = loop.time() + self._limits.authentication_timeout_s
            async with asyncio.timeout_at(deadline):
                startup = await self._startup(client)
            if startup is None:
                return
            negotiated = negotiate(startup, client.remote_address, client.server_address, client.tls_facts)
            if self._stopping:
                raise CannotConnectNow("the database system is shutting down", fatal=True)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._authenticate(client, negotiated)
            except TimeoutError:
                raise QueryCanceled("canceling authentication due to timeout", fatal=True) from None
        client.trust()
        with self._room():
            await self._serve_session(client, negotiated)

    async def _authenticate(self, client: ClientProtocol, negotiated: Negotiated) -> None:
        if negotiated.must_negotiate:
            client.write(backend.negotiate_protocol_version(NEWEST_PROTOCOL, negotiated.unrecognized))
        login = await self._factory.login(negotiated.parameters.user)
        await self._authenticator.authenticate(client, negotiated.parameters, login)

    def _turning_away(self, client: ClientProtocol) -> Callable[[], None]:
        task = asyncio.current_task()
        assert task is not None

        def turn_away() -> None:
            client.send_last(backend.error_response(_too_many()))
            task.cancel()

        return turn_away

    async def _serve_session(self, client: ClientProtocol, negotiated: Negotiated) -> None:
        async with asyncio.timeout(self._limits.authentication_timeout_s):
            client.write(backend.AUTHENTICATION_OK)
            ends: list[SqlError] = []
            session = await self._open_session(client, negotiated, ends)
        task = asyncio.current_task()
        assert task is not None
        parameters = negotiated.parameters
        client_log = ClientLog(
            session.settings,
            session.backend_pid,
            parameters.user,
            parameters.database,
            parameters.remote_address,
            session.logged_ids,
        )
        connection = Connection(client, session, client_log, self._metrics)
        if self._metrics is not None:
            self._metrics.connected()
        self._connections[task] = connection
        client_log.connected()
        try:
            client.on_vanished = lambda: None if connection.idle else session.cancel()
            secret = self._cancels.register(session.backend_pid, negotiated.version, self._canceller(client, session))
            for name, value in session.take_parameter_changes():
                client.write(backend.parameter_status(name, value))
            client.write(backend.backend_key_data(session.backend_pid, secret))
            await connection.run()
            if ends:
                # It was waiting for its client, who has been told.
                self._note_end(client_log, ends[0], None)
        except SqlError as error:
            self._note_end(client_log, error, session.query_text)
            client.send_last(backend.error_response(error, severity="FATAL"))
        finally:
            self._connections.pop(task, None)
            self._cancels.unregister(session.backend_pid)
            client_log.disconnected()
            await session.close()

    def _note_end(self, client_log: ClientLog, error: SqlError, text: str | None) -> None:
        """A session has been ended by `error`, while it worked at `text` if there is one."""
        client_log.error(error, text)
        if self._metrics is not None:
            self._metrics.failed(error.sqlstate)

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """One of the places for clients, which all workers share. Raises 57P03 during a stop, 53300 when all are taken.

        NOTE: taken first and counted then. Of two workers that do so at one moment none lets one too many in.
        """
        if self._stopping:
            raise CannotConnectNow("the database system is shutting down", fatal=True)
        self._change_sessions(1)
        try:
            place = self._colleagues.place
            taken = self._sessions if place is None else place.memory.sessions.total()
            if taken > self._limits.max_connections:
                raise _too_many()
            yield
        finally:
            self._change_sessions(-1)

    def _change_sessions(self, by: int) -> None:
        self._sessions += by
        if self._colleagues.place is not None:
            self._colleagues.place.memory.sessions.own = self._sessions

    async def _startup(self, client: ClientProtocol) -> Startup | None:
        """Answers encryption and cancel requests until the start-up packet proper; None when the connection is done."""
        while True:
            message = await client.receive_startup()
            match message:
                case SslRequest():
                    await self._encrypt(client)
                case GssEncRequest():
                    client.write(b"N")
                    await client.flush()
                case CancelRequest():
                    if not self._cancels.cancel(message.backend_pid, message.secret):
                        await self._colleagues.cancel_by_key(message.backend_pid, message.secret)
                    return None
                case _:
                    return message

    async def _encrypt(self, client: ClientProtocol) -> None:
        if not client.offers_tls:
            client.write(b"N")
            await client.flush()
            return
        if client.has_unread:
            # Whoever injected it would be taken for the client once the channel is encrypted (CVE-2021-23214).
            raise ProtocolViolation(
                "received unencrypted data after SSL request",
                detail="This could be either a client-software bug or evidence of an attempted man-in-the-middle "
                "attack.",
                fatal=True,
            )
        await client.start_tls()

    async def _open_session(self, client: ClientProtocol, negotiated: Negotiated, ends: list[SqlError]) -> Session:
        """A session, which adds to `ends` what ends it from outside."""

        def notify(backend_pid: int, channel: str, payload: str) -> None:
            encoding = CLIENT_ENCODING.set(converted_encoding(opened[0].settings.get("client_encoding", UTF8)))
            client.write(backend.notification_response(backend_pid, channel, payload))
            CLIENT_ENCODING.reset(encoding)
            client.flush_soon()

        def terminate(error: SqlError) -> None:
            ends.append(error)
            client.dismiss(backend.error_response(error, severity="FATAL"))

        # Another session may be the one that notifies, with its own client's encoding in force.
        opened = [await self._factory.open_session(negotiated.parameters, notify, terminate)]
        return opened[0]

    def _canceller(self, client: ClientProtocol, session: Session) -> Callable[[], None]:
        def cancel() -> None:
            session.cancel()
            client.interrupt(canceled())

        return cancel

    # ------------------------------------------------------------ stopping

    async def stop(self, *, drain: bool = True) -> None:
        """Stops listening and ends every connection: idle ones at once, the others when their transaction is over, all
        of them after the drain timeout (at once without `drain`)."""
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self._limits.drain_timeout_s if drain else 0.0)
        farewell = backend.error_response(shut_down())
        while self._clients:
            overdue = loop.time() >= deadline
            for task, client in list(self._clients.items()):
                connection = self._connections.get(task)
                if connection is None:
                    client.send_last(farewell)
                elif connection.between_transactions:
                    client.dismiss(farewell)
                elif overdue:
                    connection.terminate()
            if overdue and loop.time() >= deadline + self._limits.drain_timeout_s:
                for task in list(self._clients):
                    task.cancel()
            await asyncio.sleep(_DRAIN_POLL_S)


def _too_many() -> SqlError:
    return TooManyConnections("sorry, too many clients already", fatal=True)
