"""What the server tells who started it: its log on standard error, and how to connect."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Sequence

import structlog


def configure_logging(level: str) -> None:
    """Log from `level` up."""
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


def warn_of_unknown(variables: Sequence[tuple[str, str | None]]) -> None:
    """Warn of variables that look like options and are none, each with the one that may be meant."""
    log = structlog.get_logger("frontend")
    for name, meant in variables:
        hint = {} if meant is None else {"did_you_mean": meant}
        log.warning("unknown environment variable, ignored", variable=name, **hint)


def psql_command(host: str, port: int) -> str:
    """The line to copy."""
    return f'psql "host={host} port={port} user=postgres dbname=postgres"'


def say_how_to_connect(listeners: Sequence[tuple[str, Sequence[socket.socket]]]) -> None:
    """Print a line to copy for each host, or folder of a Unix socket, which has these sockets."""
    for host, sockets in listeners:
        name = sockets[0].getsockname()
        port = int(name.rpartition(".")[2]) if isinstance(name, str) else name[1]
        sys.stdout.write(psql_command(host, port) + "\n")
    sys.stdout.flush()
