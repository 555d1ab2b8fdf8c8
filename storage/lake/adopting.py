"""Parquet files of others as parts of a table: what has to be known of each, and the links to them.

`examined` looks at a file: its columns, its rows, its statistics (out of its footer) and its checksum. It blocks.
`linked` makes a part of it, whose link is durable then; nothing refers to it before a transaction does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from storage.ids import ShardId
from storage.lake.formats import codec_of_arrow, reading
from storage.lake.opened import OpenedFiles
from storage.lake.places import LakeFile, Places, is_url
from storage.lake.troubles import FileTrouble
from storage.shards.field_ids import FIELD_ID, column_id
from storage.shards.footers import parquet_stats
from storage.shards.links import LINK_KIND, Link, LinkTarget, stored_type
from storage.shards.part_store import PartStore
from storage.shards.parts import ColumnStats, Part, PartDigest, fingerprint

BLOCK_BYTES = 8 << 20
"""Read at once for a checksum."""

RESERVED = frozenset({"file_row_number", "_metadata", "_row_id"})
"""Names of columns that engines give to what they know of a file."""

_HINT = "INSERT INTO ... SELECT ... FROM read_parquet(...) converts rows; files that are added are taken as they are."


class Examined(Struct, frozen=True, kw_only=True):
    """A file that fits a table: what a part of it says."""

    file: LakeFile
    link: Link
    rows: int
    stats: dict[str, ColumnStats]
    fingerprint: str
    checksum: str


def examined(places: Places, file: LakeFile, columns: Mapping[str, pa.Field], *, verified: bool) -> Examined:
    """`file` as a part of a table, whose `columns` are its physical ones by their names. `verified`: with a checksum of
    all of the file. Raises FileTrouble (column, mismatch, malformed, and those of reading)."""
    files = OpenedFiles(places, {file.path: file})
    with reading(file.path), files.open(file.path) as opened:
        metadata = pq.ParquetFile(opened).metadata
        schema = metadata.schema.to_arrow_schema()
        _check_columns(file.path, schema, columns)
        codec = codec_of_arrow(metadata)
        if codec is not None:
            what = f'file "{file.path}" is compressed with {codec.lower()}, which Spark does not read'
            raise FileTrouble("unsupported", what, hint=_HINT)
        digest = PartDigest()
        if verified:
            opened.seek(0)
            while data := opened.read(BLOCK_BYTES):
                digest.add(data)
    places.check_unchanged(file)
    names = {field.name: name for name, field in columns.items()}
    ids = {name: (schema.field(name).metadata or {}).get(FIELD_ID) for name in columns}
    known = {name: number for name, number in ids.items() if number is not None}
    own = {name: str(column_id(field.name)).encode() for name, field in columns.items()}
    odd = any(not _is_plain(schema.field(name).type) for name in columns)
    physical = pa.schema([pa.field(field.name, field.type) for field in columns.values()])
    by_name = parquet_stats(metadata, pa.schema([pa.field(name, field.type) for name, field in columns.items()]))
    return Examined(
        file=file,
        link=Link(path=real_location(file.path), names=names, is_odd=odd or (bool(known) and known != own)),
        rows=metadata.num_rows,
        stats={field.name: _comparable(by_name[name], schema.field(name).type) for name, field in columns.items()},
        fingerprint=fingerprint(physical),
        checksum=digest.checksum if verified else "",
    )


async def linked(parts: PartStore, shard: ShardId, found: Examined, *, owned: bool) -> Part:
    """A part of `shard` that is the file, with its link."""
    key = parts.new_key(shard, LINK_KIND)
    target = LinkTarget(path=found.link.path, bytes=found.file.size, version=found.file.version, owned=owned)
    await parts.add_file(key, msgspec.json.encode(target))
    return Part(
        kind="insert",
        rows=found.rows,
        bytes=found.file.size,
        stats=found.stats,
        key=key,
        checksum=found.checksum,
        fingerprint=found.fingerprint,
        link=found.link,
    )


def real_location(path: str) -> str:
    """`path` without symbolic links, which may come to lead elsewhere."""
    return path if is_url(path) else os.path.realpath(path)


def _check_columns(path: str, schema: pa.Schema, columns: Mapping[str, pa.Field]) -> None:
    names = Counter(name.lower() for name in schema.names)
    repeated = [name for name in schema.names if names[name.lower()] > 1]
    if repeated:
        raise FileTrouble("mismatch", f'file "{path}" has several columns called "{repeated[0].lower()}"')
    for name in schema.names:
        if name not in columns:
            raise FileTrouble("malformed", f'column "{name}" of file "{path}" is not in the table')
        if name in RESERVED or "." in name:
            raise FileTrouble("unsupported", f'a file with a column called "{name}" cannot be added: "{path}"')
    for name, field in columns.items():
        if name not in schema.names:
            raise FileTrouble("column", f'column "{name}" of the table is not in file "{path}"', hint=_HINT)
        found = schema.field(name).type
        if stored_type(found) != field.type:
            message = f'column "{name}" has type {found} in file "{path}", and {field.type} in the table'
            raise FileTrouble("mismatch", message, hint=_HINT)


def _is_plain(type: pa.DataType) -> bool:
    """Whether readers of Iceberg take a column of this type for what it is."""
    return bool(stored_type(type) == type or pa.types.is_large_string(type) or pa.types.is_large_binary(type))


def _comparable(stats: ColumnStats, type: pa.DataType) -> ColumnStats:
    """Bounds say nothing where the file counts in other units than the table."""
    same = not (pa.types.is_timestamp(type) or pa.types.is_time(type)) or type.unit == "us"
    return stats if same else ColumnStats(null_count=stats.null_count)
