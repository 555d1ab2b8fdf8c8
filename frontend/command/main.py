"""The command line: `tidegate serve`, and whatever other commands register themselves.

A command is a `Command` in `COMMANDS`: it adds its arguments to a parser and runs. What it needs is imported when it
runs; `serve` listens before it loads what serves. Exit status: 0 after a stop, 1 when starting failed, 2 for wrong
usage or configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from frontend.authentication.rules import BadRules
from frontend.command.authentication import rule_book
from frontend.command.configuration import (
    Configuration,
    ConfigurationError,
    addresses,
    load_configuration,
    parse_address,
    unknown_variables,
)
from frontend.command.options import configure_admin, configure_serve, configure_spark_env
from frontend.server.handover import HandoverFailed, ListeningPlace, path_of, predecessor
from frontend.server.listening import listening, listening_in

if TYPE_CHECKING:
    from frontend.workers.control import WorkerEnd

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class Command(Struct, frozen=True, kw_only=True):
    """A subcommand. `configure` adds its arguments; `run` gets them parsed and returns the exit status."""

    name: str
    summary: str
    description: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def product_version() -> str:
    """The installed distribution's version."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tidegate")
    except PackageNotFoundError:
        return "0.1.0"


def _run_serve(arguments: argparse.Namespace) -> int:
    try:
        configuration = load_configuration(vars(arguments), os.environ)
        wanted = addresses(configuration)
        rule_book(configuration)
    except (ConfigurationError, BadRules) as error:
        return _complain(error, EXIT_USAGE)
    with contextlib.ExitStack() as stack:
        # Hardly anything that start-up makes is garbage; `serve` turns the collector on again when it has started.
        gc.disable()
        stack.callback(gc.enable)
        try:
            place = _listen(configuration, wanted, stack)
        except (OSError, HandoverFailed) as error:
            return _complain(error, EXIT_FAILED)
        reload = partial(load_configuration, vars(arguments), os.environ)
        unknown = unknown_variables(os.environ)
        try:
            if configuration.workers == 1:
                return _serve(configuration, place, unknown, http=place.http, reload=reload)
            end = _supervise(configuration, place, unknown)
            if isinstance(end, int):
                return end
            # This is a worker, whose clients come from the supervisor. The first one answers HTTP for all of them.
            http = [one.dup() for one in place.http] if end.number == 0 else []
            stack.close()
            gc.disable()
            return _serve(configuration, None, http=http, worker=end, reload=reload)
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED


def _listen(
    configuration: Configuration, wanted: Sequence[tuple[str, int]], stack: contextlib.ExitStack
) -> ListeningPlace:
    """Listen at the wanted addresses, with the sockets of the server before where that gives them; `stack` closes them.
    Raises OSError with the address, HandoverFailed."""
    data_dir, (first_host, first_port) = Path(configuration.data_dir).absolute(), wanted[0]
    before = predecessor(path_of(data_dir, first_host, first_port)) if configuration.take_over else None
    given = {} if before is None else before.sockets
    for sockets in given.values():
        for one in sockets:
            stack.callback(one.close)
    found: dict[str, tuple[str, list[socket.socket]]] = {}
    for host, port in wanted:
        name = f"{host}:{port}"
        try:
            sockets = given.get(name) or listening(host, port)
        except OSError as error:
            raise OSError(f"cannot listen on {name}: {error.strerror or error}") from error
        found[name] = (host, sockets)
        for one in sockets:
            stack.callback(one.close)
    http: dict[str, list[socket.socket]] = {}
    if configuration.http is not None:
        name = f"http {configuration.http}"
        try:
            http[name] = given.get(name) or listening(*parse_address(configuration.http))
        except OSError as error:
            raise OSError(f"cannot listen on {configuration.http}: {error.strerror or error}") from error
        for one in http[name]:
            stack.callback(one.close)
    port = found[f"{first_host}:{first_port}"][1][0].getsockname()[1]
    place = ListeningPlace(path_of(data_dir, first_host, port), found, before, http)
    if configuration.unix_socket_dir is not None:
        folder = Path(configuration.unix_socket_dir).absolute()
        try:
            sockets = given.get(str(folder)) or [listening_in(folder, port)]
        except OSError as error:
            raise OSError(f"cannot listen in {folder}: {error.strerror or error}") from error
        found[str(folder)] = (str(folder), sockets)
        stack.callback(sockets[0].close)
        stack.callback(place.remove_unless_given, Path(sockets[0].getsockname()), os.getpid())
    return place


