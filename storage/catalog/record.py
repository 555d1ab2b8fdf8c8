"""What every catalog record is."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """A catalog record. `oid` identifies the object over its life; the other fields are one version of it. What a later
    version of Tidegate says in it is refused, not left out."""

    oid: int


class IndexMarks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What ALTER TABLE has said of a table's indexes. `clustered`: the oid of the one in CLUSTER ON, 0 for none.
    `identity`: pg_class.relreplident, `identity_index` the oid of the index where that is ``i``."""

    clustered: int = 0
    identity: str = "d"
    identity_index: int = 0
