"""Equality deletes of Iceberg tables: files of values that some columns had in the rows that are deleted, of the data
files that came before them (table specification, "Scan Planning" and "Equality Delete Files").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat, ManifestEntry
from pyiceberg.schema import Schema
from pyiceberg.transforms import VoidTransform

from storage.lake.formats import reading
from storage.lake.opened import OpenedFiles
from storage.lake.places import LakeFile, Places, located
from storage.lake.snapshots.tables import Positions
from storage.lake.tables import plain_type
from storage.lake.troubles import FileTrouble
from storage.shards.field_ids import FIELD_ID

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

Columns: TypeAlias = Mapping[int, pa.Array]
"""Values by the ids of their columns."""

MAX_BYTES = 64 << 20
"""Of delete files that are kept in memory, decoded."""


class HeldColumns(Struct, frozen=True, kw_only=True):
    """How columns are found in a data file: by their ids, in files without such by `names`. Those that it lacks have
    one `constants`, or are NULL."""

    names: Mapping[str, int]
    constants: Mapping[int, Any]


class EqualityDeletes:
    """Those of one state of a table, which are in `entries`; `came` says by their locations with which sequence number
    the data files have come."""

    def __init__(
        self, places: Places, metadata: TableMetadata, entries: Iterable[ManifestEntry], came: Mapping[str, int]
    ) -> None:
        self._places = places
        self._came = came
        self._types: dict[int, pa.DataType] = {}
        for schema in metadata.schemas:
            for field in schema.fields:
                if field.field_type.is_primitive:
                    (found,) = schema_to_pyarrow(Schema(field), include_field_ids=False)
                    self._types[field.field_id] = plain_type(found.type)
        everywhere = {
            number
            for number, spec in metadata.specs().items()
            if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
        }
        self._of: dict[tuple[int, tuple[Any, ...]] | None, list[tuple[int, DataFile]]] = {}
        """By the partition whose files they concern; those of None concern all."""
        for entry in entries:
            file = entry.data_file
            key = None if file.spec_id in everywhere else _partition(file)
            self._of.setdefault(key, []).append((entry.sequence_number or 0, file))
        self._read: dict[str, Columns] = {}
        self._bytes = 0

    def of(self, data: DataFile, held: HeldColumns) -> Callable[[], Positions] | None:
        """What gives the places of the rows of `data` that are deleted, and raises FileTrouble; None where nothing
        deletes any."""
        concerned = [*self._of.get(None, ()), *self._of.get(_partition(data), ())]
        files = tuple([file for number, file in concerned if number > self._came[data.file_path]])
        return partial(self._places_in, data, files, held) if files else None

    def _places_in(self, data: DataFile, files: Sequence[DataFile], held: HeldColumns) -> Positions:
        alike: dict[tuple[int, ...], list[Columns]] = {}
        for file in files:
            alike.setdefault(tuple(sorted(file.equality_ids or ())), []).append(self._values(file))
        columns = self._held(data, {number for numbers in alike for number in numbers}, held)
        gone = np.zeros(data.record_count, bool)
        for numbers, tables in alike.items():
            deleted = [pa.concat_arrays([table[number] for table in tables]) for number in numbers]
            gone |= _among([columns[number] for number in numbers], deleted)
        return np.flatnonzero(gone).astype(np.int64)

    def _held(self, data: DataFile, numbers: Iterable[int], held: HeldColumns) -> Columns:
        """The columns `numbers` of a data file."""
        path = located(data.file_path)
        opened = OpenedFiles(self._places, {path: LakeFile(path=path, size=data.file_size_in_bytes)})
        with reading(path), opened.open(path) as stream:
            file = pq.ParquetFile(stream)
            ids = _ids(file.schema_arrow) or {
                held.names[name]: name for name in file.schema_arrow.names if name in held.names
            }
            wanted = [ids[number] for number in numbers if number in ids]
            table = file.read(columns=wanted)
            rows = file.metadata.num_rows
        found = {}
        for number in numbers:
            if number in ids:
                found[number] = self._as_declared(number, table.column(ids[number]))
            else:
                found[number] = _stored(pa.repeat(pa.scalar(held.constants.get(number), self._types[number]), rows))
        return found

    def _values(self, file: DataFile) -> Columns:
        path = located(file.file_path)
        known = self._read.get(path)
        if known is not None:
            return known
        if file.file_format != FileFormat.PARQUET:
            what = f'delete file "{path}" is of format {file.file_format.value}, which is not supported'
            raise FileTrouble("unsupported", what)
        nested = [number for number in file.equality_ids or () if number not in self._types]
        if nested:
            what = f'delete file "{path}" is about the field {nested[0]} inside of a column, which is not supported'
            raise FileTrouble("unsupported", what)
        data = self._places.content(path)
        with reading(path):
            table = pq.read_table(pa.BufferReader(data))
        ids = _ids(table.schema)
        lacking = [number for number in file.equality_ids or () if number not in ids]
        if lacking or not file.equality_ids:
            raise FileTrouble("malformed", f'delete file "{path}" lacks the columns that it is about')
        found = {number: self._as_declared(number, table.column(ids[number])) for number in file.equality_ids}
        if self._bytes > MAX_BYTES:
            self._read.clear()
            self._bytes = 0
        self._read[path] = found
        self._bytes += sum(array.nbytes for array in found.values())
        return found

    def _as_declared(self, number: int, values: pa.ChunkedArray) -> pa.Array:
        return _stored(values.cast(self._types[number]).combine_chunks())


def _stored(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _partition(file: DataFile) -> tuple[int, tuple[Any, ...]]:
    return file.spec_id, tuple(file.partition[place] for place in range(len(file.partition)))


def _ids(schema: pa.Schema) -> dict[int, str]:
    return {
        int(field.metadata[FIELD_ID]): field.name
        for field in schema
        if field.metadata is not None and FIELD_ID in field.metadata
    }


def _among(held: Sequence[pa.Array], gone: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Which of the rows of the columns `held` are among those of `gone`; here NULL is equal to NULL."""
    rows = len(held[0])
    if not rows or not len(gone[0]):
        return np.zeros(rows, bool)
    keys = np.zeros(rows + len(gone[0]), np.int64)
    for one, other in zip(held, gone, strict=True):
        both = pa.concat_arrays([one, other]).dictionary_encode(null_encoding="encode")
        codes = np.asarray(both.indices, np.int64)
        keys = np.unique(keys * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    return np.isin(keys[:rows], keys[rows:])
