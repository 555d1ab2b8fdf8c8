"""Tables whose own metadata says which files they have, as rows: columns by what the metadata calls them, rows without
those that it says are deleted.

A format's module (`iceberg`, `delta`) makes a `SnapshotListing` of one state of a table; `SnapshotTable` reads it. Its
files never change, so none is looked at before a row of it is read, and none that its statistics rule out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from pyarrow import fs

from storage.lake.formats import FileFormat, reading
from storage.lake.opened import OpenedFiles
from storage.lake.places import LakeFile, Places
from storage.lake.streams import RowStream
from storage.lake.tables import LOOKING_THREADS, LakeColumn, Piece, fits, plain_type
from storage.lake.troubles import FileTrouble
from storage.shards.field_ids import FIELD_ID
from storage.shards.parts import ColumnStats, Part

Positions: TypeAlias = npt.NDArray[np.int64]

PARQUET = FileFormat(name="parquet")

_BATCH_ROWS = 1 << 16


class SnapshotFile(Struct, frozen=True, kw_only=True, eq=False):
    """A data file of a table, in Parquet. `known` is what its table knows of it, by the table's names of columns, in
    the form that conditions are held against. `values` are columns that have one value in all of its rows, which the
    file itself may lack. `deleted` gives the places of deleted rows."""

    file: LakeFile
    known: Part
    values: tuple[tuple[str, Any], ...] = ()
    deleted: Callable[[], Positions] | None = None


class SnapshotListing(Struct, frozen=True, kw_only=True, eq=False):
    """One state of a table, which is called `where`. `physical` are the files' names of columns that have others; with
    `field_ids` the columns are known by these instead, and each file says what it calls them; of a file that knows no
    ids, `mapped_names` says which names are whose, where the table says that at all."""

    where: str
    schema: pa.Schema
    files: tuple[SnapshotFile, ...]
    physical: Mapping[str, str] = {}
    field_ids: Mapping[str, int] | None = None
    mapped_names: Mapping[str, int] | None = None
    with_ids: pa.Schema | None = None
    """With `field_ids`: the schema with the ids of what is in nested columns."""


class SnapshotTable:
    """The rows of a listing: the columns asked for, of the files that are needed."""

    format = PARQUET
    root = None

    def __init__(
        self,
        places: Places,
        listing: SnapshotListing,
        *,
        declared: Sequence[pa.Field] | None = None,
        wanted: Callable[[Part], bool] | None = None,
    ) -> None:
        """`declared`: these columns of the table, in this order, whose values fit the types. `wanted` says, of what is
        known of a file, whether it may have rows that are needed. Raises FileTrouble (column, mismatch)."""
        self.columns = _columns(listing, declared)
        self.listed = len(listing.files)
        self._listing = listing
        self._files = [each for each in listing.files if wanted is None or wanted(each.known)]
        self.files = tuple(each.file for each in self._files)
        self.opened = OpenedFiles(places, {file.path: file for file in self.files})
        self._seen: dict[str, Any] = {}
        """By its path, each file whose columns have been looked at."""
        self._various = False
        """Whether a file that has been looked at has a nested column of another type than the table."""

    @property
    def bytes(self) -> int:
        """What all files have together."""
        return sum(file.size for file in self.files)

    @property
    def plain(self) -> bool:
        """Whether the rows are those of the files, and their columns called as there. Blocks; raises FileTrouble."""
        if any(each.deleted is not None for each in self._files):
            return False
        if any(names != self._names for names, _ in self._groups):
            return False
        if self._various:
            return False
        return not any(self._lacking(each) for each in self._files)

    def _lacking(self, each: SnapshotFile) -> bool:
        """Whether a column is to be had from the metadata alone."""
        known = self._seen.get(each.file.path)
        there = () if known is None else known.physical_schema.names
        return any(name in self._names and name not in there for name, _ in each.values)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema([pa.field(column.name, column.read_as) for column in self.columns])

    def pieces(self) -> tuple[Piece, ...]:
        """All rows, for who scans them by columns and conditions. Raises FileTrouble."""
        import pyarrow.dataset as ds

        found = []
        for names, files in self._groups:
            whole = [self._fragment(each, names) for each in files if each.deleted is None]
            schema = self._called(names)
            if whole:
                source = ds.FileSystemDataset(whole, schema, self._dataset_format, self._system)
                found.append(Piece(source=source, names=names))
            kept = [each for each in files if each.deleted is not None]
            if kept:
                found.append(
                    Piece(source=RowStream(schema, self.opened, partial(self._rows, kept, names)), names=names)
                )
        if not found:
            found = [Piece(source=ds.dataset(self.schema.empty_table()), names=self._names)]
        return tuple(found)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows. Raises FileTrouble."""
        for names, files in self._groups:
            for each in files:
                for batch in self.rows_of(each, names):
                    yield batch.rename_columns(list(self._names))

    def fragments(self) -> Iterator[tuple[str, Any]]:
        """The path of each file, and the file as a part of a dataset."""
        for names, files in self._groups:
            for each in files:
                yield each.file.path, self._fragment(each, names)

    def check_unchanged(self) -> None:
        """The files of a snapshot never change."""

    def _rows(
        self, files: Sequence[SnapshotFile], names: tuple[str, ...]
    ) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
        for each in files:
            yield each.file.path, self.rows_of(each, names)

    def rows_of(self, each: SnapshotFile, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are not deleted, with the columns called as in it."""
        batches = self._fragment(each, names).to_batches(schema=self._called(names), batch_size=_BATCH_ROWS)
        if each.deleted is None:
            yield from batches
            return
        gone = np.unique(each.deleted())
        start = 0
        for batch in batches:
            here = gone[np.searchsorted(gone, start) : np.searchsorted(gone, start + batch.num_rows)] - start
            start += batch.num_rows
            if len(here):
                kept = np.ones(batch.num_rows, bool)
                kept[here] = False
                batch = batch.filter(pa.array(kept))
            if batch.num_rows:
                yield batch

    @cached_property
    def _system(self) -> Any:
        return fs.PyFileSystem(self.opened)

    @cached_property
    def _dataset_format(self) -> Any:
        return PARQUET.dataset_format(self.schema)

    def _called(self, names: tuple[str, ...]) -> pa.Schema:
        return pa.schema([pa.field(name, column.read_as) for name, column in zip(names, self.columns, strict=True)])

    def _fragment(self, each: SnapshotFile, names: tuple[str, ...]) -> Any:
        """A file as a part of a dataset, with the values that it lacks."""
        import pyarrow.dataset as ds

        known = self._seen.get(each.file.path)
        there = () if known is None else known.physical_schema.names
        places = {column.name: place for place, column in enumerate(self.columns)}
        condition = None
        for name, value in each.values:
            if name not in places or names[places[name]] in there:
                continue
            here, type = ds.field(names[places[name]]), self.columns[places[name]].type
            one = here.is_null() if value is None else here == pa.scalar(value, type)
            condition = one if condition is None else condition & one
        if known is not None and condition is None:
            return known
        return self._dataset_format.make_fragment(each.file.path, self._system, partition_expression=condition)

    @cached_property
    def _groups(self) -> list[tuple[tuple[str, ...], list[SnapshotFile]]]:
        """The files by how they call the columns."""
        ids = self._listing.field_ids
        if ids is None or not self._files:
            physical = self._listing.physical
            return [(tuple(physical.get(name, name) for name in self._names), self._files)] if self._files else []
        with ThreadPoolExecutor(min(LOOKING_THREADS, len(self._files))) as threads:
            all_names = threads.map(partial(self._names_in, ids=ids), self._files)
            named = sorted(zip(all_names, self._files, strict=True), key=lambda pair: pair[0])
        return [(names, [each for _, each in pairs]) for names, pairs in groupby(named, key=lambda pair: pair[0])]

    def _names_in(self, each: SnapshotFile, ids: Mapping[str, int]) -> tuple[str, ...]:
        """What a file calls the columns, by its field ids, or by the names that the table says they have in files
        without such. Where it says nothing they are called as in the table."""
        path = each.file.path
        with reading(path):
            self.opened.open(path).close()
            fragment = self._dataset_format.make_fragment(path, self._system)
            schema = fragment.physical_schema
        self._seen[path] = fragment
        there = {
            int(field.metadata[FIELD_ID]): field.name
            for field in schema
            if field.metadata is not None and FIELD_ID in field.metadata
        }
        if not there:
            mapped = self._listing.mapped_names
            if mapped is None:
                return self._names
            there = {mapped[name]: name for name in schema.names if name in mapped}
        # What the file lacks gets a name that no column has.
        names = tuple(there.get(ids[name], f"no field {ids[name]}") for name in self._names)
        for column, name in zip(self.columns, names, strict=True):
            if column.nested and name in schema.names:
                self._look_into(column, schema.field(name).type, path)
        return names

    def _look_into(self, column: LakeColumn, held: pa.DataType, path: str) -> None:
        """Raises FileTrouble (unsupported) for a nested column whose fields the file has under other names: Arrow finds
        them by these."""
        with_ids = self._listing.with_ids
        if with_ids is not None and not _agree(with_ids.field(column.name).type, held):
            what = f'column "{column.name}" has fields that were renamed after file "{path}" was written'
            raise FileTrouble("unsupported", f"{what}, which is not supported")
        self._various = self._various or plain_type(held) != column.type


def _agree(own: pa.DataType, held: pa.DataType) -> bool:
    """Whether names of fields mean the same fields in both types, by their ids; of a file without ids they do."""
    if pa.types.is_struct(own) and pa.types.is_struct(held):
        ids = {field.name: _id_of(field) for field in own}
        names = {id: name for name, id in ids.items()}
        for field in held:
            id = _id_of(field)
            if id is not None and (names.get(id, field.name), ids.get(field.name, id)) != (field.name, id):
                return False
        there = {field.name: field.type for field in held}
        return all(_agree(field.type, there[field.name]) for field in own if field.name in there)
    if pa.types.is_map(own) and pa.types.is_map(held):
        return _agree(own.item_type, held.item_type)
    return not hasattr(own, "value_type") or not hasattr(held, "value_type") or _agree(own.value_type, held.value_type)


def _id_of(field: pa.Field) -> int | None:
    id = None if field.metadata is None else field.metadata.get(FIELD_ID)
    return None if id is None else int(id)


def statistics(type: pa.DataType, low: Any, high: Any, nulls: int | None) -> ColumnStats:
    """What is known of a column of a file, whose bounds are values as the domain of `type` has them (`ColumnStats`)."""
    types = pa.types
    if types.is_floating(type):
        # NaN is in no bounds, and above all numbers.
        return ColumnStats(domain="float", min=None if low != low else low, null_count=nulls)
    if types.is_decimal(type):
        low, high = (None if bound is None else str(bound) for bound in (low, high))
        return ColumnStats(domain="decimal", min=low, max=high, null_count=nulls)
    if types.is_string(type):
        return ColumnStats(domain="str", min=low, max=high, null_count=nulls)
    if types.is_integer(type) or types.is_boolean(type) or types.is_date(type) or types.is_timestamp(type):
        return ColumnStats(domain="int", min=low, max=high, null_count=nulls)
    return ColumnStats(null_count=nulls)


def known_of(file: LakeFile, rows: int, stats: dict[str, ColumnStats]) -> Part:
    """What a table knows of a file: the number of its rows (-1: unknown), and statistics of columns."""
    return Part(kind="insert", rows=rows, bytes=file.size, stats=stats, key=file.path)


def _columns(listing: SnapshotListing, declared: Sequence[pa.Field] | None) -> tuple[LakeColumn, ...]:
    if declared is None:
        return tuple(LakeColumn(name=field.name, type=field.type) for field in listing.schema)
    found = []
    there = {field.name: field.type for field in listing.schema}
    for field in declared:
        type = there.get(field.name)
        if type is None:
            near = next((name for name in there if name.lower() == field.name.lower()), None)
            raise FileTrouble(
                "column",
                f'table "{listing.where}" has no column "{field.name}"',
                hint=None if near is None else f'There is "{near}": the option column_name says which one is meant.',
            )
        if not fits(type, field.type):
            what = f'column "{field.name}" of table "{listing.where}" has type {type}'
            raise FileTrouble("mismatch", f"{what}, which cannot be read as {field.type}")
        found.append(LakeColumn(name=field.name, type=type))
    return tuple(found)
