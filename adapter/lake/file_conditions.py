"""What a query requires of files before they are looked at: conditions on the columns that their folders give."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from adapter.plans.predicates import Conjunction, bind_templates, mask_of, scans_in
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.file_rows import FILE_ROWS
from storage.shards.parts import Part
from storage.shards.pruning import may_match


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
        masks: list[Any] = [mask_of(files, conjunction) for conjunction in self.conjunctions]
        if any(mask is None for mask in masks):
            return None
        needed: list[bool] = functools.reduce(pc.or_, masks).to_pylist()
        return needed

    def by_statistics(self, file: Part) -> bool:
        """Whether `file` may."""
        return may_match(file, self.conjunctions)
