"""TODO docstring."""

from __future__ import annotations

KEEP_ALIVE_S = 10.0
"""Interval of the one write of an idle process; a third of the lease, so that two may fail."""


APPLY_PAUSE_S = 0.25
"""How long commits gather before they are copied into their data shards together: readers do not need that, and each
copying takes a turn of the disk from the commits."""


MAINTENANCE_S = 1.0
"""Pause between rounds of maintenance."""


ORPHAN_ROUNDS = 120
"""Rounds of maintenance between listings of the blob store for uploads that were never committed."""
