"""Query strings of sessions in which `standard_conforming_strings` is off: backslashes are escapes in every string.

    conforming("SELECT 'a\\\\n'").text == "SELECT E'a\\\\n'"

What comes of one is read as any other is. Source of the rules: PostgreSQL's scan.l (the states xq, xe, xn and xus).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from planner.errors import FeatureNotSupported, SqlError

_LEXEME = re.compile(
    r"""
      (?P<skipped>--[^\n\r]* | "(?:[^"]++|"")*+"? )
    | (?P<comment>/\*)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z_0-9\x80-\U0010ffff]*)?\$)
    | (?P<prefix>[eEbBxXnN]|[uU]&)?(?P<quote>')
    | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z_0-9$\x80-\U0010ffff]*|[0-9][A-Za-z_0-9$.]*)
    """,
    re.VERBOSE,
)
_STRING = re.compile(r"(?:[^'\\]++|\\.|'')*+'?", re.DOTALL)
_PLAIN_STRING = re.compile(r"(?:[^']++|'')*+'?")
_CONTINUED = re.compile(r"(?:\s|--[^\n\r]*[\n\r])*[\n\r](?:\s|--[^\n\r]*[\n\r])*'")
_WORD_BEFORE = re.compile(r"[A-Za-z_0-9$\x80-\U0010ffff]")
_COMMENT_MARK = re.compile(r"/\*|\*/")

_WARNINGS = {
    "'": (r"nonstandard use of \' in a string literal",
          "Use '' to write quotes in strings, or use the escape string syntax (E'...')."),
    "\\": (r"nonstandard use of \\ in a string literal",
           r"Use the escape string syntax for backslashes, e.g., E'\\'."),
}  # fmt: skip
_OTHER_WARNING = (
    "nonstandard use of escape in a string literal",
    r"Use the escape string syntax for escapes, e.g., E'\r\n'.",
)


class EscapeWarning(Struct, frozen=True):
    """What `escape_string_warning` has said of a string."""

    message: str
    hint: str


class Conforming(Struct, frozen=True, kw_only=True):
    """A query string as one of a session in which strings conform to the standard. `fault` is why it has none."""

    text: str
    warnings: tuple[EscapeWarning, ...]
    moved: tuple[tuple[int, int], ...] = ()
    """From which place of `text` on how many characters more stand before than in what was sent."""
    fault: SqlError | None = None

    def pointed(self, error: SqlError) -> SqlError:
        """`error` of `text` as one of what was sent."""
        if error.position is not None:
            if any(place == error.position for place, _ in self.moved):
                error.message = error.message.replace("\"E'", "\"'", 1)
            before = [more for place, more in self.moved if place < error.position]
            error.position -= before[-1] if before else 0
        return error


def conforming(given: str) -> Conforming:
    """The query string `given`, with backslashes as escapes, as one in which they are so only where strings say it."""
    pieces: list[str] = []
    warnings: list[EscapeWarning] = []
    moved: list[tuple[int, int]] = []
    done = length = more = 0
    for start, end, prefix in _strings(given):
        if prefix.lower() == "u&":
            fault = FeatureNotSupported(
                "unsafe use of string constant with Unicode escapes",
                detail="String constants with Unicode escapes cannot be used when standard_conforming_strings is off.",
                position=start + 1,
            )
            return Conforming(text=given, warnings=tuple(warnings), fault=fault)
        escape = given.find("\\", start, end)
        if escape < 0:
            continue
        warnings.append(EscapeWarning(*_WARNINGS.get(given[escape + 1 : escape + 2], _OTHER_WARNING)))
        opening = "pg_catalog.bpchar E" if prefix else "E"
        if _WORD_BEFORE.match(given, start - 1):
            opening = " " + opening
        pieces += given[done:start], opening
        length += start - done + len(opening)
        more += len(opening) - len(prefix)
        moved.append((length, more))
        done = start + len(prefix)
    return Conforming(text="".join([*pieces, given[done:]]), warnings=tuple(warnings), moved=tuple(moved))


def _strings(given: str) -> Iterator[tuple[int, int, str]]:
    """Where the strings that are not escape strings or bit strings anyway begin and end, continued ones as one, with
    what stands before the quote."""
    place = 0
    while (found := _LEXEME.search(given, place)) is not None:
        place = found.end()
        if found["comment"]:
            place = _after_comment(given, place)
        elif found["dollar"]:
            end = given.find(found[0], place)
            place = len(given) if end < 0 else end + len(found[0])
        elif found["quote"]:
            prefix = found["prefix"] or ""
            body = _PLAIN_STRING if prefix.lower() in ("b", "x", "u&") else _STRING
            place = _end_of_string(given, place, body)
            if prefix.lower() in ("", "n", "u&"):
                yield found.start(), place, prefix


def _end_of_string(given: str, place: int, body: re.Pattern[str]) -> int:
    while True:
        string = body.match(given, place)
        assert string is not None
        continued = _CONTINUED.match(given, string.end())
        if continued is None:
            return string.end()
        place = continued.end()


def _after_comment(given: str, place: int) -> int:
    """The end of a comment, in which others may be."""
    depth = 1
    while depth:
        mark = _COMMENT_MARK.search(given, place)
        if mark is None:
            return len(given)
        depth += 1 if mark[0] == "/*" else -1
        place = mark.end()
    return place
