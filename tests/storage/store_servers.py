"""Every implementation of the two primitives, by name, for the conformance suites."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from moto.server import ThreadedMotoServer

from storage.clock import SystemClock
from storage.doubles.clock import ManualClock, SeededRandomness
from storage.doubles.memory_blob import MemoryBlob
from storage.doubles.memory_consensus import MemoryConsensus
from storage.doubles.unreliable import NO_FAULTS, FaultRates, Faults, UnreliableBlob, UnreliableConsensus
from storage.stores.blob import Blob
from storage.stores.blob_local import LocalBlob
from storage.stores.blob_object import ObjectBlob
from storage.stores.consensus import Consensus
from storage.stores.consensus_postgres import PostgresConsensus
from storage.stores.consensus_sqlite import SqliteConsensus
from storage.stores.counting import CountingBlob, CountingConsensus
from storage.stores.object_options import store_options
from storage.stores.object_place import ObjectPlace
from tests.support.postgres import PostgresServer

_numbers = itertools.count(1)


class Impatient(ManualClock):
    """A clock whose pauses last no time."""

    async def sleep(self, seconds: float) -> None:
        """Let others run."""
        await asyncio.sleep(0)


class S3Server:
    """A local S3 server (moto) in a thread of this process."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        web: Any = self._server._server
        carry_out, turn = web.app, threading.Lock()

        self.without_conditions: str | None = None
        """What a store without conditional writes does with the condition: it is "ignored" or "refused"."""

        def one_at_a_time(environ: Any, start_response: Any) -> Any:
            if (
                self.without_conditions
                and environ.pop("HTTP_IF_NONE_MATCH", None)
                and self.without_conditions == "refused"
            ):
                start_response("501 Not Implemented", [("Content-Type", "application/xml")])
                return [b"<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>"]
            # The real S3 decides a conditional put atomically; moto looks first and stores afterwards.
            with turn:
                return carry_out(environ, start_response)

        web.app = one_at_a_time
        host, port = self._server.get_host_and_port()
        self.endpoint = f"http://{host}:{port}"

    def new_bucket(self) -> str:
        """Make an empty bucket and return its name."""
        name = f"bucket-{next(_numbers)}"
        request = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(request):
            return name

    def open(self, bucket: str, retries: dict[str, Any] | None = None) -> ObjectBlob:
        """A blob store in `bucket`, below a prefix, with other `retries` than the library's."""
        return ObjectBlob(
            f"s3://{bucket}/environment",
            {
                "endpoint": self.endpoint,
                "region": "us-east-1",
                "access_key_id": "test",
                "secret_access_key": "test",
                "client_options": {"allow_http": True},
                **({} if retries is None else {"retry_config": retries}),
            },
        )

    def stop(self) -> None:
        """Stop the server's thread."""
        self._server.stop()


class Unclosed(CountingBlob):
    """A handle on a shared in-memory store, which outlives the handle."""

    async def close(self) -> None:
        """Leave the shared store open."""


def postgres_url(server: PostgresServer) -> str:
    """The server's address as asyncpg takes it."""
    return f"postgresql://postgres@{server.host}:{server.port}/postgres"


BlobFactory = Callable[[], AbstractAsyncContextManager[Blob]]
"""Opens one more handle on the same objects, as another process would."""

ConsensusFactory = Callable[[], AbstractAsyncContextManager[Consensus]]


def faults(seed: int, rates: FaultRates = NO_FAULTS) -> Faults:
    """Faults drawn from `seed`, on the system's clock."""
    return Faults(rates=rates, randomness=SeededRandomness(seed), clock=SystemClock())


def blob_factory(name: str, folder: Path, s3: S3Server | None = None, place: ObjectPlace | None = None) -> BlobFactory:
    """The factory of the implementation `name`, which keeps its objects in `folder`, a new bucket of `s3`, or
    `place`."""
    shared = MemoryBlob(SystemClock())
    shared_object = ObjectBlob("memory:///")
    bucket = s3.new_bucket() if s3 is not None else ""

    @contextlib.asynccontextmanager
    async def open_blob() -> AsyncIterator[Blob]:
        blob: Blob
        match name:
            case "memory":
                blob = shared
            case "local":
                blob = LocalBlob(folder)
            case "object_memory":
                blob = Unclosed(shared_object)
            case "s3":
                assert s3 is not None
                blob = s3.open(bucket)
            case "azure" | "google":
                assert place is not None
                blob = ObjectBlob(place.root, store_options(place.root, place.options))
            case "counting":
                blob = CountingBlob(shared)
            case "unreliable":
                blob = UnreliableBlob(shared, faults(1, FaultRates(late=0.5, max_delay_s=0.002)))
            case _:
                raise ValueError(name)
        try:
            yield blob
        finally:
            await blob.close()

    return open_blob


def consensus_factory(name: str, folder: Path, postgres: PostgresServer | None = None) -> ConsensusFactory:
    """The factory of the implementation `name`, which keeps its values in `folder` or a new schema of `postgres`."""
    shared = MemoryConsensus()
    schema = f"t{next(_numbers)}"

    @contextlib.asynccontextmanager
    async def open_consensus() -> AsyncIterator[Consensus]:
        consensus: Consensus
        match name:
            case "memory":
                consensus = shared
            case "sqlite":
                consensus = await SqliteConsensus.open(folder / "consensus.sqlite")
            case "postgres":
                assert postgres is not None
                consensus = await PostgresConsensus.open(postgres_url(postgres), schema)
            case "counting":
                consensus = CountingConsensus(shared)
            case "unreliable":
                rates = FaultRates(late=0.5, max_delay_s=0.002)
                consensus = UnreliableConsensus(shared, faults(1, rates))
            case _:
                raise ValueError(name)
        try:
            yield consensus
        finally:
            await consensus.close()

    return open_consensus


BLOBS = ("memory", "local", "object_memory", "s3", "counting", "unreliable")
CLOUD_BLOBS = ("azure", "google")
CONSENSUSES = ("memory", "sqlite", "postgres", "counting", "unreliable")
