"""Files read as one table: the columns of all of them, and their rows as an Arrow dataset.

Every file's own columns are looked at before a row is read (and remembered for as long as the file does not change), so
that a file which does not fit the others is named. The table has the columns of all files, in the order in which they
are met; a file that lacks one has NULL there. Columns of one name have types that one of them holds, or the files do
not fit together. Names that differ in case alone do not fit either: engines do not agree on what they mean.

Folders called ``name=value`` on the way to the files are columns too (Hive's layout): all files have the same ones. The
values of such a column are numbers, dates or texts, whatever fits all; those of files that are left out are never read.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace
from pyarrow import fs

from storage.bounded_map import BoundedMap
from storage.lake.avro import batches_of
from storage.lake.folder_values import is_value, type_of, value_of
from storage.lake.formats import (
    BLOCK_BYTES,
    HIVE_NULL,
    SUFFIXES,
    UNPACKED,
    FileFormat,
    arrow_name,
    has_blank_rows,
    is_for_arrow,
    reading,
    unpacked,
)
from storage.lake.json_rows import is_json, is_readable, json_batches
from storage.lake.nested import is_nested, united, with_entries, with_leaves
from storage.lake.opened import OpenedFiles
from storage.lake.places import LakeFile, Places, is_url
from storage.lake.streams import RowStream
from storage.lake.troubles import FileTrouble

LOOKING_THREADS = 8
"""Files looked at beside each other: the waiting is for disks and object stores."""

FEW_FILES = 8
"""Files that are looked at to say what a table of many has, when more are written."""

MAX_KNOWN = 20_000
"""Files whose columns are remembered."""

Values: TypeAlias = tuple[tuple[str, str | None], ...]
"""The columns that a file's folders give, with their values as texts."""


class LakeColumn(Struct, frozen=True, kw_only=True):
    """A column of files. `uniform`: every file has it in this very type, as all engines read it; `as_written`: JSON's
    values of other types are texts in it; `json`: so are texts, with their quotes.
    """

    name: str
    type: pa.DataType
    partition: bool = False
    uniform: bool = True
    as_written: bool = False
    json: bool = False

    @property
    def nested(self) -> bool:
        """Whether its values are to be read as JSON, which they are not yet."""
        return is_nested(self.type)

    @property
    def read_as(self) -> pa.DataType:
        """As what Arrow reads its values."""
        return with_entries(self.type) if self.nested else self.type


class Piece(Struct, frozen=True, kw_only=True, eq=False):
    """Some of a table's rows. `source` is an Arrow dataset, or whatever gives an Arrow stream of them anew each time;
    it has the table's columns, in their types, under `names`."""

    source: Any
    names: tuple[str, ...]


