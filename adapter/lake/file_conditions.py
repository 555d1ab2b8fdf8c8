"""What a query requires of files before they are looked at: conditions on the columns that their folders give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from msgspec import Struct

from adapter.plans.predicates import Conjunction, bind_templates, mask_of_any, scans_in
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.file_rows import FILE_ROWS
from storage.shards.parts import Part, may_match


def file_conditions(query: BoundQuery, params: Sequence[ir.Literal]) -> Mapping[int, tuple[Conjunction, ...]]:
    """By the id of rows of files: the conjunctions of which a row has to satisfy one, on columns as the files call
    them."""
    found = [template for template in scans_in(query.rel, ()) if template.relation_oid <= FILE_ROWS]
    return bind_templates(found, params)


class FilesNeeded(Struct, frozen=True):
    """Which files may have rows that satisfy one of `conjunctions`."""

    conjunctions: tuple[Conjunction, ...]

    def by_folders(self, files: pa.Table) -> Sequence[bool] | None:
        """Which rows of `files`, a row of the values of its folders for each, may; None: all."""
        mask = mask_of_any(files, self.conjunctions)
        return None if mask is None else mask.to_pylist()

    def by_statistics(self, file: Part) -> bool:
        """Whether `file` may."""
        return may_match(file, self.conjunctions)
