"""Query strings of other dialects, as PostgreSQL's: `read` is the way in.

Every node of the tree that sqlglot reads is handed on as it is, when it has been vouched for (`nodes`), or written by a
line of `functions` or a rule of `rules`; else the statement is refused with 0A000 and the node's name. So no text is
handed on that PostgreSQL would take for something else.

Statements about the session (`nodes.COMMANDS`) are PostgreSQL's in every dialect, and so are those that name a catalog
of PostgreSQL's (pg_class, information_schema): drivers and tools send both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct

from planner.common_errors import too_deep
from planner.errors import (
    AmbiguousFunction,
    FeatureNotSupported,
    InvalidParameterValue,
    ProgramLimitExceeded,
    SqlError,
    SqlSyntaxError,
    UndefinedFunction,
)
from planner.syntax.dialects import arrays, dates, definitions, joins, rules, stars
from planner.syntax.dialects.functions import FAMILIES, TEMPLATES, Written
from planner.syntax.dialects.names import MAX_CHARS, POSTGRES, sqlglot_module
from planner.syntax.dialects.nodes import COMMANDS, KINDS, OPERATORS, UNIMPORTANT, VOUCHED
from planner.syntax.dialects.ordering import OUTPUT_FIRST, replace_outputs
from planner.syntax.dialects.rules import Rule, text

RULES: Mapping[str, tuple[frozenset[str], Rule]] = {
    name: (frozenset(args.split()), rule)
    for lines in (rules.LINES, arrays.LINES, dates.LINES, definitions.LINES, stars.LINES)
    for names, args, rule in lines
    for name in names.split()
}
"""By node: the arguments that it may have, and its rule."""

DIALECTS = FAMILIES["all"]
"""The dialects that can be read."""

_QUOTES_IN_QUOTES = frozenset({"spark", "databricks"})
"""Dialects whose strings sqlglot ends at a quote that is written twice."""

_BEFORE = re.compile(
    r"\s*(?:explain\b(?:\s*(?:(?P<dialect>\(\s*dialect(?:\s*'(?P<quoted>[^']*)'|\s+(?P<word>\w+))?\s*\))|\([^()]*\))"
    r"|(?:\s+(?:analyze|analyse|verbose)\b)*)"
    r"|declare\b.*?\bfor\b)\s*",
    re.IGNORECASE | re.DOTALL,
)
"""EXPLAIN and DECLARE CURSOR, which are PostgreSQL's, and stand before a statement of the dialect."""

SHOWS_TRANSLATION = re.compile(r"\s*explain\s*\(\s*dialect\b", re.IGNORECASE)
"""What EXPLAIN (DIALECT) begins with: what stands behind it need not be PostgreSQL's."""

_WORD = re.compile(r"\w+")
_HELPER = re.compile(r"function tidegate\.(\w+)\((.*)\) (?:does not exist|is not unique)")


class Reading(Struct, frozen=True):
    """A query string of a dialect: `given` as it was sent, and `text`, what it is as PostgreSQL's."""

    dialect: str
    given: str
    text: str

    def pointed(self, error: SqlError) -> SqlError:
        """`error` of the translation as one of the text that was sent: with its position there, and none of the names
        that a translation puts in."""
        unknown = isinstance(error, (AmbiguousFunction, UndefinedFunction))
        helper = _HELPER.fullmatch(error.message) if unknown else None
        if helper is not None:
            what = helper[1].replace("_", " ")
            refused = FeatureNotSupported(
                f"the {self.dialect} operation cannot be translated for operands of type {helper[2]}",
                detail=f"It would be PostgreSQL's only with operands of other types ({what}).",
                hint="|| is OR in MySQL, CONCAT joins texts." if helper[1] == "truth" else None,
            )
            return refused
        if isinstance(error, SqlSyntaxError) and self.text != self.given:
            return FeatureNotSupported(
                f"the {self.dialect} statement cannot be translated",
                detail=f"What was written is refused by PostgreSQL: {error.message}.",
            )
        error.position = None if error.position is None else self._position(error.position)
        return error

    def _position(self, position: int) -> int | None:
        """Where the word at `position` of the translation, or the one like it, stands in what was sent; 1-based."""
        if self.text == self.given:
            return position
        word = _WORD.match(self.text, position - 1) or _WORD.match(self.text, position)
        if word is None:
            return None
        wanted = word[0].lower()
        before = sum(1 for each in _WORD.finditer(self.text[: word.start()]) if each[0].lower() == wanted)
        places = [each.start() + 1 for each in _WORD.finditer(self.given) if each[0].lower() == wanted]
        return places[min(before, len(places) - 1)] if places else None


