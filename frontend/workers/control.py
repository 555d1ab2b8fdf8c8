"""What passes between the supervisor and one worker: clients and orders down, a word that it is ready up.

Both have one end of a pair of sockets that keeps messages apart. A client is a message with its socket beside it. The
worker learns from the end of the stream that the supervisor is gone, and the supervisor that the worker is.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from msgspec import Struct

from adapter.workers.colleagues import WorkerPlace

MAX_MESSAGE_BYTES = 64


class Order(Enum):
    """What a worker is told; the value is the message."""

    OPEN = b"open"
    """Open the environment: it has been made."""
    DRAIN = b"drain"
    """Stop once the running transactions are over."""
    STOP = b"stop"
    """Stop now."""
    RELOAD = b"reload"
    """Read the configuration again."""


CLIENT = b"client"
"""The message beside a client's socket."""

READY = b"ready"
"""What a worker says once it answers statements."""


def control_pair() -> tuple[socket.socket, socket.socket]:
    """The supervisor's end and the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


class WorkerEnd(Struct, frozen=True):
    """What a worker process has of its server: which one it is, and its end of the control sockets."""

    number: int
    place: WorkerPlace
    control: socket.socket

    @property
    def folder(self) -> Path:
        """The private folder where the workers meet."""
        return self.place.folder

    def wait_to_open(self) -> bool:
        """Block until the environment may be opened; False when the server stops instead."""
        return self.control.recv(MAX_MESSAGE_BYTES) == Order.OPEN.value

    def say_ready(self) -> None:
        """Tell the supervisor that statements are answered."""
        self.control.send(READY)

    def listen(self, client: Callable[[socket.socket], None], order: Callable[[Order], None]) -> None:
        """Hand clients and orders to these, from the running event loop, until the supervisor is gone: that is an
        order to stop."""
        loop = asyncio.get_running_loop()
        self.control.setblocking(False)

        def read() -> None:
            while True:
                try:
                    message, descriptors, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, 1)
                except BlockingIOError:
                    return
                except OSError:
                    message, descriptors = b"", []
                if not message:
                    loop.remove_reader(self.control)
                    order(Order.STOP)
                    return
                for descriptor in descriptors:
                    client(socket.socket(fileno=descriptor))
                if message != CLIENT:
                    order(Order(message))

        loop.add_reader(self.control, read)
