"""How an expression was written, where the IR says only what it means.

Binding folds constants, expands rows and rewrites CASE and NULLIF. Whoever prints a definition needs what PostgreSQL's
own trees keep of these; a `Statement` that is asked to (`written`) remembers for such a scalar one of the forms below,
or another scalar that is to be printed in its place.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from planner.ir.nodes import Case, Rel, Scalar
from planner.types.types import SqlType


class Conversion(Struct, frozen=True, kw_only=True):
    """A constant converted to `type`; it stands in the IR as the result."""

    arg: Scalar
    type: SqlType
    explicit: bool


class SimpleCase(Struct, frozen=True, kw_only=True):
    """``CASE subject WHEN value ...``: each condition of `case` is the comparison of `subject` with the value."""

    subject: Scalar
    case: Case


class NullIf(Struct, frozen=True, kw_only=True):
    """NULLIF of two values."""

    args: tuple[Scalar, ...]


class InArray(Struct, frozen=True, kw_only=True):
    """``arg [NOT] IN (items)``, whose items have the type `element` and are compared as `compared` (both oids)."""

    arg: Scalar
    items: tuple[Scalar, ...]
    element: int
    compared: int
    symbol: str
    negated: bool


class RowComparison(Struct, frozen=True, kw_only=True):
    """``ROW(left) symbol ROW(right)`` with an operator that orders."""

    symbol: str
    left: tuple[Scalar, ...]
    right: tuple[Scalar, ...]


class RecordComparison(Struct, frozen=True, kw_only=True):
    """``left symbol right``, which are values of composite types or records."""

    symbol: str
    left: Scalar
    right: Scalar


class RowCast(Struct, frozen=True, kw_only=True):
    """``ROW(items)::type``."""

    items: tuple[Scalar, ...]
    type: SqlType


class WholeRow(Struct, frozen=True, kw_only=True):
    """The row of a table, by its name, and of which type it is. `first` is the id of its first column, where it has
    one."""

    name: str
    type: int
    first: int | None = None


class ItemColumn(Struct, frozen=True, kw_only=True):
    """A column that is not one of a table's fields by itself: of a join (`item`, which is None where the join has no
    name), a system column."""

    name: str
    item: object | None = None


class FunctionCall(Struct, frozen=True, kw_only=True):
    """A call that is no `ir.Call`, or has other arguments there. With `sql_syntax` it was written with key words. `oid`
    is that of a function of a user."""

    name: str
    args: tuple[Scalar, ...]
    variadic: bool = False
    sql_syntax: bool = False
    oid: int = 0


class KeyWord(Struct, frozen=True, kw_only=True):
    """CURRENT_DATE and its like."""

    text: str


class RowOfQuery(Struct, frozen=True, kw_only=True):
    """``(left) symbol (SELECT ...)``: a row compared with that of a query, or, with a `quantifier` before it, with all
    that it gives."""

    symbol: str
    left: tuple[Scalar, ...]
    rel: Rel
    quantifier: str = ""


Form: TypeAlias = (
    Scalar
    | Conversion
    | SimpleCase
    | NullIf
    | InArray
    | RowComparison
    | RecordComparison
    | RowCast
    | WholeRow
    | ItemColumn
    | FunctionCall
    | KeyWord
    | RowOfQuery
)
