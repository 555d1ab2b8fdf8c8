"""What the options of a table say of its layout, and what they mean.

``sort_by`` names the columns by which the rows of a file are in order, ascending and NULLs last, as `storage.shards`
compares them. ``target_file_size`` says about how many bytes a file has. Both are wishes: a file that does not keep to
them is as right as any other, and compaction makes it keep to them in time.

The options are kept as text, with the columns' names, as ``pg_class.reloptions`` shows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from storage.catalog.model import Relation
from storage.layouts.layout import TableLayout

SORT_BY = "sort_by"
TARGET_FILE_SIZE = "target_file_size"

LEAST_FILE_BYTES = 64 * 1024
MOST_FILE_BYTES = 4 * 1024**3

_UNITS = {"": 1, "B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3}
_SIZE = re.compile(r"\s*([0-9]{1,15})\s*([a-zA-Z]*)\s*")
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",()]+))\s*')
_PLAIN = re.compile(r"[a-z_\u0080-\uffff][a-z0-9_$\u0080-\uffff]*")


class BadLayout(ValueError):
    """An option's text says nothing."""


class UnknownColumn(ValueError):
    """An option names a column that the table does not have."""

    def __init__(self, name: str, option: str) -> None:
        super().__init__(name, option)
        self.name = name
        self.option = option


def sorted_columns(text: str) -> tuple[str, ...]:
    """The names in a value of ``sort_by``. Raises BadLayout."""
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


def file_bytes(text: str) -> int:
    """The bytes that a value of ``target_file_size`` means. Raises BadLayout."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2] not in _UNITS:
        raise BadLayout(text)
    return int(found[1]) * _UNITS[found[2]]


def options_of(relation: Relation) -> Mapping[str, str]:
    """The options of `relation` that are about its layout."""
    given = (option.partition("=") for option in relation.options)
    return {name: value for name, _, value in given if name in (SORT_BY, TARGET_FILE_SIZE)}


def layout_of(relation: Relation) -> TableLayout | None:
    """How the files of `relation` are to be laid out; None when nothing is said. Raises UnknownColumn."""
    given = options_of(relation) if relation.options else None
    if not given:
        return None
    sort: list[str] = []
    for name in sorted_columns(given[SORT_BY]) if SORT_BY in given else ():
        column = relation.column(name)
        if column is None:
            raise UnknownColumn(name, SORT_BY)
        sort.append(f"c{column.attnum}")
    size = given.get(TARGET_FILE_SIZE)
    return TableLayout(sort=tuple(sort), target_bytes=None if size is None else file_bytes(size))


def renamed(options: Sequence[str], old: str, new: str) -> tuple[str, ...]:
    """`options` of a relation once its column `old` is called `new`."""
    found = []
    for option in options:
        name, _, value = option.partition("=")
        if name == SORT_BY:
            names = [new if each == old else each for each in sorted_columns(value)]
            option = f"{name}={sort_text(names)}"
        found.append(option)
    return tuple(found)
