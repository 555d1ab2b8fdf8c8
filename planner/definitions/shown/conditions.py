"""Conditions of policies as text, with queries inside them."""

from __future__ import annotations

from planner.definitions.expression_text import NotPrintable, ObjectNames, with_lines
from planner.definitions.shown.queries import Queries, ShownName
from planner.ir import nodes as ir
from planner.queries.grammar import new_statement
from planner.queries.relations import bind_in_view
from planner.queries.select import SelectQuery
from planner.resolution.query import bind_query
from planner.resolution.statement import BindContext, Level, QueryNotes
from planner.syntax.parse import Parsed


def condition_shown(
    query: Parsed, context: BindContext, shown: ShownName, *, pretty: bool, objects: ObjectNames | None
) -> str:
    """The text of the condition of `query`, which reads one table: its columns are qualified inside of subqueries only.
    Raises NotPrintable."""
    statement = new_statement(query, context)
    statement.written, statement.notes, statement.outlined = {}, QueryNotes(), True

    def printed(level: Level) -> str:
        rel = bind_query(level, query.tree)
        return _Conditions(statement, shown, pretty=pretty, wrap=0, objects=objects).condition_of(rel)

    text: str = bind_in_view(statement, printed, query)
    return with_lines(text)


class _Conditions(Queries):
    def condition_of(self, rel: ir.Rel) -> str:
        """The condition of the query that became `rel`."""
        query, tree = self._noted(rel)
        if not isinstance(query, SelectQuery) or query.where is None:
            raise NotPrintable
        self.taken = [*self.taken, set()]
        self.levels.append(query.level)
        self.name_items(tree.from_clause)
        self.qualified = False
        return self.expr(query.where, implicit=False)

    def subquery(self, rel: ir.Rel) -> str:
        outer, self.qualified = self.qualified, True
        text = super().subquery(rel)
        self.qualified = outer
        return text