class LakeTable:
    """Files of one format as a table, as they were listed."""

    def __init__(
        self, places: Places, format: FileFormat, files: tuple[LakeFile, ...], columns: tuple[LakeColumn, ...],
        values: dict[str, Values], listed: int | None = None,
    ) -> None:  # fmt: skip
        self.places = places
        self.format = format
        self.files = files
        self.columns = columns
        self.listed = len(files) if listed is None else listed
        """How many files there are, with those that need not be read."""
        self._values = values
        self.opened = OpenedFiles(places, {file.path: file for file in files}, format if format.followed else None)

    @property
    def bytes(self) -> int:
        """What all files have together."""
        return sum(file.size for file in self.files)

    @cached_property
    def streamed(self) -> bool:
        """Whether Arrow's datasets do not read the files as these columns: they are read from beginning to end."""
        if self.format.name != "json":
            return self.format.streamed
        # NOTE: a scan of JSON reads before it is asked for rows, and holds the interpreter's lock meanwhile
        # (pyarrow's Scanner.to_reader), which reading an object needs: the server would stand still for ever.
        if any(is_url(file.path) for file in self.files):
            return True
        return any(column.as_written or not is_readable(column.type) for column in self.columns if not column.partition)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        return pa.schema([pa.field(column.name, column.read_as) for column in self.columns])

    def dataset(self) -> Any:
        """The rows: an Arrow dataset, which reads only the columns and files that a scan needs."""
        import pyarrow.dataset as ds

        fragments = [fragment for _, fragment in self.fragments()]
        format = self._dataset_format()
        return ds.FileSystemDataset(fragments, self.schema, format, fs.PyFileSystem(self.opened))

    def pieces(self) -> tuple[Piece, ...]:
        """All rows, for who scans them by columns and conditions."""
        names = tuple(column.name for column in self.columns)
        if self.streamed:
            return (Piece(source=RowStream(self.schema, self.opened, self._rows), names=names),)
        return (Piece(source=self.dataset(), names=names),)

    def _dataset_format(self) -> Any:
        own = [pa.field(column.name, column.read_as) for column in self.columns if not column.partition]
        return self.format.dataset_format(pa.schema(own))

    def fragments(self) -> Iterator[tuple[str, Any]]:
        """The path of each file that is not empty, and the file as a part of the dataset, where there is one."""
        if self.streamed:
            return
        import pyarrow.dataset as ds

        types = {column.name: column.type for column in self.columns if column.partition}
        system, format = fs.PyFileSystem(self.opened), self._dataset_format()
        for file in self.files:
            if not file.size:
                continue
            condition = None
            for name, text in self._values.get(file.path, ()):
                if name not in types:
                    continue
                here = ds.field(name)
                value = value_of(text, types[name])
                one = here.is_null() if value is None else here == pa.scalar(value, types[name])
                condition = one if condition is None else condition & one
            name = file.path + UNPACKED if self.format.followed else arrow_name(file.path)
            yield file.path, format.make_fragment(name, system, partition_expression=condition)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        if self.streamed:
            for _, rows in self._rows():
                yield from rows
            return
        yield from self.dataset().to_batches(batch_size=1 << 14, batch_readahead=2, fragment_readahead=1)

    def _rows(self) -> Iterator[tuple[str, Iterator[pa.RecordBatch]]]:
        """The path and the rows of each file that is read from beginning to end."""
        for file in self.files:
            yield file.path, self._rows_of(file.path)

    def _rows_of(self, path: str) -> Iterator[pa.RecordBatch]:
        folders = dict(self._values.get(path, ()))
        own = [(column.name, column.read_as) for column in self.columns if not column.partition]
        with reading(path), self.opened.open(path) as file:
            for batch in self._own_rows_of(path, file, own):
                read = dict(zip((name for name, _ in own), batch.columns, strict=True))
                arrays = [
                    pa.repeat(pa.scalar(value_of(folders[column.name], column.type), column.type), batch.num_rows)
                    if column.partition
                    else read[column.name]
                    for column in self.columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _own_rows_of(
        self, path: str, file: Any, columns: Sequence[tuple[str, pa.DataType]]
    ) -> Iterator[pa.RecordBatch]:
        if self.format.name != "json":
            return batches_of(path, file, columns)
        as_written = frozenset([column.name for column in self.columns if column.as_written])
        json = frozenset([column.name for column in self.columns if column.json])
        return json_batches(path, unpacked(path, file), columns, as_written, json, BLOCK_BYTES)

    @cached_property
    def root(self) -> str | None:
        """The folder below which the folders are columns, if there are any and they have one place."""
        roots = {_root(file.path) for file in self.files}
        return roots.pop() if len(roots) == 1 and self._values else None

    def check_unchanged(self) -> None:
        """Raises FileTrouble when a file that was read is not the one that was listed any more."""
        with ThreadPoolExecutor(LOOKING_THREADS) as threads:
            list(threads.map(self.places.check_unchanged, self.files))


class LakeTables:
    """Looks at files, and remembers what is in them. Thread-safe; everything blocks."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._lock = threading.Lock()
        self._known: BoundedMap[tuple[LakeFile, FileFormat], tuple[pa.Schema | None]] = BoundedMap(
            max_entries=MAX_KNOWN
        )

    def table(
        self,
        patterns: Sequence[str],
        format: FileFormat,
        *,
        hive: bool = True,
        declared: Sequence[pa.Field] | None = None,
        needed: Callable[[pa.Table], Sequence[bool] | None] | None = None,
        matched: bool = False,
    ) -> LakeTable:
        """The table of the files that `patterns` mean; `hive`: folders are columns. With `declared` it has these
        columns of the files, in this order, whose values fit the types; `needed` says then, of a table of the columns
        that their folders give, which files have to be read (None: all): others are not even looked at; `matched`:
        the files' own columns have to be those that are declared, in their order. Raises FileTrouble."""
        files = self.places.files(patterns, SUFFIXES[format.name])
        listed = len(files)
        if needed is not None and declared is not None and hive:
            files = _needed(files, declared, needed)
        opened = OpenedFiles(self.places, {file.path: file for file in files})
        with ThreadPoolExecutor(min(LOOKING_THREADS, len(files) or 1)) as threads:
            schemas = list(threads.map(lambda file: self._schema(file, format, opened), files))
        if any(schemas) and all(schema is None or has_blank_rows(schema) for schema in schemas):
            format = replace(format, blank_rows=True)
        values = {file.path: found for file in files if (found := _folders(file.path))} if hive else {}
        partitions = _partitions(files, values)
        if declared is not None:
            if matched:
                _check_headers(files, schemas, [f.name for f in declared if f.name not in {c.name for c in partitions}])
            chosen = _declared(files, schemas, format, partitions, values, declared, patterns[0])
            return LakeTable(self.places, format, files, chosen, values, listed)
        columns = _united(files, schemas, format, {column.name for column in partitions})
        if not columns:
            raise FileTrouble("malformed", f'cannot tell the columns of "{patterns[0]}": its files are empty')
        named = {column.name.lower(): column.name for column in columns}
        for column in partitions:
            other = named.get(column.name.lower())
            if other is not None:
                raise FileTrouble("mismatch", f'folder column "{column.name}" differs from "{other}" only in case')
        return LakeTable(self.places, format, files, (*columns, *partitions), values)

    def check_beside(self, files: Sequence[LakeFile], format: FileFormat, written: pa.Schema) -> None:
        """Raises FileTrouble (mismatch) where a file with the columns that are `written` would not be one table with
        the first few of `files`."""
        some = files[:FEW_FILES]
        opened = OpenedFiles(self.places, {file.path: file for file in some})
        for file in some:
            for field in self._schema(file, format, opened) or ():
                if field.name not in written.names:
                    continue
                held, type = plain_type(field.type), plain_type(written.field(field.name).type)
                if held != type and _common(held, type, format) is None:
                    what = f'column "{field.name}" of file "{file.path}" has type {held}'
                    raise FileTrouble("mismatch", f"{what}, beside which no {type} can be written")

    def _schema(self, file: LakeFile, format: FileFormat, opened: OpenedFiles) -> pa.Schema | None:
        known = self._known.get((file, format))
        if known is None:
            known = (format.schema(file.path, opened, file.size),)
            with self._lock:
                self._known.put((file, format), known)
        return known[0]


def _united(
    files: Sequence[LakeFile], schemas: Sequence[pa.Schema | None], format: FileFormat, but: set[str]
) -> tuple[LakeColumn, ...]:
    """The columns of all files but those called as `but`."""
    types: dict[str, pa.DataType] = {}
    held: dict[str, int] = {}
    by_case: dict[str, tuple[str, str]] = {}
    various: set[str] = set()
    with_content = 0
    for file, schema in zip(files, schemas, strict=True):
        if schema is None:
            continue
        with_content += 1
        seen: set[str] = set()
        if is_for_arrow(schema):
            various.update(schema.names)
        for place, field in enumerate(schema, 1):
            if not field.name:
                raise FileTrouble("malformed", f'column {place} of file "{file.path}" has no name')
            if field.name in seen:
                raise FileTrouble("mismatch", f'file "{file.path}" has two columns "{field.name}"')
            seen.add(field.name)
            if field.name in but:
                continue
            name, first = by_case.setdefault(field.name.lower(), (field.name, file.path))
            if name != field.name:
                raise FileTrouble(
                    "mismatch",
                    f'column "{field.name}" of file "{file.path}" differs only in case from "{name}" of "{first}"',
                )
            type = plain_type(field.type)
            known = types.get(field.name)
            held[field.name] = held.get(field.name, 0) + 1
            if known is None:
                types[field.name] = type
            elif known != type:
                both = _common(known, type, format)
                if both is None:
                    raise FileTrouble(
                        "mismatch",
                        f'column "{field.name}" of file "{file.path}" has type {type}, but {known} in "{first}"',
                    )
                types[field.name] = both
                various.add(field.name)
            # Of Parquet it is Arrow's reader alone that lays values out so, but for floats of 16 bits.
            if field.type != type and (format.name != "parquet" or _is_of(field.type, pa.types.is_float16)):
                various.add(field.name)
    return tuple(
        _json_column(name)
        if is_json(type)
        else LakeColumn(name=name, type=type, uniform=name not in various and held[name] == with_content)
        for name, type in types.items()
    )


def _json_column(name: str) -> LakeColumn:
    return LakeColumn(name=name, type=pa.string(), uniform=False, as_written=True, json=True)


def _needed(
    files: tuple[LakeFile, ...], declared: Sequence[pa.Field], needed: Callable[[pa.Table], Sequence[bool] | None]
) -> tuple[LakeFile, ...]:
    """Those of `files` that `needed` says are. In unlike folders all are: what is wrong with them is said later."""
    values = [dict(_folders(file.path)) for file in files]
    names = values[0].keys()
    if not names or any(each.keys() != names for each in values):
        return files
    fields = [field for field in declared if field.name in names]
    for field in fields:
        if any(text is not None and not is_value(text, field.type) for text in {each[field.name] for each in values}):
            return files
    columns = [pa.array([value_of(each[field.name], field.type) for each in values], field.type) for field in fields]
    if not columns:
        return files
    mask = needed(pa.table(columns, names=[field.name for field in fields]))
    return files if mask is None else tuple(file for file, wanted in zip(files, mask, strict=True) if wanted)


def _declared(
    files: Sequence[LakeFile],
    schemas: Sequence[pa.Schema | None],
    format: FileFormat,
    partitions: Sequence[LakeColumn],
    values: dict[str, Values],
    declared: Sequence[pa.Field],
    pattern: str,
) -> tuple[LakeColumn, ...]:
    """The declared columns: of folders in the declared types, of text files too, of others in those of the files."""
    folders = {column.name for column in partitions}
    wanted = {field.name.lower() for field in declared if field.name not in folders}
    own = [
        None
        if schema is None
        else pa.schema([field for field in schema if field.name.lower() in wanted], schema.metadata)
        for schema in schemas
    ]
    by_name = {column.name: column for column in _united(files, own, format, folders)}
    found = []
    for field in declared:
        if field.name in folders:
            _check_folders(values, field)
            found.append(LakeColumn(name=field.name, type=field.type, partition=True))
            continue
        column = by_name.get(field.name)
        if column is None:
            if all(schema is None for schema in schemas):
                found.append(LakeColumn(name=field.name, type=field.type, uniform=False))
                continue
            near = next((name for name in (*by_name, *folders) if name.lower() == field.name.lower()), None)
            raise FileTrouble(
                "column",
                f'no file of "{pattern}" has a column "{field.name}"',
                hint=None if near is None else f'There is "{near}": the option column_name says which one is meant.',
            )
        if is_json(field.type):
            found.append(_json_column(field.name))
            continue
        if not format.typed:
            is_text = pa.types.is_string(field.type) and not pa.types.is_null(column.type)
            as_written = format.name == "json" and is_text and (column.json or not pa.types.is_string(column.type))
            found.append(LakeColumn(name=field.name, type=field.type, uniform=False, as_written=as_written))
            continue
        if not fits(column.type, field.type):
            path = next(
                file.path for file, schema in zip(files, own, strict=True) if schema and field.name in schema.names
            )
            raise FileTrouble(
                "mismatch",
                f'column "{field.name}" of file "{path}" has type {column.type}, which cannot be read as {field.type}',
            )
        found.append(column)
    return tuple(found)


def _check_headers(files: Sequence[LakeFile], schemas: Sequence[pa.Schema | None], names: Sequence[str]) -> None:
    for file, schema in zip(files, schemas, strict=True):
        if schema is None:
            continue
        if len(schema.names) != len(names):
            raise FileTrouble(
                "malformed",
                f'wrong number of fields in header line of file "{file.path}": got {len(schema.names)}, '
                f"expected {len(names)}",
            )
        for number, (found, name) in enumerate(zip(schema.names, names, strict=True), 1):
            if found != name:
                raise FileTrouble(
                    "malformed",
                    f'column name mismatch in header line field {number} of file "{file.path}": got "{found}", '
                    f'expected "{name}"',
                )


def fits(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values that files hold as `held` can be read as `wanted`, as they are. Whole numbers and decimals that
    are out of range are an error when they are met."""
    if held == wanted or pa.types.is_null(held):
        return True
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(held) or (pa.types.is_decimal(held) and held.scale == 0))
    if pa.types.is_string(wanted):
        plain = (*_INTEGERS, pa.bool_(), pa.date32(), pa.uint64())
        return held in plain or pa.types.is_decimal(held) or isinstance(held, pa.UuidType) or is_nested(held)
    if pa.types.is_list(wanted):
        if not pa.types.is_list(held) or is_nested(held):
            return False
        same = held.value_type == wanted.value_type
        return bool(same or (not pa.types.is_temporal(held.value_type) and fits(held.value_type, wanted.value_type)))
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(held) and (held.tz is None) == (wanted.tz is None))
    if pa.types.is_time(wanted):
        return bool(pa.types.is_time(held))
    if pa.types.is_decimal(wanted):
        whole = pa.types.is_integer(held)
        return bool(whole or (pa.types.is_decimal(held) and held.scale <= wanted.scale))
    if wanted == pa.date32():
        return bool(held == pa.date64())
    if wanted == pa.float64():
        return held in _FLOATS or held in _INTEGERS[:6]
    return bool(_common(held, wanted, FileFormat(name="parquet")) == wanted)


def _check_folders(values: dict[str, Values], field: pa.Field) -> None:
    """Raises FileTrouble (mismatch) for a folder whose name's value is none of the declared type."""
    for path, folders in values.items():
        for name, text in folders:
            if name == field.name and text is not None and not is_value(text, field.type):
                raise FileTrouble("mismatch", f'folder "{name}={text}" of file "{path}" holds no {field.type}')


def plain_type(type: pa.DataType) -> pa.DataType:
    """`type` without what only says how values are laid out. Floats of 16 bits, which the local engine has not, are
    those of 32."""
    if pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
        return plain_type(type.value_type)
    if pa.types.is_large_string(type) or type == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type) or type == pa.binary_view():
        return pa.binary()
    if pa.types.is_nested(type) and not pa.types.is_union(type):
        return with_leaves(type, plain_type)
    return pa.float32() if pa.types.is_float16(type) else type


def _is_of(type: pa.DataType, kind: Callable[[pa.DataType], bool]) -> bool:
    """Whether `type` is of the `kind`, or has such values in it."""
    inside = [type.field(number).type for number in range(type.num_fields)] if pa.types.is_nested(type) else []
    return kind(type) or any(_is_of(each, kind) for each in inside)


_INTEGERS = (
    pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(),
)  # fmt: skip
_FLOATS = (pa.float16(), pa.float32(), pa.float64())


def _common(one: pa.DataType, other: pa.DataType, format: FileFormat) -> pa.DataType | None:
    """The type that holds values of both, if one of them does."""
    if pa.types.is_null(one):
        return other
    if pa.types.is_null(other):
        return one
    if is_nested(one) and is_nested(other) and format.typed:
        return united(one, other, lambda held, more: _common(held, more, format))
    if one in _INTEGERS and other in _INTEGERS:
        small, large = sorted((one, other), key=_INTEGERS.index)
        if pa.types.is_unsigned_integer(large) and pa.types.is_signed_integer(small):
            return _INTEGERS[_INTEGERS.index(large) + 1]
        return large
    if one in _FLOATS and other in _FLOATS:
        return max((one, other), key=_FLOATS.index)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and (one.tz is None) == (other.tz is None):
        units = ("s", "ms", "us", "ns")
        return max((one, other), key=lambda type: units.index(type.unit))
    if format.name == "csv":
        numbers = {one, other}
        return pa.float64() if numbers == {pa.int64(), pa.float64()} else pa.string()
    return _common_in_json(one, other) if format.name == "json" else None


def _common_in_json(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type that holds values of both: what JSON writes as texts become texts, days beside timestamps these, and
    all else is JSON."""
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if not all(pa.types.is_string(type) or pa.types.is_temporal(type) for type in (one, other)):
        return pa.json_()
    moments = [type for type in (one, other) if pa.types.is_timestamp(type) and type.tz is None]
    return moments[0] if moments and pa.date32() in (one, other) else pa.string()


# ---------------------------------------------------------------- folders that are columns


def _parts(path: str) -> list[str]:
    return path.split("://", 1)[-1].split("/")[:-1]


def _folders(path: str) -> Values:
    found = []
    for part in _parts(path):
        name, equals, value = part.partition("=")
        if equals and name:
            text = unquote(value)
            found.append((unquote(name), None if text == HIVE_NULL else text))
    return tuple(found)


def folder_columns(path: str) -> tuple[str, ...]:
    """The columns that the folders on the way to a file give."""
    return tuple(name for name, _ in _folders(path))


def _root(path: str) -> str:
    place = re.search(r"/[^/=]+=[^/]*/", path)
    return path if place is None else path[: place.start()]


def _partitions(files: Sequence[LakeFile], values: dict[str, Values]) -> tuple[LakeColumn, ...]:
    if not values:
        return ()
    first = next(iter(values.values()))
    names = [name for name, _ in first]
    texts: dict[str, set[str]] = {name: set() for name in names}
    for file in files:
        found = values.get(file.path, ())
        if [name for name, _ in found] != names or len(set(names)) != len(names):
            raise FileTrouble("mismatch", f'file "{file.path}" is not in folders {"/".join(f"{n}=..." for n in names)}')
        for name, text in found:
            if text is not None:
                texts[name].add(text)
    return tuple(LakeColumn(name=name, type=type_of(texts[name]), partition=True) for name in names)
