"""Columns of enclosing queries.

A column's SQL names an alias, ``t<n>``. Aliases are numbered as they are made, so those of enclosing queries have the
smaller numbers. Engines tell by the names of columns alone to which query something belongs, PostgreSQL by what was
written: hence what is said here of foreign columns. `start` is the number of the last alias before a SELECT was built.
"""

from __future__ import annotations

from msgspec import Struct

from planner.ir import nodes as ir
from planner.ir.rewrite import column_uses
from planner.lowering.fragments.fragment import Fragment, made, simple
from planner.lowering.relations.select import Select


class Foreign(Struct, frozen=True):
    """Columns of a join's side that are an enclosing query's, and the id of the column that says that the side is
    there."""

    columns: dict[int, Fragment]
    present: int


def take_foreign(select: Select, start: int, present: int) -> Foreign | None:
    """Takes from the side of a join that may be missing the columns that are an enclosing query's: they are NULL where
    it is, so it gets a column `present` (an id) instead that says that it is there."""
    columns = {id: fragment for id, fragment in select.columns.items() if _is_foreign(fragment, start)}
    if not columns:
        return None
    own = {id: fragment for id, fragment in select.columns.items() if id not in columns}
    select.columns = {**own, present: simple("TRUE")}
    return Foreign(columns, present)


def give_back(select: Select, foreign: Foreign | None) -> None:
    """The columns that `take_foreign` took, NULL where the side is missing; `select` is the side as the join has it."""
    if foreign is not None:
        present = select.columns.pop(foreign.present)
        select.columns |= {
            id: made(f"CASE WHEN {present} THEN {fragment} END", present, fragment)
            for id, fragment in foreign.columns.items()
        }


def looks_foreign(call: ir.AggregateCall, select: Select, start: int) -> bool:
    """Whether an engine might take `call` over `select` for an aggregate of an enclosing query: it names columns of no
    other."""
    if not start:
        return False
    used = [select.columns.get(id) for id, _ in column_uses(call)]
    if any(
        fragment is not None and fragment.alias is not None and not _is_foreign(fragment, start) for fragment in used
    ):
        return False
    return any(fragment is None or fragment.alias is not None or not fragment.simple for fragment in used)


def _is_foreign(fragment: Fragment, start: int) -> bool:
    return fragment.alias is not None and int(fragment.alias.removeprefix("t")) <= start
