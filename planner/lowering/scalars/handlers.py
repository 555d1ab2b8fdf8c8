"""What prints each kind of expression, gathered."""

from __future__ import annotations

from planner.lowering.fragments.context import Context
from planner.lowering.scalars import arrays, leaves, logic, routines, rows, subqueries
from planner.lowering.scalars.scalars import Handlers, Scalars

_HANDLERS: Handlers = {
    **leaves.HANDLERS,
    **routines.HANDLERS,
    **logic.HANDLERS,
    **arrays.HANDLERS,
    **rows.HANDLERS,
    **subqueries.HANDLERS,
}


def new_scalars(ctx: Context) -> Scalars:
    """The scalar half of a lowering."""
    return Scalars(ctx, _HANDLERS, subqueries.CONDITIONS)
