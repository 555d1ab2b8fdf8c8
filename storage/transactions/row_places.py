"""Where a sealed transaction puts its new rows, so that the ids that they get can be told from the provisional ones.

A shard numbers rows when a commit reaches it (`storage.shards.shard_state`), part by part in the order in which the
commit names them. Which rows are in which part is decided when the transaction is sealed: small runs of rows, also
those of several transactions that commit together, become one part. `Run` says it for each part::

    [[Run(scope=0, first=PROVISIONAL_ROW_ID, rows=2), Run(scope=1, first=PROVISIONAL_ROW_ID, rows=1)]]

is one part with three rows, two of the first member and one of the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import Struct

from storage.shards.parts import INLINE_LIMIT_BYTES, PROVISIONAL_ROW_ID, Part, arrow_bytes


class Run(NamedTuple):
    """Neighbouring rows of a part: of which member of the commit they are, and the provisional id of the first."""

    scope: int
    first: int
    rows: int


class NewPart(Struct):
    """Rows that become one part: all of one schema."""

    runs: list[Run]
    tables: list[pa.Table]


def coalesced(parts: list[NewPart]) -> list[NewPart]:
    """One part for each schema, for commits in which nothing refers to provisional ids. Large ones stay alone."""
    large: list[NewPart] = []
    small: list[NewPart] = []
    for part in parts:
        if sum([arrow_bytes(table) for table in part.tables]) > INLINE_LIMIT_BYTES:
            large.append(part)
            continue
        schema = part.tables[0].schema
        gathered = next((each for each in small if each.tables[0].schema.equals(schema)), None)
        if gathered is None:
            small.append(NewPart([*part.runs], [*part.tables]))
        else:
            gathered.runs.extend(part.runs)
            gathered.tables.extend(part.tables)
    return [*large, *small]


class _Growing(Struct):
    """Deletions of one schema that are put together at `at`: of committed rows, or of the own ones of `owner`."""

    owner: int | None
    schema: pa.Schema
    at: int
    nbytes: int = 0


def delete_groups(deletes: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, list[pa.Table]]]:
    """Deletions (by member) that become one part each, and the member that the part is of. Those of committed rows may
    be put together whoever deletes them; those that name provisional ids belong to one member."""
    found: list[tuple[int, list[pa.Table]]] = []
    growing: list[_Growing] = []
    for scope, table in deletes:
        owner, size = scope if is_provisional(table) else None, arrow_bytes(table)
        group = next((each for each in growing if each.owner == owner and each.schema.equals(table.schema)), None)
        if group is None:
            group = _Growing(owner, table.schema, len(found))
            growing.append(group)
            found.append((scope, []))
        elif group.nbytes + size > INLINE_LIMIT_BYTES and found[group.at][0] != scope:
            group.at, group.nbytes = len(found), 0
            found.append((scope, []))
        group.nbytes += size
        found[group.at][1].append(table)
    return found


def is_provisional(table: pa.Table) -> bool:
    """Whether a deletion names a row that is not committed."""
    return any(
        len(chunk) and int(chunk.to_numpy(zero_copy_only=False).max()) >= PROVISIONAL_ROW_ID
        for chunk in table.column(0).chunks
    )


def committed_ids(
    ids: np.ndarray[Any, Any], scope: int, places: Sequence[Sequence[Run]], parts: Sequence[Part]
) -> np.ndarray[Any, Any]:
    """`ids`, with the provisional ones of member `scope` replaced by those that the rows have got.

    `parts` are the insert parts of the commit as the shard has them, in their order. Raises ValueError when they are
    not those of `places`.
    """
    if len(parts) != len(places):
        raise ValueError(f"{len(parts)} parts were committed, {len(places)} were sealed")
    actual = ids.copy()
    for runs, part in zip(places, parts, strict=True):
        if sum(run.rows for run in runs) != part.rows:
            raise ValueError(f"part {part.id} has other rows than were sealed")
        first = part.first_row_id
        for run in runs:
            if run.scope == scope:
                mine = (ids >= run.first) & (ids < run.first + run.rows)
                actual[mine] = ids[mine] - run.first + first
            first += run.rows
    if (actual >= PROVISIONAL_ROW_ID).any():
        raise ValueError("some of the rows were not committed")
    return actual
