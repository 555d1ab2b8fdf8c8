"""tablefunc: crosstab and connectby (PostgreSQL 15, appendix F.43; tablefunc.c).

A crosstab puts the values of consecutive rows with the same first column into one row. connectby gives what can be
reached from a key through its children, depth first. Values go from the columns of the query to those that the caller
asks for as texts, where they are not of the same types anyway.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from planner.errors import (
    DatatypeMismatch,
    DuplicateObject,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidRecursion,
    SqlSyntaxError,
)
from planner.syntax.identifiers import quote_literal
from planner.types.type_names import format_type
from planner.types.types import INT4, TEXT, SqlType
from planner.values.text_values import parse_text

Row: TypeAlias = tuple[Any, ...]
Texts: TypeAlias = Sequence[str | None]

MAX_ROWS = 100_000
"""Rows of a result: they are held in memory, each as Python values."""


class Source(Struct, frozen=True, kw_only=True):
    """The columns and the rows, as texts, of a query."""

    types: Sequence[SqlType]
    rows: AsyncIterator[Texts]


Query: TypeAlias = Callable[[str], Awaitable[Source]]
"""Runs the query with this text."""


class Call(Struct, frozen=True, kw_only=True):
    """A call: the arguments, the types of the columns that the caller asks for, and the settings that texts follow."""

    args: Sequence[Any]
    columns: Sequence[SqlType]
    settings: Mapping[str, str]

    def row(self, texts: Texts) -> Row:
        """A row of the result from the texts of its fields. Raises what the types' input functions raise."""
        return tuple([
            None if text is None else parse_text(text, type, self.settings)
            for text, type in zip(texts, self.columns, strict=True)
        ])  # fmt: skip


