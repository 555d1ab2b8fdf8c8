"""`tidegate serve` once its addresses are bound: open the environment, accept clients, stop on a signal.

Importing this module loads the engines' libraries and everything that serves; the command line does so only after it
has bound the addresses.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from adapter.sessions import server as sessions
from adapter.sessions.options import ServerOptions
from frontend.command.configuration import Configuration
from frontend.command.store_names import store_names
from frontend.server.accepting import Server, ServerLimits
from planner.errors import SqlError
from storage.environment.named_stores import check_names
from storage.errors import StorageError

log = structlog.get_logger("frontend")


class StartFailed(Exception):
    """The server cannot start, or go on; the message is for the person who started it."""


def _configure_logging(level: str) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _tls_context(configuration: Configuration) -> ssl.SSLContext | None:
    if configuration.tls_cert is None or configuration.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(configuration.tls_cert, configuration.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise StartFailed(f"cannot load the TLS certificate {configuration.tls_cert}: {error}") from error
    context.set_alpn_protocols(["postgresql"])
    return context


def psql_command(host: str, port: int) -> str:
    """The line to copy."""
    return f'psql "host={host} port={port} user=postgres dbname=postgres"'


def serve(
    configuration: Configuration,
    listeners: Sequence[tuple[str, Sequence[socket.socket]]],
    unknown_variables: Sequence[tuple[str, str | None]] = (),
) -> None:
    """Serve the clients of `listeners` (of each host the sockets that listen already) until a signal. Warns of the
    `unknown_variables`, each with the one that may be meant.

    Prints a line to copy for each host once statements are answered. Raises InvalidStore for store names that are none,
    StartFailed.
    """
    check_names(store_names(configuration))
    _configure_logging(configuration.log_level)
    for name, meant in unknown_variables:
        hint = {} if meant is None else {"did_you_mean": meant}
        log.warning("unknown environment variable, ignored", variable=name, **hint)
    loop_factory = None
    if configuration.event_loop == "uvloop":
        import uvloop

        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(configuration, listeners))


async def _serve(configuration: Configuration, listeners: Sequence[tuple[str, Sequence[socket.socket]]]) -> None:
    tls = _tls_context(configuration)
    options = ServerOptions(
        stores=store_names(configuration),
        spark_master=configuration.spark_master,
        spark_remote=configuration.spark_remote,
        spark_conf=tuple(configuration.spark_conf.items()),
        warm_spark=configuration.spark_start == "eager",
        settings=configuration.settings,
        pruning_audit=configuration.pruning_audit,
    )
    try:
        backend = await sessions.Server.open(options)
    except StorageError as error:
        raise StartFailed(str(error)) from error
    except SqlError as error:
        raise StartFailed(f"settings: {error.message}") from error
    except OSError as error:
        raise StartFailed(f"cannot open the data directory {configuration.data_dir}: {error}") from error
    server = Server(
        backend,
        limits=ServerLimits(
            max_connections=configuration.max_connections,
            max_message_bytes=configuration.max_message_bytes,
            drain_timeout_s=configuration.drain_timeout_s,
        ),
        tls=tls,
    )
    try:
        for host, sockets in listeners:
            await server.serve_on(sockets)
            sys.stdout.write(psql_command(host, sockets[0].getsockname()[1]) + "\n")
        sys.stdout.flush()
        backend.warm()
        # What start-up made lives as long as the server: no collection need look at it again.
        gc.freeze()
        gc.enable()
        await _until_stopped(server.stop, backend.env.deposed)
    finally:
        # What is frozen is never torn down, and libraries complain of that at the exit.
        gc.unfreeze()
        await backend.close()


async def _until_stopped(stop: Callable[..., Coroutine[Any, Any, None]], deposed: asyncio.Event) -> None:
    """Waits for SIGTERM (drain) or SIGINT (end what runs); a second signal ends the patience of the first.

    Raises StartFailed when other servers have deposed this one.
    """
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.put_nowait, number)
    first_signal = asyncio.ensure_future(signals.get())
    fenced = asyncio.ensure_future(deposed.wait())
    await asyncio.wait((first_signal, fenced), return_when=asyncio.FIRST_COMPLETED)
    fenced.cancel()
    if not first_signal.done():
        first_signal.cancel()
        await stop(drain=False)
        raise StartFailed(
            "this server stood still for so long that the others took it for dead; what was not acknowledged is lost, "
            "start it again"
        )
    first = first_signal.result()
    stopping = asyncio.ensure_future(stop(drain=first is signal.SIGTERM))
    again = asyncio.ensure_future(signals.get())
    await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await asyncio.wait((stopping,))
        await stop(drain=False)
    again.cancel()
