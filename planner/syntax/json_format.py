"""``FORMAT JSON`` among the options of COPY, which PostgreSQL's grammar takes for the clause of a JSON expression.

That clause follows an expression; an option follows a parenthesis or a comma. There the word is given to the parser as
a name of the same length, so that every position stays what it is.
"""

from __future__ import annotations

import re

from planner.syntax.libpg_query import PgQueryError, pb, scan

JSON_NAME = "js$n"
"""What stands for JSON in the tree."""

_MAY_BE = re.compile(r"\bcopy\b.*\bformat\s+json\b", re.IGNORECASE | re.DOTALL)


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
