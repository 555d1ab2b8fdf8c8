"""A SELECT under construction, into which relational nodes are merged as long as that keeps their meaning."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, OrderKey, column, listed, made, simple


class Select(Struct):
    """The clauses so far. `columns` maps field ids to the SQL of the output columns, in order."""

    ctx: Context
    columns: dict[int, Fragment]
    source: Fragment | None = None
    joined: bool = False
    """Whether `source` is a join, and so needs parentheses as the right side of another."""
    ctes: list[Fragment] = field(default_factory=list)
    recursive: bool = False
    where: list[Fragment] = field(default_factory=list)
    group_by: Fragment | None = None
    """The keys; without text, of one group of all rows."""
    whole: list[Fragment] | None = None
    """The aggregates where all rows are one group: an engine knows that from an aggregate among the columns only."""
    tells_grouping: bool = False
    """Whether a column is made of GROUPING()."""
    having: list[Fragment] = field(default_factory=list)
    distinct: bool = False
    windowed: bool = False
    expanded: bool = False
    """Whether a column is a set-returning expression."""
    order_by: list[OrderKey] = field(default_factory=list)
    limit: Fragment | None = None
    offset: Fragment | None = None
    set_operation: Fragment | None = None
    """A set operation, which stands in place of all clauses but ORDER BY and LIMIT."""

    def plain(self) -> bool:
        """Whether this is nothing but a source, conditions and columns."""
        return not (
            self.group_by is not None
            or self.distinct
            or self.windowed
            or self.expanded
            or self.order_by
            or self.limited()
            or self.set_operation
            or self.ctes
        )

    def limited(self) -> bool:
        """Whether it has LIMIT or OFFSET."""
        return self.limit is not None or self.offset is not None

    def refers_only(self) -> bool:
        """Whether every column is a column of a FROM item."""
        return all(fragment.alias is not None for fragment in self.columns.values())

    def render(self, outputs: Sequence[tuple[Fragment, str]] | None = None) -> Fragment:
        """The SELECT's text. `outputs`, when given, are (SQL, name) of the output columns instead of `columns`."""
        if outputs is None:
            outputs = [(fragment, f"c{id}") for id, fragment in self.columns.items()]
        parts: list[Fragment] = [*self.ctes, *[key.key for key in self.order_by]]
        text = ""
        if self.ctes:
            text = f"WITH {'RECURSIVE ' if self.recursive else ''}{listed(self.ctes)} "
        if self.set_operation is not None:
            parts.append(self.set_operation)
            text += self.set_operation.sql
        else:
            items = ", ".join([f"{fragment.sql} AS {name}" for fragment, name in outputs]) or "1 AS nothing"
            parts += [fragment for fragment, _ in outputs]
            text += f"SELECT {'DISTINCT ' if self.distinct else ''}{items}"
            if self.source is not None:
                parts.append(self.source)
                text += f" FROM {self.source.sql}"
            if self.where:
                parts += self.where
                text += f" WHERE {listed(self.where, ' AND ')}"
            if self.group_by is not None and self.group_by.sql:
                parts.append(self.group_by)
                text += f" GROUP BY {self.group_by.sql}"
            having = [*self.having, simple("count(*) >= 0")] if self._looks_ungrouped(outputs) else self.having
            if having:
                parts += having
                text += f" HAVING {listed(having, ' AND ')}"
        if self.order_by:
            # A key that is an output column is called by its name.
            names = {fragment.sql: name for fragment, name in outputs}
            keys = [names.get(key.key.sql, key.key.sql) + key.suffix for key in self.order_by]
            text += f" ORDER BY {', '.join(keys)}"
        for word, count in (("LIMIT", self.limit), ("OFFSET", self.offset)):
            if count is not None:
                parts.append(count)
                text += f" {word} {count.sql}"
        return made(text, *parts)

    def _looks_ungrouped(self, outputs: Sequence[tuple[Fragment, str]]) -> bool:
        """Whether all rows are one group and nothing in the text says so: nobody asks for an aggregate."""
        if self.whole is None:
            return False
        # The aggregate of a subquery in one of them is another one, whatever it is called.
        asked = [
            fragment for fragment in (*[fragment for fragment, _ in outputs], *self.having) if not fragment.subquery
        ]
        texts = [fragment.sql for fragment in asked]
        return not any(aggregate.sql in text for aggregate in self.whole for text in texts)

    def wrapped(self) -> Select:
        """A new SELECT that reads this one as a derived table."""
        alias = self.ctx.alias()
        inner = self.render()
        return Select(self.ctx, {id: column(alias, f"c{id}") for id in self.columns}, derived(inner, alias))

    def as_source(self) -> Fragment:
        """This SELECT as an item of a FROM clause; afterwards `columns` refers to that item."""
        if not self.plain() or self.where or self.source is None or not self.refers_only():
            inner = self.wrapped()
            self.source, self.columns, self.joined = inner.source, inner.columns, False
            self.where = []
        assert self.source is not None
        return self.source


def derived(inner: Fragment, alias: str) -> Fragment:
    """A SELECT as a derived table."""
    return made(f"({inner}) AS {alias}", inner)
