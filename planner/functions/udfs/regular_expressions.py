"""PostgreSQL's patterns as the engines' regular expressions.

`translate` turns an advanced regular expression into one that RE2 (local) or java.util.regex (Spark) reads the same
way; None when it cannot promise that. Differences handled: PostgreSQL's constraint escapes (``\\m \\M \\y \\Y \\A
\\Z``), class escapes, the embedded options at the start, newlines (``.`` and ``[^`` match them in PostgreSQL), and
``$``, which in PostgreSQL matches only at the very end.

`like_with_escape` and `similar_to_regex` rewrite LIKE with another escape character and SIMILAR TO.
"""

from __future__ import annotations

import re

from planner.dialects.engine_name import EngineName
from planner.errors import InvalidEscapeSequence, InvalidUseOfEscapeCharacter

_ESCAPES = {"y": r"\b", "Y": r"\B", "A": r"\A", "Z": r"\z"}
_SAME_ESCAPES = frozenset("dDsSwWntrf.*+?()[]{}|^$\\/-\"'#&~!@%=:;,<>`_ ")


def translate(pattern: str, engine: EngineName, *, ignore_case: bool = False, flags: str = "") -> str | None:
    """The pattern for `engine`, options included; None when it uses what that engine lacks or reads differently."""
    options = re.match(r"\(\?([a-z]+)\)", pattern)
    if options:
        flags += options[1]
        pattern = pattern[options.end() :]
    if pattern.startswith("***"):
        return None
    insensitive = ignore_case
    newline_sensitive = False
    for flag in flags:
        if flag == "i":
            insensitive = True
        elif flag == "c":
            insensitive = False
        elif flag in "nm":
            newline_sensitive = True
        elif flag in "gse":
            continue
        else:
            return None
    if newline_sensitive or re.search(r"\(\?[=!<]|[*+?}]\?|\\[1-9mM]|\{[\d,]*\d{3}", pattern):
        # Lookaround and back references are not in RE2; PostgreSQL mixes greedy and non-greedy in its own way, and
        # counts to 255.
        return None
    out: list[str] = []
    index = 0
    in_class = False
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            if index + 1 >= len(pattern):
                return None
            escape = pattern[index + 1]
            index += 2
            if not in_class and escape in _ESCAPES:
                out.append(_ESCAPES[escape])
            elif escape in _SAME_ESCAPES or ord(escape) > 127:
                if in_class and escape in "SDW":
                    return None
                out.append("\\" + escape)
            else:
                return None
            continue
        if in_class:
            if char == "[" and pattern[index + 1 : index + 2] in (":", ".", "="):
                end = pattern.find(pattern[index + 1] + "]", index + 2)
                if end < 0 or pattern[index + 1] != ":":
                    return None
                name = pattern[index + 2 : end]
                out.append(f"[:{name}:]" if engine == "local" else f"\\p{{{_JAVA_CLASSES.get(name, 'Alpha')}}}")
                index = end + 2
                continue
            if char == "]":
                in_class = False
            elif engine == "spark" and char in "[&":
                out.append("\\")
            out.append(char)
        elif char == "[":
            in_class = True
            out.append("[")
            index += 1
            if pattern[index : index + 1] == "^":
                out.append("^")
                index += 1
            if pattern[index : index + 1] == "]":
                out.append("\\]")
                index += 1
            continue
        elif char == "{" and not pattern[index + 1 : index + 2].isdigit():
            # No count follows: it is a character like others, which Java refuses.
            out.append("\\{")
        elif char == "$":
            out.append(r"\z")
        elif char == "^":
            out.append(r"\A")
        else:
            out.append(char)
        index += 1
    return f"(?{'i' if insensitive else ''}s)" + "".join(out)


_JAVA_CLASSES = {
    "alpha": "IsAlphabetic", "digit": "Digit", "alnum": "Alnum", "upper": "Lu", "lower": "Ll", "space": "Space",
    "punct": "Punct", "xdigit": "XDigit", "blank": "Blank", "cntrl": "Cntrl", "print": "Print", "graph": "Graph",
}  # fmt: skip


def like_with_escape(pattern: str, escape: str) -> str:
    r"""A LIKE pattern with another escape character, rewritten to the default one (``\``)."""
    if len(escape) > 1:
        raise InvalidEscapeSequence("invalid escape string", hint="Escape string must be empty or one character.")
    if escape == "\\":
        return pattern
    out: list[str] = []
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if escape and char == escape and index + 1 == len(pattern):
            # What compares finds it to be at fault.
            out.append("\\")
            break
        if escape and char == escape:
            out.append("\\" + pattern[index + 1])
            index += 2
            continue
        out.append("\\\\" if char == "\\" else char)
        index += 1
    return "".join(out)


def similar_to_regex(pattern: str, escape: str = "\\") -> str:
    """A SIMILAR TO pattern as the regular expression that PostgreSQL makes of it (similar_escape_internal)."""
    if len(escape) > 1:
        raise InvalidEscapeSequence("invalid escape string", hint="Escape string must be empty or one character.")
    out = ["^(?:"]
    in_class = False
    separators = 0
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if escape and char == escape and index + 1 == len(pattern):
            # An escape of nothing says nothing.
            break
        if escape and char == escape:
            if pattern[index + 1] == '"' and not in_class:
                # The part before the first prefers the shortest match, the one between and the one after the longest.
                if separators == 2:
                    raise InvalidUseOfEscapeCharacter(
                        "SQL regular expression may not contain more than two escape-double-quote separators"
                    )
                out.append("){1,1}?(" if separators == 0 else "){1,1}(?:")
                separators += 1
                index += 2
                continue
            out.append("\\" + pattern[index + 1])
            index += 2
            continue
        if in_class:
            if char == "\\":
                out.append("\\")
            out.append(char)
            in_class = char != "]"
        elif char == "[":
            out.append(char)
            in_class = True
        elif char == "%":
            out.append(".*")
        elif char == "_":
            out.append(".")
        elif char == "(":
            out.append("(?:")
        elif char in "\\.^$":
            out.append("\\" + char)
        else:
            out.append(char)
        index += 1
    return "".join(out) + ")$"
