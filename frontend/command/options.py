"""The options of each command, as its parser has them.

Light, so that `--help` and wrong usage need none of the libraries that serve.
"""

from __future__ import annotations

import argparse
from functools import partial

from frontend.command.configuration import Configuration


def configure_serve(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tidegate serve`."""
    defaults = Configuration()
    add = parser.add_argument
    add("--config", metavar="FILE", help="TOML file with the same options (data_dir = ...); variable TIDEGATE_CONFIG")
    add_store_options(parser)
    add("--listen", metavar="HOST:PORT", help=f"addresses to listen on (default {defaults.listen})")
    add("--unix-socket-dir", metavar="DIR", help="folder for a Unix socket beside the addresses (.s.PGSQL.PORT)")
    add("--http", metavar="HOST:PORT", help="address for HTTP: /metrics for Prometheus, /healthz, /readyz, /iceberg")
    add(
        "--take-over",
        action="store_const",
        const="true",
        help="take the addresses over from the server that has them, which drains once this one answers",
    )
    add(
        "--take-over-wait-s",
        metavar="S",
        help=f"how long new clients wait then for its transactions (default {defaults.take_over_wait_s:g})",
    )
    add(
        "--workers",
        metavar="N",
        help=f"processes that serve the clients, as one server: about one for each core (default {defaults.workers})",
    )
    add("--spark-master", metavar="URL", help=f"Spark master (default {defaults.spark_master})")
    add("--spark-remote", metavar="URL", help="a Spark Connect server (sc://host:port) in place of a master")
    add("--spark-start", metavar="WHEN", help="start Spark with the server (eager, the default) or on demand (lazy)")
    add("--spark-conf", metavar="K=V", action="append", help="Spark property; may be repeated")
    add("--spark-packages", metavar="NAMES", help="Maven packages of Spark's, with commas (spark.jars.packages)")
    add(
        *("--set",),
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        help="default of a session setting; may be repeated",
    )
    add("--max-connections", metavar="N", help="clients served at once (default 200)")
    add("--max-message-bytes", metavar="N", help=f"longest message (default {defaults.max_message_bytes})")
    add("--drain-timeout-s", metavar="S", help=f"patience at a stop (default {defaults.drain_timeout_s:g})")
    add("--hba-file", metavar="FILE", help="rules of authentication, in the format of pg_hba.conf")
    add("--ident-file", metavar="FILE", help="maps of users' names, in the format of pg_ident.conf")
    add(
        "--superuser-password-file",
        metavar="FILE",
        help="file with the password that the superuser postgres gets if it has none",
    )
    add(
        "--authentication-timeout-s",
        metavar="S",
        help=f"how long a client may take to come in (default {defaults.authentication_timeout_s:g})",
    )
    add("--tls-cert", metavar="FILE", help="PEM file with the certificate chain; with --tls-key turns TLS on")
    add("--tls-key", metavar="FILE", help="PEM file with the private key")
    add("--tls-client-ca", metavar="FILE", help="PEM file with the authorities of clients' certificates")
    add("--event-loop", metavar="NAME", help="uvloop or asyncio (default uvloop)")
    add(
        *("--allow-path",),
        metavar="DIR",
        action="append",
        help="local folder below which statements of superusers may read and write files; may be repeated",
    )
    add(
        *("--allow-jdbc",),
        metavar="URL",
        action="append",
        help="beginning of URLs of other databases that are allowed whatever follows; may be repeated",
    )
    add(
        *("--iceberg-catalog",),
        metavar="NAME=VALUE",
        action="append",
        help="Iceberg REST catalog to push published tables to (uri, warehouse, credential, ...); may be repeated",
    )
    add("--pruning-audit", metavar="SHARE", help="share of the files left out by statistics to check (default 0.001)")
    add("--log-level", metavar="LEVEL", help="debug, info, warning or error (default info)")


def configure_admin(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tidegate admin`."""
    _add_environment_options(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("overview", help="shards, holds, uppers, outstanding and staged transactions, blob usage")
    check = actions.add_parser("fsck", help="check every reference, checksum and row count; list orphans")
    check.add_argument("--shallow", action="store_true", help="look at presence and sizes only, read no part")
    actions.add_parser("finish-upgrade", help="all servers are of this version: let them write its formats")
    export = actions.add_parser("export", help="write a table as Parquet files")
    export.add_argument("table", metavar="[SCHEMA.]TABLE")
    export.add_argument("output", metavar="DIR", help="an empty or new folder")
    clone = actions.add_parser("clone", help="make a new table with the rows of another; the one action that writes")
    clone.add_argument("table", metavar="[SCHEMA.]TABLE")
    clone.add_argument("new", metavar="[SCHEMA.]NEW")
    for action in (export, clone):
        action.add_argument("--as-of", type=int, metavar="CSN", help="the moment to read at (default: now)")
    for action in actions.choices.values():
        _add_environment_options(action, default=argparse.SUPPRESS)


def configure_spark_env(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `tidegate spark-env`."""
    parser.add_argument(
        *("--output",),
        metavar="FILE",
        default="tidegate-spark-env.tar.gz",
        help="the archive to write (default %(default)s)",
    )


def _add_environment_options(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """These options may stand before the action and after it."""
    parser.add_argument(
        "--config", metavar="FILE", default=default, help="TOML file with the same options; variable TIDEGATE_CONFIG"
    )
    add_store_options(parser, default=default)


def add_store_options(parser: argparse.ArgumentParser, *, default: str | None = None) -> None:
    """Add --data-dir, --consensus, --blob and --blob-option. `default` is argparse.SUPPRESS for the parser of a
    subcommand whose own parser has them too."""
    defaults = Configuration()
    add = partial(parser.add_argument, default=default)
    add("--data-dir", metavar="DIR", help=f"where everything is stored (default {defaults.data_dir})")
    add(
        "--consensus",
        metavar="URL",
        help="postgresql://USER@HOST/DATABASE[?schema=NAME], for servers on several hosts (default SQLite in DIR)",
    )
    add("--blob", metavar="URL", help="a folder, or an object store such as s3://BUCKET/PREFIX (default DIR/blob)")
    add(
        "--blob-option",
        dest="blob_options",
        metavar="NAME=VALUE",
        action="append",
        help="option of the object store (region, endpoint, access_key_id, ...); may be repeated",
    )
