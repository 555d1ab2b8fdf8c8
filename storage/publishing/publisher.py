"""Publishing: tables of one database at one CSN, as Iceberg tables.

1. Each table whose rows or definition have changed since its last publication gets its files, manifests and metadata,
   under keys that nobody has used (`iceberg/<oid>/<process>-...`). Nothing that is published names them yet.
2. The shards are held at what the metadata lists (`Leases.critical_hold`): no file of theirs goes.
3. One change of the register (`storage.publishing.record`) shows them all. Who finds that another process was faster
   begins again.
4. Holds move up to the oldest snapshot that is still listed; files that no listed snapshot names are removed.

A crash before 3 leaves files that a later `clean` removes, and after 3 at most holds that are too low, which the next
publication moves. What a process remembers of its last publication only saves work: without it, all of the newest
snapshot's manifests are read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pyiceberg.manifest import ManifestContent, read_manifest_list
from pyiceberg.table.metadata import TableMetadataV2

from storage.clock import Clock, Randomness
from storage.errors import UnknownShard, missing_blob
from storage.ids import ShardId, random_text
from storage.lake.snapshots.memory_files import MemoryInput
from storage.membership.leases import Leases
from storage.publishing import deletes as position_deletes
from storage.publishing import manifests
from storage.publishing.columns import PublishableTable, PublishedColumn
from storage.publishing.deletes import NO_DELETES, Deletes
from storage.publishing.manifests import Entry, Manifest, Writing, data_file, written_list
from storage.publishing.metadata import Totals, next_metadata, parsed, with_schema
from storage.publishing.names import Names, are_in, joined, name_of, names_of
from storage.publishing.partitions import with_orders, with_specs
from storage.publishing.record import Publications, PublishedSnapshot, PublishedTable, publications, table_uuid
from storage.publishing.schemas import iceberg_schema, name_mapping
from storage.publishing.sources import Fold, Group, Sources
from storage.reading.reader import ShardReader
from storage.shards.packed_parts import Block
from storage.shards.part_store import PartStore
from storage.shards.partitions.transforms import PartitionField
from storage.shards.parts import Part
from storage.stores.blob import Blob
from storage.stores.consensus import Consensus
from storage.timestamps.csn import Csn, csn_from_ms, csn_ms

HOLD = "published"
"""The name of the critical hold in a shard whose files are published."""

MOST_SNAPSHOTS = 100
"""Snapshots that the metadata of a table lists."""

CLEAN_EVERY = 60
"""Publications of a table between two looks for files that nothing names."""


class OvertakenPublication(Exception):
    """Another process has published the same database meanwhile."""


@dataclass(kw_only=True)
class _Remembered:
    """The last publication of a table by this process: good while its metadata is the published one."""

    metadata: str
    columns: Sequence[PublishedColumn] = ()
    groups: Mapping[Block, Group] = field(default_factory=dict)
    specs: Mapping[tuple[PartitionField, ...], int] = field(default_factory=dict)
    data_manifests: Sequence[Manifest] = ()
    deletes: Deletes = NO_DELETES
    delete_manifests: Sequence[Manifest] = ()
    folds: Sequence[Fold] = ()
    publications: int = 0


class Publisher:
    """The publishing of one process. `location` gives the address of a blob's key for readers outside."""

    def __init__(
        self,
        *,
        environment: str,
        process: str,
        blob: Blob,
        location: Callable[[str], str],
        consensus: Consensus,
        clock: Clock,
        random: Randomness,
        reader: ShardReader,
        parts: PartStore,
        leases: Leases,
        is_alive: Callable[[str], bool],
    ) -> None:
        self._environment = environment
        self._process = process
        self._blob = blob
        self._location = location
        self._consensus = consensus
        self._clock = clock
        self._random = random
        self._reader = reader
        self._parts = parts
        self._leases = leases
        self._is_alive = is_alive
        self._remembered: dict[int, _Remembered] = {}
        self._lock = asyncio.Lock()

    async def publish(
        self, database: int, tables: Sequence[PublishableTable], csn: Csn, *, gone: frozenset[int] = frozenset()
    ) -> Publications:
        """Show `tables` at `csn`, and no longer those whose oids are `gone`. Returns what is published then.

        What is published at a later CSN already stays as it is. Raises OvertakenPublication when another process has
        published one of them meanwhile, and what the stores and `ShardReader.snapshot` raise.
        """
        async with self._lock:
            register = publications(self._consensus, self._clock, database)
            found = await register.read() or Publications()
            if csn < found.csn:
                return found
            known = found.by_relation()
            made: dict[int, tuple[PublishedTable, _Remembered]] = {}
            async with await self._leases.hold([table.shard for table in tables], csn):
                for table in tables:
                    before = known.get(table.relation)
                    if before is None or self._has_news(table, before, csn):
                        made[table.relation] = await self._table(table, before, csn)
                for after, _ in made.values():
                    if not any(s.shard == after.shard for s in getattr(known.get(after.relation), "snapshots", ())):
                        await self._leases.critical_hold(after.shard, HOLD, csn)
                ended = [known[oid] for oid in gone if oid in known]

                shown = {**known, **{oid: after for oid, (after, _) in made.items()}}
                new = Publications(csn=csn, tables=tuple(shown[oid] for oid in sorted(shown) if oid not in gone))

                async def propose(now: Publications | None) -> Publications:
                    if now == new:
                        return now  # An earlier attempt, of which nobody knew how it had ended.
                    if (now or Publications()) != found:
                        raise OvertakenPublication
                    return new

                published = await register.change(propose)
            for oid, (after, remembered) in made.items():
                self._remembered[oid] = remembered
                await self._move_holds(known.get(oid), after)
                remembered.publications += 1
                if remembered.publications % CLEAN_EVERY == 1:
                    await self.clean(after)
            for before in ended:
                await self._end(before)
            return published

    def _has_news(self, table: PublishableTable, before: PublishedTable, csn: Csn) -> bool:
        """Whether readers see anything else at `csn` than what is published."""
        if csn <= before.csn:
            return False  # What has been written since is not to be seen at `csn` either.
        if before.definition != table.definition or (before.namespace, before.name) != (table.namespace, table.name):
            return True
        return self._reader.last_write(table.shard) > before.csn

    async def _table(
        self, table: PublishableTable, before: PublishedTable | None, csn: Csn
    ) -> tuple[PublishedTable, _Remembered]:
        """Writes everything that shows `table` at `csn`."""
        known = self._remembered.get(table.relation)
        if known is None or before is None or known.metadata != before.metadata:
            known = _Remembered(metadata="")
        snapshot = await self._reader.snapshot(table.shard, csn)
        new_key = partial(self._new_key, table, "data.parquet")
        sources = Sources(self._reader, self._parts, new_key, self._blob.put, self._file)
        deleted = await sources.deleted(snapshot)
        same = known.groups if known.columns == table.columns else {}
        files = await sources.files(snapshot, table.columns, known.folds, same, deleted)
        old = None if before is None else parsed(await self._read(before.metadata))
        schemas, schema_id = with_schema(old, iceberg_schema(table.columns))
        schema = next(each for each in schemas if each.schema_id == schema_id)
        if old is not None and before is not None and not known.metadata and schema_id == old.current_schema_id:
            known.data_manifests = await self._recalled(before, old)
        keys: dict[str, str] = {}

        def locate(kind: str) -> str:
            key = self._new_key(table, kind)
            location = self._location(key)
            keys[location] = key
            return location

        sequence = 1 if old is None else old.last_sequence_number + 1
        kept = self._kept(table, before, csn)
        used = dict.fromkeys([fields for group in files.groups for fields in sorted(group.partitions, key=repr)])
        specs = with_specs(old, schema, table.layout, used)
        writing = Writing(schema=schema, specs=specs.by_id, snapshot=csn, sequence=sequence, locate=locate, written={})
        # A file is where it was, unless a column that it was partitioned by has gone or is of another type.
        moved = bool(known.columns) and known.columns != table.columns and any(known.specs)

        def entries(missing: Names) -> Iterator[Entry]:
            since = manifests.since(known.data_manifests, missing)
            wanted = set(missing.tolist())
            for group in files.groups:
                if not are_in(group.names, missing).any():
                    continue
                for part in group.parts:
                    location = self._file(part)
                    name = name_of(location)
                    if name in wanted:
                        place = specs.partition_of(part, schema)
                        came = since.get(name, (csn, sequence))
                        yield Entry(data_file(part, location, schema, place), *came)

        def write() -> tuple[_Remembered, bytes]:
            live = joined([group.names for group in files.groups])
            kept_data = [] if moved else manifests.kept(known.data_manifests, live)
            missing = live[~are_in(live, joined([manifest.names for manifest in kept_data]))]
            data_manifests = [*kept_data, *manifests.written(writing, ManifestContent.DATA, entries(missing))]
            positions = {location: rows for location, (_, rows) in files.positions.items()}
            places = {location: specs.partition_of(part, schema) for location, (part, _) in files.positions.items()}
            counts = files.deleted
            removed = position_deletes.advanced(writing, known.deletes, positions, places, counts.keys())
            kept_deletes = manifests.kept(known.delete_manifests, names_of(removed.files))
            named = joined([manifest.names for manifest in kept_deletes])
            rest = [entry for at, entry in removed.files.items() if not are_in(names_of([at]), named).all()]
            delete_manifests = [*kept_deletes, *manifests.written(writing, ManifestContent.DELETES, rest)]
            listing = written_list(
                writing, old.current_snapshot_id if old else None, [*data_manifests, *delete_manifests]
            )
            metadata = next_metadata(
                old,
                before_location=None if before is None else self._location(before.metadata),
                table=table_uuid(self._environment, table.relation),
                location=self._location(f"iceberg/{table.relation}"),
                csn=csn,
                schemas=schemas,
                schema_id=schema_id,
                sequence=sequence,
                manifest_list=listing,
                totals=Totals(
                    data_files=len(live),
                    delete_files=len(removed.files),
                    records=sum(group.rows for group in files.groups),
                    deleted=counts.total(),
                    bytes=sum(group.bytes for group in files.groups),
                ),
                specs=specs,
                orders=with_orders(old, schema, table.layout),
                mapping=name_mapping((version.schema() for version in snapshot.schemas), files.names),
                kept=[each.csn for each in kept],
            )
            remembered = _Remembered(
                metadata="",
                columns=table.columns,
                groups={group.block: group for group in files.groups if group.block is not None},
                specs=specs.known,
                data_manifests=data_manifests,
                deletes=removed,
                delete_manifests=delete_manifests,
                folds=files.folds,
                publications=known.publications,
            )
            return remembered, metadata.model_dump_json(exclude_none=True, by_alias=True).encode()

        remembered, metadata = await asyncio.to_thread(write)
        await self._store({keys[location]: data for location, data in writing.written.items()})
        remembered.metadata = self._new_key(table, "metadata.json")
        await self._store({remembered.metadata: metadata})
        after = PublishedTable(
            relation=table.relation,
            namespace=table.namespace,
            name=table.name,
            metadata=remembered.metadata,
            previous=None if before is None else before.metadata,
            definition=table.definition,
            snapshots=kept,
        )
        return after, remembered

    async def _recalled(self, table: PublishedTable, metadata: TableMetadataV2) -> Sequence[Manifest]:
        """The manifests of data files that the newest snapshot in `metadata` has. What cannot be found is left out, and
        written anew."""
        snapshot = metadata.current_snapshot()
        assert snapshot is not None
        listing = await self._blob.get(_key(table, snapshot.manifest_list))
        found = []
        for file in [] if listing is None else read_manifest_list(MemoryInput(snapshot.manifest_list, listing)):
            data = await self._blob.get(_key(table, file.manifest_path))
            if data is not None and file.content is ManifestContent.DATA:
                found.append(await asyncio.to_thread(manifests.recalled, file, data))
        return found

    def _kept(self, table: PublishableTable, before: PublishedTable | None, csn: Csn) -> tuple[PublishedSnapshot, ...]:
        """The snapshots that the metadata lists: those that were the newest within what is kept, and that at `csn`."""
        earlier = [each for each in (() if before is None else before.snapshots) if each.csn < csn]
        oldest = csn_from_ms(max(csn_ms(csn) - table.keep_ms, 0))
        overtaken = [*[each.csn for each in earlier[1:]], csn]
        earlier = [each for each, until in zip(earlier, overtaken, strict=False) if until >= oldest]
        return (*earlier[-(MOST_SNAPSHOTS - 1) :], PublishedSnapshot(csn, table.shard))

    async def _move_holds(self, before: PublishedTable | None, after: PublishedTable) -> None:
        held, had = after.held(), {} if before is None else before.held()
        for shard, csn in held.items():
            if had.get(shard) != csn and shard == after.shard:
                await self._leases.critical_hold(shard, HOLD, csn)
        for shard in sorted(had.keys() - held.keys()):
            await self._release(shard)

    async def _release(self, shard: ShardId) -> None:
        with contextlib.suppress(UnknownShard):
            await self._leases.release_critical_hold(shard, HOLD)

    async def _end(self, before: PublishedTable) -> None:
        """What is left to do once a table is published no longer."""
        self._remembered.pop(before.relation, None)
        for shard in before.held():
            await self._release(shard)
        async for entry in self._blob.list(f"iceberg/{before.relation}/"):
            await self._blob.delete(entry.key)

    async def clean(self, table: PublishedTable) -> int:
        """Remove the files of `table` below ``iceberg/`` that nothing names, but for those of other processes that
        live, and those in folders, which external catalogs write. Returns how many. Whoever publishes it must not do
        so meanwhile."""
        folder = f"iceberg/{table.relation}/"
        listed = [entry.key async for entry in self._blob.list(folder) if "/" not in entry.key.removeprefix(folder)]
        named = await self._named(table)
        removed = 0
        for key in listed:
            process = key.rpartition("/")[2].rpartition("-")[0]
            if self._location(key) not in named and (process == self._process or not self._is_alive(process)):
                await self._blob.delete(key)
                removed += 1
        return removed

    async def _named(self, table: PublishedTable) -> set[str]:
        """The locations that the metadata of `table` leads to, of data files only those below its own folder."""
        folder = self._location(f"iceberg/{table.relation}") + "/"
        metadata = parsed(await self._read(table.metadata))
        named = {self._location(table.metadata), *(entry.metadata_file for entry in metadata.metadata_log)}
        for snapshot in metadata.snapshots:
            if snapshot.manifest_list in named:
                continue
            named.add(snapshot.manifest_list)
            listing = await self._read_location(table, snapshot.manifest_list)
            for manifest in read_manifest_list(MemoryInput(snapshot.manifest_list, listing)):
                path = manifest.manifest_path
                if path in named:
                    continue
                named.add(path)
                data = await self._read_location(table, path)
                named |= await asyncio.to_thread(manifests.paths_below, folder, path, data)
        return named

    def _file(self, part: Part) -> str:
        """Where the file of `part` is."""
        link = part.link
        if link is None:
            assert part.key is not None
            return self._location(part.key)
        return f"file://{link.path}" if link.is_local else link.path

    def _new_key(self, table: PublishableTable, kind: str) -> str:
        return f"iceberg/{table.relation}/{self._process}-{random_text(self._random)}.{kind}"

    async def _store(self, files: Mapping[str, bytes]) -> None:
        for key, data in files.items():
            await self._blob.put(key, data)

    async def _read(self, key: str) -> bytes:
        data = await self._blob.get(key)
        if data is None:
            raise missing_blob(key)
        return data

    async def _read_location(self, table: PublishedTable, location: str) -> bytes:
        return await self._read(_key(table, location))


def _key(table: PublishedTable, location: str) -> str:
    """The key of a file that publishing has written to `location`."""
    return f"iceberg/{table.relation}/{location.rpartition('/')[2]}"
