"""Identifiers of durable things, made from injected randomness."""

from __future__ import annotations

import base64
from typing import NewType

from storage.clock import Randomness

ShardId = NewType("ShardId", str)
"""Names one shard for ever: ``s`` followed by 26 base-32 characters, ``t`` when it is of a temporary table."""

CATALOG_SHARD = ShardId("s" + "catalog".ljust(26, "a"))
"""The catalog's shard, the same in every environment."""

STATISTICS_SHARD = ShardId("s" + "statistics".ljust(26, "a"))
"""The shard of what ANALYZE has gathered, the same in every environment that has it: it is made when first needed."""


def random_text(random: Randomness) -> str:
    """26 lower-case base-32 characters with 128 bits of randomness."""
    return base64.b32encode(random.randbytes(16)).decode().rstrip("=").lower()


def new_shard_id(random: Randomness) -> ShardId:
    """An id that no other shard of any environment has."""
    return ShardId("s" + random_text(random))


def new_temporary_shard_id(random: Randomness) -> ShardId:
    """An id for the rows of a temporary table, which no store knows as a shard."""
    return ShardId("t" + random_text(random))


def is_temporary(shard: ShardId) -> bool:
    """Whether the rows of this shard belong to one session."""
    return shard[0] == "t"


def new_token(random: Randomness) -> str:
    """An idempotency token for one attempt to change something durable."""
    return base64.b32encode(random.randbytes(10)).decode().lower()
