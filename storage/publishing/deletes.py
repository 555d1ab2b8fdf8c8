"""Position deletes: for each data file the places of its deleted rows, in Parquet files of Iceberg's form.

What is deleted from a file only grows. So a publication writes one file, for each partition, with all deletes of those
data files of which more is deleted than before, and a file of an earlier one is kept while it is the newest of any data
file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from storage.publishing.manifests import FILE_PATH_FIELD, POSITION_FIELD, Entry, Writing, delete_file
from storage.publishing.partitions import Partition
from storage.publishing.sources import RowIds
from storage.shards.field_ids import FIELD_ID

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID: str(FILE_PATH_FIELD).encode()}),
        pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: str(POSITION_FIELD).encode()}),
    ]
)


class Deletes(Struct, frozen=True):
    """The delete files of a snapshot by location, and for each data file which of them is its newest, with how many of
    its rows that deletes."""

    files: Mapping[str, Entry]
    newest: Mapping[str, tuple[str, int]]


NO_DELETES = Deletes({}, {})


def advanced(
    writing: Writing,
    before: Deletes,
    positions: Mapping[str, RowIds],
    places: Mapping[str, Partition],
    deleted: Collection[str],
) -> Deletes:
    """The deletes of a snapshot whose data files at the locations `deleted` have deleted rows: at `positions` in those
    where others may be deleted than before, which are in `places`."""
    changed: dict[Partition, dict[str, RowIds]] = {}
    for location, found in positions.items():
        known = before.newest.get(location)
        if known is None or known[1] != len(found) or not _is_at(before.files[known[0]], places[location]):
            changed.setdefault(places[location], {})[location] = found
    newest = {location: before.newest[location] for location in deleted if location in before.newest}
    files = dict(before.files)
    for place, group in changed.items():
        location, entry = _write(writing, place, group)
        files[location] = entry
        newest.update({data: (location, len(found)) for data, found in group.items()})
    used = {location for location, _ in newest.values()}
    return Deletes({location: entry for location, entry in files.items() if location in used}, newest)


def _is_at(entry: Entry, place: Partition) -> bool:
    return entry.file.spec_id == place.spec and entry.file.partition == place.record


def _write(writing: Writing, place: Partition, positions: Mapping[str, RowIds]) -> tuple[str, Entry]:
    """Writes one file with these deletes of data files at `place`, sorted by data file and position."""
    names = sorted(positions)
    rows = sum(len(positions[name]) for name in names)
    paths = pa.concat_arrays([pa.repeat(pa.scalar(name, pa.string()), len(positions[name])) for name in names])
    places = pa.array(np.concatenate([positions[name] for name in names]), pa.int64())
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([paths, places], schema=_SCHEMA), sink, compression="zstd")
    data = bytes(sink.getvalue().to_pybytes())
    location = writing.locate("deletes.parquet")
    writing.written[location] = data
    file = delete_file(location, place, rows, len(data), names[0], names[-1])
    return location, Entry(file, writing.snapshot, writing.sequence)
