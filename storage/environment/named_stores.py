"""The two stores of an environment by name: which blob store, which consensus store.

    consensus   None                              DATA_DIR/consensus.sqlite: server processes of one host
                postgresql://USER@HOST/DATABASE   a PostgreSQL database: server processes of many hosts.
                                                  `?schema=NAME` names the schema of the environment ("tidegate")
    blob        None                              DATA_DIR/blob
                /PATH, file:///PATH               another folder (of a file system that all servers share)
                s3://BUCKET/PREFIX, gs://, az://  an object store. What it needs besides (region, endpoint, keys) comes
                                                  from options or from the environment variables of its own tools

Servers that share an environment name the same two stores. A marker in the blob store says which environment its
objects belong to, so that neither half is ever used with another.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct, field

from storage.clock import Clock, SystemClock, SystemRandomness
from storage.environment.environment import Environment
from storage.environment.local_environment import open_local_environment
from storage.environment.opening import open_on_stores
from storage.errors import ForeignEnvironment, InvalidStore
from storage.host_memory import HostMemory
from storage.lake.linked import LinkedBlob, PlaceFiles
from storage.lake.places import Places
from storage.stores.blob import Blob
from storage.stores.blob_files import DEFAULT_LIMIT_BYTES, BlobFiles
from storage.stores.blob_local import LocalBlob
from storage.stores.blob_object import ObjectBlob
from storage.stores.consensus import Consensus
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.counting import CountingBlob, CountingConsensus, OperationCounts
from storage.stores.object_options import OBJECT_SCHEMES, store_options
from storage.upkeep.retention import DEFAULT_RETAIN_MS

POSTGRES_SCHEMES = ("postgres", "postgresql")
DEFAULT_SCHEMA = "tidegate"


class StoreNames(Struct, frozen=True, kw_only=True):
    """Where an environment is. See the module for `consensus` and `blob`; `blob_options` are the object store's own."""

    data_dir: Path
    consensus: str | None = None
    blob: str | None = None
    blob_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def blob_folder(self) -> Path | None:
        """The folder of the blob store; None for an object store. Raises InvalidStore."""
        if self.blob is None:
            return self.data_dir / "blob"
        scheme = urlsplit(self.blob).scheme
        if scheme == "file":
            return Path(unquote(urlsplit(self.blob).path))
        return None if scheme else Path(self.blob)


async def open_environment(
    names: StoreNames,
    *,
    process: str = "server",
    files: Path | None = None,
    host: HostMemory | None = None,
    places: Places | None = None,
) -> Environment:
    """The environment that `names` says, as a peer of any other process that has it open; made on first use.

    `files`: a private folder for copies of an object store's objects, where engines are to read them. `host`: memory
    that this process shares with others, which consensus in PostgreSQL makes no use of. `places`: where files of others
    may be that belong to its tables. Raises
    InvalidStore for a name that is none, and what `open_on_stores` and the stores raise.
    """
    clock, random = SystemClock(), SystemRandomness()
    linked = PlaceFiles(places or Places())
    counts: dict[str, OperationCounts] = {}
    blob: Blob | None = None
    if names.blob is not None or names.consensus is not None:
        counted = CountingBlob(_open_blob(names))
        counts["blob"] = counted.counts
        blob = LinkedBlob(counted, linked)
    if blob is not None and files is not None and names.blob_folder is None:
        blob = BlobFiles(blob, files, limit_bytes=DEFAULT_LIMIT_BYTES // (1 if host is None else host.count))
    if names.consensus is None:
        env = await open_local_environment(
            names.data_dir,
            clock=clock,
            random=random,
            process=process,
            peers=True,
            host=host,
            blob=blob,
            linked=linked,
        )
        env.store_counts = {**counts, **env.store_counts}
        return env
    # Imported where they are used: a server of one host starts without PostgreSQL's client.
    from storage.membership.liveness_postgres import PostgresLiveness
    from storage.stores.consensus_postgres import PostgresConsensus

    stack = contextlib.AsyncExitStack()
    try:
        dsn, schema = _postgres_address(names.consensus)
        liveness = PostgresLiveness(dsn, schema, clock)
        stack.push_async_callback(liveness.close)
        consensus = CountingConsensus(await PostgresConsensus.open(dsn, schema, clock=clock))
        counts["consensus"] = consensus.counts
        stack.push_async_callback(consensus.close)
        assert blob is not None
        stack.push_async_callback(blob.close)
        env = await open_on_stores(
            blob=blob,
            consensus=consensus,
            clock=clock,
            random=random,
            process=process,
            shared=True,
            liveness=liveness,
            retain_ms=DEFAULT_RETAIN_MS,
        )
    except BaseException:
        await stack.aclose()
        raise
    env.store_counts = counts
    env.on_close(stack)
    return env


@contextlib.asynccontextmanager
async def opened_stores(names: StoreNames, clock: Clock) -> AsyncIterator[tuple[Blob, Consensus]]:
    """The two stores alone, for those who look at an environment without taking part in it.

    Raises ForeignEnvironment where there is no data directory.
    """
    check_names(names)
    async with contextlib.AsyncExitStack() as stack:
        consensus: Consensus
        if names.consensus is None:
            path = names.data_dir / "consensus.sqlite"
            if not path.exists():
                raise ForeignEnvironment(f"{names.data_dir} holds no Tidegate environment")
            consensus = await SqliteConsensus.open(path, clock=clock)
        else:
            from storage.stores.consensus_postgres import PostgresConsensus

            dsn, schema = _postgres_address(names.consensus)
            consensus = await PostgresConsensus.open(dsn, schema, clock=clock)
        stack.push_async_callback(consensus.close)
        # Who looks at it from outside may look at every file.
        blob = LinkedBlob(_open_blob(names), PlaceFiles(Places((Path("/"),), names.blob_options)))
        stack.push_async_callback(blob.close)
        yield blob, consensus


def check_names(names: StoreNames) -> None:
    """Raise InvalidStore when a name is no store's, without opening any."""
    if names.consensus is not None:
        _postgres_address(names.consensus)
    _open_blob(names)


def _open_blob(names: StoreNames) -> Blob:
    folder = names.blob_folder
    if folder is not None:
        return LocalBlob(folder)
    assert names.blob is not None
    if urlsplit(names.blob).scheme not in OBJECT_SCHEMES:
        raise InvalidStore(f"cannot use the blob store {names.blob}: expected a folder, s3://, gs:// or az://")
    try:
        return ObjectBlob(names.blob, store_options(names.blob, names.blob_options))
    except Exception as error:
        # The library adds its internals after an empty line.
        what = str(error).partition("\n\n")[0]
        raise InvalidStore(
            f"cannot use the blob store {names.blob}: {what} (expected a folder, s3://, gs:// or az://)"
        ) from error


def _postgres_address(url: str) -> tuple[str, str]:
    """The connection string and the schema's name."""
    parts = urlsplit(url)
    if parts.scheme not in POSTGRES_SCHEMES:
        raise InvalidStore(
            f"cannot use the consensus store {url}: expected postgresql://USER@HOST/DATABASE"
            " (without one, SQLite in the data directory serves)"
        )
    schema, rest = DEFAULT_SCHEMA, []
    for name, value in parse_qsl(parts.query):
        if name == "schema":
            schema = value
        else:
            rest.append((name, value))
    return urlunsplit(parts._replace(query=urlencode(rest))), schema
