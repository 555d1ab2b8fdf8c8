"""Statements of Tidegate's own, which PostgreSQL's grammar does not know: `parse_statements` is the way in.

A text that PostgreSQL's parser takes is PostgreSQL's, so nothing that it knows means anything else here (`AS of` stays
an alias). Only of a statement that it refuses, the tokens are looked at for:

- ``SELECT ... AS OF moment``, at its end; also below EXPLAIN and DECLARE CURSOR, in ``COPY (SELECT ...) TO``,
  ``INSERT ... SELECT`` and ``CREATE TABLE AS``;
- ``SUBSCRIBE [TO] name | (query) [WITH (SNAPSHOT, PROGRESS)] [AS OF moment] [UP TO moment]``, by itself, as
  ``COPY (SUBSCRIBE ...) TO STDOUT``, and as ``DECLARE name CURSOR FOR SUBSCRIBE ...``;
- ``FETCH ... WITH (timeout = '1s')``;
- ``ALTER SCHEMA ... SET (...)`` and ``RESET (...)``, which are left to be parsed as those of a table.

What is found is replaced by blanks of the same length (SUBSCRIBE by SELECT), so that positions stay; PostgreSQL's
parser gets the rest, and the statement carries what was taken out as its `Parsed.extension`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from planner.errors import SqlError, SqlSyntaxError
from planner.syntax.libpg_query import PgQueryError, pb, scan
from planner.syntax.parse import LONG_TEXT_CHARS, Extension, Parsed, Subscription, parse_tree, split_and_parse

_OPEN, _CLOSE, _END = pb.ASCII_40, pb.ASCII_41, pb.ASCII_59
_COMMENTS = (pb.SQL_COMMENT, pb.C_COMMENT)
_BEFORE = {"select": b"SELECT ", "table": b"TABLE "}
_PLAIN_SELECT = frozenset({"target_list", "limit_option", "op"})
"""What the tree of ``SELECT expression`` has."""

_TRUE, _FALSE = ("", "true", "on", "1", "'true'", "'on'"), ("false", "off", "0", "'false'", "'off'")


def parse_statements(text: str) -> tuple[Parsed, ...]:
    """Every statement of `text`, as `split_and_parse` gives them, and those of Tidegate's own. Raises 42601."""
    try:
        return split_and_parse(text)
    except SqlSyntaxError as error:
        if len(text) > LONG_TEXT_CHARS:
            raise
        try:
            found = _Text(text).parsed()
        except PgQueryError:
            raise error from None
        if found is None:
            raise
        return found


def _writes(tree: Any, kind: str) -> bool:
    """Whether a statement, or the one inside it, writes the rows of a query."""
    if kind in ("insert_stmt", "create_table_as_stmt"):
        return True
    if kind == "select_stmt":
        while tree.HasField("larg"):
            tree = tree.larg
        return bool(tree.HasField("into_clause"))
    if kind in ("explain_stmt", "prepare_stmt", "copy_stmt") and tree.HasField("query"):
        inner = tree.query.WhichOneof("node")
        return _writes(getattr(tree.query, inner), inner)
    return False


