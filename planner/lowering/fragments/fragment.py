"""SQL text with what a place that takes it has to know of it."""

from __future__ import annotations

from msgspec import Struct


class Fragment(Struct, frozen=True, gc=False):
    """The SQL of one expression, or of a part of a SELECT. In an f-string it stands for its SQL.

        Fragment("t1.c2", simple=True, alias="t1")        # a column
        Fragment("(t1.c2 + random())", volatile=True)     # another value each time

    Nothing reads `sql` again: a string constant in it may look like anything.
    """

    sql: str
    simple: bool = False
    """A column, a literal or the name of a bound value: it may be repeated at no cost."""
    alias: str | None = None
    """The FROM item whose column it is, and nothing more; None for everything else."""
    volatile: bool = False
    """Evaluating it twice could give two values."""
    subquery: bool = False
    """It holds a subquery."""
    may_raise: bool = False
    """It holds an error of ours, raised where a CASE comes to it."""
    python: bool = False
    """It calls a function in Python."""
    inlined: bool = False
    """A column, in whose place the engine puts the subquery that it is: it is bound where it is repeated."""

    def __str__(self) -> str:
        return self.sql


def made(sql: str, *parts: Fragment) -> Fragment:
    """`sql`, which holds `parts`: volatile, ... when one of them is."""
    volatile = subquery = may_raise = python = False
    for part in parts:
        volatile = volatile or part.volatile
        subquery = subquery or part.subquery
        may_raise = may_raise or part.may_raise
        python = python or part.python
    return Fragment(sql, volatile=volatile, subquery=subquery, may_raise=may_raise, python=python)


def column(alias: str, name: str) -> Fragment:
    """A column of a FROM item."""
    return Fragment(f"{alias}.{name}", simple=True, alias=alias)


def simple(sql: str) -> Fragment:
    """A literal, or the name of a bound value."""
    return Fragment(sql, simple=True)


def listed(parts: list[Fragment], separator: str = ", ") -> str:
    """The SQL of `parts` with `separator` between them."""
    return separator.join([part.sql for part in parts])


class OrderKey(Struct, frozen=True):
    """One ORDER BY key. In an f-string it stands for its SQL: ``t1.c2 DESC NULLS FIRST``."""

    key: Fragment
    descending: bool
    nulls_first: bool

    @property
    def suffix(self) -> str:
        """What follows the key, after a blank."""
        return f" {'DESC' if self.descending else 'ASC'} NULLS {'FIRST' if self.nulls_first else 'LAST'}"

    def __str__(self) -> str:
        return self.key.sql + self.suffix