def _supervise(
    configuration: Configuration,
    place: ListeningPlace,
    unknown: Sequence[tuple[str, str | None]],
) -> WorkerEnd | int:
    """Run the supervisor of several workers: the exit status. In a worker: its end."""
    import structlog

    from frontend.command.logs import configure_logging, say_how_to_connect, warn_of_unknown
    from frontend.workers.supervisor import Supervisor

    configure_logging(configuration.log_level)
    warn_of_unknown(unknown)
    supervisor = Supervisor(
        configuration.workers,
        [one for _, sockets in place.hosts for one in sockets],
        ready=partial(say_how_to_connect, place.hosts),
        offer=place.offer,
        leaving=lambda: place.leaving,
        patience_s=configuration.take_over_wait_s,
        tell=structlog.get_logger("frontend").info,
    )
    return supervisor.run()


def _serve(
    configuration: Configuration,
    place: ListeningPlace | None,
    unknown: Sequence[tuple[str, str | None]] = (),
    *,
    http: Sequence[socket.socket] = (),
    worker: WorkerEnd | None = None,
    reload: Callable[[], Configuration],
) -> int:
    # The linear algebra of NumPy, which nothing here uses, would start its threads when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from storage import cache_memory, free_memory

    free_memory.configure()
    # NOTE: before anything is loaded that has caches.
    cache_memory.divide_among(configuration.workers)
    from frontend.command.serve import StartFailed, serve
    from storage.errors import InvalidStore

    try:
        serve(configuration, place, unknown, http=http, worker=worker, reload=reload)
    except InvalidStore as error:
        return _complain(error, EXIT_USAGE)
    except StartFailed as error:
        return _complain(error, EXIT_FAILED)
    return 0


def _run_admin(arguments: argparse.Namespace) -> int:
    from frontend.command import admin

    return admin.run(arguments)


def _run_spark_env(arguments: argparse.Namespace) -> int:
    from frontend.command import spark_env

    return spark_env.run(arguments)


def _complain(error: Exception | str, status: int) -> int:
    sys.stderr.write(f"tidegate: error: {error}\n")
    return status


COMMANDS: list[Command] = [
    Command(
        name="serve",
        summary="serve PostgreSQL clients from a data directory",
        description="Serves PostgreSQL clients from a data directory, until SIGTERM or Ctrl-C. Several servers may "
        "serve one: on one host as they are, on several hosts with --consensus and a --blob that all of them reach.",
        configure=configure_serve,
        run=_run_serve,
    ),
    Command(
        name="admin",
        summary="look into an environment, check it, export or clone a table",
        description="Looks into an environment. Reads only, but for clone, and is safe beside running servers.",
        configure=configure_admin,
        run=_run_admin,
    ),
    Command(
        name="spark-env",
        summary="build the archive of Python that Spark's executors run",
        description="Writes an archive of this Python and of the packages that tasks on executors need, so that the "
        "hosts of a Spark cluster (standalone, YARN, Kubernetes) need no Python of their own. They have to be of the "
        "same kind of machine and system as this one. Tidegate's own code is sent by each server.",
        configure=configure_spark_env,
        run=_run_spark_env,
    ),
]


class _ShowVersion(argparse.Action):
    """Finds out the version when it is asked for: the means to do so take a while to load."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        sys.stdout.write(f"tidegate {product_version()}\n")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="PostgreSQL-compatible SQL over lakehouse storage, reading on Apache Spark.",
        epilog="Every option of serve can also be a variable (TIDEGATE_LISTEN) or a key of the TOML file (listen). "
        "A flag wins over a variable, a variable over the file.",
    )
    parser.add_argument("--version", action=_ShowVersion, nargs=0, help="show program's version number and exit")
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