class _Text:
    """A query string that PostgreSQL's parser refuses, as tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        self.tokens = [token for token in scan(text).tokens if token.token not in _COMMENTS]
        self.blanked = bytearray(self.data)

    def parsed(self) -> tuple[Parsed, ...] | None:
        """The statements; None when none of them is one of ours."""
        extensions: list[tuple[int, Extension]] = []
        statement: list[Any] = []
        for token in [*self.tokens, None]:
            if token is not None and token.token != _END:
                statement.append(token)
                continue
            if statement and self._is_refused(statement):
                extension = self._extension(statement)
                if extension is not None:
                    extensions.append((statement[0].start, extension))
            statement = []
        if not extensions:
            return None
        return tuple([self._with_extension(each, extensions) for each in split_and_parse(self.blanked.decode())])

    def _with_extension(self, parsed: Parsed, extensions: Sequence[tuple[int, Extension]]) -> Parsed:
        start, end = (len(self.text[:offset].encode()) for offset in (parsed.start, parsed.end))
        own = next((extension for place, extension in extensions if start <= place < end), None)
        kind = parsed.kind
        if own is not None and own.subscription is not None and kind == "select_stmt":
            kind = "subscribe_stmt"
        if own is not None and own.as_of is not None and _writes(parsed.tree, kind):
            # Its tables are looked up before it is bound, as those of `planner.files.past_calls` are.
            own = replace(own, writes=True)
            return replace(parsed, text=self.text, extension=own, is_brief=False, reads_past=True)
        return replace(parsed, text=self.text, extension=own, kind=kind)

    def _is_refused(self, tokens: Sequence[Any]) -> bool:
        try:
            parse_tree(self.data[tokens[0].start : tokens[-1].end].decode())
        except SqlError:
            return True
        return False

    def _extension(self, tokens: list[Any]) -> Extension | None:
        words = [self._word(token) for token in tokens]
        at = self._subscribe(words)
        if at is not None:
            end = self._closing(words, 1) if words[0] == "copy" else len(words)
            return Extension(subscription=self._subscription(tokens[at:end], words[at:end]))
        if words[0] == "fetch" and "with" in words:
            at = len(words) - 1 - words[::-1].index("with")
            options = self._options(words[at:], {"timeout"})
            self._blank(tokens[at].start, tokens[-1].end)
            return Extension(timeout=options["timeout"].strip("'"))
        if words[:2] == ["alter", "schema"] and len(words) > 4 and words[3] in ("set", "reset") and words[4] == "(":
            self._blank(tokens[1].start, tokens[1].end, b"TABLE")
            return Extension(of_schema=True)
        first, end = (2, self._closing(words, 1)) if words[:2] == ["copy", "("] else (0, len(words))
        at = self._last(words[first:end], "as", "of")
        if at is None or first + at + 2 == end:
            return None
        moment = self._moment(tokens[first + at + 2 : end], "AS OF")
        self._blank(tokens[first + at].start, tokens[end - 1].end)
        return Extension(as_of=moment)

    @staticmethod
    def _subscribe(words: Sequence[str]) -> int | None:
        """Where SUBSCRIBE stands in a statement that may have it."""
        if words[0] == "subscribe":
            return 0
        if words[:3] == ["copy", "(", "subscribe"]:
            return 2
        if words[0] == "declare" and "subscribe" in words:
            at = words.index("subscribe")
            return at if words[at - 1] == "for" else None
        return None

    def _subscription(self, tokens: Sequence[Any], words: Sequence[str]) -> Subscription:
        at = 2 if words[1:2] == ["to"] else 1
        if at >= len(words):
            raise self._refused(tokens, at)
        if words[at] == "(":
            end = self._closing(words, at)
            query = self._part("", tokens[at].end, tokens[end].start)
            at = end + 1
        else:
            end = at
            while end < len(words) and not self._is_clause(words, end):
                end += 1
            query = self._part("table", tokens[at].start, tokens[end - 1].end)
            at = end
        options: dict[str, str] = {}
        moments: dict[str, Parsed] = {}
        while at < len(words):
            if words[at] == "with" and words[at + 1 : at + 2] == ["("] and not options:
                end = self._closing(words, at + 1) + 1
                options = self._options(words[at:end], {"snapshot", "progress"})
            elif self._is_clause(words, at) and words[at] != "with" and words[at] not in moments:
                end = at + 2
                depth = 0
                while end < len(words) and (depth or not self._is_clause(words, end)):
                    depth += (words[end] == "(") - (words[end] == ")")
                    end += 1
                if end == at + 2:
                    raise self._refused(tokens, end)
                clause = f"{words[at]} {words[at + 1]}".upper()
                moments[words[at]] = self._moment(tokens[at + 2 : end], clause)
            else:
                raise self._refused(tokens, at)
            at = end
        self._blank(tokens[0].start, tokens[-1].end, b"SELECT")
        return Subscription(
            query=query,
            snapshot=self._flag(options, "snapshot", default=True),
            progress=self._flag(options, "progress", default=False),
            as_of=moments.get("as"),
            up_to=moments.get("up"),
        )

    @staticmethod
    def _is_clause(words: Sequence[str], at: int) -> bool:
        return words[at] == "with" or tuple(words[at : at + 2]) in (("as", "of"), ("up", "to"))

    def _options(self, words: Sequence[str], known: set[str]) -> dict[str, str]:
        """``WITH ( name [= value], ... )``."""
        options: dict[str, str] = {}
        if words[1:2] != ["("] or words[-1] != ")":
            raise SqlSyntaxError("syntax error in the options after WITH")
        item: list[str] = []
        for word in [*words[2:-1], ","]:
            if word != ",":
                item.append(word)
                continue
            if not item or item[0] not in known or item[0] in options:
                raise SqlSyntaxError(f'unrecognized option "{" ".join(item)}"')
            options[item[0]] = "".join(item[2:] if item[1:2] == ["="] else item[1:])
            item = []
        return options

    @staticmethod
    def _flag(options: dict[str, str], name: str, *, default: bool) -> bool:
        value = options.get(name)
        if value is None:
            return default
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        raise SqlSyntaxError(f"{name} requires a Boolean value")

    def _moment(self, tokens: Sequence[Any], clause: str) -> Parsed:
        """The expression that `tokens` are. 42601 where a query goes on behind it (LIMIT, UNION, ...)."""
        moment = self._part("select", tokens[0].start, tokens[-1].end)
        said = {descriptor.name for descriptor, _ in moment.tree.ListFields()}
        if moment.tree.op != pb.SETOP_NONE or not said <= _PLAIN_SELECT:
            position = len(self.data[: tokens[0].start].decode()) + 1
            raise SqlSyntaxError(f"{clause} and its moment must be the last of a statement", position=position)
        return moment

    def _part(self, before: str, start: int, end: int) -> Parsed:
        """The text from `start` to `end` as a statement of its own, with the key word `before`; positions stay."""
        lead = _BEFORE.get(before, b"")
        data = b" " * (start - len(lead)) + lead + self.data[start:end]
        statements = split_and_parse(data.decode())
        if len(statements) != 1:
            raise SqlSyntaxError("syntax error at end of input", position=start + 1)
        return statements[0]

    def _blank(self, start: int, end: int, lead: bytes = b"") -> None:
        self.blanked[start:end] = lead + b" " * (end - start - len(lead))

    def _word(self, token: Any) -> str:
        word = self.data[token.start : token.end].decode()
        return word if word[:1] in "\"'$" else word.lower()

    @staticmethod
    def _closing(words: Sequence[str], opening: int) -> int:
        depth = 0
        for at in range(opening, len(words)):
            depth += (words[at] == "(") - (words[at] == ")")
            if depth == 0:
                return at
        raise SqlSyntaxError("syntax error at end of input")

    @staticmethod
    def _last(words: Sequence[str], first: str, second: str) -> int | None:
        """The last place outside of parentheses where `first` stands before `second`."""
        depth, found = 0, None
        for at, word in enumerate(words[:-1]):
            depth += (word == "(") - (word == ")")
            if depth == 0 and word == first and words[at + 1] == second:
                found = at
        return found

    def _refused(self, tokens: Sequence[Any], at: int) -> SqlSyntaxError:
        if at >= len(tokens):
            return SqlSyntaxError("syntax error at end of input", position=len(self.text) + 1)
        token = tokens[at]
        word = self.data[token.start : token.end].decode()
        position = len(self.data[: token.start].decode()) + 1
        return SqlSyntaxError(f'syntax error at or near "{word}"', position=position)
