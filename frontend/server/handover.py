"""How a new server takes the listening sockets of the one that runs, so that no client is turned away between them.

A server offers its sockets on a Unix socket in its data directory, named after its first address; who may connect to
that is the system user that serves (its mode is 0600). `tidegate serve --take-over` connects there before it listens
anywhere, and gets descriptors of the sockets: from then on both have them. Once it answers statements, it says so, and
the older server drains as after SIGTERM; connections that nobody has accepted yet are accepted by the newer one. If the
newer one ends before that, nothing has happened.

The connection stays until the older server's transactions are over. For a while the newer one lets nobody in before, so
that sessions of two servers, between which rows are not locked, seldom meet.

Nothing here blocks for long: both sides are on one host, and messages are short.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

LEAVE = b"leave"
"""What the newer server says when it answers statements."""

MAX_MESSAGE_BYTES = 1 << 16
MAX_SOCKETS = 64

PATIENCE_S = 5.0
"""How long the older server may take to give its sockets."""


class HandoverFailed(Exception):
    """A server is there, and did not give its sockets."""


def path_of(data_dir: Path, host: str, port: int) -> Path:
    """Where the server of `data_dir` whose first address this is offers its sockets."""
    return data_dir / f".take-over.{host.replace('/', '_').replace(':', '_')}.{port}"


class Predecessor:
    """The server that listened before, and the sockets that it has given."""

    def __init__(self, control: socket.socket, sockets: dict[str, list[socket.socket]]) -> None:
        self._control = control
        self.sockets = sockets

    def leave(self) -> socket.socket:
        """Let it drain: whoever comes is served here. What is returned can be read once its transactions are over."""
        with contextlib.suppress(OSError):  # It has ended by itself.
            self._control.sendall(LEAVE)
        return self._control


def predecessor(path: Path) -> Predecessor | None:
    """The server that offers its sockets at `path`; None when there is none. Raises HandoverFailed."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.settimeout(PATIENCE_S)
    try:
        with _short(path) as name:
            control.connect(name)
    except (FileNotFoundError, ConnectionRefusedError):
        control.close()
        return None
    except OSError as error:
        control.close()
        raise HandoverFailed(f"cannot reach the server at {path}: {error.strerror or error}") from error
    try:
        message, descriptors, _, _ = socket.recv_fds(control, MAX_MESSAGE_BYTES, MAX_SOCKETS)
        counts: dict[str, int] = json.loads(message) if message else {}
    except (OSError, ValueError) as error:
        control.close()
        raise HandoverFailed(f"the server at {path} does not give its sockets: {error}") from error
    given = iter([socket.socket(fileno=descriptor) for descriptor in descriptors])
    sockets = {name: [one for _, one in zip(range(count), given, strict=False)] for name, count in counts.items()}
    if not sockets:
        control.close()
        raise HandoverFailed(f"the server at {path} is about to end")
    return Predecessor(control, sockets)


class ListeningPlace:
    """Where a server listens: its sockets under their names, those for HTTP beside them, and the server that had them
    before, if any."""

    def __init__(
        self,
        path: Path,
        found: Mapping[str, tuple[str, Sequence[socket.socket]]],
        before: Predecessor | None,
        http: Mapping[str, Sequence[socket.socket]] | None = None,
    ) -> None:
        self._path = path
        self._found = found
        self._http = http or {}
        self._before = before
        self._is_given = False
        self.leaving: socket.socket | None = None
        """Can be read once the transactions of the server before are over; None where there was none."""

    @property
    def hosts(self) -> list[tuple[str, Sequence[socket.socket]]]:
        """The hosts, and folders of Unix sockets, with their sockets."""
        return list(self._found.values())

    @property
    def http(self) -> list[socket.socket]:
        """The sockets for HTTP."""
        return [one for sockets in self._http.values() for one in sockets]

    def offer(self, leave: Callable[[], None]) -> Offer:
        """Statements are answered: let the server before leave, and offer the sockets to the next one. `leave` is
        called when that serves. Raises OSError."""
        if self._before is not None:
            self.leaving = self._before.leave()
        # With its stores elsewhere a server may have made none.
        self._path.parent.mkdir(parents=True, exist_ok=True)

        def given() -> None:
            self._is_given = True
            leave()

        listeners = [(name, sockets) for name, (_, sockets) in self._found.items()]
        return Offer(self._path, [*listeners, *self._http.items()], given)

    def remove_unless_given(self, path: Path, process: int) -> None:
        """Take the name of a Unix socket out of its folder, in the process that made it and in none that it forked;
        unless a newer server has the socket."""
        if os.getpid() == process and not self._is_given:
            path.unlink(missing_ok=True)


class Offer:
    """The sockets of this server, offered to a newer one. `leave` is called when that has taken them and serves.

    Whoever runs the event loop watches `listener` and calls `accept` when somebody comes, and then watches what that
    returns and calls `hear` with it until it is False. Raises OSError where no socket can be made at `path`."""

    def __init__(
        self, path: Path, listeners: Sequence[tuple[str, Sequence[socket.socket]]], leave: Callable[[], None]
    ) -> None:
        self._path = path
        self._listeners = listeners
        self._leave = leave
        self._is_given = False
        self._taker: socket.socket | None = None
        """Who has taken the sockets, and waits for the end of what runs here."""
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.setblocking(False)
        # Whoever offered before has ended, or has just been told to leave.
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            with _short(path) as name:
                self.listener.bind(name)
        finally:
            os.umask(before)
        self.listener.listen(1)

    def accept(self) -> socket.socket | None:
        """Give the sockets to who has come. What it says is to be heard."""
        try:
            control, _ = self.listener.accept()
        except OSError:
            return None
        counts = {name: len(sockets) for name, sockets in self._listeners}
        descriptors = [one.fileno() for _, sockets in self._listeners for one in sockets]
        try:
            socket.send_fds(control, [json.dumps(counts).encode()], descriptors)
        except OSError:
            control.close()
            return None
        control.setblocking(False)
        return control

    def hear(self, control: socket.socket) -> bool:
        """Whether there may be more to hear of this one; one that has ended is closed."""
        try:
            message = control.recv(MAX_MESSAGE_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            message = b""
        if message == LEAVE and self._taker is None:
            self._is_given, self._taker = True, control
            self._leave()
        else:
            control.close()
        return False

    def has_left(self) -> None:
        """What ran here is over: who has taken the sockets waits no longer."""
        if self._taker is not None:
            self._taker.close()

    def close(self) -> None:
        """Offer nothing any more. The name in the folder stays when a newer server has it."""
        self.listener.close()
        if not self._is_given:
            self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name of `path` that a socket may have: they are limited to some hundred bytes, data directories are not."""
    if len(os.fsencode(path)) < 100:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
