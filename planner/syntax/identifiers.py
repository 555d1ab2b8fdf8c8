"""Identifiers as SQL text: quoting by PostgreSQL's quote_identifier and quote_literal."""

from __future__ import annotations

import re
from contextvars import ContextVar

from planner.catalog_data.content import keywords

QUOTES_ALL: ContextVar[bool] = ContextVar("quotes_all", default=False)
"""Whether names are quoted that do not need it."""

_SAFE = re.compile(r"[a-z_][a-z0-9_]*\Z")


def quote_identifier(name: str) -> str:
    """`name` as an identifier, in double quotes when it needs them (capitals, blanks, non-unreserved key words)."""
    if _SAFE.match(name) and keywords().get(name, "U") == "U" and not QUOTES_ALL.get():
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """`text` as a string literal, with E'' when it holds a backslash."""
    body = text.replace("'", "''")
    if "\\" in body:
        return " E'" + body.replace("\\", "\\\\") + "'"
    return f"'{body}'"
