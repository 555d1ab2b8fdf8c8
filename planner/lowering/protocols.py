"""What the parts of a lowering that print inside a SELECT need of the part that prints SELECTs.

Scalars have subqueries, subqueries have scalars: the two halves call each other. `Relations` takes the others and is
handed to them as a `RelationLowering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planner.ir import nodes as ir
from planner.lowering.select import OrderKey, Select


class RelationLowering(Protocol):
    """The relational half of a lowering."""

    def build(self, rel: ir.Rel) -> Select:
        """The SELECT of a node; the SQL of its columns is in scope afterwards."""

    def subquery(self, rel: ir.Rel) -> str:
        """A node as the text of a SELECT whose columns are ``c<id>``, in the order of its fields."""

    def wrap(self, select: Select) -> Select:
        """A SELECT that reads `select` as a derived table; its columns are in scope afterwards."""

    def order_keys(self, keys: Sequence[ir.SortKey]) -> list[OrderKey]:
        """ORDER BY keys with their null order, without those that order nothing."""

    def inlinable(self, select: Select, exprs: Sequence[ir.Scalar]) -> bool:
        """Whether the columns of `select` that `exprs` use may be replaced by their expressions."""
