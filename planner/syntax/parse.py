"""The front door: a query string becomes PostgreSQL parse trees, one for each statement.

The grammar is PostgreSQL's own (libpg_query through `postgast`), so syntax errors have PostgreSQL's text and
position. The trees are libpg_query's protobuf messages; nothing outside the binder reads them.

A tree's locations are byte offsets into the UTF-8 form of the *whole* query string; PostgreSQL reports positions as
1-based character offsets into that same string. `Parsed.position` converts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from google._upb._message import SetAllowOversizeProtos  # type: ignore[import-untyped]

from planner.common_errors import too_deep
from planner.errors import (
    CharacterNotInRepertoire,
    FeatureNotSupported,
    InvalidEscapeSequence,
    InvalidName,
    InvalidParameterValue,
    ReservedName,
    SqlError,
    SqlSyntaxError,
    WindowingError,
)
from planner.syntax.later_grammar import later_number, with_json_as_name
from planner.syntax.libpg_query import PgQueryError, parse

LONG_TEXT_CHARS = 32 * 1024
"""Texts up to this length cannot nest deep enough to exhaust the stack inside the parser, which is C and does not
check; longer ones are looked at first."""

BRIEF_TEXT_CHARS = 1000
"""Texts up to this length are parsed and planned in a few milliseconds at most; longer ones may hold up an event loop,
and are worked on in a thread unless their plan is known."""

_READS_FILES = re.compile(r"\bread_(?:parquet|orc|avro|csv|json)\b", re.IGNORECASE)
"""Functions in FROM whose files are looked at before a statement is planned."""

_READS_PAST = re.compile(r'\btidegate"?\s*\.\s*"?(?:as_of|changes)"?\s*\(', re.IGNORECASE)
"""Functions in FROM whose tables are looked up, as they were, before a statement is planned."""

MAX_CHAIN = 15_000
"""Operators in a row that the parser's recursion survives on a stack of 8 MiB."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|--[^\n]*")
_CHAINED = re.compile(
    r"(?<=[\w)\]])\s*[-+*/<>=~!@#%^&|?:]+|\b(?:union|intersect|except|join|like|ilike|is|collate|not)\b", re.IGNORECASE
)

Tree: TypeAlias = Any
"""A protobuf message of libpg_query (postgast ships no precise types for `oneof` access)."""

