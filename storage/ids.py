"""Identifiers of durable things."""

from __future__ import annotations

from typing import NewType

ShardId = NewType("ShardId", str)
"""Names one shard for ever; ``s`` followed by 26 base-32 characters."""
