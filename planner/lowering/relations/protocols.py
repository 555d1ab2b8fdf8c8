"""What the parts that print one kind of node need of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planner.ir import nodes as ir
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import OrderKey
from planner.lowering.relations.select import Select
from planner.lowering.scalars.scalars import Scalars


class RelationLowering(Protocol):
    """The relational half of a lowering."""

    ctx: Context
    scalars: Scalars

    def build(self, rel: ir.Rel) -> Select:
        """The SELECT of a node; the SQL of its columns is in scope afterwards."""

    def wrap(self, select: Select) -> Select:
        """A SELECT that reads `select` as a derived table; its columns are in scope afterwards."""

    def order_keys(self, keys: Sequence[ir.SortKey]) -> list[OrderKey]:
        """ORDER BY keys with their null order, without those that order nothing."""
