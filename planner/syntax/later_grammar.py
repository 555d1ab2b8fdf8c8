"""Where libpg_query, whose grammar is that of a later PostgreSQL, reads a text otherwise than PostgreSQL 15.

``FORMAT JSON`` among the options of COPY is taken for the clause of a JSON expression. That clause follows an
expression; an option follows a parenthesis or a comma. There the word is given to the parser as a name of the same
length, so that every position stays what it is.

``1_000``, ``0x1F``, ``0o17`` and ``0b101`` are numbers. For PostgreSQL 15 they are a number with letters behind it, an
error of its scanner (scan.l's integer_junk, decimal_junk and real_junk).

``json(x)``, ``json_scalar(x)`` and ``json_serialize(x)`` are expressions of their own. For PostgreSQL 15 these are
calls.
"""

from __future__ import annotations

import re

from planner.errors import SqlSyntaxError
from planner.syntax.libpg_query import PgQueryError, pb, scan

JSON_NAME = "js$n"
"""What stands for JSON in the tree."""

JSON_CALLS = {
    "json_parse_expr": "json",
    "json_scalar_expr": "json_scalar",
    "json_serialize_expr": "json_serialize",
}
"""The functions that kinds of expressions are calls of."""

_MAY_BE = re.compile(r"\bcopy\b.*\bformat\s+json\b", re.IGNORECASE | re.DOTALL)
_MAY_BE_JUNK = re.compile(r"[0-9]_[0-9]|0[xXoObB][0-9A-Fa-f_]|\$[0-9]+[^\W0-9]")
_JUNK = re.compile(rb"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[A-Za-z_][A-Za-z0-9_]*")
_JUNK_PARAMETER = re.compile(rb"\$[0-9]+[A-Za-z_\x80-\xff][A-Za-z0-9_$\x80-\xff]*")


def with_json_as_name(text: str) -> str | None:
    """`text`, which does not parse, with the options' JSON as a name; None when it has none."""
    if not _MAY_BE.search(text):
        return None
    try:
        tokens = scan(text).tokens
    except PgQueryError:
        return None
    data = bytearray(text.encode())
    changed = False
    for before, format, json in zip(tokens, tokens[1:], tokens[2:], strict=False):
        option = before.token in (pb.ASCII_40, pb.ASCII_44)
        if option and format.token == pb.FORMAT and json.token == pb.JSON:
            data[json.start : json.end] = JSON_NAME.encode()
            changed = True
    return data.decode() if changed else None


def later_number(text: str) -> SqlSyntaxError | None:
    """PostgreSQL 15's error for the first number or parameter of `text` that is one for later scanners alone; None
    without such a one, and where `text` has no tokens."""
    if _MAY_BE_JUNK.search(text) is None:
        return None
    try:
        tokens = scan(text).tokens
    except PgQueryError:
        return None
    source = text.encode()
    for token in tokens:
        found, what = None, "numeric literal"
        if token.token in (pb.ICONST, pb.FCONST):
            found = _JUNK.match(source, token.start, token.end)
        elif token.token == pb.PARAM:
            found, what = _JUNK_PARAMETER.match(source, token.start), "parameter"
        if found is not None:
            message = f'trailing junk after {what} at or near "{found[0].decode()}"'
            return SqlSyntaxError(message, position=len(source[: token.start].decode()) + 1)
    return None
