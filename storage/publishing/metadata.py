"""metadata.json: what a table's readers begin with."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from msgspec import Struct
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import MetadataLogEntry, Operation, Snapshot, Summary
from pyiceberg.table.sorting import SortOrder

from storage.publishing.partitions import Specs
from storage.timestamps.csn import Csn, csn_ms

KEPT_LOG = 10
"""Earlier metadata files that the newest one names."""

CSN_PROPERTY = "tidegate.csn"
NAME_MAPPING_PROPERTY = "schema.name-mapping.default"


class Totals(Struct, frozen=True, kw_only=True):
    """What a snapshot has: numbers of files, of rows in them, of deleted ones, and the bytes of the data files."""

    data_files: int
    delete_files: int
    records: int
    deleted: int
    bytes: int


def parsed(data: bytes) -> TableMetadataV2:
    """The metadata that `data` is."""
    return TableMetadataV2.model_validate_json(data)


def with_schema(before: TableMetadataV2 | None, schema: Schema) -> tuple[list[Schema], int]:
    """The schemas of a table that looks like `schema` now, and the id of that one. One that it had comes again."""
    schemas = [] if before is None else list(before.schemas)
    for known in schemas:
        if known.fields == schema.fields:
            return schemas, known.schema_id
    number = max((known.schema_id for known in schemas), default=-1) + 1
    return [*schemas, Schema(*schema.fields, schema_id=number)], number


def next_metadata(
    before: TableMetadataV2 | None,
    *,
    before_location: str | None,
    table: uuid.UUID,
    location: str,
    csn: Csn,
    schemas: list[Schema],
    schema_id: int,
    sequence: int,
    manifest_list: str,
    totals: Totals,
    mapping: NameMapping,
    specs: Specs,
    orders: tuple[list[SortOrder], int],
    kept: Iterable[Csn],
) -> TableMetadataV2:
    """The metadata with a snapshot of `csn`, and those before that are `kept`."""
    shown = set(kept)
    earlier = [] if before is None else [each for each in before.snapshots if each.snapshot_id in shown]
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": csn,
            "parent-snapshot-id": earlier[-1].snapshot_id if earlier else None,
            "sequence-number": sequence,
            "timestamp-ms": csn_ms(csn),
            "manifest-list": manifest_list,
            "summary": Summary(Operation.OVERWRITE if earlier else Operation.APPEND, **_summary(csn, totals)),
            "schema-id": schema_id,
        }
    )
    snapshots = [*earlier, snapshot]
    log = [] if before is None else list(before.metadata_log)
    if before is not None and before_location is not None:
        log.append(
            MetadataLogEntry.model_validate({"metadata-file": before_location, "timestamp-ms": before.last_updated_ms})
        )
    return TableMetadataV2.model_validate(
        {
            "format-version": 2,
            "location": location,
            "table-uuid": table,
            "last-updated-ms": snapshot.timestamp_ms,
            "last-column-id": max(
                [0 if before is None else before.last_column_id, *(each.highest_field_id for each in schemas)]
            ),
            "schemas": schemas,
            "current-schema-id": schema_id,
            "partition-specs": list(specs.by_id.values()),
            "default-spec-id": specs.current,
            "last-partition-id": specs.last_field,
            "properties": {NAME_MAPPING_PROPERTY: mapping.model_dump_json()},
            "current-snapshot-id": csn,
            "snapshots": snapshots,
            "snapshot-log": [
                {"snapshot-id": each.snapshot_id, "timestamp-ms": each.timestamp_ms} for each in snapshots
            ],
            "metadata-log": log[-KEPT_LOG:],
            "sort-orders": orders[0],
            "default-sort-order-id": orders[1],
            "refs": {MAIN_BRANCH: {"snapshot-id": csn, "type": "branch"}},
            "last-sequence-number": sequence,
        }
    )


def _summary(csn: Csn, totals: Totals) -> Mapping[str, str]:
    return {
        CSN_PROPERTY: str(csn),
        "total-data-files": str(totals.data_files),
        "total-delete-files": str(totals.delete_files),
        "total-records": str(totals.records),
        "total-position-deletes": str(totals.deleted),
        "total-equality-deletes": "0",
        "total-files-size": str(totals.bytes),
    }
