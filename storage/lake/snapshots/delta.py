"""Delta tables read by their log: https://github.com/delta-io/delta/blob/master/PROTOCOL.md.

The library deltalake reads the log and the deletion vectors; the data files are read as everything else of a lake is.
Columns that the table maps to other names are found by these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from storage.lake.places import LakeFile, Places, is_url, located
from storage.lake.snapshots.tables import Positions, SnapshotFile, SnapshotListing, known_of, statistics
from storage.lake.tables import plain_type
from storage.lake.troubles import FileTrouble, malformed
from storage.shards.parts import stat_value

_READ = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "domainMetadata",
     "appendOnly", "invariants", "inCommitTimestamp"}
)  # fmt: skip
"""Features of a table that readers have to know, and these do."""


def delta_listing(
    places: Places, path: str, *, version: int | None = None, as_of: datetime | None = None
) -> SnapshotListing:
    """The table as its newest version has it, as `version` has it, or as it was at `as_of`. Raises FileTrouble."""
    from deltalake import DeltaTable

    if not places.has_folder(f"{path}/_delta_log"):
        raise FileTrouble("missing", f'"{path}" is no Delta table: it has no log')
    options = {name: str(value) for name, value in places.options.items()} if is_url(path) else None
    with _understood(path):
        table = DeltaTable(path, storage_options=options)
        if version is not None:
            if version > table.version():
                raise FileTrouble("missing", f'table "{path}" has no version {version}')
            table.load_as_version(version)
        if as_of is not None:
            table.load_as_version(as_of)
            # Of moments before the first version the library gives that one.
            if table.history(limit=1)[0].get("timestamp", 0) > as_of.timestamp() * 1000:
                raise FileTrouble("missing", f'table "{path}" has no version of {as_of.isoformat(" ")}')
        features = set(table.protocol().reader_features or ())
        unknown = sorted(features - _READ)
        if unknown:
            what = f'table "{path}" has the features {", ".join(unknown)}, which are not supported'
            raise FileTrouble("unsupported", what)
        schema, physical = _schema(path, json.loads(table.schema().to_json()))
        partitions = {name: schema.field(name).type for name in table.metadata().partition_columns}
        actions = pa.table(table.get_add_actions(flatten=True))
        vectors = _vectors(table) if "deletionVectors" in features else {}
    files = tuple(_file(places, path, row, schema, physical, partitions, vectors) for row in actions.to_pylist())
    return SnapshotListing(where=path, schema=schema, files=files, physical=physical)


def _schema(path: str, schema: Mapping[str, Any]) -> tuple[pa.Schema, Mapping[str, str]]:
    """The columns, and what the files call those that are called otherwise there."""
    physical = {}
    fields = []
    for field in schema["fields"]:
        name = field["name"]
        other = _physical(field)
        if other != name:
            physical[name] = other
        fields.append(pa.field(name, plain_type(_type(path, name, field["type"]))))
    return pa.schema(fields), physical


def _physical(field: Mapping[str, Any]) -> str:
    """What the files call a field."""
    return str(field.get("metadata", {}).get("delta.columnMapping.physicalName", field["name"]))


_MAPPED = pa.sparse_union([pa.field("mapped names", pa.null())])
"""In place of a struct whose fields the files call otherwise, which nobody reads."""

_TYPES = {
    "string": pa.string(), "long": pa.int64(), "integer": pa.int32(), "short": pa.int16(), "byte": pa.int8(),
    "float": pa.float32(), "double": pa.float64(), "boolean": pa.bool_(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def _type(path: str, column: str, type: Any) -> pa.DataType:
    if isinstance(type, str):
        decimal = _DECIMAL.fullmatch(type)
        if decimal is not None:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if type in _TYPES:
            return _TYPES[type]
    elif type["type"] == "array":
        return pa.list_(_type(path, column, type["elementType"]))
    elif type["type"] == "struct":
        if any(_physical(each) != each["name"] for each in type["fields"]):
            return _MAPPED
        return pa.struct([pa.field(each["name"], _type(path, column, each["type"])) for each in type["fields"]])
    elif type["type"] == "map":
        return pa.map_(_type(path, column, type["keyType"]), _type(path, column, type["valueType"]))
    raise FileTrouble("unsupported", f'column "{column}" of table "{path}" has type {type}, which is not supported')


def _file(
    places: Places,
    root: str,
    row: Mapping[str, Any],
    schema: pa.Schema,
    physical: Mapping[str, str],
    partitions: Mapping[str, pa.DataType],
    vectors: Mapping[str, Positions],
) -> SnapshotFile:
    path = unquote(row["path"])
    if not (path.startswith("/") or ":/" in path):
        path = f"{root.rstrip('/')}/{path}"
    path = located(path)
    places.check(path)
    rows = row.get("num_records")
    values = tuple((name, row.get(f"partition.{name}")) for name in partitions)
    stats = {}
    for name, value in values:
        bound = stat_value(value)
        stats[name] = statistics(partitions[name], bound, bound, (rows or 1) if value is None else 0)
    for field in schema if rows is not None else ():
        name, own = field.name, physical.get(field.name, field.name)
        low, high = _bound(row.get(f"min.{own}"), field.type), _bound(row.get(f"max.{own}"), field.type)
        nulls = row.get(f"null_count.{own}")
        if name not in stats and (low is not None or high is not None or nulls is not None):
            # Texts are cut, and what is cut is no bound from above.
            stats[name] = statistics(field.type, low, None if pa.types.is_string(field.type) else high, nulls)
    gone = vectors.get(path)
    file = LakeFile(path=path, size=int(row["size_bytes"]))
    return SnapshotFile(
        file=file,
        known=known_of(file, rows if rows is not None else -1, stats),
        values=values,
        deleted=None if gone is None else partial(_given, gone),
    )


def _bound(value: Any, type: pa.DataType) -> Any:
    """A bound as statistics compare it. Those of timestamps are cut to milliseconds."""
    if isinstance(value, Decimal | date | int | float | str) and not pa.types.is_timestamp(type):
        return stat_value(value)
    return None


def _given(positions: Positions) -> Positions:
    return positions


def _vectors(table: Any) -> Mapping[str, Positions]:
    """The places of deleted rows, by file."""
    found = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for path, kept in zip(batch.column("filepath"), batch.column("selection_vector"), strict=True):
            mask = np.asarray(kept.values.to_numpy(zero_copy_only=False), bool)
            found[located(unquote(path.as_py()))] = np.flatnonzero(~mask).astype(np.int64)
    return found


@contextmanager
def _understood(path: str) -> Iterator[None]:
    """Turns what deltalake raises into FileTrouble."""
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        yield
    except TableNotFoundError as error:
        raise FileTrouble("missing", f'"{path}" is no Delta table') from error
    except (DeltaError, ValueError, KeyError) as error:
        raise malformed(path, error) from error
    except OSError as error:
        raise FileTrouble("unreachable", f'could not read the log of "{path}": {error}') from error
