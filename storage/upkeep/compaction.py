"""Compaction of one shard: which parts to rewrite, and the rows that come out. Pure, apart from its CPU time.

Only parts at or below the shard's since take part: every reader that is allowed to read sees all of them or what
replaces them. Rows keep their ids: a rewritten part has the hidden row-id column unless its ids are consecutive.

Deletions are folded: a row that an eligible delete part names is left out of the rewritten parts, and the delete
part is rewritten without that row's entry. So every entry of a delete part refers to a row that some part still
holds, and a delete part whose entries are all folded goes away. A part is rewritten for its deletions when it has lost
a share of its rows: each deletion is paid for by so many rows at most, however large the part is. Until then the delete
parts are merged with those of their size.

Parts of different columns or types are never merged: a part that lacks a column says something (its rows predate
the column, and have the column's missing value) that a NULL would not.

Where the shard has a layout (`storage.layouts`) what is merged comes out in its order, and in files of its size. Rows
whose order is not that of their ids have these in the column, as others have. Parts of one partition are merged with
their like; a part with rows of several is divided when it is merged with others of that kind, or by itself once it is
large.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from storage.layouts.layout import TableLayout
from storage.layouts.ordering import laid_out
from storage.shards.packed_parts import Block, PartMap, loose_parts
from storage.shards.partitions.transforms import PartitionValue, common_values
from storage.shards.parts import INLINE_LIMIT_BYTES, ROW_ID, Part
from storage.shards.shard_state import ShardState
from storage.timestamps.csn import Csn

RowIds: TypeAlias = npt.NDArray[np.int64]

SMALL_PART_BYTES = 8 * 1024 * 1024
"""Parts below are worth merging with their like."""

MAX_INPUT_BYTES = 32 * 1024 * 1024
MAX_INPUT_ROWS = 1_000_000
"""Stored bytes and rows that one compaction reads whole: they bound its memory. Deletions in larger parts are folded by
`storage.upkeep.large_compaction`."""

MAX_DELETED_ROWS = 4_000_000
"""Entries of delete parts that one compaction looks at: 32 MB of row ids."""

MERGE_FACTOR = 16
"""Parts of one size class that gather before they are merged: each row is rewritten about once per class."""

DELETED_SHARE = 0.1
"""A part is rewritten when so much of it is deleted."""

SIZE_CLASSES = (INLINE_LIMIT_BYTES, 1024 * 1024, SMALL_PART_BYTES)

WHOLE_SHARE = 0.5
"""A part of so much of the size that a layout wishes is not merged any more."""


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """Parts to rewrite together (all of one fingerprint), and the delete parts to fold into them."""

    inserts: tuple[Part, ...]
    deletes: tuple[Part, ...]


def eligible(state: ShardState, kind: str) -> list[Part]:
    """The parts of `kind` at or below the since, oldest first."""
    if kind == "delete":
        # NOTE: none of them is packed.
        deletes = [p for p in loose_parts(state.parts) if p.kind == kind and p.csn <= state.since]
        return sorted(deletes, key=attrgetter("id"))
    return [p for _, p in sorted(state.parts.items()) if p.kind == kind and p.csn <= state.since]


def wholly_deleted(state: ShardState) -> tuple[int, ...]:
    """The ids of the eligible parts that are deleted as a whole, and of their deletions: they go without being read."""
    due = {key: number for key, number in state.whole.items() if state.parts[number].csn <= state.since}
    if not due:
        return ()
    # NOTE: a deletion is never eligible before what it deletes.
    spans = [state.parts[number].row_id_bounds for number in due.values()]
    parts = state.parts
    near = parts.among(lambda block: block.may_have(spans)) if isinstance(parts, PartMap) else parts.values()
    inserts = {part.key: part.id for part in near if part.kind == "insert" and part.key in due}
    return tuple(sorted([*inserts.values(), *(due[key] for key in inserts if key is not None)]))


def deletions_due(state: ShardState) -> bool:
    """Whether it is worth reading all eligible delete parts to see what they hit: they name a share of the rows, or are
    about to be merged. What is merged has to be of some size beside the rest, which would be read each time else."""
    deletes = eligible(state, "delete")
    if not deletes:
        return False
    rows = eligible_rows(state)
    if sum(part.rows for part in deletes) > DELETED_SHARE * rows:
        return True
    merged = sum(part.bytes for part in deletes_alike(deletes))
    return 0 < sum(part.bytes for part in deletes) <= MERGE_FACTOR * merged


def eligible_rows(state: ShardState) -> int:
    """The rows of the eligible insert parts."""
    if not isinstance(state.parts, PartMap):
        return sum(part.rows for part in eligible(state, "insert"))
    inserts, _ = state.parts.visible(state.since)
    return inserts.rows


def deletes_alike(deletes: Iterable[Part]) -> list[Part]:
    """Delete parts of one size class and the same columns that are due to be merged, of the smallest such class; no
    more than are read at once."""
    classes: dict[tuple[int, tuple[str, ...]], list[Part]] = {}
    for part in deletes:
        number = sum(part.bytes >= limit for limit in SIZE_CLASSES)
        if number < len(SIZE_CLASSES):
            classes.setdefault((number, part.columns), []).append(part)
    due = [key for key, members in classes.items() if len(members) >= MERGE_FACTOR]
    found = list(read_at_once(classes[min(due)])) if due else []
    return found if len(found) > 1 else []


def deletes_to_read(state: ShardState) -> list[Part]:
    """The delete parts that `plan` wants to know the row ids of; those that are to be merged first."""
    deletes = eligible(state, "delete")
    alike = deletes_alike(deletes)
    if not deletions_due(state):
        return alike
    merged = {part.id for part in alike}
    return list(read_at_once([*alike, *(part for part in deletes if part.id not in merged)]))


def read_at_once(deletes: Iterable[Part]) -> Iterator[Part]:
    """Those of `deletes` whose entries are looked at together."""
    entries = size = 0
    for part in deletes:
        if entries + part.rows <= MAX_DELETED_ROWS and size + part.bytes <= MAX_INPUT_BYTES:
            entries, size = entries + part.rows, size + part.bytes
            yield part


def plan(
    state: ShardState,
    deleted: Mapping[int, RowIds],
    in_vain: Mapping[int, int] = MappingProxyType({}),
    layout: TableLayout | None = None,
    undivided: Container[int] = frozenset(),
) -> CompactionPlan | None:
    """What to compact next; None when nothing is due. `layout` is that of the shard, `undivided` the parts that it was
    tried in vain to divide by partition.

    `deleted` has the row ids of delete parts by part id: those of `deletes_to_read`. `in_vain`
    has parts that were rewritten for nothing, each with the number of deletions that seemed to hit it (a part whose ids
    have gaps may span deleted ids of other parts without holding one): it is left alone while the number is the same.
    """
    deletes = [part for part in eligible(state, "delete") if part.id in deleted]
    ids = joined([deleted[part.id] for part in deletes])
    inserts = _to_look_at(state, ids, layout)
    hits = {part.id: hits_of(part, ids) for part in inserts} if len(ids) else {}
    groups: dict[tuple[str, tuple[str, ...], tuple[PartitionValue, ...]], list[Part]] = {}
    for part in inserts:
        groups.setdefault((part.fingerprint, part.columns, partition_of(part, layout)), []).append(part)
    whole_bytes = _whole_bytes(layout)
    for group in groups.values():
        chosen = _choose(group, {i: n for i, n in hits.items() if in_vain.get(i) != n}, whole_bytes)
        if chosen:
            return CompactionPlan(inserts=tuple(chosen), deletes=tuple(deletes))
    mixed = next(mixed_parts(inserts, layout, undivided), None)
    if mixed is not None:
        return CompactionPlan(inserts=(mixed,), deletes=tuple(deletes))
    alike = deletes_alike(eligible(state, "delete"))
    if alike and all(part.id in deleted for part in alike):
        return CompactionPlan(inserts=(), deletes=tuple(alike))
    return None


def _to_look_at(state: ShardState, deleted: RowIds, layout: TableLayout | None) -> list[Part]:
    """The eligible insert parts without those of blocks of which none is small enough to be merged, or to be divided,
    or has one of the rows `deleted`."""
    parts = state.parts
    if not isinstance(parts, PartMap):
        return eligible(state, "insert")
    whole_bytes, partition = _whole_bytes(layout), () if layout is None else layout.partition

    def is_wanted(block: Block) -> bool:
        low, high = block.row_ids
        hit = np.searchsorted(deleted, high, "right") > np.searchsorted(deleted, low, "left")
        return block.smallest < whole_bytes or block.partition != partition or bool(hit)

    return [part for part in parts.among(is_wanted) if part.kind == "insert" and part.csn <= state.since]


def _whole_bytes(layout: TableLayout | None) -> int:
    """The bytes from which on a part is not merged."""
    if layout is None or layout.target_bytes is None:
        return SMALL_PART_BYTES
    return min(SMALL_PART_BYTES, round(WHOLE_SHARE * layout.target_bytes))


def partition_of(part: Part, layout: TableLayout | None) -> tuple[PartitionValue, ...]:
    """The partition of `layout` that all rows of `part` are known to be of; empty when there is none."""
    if layout is None or not layout.partition:
        return ()
    return part.partition if tuple([value.field for value in part.partition]) == layout.partition else ()


def mixed_parts(
    parts: Iterable[Part], layout: TableLayout | None, undivided: Container[int] = frozenset()
) -> Iterator[Part]:
    """Those of `parts` that are to be divided by themselves."""
    if layout is None or not layout.partition:
        return
    whole_bytes = _whole_bytes(layout)
    for part in parts:
        if part.kind != "insert" or not whole_bytes <= part.bytes <= MAX_INPUT_BYTES or part.rows > MAX_INPUT_ROWS:
            continue
        if part.id not in undivided and not partition_of(part, layout):
            yield part


def _choose(group: list[Part], hits: Mapping[int, int], whole_bytes: int) -> list[Part]:
    forced = [
        part for part in group if part.rows <= MAX_INPUT_ROWS and hits.get(part.id, 0) > DELETED_SHARE * part.rows
    ]
    chosen: dict[int, Part] = {}
    size = rows = 0
    for part in forced:
        if chosen and (size + part.bytes > MAX_INPUT_BYTES or rows + part.rows > MAX_INPUT_ROWS):
            break
        chosen[part.id] = part
        size, rows = size + part.bytes, rows + part.rows
    floor = 0
    for limit in SIZE_CLASSES:
        members = [p for p in group if floor <= p.bytes < min(limit, whole_bytes) and p.id not in chosen]
        floor = limit
        if len(members) >= MERGE_FACTOR:
            for part in members:
                if size + part.bytes > MAX_INPUT_BYTES or rows + part.rows > MAX_INPUT_ROWS:
                    continue
                chosen[part.id] = part
                size, rows = size + part.bytes, rows + part.rows
            break
    # One part alone that is not rewritten for its deletions gains nothing.
    if len(chosen) == 1 and not forced:
        return []
    return [chosen[part_id] for part_id in sorted(chosen)]


def hits_of(part: Part, ids: RowIds) -> int:
    """At least how many of the sorted `ids` are in `part` (exact unless its ids have gaps)."""
    low, high = part.row_id_bounds
    return int(np.searchsorted(ids, high, "right") - np.searchsorted(ids, low, "left"))


def among(ids: RowIds, sorted_ids: RowIds) -> npt.NDArray[np.bool_]:
    """Which of `ids` are in `sorted_ids`: a search in them, for sorting millions takes much longer."""
    if not len(sorted_ids):
        return np.zeros(len(ids), np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
    found: npt.NDArray[np.bool_] = sorted_ids[places] == ids
    return found


def joined(arrays: list[RowIds]) -> RowIds:
    """All of `arrays`, sorted."""
    return np.sort(np.concatenate(arrays)) if arrays else np.empty(0, np.int64)


class MergedRows(Struct, frozen=True, kw_only=True):
    """The rows of a new part. `first_row_id` is set, and `rows` has no id column, when each id is one above the one
    before it."""

    rows: pa.Table
    first_row_id: int | None


class Merged(Struct, frozen=True, kw_only=True):
    """What a compaction produces: the rows of new parts, and the delete entries that are left, by part id."""

    pieces: tuple[MergedRows, ...]
    is_divided: bool
    folded: int
    left: tuple[tuple[int, pa.Table], ...]
    csn: Csn
    delete_csn: Csn


def merge(
    chosen: CompactionPlan, inserts: list[pa.Table], deletes: list[pa.Table], layout: TableLayout | None = None
) -> Merged:
    """Merge the tables of the planned parts (in plan order, with ``_row_id``), as `layout` wants them.

    `left` names only delete parts that change. Runs in a thread.
    """
    delete_ids = [ids_of(table) for table in deletes]
    gone = joined(delete_ids)
    kept: list[pa.Table] = []
    seen: list[RowIds] = []
    for table in inserts:
        ids = ids_of(table)
        seen.append(ids)
        kept.append(table.filter(pa.array(~among(ids, gone))) if len(gone) else table)
    present = joined(seen)
    left: list[tuple[int, pa.Table]] = []
    for part, table, ids in zip(chosen.deletes, deletes, delete_ids, strict=True):
        folded = among(ids, present)
        if folded.any():
            left.append((part.id, table.filter(pa.array(~folded))))
    # NOTE: were there as many pieces as parts, they might be merged again, and so for ever. Those of one partition say
    # so, and are not merged with others.
    pieces = _pieces(kept, layout, most=max(1, len(inserts) // 2))
    return Merged(
        pieces=tuple(pieces),
        is_divided=_is_divided(chosen, pieces, layout),
        folded=sum(table.num_rows for table in inserts) - sum(table.num_rows for table in kept),
        left=tuple(left),
        csn=max((part.csn for part in chosen.inserts), default=Csn(0)),
        delete_csn=max((part.csn for part in chosen.deletes), default=Csn(0)),
    )


def _pieces(kept: list[pa.Table], layout: TableLayout | None, most: int) -> list[MergedRows]:
    rows = pa.concat_tables(kept).combine_chunks() if kept else None
    if rows is None or not rows.num_rows:
        return []
    ids = ids_of(rows)
    if not (np.diff(ids) > 0).all():
        rows = rows.take(pa.array(np.argsort(ids)))
    pieces = [rows] if layout is None else laid_out(rows, layout, most)
    found: list[MergedRows] = []
    for piece in pieces:
        first = consecutive_from(ids_of(piece))
        found.append(MergedRows(rows=piece if first is None else piece.drop_columns([ROW_ID]), first_row_id=first))
    return found


def _is_divided(chosen: CompactionPlan, pieces: list[MergedRows], layout: TableLayout | None) -> bool:
    """Whether some of `pieces` are of one partition, which what they were made of was not."""
    if layout is None or not layout.partition or all(partition_of(part, layout) for part in chosen.inserts):
        return False
    return any(common_values(layout.partition, piece.rows) is not None for piece in pieces)


def consecutive_from(ids: RowIds) -> int | None:
    """The first of `ids`, when each is one above the one before it: they follow from the rows' places then."""
    return int(ids[0]) if ids[-1] - ids[0] == len(ids) - 1 and bool((np.diff(ids) == 1).all()) else None


def ids_of(table: pa.Table) -> RowIds:
    """The row ids of `table`, in its order."""
    column: Any = table.column(ROW_ID)
    values: RowIds = column.combine_chunks().to_numpy(zero_copy_only=False)
    return values
