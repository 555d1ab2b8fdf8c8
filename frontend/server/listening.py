"""Listening sockets, bound before anything else is loaded.

From `listening` on, the system lets clients connect and keeps them waiting until the server has started and accepts
them; so a client that comes a moment too early is served a moment later instead of being refused, and an address that
cannot be had is known before the data directory is touched.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

BACKLOG = 512


def listening(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address of `host`, on `port` (0 lets the system choose it, one for all of them).

    Raises OSError when the address cannot be had.
    """
    found = dict.fromkeys(
        (family, address[0])
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in found:
            try:
                one = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                if len(found) == 1:
                    raise
                continue  # A name may have addresses of a family that the system was built without.
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.setblocking(False)
            one.bind((address, port))
            one.listen(BACKLOG)
            port = one.getsockname()[1]
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


def listening_in(folder: Path, port: int) -> socket.socket:
    """A Unix socket in `folder` that listens, named as libpq looks for it; a socket of that name at which nobody
    listens any more is removed. Everybody of the host may connect: the rules say who comes in. Raises OSError."""
    path = folder / f".s.PGSQL.{port}"
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
    one = socket.socket(socket.AF_UNIX)
    try:
        one.setblocking(False)
        one.bind(str(path))
        os.chmod(path, 0o777)
        one.listen(BACKLOG)
    except OSError:
        one.close()
        raise
    return one
