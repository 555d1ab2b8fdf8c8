"""Statements laid out for people to read, by PostgreSQL's own grammar (libpg_query's printer), and statements that are
alike but for their constants (`fingerprint`).

What is printed is parsed again and has to be the same statements; what the printer does not get right is refused.
Comments stay, each in front of what it stood at, or behind.
"""

from __future__ import annotations

import hashlib
import re

from msgspec import Struct

from planner.common_errors import too_deep
from planner.errors import FeatureNotSupported, ProgramLimitExceeded
from planner.syntax.libpg_query import PgQueryError, deparse, normalize, parse, pb, pretty, scan
from planner.syntax.parse import Tree, parse_argument, parse_tree, split_and_parse
from planner.syntax.sameness import same

MAX_CHARS = 256 * 1024
"""Longer texts are refused: a million characters take about ten seconds, which cannot be interrupted."""

MAX_DEPTH = 1_500
"""Messages inside one another in a parse tree that is printed, two or three for each construct: the printer is
recursive C that does not check its stack, and each level of a subquery makes every line longer."""


_PARAMETER = re.compile(
    r"""
    "(?:[^"]|"")*" | '(?:[^']|'')*' | --[^\n]* | /\*.*?\*/   # what may hold something that looks like one
  | [^\W\d][\w$]*                                          # a name
  | \$(?P<number>\d+)
    """,
    re.VERBOSE | re.DOTALL,
)


class Fingerprint(Struct, frozen=True):
    """A statement without its constants: a number that is (all but certainly) its own, and its text."""

    id: int
    query: str


def fingerprint(source: str, *, lift: bool) -> Fingerprint:
    """Which statement `source` is, whatever its blanks and comments; with `lift`, whatever its constants, which are
    parameters in the text (pg_stat_statements)."""
    query = source
    try:
        query = _in_order(source, normalize(source)) if lift else source
        printed = deparse(parse(query))
    except PgQueryError:
        printed = query  # Beyond PostgreSQL's grammar.
    digest = hashlib.blake2b(printed.encode(errors="surrogatepass"), digest_size=8).digest()
    return Fingerprint(id=int.from_bytes(digest, signed=True) or 1, query=query)


def _in_order(source: str, normalized: str) -> str:
    """`normalized` with the parameters that stand for constants of `source` in the order in which they stand."""
    given = max((int(found) for found in _numbers(source)), default=0)
    order: dict[str, str] = {}

    def renumbered(found: re.Match[str]) -> str:
        number = found["number"]
        if number is None or int(number) <= given:
            return found[0]
        return "$" + order.setdefault(number, str(given + len(order) + 1))

    return _PARAMETER.sub(renumbered, normalized)


def _numbers(text: str) -> list[str]:
    return [found["number"] for found in _PARAMETER.finditer(text) if found["number"] is not None]


def formatted(text: str) -> str:
    """The statements of `text`, each with one clause to a line, and a blank line between them.

    Raises 42601 for what PostgreSQL's parser refuses, 54000 and 54001 for what is too long or nests too deep, 0A000 for
    what the printer cannot say.
    """
    if len(text) > MAX_CHARS:
        raise ProgramLimitExceeded(
            f"a text of {len(text)} characters is too long to be formatted, {MAX_CHARS} is the most"
        )
    parse_argument(text)
    statements = split_and_parse(text)
    if not statements:
        return text.strip()
    rest = text[statements[-1].end :].lstrip()
    end = ";" if rest.startswith(";") else ""
    # Behind the last semicolon there may be comments, which are part of no statement.
    rest = rest.lstrip("; \t\r\n").rstrip()
    # Comments in front of a statement stand between the end of the one before and its own start.
    starts = [0, *(each.end for each in statements)]
    sources = [text[start : each.end].strip("; \t\r\n") for start, each in zip(starts, statements, strict=False)]
    printed = ";\n\n".join(map(_formatted, sources))
    return (printed + end).rstrip() + ("\n\n" + rest if rest else "")


def _formatted(text: str) -> str:
    """One statement and the comments around it."""
    tree = parse_tree(text)
    if depth(tree) > MAX_DEPTH:
        raise too_deep()
    try:
        printed = pretty(text, tree)
        faithful = same(parse(printed), tree)
    except PgQueryError:
        faithful = False
    if not faithful:
        raise FeatureNotSupported("the statement cannot be formatted")
    # What follows must not become part of a comment that goes to the end of its line.
    return printed + "\n" if scan(printed).tokens[-1].token == pb.SQL_COMMENT else printed


def depth(tree: Tree) -> int:
    """How many messages are inside one another in a parse tree."""
    deepest = 0
    level = [tree]
    while level:
        deepest += 1
        inner: list[Tree] = []
        for message in level:
            for descriptor, value in message.ListFields():
                if descriptor.message_type is not None:
                    inner.extend(value if descriptor.is_repeated else (value,))
        level = inner
    return deepest
