"""Files of others in a simulation, which transactions add to tables as they are (`storage.lake.adopting`).

They lie beside the blob store. A file that the table does not own stays whatever happens; one that it owns is there for
as long as its link is, and goes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from storage.lake.adopting import Examined, linked
from storage.lake.places import LakeFile
from storage.lake.troubles import FileTrouble
from storage.shards.links import Link, LinkTarget
from storage.shards.parts import Part, checksum, encode_parquet, fingerprint, table_stats
from storage.stores.blob import ByteRange

if TYPE_CHECKING:
    from storage.environment.environment import Environment
    from storage.ids import ShardId
    from tests.simulation.world import World

NAMES = {"c1": "Key", "c2": "Its value"}
OWNED = 0.5
"""Share of the files that the table owns."""


class AddedFile(Struct, kw_only=True):
    """A file that somebody wanted to add. `data` is None once it has been removed."""

    key: str
    owned: bool
    data: bytes | None


class WorldFiles:
    """`storage.lake.linked.TargetFiles` over what a simulation remembers."""

    def __init__(self, files: dict[str, AddedFile]) -> None:
        self._files = files

    async def read(self, target: LinkTarget, byte_range: ByteRange | None) -> bytes:
        """See `TargetFiles.read`."""
        data = self._data(target)
        return data if byte_range is None else data[byte_range.start : byte_range.start + byte_range.length]

    async def check(self, target: LinkTarget) -> None:
        """See `TargetFiles.check`."""
        self._data(target)

    async def remove(self, target: LinkTarget) -> None:
        """See `TargetFiles.remove`."""
        self._files[target.path].data = None

    def _data(self, target: LinkTarget) -> bytes:
        data = self._files[target.path].data
        if data is None:
            raise FileTrouble("unreadable", f"{target.path} has vanished")
        return data


async def add_file(world: World, env: Environment, shard: ShardId, rows: pa.Table) -> Part:
    """A new file with `rows`, as a part of `shard` that a transaction may take over."""
    path = f"/others/{world.unique()}.parquet"
    data = encode_parquet(rows.rename_columns([NAMES[name] for name in rows.column_names]))
    owned = world.randomness.random() < OWNED
    added = world.added[path] = AddedFile(key="", owned=owned, data=data)
    found = Examined(
        file=LakeFile(path=path, size=len(data), version="1"),
        link=Link(path=path, names=NAMES),
        rows=rows.num_rows,
        stats=table_stats(rows),
        fingerprint=fingerprint(rows.schema),
        checksum=checksum(data),
    )
    part = await linked(env.parts, shard, found, owned=owned)
    assert part.key is not None
    added.key = part.key
    return part


def check_added(world: World, present: set[str]) -> None:
    """In the end: no file is gone that its table does not own, or whose link is among the blobs that are `present`."""
    for path, added in world.added.items():
        if added.data is None and (not added.owned or added.key in present):
            world.problem(f"{path} (owned: {added.owned}) of {added.key} is gone")
