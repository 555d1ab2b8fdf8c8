"""What every catalog record is."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A catalog record. `oid` identifies the object over its life; the other fields are one version of it."""

    oid: int
