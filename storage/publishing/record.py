"""What is published: one register of the consensus store for each database, with the place of each table's metadata.

One compare-and-set changes it, so that tables which are published together appear together. A reader that has a
table's metadata reads nothing else of ours; what its snapshots need is kept by holds in the shards of the files.
"""

from __future__ import annotations

import uuid

from msgspec import Struct

from storage.clock import Clock
from storage.durable.registers import Register, decode_register
from storage.ids import ShardId
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn

PUBLICATION_PREFIX = "published/"
"""The keys of the registers in consensus: followed by the database's oid."""

PUSHED_PREFIX = "pushed/"
"""The keys of the registers that name what an external catalog may have: followed by the database's oid."""


def table_uuid(environment: str, relation: int) -> uuid.UUID:
    """The UUID of a published table or view, by which it is known as ours."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"tidegate:{environment}/{relation}")


class PublishedSnapshot(Struct, frozen=True, array_like=True):
    """One snapshot that the metadata of a table lists: its CSN, and the shard whose files it names."""

    csn: Csn
    shard: ShardId


class PublishedTable(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A published table. `metadata` and `previous` are keys of the blob store; `definition` says what it looked like.

    `snapshots`: what the metadata lists, the oldest first; the last one has the rows that readers see.
    """

    relation: int
    namespace: str
    name: str
    metadata: str
    previous: str | None = None
    definition: str
    snapshots: tuple[PublishedSnapshot, ...]

    @property
    def shard(self) -> ShardId:
        """The shard that the table was in when it was published."""
        return self.snapshots[-1].shard

    @property
    def csn(self) -> Csn:
        """The CSN whose rows readers see."""
        return self.snapshots[-1].csn

    def held(self) -> dict[ShardId, Csn]:
        """The shards that must stay readable, each from which CSN on."""
        found: dict[ShardId, Csn] = {}
        for snapshot in self.snapshots:
            found.setdefault(snapshot.shard, snapshot.csn)
        return found


class Publications(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one database has published. At `csn` all tables were as their newest snapshots say."""

    csn: Csn = Csn(0)
    tables: tuple[PublishedTable, ...] = ()

    def by_relation(self) -> dict[int, PublishedTable]:
        """The tables by their relations' oids."""
        return {table.relation: table for table in self.tables}


def publications(consensus: Consensus, clock: Clock, database: int) -> Register[Publications]:
    """The register of the database with the oid `database`."""
    key = f"{PUBLICATION_PREFIX}{database}"
    return Register(consensus, clock, key, "what is published", lambda data: decode_register(data, Publications, key))


class PushedRelation(Struct, frozen=True, array_like=True, order=True):
    """A table or view that an external catalog may have: the relation's oid, and the name there."""

    relation: int
    namespace: str
    name: str
    is_view: bool = False


class Pushed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `tables` and views of one database that an external catalog may have, and those that it has shown."""

    tables: frozenset[PushedRelation] = frozenset()
    shown: frozenset[PushedRelation] = frozenset()


def pushed_relations(consensus: Consensus, clock: Clock, database: int) -> Register[Pushed]:
    """The register of the database with the oid `database`."""
    key = f"{PUSHED_PREFIX}{database}"
    return Register(consensus, clock, key, "what is pushed", lambda data: decode_register(data, Pushed, key))
