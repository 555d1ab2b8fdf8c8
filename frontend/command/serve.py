"""`tidegate serve` once its addresses are bound: open the environment, accept clients, stop on a signal.

Importing this module loads the engines' libraries and everything that serves; the command line does so only after it
has bound the addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from adapter.sessions import server as sessions
from adapter.sessions.memory import collect_new_only
from adapter.sessions.options import ServerOptions
from frontend.authentication.login import Authenticator
from frontend.authentication.rules import BadRules
from frontend.command.authentication import (
    BadPasswordFile,
    give_first_password,
    load_certificates,
    make_authenticator,
    shown_rules,
    shown_settings,
)
from frontend.command.configuration import Configuration, ConfigurationError, spark_properties
from frontend.command.logs import configure_logging, say_how_to_connect, warn_of_unknown
from frontend.command.store_names import store_names
from frontend.connections.tls import BadCertificate, Certificates
from frontend.copy.codec import FileCodec
from frontend.server.accepting import Server, ServerLimits
from frontend.server.handover import ListeningPlace
from frontend.workers.control import Order, WorkerEnd
from planner.errors import SqlError
from storage.environment.named_stores import check_names
from storage.errors import StorageError

if TYPE_CHECKING:
    from adapter.metrics.server_metrics import ServerMetrics
    from frontend.server.http import HttpServer

log = structlog.get_logger("frontend")

# How long a thread that computes keeps the interpreter while the event loop's thread waits for it. CPython's 5 ms are
# paid anew at every step of the loop, so that one session's large statement, bound beside the loop, made a small one of
# another session wait for tens of milliseconds; the switches this brings cost small statements nothing that shows.
SWITCH_SECONDS = 0.0005


class StartFailed(Exception):
    """The server cannot start, or go on; the message is for the person who started it."""


def serve(
    configuration: Configuration,
    place: ListeningPlace | None,
    unknown_variables: Sequence[tuple[str, str | None]] = (),
    *,
    http: Sequence[socket.socket] = (),
    worker: WorkerEnd | None = None,
    reload: Callable[[], Configuration] | None = None,
) -> None:
    """Serve the clients of `place`, and those of HTTP, until a signal, or until a newer server has taken it over. Warns
    of the `unknown_variables`, each with the one that may be meant. `reload` reads the configuration again, for SIGHUP.

    Prints a line to copy for each host once statements are answered. One worker of several says so to its supervisor
    instead, which gives it its clients. Raises InvalidStore for store names that are none, StartFailed.
    """
    check_names(store_names(configuration))
    configure_logging(configuration.log_level)
    if worker is None:
        warn_of_unknown(unknown_variables)
    elif not worker.wait_to_open():
        return
    else:
        structlog.contextvars.bind_contextvars(worker=worker.number)
    loop_factory = None
    if configuration.event_loop == "uvloop":
        import uvloop

        loop_factory = uvloop.new_event_loop
    sys.setswitchinterval(SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(configuration, place, http, worker, reload))


async def _serve(
    configuration: Configuration,
    place: ListeningPlace | None,
    http: Sequence[socket.socket],
    worker: WorkerEnd | None,
    reload: Callable[[], Configuration] | None,
) -> None:
    try:
        certificates = load_certificates(configuration)
    except BadCertificate as error:
        raise StartFailed(str(error)) from error
    if configuration.iceberg_catalog and "uri" not in configuration.iceberg_catalog:
        raise StartFailed("iceberg_catalog: the catalog's uri is missing")
    options = ServerOptions(
        stores=store_names(configuration),
        spark_master=configuration.spark_master,
        spark_remote=configuration.spark_remote,
        spark_conf=spark_properties(configuration),
        # The JVM of one worker is enough until another one needs its own.
        warm_spark=configuration.spark_start == "eager" and (worker is None or worker.number == 0),
        settings=configuration.settings,
        settings_of_file=configuration.settings_of_file,
        shown=shown_settings(configuration),
        worker=None if worker is None else worker.place,
        allow_paths=tuple(Path(folder) for folder in configuration.allow_path),
        jdbc_urls=tuple(configuration.allow_jdbc),
        copy_codec=FileCodec(),
        pruning_audit=configuration.pruning_audit,
        iceberg_catalog=configuration.iceberg_catalog,
    )
    try:
        backend = await sessions.Server.open(options)
    except StorageError as error:
        raise StartFailed(str(error)) from error
    except SqlError as error:
        raise StartFailed(f"settings: {error.message}") from error
    except OSError as error:
        raise StartFailed(f"cannot open the data directory {configuration.data_dir}: {error}") from error
    try:
        authenticator = make_authenticator(configuration, backend.colleagues)
        if worker is None or worker.number == 0:
            await give_first_password(configuration, backend)
    except (BadRules, BadPasswordFile) as error:
        await backend.close()
        raise StartFailed(str(error)) from error
    backend.services.authentication_rows = partial(shown_rules, authenticator.book, backend)
    metrics: ServerMetrics | None = None
    if configuration.http is not None:
        from adapter.metrics.server_metrics import ServerMetrics

        metrics = ServerMetrics(backend.services, backend.sessions, backend.engines)
        metrics.start()
    server = Server(
        backend,
        authenticator=authenticator,
        limits=ServerLimits(
            max_connections=int(backend.services.settings.values["max_connections"]),
            max_message_bytes=configuration.max_message_bytes,
            authentication_timeout_s=configuration.authentication_timeout_s,
            drain_timeout_s=configuration.drain_timeout_s,
        ),
        certificates=certificates,
        colleagues=backend.colleagues,
        metrics=metrics,
    )
    closing = contextlib.ExitStack()
    http_server: HttpServer | None = None
    orders: asyncio.Queue[Order] = asyncio.Queue()
    hang_up = partial(_reload, backend, authenticator, certificates, reload)
    backend.services.reload = hang_up if worker is None else partial(os.kill, os.getppid(), signal.SIGHUP)
    try:
        if worker is None:
            assert place is not None
            _obey_signals(orders, hang_up)
            closing.callback(_offer(place, orders))
            await _until_left(place, configuration.take_over_wait_s)
            for _, sockets in place.hosts:
                await server.serve_on(sockets)
            say_how_to_connect(place.hosts)
        else:
            _obey_supervisor(worker, server, orders, hang_up)
            worker.say_ready()
        http_server = await _answer_http(http, metrics, server, backend, authenticator, certificates)
        backend.warm()
        collect_new_only()
        await _until_stopped(server.stop, backend.env.deposed, orders)
    finally:
        closing.close()
        if metrics is not None:
            metrics.stop()
        if http_server is not None:
            await http_server.stop()
        # What is frozen is never torn down, and libraries complain of that at the exit.
        gc.unfreeze()
        await backend.close()


async def _answer_http(
    sockets: Sequence[socket.socket],
    metrics: ServerMetrics | None,
    server: Server,
    backend: sessions.Server,
    authenticator: Authenticator,
    certificates: Certificates | None,
) -> HttpServer | None:
    if metrics is None or not sockets:
        return None
    from adapter.publishing.served_catalog import ServedCatalogs
    from frontend.server.http import HttpServer
    from frontend.server.iceberg_rest import IcebergRest

    catalogs = ServedCatalogs(backend.env, backend.services.publishing)
    answering = HttpServer(
        metrics=metrics.text,
        is_ready=lambda: not server.is_stopping,
        logins=backend,
        authenticator=authenticator,
        certificates=certificates,
        iceberg=IcebergRest(catalogs, backend, authenticator),
    )
    await answering.serve_on(sockets)
    return answering


def _offer(place: ListeningPlace, orders: asyncio.Queue[Order]) -> Callable[[], None]:
    """Offer the sockets to a newer server, which makes this one drain; what ends that."""
    loop = asyncio.get_running_loop()
    try:
        offer = place.offer(partial(orders.put_nowait, Order.DRAIN))
    except OSError as error:
        log.warning("a later server cannot take the listening sockets over", error=str(error))
        return lambda: None

    def accept() -> None:
        control = offer.accept()
        if control is not None:
            loop.add_reader(control, hear, control)

    def hear(control: socket.socket) -> None:
        loop.remove_reader(control)
        if offer.hear(control):
            loop.add_reader(control, hear, control)

    loop.add_reader(offer.listener, accept)

    def close() -> None:
        loop.remove_reader(offer.listener)
        offer.close()
        offer.has_left()

    return close


async def _until_left(place: ListeningPlace, patience_s: float) -> None:
    """Wait until the transactions of the server before are over, but not for longer."""
    leaving, loop = place.leaving, asyncio.get_running_loop()
    if leaving is None:
        return
    left = asyncio.Event()
    loop.add_reader(leaving, left.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await left.wait()
    finally:
        loop.remove_reader(leaving)
        leaving.close()


def _obey_signals(orders: asyncio.Queue[Order], hang_up: Callable[[], None]) -> None:
    """SIGTERM drains, SIGINT stops, and so does any second one of them; SIGHUP reads the configuration again."""
    loop = asyncio.get_running_loop()
    received = 0

    def stop(number: signal.Signals) -> None:
        nonlocal received
        received += 1
        orders.put_nowait(Order.DRAIN if number is signal.SIGTERM and received == 1 else Order.STOP)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    loop.add_signal_handler(signal.SIGHUP, hang_up)


def _obey_supervisor(
    worker: WorkerEnd, server: Server, orders: asyncio.Queue[Order], hang_up: Callable[[], None]
) -> None:
    """Take clients and orders from the supervisor. A terminal or a service manager may send its signals to workers
    too: SIGTERM drains, as often as it comes, and the others are left to the supervisor."""

    def obey(order: Order) -> None:
        if order is Order.RELOAD:
            hang_up()
        else:
            orders.put_nowait(order)

    worker.listen(server.take, obey)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, orders.put_nowait, Order.DRAIN)
    for number in (signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, lambda: None)


def _reload(
    backend: sessions.Server,
    authenticator: Authenticator,
    certificates: Certificates | None,
    reload: Callable[[], Configuration] | None,
) -> None:
    """Read the configuration again, and what ALTER SYSTEM has stored: sessions have its settings where they have set
    nothing else, new ones come in by the rules of its files, new connections have its certificate, and the log has its
    level. The rest of it holds from the next start. What is wrong changes nothing, and the log says why."""
    if reload is None:
        return
    try:
        configuration = reload()
        shown = shown_settings(configuration)
        backend.use_settings(configuration.settings, of_file=configuration.settings_of_file, shown=shown)
    except ConfigurationError as error:
        log.error("the configuration was not read again", error=str(error))
    except SqlError as error:
        log.error("the configuration was not read again", error=f"settings: {error.message}")
    else:
        configure_logging(configuration.log_level)
        log.info("the configuration was read again")
    try:
        authenticator.book.reload()
    except BadRules as error:
        log.error("the rules of authentication were not read again", error=str(error))
    try:
        if certificates is not None:
            certificates.reload()
    except BadCertificate as error:
        log.error("the certificates were not read again", error=str(error))


async def _until_stopped(
    stop: Callable[..., Coroutine[Any, Any, None]], deposed: asyncio.Event, orders: asyncio.Queue[Order]
) -> None:
    """Waits for an order to drain or to stop (end what runs); one to stop ends the patience of the first.

    Raises StartFailed when other servers have deposed this one.
    """
    first_order = asyncio.ensure_future(orders.get())
    fenced = asyncio.ensure_future(deposed.wait())
    await asyncio.wait((first_order, fenced), return_when=asyncio.FIRST_COMPLETED)
    fenced.cancel()
    if not first_order.done():
        first_order.cancel()
        await stop(drain=False)
        raise StartFailed(
            "this server stood still for so long that the others took it for dead; what was not acknowledged is lost, "
            "start it again"
        )
    stopping = asyncio.ensure_future(stop(drain=first_order.result() is Order.DRAIN))
    again = asyncio.ensure_future(_next(orders, Order.STOP))
    await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await asyncio.wait((stopping,))
        await stop(drain=False)
    again.cancel()


async def _next(orders: asyncio.Queue[Order], wanted: Order) -> None:
    """Return at the next such order."""
    while await orders.get() is not wanted:
        pass
