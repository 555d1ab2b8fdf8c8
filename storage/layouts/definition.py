"""What the options of a table say of its layout, and what they mean.

``partition_by`` names columns and transforms of them (`storage.shards.partitions.transforms`): the rows of a file have
the same values of them. ``sort_by`` names the columns by which the rows of a file are in order, ascending and NULLs
last, as `storage.shards` compares them; ``zorder(a, b)`` those along whose curve they are. ``target_file_size`` says
about how many bytes a file has. All are wishes: a file that does not keep to them is as right as any other, and
compaction makes it keep to them in time.

The options are kept as text, with the columns' names, as ``pg_class.reloptions`` shows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from storage.catalog.model import Relation
from storage.layouts import zorder
from storage.layouts.layout import TableLayout
from storage.shards.partitions.transforms import PartitionField

PARTITION_BY = "partition_by"
SORT_BY = "sort_by"
TARGET_FILE_SIZE = "target_file_size"

LEAST_FILE_BYTES = 64 * 1024
MOST_FILE_BYTES = 4 * 1024**3

ZORDER_FORMAT = 11
"""From which on ``sort_by`` may be a curve: earlier versions do not know what it says."""

_UNITS = {"": 1, "B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3}
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*([a-zA-Z]*)\s*")
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",()]+))\s*')
_PLAIN = re.compile(r"[a-z_\u0080-\uffff][a-z0-9_$\u0080-\uffff]*")


_CURVE = re.compile(r"\s*zorder\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_TERM = re.compile(r"\s*(?:([a-z]+)\s*\((?:\s*([0-9]{1,9})\s*,)?)?", re.IGNORECASE)
PERIODS = ("year", "month", "day", "hour")
WITH_WIDTH = ("bucket", "truncate")
MOST_BUCKETS = 1 << 20
MOST_FIELDS = 16


class Term(Struct, frozen=True, forbid_unknown_fields=True):
    """One transform in a value of ``partition_by``."""

    transform: str
    column: str
    width: int = 0


class BadLayout(ValueError):
    """An option's text says nothing."""


class UnknownColumn(ValueError):
    """An option names a column that the table does not have."""

    def __init__(self, name: str, option: str) -> None:
        super().__init__(name, option)
        self.name = name
        self.option = option


class Order(Struct, frozen=True):
    """What a value of ``sort_by`` says: the columns, and whether it is their curve."""

    columns: tuple[str, ...]
    is_curve: bool = False


def order_of_text(text: str) -> Order:
    """What `text` says as a value of ``sort_by``. Raises BadLayout."""
    curve = _CURVE.fullmatch(text)
    if curve is None:
        return Order(sorted_columns(text))
    order = Order(sorted_columns(curve[1]), is_curve=True)
    if not 1 < len(order.columns) <= zorder.MOST_COLUMNS:
        raise BadLayout(text)
    return order


def text_of_order(order: Order) -> str:
    """The inverse of `order_of_text`."""
    text = sort_text(order.columns)
    return f"zorder({text})" if order.is_curve else text


def sorted_columns(text: str) -> tuple[str, ...]:
    """The names in a list of columns. Raises BadLayout."""
    names: list[str] = []
    place = 0
    while True:
        found = _NAME.match(text, place)
        if found is None:
            raise BadLayout(text)
        names.append(found[2].lower() if found[1] is None else found[1].replace('""', '"'))
        place = found.end()
        if place == len(text):
            break
        if text[place] != ",":
            raise BadLayout(text)
        place += 1
    if len(set(names)) < len(names):
        raise BadLayout(text)
    return tuple(names)


def sort_text(names: Sequence[str]) -> str:
    """The inverse of `sorted_columns`."""
    return ", ".join(name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in names)


def partition_terms(text: str) -> tuple[Term, ...]:
    """The transforms in a value of ``partition_by``. Raises BadLayout."""
    terms: list[Term] = []
    place = 0
    while True:
        begun = _TERM.match(text, place)
        assert begun is not None
        transform, width = (begun[1] or "identity").lower(), int(begun[2] or 0)
        name = _NAME.match(text, begun.end())
        if name is None or (width > 0) != (transform in WITH_WIDTH):
            raise BadLayout(text)
        if transform not in ("identity", *PERIODS, *WITH_WIDTH) or (transform == "bucket" and width > MOST_BUCKETS):
            raise BadLayout(text)
        column = name[2].lower() if name[1] is None else name[1].replace('""', '"')
        terms.append(Term(transform, column, width))
        place = name.end()
        if begun[1] is not None:
            if text[place : place + 1] != ")":
                raise BadLayout(text)
            place += 1
        place += len(text[place:]) - len(text[place:].lstrip())
        if place == len(text):
            break
        if text[place] != ",":
            raise BadLayout(text)
        place += 1
    if len(set(terms)) < len(terms) or len(terms) > MOST_FIELDS:
        raise BadLayout(text)
    return tuple(terms)


def partition_text(terms: Sequence[Term]) -> str:
    """The inverse of `partition_terms`."""
    found = []
    for term in terms:
        width = f"{term.width}, " if term.width else ""
        name = sort_text([term.column])
        found.append(name if term.transform == "identity" else f"{term.transform}({width}{name})")
    return ", ".join(found)


def file_bytes(text: str) -> int:
    """The bytes that a value of ``target_file_size`` means. Raises BadLayout."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise BadLayout(text)
    return int(found[1]) * _UNITS[found[2]]


def options_of(relation: Relation) -> Mapping[str, str]:
    """The options of `relation` that are about its layout."""
    given = (option.partition("=") for option in relation.options)
    return {name: value for name, _, value in given if name in (PARTITION_BY, SORT_BY, TARGET_FILE_SIZE)}


def layout_of(relation: Relation) -> TableLayout | None:
    """How the files of `relation` are to be laid out; None when nothing is said. Raises UnknownColumn."""
    given = options_of(relation) if relation.options else None
    if not given:
        return None
    terms = partition_terms(given[PARTITION_BY]) if PARTITION_BY in given else ()
    fields = [
        PartitionField(_physical(relation, term.column, PARTITION_BY), term.transform, term.width) for term in terms
    ]
    order = order_of_text(given[SORT_BY]) if SORT_BY in given else Order(())
    columns = tuple([_physical(relation, name, SORT_BY) for name in order.columns])
    size = given.get(TARGET_FILE_SIZE)
    return TableLayout(
        partition=tuple(fields),
        sort=() if order.is_curve else columns,
        zorder=columns if order.is_curve else (),
        target_bytes=None if size is None else file_bytes(size),
    )


def _physical(relation: Relation, name: str, option: str) -> str:
    column = relation.column(name)
    if column is None:
        raise UnknownColumn(name, option)
    return f"c{column.attnum}"


def renamed(options: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """`options` of a relation once its column `old` is called `new`."""
    found = []
    for option in options:
        name, _, value = option.partition("=")
        if name == SORT_BY:
            order = order_of_text(value)
            columns = tuple([new if each == old else each for each in order.columns])
            option = f"{name}={text_of_order(replace(order, columns=columns))}"
        elif name == PARTITION_BY:
            terms = [replace(term, column=new) if term.column == old else term for term in partition_terms(value)]
            option = f"{name}={partition_text(terms)}"
        found.append(option)
    return tuple(found)