class _Rows:
    """The rows of a result."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self.found: list[Row] = []

    def add(self, texts: Texts) -> None:
        if len(self.found) >= MAX_ROWS:
            raise FeatureNotSupported(f"results of crosstab and connectby have at most {MAX_ROWS} rows")
        self.found.append(self._call.row(texts))


async def crosstab(call: Call, query: Query) -> list[Row]:
    """crosstab(text): the values of a row in their order, as many as there are columns."""
    source = await query(call.args[0])
    rows, width, current = _Rows(call), len(call.columns) - 1, None
    values: list[str | None] = []
    async for texts in source.rows:
        if current is None:
            _check_crosstab(call.columns, source.types)
        if current is None or texts[0] != current[0]:
            if current is not None:
                rows.add([current[0], *values, *[None] * (width - len(values))])
            current, values = texts, []
        if len(values) < width:
            values.append(texts[2])
    if current is not None:
        rows.add([current[0], *values, *[None] * (width - len(values))])
    return rows.found


def _check_crosstab(columns: Sequence[SqlType], source: Sequence[SqlType]) -> None:
    if len(source) != 3:
        raise InvalidParameterValue(
            "invalid source data SQL statement",
            detail="The provided SQL must return 3 columns: rowid, category, and values.",
        )
    if len(columns) >= 2 and columns[0].declared_oid != source[0].declared_oid:
        raise DatatypeMismatch("invalid return type", detail="SQL rowid datatype does not match return rowid datatype.")
    if len(columns) < 2 or any(column.declared_oid != source[2].declared_oid for column in columns[1:]):
        raise SqlSyntaxError("return and sql tuple descriptions are incompatible")


async def crosstab_of_categories(call: Call, query: Query) -> list[Row]:
    """crosstab(text, text): each value in the column of its category, which the second query lists."""
    if len(call.columns) < 2:
        raise SqlSyntaxError("query-specified return tuple and crosstab function are not compatible")
    places = await _categories(await query(call.args[1]))
    source = await query(call.args[0])
    rows, extra = _Rows(call), len(source.types) - 2
    current: list[str | None] | None = None
    async for texts in source.rows:
        if current is None:
            _check_categories(len(call.columns), len(source.types), len(places))
        if current is None or texts[0] != current[0]:
            if current is not None:
                rows.add(current)
            current = [*texts[:extra], *[None] * len(places)]
        category = texts[extra]
        if category is not None and category in places:
            current[extra + places[category]] = texts[extra + 1]
    if current is not None:
        rows.add(current)
    return rows.found


async def _categories(source: Source) -> Mapping[str, int]:
    places: dict[str, int] = {}
    async for texts in source.rows:
        if len(texts) != 1:
            raise _no_categories()
        (name,) = texts
        if name is None:
            raise SqlSyntaxError('provided "categories" SQL must not return NULL values')
        if name in places:
            raise DuplicateObject("duplicate category name")
        places[name] = len(places)
    return places


def _no_categories() -> SqlSyntaxError:
    return SqlSyntaxError('provided "categories" SQL must return 1 column of at least one row')


def _check_categories(asked: int, columns: int, categories: int) -> None:
    if not categories:
        raise _no_categories()
    if columns < 3:
        raise InvalidParameterValue(
            "invalid source data SQL statement",
            detail="The provided SQL must return 3  columns; rowid, category, and values.",
        )
    made = columns - 2 + categories
    if asked != made:
        raise SqlSyntaxError(
            "invalid return type",
            detail=f"Query-specified return tuple has {asked} columns but crosstab returns {made}.",
        )


# ---------------------------------------------------------------- connectby


class _Tree(Struct, frozen=True, kw_only=True):
    """What connectby is asked: names of the relation and its columns are SQL."""

    relation: str
    key: str
    parent: str
    order: str | None
    start: str
    depth: int
    delimiter: str | None

    def select(self, condition: str) -> str:
        """The query of keys and their parents."""
        order = "" if self.order is None else f" ORDER BY {self.order}"
        return (
            f"SELECT {self.key}, {self.parent} FROM {self.relation} WHERE {condition} AND {self.key} IS NOT NULL "
            f"AND {self.key} <> {self.parent}{order}"
        )


async def connectby(call: Call, query: Query) -> list[Row]:
    """connectby(...) without the column to order by."""
    return await _connected(call, query, serial=False)


async def connectby_in_order(call: Call, query: Query) -> list[Row]:
    """connectby(...) with the column to order by."""
    return await _connected(call, query, serial=True)


async def _connected(call: Call, query: Query, *, serial: bool) -> list[Row]:
    relation, key, parent, *rest = call.args
    order = rest.pop(0) if serial else None
    start, depth, *last = rest
    tree = _Tree(
        relation=relation, key=key, parent=parent, order=order, start=start, depth=depth,
        delimiter=last[0] if last else None,
    )  # fmt: skip
    _check_connected(call.columns, branch=tree.delimiter is not None, serial=serial)
    rows = _Rows(call)

    def add(key: str | None, above: str | None, level: int, branch: str) -> None:
        shown = [key, above, str(level)]
        if tree.delimiter is not None:
            shown.append(branch)
        if serial:
            shown.append(str(len(rows.found) + 1))
        rows.add(shown)

    add(start, None, 0, start)
    children: dict[str | None, list[Texts]] = {}
    first = await _pairs(call, await query(tree.select(f"{parent} = {quote_literal(start)}")))
    if first and depth != 1:
        # PostgreSQL asks for the children of each key alone.
        for pair in await _pairs(call, await query(tree.select(f"{parent} IS NOT NULL"))):
            children.setdefault(pair[1], []).append(pair)
    delimiter = "~" if tree.delimiter is None else tree.delimiter
    way: list[tuple[Iterator[Texts], str]] = [(iter(first), start)]
    while way:
        siblings, branch = way[-1]
        following = next(siblings, None)
        if following is None:
            way.pop()
            continue
        child, above = following
        if child is None:
            continue
        if f"{delimiter}{child}{delimiter}" in f"{delimiter}{branch}{delimiter}":
            raise InvalidRecursion("infinite recursion detected")
        extended = f"{branch}{delimiter}{child}"
        add(child, above, len(way), extended)
        if depth <= 0 or len(way) < depth:
            way.append((iter(children.get(child, ())), extended))
    return rows.found


async def _pairs(call: Call, source: Source) -> list[Texts]:
    """Keys and their parents."""
    found: list[Texts] = []
    async for pair in source.rows:
        if not found:
            for what, asked, given in zip(("", "parent "), call.columns, source.types, strict=False):
                if asked.declared_oid != given.declared_oid:
                    raise DatatypeMismatch(
                        "invalid return type",
                        detail=f"SQL {what}key field type {format_type(asked.declared_oid)} does not match return "
                        f"{what}key field type {format_type(given.declared_oid)}.",
                    )
        if len(found) >= MAX_ROWS:
            raise FeatureNotSupported(f"connectby is not supported over more than {MAX_ROWS} rows")
        found.append(pair)
    return found


def _check_connected(columns: Sequence[SqlType], *, branch: bool, serial: bool) -> None:
    oids = [column.declared_oid for column in columns]

    def wrong(detail: str) -> DatatypeMismatch:
        return DatatypeMismatch("invalid return type", detail=detail)

    if len(oids) != 3 + branch + serial:
        raise wrong("Query-specified return tuple has wrong number of columns.")
    if oids[0] != oids[1]:
        raise wrong("First two columns must be the same type.")
    if oids[2] != INT4:
        raise wrong("Third column must be type integer.")
    if branch and oids[3] != TEXT:
        raise wrong("Fourth column must be type text.")
    if serial and oids[-1] != INT4:
        which = "fifth" if branch else "fourth"
        raise DatatypeMismatch(
            f"query-specified return tuple not valid for Connectby: {which} column must be type integer"
        )


FUNCTIONS: Mapping[str, Callable[[Call, Query], Awaitable[list[Row]]]] = {
    "crosstab": crosstab,
    "crosstab_hash": crosstab_of_categories,
    "connectby_text": connectby,
    "connectby_text_serial": connectby_in_order,
}
"""By the names that the catalog has (`planner.extensions.natives`)."""
