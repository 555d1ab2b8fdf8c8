"""Key runs as files beside their parts, named in the parts' records.

Whoever writes the file of a part writes its runs with it (`IndexRunMaker`, in `PartStore`), and the commit promises
them as it promises the part; compaction too. What the parts of an index lack all the same (they are older, or an
engine wrote them) is added in the background (`storage.upkeep.indexing`). A run that is damaged, missing, or of another
definition is never used: it is made anew from its part.
"""

from __future__ import annotations

import pyarrow as pa

from storage.shards.indexes import runs
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.runs import CorruptRun, KeyRun, RunHead
from storage.shards.parts import Part, RunRef

INLINE_FILTER_BYTES = 2048
"""Filters up to this size are in the part's record: of some 1,600 rows."""


class IndexRunMaker:
    """See `storage.shards.part_store.RunMaker`."""

    def __init__(self, definition: IndexDefinition) -> None:
        self._definition = definition

    @property
    def index(self) -> int:
        """The oid of the index."""
        return self._definition.id

    def make(self, part: Part, rows: pa.Table, key: str) -> tuple[RunRef, bytes]:
        """The run of `part`, whose stored rows are `rows`, to be stored as `key`.

        Raises what computed columns raise.
        """
        data = runs.build(self._definition, conformed(self._definition, rows), runs.part_tag(part))
        return run_ref(self._definition, part, data, key), data


def conformed(definition: IndexDefinition, rows: pa.Table) -> pa.Table:
    """The columns that the keys of `definition` follow from, of the stored `rows`."""
    held = set(rows.column_names)
    return pa.table(
        {
            column.name: column.conform(rows.column(column.name) if column.name in held else None, rows.num_rows)
            for column in definition.inputs
        }
    )


def run_ref(definition: IndexDefinition, part: Part, data: bytes | memoryview, key: str) -> RunRef:
    """What the record of `part` says of its run `data`, which is stored as `key`."""
    head = runs.read_head(definition.fingerprint, runs.part_tag(part), data, "a key run")
    small = 0 < head.filter_bytes <= INLINE_FILTER_BYTES
    return RunRef(
        key=key,
        bytes=len(data),
        fingerprint=definition.fingerprint,
        checksum=head.checksum,
        low=head.low,
        high=head.high,
        filter=runs.read_filter(head, data, "a key run") if small else None,
    )


def durable_run(part: Part, definition: IndexDefinition) -> RunRef | None:
    """The run of `part` that its record names for `definition`, under whatever index's oid."""
    for found in part.runs.values():
        if found.fingerprint == definition.fingerprint:
            return found
    return None


def head_of(part: Part, ref: RunRef, data: bytes | memoryview) -> RunHead:
    """Head and directory of the run that `ref` names, whose first bytes are `data`. Raises `CorruptRun` and
    NewerFormat."""
    head = runs.read_head(ref.fingerprint, runs.part_tag(part), data, f"key run {ref.key}")
    if head.checksum != ref.checksum:
        raise CorruptRun(f"key run {ref.key} is not the one that its part names")
    if head.part_rows != part.rows:
        raise CorruptRun(f"key run {ref.key} is of {head.part_rows} rows, its part has {part.rows}")
    return head


def open_run(part: Part, ref: RunRef, data: bytes | memoryview) -> KeyRun:
    """The run that `ref` names, whose bytes are `data`. Raises `CorruptRun` and NewerFormat."""
    head_of(part, ref, data)
    return runs.decode(ref.fingerprint, runs.part_tag(part), data, f"key run {ref.key}")