def read(given: str, dialect: str) -> Reading:
    """The statements of `given`, a query string of `dialect`, or of the one that EXPLAIN (DIALECT 'name') names.

    Raises 42601 for a text that is none of the dialect, 0A000 for what cannot be said in PostgreSQL's, each with its
    position, 22023 for a name that no dialect has, 54000 and 54001 for what is too long or nests too deep.
    """
    if len(given) > MAX_CHARS:
        raise ProgramLimitExceeded(
            f"a text of {len(given)} characters is too long to be translated, {MAX_CHARS} is the most"
        )
    sqlglot = sqlglot_module()
    before = _BEFORE.match(given)
    prefix = before[0] if before else ""
    # What stands before is kept as blanks, so that places are those of the whole text.
    blanked = re.sub(r"[^\n]", " ", prefix) + given[len(prefix) :]
    if before and before["dialect"]:
        dialect = (before["quoted"] or before["word"] or dialect).lower()
        if dialect == POSTGRES:
            return Reading(dialect, given, _shown(given[len(prefix) :].strip().rstrip(";")))
        if dialect not in DIALECTS:
            place = before.start("quoted") if before["quoted"] else before.start("word")
            raise InvalidParameterValue(
                f'invalid value for EXPLAIN option "dialect": "{dialect}"',
                hint=f"Known are {', '.join((POSTGRES, *DIALECTS))}.",
                position=place + 1,
            )
    try:
        tokens = sqlglot.tokenize(blanked, read=dialect)
    except sqlglot.errors.TokenError as error:
        raise SqlSyntaxError("syntax error", detail=" ".join(str(error.__cause__ or error).split())) from None
    pieces: list[list[Any]] = [[]]
    for token in tokens:
        if token.token_type.name == "SEMICOLON":
            pieces.append([])
        else:
            pieces[-1].append(token)
    try:
        written = [_statement(sqlglot, blanked, piece, dialect) for piece in pieces if piece]
    except RecursionError:
        raise too_deep() from None
    text = "; ".join(written)
    if before and before["dialect"]:
        return Reading(dialect, given, _shown(text))
    return Reading(dialect, given, prefix + text)


def read_query(given: str, dialect: str) -> str:
    """The one query `given`, of `dialect`, as PostgreSQL's; names of PostgreSQL's own catalogs are names like others.

    Raises as `read` does, and 0A000 for what is no query.
    """
    if len(given) > MAX_CHARS:
        raise ProgramLimitExceeded(
            f"a text of {len(given)} characters is too long to be translated, {MAX_CHARS} is the most"
        )
    sqlglot = sqlglot_module()
    try:
        tokens = sqlglot.tokenize(given, read=dialect)
    except sqlglot.errors.TokenError as error:
        raise SqlSyntaxError("syntax error", detail=" ".join(str(error.__cause__ or error).split())) from None
    while tokens and tokens[-1].token_type.name == "SEMICOLON":
        tokens.pop()
    if not tokens or any(token.token_type.name == "SEMICOLON" for token in tokens):
        raise FeatureNotSupported("the text is not one query")
    try:
        return _translated(sqlglot, given, tokens, dialect, queries_alone=True)
    except RecursionError:
        raise too_deep() from None


def _shown(text: str) -> str:
    return "SELECT '" + text.replace("'", "''") + '\' AS "QUERY PLAN"'


