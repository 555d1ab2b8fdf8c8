"""Queries of rows that an index finds by one key, a few keys, or a range of keys, worked out once: ``SELECT ... WHERE
id = $1`` or ``BETWEEN $1 AND $2``, with what is made of the rows, and what UPDATE and DELETE read of them.

Which index it is, what else has to hold and what is computed follow from the plan alone, so they are kept with it; a
run decodes the keys, has the rows looked up, and computes with Python's values (`adapter.plans.computed.row_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from adapter.plans.computed.row_values import Given
from adapter.plans.key_access import KeyAccess, key_access
from adapter.plans.row_programs import ProgramMaker, RowProgram
from planner.ir import nodes as ir
from storage.catalog.model import CatalogSnapshot, Relation

MAX_ROWS = 1000
"""Rows that are read like this. An engine computes more in a thread, and sooner."""


class KeyRead(Struct, frozen=True, kw_only=True, eq=False):
    """A query of rows of `relation`: those that `access` finds, and what `program` makes of them.

    `first` says how many of them are needed at most, where they come in the order that is asked for.
    """

    relation: Relation
    access: KeyAccess
    program: RowProgram
    first: Callable[[Given], int | None] | None = None
    is_one_key: bool
    """Whether it reads the row of one whole key."""

    def limit(self, given: Given) -> int | None:
        """So many rows are enough; None when it takes all. Raises NeedsEngine."""
        return None if self.first is None else self.first(given)


def key_read_of(rel: ir.Rel, catalog: CatalogSnapshot) -> KeyRead | None:
    """`rel` as the reading of such rows; None when it is more than that."""
    nodes: list[ir.Rel] = []
    at = rel
    while isinstance(at, (ir.Project, ir.Filter, ir.Sort, ir.Limit, ir.Deduplicate, ir.Aggregate)):
        nodes.append(at)
        at = at.input
    if not isinstance(at, ir.Scan) or not rel.fields:
        return None
    relation = catalog.get(at.relation_oid)
    if not isinstance(relation, Relation) or relation.shard is None:
        return None
    conditions: list[ir.Scalar] = []
    while nodes and isinstance(node := nodes[-1], ir.Filter):
        conditions += _parts(node.condition)
        nodes.pop()
    # Which rows are needed depends on what is made of them, and what has to be tested on the index.
    shape = _program(at, relation, nodes, ())
    if shape is None:
        return None
    found = key_access(catalog, relation, at, conditions, shape.order, is_cut=shape.first is not None)
    if found is None:
        return None
    access, tests = found
    maker = _program(at, relation, nodes, tests)
    program = None if maker is None else maker.made(rel.fields)
    if maker is None or program is None:
        return None
    is_cut = maker.first is not None and not access.whole and access.serves and not tests
    return KeyRead(
        relation=relation,
        access=access,
        program=program,
        first=maker.first if is_cut else None,
        is_one_key=access.whole and access.among is None,
    )


def _parts(condition: ir.Scalar) -> list[ir.Scalar]:
    if isinstance(condition, ir.BoolOp) and condition.op == "and":
        return [part for arg in condition.args for part in _parts(arg)]
    return [condition]


def program_over(
    scan: ir.Scan, relation: Relation, nodes: Sequence[ir.Rel], fields: Sequence[ir.Field]
) -> RowProgram | None:
    """What makes the result, `fields`, of rows of `scan` as `nodes` (the last one first) do."""
    maker = _program(scan, relation, nodes, ())
    return None if maker is None else maker.made(fields)


def _program(
    scan: ir.Scan, relation: Relation, nodes: Sequence[ir.Rel], tests: Sequence[ir.Scalar]
) -> ProgramMaker | None:
    """What makes of rows of `scan` that meet the `tests` what `nodes` (the last one first) do."""
    maker = ProgramMaker(scan, relation)
    if not maker.filter(tests):
        return None
    for node in reversed(nodes):
        match node:
            case ir.Project():
                is_made = maker.project(node)
            case ir.Filter():
                is_made = maker.filter(_parts(node.condition))
            case ir.Sort():
                is_made = maker.sort(node)
            case ir.Limit():
                is_made = maker.limit(node)
            case ir.Deduplicate():
                is_made = maker.deduplicate(node)
            case ir.Aggregate():
                is_made = maker.aggregate(node)
            case _:
                is_made = False
        if not is_made:
            return None
    return maker
