"""Whether two servers gave the same answer, where SQL says what it is.

Rows are compared as multisets, unless the statement sorts: then the sort keys have to come in the same order, as far as
they are columns of the result, and rows with equal keys may come in any. Names and types of columns, command tags,
SQLSTATEs and messages have to be equal. Types that are not built in are told apart by nothing: their oids differ.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum

from tests.regression.target import Answer, Outcome

_FIRST_USER_OID = 16384
_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|[eE]?'(?:[^'\\]|''|\\.)*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|[A-Za-z_][\w$]*|\d+|\S",
    re.DOTALL,
)
_DIRECTION = re.compile(r"\s+(asc|desc|nulls\s+(first|last)|using\s+\S+)\b.*$", re.IGNORECASE | re.DOTALL)


class Difference(StrEnum):
    """How two outcomes differ; NONE where they do not."""

    NONE = ""
    BROKE = "the connection"
    REFUSED = "an error"
    ACCEPTED = "no error"
    SQLSTATE = "another SQLSTATE"
    MESSAGE = "another message"
    TAG = "another command tag"
    NAMES = "other names of columns"
    TYPES = "other types of columns"
    ROWS = "other rows"
    ORDER = "another order of rows"


def sort_keys(sql: str) -> list[str] | None:
    """The keys of the statement's outermost ORDER BY, as they are written; None where there is none."""
    depth, at, keys, start = 0, None, [], 0
    before = ""
    for match in _TOKEN.finditer(sql):
        token = match[0].lower()
        if token.startswith(("--", "/*")):
            continue
        depth += (token in "([") - (token in ")]")
        if depth == 0 and at is None and before == "order" and token == "by":
            at = start = match.end()
        elif depth == 0 and at is not None and token in (",", ";", "limit", "offset", "fetch", "for"):
            keys.append(sql[start : match.start()])
            start = match.end()
            if token != ",":
                return [_DIRECTION.sub("", key.strip()) for key in keys]
        before = token
    return None if at is None else [_DIRECTION.sub("", key.strip()) for key in [*keys, sql[start:]]]


def difference(sql: str, wanted: Outcome, got: Outcome) -> Difference:
    """How what we gave differs from what PostgreSQL gave."""
    if got.broke:
        return Difference.NONE if wanted.broke == got.broke else Difference.BROKE
    refused, refuses = wanted.error, got.error
    if refused is None and refuses is not None:
        return Difference.REFUSED
    if refused is not None and refuses is None:
        return Difference.ACCEPTED
    for one, other in zip(wanted.answers, got.answers, strict=False):
        if (found := _difference(sql, one, other)) is not Difference.NONE:
            return found
    return Difference.TAG if len(wanted.answers) != len(got.answers) else Difference.NONE


def is_to_the_word(wanted: Outcome, got: Outcome) -> bool:
    """Whether errors also have PostgreSQL's details, hints and positions, and whether the notices are PostgreSQL's."""
    mores = [[answer.more for answer in outcome.answers] for outcome in (wanted, got)]
    return mores[0] == mores[1] and wanted.notices == got.notices


def _difference(sql: str, wanted: Answer, got: Answer) -> Difference:
    if wanted.sqlstate != got.sqlstate:
        return Difference.SQLSTATE
    if wanted.message != got.message:
        return Difference.MESSAGE
    if (wanted.columns is None) is not (got.columns is None):
        return Difference.TAG
    if wanted.columns is not None and got.columns is not None:
        if [name for name, _ in wanted.columns] != [name for name, _ in got.columns]:
            return Difference.NAMES
        if (found := _rows(sql, wanted, got)) is not Difference.NONE:
            return found
        if [min(oid, _FIRST_USER_OID) for _, oid in wanted.columns] != [
            min(oid, _FIRST_USER_OID) for _, oid in got.columns
        ]:
            return Difference.TYPES
    if wanted.copied != got.copied:
        same = Counter((wanted.copied or "").splitlines()) == Counter((got.copied or "").splitlines())
        if not same or sort_keys(sql.partition("(")[2]) is not None:
            return Difference.ROWS
    return Difference.NONE if wanted.tag == got.tag else Difference.TAG


def _rows(sql: str, wanted: Answer, got: Answer) -> Difference:
    if wanted.rows == got.rows:
        return Difference.NONE
    keys = sort_keys(sql)
    is_plan = sql.lstrip().lower().startswith("explain")
    if is_plan or Counter(wanted.rows) != Counter(got.rows):
        return Difference.ROWS
    if keys is None:
        return Difference.NONE
    assert wanted.columns is not None
    names = [name for name, _ in wanted.columns]
    places = []
    for key in keys:
        plain = key.split(".")[-1].strip('"').lower()
        if key.isdigit() and 0 < int(key) <= len(names):
            places.append(int(key) - 1)
        elif plain in names:
            places.append(names.index(plain))
        else:
            return Difference.ORDER
    sorts = [[tuple(row[place] for place in places) for row in answer.rows] for answer in (wanted, got)]
    return Difference.NONE if sorts[0] == sorts[1] else Difference.ORDER
