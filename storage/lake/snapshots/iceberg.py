"""Iceberg tables (format versions 1 to 3) read by their metadata: https://iceberg.apache.org/spec/.

pyiceberg reads metadata and manifests; what it opens are files of the places that are allowed, and no others. Columns
are known by their field ids, whatever a file calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, from_json
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.transforms import IdentityTransform, Transform, TruncateTransform, UnknownTransform, VoidTransform
from pyiceberg.types import PrimitiveType

from storage.lake.formats import reading
from storage.lake.places import LakeFile, Places, located
from storage.lake.snapshots.equality import EqualityDeletes, HeldColumns
from storage.lake.snapshots.memory_files import MemoryInput
from storage.lake.snapshots.tables import Positions, SnapshotFile, SnapshotListing, known_of, statistics
from storage.lake.tables import plain_type
from storage.lake.troubles import FileTrouble, malformed
from storage.shards.parts import ColumnStats, stat_value

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_SUFFIX = ".metadata.json"
_NUMBER = re.compile(r"v?(\d+)")

MAX_DELETE_FILES = 64
"""Delete files of one reading of a table that are kept in memory, decoded."""


def newest_metadata(places: Places, path: str) -> str:
    """The metadata file of the table at `path`: the path itself where it names one, else the newest one there is in its
    folder ``metadata``. Raises FileTrouble (missing)."""
    if path.endswith(_SUFFIX):
        return path
    folder = f"{path.rstrip('/')}/metadata"
    try:
        found = places.files((f"{folder}/*{_SUFFIX}",), ())
    except FileTrouble as trouble:
        if trouble.kind != "missing":
            raise
        raise FileTrouble("missing", f'"{path}" is no Iceberg table: it has no metadata') from trouble
    return max(found, key=_age).path


def _age(file: LakeFile) -> tuple[int, str]:
    number = _NUMBER.match(file.path.rpartition("/")[2])
    return (int(number[1]) if number else -1, file.path)


def iceberg_listing(
    places: Places, where: str, metadata_file: str, *, snapshot_id: int | None = None, as_of: datetime | None = None
) -> SnapshotListing:
    """The table of a metadata file as its newest snapshot has it, as `snapshot_id` has it, or as it was at `as_of`;
    `where` is what the table is called. Raises FileTrouble."""
    io = _PlacesIO(places)
    with _understood(metadata_file):
        metadata = FromInputFile.table_metadata(io.new_input(metadata_file))
    snapshot = _snapshot(metadata, where, snapshot_id, as_of)
    past = snapshot_id is not None or as_of is not None
    schema = metadata.schema()
    if past and snapshot is not None and snapshot.schema_id is not None:
        schema = next((each for each in metadata.schemas if each.schema_id == snapshot.schema_id), schema)
    ids = {field.name: field.field_id for field in schema.fields}
    defaults = {
        field.name: from_json(field.field_type, field.initial_default)
        for field in schema.fields
        if field.initial_default is not None and isinstance(field.field_type, PrimitiveType)
    }
    with_ids = schema_to_pyarrow(schema)
    arrow = pa.schema([pa.field(field.name, plain_type(field.type)) for field in with_ids])
    with _understood(metadata_file):
        tasks, equality = ((), None) if snapshot is None else _planned(io, metadata, snapshot)
        mapping = metadata.name_mapping()
    # Files that were adopted have no field ids, and go on calling columns as they were called then.
    names = (
        None
        if mapping is None
        else {name: each.field_id for each in mapping.root if each.field_id is not None for name in each.names}
    )
    deletes = _Deletes(io, equality, ids if names is None else names)
    with _understood(metadata_file):
        files = tuple(_file(task, metadata, ids, arrow, defaults, deletes) for task in tasks)
    return SnapshotListing(where=where, schema=arrow, files=files, field_ids=ids, mapped_names=names, with_ids=with_ids)


def _snapshot(metadata: TableMetadata, where: str, snapshot_id: int | None, as_of: datetime | None) -> Snapshot | None:
    if snapshot_id is not None:
        found = metadata.snapshot_by_id(snapshot_id)
        if found is None:
            raise FileTrouble("missing", f'table "{where}" has no snapshot {snapshot_id}')
        return found
    if as_of is not None:
        limit = int(as_of.timestamp() * 1000)
        current = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= limit]
        found = metadata.snapshot_by_id(current[-1].snapshot_id) if current else None
        if found is None:
            raise FileTrouble("missing", f'table "{where}" has no snapshot of {as_of.astimezone(UTC).isoformat(" ")}')
        return found
    return metadata.current_snapshot()


def _planned(
    io: _PlacesIO, metadata: TableMetadata, snapshot: Snapshot
) -> tuple[Iterable[FileScanTask], EqualityDeletes | None]:
    """The data files of `snapshot`, each with its position deletes, and the equality deletes."""
    from pyiceberg.table import ManifestGroupPlanner

    came: dict[str, int] = {}
    by_values: list[ManifestEntry] = []

    def is_planned(entry: ManifestEntry) -> bool:
        """Whether the library, which knows no equality deletes, is to take it."""
        if entry.data_file.content is DataFileContent.EQUALITY_DELETES:
            by_values.append(entry)
            return False
        if entry.data_file.content is DataFileContent.DATA:
            came[entry.data_file.file_path] = entry.sequence_number or 0
        return True

    tasks = ManifestGroupPlanner(metadata, io).plan_files(snapshot.manifests(io), is_planned)
    return tasks, EqualityDeletes(io.places, metadata, by_values, came) if by_values else None


def _file(
    task: FileScanTask,
    metadata: TableMetadata,
    ids: Mapping[str, int],
    schema: pa.Schema,
    defaults: Mapping[str, Any],
    deletes: _Deletes,
) -> SnapshotFile:
    data = task.file
    path = located(data.file_path)
    if data.file_format != FileFormat.PARQUET:
        raise FileTrouble("unsupported", f'file "{path}" is of format {data.file_format.value}, which is not supported')
    types: dict[int, Any] = {field.field_id: field.field_type for each in metadata.schemas for field in each.fields}
    lows, highs, nulls = data.lower_bounds or {}, data.upper_bounds or {}, data.null_value_counts or {}
    partitions = {
        field.source_id: (field.transform, data.partition[place])
        for place, field in enumerate(metadata.specs()[data.spec_id].fields)
        if not isinstance(field.transform, VoidTransform | UnknownTransform)
    }
    stats = {}
    for name, number in ids.items():
        low, high = (
            stat_value(from_bytes(types[number], bounds[number])) if bounds.get(number) is not None else None
            for bounds in (lows, highs)
        )
        if number in lows or number in nulls:
            stats[name] = statistics(schema.field(name).type, low, high, nulls.get(number))
        if low is None and high is None and number in partitions:
            stats[name] = partition_stats(
                *partitions[number], schema.field(name).type, data.record_count, nulls.get(number)
            )
    file = LakeFile(path=path, size=data.file_size_in_bytes)
    values = {**defaults, **_identities(data, metadata, ids)}
    return SnapshotFile(
        file=file,
        known=known_of(file, data.record_count, stats),
        values=tuple(values.items()),
        deleted=deletes.of(task, {ids[name]: value for name, value in values.items()}),
    )


def partition_stats(
    transform: Transform[Any, Any], value: Any, type: pa.DataType, rows: int, nulls: int | None
) -> ColumnStats:
    """What `value`, the partition by `transform` of a file of so many rows, says of the column of the Arrow `type`."""
    if value is None:
        return statistics(type, None, None, rows)  # A transform is NULL where the column is.
    stamp, name = pa.types.is_timestamp(type) and type.unit == "us", str(transform)
    if isinstance(transform, IdentityTransform):
        low = high = stat_value(value)
    elif name in _UNITS and (stamp or (pa.types.is_date(type) and name != "hour")):
        number = (value - date(1970, 1, 1)).days if isinstance(value, date) else int(value)
        ends = (
            np.array([number, number + 1]).astype(_UNITS[name]).astype("datetime64[us]" if stamp else "datetime64[D]")
        )
        low, high = int(ends[0].astype(np.int64)), int(ends[1].astype(np.int64)) - 1
    elif isinstance(transform, TruncateTransform) and pa.types.is_integer(type):
        low, high = int(value), int(value) + transform.width - 1
    else:
        low = high = None
    return statistics(type, low, high, nulls)


_UNITS = {"year": "datetime64[Y]", "month": "datetime64[M]", "day": "datetime64[D]", "hour": "datetime64[h]"}
"""What the transforms of time count, from 1970."""


def _identities(data: DataFile, metadata: TableMetadata, ids: Mapping[str, int]) -> Mapping[str, Any]:
    """The columns by whose very values the table is partitioned: the file has one each, and may leave them out."""
    names = {number: name for name, number in ids.items()}
    found = {}
    for place, field in enumerate(metadata.specs()[data.spec_id].fields):
        name = names.get(field.source_id)
        if name is not None and isinstance(field.transform, IdentityTransform):
            found[name] = data.partition[place]
    return found


class _Deletes:
    """The rows that delete files name by data file and position, and those that they name `by_values`. Columns of data
    files without field ids are known by `names`."""

    def __init__(self, io: _PlacesIO, by_values: EqualityDeletes | None, names: Mapping[str, int]) -> None:
        self._io = io
        self._by_values = by_values
        self._names = names
        self._read: dict[str, Mapping[str, Positions]] = {}

    def of(self, task: FileScanTask, constants: Mapping[int, Any]) -> Callable[[], Positions] | None:
        """What gives the places of the deleted rows of a data file, if there are any, and raises FileTrouble.
        `constants` are values of columns that the file may lack, by their ids."""
        found: list[Callable[[], Positions]] = []
        if task.delete_files:
            found.append(partial(self._at_positions, task.file.file_path, tuple(task.delete_files)))
        held = HeldColumns(names=self._names, constants=constants)
        with_values = None if self._by_values is None else self._by_values.of(task.file, held)
        if with_values is not None:
            found.append(with_values)
        return partial(_joined, tuple(found)) if found else None

    def _at_positions(self, data_file: str, delete_files: tuple[DataFile, ...]) -> Positions:
        found = [self._of_file(file).get(data_file) for file in delete_files]
        return np.concatenate([np.empty(0, np.int64), *(each for each in found if each is not None)])

    def _of_file(self, file: DataFile) -> Mapping[str, Positions]:
        key = file.file_path
        known = self._read.get(key)
        if known is None:
            path = located(key)
            data = self._io.places.content(path)
            with _understood(path), reading(path):
                known = _vectors(data) if file.file_format == FileFormat.PUFFIN else _positions(path, file, data)
            if len(self._read) >= MAX_DELETE_FILES:
                self._read.clear()
            self._read[key] = known
        return known


def _joined(deletes: tuple[Callable[[], Positions], ...]) -> Positions:
    return np.concatenate([each() for each in deletes])


def _vectors(data: bytes) -> Mapping[str, Positions]:
    return {
        vector.referenced_data_file: np.asarray(vector.to_vector().combine_chunks(), np.int64)
        for vector in deletion_vectors_from_puffin_file(PuffinFile(data))
    }


def _positions(path: str, file: DataFile, data: bytes) -> Mapping[str, Positions]:
    if file.file_format != FileFormat.PARQUET:
        what = f'delete file "{path}" is of format {file.file_format.value}, which is not supported'
        raise FileTrouble("unsupported", what)
    table = pq.read_table(pa.BufferReader(data), columns=["file_path", "pos"]).combine_chunks()
    by_file = table.column("file_path").combine_chunks().dictionary_encode()
    indices = np.asarray(by_file.indices)
    places = np.asarray(table.column("pos").combine_chunks(), np.int64)
    return {name: places[indices == number] for number, name in enumerate(by_file.dictionary.to_pylist())}


# ---------------------------------------------------------------- files


class _PlacesIO(FileIO):
    """Files of the places that are allowed, to be read."""

    def __init__(self, places: Places) -> None:
        super().__init__({})
        self.places = places

    def new_input(self, location: str) -> InputFile:
        """See `FileIO.new_input`. Raises FileTrouble."""
        return MemoryInput(location, self.places.content(located(location)))

    def new_output(self, location: str) -> OutputFile:
        """Refused."""
        raise PermissionError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Refused."""
        raise PermissionError(str(location))


@contextmanager
def _understood(path: str) -> Iterator[None]:
    """Turns what pyiceberg raises about metadata into FileTrouble."""
    try:
        yield
    except (FileTrouble, pa.ArrowException, OSError):
        raise
    except Exception as error:
        raise malformed(path, error) from error
