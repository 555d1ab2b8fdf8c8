"""Manifests: which data files and which position deletes a snapshot has.

A publication writes one manifest of what is new, for each partition spec. Manifests of earlier ones are taken over as
they are while all that they name is live; when one is not, what is left of it goes into the new one. Beyond
`MOST_MANIFESTS` all become one, as readers open each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, PrimitiveType

from storage.lake.snapshots.memory_files import MemoryOutput
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
    """A manifest that was written, and the locations of the files that it names."""

    file: ManifestFile
    locations: frozenset[str]


class Writing(Struct, frozen=True, kw_only=True):
    """What the manifests of one snapshot have in common. `locate` gives a new file of a kind its location; `written`
    gathers the bytes of the files by their locations."""

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    snapshot: int
    sequence: int
    locate: Callable[[str], str]
    written: dict[str, bytes]


def advanced(
    writing: Writing, content: ManifestContent, before: Sequence[Manifest], live: Mapping[str, Entry]
) -> list[Manifest]:
    """The manifests that name the files `live`, by location: of those of `before` what still holds, and a new one."""
    kept = [manifest for manifest in before if manifest.locations <= live.keys()]
    if len(kept) >= MOST_MANIFESTS:
        kept = []
    named: set[str] = set().union(*(manifest.locations for manifest in kept))
    rest = {location: entry for location, entry in live.items() if location not in named}
    by_spec: dict[int, dict[str, Entry]] = {}
    for location, entry in rest.items():
        by_spec.setdefault(entry.file.spec_id, {})[location] = entry
    return [*kept, *(_write(writing, content, writing.specs[spec], by_spec[spec]) for spec in sorted(by_spec))]


class _DeleteManifestWriter(ManifestWriterV2):
    """A manifest of position deletes, which the library reads and has no writer for."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _write(writing: Writing, content: ManifestContent, spec: PartitionSpec, entries: Mapping[str, Entry]) -> Manifest:
    output = MemoryOutput(writing.locate("manifest.avro"))
    writer = ManifestWriterV2 if content is ManifestContent.DATA else _DeleteManifestWriter
    with writer(spec, writing.schema, output, writing.snapshot, "deflate") as manifest:
        for entry in entries.values():
            is_new = entry.snapshot == writing.snapshot
            manifest.add_entry(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED if is_new else ManifestEntryStatus.EXISTING,
                    snapshot_id=entry.snapshot,
                    sequence_number=entry.sequence,
                    file_sequence_number=entry.sequence,
                    data_file=entry.file,
                )
            )
    file = manifest.to_manifest_file()
    # NOTE: what the list would else fill in for a manifest that is named for the first time.
    file.sequence_number = writing.sequence
    writing.written[output.location] = output.data
    return Manifest(file, frozenset(entries))


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
