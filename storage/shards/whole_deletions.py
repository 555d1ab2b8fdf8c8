"""Deletions of whole parts: a delete part may have the file of the insert part whose rows it deletes, all of them.

Nothing is read and nothing is written for it. The file has the old values, and its rows' ids are those of the insert
part. In a snapshot that has both, neither is anything (`remaining`).

SUBTLE: so one file may be of two parts of a shard, which go at different times. `ShardState.whole` knows the deletions,
and a file is garbage when neither part is left (`storage.shards.shard_state`). The deletion may be committed after a
compaction has replaced the insert part: the file is garbage until then, and the collector leaves it alone for as long
as somebody reads at a CSN at which it was none (`storage.upkeep.garbage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from storage.shards.packed_parts import PackedParts, PartSequence
from storage.shards.parts import Part, part_may_match
from storage.timestamps.csn import Csn

WHOLE_FORMAT = 7
"""The format (`storage.durable.state`) of what names such deletions. A server that does not know it would look for row
ids in the file, and remove it too early."""

_NEGATED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def deletion_of(part: Part) -> Part:
    """The deletion of all rows of the insert part `part`, as a transaction has one that it has just written. Raises
    ValueError for a part that is no committed file of new rows."""
    if part.kind != "insert" or part.key is None or part.id < 0:
        raise ValueError("only a committed file of rows is deleted as a whole")
    return replace(part, kind="delete", whole=True, id=-1, csn=Csn(0), schema_version=-1, runs={}, readable_from=Csn(0))


def remaining(inserts: PartSequence, deletes: tuple[Part, ...]) -> tuple[PartSequence, tuple[Part, ...]]:
    """`inserts` and `deletes` of one snapshot without the parts that are deleted as a whole, and their deletions."""
    for part in deletes:
        if part.whole:
            break
    else:
        return inserts, deletes
    if isinstance(inserts, PackedParts):
        left, of_parts = inserts.without([part for part in deletes if part.whole])
        return left, tuple([part for part in deletes if not (part.whole and part.key in of_parts)])
    gone = {part.key for part in deletes if part.whole}
    found = gone.intersection([part.key for part in inserts])
    return (
        tuple([part for part in inserts if part.key not in found]),
        tuple([part for part in deletes if not (part.whole and part.key in found)]),
    )


def surely_matches(part: Part, conditions: Sequence[tuple[str, str, Any]]) -> bool:
    """True only when every row of `part` satisfies all `conditions` (column, operator, value), which are as for
    `part_may_match`."""
    return all(_surely(part, column, op, value) for column, op, value in conditions)


def _surely(part: Part, column: str, op: str, value: Any) -> bool:
    stats = part.stats.get(column)
    if stats is None:
        return False
    if op == "is null":
        return stats.null_count == part.rows
    if stats.null_count != 0 or (value is None and op != "is not null"):
        return False
    if op == "is not null":
        return True
    if op == "in":
        return any(_surely(part, column, "=", item) for item in value)
    if op == "=" and any(known.is_of(value) for known in part.partition if known.field.column == column):
        return True
    return op in _NEGATED and not part_may_match(part, column, _NEGATED[op], value)
