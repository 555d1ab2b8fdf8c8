"""Where the environment of a configuration is."""

from __future__ import annotations

from pathlib import Path

from frontend.command.configuration import Configuration
from storage.environment.named_stores import StoreNames


def store_names(configuration: Configuration) -> StoreNames:
    """The names of its two stores."""
    return StoreNames(
        data_dir=Path(configuration.data_dir),
        consensus=configuration.consensus,
        blob=configuration.blob,
        blob_options=configuration.blob_options,
    )
