"""The command line: `tidegate serve`, and whatever other commands register themselves.

A command is a `Command` in `COMMANDS`: it adds its arguments to a parser and runs. Exit status: 0 after a stop, 1 when
starting failed, 2 for wrong usage or configuration.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import structlog

from frontend import admin
from frontend.auth import ListenRefused, check_trust
from frontend.configuration import Configuration, ConfigurationError, addresses, load_configuration
from frontend.store_options import add_store_options, store_names
from storage.errors import InvalidStore
from storage.stores import check_names

EXIT_FAILED = 1
EXIT_USAGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand. `configure` adds its arguments; `run` gets them parsed and returns the exit status."""

    name: str
    summary: str
    description: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class StartFailed(Exception):
    """The server cannot start, or go on; the message is for the person who started it."""


def product_version() -> str:
    """The installed distribution's version."""
    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "0.1.0"


def _configure_serve(parser: argparse.ArgumentParser) -> None:
    defaults = Configuration()
    add = parser.add_argument
    add("--config", metavar="FILE", help="TOML file with the same options (data_dir = ...); variable TIDEGATE_CONFIG")
    add_store_options(parser)
    add("--listen", metavar="HOST:PORT", help=f"address to listen on, loopback only (default {defaults.listen})")
    add("--spark-master", metavar="URL", help=f"Spark master (default {defaults.spark_master})")
    add("--spark-remote", metavar="URL", help="Spark Connect server (sc://host:port) instead of a master")
    add("--spark-start", metavar="WHEN", help="start Spark with the server (eager, the default) or on demand (lazy)")
    add("--spark-conf", metavar="K=V", action="append", help="Spark property; may be repeated")
    add(
        *("--set",),
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        help="default of a session setting; may be repeated",
    )
    add("--max-connections", metavar="N", help=f"clients served at once (default {defaults.max_connections})")
    add("--max-message-bytes", metavar="N", help=f"longest message (default {defaults.max_message_bytes})")
    add("--drain-timeout-s", metavar="S", help=f"patience at a stop (default {defaults.drain_timeout_s:g})")
    add("--tls-cert", metavar="FILE", help="PEM file with the certificate chain; with --tls-key turns TLS on")
    add("--tls-key", metavar="FILE", help="PEM file with the private key")
    add("--event-loop", metavar="NAME", help="uvloop or asyncio (default uvloop)")
    add("--pruning-audit", metavar="SHARE", help="share of the files left out by statistics to check (default 0.001)")
    add("--log-level", metavar="LEVEL", help="debug, info, warning or error (default info)")


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


async def _serve(configuration: Configuration) -> None:
    """Opens the environment, listens, and serves until a signal. Raises StartFailed."""
    # Imported here so that --help and configuration errors need no engine.
    from adapter.server_state import ServerOptions, ServerState
    from frontend.server import Server, ServerLimits
    from storage.errors import StorageError

    listen_on = addresses(configuration)
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
        state = await ServerState.open(options)
    except StorageError as error:
        raise StartFailed(str(error)) from error
    except OSError as error:
        raise StartFailed(f"cannot open the data directory {configuration.data_dir}: {error}") from error
    server = Server(
        state,
        limits=ServerLimits(
            max_connections=configuration.max_connections,
            max_message_bytes=configuration.max_message_bytes,
            drain_timeout_s=configuration.drain_timeout_s,
        ),
        tls=tls,
    )
    try:
        for host, port in listen_on:
            try:
                bound = await server.start(host, port)
            except OSError as error:
                raise StartFailed(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
            sys.stdout.write(psql_command(host, bound) + "\n")
        sys.stdout.flush()
        # What start-up made lives as long as the server: no collection need look at it again.
        gc.freeze()
        gc.enable()
        await _until_stopped(server.stop, state.env.deposed)
    finally:
        await state.close()


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


def _run_serve(arguments: argparse.Namespace) -> int:
    try:
        configuration = load_configuration(vars(arguments), os.environ)
        for host, _ in addresses(configuration):
            check_trust(host)
        check_names(store_names(configuration))
    except (ConfigurationError, ListenRefused, InvalidStore) as error:
        return _complain(error, EXIT_USAGE)
    _configure_logging(configuration.log_level)
    gc.disable()
    loop_factory = None
    if configuration.event_loop == "uvloop":
        import uvloop

        loop_factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_serve(configuration))
    except StartFailed as error:
        return _complain(error, EXIT_FAILED)
    except KeyboardInterrupt:
        return 130
    return 0


def _complain(error: Exception, status: int) -> int:
    sys.stderr.write(f"tidegate: error: {error}\n")
    return status


COMMANDS: list[Command] = [
    Command(
        name="serve",
        summary="serve PostgreSQL clients from a data directory",
        description="Serves PostgreSQL clients from a data directory, until SIGTERM or Ctrl-C. Several servers may "
        "serve one: on one host as they are, on several hosts with --consensus and a --blob that all of them reach.",
        configure=_configure_serve,
        run=_run_serve,
    ),
    Command(
        name="admin",
        summary="look into an environment, check it, export or clone a table",
        description="Looks into an environment. Reads only, but for clone, and is safe beside running servers.",
        configure=admin.configure,
        run=admin.run,
    ),
]


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="PostgreSQL-compatible SQL over lakehouse storage, reading on Apache Spark.",
        epilog="Every option of serve can also be a variable (TIDEGATE_LISTEN) or a key of the TOML file (listen). "
        "A flag wins over a variable, a variable over the file.",
    )
    parser.add_argument("--version", action="version", version=f"tidegate {product_version()}")
    subparsers = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for command in COMMANDS:
        sub = subparsers.add_parser(command.name, help=command.summary, description=command.description)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return EXIT_USAGE
    status: int = parsed.run(parsed)
    return status


if __name__ == "__main__":
    sys.exit(main())
