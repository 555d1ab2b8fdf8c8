"""Statements of other dialects, in and out: sqlglot reads and writes them.

Its translation is its own;
what is added here is that nothing passes that is known to be wrong. Refused with 0A000 are: statements that sqlglot
does not understand and would hand on as they are; what it knows the target to lack; PostgreSQL's text that it reads as
something else than PostgreSQL does (its reading, written as PostgreSQL again, must mean the same to PostgreSQL's
grammar); and what it writes as PostgreSQL that PostgreSQL's grammar refuses. Where two dialects give one text two
meanings (division of integers, the order of NULLs, the numbering of weekdays) the target's answer may still differ.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from planner.common_errors import too_deep
from planner.errors import (
    FeatureNotSupported,
    InvalidParameterValue,
    ProgramLimitExceeded,
    SqlSyntaxError,
)
from planner.syntax.dialects.names import MAX_CHARS, POSTGRES, sqlglot_module
from planner.syntax.parse import parse_argument, parse_tree, place
from planner.syntax.sameness import means_the_same


def transpile(text: str, source: str, target: str) -> str:
    """The statements of `text`, which is of the dialect `source`, in the dialect `target`; several with semicolons
    between them. Comments stay.

    Raises 22023 for a dialect that is not known, 42601 for a text that is none of `source`, 0A000 for what cannot be
    said in `target`, 54000 and 54001 for what is too long or nests too deep.
    """
    sqlglot = sqlglot_module()
    source, target = _dialect(source), _dialect(target)
    if len(text) > MAX_CHARS:
        raise ProgramLimitExceeded(
            f"a text of {len(text)} characters is too long to be translated, {MAX_CHARS} is the most"
        )
    original = parse_argument(text) if source == POSTGRES else None
    try:
        statements = _parsed(sqlglot, text, source)
        if original is not None and not means_the_same(original, _reading(sqlglot, statements)):
            raise FeatureNotSupported("the statement cannot be translated", detail=_MISREAD)
        written = _written(sqlglot, statements, target)
    except RecursionError:
        raise too_deep() from None
    if target == POSTGRES:
        try:
            parse_tree(written)
        except SqlSyntaxError as error:
            detail = f"What was written is refused by PostgreSQL: {error.message}."
            raise FeatureNotSupported(f"the {source} statement cannot be written as {target}", detail=detail) from None
    return written


@cache
def dialects() -> tuple[str, ...]:
    """The names of the dialects that `transpile` knows, in alphabetical order."""
    return tuple(sorted(each.value for each in sqlglot_module().Dialects if each.value))


_MISREAD = "It would be read as another statement than the one that PostgreSQL runs."


def _dialect(name: str) -> str:
    known = name.strip().lower()
    if known not in dialects():
        raise InvalidParameterValue(f'unknown dialect: "{name}"', hint=f"Known are {', '.join(dialects())}.")
    return known


def _parsed(sqlglot: Any, text: str, source: str) -> list[Any]:
    try:
        statements = sqlglot.parse(text, read=source, error_message_context=len(text))
    except sqlglot.errors.ParseError as error:
        raise _syntax_error(error, text) from None
    except sqlglot.errors.TokenError as error:
        raise SqlSyntaxError("syntax error", detail=_sentence(str(error.__cause__ or error))) from None
    found = [statement for statement in statements if statement is not None]
    expressions = sqlglot.exp
    for statement in found:
        first = statement.sql(dialect=source).split()[0]
        alone = isinstance(statement, (expressions.Condition, expressions.Alias, expressions.Aliases))
        misread = alone and not isinstance(statement, expressions.Query)
        if misread and source != POSTGRES:
            raise SqlSyntaxError(f'syntax error at or near "{first}"', detail="An expression is no statement.")
        if misread or statement.find(expressions.Command) is not None:
            raise FeatureNotSupported(f"{first.upper()} statements cannot be translated")
    return found


def _syntax_error(error: Any, text: str) -> SqlSyntaxError:
    first = error.errors[0]
    detail = place(text, len(first["start_context"]))
    if "<class" not in first["description"]:
        detail += " " + _sentence(first["description"])
    near = " ".join(first["highlight"].split())
    return SqlSyntaxError(
        f'syntax error at or near "{near}"' if near else "syntax error at end of input", detail=detail
    )


def _sentence(text: str) -> str:
    """What sqlglot says, in one line and with a full stop."""
    return " ".join(text.split()).rstrip(".") + "."


def _reading(sqlglot: Any, statements: list[Any]) -> Any:
    """What sqlglot has read, as PostgreSQL reads what it writes of it."""
    try:
        return parse_tree("; ".join(statement.sql(dialect=POSTGRES, comments=False) for statement in statements))
    except SqlSyntaxError:
        raise FeatureNotSupported("the statement cannot be translated", detail=_MISREAD) from None


def _written(sqlglot: Any, statements: list[Any], target: str) -> str:
    try:
        written = [each.sql(dialect=target, unsupported_level=sqlglot.ErrorLevel.RAISE) for each in statements]
    except sqlglot.errors.UnsupportedError as error:
        raise FeatureNotSupported(
            f"the statement cannot be written as {target}", detail=_sentence(str(error))
        ) from None
    # Comments between two statements are one of their own, which needs no semicolon.
    ends = ["\n" if isinstance(each, sqlglot.exp.Semicolon) else ";\n" for each in statements]
    return "".join(text + end for text, end in zip(written, ends, strict=True)).removesuffix("\n").removesuffix(";")
