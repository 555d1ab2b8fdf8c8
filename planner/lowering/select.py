"""A SELECT under construction, into which relational nodes are merged as long as that keeps their meaning.

A column's SQL names an alias, ``t<n>``. Aliases are numbered as they are made, so those of enclosing queries have the
smaller numbers. Engines tell by the names of columns alone to which query something belongs, PostgreSQL by what was
written: hence what is said here of foreign columns. `start` is the number of the last alias before a SELECT was built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from planner.ir import nodes as ir
from planner.ir.rewrite import column_uses
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


class Foreign(Struct, frozen=True):
    """Columns of a join's side that are an enclosing query's, and the id of the column that says that the side is
    there."""

    columns: dict[int, str]
    present: int


def take_foreign(select: Select, start: int, present: int) -> Foreign | None:
    """Takes from the side of a join that may be missing the columns that are an enclosing query's: they are NULL where
    it is, so it gets a column `present` (an id) instead that says that it is there."""
    columns = {id: sql for id, sql in select.columns.items() if is_reference(sql) and _alias_number(sql) <= start}
    if not columns:
        return None
    select.columns = {id: sql for id, sql in select.columns.items() if id not in columns} | {present: "TRUE"}
    return Foreign(columns, present)


def give_back(select: Select, foreign: Foreign | None) -> None:
    """The columns that `take_foreign` took, NULL where the side is missing; `select` is the side as the join has it."""
    if foreign is not None:
        present = select.columns.pop(foreign.present)
        select.columns |= {id: f"CASE WHEN {present} THEN {sql} END" for id, sql in foreign.columns.items()}


def looks_foreign(call: ir.AggregateCall, select: Select, start: int) -> bool:
    """Whether an engine might take `call` over `select` for an aggregate of an enclosing query: it names columns of no
    other."""
    if not start:
        return False
    used = [select.columns.get(id) for id, _ in column_uses(call)]
    if any(sql is not None and is_reference(sql) and _alias_number(sql) > start for sql in used):
        return False
    return any(sql is None or is_reference(sql) or not is_simple(sql) for sql in used)


def _alias_number(reference: str) -> int:
    return int(reference[1 : reference.index(".")])
