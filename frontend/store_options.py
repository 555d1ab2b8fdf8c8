"""The options that say where an environment is, shared by the commands that open one."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from frontend.configuration import Configuration
from storage.stores import StoreNames


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


def store_names(configuration: Configuration) -> StoreNames:
    """Where the environment is."""
    return StoreNames(
        data_dir=Path(configuration.data_dir),
        consensus=configuration.consensus,
        blob=configuration.blob,
        blob_options=configuration.blob_options,
    )
