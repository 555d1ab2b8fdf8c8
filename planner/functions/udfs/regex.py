"""Regular expressions in PostgreSQL's syntax, on Python's `re`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from planner.errors import InvalidParameterValue, InvalidRegularExpression, InvalidUseOfEscapeCharacter
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


@lru_cache(maxsize=1024)
def compiled(pattern: str, flags: str) -> re.Pattern[str]:
    """The compiled form of an advanced regular expression. Raises 2201B, and 22023 for an unknown flag."""
    options = re.match(r"\(\?([a-z]+)\)", pattern)
    if options:
        flags += options[1]
        pattern = pattern[options.end() :]
    mode = re.S
    literal = False
    for flag in flags:
        if flag == "i":
            mode |= re.I
        elif flag == "c":
            mode &= ~re.I
        elif flag in "nm":
            mode = (mode | re.M) & ~re.S
        elif flag == "x":
            mode |= re.X
        elif flag == "q":
            literal = True
        elif flag not in "gst":
            raise InvalidParameterValue(f'invalid regular expression option: "{flag}"')
    try:
        return re.compile(re.escape(pattern) if literal else _translated(pattern, bool(mode & re.M)), mode)
    except re.error as error:
        reason = str(error.msg)
        texts = {
            "unterminated character set": "brackets [] not balanced",
            "missing ), unterminated subpattern": "parentheses () not balanced",
            "unbalanced parenthesis": "parentheses () not balanced",
            "nothing to repeat": "quantifier operand invalid",
            "multiple repeat": "quantifier operand invalid",
        }
        raise InvalidRegularExpression(f"invalid regular expression: {texts.get(reason, reason)}") from None


_ESCAPES = {"y": r"\b", "Y": r"\B", "m": r"\b(?=\w)", "M": r"\b(?<=\w)", "A": r"\A", "Z": r"\Z"}


def _translated(pattern: str, multiline: bool) -> str:
    out: list[str] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\" and index + 1 < len(pattern):
            escape = pattern[index + 1]
            out.append(
                _ESCAPES.get(escape, "\\" + escape)
                if escape in _ESCAPES or escape in "dDsSwWnrtfv0123456789" or not escape.isalnum()
                else "\\" + escape
            )
            index += 2
        elif char == "[":
            body, index = _bracket(pattern, index)
            out.append(body)
        elif char == "$" and not multiline:
            out.append(r"\Z")
            index += 1
        else:
            out.append(char)
            index += 1
    return "".join(out)


def _bracket(pattern: str, start: int) -> tuple[str, int]:
    out = ["["]
    index = start + 1
    if pattern[index : index + 1] == "^":
        out.append("^")
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
    return compiled(pattern, flags).search(text) is not None


def _replacement(template: str, match: re.Match[str]) -> str:
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
    return compiled(pattern, flags).sub(
        lambda match: _replacement(replacement, match), text, count=0 if "g" in flags else 1
    )


def match_groups(text: str, pattern: str, flags: str) -> list[str | None] | None:
    """regexp_match(): the groups of the first match, or the match itself."""
    if "g" in flags:
        raise InvalidParameterValue(
            'regexp_match() does not support the "global" option', hint="Use the regexp_matches function instead."
        )
    match = compiled(pattern, flags).search(text)
    if match is None:
        return None
    return list(match.groups()) if match.re.groups else [match[0]]


def all_matches(text: str, pattern: str, flags: str) -> list[list[str | None]]:
    """regexp_matches(): the groups of the first match, with g of every match."""
    found: list[list[str | None]] = []
    for match in compiled(pattern, flags).finditer(text):
        found.append(list(match.groups()) if match.re.groups else [match[0]])
        if "g" not in flags:
            break
    return found


def split(text: str, pattern: str, flags: str) -> list[str]:
    """regexp_split_to_array(): empty matches at the ends and next to a match do not split."""
    parts: list[str] = []
    last = 0
    for match in compiled(pattern, flags).finditer(text):
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
    if start <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "start": {start}')
    return sum(1 for _ in compiled(pattern, flags).finditer(text, start - 1))


def _nth(text: str, pattern: str, start: int, number: int, flags: str) -> re.Match[str] | None:
    if start <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "start": {start}')
    if number <= 0:
        raise InvalidParameterValue(f'invalid value for parameter "n": {number}')
    for index, match in enumerate(compiled(pattern, flags).finditer(text, start - 1), 1):
        if index == number:
            return match
    return None


def position(text: str, pattern: str, start: int, number: int, end: int, flags: str, group: int) -> int:
    """regexp_instr()."""
    match = _nth(text, pattern, start, number, flags)
    if match is None:
        return 0
    return (match.end(group) if end else match.start(group)) + 1


def substr(text: str, pattern: str, start: int, number: int, flags: str, group: int) -> str | None:
    """regexp_substr()."""
    match = _nth(text, pattern, start, number, flags)
    return None if match is None else match[group]


def substring(text: str, pattern: str) -> str | None:
    """substring(text from pattern): the first group if there is one, else the match."""
    match = compiled(pattern, "").search(text)
    if match is None:
        return None
    return match[1] if match.re.groups else match[0]


def similar_substring(text: str, pattern: str, escape: str) -> str | None:
    """substring(text similar pattern escape escape): the part between the two escaped double quotes, if there are any;
    what comes before it is matched as short as possible."""
    mark = escape + '"'
    parts = pattern.split(mark) if escape else [pattern]
    if len(parts) == 1:
        return text if re.search(_translated(similar_to_regex(pattern, escape), False), text, re.S) else None
    if len(parts) != 3:
        raise InvalidUseOfEscapeCharacter(
            "SQL regular expression may not contain more than two escape-double-quote separators"
        )
    before, inside, after = [_translated(similar_to_regex(part, escape)[4:-2], False) for part in parts]
    match = re.search(rf"\A(?:{before.replace('.*', '.*?')})({inside})(?:{after})\Z", text, re.S)
    return None if match is None else match[1]


_T, _I = "VARCHAR", "INTEGER"

UDFS: Mapping[str, Udf] = {
    "tg_regexp_like": Udf((_T, _T, _T), "BOOLEAN", like),
    "tg_regexp_replace": Udf((_T, _T, _T, _T), _T, replace),
    "tg_regexp_match": Udf((_T, _T, _T), "VARCHAR[]", match_groups),
    "tg_regexp_matches": Udf((_T, _T, _T), "VARCHAR[][]", all_matches),
    "tg_regexp_split": Udf((_T, _T, _T), "VARCHAR[]", split),
    "tg_regexp_count": Udf((_T, _T, _I, _T), _I, count),
    "tg_regexp_instr": Udf((_T, _T, _I, _I, _I, _T, _I), _I, position),
    "tg_regexp_substr": Udf((_T, _T, _I, _I, _T, _I), _T, substr),
    "tg_regexp_substring": Udf((_T, _T), _T, substring),
    "tg_similar_substring": Udf((_T, _T, _T), _T, similar_substring),
    "tg_like_escape": Udf((_T, _T), _T, like_with_escape),
    "tg_similar_to_escape": Udf((_T, _T), _T, similar_to_regex),
}