def _statement(sqlglot: Any, given: str, tokens: list[Any], dialect: str) -> str:
    start, end = tokens[0].start, tokens[-1].end + 1
    first = tokens[0].text.lower()
    if first in COMMANDS or any(_is_catalog(token) for token in tokens):
        return given[start:end]
    return _translated(sqlglot, given, tokens, dialect)


def _translated(sqlglot: Any, given: str, tokens: list[Any], dialect: str, *, queries_alone: bool = False) -> str:
    start, end = tokens[0].start, tokens[-1].end + 1
    first = tokens[0].text.lower()
    piece = re.sub(r"[^\n]", " ", given[:start]) + given[start:end]
    for one, other in pairwise(tokens if dialect in _QUOTES_IN_QUOTES else ()):
        if one.token_type.name == other.token_type.name == "STRING" and one.end + 1 == other.start:
            # A quote that is written twice is one inside a string.
            piece = f"{piece[: one.end]}\\{piece[other.start :]}"
    try:
        tree = sqlglot.parse_one(piece, read=dialect)
    except sqlglot.errors.ParseError as error:
        raise _syntax_error(error, piece) from None
    except sqlglot.errors.TokenError as error:
        raise SqlSyntaxError("syntax error", detail=" ".join(str(error.__cause__ or error).split())) from None
    if not isinstance(
        tree, (sqlglot.exp.Query, sqlglot.exp.DML, sqlglot.exp.DDL, sqlglot.exp.Drop, sqlglot.exp.TruncateTable)
    ):
        what = first.split()[0].upper()
        if isinstance(tree, sqlglot.exp.Command) or what.isalpha():
            raise FeatureNotSupported(f"{what} statements of {dialect} cannot be translated", position=start + 1)
        raise SqlSyntaxError(f'syntax error at or near "{given[start:end].split()[0]}"', position=start + 1)
    if queries_alone and not isinstance(tree, sqlglot.exp.Query):
        raise FeatureNotSupported("the text is not one query")
    texts = [token.text for token in tokens if token.token_type.name == "STRING"]
    converted = _Conversion(sqlglot.exp, dialect, _of_week_years(sqlglot, texts, dialect)).converted(tree)
    try:
        return str(converted.sql(dialect="postgres", unsupported_level=sqlglot.ErrorLevel.RAISE, comments=False))
    except sqlglot.errors.UnsupportedError as error:
        raise FeatureNotSupported(
            f"the {dialect} statement cannot be translated", detail=" ".join(str(error).split()).rstrip(".") + "."
        ) from None


def _of_week_years(sqlglot: Any, texts: list[str], dialect: str) -> frozenset[str]:
    """Formats of the Spark family, as sqlglot writes them, whose Y is the year that a week belongs to; it takes them
    for the year of the date."""
    found = [each for each in texts if "Y" in each] if dialect in rules.SPARK else []
    known = sqlglot.Dialect.get_or_raise(dialect)
    return frozenset(str(known.format_time(sqlglot.exp.Literal.string(each)).this) for each in found)


def _is_catalog(token: Any) -> bool:
    word = token.text.lower() if token.token_type.name != "STRING" else ""
    return word in ("pg_catalog", "information_schema") or word.startswith("pg_")


def _syntax_error(error: Any, piece: str) -> SqlSyntaxError:
    first = error.errors[0]
    near = " ".join(str(first["highlight"]).split())
    lines = piece.split("\n")
    position = (
        sum(len(line) + 1 for line in lines[: first["line"] - 1]) + first["col"] - len(str(first["highlight"])) + 1
    )
    return SqlSyntaxError(
        f'syntax error at or near "{near}"' if near else "syntax error at end of input",
        position=max(position, 1) if near else None,
    )


