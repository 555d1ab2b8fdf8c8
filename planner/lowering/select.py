"""A SELECT under construction, into which relational nodes are merged as long as that keeps their meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from planner.lowering.context import Context, is_simple, is_volatile


class OrderKey(Struct):
    """One ORDER BY key: its SQL and the rest (``DESC NULLS FIRST``)."""

    sql: str
    suffix: str


class Select(Struct):
    """The clauses so far. `columns` maps field ids to the SQL of the output columns, in order."""

    ctx: Context
    columns: dict[int, str]
    source: str | None = None
    joined: bool = False
    """Whether `source` is a join, and so needs parentheses as the right side of another."""
    ctes: list[str] = field(default_factory=list)
    recursive: bool = False
    where: list[str] = field(default_factory=list)
    group_by: str | None = None
    having: list[str] = field(default_factory=list)
    distinct: str = ""
    windowed: bool = False
    expanded: bool = False
    """Whether a column is a set-returning expression."""
    order_by: list[OrderKey] = field(default_factory=list)
    limit: str | None = None
    offset: str | None = None
    set_operation: str | None = None
    """The text of a set operation, which stands in place of all clauses but ORDER BY and LIMIT."""

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

    def bare(self) -> bool:
        """Whether it can stand in a FROM clause as its source alone: no clauses, every column a plain reference."""
        return (
            self.plain()
            and not self.where
            and self.source is not None
            and all(map(is_reference, self.columns.values()))
        )

    def render(self, outputs: Sequence[tuple[str, str]] | None = None) -> str:
        """The SELECT's text. `outputs`, when given, are (SQL, name) of the output columns instead of `columns`."""
        if outputs is None:
            outputs = [(sql, f"c{id}") for id, sql in self.columns.items()]
        parts: list[str] = []
        if self.ctes:
            parts.append(f"WITH {'RECURSIVE ' if self.recursive else ''}{', '.join(self.ctes)} ")
        if self.set_operation is not None:
            parts.append(self.set_operation)
        else:
            items = ", ".join([f"{sql} AS {name}" for sql, name in outputs]) or "1 AS nothing"
            parts.append(f"SELECT {self.distinct}{items}")
            if self.source is not None:
                parts.append(f" FROM {self.source}")
            if self.where:
                parts.append(f" WHERE {' AND '.join(self.where)}")
            if self.group_by:
                parts.append(f" GROUP BY {self.group_by}")
            if self.having:
                parts.append(f" HAVING {' AND '.join(self.having)}")
        if self.order_by:
            names = dict(outputs)
            keys = [names.get(key.sql, key.sql) + key.suffix for key in self.order_by]
            parts.append(f" ORDER BY {', '.join(keys)}")
        if self.limit is not None:
            parts.append(f" LIMIT {self.limit}")
        if self.offset is not None:
            parts.append(f" OFFSET {self.offset}")
        return "".join(parts)

    def wrapped(self) -> Select:
        """A new SELECT that reads this one as a derived table."""
        alias = self.ctx.alias()
        sql = self.render()
        return Select(self.ctx, {id: f"{alias}.c{id}" for id in self.columns}, f"({sql}) AS {alias}")

    def as_source(self) -> str:
        """This SELECT as an item of a FROM clause; afterwards `columns` refers to that item."""
        if not self.bare():
            inner = self.wrapped()
            self.source, self.columns, self.joined = inner.source, inner.columns, False
            self.where = []
        assert self.source is not None
        return self.source


def is_reference(sql: str) -> bool:
    """Whether `sql` is a qualified column: ``t1.c2``."""
    return sql[0] == "t" and sql[1:2].isdigit() and "(" not in sql and " " not in sql


def may_inline(columns: Iterable[str], counts: Iterable[int]) -> bool:
    """Whether expressions, each used as often as `counts` says, may be written where they are used."""
    return all(
        is_simple(sql) or (count <= 1 and not is_volatile(sql)) for sql, count in zip(columns, counts, strict=True)
    )