SetAllowOversizeProtos(True)
# Protobuf decoders refuse more than 100 nested messages; `a || b || ...` with 50 operands is deeper than that.


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """One statement of a query string.

    `text` is the whole query string, `start` and `end` the character offsets of this statement in it, `tree` the
    statement's node and `kind` the name of its type in libpg_query (`select_stmt`, `transaction_stmt`, ...).
    """

    text: str
    start: int
    end: int
    tree: Tree = field(compare=False, repr=False)
    kind: str
    ascii: bool = True
    is_brief: bool = field(default=True, compare=False, repr=False)
    """Whether it can be planned on an event loop: the text is short, and no files have to be looked at."""
    reads_past: bool = field(default=False, compare=False, repr=False)
    """Whether it may call functions that read tables as they were (`planner.files.past_calls`)."""
    extension: Extension | None = field(default=None, compare=False, repr=False)
    """What it says beyond PostgreSQL's grammar (`planner.syntax.extensions`)."""
    is_long: bool = field(default=False, compare=False, repr=False)
    """Whether the text is so long that it carries data: its plan is not kept."""

    @property
    def source(self) -> str:
        """The statement's own text, without the semicolon and surrounding blanks."""
        return self.text[self.start : self.end].strip()

    def position(self, location: int) -> int | None:
        """The 1-based character position for a tree location (bytes), or None when the location is unknown (-1)."""
        if location < 0:
            return None
        if self.ascii:
            return location + 1
        return len(self.text.encode()[:location].decode(errors="ignore")) + 1

    def part(self, node: Tree) -> Parsed:
        """The statement inside this one (of EXPLAIN, PREPARE, COPY, ...), from a `Node` of the tree."""
        kind = node.WhichOneof("node")
        return replace(self, tree=getattr(node, kind), kind=kind)

    def expression(self, node: Tree) -> Parsed:
        """An expression `Node` of this statement, to be bound by itself: `tree` is the node."""
        return replace(self, tree=node, kind="expression")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """SUBSCRIBE to `query`. The moments are queries of one value each."""

    query: Parsed
    snapshot: bool = True
    progress: bool = False
    as_of: Parsed | None = None
    up_to: Parsed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What a statement says beyond PostgreSQL's grammar: the moment that it reads, as a query of one value, and whether
    it writes what it reads there (INSERT ... SELECT, CREATE TABLE AS); what it subscribes to; how long FETCH waits for
    rows; that ALTER is about a schema, not the table as which it was parsed."""

    as_of: Parsed | None = None
    writes: bool = False
    subscription: Subscription | None = None
    timeout: str | None = None
    of_schema: bool = False


def tree_location(node: Tree) -> int:
    """Where an expression `Node` begins (PostgreSQL's exprLocation of a raw expression), -1 when unknown."""
    kind = node.WhichOneof("node")
    if kind is None:
        return -1
    tree = getattr(node, kind)
    location: int = getattr(tree, "location", -1)
    inner = {"a_expr": "lexpr", "type_cast": "arg", "a_indirection": "arg", "collate_clause": "arg",
             "null_test": "arg", "boolean_test": "arg", "sub_link": "testexpr"}.get(kind)  # fmt: skip
    if inner is None or not tree.HasField(inner):
        return location
    first = tree_location(getattr(tree, inner))
    if kind == "a_indirection":
        return first
    return min(first, location) if first >= 0 and location >= 0 else max(first, location)


def parameters(tree: Tree) -> list[Tree]:
    """The references to a statement's parameters, in no particular order. What a body written in SQL (RETURN, BEGIN
    ATOMIC) refers to as $1 is an argument of its routine."""
    found: list[Tree] = []
    stack = [tree]
    while stack:
        current = stack.pop()
        if current.DESCRIPTOR.name == "ParamRef":
            found.append(current)
        for descriptor, value in current.ListFields():
            if descriptor.message_type is not None and descriptor.name != "sql_body":
                stack.extend(value if descriptor.is_repeated else (value,))
    return found


def subtrees(tree: Tree) -> Iterator[Tree]:
    """A parse tree and every message inside it, in no particular order."""
    stack = [tree]
    while stack:
        current = stack.pop()
        yield current
        for descriptor, value in current.ListFields():
            if descriptor.message_type is not None:
                stack.extend(value if descriptor.is_repeated else (value,))


def parse_tree(text: str) -> Tree:
    """The parse tree of all of `text`, a `ParseResult`. Raises 42601 and what else PostgreSQL's parser raises."""
    if len(text) > LONG_TEXT_CHARS and _nests_too_deep(text):
        raise too_deep()
    try:
        tree = parse(text)
    except PgQueryError as error:
        if (other := with_json_as_name(text)) is not None:
            with contextlib.suppress(PgQueryError):
                return parse(other)
        refused = _syntax_error(error, text)
        number = later_number(text)
        if number is not None and (number.position or 0) < (refused.position or 0):
            raise number from None
        raise refused from None
    except RecursionError:
        raise too_deep() from None
    except Exception as error:
        if type(error).__name__ == "DecodeError":
            raise too_deep() from None
        raise
    number = later_number(text)
    if number is not None:
        raise number
    return tree


def parse_argument(text: str) -> Tree:
    """`parse_tree` of a text that is a value of a statement: errors say in their detail where in the text they are,
    for their position would be taken as one in the statement."""
    try:
        return parse_tree(text)
    except SqlError as error:
        if error.position is not None:
            error.detail = error.detail or place(text, error.position - 1)
            error.position = None
        raise


def place(text: str, offset: int) -> str:
    """Where the character at `offset` of `text` is, as a sentence."""
    line_start = text.rfind("\n", 0, offset) + 1
    return f"Line {text.count(chr(10), 0, offset) + 1}, column {offset - line_start + 1} of the text."


def split_and_parse(text: str) -> tuple[Parsed, ...]:
    """Every statement of `text`; empty statements (only blanks, comments, semicolons) yield nothing.

    Raises `SqlSyntaxError` (42601) for the whole text when any statement is malformed, as PostgreSQL does.
    """
    result = parse_tree(text)
    is_ascii = text.isascii()
    # The plain search first: the expression goes through a constant of megabytes letter by letter.
    reads_past = "tidegate" in text.lower() and _READS_PAST.search(text) is not None
    encoded = b"" if is_ascii else text.encode()
    statements = []
    for raw in result.stmts:
        start = raw.stmt_location
        length = raw.stmt_len
        if is_ascii:
            end = start + length if length else len(text)
        else:
            end = len(encoded[: start + length].decode()) if length else len(text)
            start = len(encoded[:start].decode())
        kind = raw.stmt.WhichOneof("node")
        statements.append(
            Parsed(
                text=text,
                start=start,
                end=end,
                tree=getattr(raw.stmt, kind),
                kind=kind,
                ascii=is_ascii,
                is_brief=len(text) <= BRIEF_TEXT_CHARS and not reads_past and not _READS_FILES.search(text),
                reads_past=reads_past,
                is_long=len(text) > LONG_TEXT_CHARS,
            )
        )
    return tuple(statements)


_NOT_SUPPORTED = re.compile(
    "not supported|only supported for|not (yet )?implemented|cannot be marked|cannot include schema elements"
)
"""What PostgreSQL's grammar knows and PostgreSQL does not have (gram.y's ERRCODE_FEATURE_NOT_SUPPORTED)."""


def _nests_too_deep(text: str) -> bool:
    """Whether a long text chains so many operators between two commas that its tree could exhaust the stack."""
    plain = _QUOTED.sub("0", text)
    return any(
        len(part) > MAX_CHAIN and sum(1 for _ in _CHAINED.finditer(part)) > MAX_CHAIN for part in plain.split(",")
    )


def _syntax_error(error: PgQueryError, text: str) -> SqlError:
    """PostgreSQL's error for what its parser refused. libpg_query gives no SQLSTATE: the texts tell the few others."""
    message = str(error.message)
    position = error.cursorpos or None
    if message == "constraints cannot be altered to be NOT VALID":
        return FeatureNotSupported("FOREIGN KEY constraints cannot be marked NOT VALID")
    if message.startswith("syntax error") or message.startswith("unterminated"):
        return SqlSyntaxError(message, position=position)
    if "constraints cannot be marked" in message:
        return FeatureNotSupported(message)
    if message.startswith("LIMIT #,#"):
        return SqlSyntaxError(message, hint="Use separate LIMIT and OFFSET clauses.", position=position)
    if message.startswith("role name ") or message.endswith("cannot be used as a role name here"):
        return ReservedName(message, position=position)
    if message.startswith(("precision for type float", "column number must be")):
        return InvalidParameterValue(message, position=position)
    if _NOT_SUPPORTED.search(message):
        return FeatureNotSupported(message, position=position)
    if "escape" in message.lower():
        if message == "invalid Unicode escape":
            opening = text.rfind("'", 0, (position or 1) - 1)
            if opening > 0 and text[opening - 1] == "&":
                hint = "Unicode escapes must be \\XXXX or \\+XXXXXX."
                return SqlSyntaxError(message, hint=hint, position=position)
            hint = "Unicode escapes must be \\uXXXX or \\UXXXXXXXX."
            return InvalidEscapeSequence(message, hint=hint, position=position)
        return SqlSyntaxError(message, position=position)
    if message.startswith("improper qualified name"):
        return SqlSyntaxError(message, position=position)
    if message.startswith("stack depth limit"):
        return too_deep()
    if message.startswith("frame "):
        return WindowingError(message, position=position)
    if message.startswith("invalid byte sequence"):
        return CharacterNotInRepertoire(message)
    if message.startswith("invalid name"):
        return InvalidName(message, position=position)
    return SqlSyntaxError(message, position=position)