class _Conversion:
    """One statement's tree, made PostgreSQL's."""

    def __init__(self, expressions: Any, dialect: str, week_years: frozenset[str]) -> None:
        self._exp = expressions
        self._dialect = dialect
        self._week_years = week_years
        self._templates = TEMPLATES[dialect]
        self._unnamed = 0

    def converted(self, node: Any) -> Any:
        """`node` with all that is below it. Raises 0A000."""
        exp, name = self._exp, type(node).__name__
        if name == "Case":
            # Its branches are no calls of IF.
            node.set("this", node.this and self.converted(node.this))
            node.set("default", node.args.get("default") and self.converted(node.args["default"]))
            for branch in node.args["ifs"]:
                branch.set("this", self.converted(branch.this))
                branch.set("true", self.converted(branch.args["true"]))
            return node
        if name == "Escape" and type(node.this).__name__ in ("Like", "ILike"):
            like = node.this
            operator = f"{'not ' if like.args.get('negate') else ''}{type(like).__name__.lower()}"
            value, pattern, escape = map(self.converted, (like.this, like.expression, node.expression))
            return exp.Var(this=f"({text(value)} {operator} {text(pattern)} escape {text(escape)})")
        if name == "OnConflict" and node.args.get("duplicate"):
            raise FeatureNotSupported(
                f"ON DUPLICATE KEY UPDATE of {self._dialect} cannot be translated",
                hint="PostgreSQL's INSERT ... ON CONFLICT (columns) DO UPDATE names the key.",
            )
        if name == "Explode" and isinstance(node.this, exp.Kwarg):
            raise FeatureNotSupported(
                f"function FLATTEN of {self._dialect} cannot be translated",
                hint="It gives VARIANT values; unnest(array) of the dialect postgres gives elements of their own type.",
            )
        if self._week_years and str(getattr(node.args.get("format"), "this", "")) in self._week_years:
            raise self._refused(node, "Y, the year that a week belongs to, in its format")
        if name == "Select":
            node.set("hint", None)  # It says how, and not what.
            group = node.args.get("group")
            if group and group.args.get("all") and not stars.group_by_all(node, self._dialect, exp):
                raise self._refused(group, "ALL")
            if not stars.semi_joins_on(node, self._dialect, exp):
                raise self._refused(node, "a semi-join USING columns")
        is_change = name == "When" and isinstance(node.args["then"], (exp.Update, exp.Insert))
        if is_change and not stars.merge_star(node, self._dialect, exp):
            raise self._refused(node, "*")
        if name == "Table" and all(map(_is_hint, node.args.get("hints") or ())):
            node.set("hints", None)
        if name in ("DateDiff", "DatetimeDiff") and isinstance(node.args.get("unit"), exp.WeekStart):
            first = node.args["unit"].name.upper()
            node.set("unit", exp.Var(this={"SUNDAY": "WEEK", "MONDAY": "ISOWEEK"}.get(first, first)))
        if name == "Insert" and node.args.get("ignore"):
            node.set("ignore", None)
            node.set("conflict", exp.OnConflict(action=exp.Var(this="DO NOTHING")))
        if name == "Join" and not joins.is_plain(node):
            raise self._refused(node, str(node.args.get("method") or node.args.get("kind")))
        if name == "Create" and node.args.get("replace") and node.args.get("kind") == "TABLE":
            raise self._refused(node, "OR REPLACE")
        names_its_from = name == "Update" and self._dialect == "tsql" and node.args.get("from_")
        if names_its_from and not joins.updates_its_from(node, exp):
            raise self._refused(node, "its table in an outer join, or twice in FROM")
        if name == "Join" and node.args.get("side") and isinstance(node.this, exp.Unnest) and not node.args.get("on"):
            node.set("on", exp.Boolean(this=True))
        if name == "Join" and isinstance(node.this, exp.Lateral) and node.this.args.get("cross_apply") is False:
            node.set("on", exp.Boolean(this=True))
        if name == "Select" and node.args.get("order") and self._dialect in OUTPUT_FIRST:
            replace_outputs(node, exp)
        if name == "DateDiff" and self._dialect == "spark" and node.args.get("unit"):
            # With a unit it counts between moments, though sqlglot takes days of both.
            for key in ("this", "expression"):
                node.set(key, node.args[key].this if isinstance(node.args[key], exp.TsOrDsToDate) else node.args[key])
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                if not (name in ("Interval", "Extract") and isinstance(value, exp.Var)):
                    node.set(key, self._within(node, self.converted(value)))
            elif isinstance(value, list):
                node.set(
                    key,
                    [
                        self._within(node, self.converted(each)) if isinstance(each, exp.Expression) else each
                        for each in value
                    ],
                )
        given = {
            key: value for key, value in node.args.items() if value not in (None, False, []) and key not in UNIMPORTANT
        }
        known = RULES.get(name)
        if known is not None:
            allowed, rule = known
            if given.keys() - allowed:
                raise self._refused(node, sorted(given.keys() - allowed)[0].strip("_").replace("_", " ").upper())
            made = rule(node, self._dialect)
            if made is None:
                raise self._refused(node, " and ".join(sorted(given)).strip("_").upper() if name == "Star" else "")
            return made if made is node or isinstance(made, exp.Expression) else exp.Var(this=made)
        if name == "Var":
            return node
        vouched = VOUCHED.get(name)
        if vouched is not None:
            extra = given.keys() - vouched
            if extra:
                raise self._refused(node, sorted(extra)[0].strip("_").replace("_", " ").upper())
            if name in ("From", "Join") and isinstance(node.this, exp.Subquery) and not node.this.args.get("alias"):
                self._unnamed += 1
                name_of = exp.to_identifier(f"_subquery_{self._unnamed}", quoted=True)
                node.this.set("alias", exp.TableAlias(this=name_of))
            if name in ("Create", "Drop") and str(given.get("kind")).upper() not in KINDS:
                raise self._refused(node, str(given.get("kind")))
            return node
        template = self._templates.get(_written(exp, name, given))
        if template is None:
            raise self._refused(node)
        values = {
            key: ", ".join(map(text, value))
            if isinstance(value, list)
            else text(value)
            if isinstance(value, exp.Expression)
            else str(value)
            for key, value in given.items()
        }
        if values.get("this", "").startswith("DISTINCT ") and "(tidegate." in template:
            values["this"] = values["this"].removeprefix("DISTINCT ")
            template = template.replace("(tidegate.", "(DISTINCT tidegate.", 1)
        return exp.Var(this=template.format(**values))

    def _within(self, parent: Any, child: Any) -> Any:
        operators = type(parent).__name__ in OPERATORS and type(child).__name__ in OPERATORS
        return self._exp.Paren(this=child) if operators else child

    def _refused(self, node: Any, what: str = "") -> FeatureNotSupported:
        exp = self._exp
        name = str(node.this) if isinstance(node, exp.Anonymous) else _named(node, exp)
        kind = "function " if isinstance(node, exp.Func) and not isinstance(node, (exp.Cast, exp.Case)) else ""
        start = node.meta.get("start")
        if start is None:
            start = next((each.meta["start"] for each in node.walk() if "start" in each.meta), None)
        shown = f"{kind}{name.upper()}" + (f" with {what}" if what else "")
        return FeatureNotSupported(
            f"{shown} of {self._dialect} cannot be translated",
            position=None if start is None else start + 1,
        )


def _is_hint(node: Any) -> bool:
    """Whether what stands behind a table's name says how it is read, and not what."""
    words = {each.name.upper() for each in node.expressions}
    kind = type(node).__name__
    return kind == "IndexTableHint" or (kind == "WithTableHint" and words <= {"NOLOCK", "READUNCOMMITTED"})


def _named(node: Any, exp: Any) -> str:
    if isinstance(node, exp.Func):
        return str(node.sql_name())
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__)


def _written(exp: Any, name: str, given: dict[str, Any]) -> Written:
    words = {
        (key, str(value.this if isinstance(value, exp.Var) else value).upper())
        for key, value in given.items()
        if isinstance(value, str) or (key == "unit" and isinstance(value, exp.Var))
    }
    named = {key for key, _ in words}
    return Written(name, frozenset(given.keys() - named), frozenset(words))
