"""How a server is started, apart from where it listens: stores, Spark, default settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from adapter.lake.copy_codec import CopyCodec
from adapter.workers.colleagues import WorkerPlace
from storage.environment.named_stores import StoreNames
from storage.errors import InvalidStore
from storage.lake.places import Places


class ServerOptions(Struct, frozen=True, kw_only=True):
    """How a server is started. `settings` are defaults for all sessions; `warm_spark` False leaves Spark to the first
    statement that needs it."""

    stores: StoreNames
    spark_master: str = "local[*]"
    spark_remote: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    warm_spark: bool = True
    worker: WorkerPlace | None = None
    """Which of the server's workers this process is; None when it is the whole server."""
    allow_paths: tuple[Path, ...] = ()
    """Local folders below which statements may read and write files."""
    copy_codec: CopyCodec | None = None
    """What COPY from and to files in text, csv and binary format is read and written with."""
    pruning_audit: float | None = None
    """Share of the parts that reads leave out which are audited; None: as the environment has it."""

    def places(self) -> Places:
        """Where statements may read and write files."""
        return Places(self.allow_paths, self.stores.blob_options)


def check_spark_reaches(options: ServerOptions) -> None:
    """Raise InvalidStore when Spark runs where it cannot read this server's copies of an object store's objects."""
    elsewhere = options.spark_remote or ("" if options.spark_master.startswith("local") else options.spark_master)
    if elsewhere and options.stores.blob_folder is None:
        raise InvalidStore(
            f"Spark at {elsewhere} cannot read the blob store {options.stores.blob}: its objects are fetched to this "
            "machine; run Spark here (spark_master local[*]), or name a blob folder that all its hosts share"
        )
