"""What identifies an environment: one record in consensus, written when it is created and never changed."""

from __future__ import annotations

import contextlib

import msgspec

from storage.clock import Randomness
from storage.consensus import FIRST_SEQNO, Consensus, VersionedData
from storage.durable import FORMAT_VERSION
from storage.errors import CorruptState, ForeignEnvironment, Indeterminate, NewerFormat
from storage.ids import random_text
from storage.txns_state import TXNS_KEY

ENVIRONMENT_KEY = "environment"


class EnvironmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies an environment. `product` guards against foreign stores."""

    product: str
    format: int
    id: str


async def identify(consensus: Consensus, random: Randomness) -> EnvironmentRecord:
    """The environment's record, made now if the store is empty.

    Raises ForeignEnvironment when the store holds something else or half an environment, NewerFormat, CorruptState.
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
        record = EnvironmentRecord(product="tidegate", format=FORMAT_VERSION, id=random_text(random))
        data = VersionedData(seqno=FIRST_SEQNO, data=msgspec.json.encode(record))
        with contextlib.suppress(Indeterminate):
            await consensus.compare_and_set(ENVIRONMENT_KEY, None, data)
    try:
        record = msgspec.json.decode(head.data, type=EnvironmentRecord)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"the environment record cannot be decoded: {error}") from error
    if record.product != "tidegate":
        raise ForeignEnvironment(f"the store belongs to {record.product!r}, not to Tidegate")
    if record.format > FORMAT_VERSION:
        raise NewerFormat(
            f"the environment has format {record.format}, but this version of Tidegate reads formats up to "
            f"{FORMAT_VERSION}; upgrade Tidegate"
        )
    return record
