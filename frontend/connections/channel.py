"""The asyncio side of one connection: bytes from the transport to messages, and back-pressure both ways.

`ClientProtocol` is an asyncio protocol and the `Channel` of its connection. Bounds: reading pauses while more than
`READ_AHEAD_BYTES` wait to be decoded (a single longer message excepted); a writer waits in `drain` while the transport
holds more than its high-water mark.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from time import monotonic
from typing import Any, cast

import structlog

from adapter.results import TlsFacts
from frontend.connections.addresses import IpAddress, ip_address
from frontend.connections.client_channel import ConnectionLost
from frontend.connections.tls import ALPN, HANDSHAKE_RECORD, Certificates, PeerCertificate, TlsLayer
from frontend.protocol.codec import SYNC, Decoder, FramingError
from frontend.protocol.messages import FrontendMessage, StartupMessage
from planner.errors import SqlError

log = structlog.get_logger("frontend")

READ_AHEAD_BYTES = 4 << 20
"""What a pipelining client may be ahead of us; beyond it TCP holds it back."""
STRANGER_BYTES = 64 << 10
"""What a client may be ahead of us while nobody knows who it is."""
WRITE_HIGH_BYTES = 1 << 20
"""What may wait in the transport for a slow reader."""
TURN_S = 0.005
"""How long the messages that a client has sent at once keep the others waiting."""

COALESCE_BYTES = 64 << 10
"""Output gathered before it is handed to the transport without being asked."""


JOINED_BYTES = 4 << 20
"""More output than that is not copied to become one piece."""


class ClientProtocol(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, on_connected: Any, *, max_message_bytes: int, certificates: Certificates | None = None) -> None:
        self._on_connected = on_connected
        self._decoder = Decoder(max_message_bytes=max_message_bytes)
        self._transport: asyncio.Transport | None = None
        self._output: list[bytes | memoryview] = []
        self._output_bytes = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._waiter: asyncio.Future[None] | None = None
        self._interrupt: SqlError | None = None
        self._turn_began = 0.0
        self._interruptible = False
        self._end_of_stream = False
        self._farewell: list[bytes] = []
        """What the client is told when it would be heard the next time, which it is not any more."""
        self._lost = False
        self._reading_paused = False
        self._read_ahead_bytes = STRANGER_BYTES
        self.on_vanished: Any = None
        """Called when the client is gone without having said Terminate."""
        self._certificates = certificates
        self._tls: TlsLayer | None = None
        self._silent = True
        """Nothing has come in yet."""
        self._asked_for_tls = False
        self.certificate_hash: bytes | None = None
        """What SCRAM-SHA-256-PLUS binds to."""

    # ------------------------------------------------------------ asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports do not derive from asyncio's classes, though they have their methods.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        self._on_connected(self)

    def data_received(self, data: bytes) -> None:
        if self._silent:
            self._silent = False
            if data.startswith(HANDSHAKE_RECORD) and self._certificates is not None:
                self._encrypt(self._certificates)
        if self._tls is not None:
            data = self._decrypted(data, self._tls)
        self._decoder.feed(data)
        if self._decoder.buffered > self._read_ahead_bytes and not self._reading_paused and self._waiter is None:
            self._reading_paused = True
            assert self._transport is not None
            self._transport.pause_reading()
        self._wake()

    def _encrypt(self, certificates: Certificates) -> None:
        self._tls = TlsLayer(certificates.context)
        self.certificate_hash = certificates.channel_binding

    def _decrypted(self, data: bytes, tls: TlsLayer) -> bytes:
        """What the client says. A client that breaks TLS gets its alert, and has said its last."""
        assert self._transport is not None
        was_open = tls.is_open
        try:
            plain = tls.receive(data)
            if not was_open and tls.is_open and not self._asked_for_tls and tls.protocol != ALPN:
                # Without it, a client could be led to us that means another server.
                raise ssl.SSLError("a connection that begins with TLS must name its protocol")
        except ssl.SSLError as error:
            log.debug("TLS failed", client=self.remote_address, error=str(error))
            plain = b""
            tls.is_ended = True
        output = tls.take_output()
        if output and not self._transport.is_closing():
            self._transport.write(output)
        if tls.is_ended:
            self._end_of_stream = True
            self._notice_vanished()
        return plain

    def eof_received(self) -> bool:
        self._end_of_stream = True
        self._wake()
        self._notice_vanished()
        return not self.is_tls

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = self._end_of_stream = True
        self._writable.set()
        self._wake()
        self._notice_vanished()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _notice_vanished(self) -> None:
        if self.on_vanished is not None and not self._decoder.has_terminate:
            self.on_vanished()

    # ------------------------------------------------------------ the connection's side

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self._tls is not None

    @property
    def tls_facts(self) -> TlsFacts | None:
        """What pg_stat_ssl shows; None without TLS."""
        return None if self._tls is None else self._tls.facts

    @property
    def peer_certificate(self) -> PeerCertificate | None:
        """The client's certificate, which has been verified; None without one."""
        return None if self._tls is None else self._tls.peer

    @property
    def peer_uid(self) -> int | None:
        """The user of this host that has connected to the Unix socket; None elsewhere."""
        if self._transport is None or self.address is not None:
            return None
        with socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno())) as own:
            _, uid, _ = struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)

    @property
    def remote_address(self) -> str | None:
        """The client's IP address and port, with a colon between them; None on a Unix socket."""
        return self._end("peername")

    @property
    def server_address(self) -> str | None:
        """The IP address and port that the client has connected to, with a colon between them; None on a Unix
        socket."""
        return self._end("sockname")

    def _end(self, which: str) -> str | None:
        found = self._transport.get_extra_info(which) if self._transport is not None else None
        # Without the zone of an IPv6 address, for which the type inet has no place.
        return f"{found[0].partition('%')[0]}:{found[1]}" if isinstance(found, tuple) else None

    @property
    def address(self) -> IpAddress | None:
        """The client's IP address; None on a Unix socket."""
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        return ip_address(peer[0]) if isinstance(peer, tuple) else None

    def trust(self) -> None:
        """The client is known now, and may send ahead as much as it likes."""
        self._read_ahead_bytes = READ_AHEAD_BYTES

    async def _wait(self) -> None:
        """Until more has come in."""
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def receive_startup(self) -> StartupMessage | None:
        """The next start-up packet, or None at the end of the stream. Raises FramingError."""
        while True:
            message = self._decoder.next_startup()
            if message is not None:
                return message
            if self._end_of_stream:
                return None
            await self._wait()

    async def receive_answer(self, expected: str, max_bytes: int) -> bytes:
        """The answer to an authentication request. Raises 08P01 for another message, FramingError, ConnectionLost."""
        while True:
            answer = self._decoder.next_answer(expected, max_bytes)
            if answer is not None:
                return answer
            if self._end_of_stream:
                raise self.lost()
            await self._wait()

    @property
    def has_unread(self) -> bool:
        """Whether bytes wait behind the last message."""
        return self._decoder.buffered > 0

    async def receive(self, *, interruptible: bool = False) -> FrontendMessage | None:
        """See `connection.Channel`."""
        while not self._farewell:
            if interruptible and self._interrupt is not None:
                error, self._interrupt = self._interrupt, None
                raise error
            message = self._decoder.next_message()
            if message is not None:
                if monotonic() - self._turn_began > TURN_S:
                    # Nothing that came in at once has to be waited for: the others are to have their turns.
                    await asyncio.sleep(0)
                    self._turn_began = monotonic()
                    if self._farewell:
                        break
                return message
            if self._end_of_stream:
                return None
            self._interruptible = interruptible
            try:
                await self._wait()
            finally:
                self._interruptible = False
            self._turn_began = monotonic()
        self.send_last(self._farewell[0])
        return None

    def interrupt(self, error: SqlError) -> None:
        """Raises `error` in a `receive` that may be interrupted and is waiting now; does nothing otherwise."""
        if self._interruptible:
            self._interrupt = error
            self._wake()

    def following(self, *candidates: bytes) -> bytes | None:
        """See `connection.Channel`."""
        return self._decoder.following(*candidates)

    def skip(self, messages: bytes) -> None:
        """See `connection.Channel`."""
        self._decoder.skip(messages)

    def next_is_sync(self) -> bool:
        """See `connection.Channel`."""
        return self._decoder.following(SYNC) is not None

    def write(self, data: bytes | memoryview) -> None:
        """See `connection.Channel`."""
        if data:
            self._output.append(data)
            self._output_bytes += len(data)

    def _send(self) -> None:
        if self._lost or self._transport is None:
            raise self.lost()
        if self._output:
            output, size = self._output, self._output_bytes
            self._output, self._output_bytes = [], 0
            if self._tls is not None:
                self._send_encrypted(output, self._tls)
            elif len(output) == 1:
                self._transport.write(output[0])
            elif size <= JOINED_BYTES:
                self._transport.write(b"".join(output))
            else:
                self._transport.writelines(output)

    def _send_encrypted(self, output: list[bytes | memoryview], tls: TlsLayer) -> None:
        assert self._transport is not None
        if not tls.is_open:
            return  # Nobody could read it.
        for data in output:
            tls.send(data)
        self._transport.write(tls.take_output())

    async def drain(self) -> None:
        """See `connection.Channel`."""
        if self._output_bytes >= COALESCE_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """See `connection.Channel`."""
        self._send()
        if not self._writable.is_set():
            await self._writable.wait()
            if self._lost:
                raise self.lost()

    def lost(self) -> ConnectionLost:
        """See `connection.Channel`."""
        return ConnectionLost("the client closed the connection")

    def flush_soon(self) -> None:
        """Hands over what has gathered when the event loop comes round; a client that is gone does not matter."""
        asyncio.get_running_loop().call_soon(self._send_if_connected)

    def _send_if_connected(self) -> None:
        if not self._lost:
            self._send()

    def send_last(self, data: bytes) -> None:
        """Sends what may still be sent and closes the connection."""
        if not self._lost and self._transport is not None and not self._transport.is_closing():
            self._output.append(data)
            self._send()
        self.close()

    def dismiss(self, farewell: bytes) -> None:
        """Hears the client no more: `farewell` is the last that it is told, once what it has asked for so far has been
        answered. What has not been heard yet is not done."""
        self._farewell = [farewell]
        if self._waiter is not None:
            self.send_last(farewell)
            self._wake()

    def close(self) -> None:
        """Closes the connection after what has been written."""
        if self._transport is not None:
            if self._tls is not None and not self._lost and not self._transport.is_closing():
                self._tls.end()
                self._transport.write(self._tls.take_output())
            self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self) -> None:
        """Grant the client's wish for TLS, and return when the connection is encrypted. Raises FramingError when the
        client has already sent something in the clear, ConnectionLost when it has gone or broken TLS."""
        if self.has_unread:
            raise FramingError(None)
        assert self._transport is not None
        assert self._certificates is not None
        self._asked_for_tls = True
        self._transport.write(b"S")
        self._encrypt(self._certificates)
        assert self._tls is not None
        while not self._tls.is_open:
            if self._end_of_stream:
                raise self.lost()
            await self._wait()

    @property
    def offers_tls(self) -> bool:
        """Whether the connection can be encrypted, and is not yet."""
        return self._certificates is not None and self._tls is None
