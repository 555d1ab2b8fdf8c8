"""Regular expressions in PostgreSQL's syntax, on the `regex` package.

PostgreSQL finds the leftmost match, and of those that begin there the longest, or the shortest where the expression
prefers that (its section 9.7.3.5): an expression with alternatives at its top prefers the longest, any other takes the
preference of its first quantified part. Only the matching of parts inside follows the quantifiers' own preferences.

A match that tries too much does not hold up others: after `ALONE_S` it begins anew with the interpreter free for other
threads, and after `MATCH_S` it is given up (54001).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import islice

import regex

from planner.errors import InvalidParameterValue, InvalidRegularExpression, StatementTooComplex
from planner.functions.udfs.regular_expressions import like_with_escape, similar_to_regex
from planner.functions.udfs.table import Udf

_CLASSES = {
    "alpha": r"^\W\d_",
    "digit": r"\d",
    "alnum": r"^\W_",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "word": r"\w",
    "print": r"\x20-\x7e",
    "graph": r"\x21-\x7e",
}
_WITHIN = {"alpha": "a-zA-Z\u00aa-\ufffd", "alnum": "a-zA-Z0-9\u00aa-\ufffd"}


ALONE_S = 0.005
"""A match takes less, nearly always: to let other threads run meanwhile would cost more."""

MATCH_S = 1.0
"""Seconds that one match may take, and as many for each `MATCH_CHARS` of the text."""

MATCH_CHARS = 10_000_000


def _in_time(text: str, match: Callable[..., regex.Match[str] | None]) -> regex.Match[str] | None:
    """What `match` finds in `text`. Raises 54001 when it takes too long."""
    try:
        return match(timeout=ALONE_S, concurrent=False)
    except TimeoutError:
        pass
    try:
        return match(timeout=MATCH_S * (1 + len(text) / MATCH_CHARS), concurrent=True)
    except TimeoutError:
        raise StatementTooComplex("regular expression takes too long to match") from None


def _not_global(function: str, flags: str, hint: str | None = None) -> None:
    """Raises 22023 for the option g where one match is asked for."""
    if "g" in flags:
        raise InvalidParameterValue(f'{function}() does not support the "global" option', hint=hint)


class Expression:
    """A compiled regular expression. `whole` finds where matches are; where it prefers the shortest, `parts` says how
    its parts share such a match. Raises 54001 when a match takes too long."""

    __slots__ = ("parts", "whole")

    def __init__(self, whole: regex.Pattern[str], parts: regex.Pattern[str] | None = None) -> None:
        self.whole = whole
        self.parts = parts if whole.groups else None

    @property
    def groups(self) -> int:
        """The number of capturing parentheses."""
        return self.whole.groups

    def first(self, text: str) -> regex.Match[str] | None:
        """The first match."""
        return next(self.all(text), None)

    def all(self, text: str, start: int = 0) -> Iterator[regex.Match[str]]:
        """The matches from character `start` on that do not overlap."""
        while start <= len(text):
            match = _in_time(text, partial(self.whole.search, text, start))
            if match is None:
                return
            first, start = match.span()
            if self.parts is not None:
                match = _in_time(text, partial(self.parts.fullmatch, text, first, start)) or match
            yield match
            start += first == start


_NEWLINES = {"s": regex.S, "n": regex.M, "m": regex.M, "p": 0, "w": regex.M | regex.S}
"""By option: whether ^ and $ match at lines (M), whether a dot and [^...] match a newline (S)."""


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: str) -> Expression:
    """The compiled form of an advanced regular expression. Raises 2201B, and 22023 for an unknown flag."""
    literal = pattern.startswith("***=")
    if pattern.startswith(("***=", "***:")):
        pattern = pattern[4:]
    options = None if literal else re.match(r"\(\?([a-z]+)\)", pattern)
    if options:
        flags += options[1]
        pattern = pattern[options.end() :]
    mode = regex.S
    for flag in flags:
        if flag == "i":
            mode |= regex.I
        elif flag == "c":
            mode &= ~regex.I
        elif flag in _NEWLINES:
            mode = (mode & ~(regex.M | regex.S)) | _NEWLINES[flag]
        elif flag == "x":
            mode |= regex.X
        elif flag == "q":
            literal = True
        elif flag not in "gt":
            raise InvalidParameterValue(f'invalid regular expression option: "{flag}"')
    if not literal and (len(pattern) - len(pattern.rstrip("\\"))) % 2:
        raise InvalidRegularExpression("invalid regular expression: invalid escape \\ sequence")
    try:
        if literal:
            return Expression(regex.compile(regex.escape(pattern), mode))
        shortest, _ = _preference(pattern, 0)
        if not shortest and not first_is_longest(pattern):
            mode |= regex.POSIX
        lines, stops = bool(mode & regex.M), not mode & regex.S
        as_written = regex.compile(_translated(pattern, lines, stops), mode)
        if not shortest:
            return Expression(as_written)
        return Expression(regex.compile(_translated(pattern, lines, stops, lazy=True), mode), as_written)
    except regex.error as error:
        reason = str(error).partition(" at position ")[0].partition(" \\")[0]
        texts = {
            "unterminated character set": "brackets [] not balanced",
            "missing )": "parentheses () not balanced",
            "unbalanced parenthesis": "parentheses () not balanced",
            "nothing to repeat": "quantifier operand invalid",
            "multiple repeat": "quantifier operand invalid",
            "min repeat greater than max repeat": "invalid repetition count(s)",
            "bad escape": "invalid escape \\ sequence",
            "invalid group reference": "invalid backreference number",
        }
        raise InvalidRegularExpression(f"invalid regular expression: {texts.get(reason, reason)}") from None


_QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(,\d*)?\}")
_MAX_REPETITIONS = 255
_HEXADECIMAL = re.compile(r"\\x([0-9a-fA-F]+)")
_MAX_CHARACTER = 0x7FFFFFFE
_CONSTRAINTS = ("(?=", "(?!", "(?<=", "(?<!")


def _preference(pattern: str, index: int) -> tuple[bool | None, int]:
    """Whether the expression that begins at `index` prefers the shortest match (None: it has no preference), and where
    it ends: after its closing parenthesis, or with the pattern."""
    prefers: bool | None = None
    alternatives = False
    while index < len(pattern) and pattern[index] != ")":
        inner: bool | None = None
        if pattern[index] == "|":
            alternatives = True
            index += 1
            continue
        if pattern[index] == "(":
            constraint = pattern.startswith(_CONSTRAINTS, index)
            inner, index = _preference(pattern, index + 1 + 2 * pattern.startswith("(?", index))
            inner = None if constraint else inner
        else:
            index = _atom_end(pattern, index)
        quantifier = _QUANTIFIER.match(pattern, index)
        if quantifier is not None:
            index = quantifier.end()
            lazy = pattern[index : index + 1] == "?"
            index += lazy
            exact = quantifier[1] is not None and quantifier[2] is None
            inner = inner if exact and not lazy else lazy
        prefers = inner if prefers is None else prefers
    return False if alternatives else prefers, index + 1


def _atom_end(pattern: str, index: int) -> int:
    """Where the escape, the bracket expression or the character at `index` ends."""
    if pattern[index] == "\\":
        return index + 2
    return _bracket(pattern, index, False)[1] if pattern[index] == "[" else index + 1


def first_is_longest(pattern: str) -> bool:
    """Whether trying quantifiers from their largest count on finds the longest match first: nothing but single
    characters is repeated, as often as possible, and there are no alternatives."""
    index = 0
    while index < len(pattern):
        if pattern[index] == "|":
            return False
        closing = pattern[index] == ")"
        index = _atom_end(pattern, index)
        quantifier = None if pattern[index - 1] == "(" else _QUANTIFIER.match(pattern, index)
        if quantifier is not None:
            index = quantifier.end()
            if closing or pattern[index : index + 1] == "?":
                return False
    return True


_ESCAPES = {"y": r"\b", "Y": r"\B", "m": r"\b(?=\w)", "M": r"\b(?<=\w)", "A": r"\A", "Z": r"\Z"}


def _translated(pattern: str, multiline: bool, stops: bool, *, lazy: bool = False) -> str:
    """The pattern in the package's syntax; `stops`: [^...] does not match a newline; `lazy`: each quantifier takes as
    little as it can, as it does in parentheses with a quantifier that prefers the shortest."""
    out: list[str] = []
    lazy_groups = [lazy]
    in_constraint = [False]
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\" and (character := _HEXADECIMAL.match(pattern, index)) is not None:
            out.append(_character(character[1]))
            index = character.end()
        elif char == "\\" and index + 1 < len(pattern):
            escape = pattern[index + 1]
            if in_constraint[-1] and escape in "123456789":
                raise InvalidRegularExpression("invalid regular expression: invalid backreference number")
            out.append(_ESCAPES.get(escape, "\\" + escape))
            index += 2
        elif char == "[":
            body, index = _bracket(pattern, index, stops)
            out.append(body)
        elif char == "(":
            opening = "(?" if pattern[index + 1 : index + 2] == "?" else "("
            out.append(opening)
            in_constraint.append(in_constraint[-1] or pattern.startswith(_CONSTRAINTS, index))
            index += len(opening)
            _, end = _preference(pattern, index)
            quantifier = _QUANTIFIER.match(pattern, end)
            lazy_groups.append(lazy_groups[-1] or (quantifier is not None and pattern[quantifier.end() :][:1] == "?"))
        elif char == ")" and len(lazy_groups) > 1:
            lazy_groups.pop()
            in_constraint.pop()
            out.append(char)
            index += 1
        elif char in "*+?{" and (quantifier := _QUANTIFIER.match(pattern, index)) is not None:
            index = quantifier.end()
            if any(int(count) > _MAX_REPETITIONS for count in re.findall(r"\d+", quantifier[0])):
                raise InvalidRegularExpression("invalid regular expression: invalid repetition count(s)")
            given = pattern[index : index + 1] == "?"
            index += given
            out.append(quantifier[0] + "?" * (given or lazy_groups[-1]))
            if pattern[index : index + 1] in ("*", "+", "?"):
                raise InvalidRegularExpression("invalid regular expression: quantifier operand invalid")
        elif char == "$" and not multiline:
            out.append(r"\Z")
            index += 1
        elif char == "{" and not pattern[index + 1 : index + 2].isdigit():
            # A brace, where the package has counts without a beginning, and approximate matches.
            out.append(r"\{")
            index += 1
        else:
            out.append(char)
            index += 1
    return "".join(out)


def _character(digits: str) -> str:
    """The character of a hexadecimal escape, for the package. Raises 2201B for none that PostgreSQL could have."""
    code = int(digits, 16)
    if code > _MAX_CHARACTER:
        raise InvalidRegularExpression("invalid regular expression: invalid escape \\ sequence")
    return regex.escape(chr(code)) if code <= sys.maxunicode else "(?!)"


def _bracket(pattern: str, start: int, stops: bool) -> tuple[str, int]:
    out = ["["]
    index = start + 1
    if pattern[index : index + 1] == "^":
        out.append("^\\n" if stops else "^")
        index += 1
    if pattern[index : index + 1] == "]":
        out.append("\\]")
        index += 1
    while index < len(pattern):
        char = pattern[index]
        if char == "]":
            out.append("]")
            return "".join(out), index + 1
        if char == "[" and pattern[index + 1 : index + 2] == ":":
            end = pattern.find(":]", index)
            name = pattern[index + 2 : end]
            if end < 0 or name not in _CLASSES:
                raise InvalidRegularExpression("invalid regular expression: invalid character class")
            out.append(_WITHIN.get(name, _CLASSES[name]))
            index = end + 2
            continue
        if char == "\\" and index + 1 < len(pattern):
            out.append(pattern[index : index + 2])
            index += 2
            continue
        out.append("\\[" if char == "[" else char)
        index += 1
    raise InvalidRegularExpression("invalid regular expression: brackets [] not balanced")


def like(text: str, pattern: str, flags: str) -> bool:
    """text ~ pattern."""
    return compiled(pattern, flags).first(text) is not None


def like_once(text: str, pattern: str, flags: str) -> bool:
    """regexp_like()."""
    _not_global("regexp_like", flags)
    return like(text, pattern, flags)


def _replacement(template: str, match: regex.Match[str]) -> str:
    out: list[str] = []
    index = 0
    while index < len(template):
        char = template[index]
        if char == "\\" and index + 1 < len(template):
            following = template[index + 1]
            if following == "&":
                out.append(match[0])
            elif following.isdigit() and following != "0":
                out.append((match[int(following)] or "") if int(following) <= (match.re.groups or 0) else "")
            elif following == "\\":
                out.append("\\")
            else:
                out.append(char + following)
            index += 2
            continue
        out.append(char)
        index += 1
    return "".join(out)


def replace(text: str, pattern: str, replacement: str, flags: str) -> str:
    """regexp_replace(): the first match, with g every one."""
    if flags[:1].isdigit():
        raise InvalidParameterValue(
            f'invalid regular expression option: "{flags[0]}"',
            hint="If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer "
            "explicitly.",
        )
    return _replaced(compiled(pattern, flags), text, replacement, 0, None if "g" in flags else 1)


def _replaced(expression: Expression, text: str, replacement: str, start: int, number: int | None) -> str:
    """`text` with the match of that number from `start` on replaced, with None every one."""
    out: list[str] = []
    last = 0
    for index, match in enumerate(expression.all(text, start), 1):
        if number is None or index == number:
            out.append(text[last : match.start()])
            out.append(_replacement(replacement, match))
            last = match.end()
            if index == number:
                break
    out.append(text[last:])
    return "".join(out)


def replace_from(text: str, pattern: str, replacement: str, start: int, number: int, flags: str) -> str:
    """regexp_replace() with `start` (from 1): the match of that number from there on, with 0 every one."""
    if start <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "start": {start}')
    if number < 0:
        raise InvalidParameterValue(f'invalid value for parameter "n": {number}')
    return _replaced(compiled(pattern, flags), text, replacement, start - 1, number or None)


def match_groups(text: str, pattern: str, flags: str) -> list[str | None] | None:
    """regexp_match(): the groups of the first match, or the match itself."""
    _not_global("regexp_match", flags, "Use the regexp_matches function instead.")
    match = compiled(pattern, flags).first(text)
    if match is None:
        return None
    return list(match.groups()) if match.re.groups else [match[0]]


def all_matches(text: str, pattern: str, flags: str) -> list[list[str | None]]:
    """regexp_matches(): the groups of the first match, with g of every match."""
    found: list[list[str | None]] = []
    for match in compiled(pattern, flags).all(text):
        found.append(list(match.groups()) if match.re.groups else [match[0]])
        if "g" not in flags:
            break
    return found


def split(text: str, pattern: str, flags: str, function: str) -> list[str]:
    """regexp_split_to_array() or regexp_split_to_table(), as `function` says: empty matches at the ends and next to a
    match do not split."""
    _not_global(function, flags)
    parts: list[str] = []
    last = 0
    for match in compiled(pattern, flags).all(text):
        if match.start() == match.end() and (match.start() in (last, len(text))) and match.start() in (0, len(text)):
            continue
        if match.start() == match.end() == last:
            continue
        parts.append(text[last : match.start()])
        last = match.end()
    parts.append(text[last:])
    return parts


def count(text: str, pattern: str, start: int, flags: str) -> int:
    """regexp_count()."""
    _not_global("regexp_count", flags)
    if start <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "start": {start}')
    return sum(1 for _ in compiled(pattern, flags).all(text, start - 1))


def _nth(
    function: str, text: str, pattern: str, start: int, number: int, flags: str, group: int
) -> regex.Match[str] | None:
    """The match of that number from character `start` (from 1) on, if it has that group."""
    if start <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "start": {start}')
    if number <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "n": {number}')
    if group < 0:
        raise InvalidParameterValue(f'invalid value for parameter "subexpr": {group}')
    _not_global(function, flags)
    expression = compiled(pattern, flags)
    if group > expression.groups:
        return None
    return next(islice(expression.all(text, start - 1), number - 1, None), None)


def position(text: str, pattern: str, start: int, number: int, end: int, flags: str, group: int) -> int:
    """regexp_instr()."""
    if end not in (0, 1):
        raise InvalidParameterValue(f'invalid value for parameter "endoption": {end}')
    match = _nth("regexp_instr", text, pattern, start, number, flags, group)
    if match is None:
        return 0
    return (match.end(group) if end else match.start(group)) + 1


def substr(text: str, pattern: str, start: int, number: int, flags: str, group: int) -> str | None:
    """regexp_substr()."""
    match = _nth("regexp_substr", text, pattern, start, number, flags, group)
    return None if match is None else match[group]


def substring(text: str, pattern: str) -> str | None:
    """substring(text from pattern): the first group if there is one, else the match."""
    match = compiled(pattern, "").first(text)
    if match is None:
        return None
    return match[1] if match.re.groups else match[0]


def similar_substring(text: str, pattern: str, escape: str) -> str | None:
    """substring(text similar pattern escape escape): the part between the two escaped double quotes, if there are any;
    what comes before it is matched as short as possible."""
    match = compiled(similar_to_regex(pattern, escape), "").first(text)
    if match is None:
        return None
    return match[1] if match.re.groups else match[0]


_T, _I = "VARCHAR", "INTEGER"

UDFS: Mapping[str, Udf] = {
    "tg_regexp_like": Udf((_T, _T, _T), "BOOLEAN", like),
    "tg_regexp_like_once": Udf((_T, _T, _T), "BOOLEAN", like_once),
    "tg_regexp_replace": Udf((_T, _T, _T, _T), _T, replace),
    "tg_regexp_replace_from": Udf((_T, _T, _T, _I, _I, _T), _T, replace_from),
    "tg_regexp_match": Udf((_T, _T, _T), "VARCHAR[]", match_groups),
    "tg_regexp_matches": Udf((_T, _T, _T), "VARCHAR[][]", all_matches),
    "tg_regexp_split": Udf((_T, _T, _T, _T), "VARCHAR[]", split),
    "tg_regexp_count": Udf((_T, _T, _I, _T), _I, count),
    "tg_regexp_instr": Udf((_T, _T, _I, _I, _I, _T, _I), _I, position),
    "tg_regexp_substr": Udf((_T, _T, _I, _I, _T, _I), _T, substr),
    "tg_regexp_substring": Udf((_T, _T), _T, substring),
    "tg_similar_substring": Udf((_T, _T, _T), _T, similar_substring),
    "tg_like_escape": Udf((_T, _T), _T, like_with_escape),
    "tg_similar_to_escape": Udf((_T, _T), _T, similar_to_regex),
}
