"""What the binder knows of a function, operator, aggregate or window function: its signature."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

COMPARISONS = ("=", "<>", "<", ">", "<=", ">=")
"""The comparison operators."""


class Kind(Enum):
    """What sort of routine a signature describes. SET_RETURNING is a function that returns rows; a PROCEDURE is called
    by CALL alone."""

    FUNCTION = "function"
    OPERATOR = "operator"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    SET_RETURNING = "set_returning"
    PROCEDURE = "procedure"


class Volatility(Enum):
    """PostgreSQL's provolatile: immutable, stable within a statement, volatile."""

    IMMUTABLE = "i"
    STABLE = "s"
    VOLATILE = "v"


class Signature(Struct, frozen=True, kw_only=True):
    """One overload, as pg_proc or pg_operator has it.

    `args` and `result` are type OIDs and may be polymorphic pseudo-types (anyelement, anyarray, ...). An operator's
    `name` is its symbol (`+`), a prefix operator has one argument. With `variadic`, the last argument repeats.
    `ordered_set` marks aggregates called WITHIN GROUP (direct arguments first).
    """

    name: str
    kind: Kind
    args: tuple[int, ...]
    result: int
    oid: int
    variadic: bool = False
    strict: bool = True
    volatility: Volatility = Volatility.IMMUTABLE
    ordered_set: bool = False
    defaults: int = 0
    """How many trailing arguments have a default and may be left out."""
    spread: bool = False
    """In a call with VARIADIC: the last argument is an array, whose elements are the last arguments."""
    acts: bool = False
    """Of a function of a user: it is carried out statement by statement, by whoever runs the query that calls it."""
    means: str = ""
    """Of a function behind an operator (pg_operator.oprcode) its symbol, of one behind a cast (pg_cast.castfunc)
    `CAST`: a call of it is that operation."""

    def __str__(self) -> str:
        return f"{self.name}({','.join(map(str, self.args))})"
