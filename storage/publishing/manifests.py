"""Manifests: which data files and which position deletes a snapshot has.

A publication writes one manifest of what is new, for each partition spec. Manifests of earlier ones are taken over as
they are while all that they name is live; when one is not, what is left of it goes into the new one. Beyond
`MOST_MANIFESTS` the small ones become one, as readers open each of them.

Of a manifest little more is remembered than what its files are called: some 20 bytes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from msgspec import Struct
from pyiceberg.avro.file import AvroFile
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from storage.lake.snapshots.memory_files import MemoryInput, MemoryOutput
from storage.publishing.names import Names, are_in, name_of
from storage.publishing.partitions import Partition
from storage.shards.parts import ColumnStats, Part, comparable_bound

MOST_MANIFESTS = 32
"""Manifests of one kind that a snapshot may have."""

FILE_PATH_FIELD = 2147483546
POSITION_FIELD = 2147483545
"""Iceberg's reserved ids of the columns of position deletes: file_path and pos."""


class Entry(Struct, frozen=True):
    """A live file, with the snapshot and the sequence number that it came with."""

    file: DataFile
    snapshot: int
    sequence: int


class Manifest(Struct, frozen=True):
    """A manifest that was written, the names of its files, and for each of them where in `since` the snapshot and the
    sequence number are that it came with."""

    file: ManifestFile
    names: Names
    since: tuple[tuple[int, int], ...]
    places: np.ndarray[tuple[int], np.dtype[np.uint32]]


class Writing(Struct, frozen=True, kw_only=True):
    """What the manifests of one snapshot have in common. `locate` gives a new file of a kind its location; `written`
    gathers the bytes of the files by their locations."""

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    snapshot: int
    sequence: int
    locate: Callable[[str], str]
    written: dict[str, bytes]


