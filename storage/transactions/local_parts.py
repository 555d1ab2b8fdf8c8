"""Rows that a transaction has buffered, as inline parts for its own readers.

A transaction that reads after each of its writes would make parts of everything again and again. So what was made
stays, and new rows get a part of their own; parts that are no larger than what comes after them are made anew together
with it. So n writes make parts of each row about log2(n) times, and a reader finds about log2(n) parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from msgspec import Struct, field

from storage.shards.parts import Part, inline_part


class _Made(Struct, frozen=True):
    """The part of the next so many tables of a list."""

    tables: int
    part: Part


class LocalParts(Struct):
    """The parts of one kind for a list of tables that only grows."""

    kind: str
    made: list[_Made] = field(default_factory=list)

    def missing_rows(self, tables: Sequence[pa.Table]) -> int:
        """How many rows of `tables` are in no part yet."""
        return sum([table.num_rows for table in tables[self._done() :]])

    def of(self, tables: Sequence[pa.Table]) -> list[Part]:
        """The parts of `tables`: the list given before, with more at its end."""
        end = self._done()
        for group in schema_groups(tables[end:]):
            start, end = end, end + len(group)
            rows = sum([table.num_rows for table in group])
            while self.made and self.made[-1].part.rows <= rows and tables[start - 1].schema.equals(group[0].schema):
                last = self.made.pop()
                start -= last.tables
                rows += last.part.rows
            table = tables[start] if end == start + 1 else pa.concat_tables(tables[start:end])
            self.made.append(_Made(end - start, inline_part(self.kind, table)))
        return [each.part for each in self.made]

    def _done(self) -> int:
        return sum([each.tables for each in self.made])


def schema_groups(tables: Sequence[pa.Table]) -> list[list[pa.Table]]:
    """`tables` in runs of one schema."""
    groups: list[list[pa.Table]] = []
    for table in tables:
        if groups and groups[-1][0].schema.equals(table.schema):
            groups[-1].append(table)
        else:
            groups.append([table])
    return groups
