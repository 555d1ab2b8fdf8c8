"""How a server is started, apart from where it listens: stores, Spark, default settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct, field

from adapter.lake.copy_codec import CopyCodec
from adapter.workers.colleagues import WorkerPlace
from storage.environment.named_stores import StoreNames
from storage.errors import InvalidStore
from storage.lake.places import Places
from storage.stores.object_options import OBJECT_SCHEMES
from storage.stores.object_place import ObjectPlace


class ServerOptions(Struct, frozen=True, kw_only=True):
    """How a server is started. `settings` are defaults for all sessions; `warm_spark` False leaves Spark to the first
    statement that needs it."""

    stores: StoreNames
    spark_master: str = "local[*]"
    spark_remote: str | None = None
    spark_conf: tuple[tuple[str, str], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    settings_of_file: bool = False
    """Whether they are of the configuration file, so that ALTER SYSTEM stands above them."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """What settings say of other options of the server, which nothing stands above."""
    warm_spark: bool = True
    worker: WorkerPlace | None = None
    """Which of the server's workers this process is; None when it is the whole server."""
    allow_paths: tuple[Path, ...] = ()
    """Local folders below which statements may read and write files."""
    jdbc_urls: tuple[str, ...] = ()
    """What URLs of other databases may begin with that are taken as they are."""
    copy_codec: CopyCodec | None = None
    """What COPY from and to files in text, csv and binary format is read and written with."""
    pruning_audit: float | None = None
    """Share of the parts that reads leave out which are audited; None: as the environment has it."""

    iceberg_catalog: Mapping[str, str] = field(default_factory=dict)
    """The external catalog that published tables are pushed to (`adapter.publishing.pushing`); empty: none."""

    def places(self) -> Places:
        """Where statements may read and write files."""
        return Places(self.allow_paths, self.stores.blob_options)

    @property
    def is_spark_here(self) -> bool:
        """Whether Spark runs in one process on this machine."""
        master = self.spark_master
        return self.spark_remote is None and (master == "local" or master.startswith("local["))

    def executors_place(self) -> ObjectPlace | None:
        """The object store that executors on other machines use by themselves; None where they open files."""
        if self.is_spark_here or self.stores.blob_folder is not None or self.stores.blob is None:
            return None
        return ObjectPlace(root=self.stores.blob, options=dict(self.stores.blob_options))


def check_spark_reaches(options: ServerOptions) -> None:
    """Raise InvalidStore when Spark runs where it cannot be used, or cannot reach this server's blob store."""
    elsewhere = "" if options.is_spark_here else options.spark_remote or options.spark_master
    if not elsewhere or options.stores.blob_folder is not None:
        return
    if urlsplit(options.stores.blob).scheme not in OBJECT_SCHEMES:
        return  # Which opening it refuses.
    place = options.executors_place()
    assert place is not None
    # NOTE: here, so that a server without a cluster loads nothing of Spark's.
    from adapter.engines.spark.cluster.connectors import UnknownToHadoop, hadoop_settings, hadoop_url

    try:
        hadoop_settings(place)
        hadoop_url(place.root, place.options)
    except UnknownToHadoop as error:
        raise InvalidStore(
            f"executors of Spark at {elsewhere} cannot reach the blob store {options.stores.blob}: {error}; run Spark "
            "here (spark_master local[*]), or name a blob folder that all its hosts share"
        ) from error