def kept(before: Sequence[Manifest], live: Names) -> list[Manifest]:
    """Those of `before` that stay: all their files are among the names `live`. Once there are `MOST_MANIFESTS`, the
    smallest half of them does not, and no larger one that has no more files than those together: so a file is written
    again a few times in all."""
    found = [manifest for manifest in before if are_in(manifest.names, live).all()]
    if len(found) < MOST_MANIFESTS:
        return found
    sizes = sorted([len(manifest.names) for manifest in found])
    merged = sum(sizes[: MOST_MANIFESTS // 2])
    most = sizes[MOST_MANIFESTS // 2 - 1]
    for size in sizes[MOST_MANIFESTS // 2 :]:
        if size > merged:
            break
        merged, most = merged + size, size
    return [manifest for manifest in found if len(manifest.names) > most]


def since(before: Iterable[Manifest], wanted: Names) -> dict[bytes, tuple[int, int]]:
    """With which snapshot and sequence number the `wanted` files came, as far as manifests have them."""
    found: dict[bytes, tuple[int, int]] = {}
    for manifest in before:
        at = np.flatnonzero(are_in(manifest.names, wanted))
        for name, place in zip(manifest.names[at].tolist(), manifest.places[at].tolist(), strict=True):
            found[name] = manifest.since[place]
    return found


def written(writing: Writing, content: ManifestContent, entries: Iterable[Entry]) -> list[Manifest]:
    """New manifests that name the files of `entries`, one for each spec. No more than one entry is held at a time."""
    open_: dict[int, _Open] = {}
    with ExitStack() as stack:
        for entry in entries:
            spec = entry.file.spec_id
            if spec not in open_:
                output = MemoryOutput(writing.locate("manifest.avro"))
                kind = ManifestWriterV2 if content is ManifestContent.DATA else _DeleteManifestWriter
                writer = kind(writing.specs[spec], writing.schema, output, writing.snapshot, "deflate")
                open_[spec] = _Open(output, stack.enter_context(writer))
            open_[spec].add(entry, is_new=entry.snapshot == writing.snapshot)
    return [open_[spec].closed(writing) for spec in sorted(open_)]


class _Open:
    """A manifest that is being written."""

    def __init__(self, output: MemoryOutput, writer: ManifestWriter) -> None:
        self._output = output
        self._writer = writer
        self._names: list[bytes] = []
        self._since: dict[tuple[int, int], int] = {}
        self._places: list[int] = []

    def add(self, entry: Entry, *, is_new: bool) -> None:
        self._writer.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED if is_new else ManifestEntryStatus.EXISTING,
                snapshot_id=entry.snapshot,
                sequence_number=entry.sequence,
                file_sequence_number=entry.sequence,
                data_file=entry.file,
            )
        )
        self._names.append(name_of(entry.file.file_path))
        self._places.append(self._since.setdefault((entry.snapshot, entry.sequence), len(self._since)))

    def closed(self, writing: Writing) -> Manifest:
        file = self._writer.to_manifest_file()
        # NOTE: what the list would else fill in for a manifest that is named for the first time.
        file.sequence_number = writing.sequence
        writing.written[self._output.location] = self._output.data
        return _manifest(file, self._names, self._since, self._places)


def _manifest(
    file: ManifestFile, names: Sequence[bytes], since: Iterable[tuple[int, int]], places: Sequence[int]
) -> Manifest:
    found = np.array(names, np.bytes_)
    order = np.argsort(found)
    return Manifest(file, found[order], tuple(since), np.array(places, np.uint32)[order])


def recalled(file: ManifestFile, data: bytes) -> Manifest:
    """The manifest `file`, which a publisher has written as `data`: reading takes a tenth of what writing does."""
    names: list[bytes] = []
    since: dict[tuple[int, int], int] = {}
    places: list[int] = []
    for entry in _entries(file.manifest_path, data):
        assert entry.snapshot_id is not None
        assert entry.sequence_number is not None
        names.append(name_of(entry.data_file.file_path))
        places.append(since.setdefault((entry.snapshot_id, entry.sequence_number), len(since)))
    return _manifest(file, names, since, places)


def paths_below(folder: str, location: str, data: bytes) -> set[str]:
    """The files below `folder` that the manifest at `location`, which is `data`, names."""
    return {path for entry in _entries(location, data) if (path := entry.data_file.file_path).startswith(folder)}


def _entries(location: str, data: bytes) -> Iterator[ManifestEntry]:
    # NOTE: not by the library's `fetch_manifest_entry`, which has a list of all entries, of 2 kB each.
    kinds: dict[int, Any] = {-1: ManifestEntry, 2: DataFile}
    with AvroFile[ManifestEntry](MemoryInput(location, data), MANIFEST_ENTRY_SCHEMAS[2], kinds) as entries:
        yield from entries


class _DeleteManifestWriter(ManifestWriterV2):
    """A manifest of position deletes, which the library reads and has no writer for."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def written_list(writing: Writing, parent: int | None, manifests: Sequence[Manifest]) -> str:
    """Writes the list of the manifests of a snapshot. Returns its location."""
    output = MemoryOutput(writing.locate("snapshot.avro"))
    with write_manifest_list(2, output, writing.snapshot, parent, writing.sequence, "deflate") as listing:
        listing.add_manifests([manifest.file for manifest in manifests])
    writing.written[output.location] = output.data
    return output.location


def data_file(part: Part, location: str, schema: Schema, place: Partition) -> DataFile:
    """The data file that `part` is, which is at `place`, with what is known of the table's columns."""
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for field in schema.fields:
        stats = part.stats.get(f"c{field.field_id}")
        if stats is None or not isinstance(field.field_type, PrimitiveType):
            continue
        if stats.null_count is not None:
            nulls[field.field_id] = stats.null_count
        low, high = _bounds(stats, field.field_type)
        if low is not None:
            lower[field.field_id] = low
        if high is not None:
            upper[field.field_id] = high
    return _file(
        DataFileContent.DATA,
        place,
        location,
        part.rows,
        part.bytes,
        value_counts=dict.fromkeys(nulls, part.rows) or None,
        null_value_counts=nulls or None,
        lower_bounds=lower or None,
        upper_bounds=upper or None,
    )


def delete_file(location: str, place: Partition, rows: int, size: int, first: str, last: str) -> DataFile:
    """The file of position deletes at `location`, of data files at `place` whose locations are from `first` to `last`.
    Those at other places it does not concern (table specification, "Scan Planning")."""
    return _file(
        DataFileContent.POSITION_DELETES,
        place,
        location,
        rows,
        size,
        value_counts={FILE_PATH_FIELD: rows, POSITION_FIELD: rows},
        null_value_counts={FILE_PATH_FIELD: 0, POSITION_FIELD: 0},
        lower_bounds={FILE_PATH_FIELD: first.encode()},
        upper_bounds={FILE_PATH_FIELD: last.encode()},
    )


def _file(content: DataFileContent, place: Partition, location: str, rows: int, size: int, **known: Any) -> DataFile:
    file = DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=place.record,
        record_count=rows,
        file_size_in_bytes=size,
        **known,
    )
    file.spec_id = place.spec
    return file


def _bounds(stats: ColumnStats, type: PrimitiveType) -> tuple[bytes | None, bytes | None]:
    """Both bounds of a column as Iceberg writes them."""
    low, high = comparable_bound(stats, stats.min), comparable_bound(stats, stats.max)
    if isinstance(type, (FloatType, DoubleType)):
        # Iceberg tells the two zeros apart, we do not.
        low, high = (-0.0 if low == 0 else low), (0.0 if high == 0 else high)
    return None if low is None else to_bytes(type, low), None if high is None else to_bytes(type, high)
