"""What identifies an environment: one record in consensus, written when it is created and never changed.

The blob store has a marker with the same id, so that the two halves of an environment know each other. It is written
first: whoever finds a record knows that there was a marker.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

import msgspec

from storage.clock import Randomness
from storage.durable.state import FORMAT_VERSION
from storage.errors import CorruptState, ForeignEnvironment, Indeterminate, NewerFormat, StoreUnavailable
from storage.ids import random_text
from storage.stores.blob import Blob, BlobEntry
from storage.stores.consensus import FIRST_SEQNO, Consensus, VersionedData
from storage.transactions.txns_state import TXNS_KEY

ENVIRONMENT_KEY = "environment"
MARKER_KEY = "environment.json"
DATA_PREFIXES = ("parts/", "rollups/")


COMPLETE_KEY = "environment.complete.json"
"""Written once both halves are there: from then on an empty consensus store has lost something. The marker alone may
come from an attempt to make the environment that was cut short."""

COMPLETE = b'{"product":"tidegate"}'


class EnvironmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies an environment. `product` guards against foreign stores; `marked`: its blob store has a marker,
    which those made by the first versions do not."""

    product: str
    format: int
    id: str
    marked: bool = False


class _Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The blob store's side."""

    product: str
    id: str


async def identify(
    consensus: Consensus, random: Randomness, blob: Blob, known: int = FORMAT_VERSION
) -> EnvironmentRecord:
    """The environment's record, made now if both stores are empty.

    Raises ForeignEnvironment when a store holds something else or the two do not belong together, NewerFormat,
    CorruptState.
    """
    while True:
        head = await consensus.head(ENVIRONMENT_KEY)
        if head is not None:
            break
        if await consensus.head(TXNS_KEY) is not None:
            raise ForeignEnvironment(
                "the consensus store has transactions but no environment record: it is half an environment; "
                "restore the missing half from a backup"
            )
        if await _has_data(blob):
            if await consensus.head(ENVIRONMENT_KEY) is not None:
                continue  # Somebody else has made it meanwhile, and written to it.
            raise ForeignEnvironment(
                "the blob store holds the data of an environment, but the consensus store is empty; restore the "
                "consensus store from a backup, or choose an empty blob store for a new environment"
            )
        marker = await _mark(blob, random_text(random))
        record = EnvironmentRecord(product="tidegate", format=known, id=marker.id, marked=True)
        data = VersionedData(seqno=FIRST_SEQNO, data=msgspec.json.encode(record))
        with contextlib.suppress(Indeterminate):
            await consensus.compare_and_set(ENVIRONMENT_KEY, None, data)
    record = decode_record(head.data, known)
    await check_marker(blob, record)
    if not record.marked:
        await _mark(blob, record.id)
    if await blob.size(COMPLETE_KEY) is None:
        # Should it not be there after all, the next open writes it.
        with contextlib.suppress(Indeterminate):
            await blob.put_if_absent(COMPLETE_KEY, COMPLETE)
    return record


def decode_record(data: bytes, known: int = FORMAT_VERSION) -> EnvironmentRecord:
    """The record that `data` holds. Raises ForeignEnvironment when it is not Tidegate's, NewerFormat, CorruptState."""
    try:
        record = msgspec.json.decode(data, type=EnvironmentRecord)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"the environment record cannot be decoded: {error}") from error
    if record.product != "tidegate":
        raise ForeignEnvironment(f"the store belongs to {record.product!r}, not to Tidegate")
    if record.format > known:
        raise NewerFormat(
            f"the environment has format {record.format}, but this version of Tidegate reads formats up to "
            f"{known}; upgrade Tidegate"
        )
    return record


async def check_marker(blob: Blob, record: EnvironmentRecord) -> None:
    """Raise ForeignEnvironment unless `blob` is the blob store of the environment `record`."""
    found = await _marker(blob)
    if found is None and record.marked:
        raise ForeignEnvironment(
            f"the blob store is not that of environment {record.id}, or has been emptied: its marker {MARKER_KEY} is "
            "missing; name the right blob store, or restore it from a backup"
        )
    if found is not None and found.id != record.id:
        raise ForeignEnvironment(
            f"the blob store belongs to environment {found.id}, the consensus store to environment {record.id}; "
            "name two stores that belong together"
        )


async def _mark(blob: Blob, id: str) -> _Marker:
    """The blob store's marker, made now with `id` if it has none. Raises StoreUnavailable for a store that writes over
    it."""
    while True:
        with contextlib.suppress(Indeterminate):
            await blob.put_if_absent(MARKER_KEY, msgspec.json.encode(_Marker(product="tidegate", id=id)))
        found = await _marker(blob)
        if found is None:
            continue
        with contextlib.suppress(Indeterminate):
            if await blob.put_if_absent(MARKER_KEY, msgspec.json.encode(found)):
                raise StoreUnavailable("the blob store has no conditional writes: it has written over an object")
            return found


async def _marker(blob: Blob) -> _Marker | None:
    data = await blob.get(MARKER_KEY)
    if data is None:
        return None
    try:
        marker = msgspec.json.decode(data, type=_Marker)
    except msgspec.MsgspecError as error:
        raise ForeignEnvironment(f"the blob store's {MARKER_KEY} is not Tidegate's: {error}") from error
    if marker.product != "tidegate":
        raise ForeignEnvironment(f"the blob store belongs to {marker.product!r}, not to Tidegate")
    return marker


async def _has_data(blob: Blob) -> bool:
    if await blob.size(COMPLETE_KEY) is not None:
        return True
    for prefix in DATA_PREFIXES:
        async with contextlib.aclosing(_closable(blob, prefix)) as entries:
            async for _ in entries:
                return True
    return False


def _closable(blob: Blob, prefix: str) -> AsyncGenerator[BlobEntry, None]:
    """A listing that can be left early: every store's is a generator."""
    entries = blob.list(prefix)
    assert isinstance(entries, AsyncGenerator)
    return entries
