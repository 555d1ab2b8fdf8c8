"""fuzzystrmatch: distances and sounds of words (PostgreSQL 15, appendix F.16)."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import InvalidParameterValue
from planner.functions.udfs.table import Udf

MAX_LEVENSHTEIN = 255
"""Characters that levenshtein() compares at most."""


def levenshtein(source: str, target: str, insert: int, delete: int, replace: int) -> int:
    """levenshtein() with its costs; 22023 for texts that are too long."""
    if max(len(source), len(target)) > MAX_LEVENSHTEIN:
        raise InvalidParameterValue(f"levenshtein argument exceeds maximum length of {MAX_LEVENSHTEIN} characters")
    row = [number * delete for number in range(len(source) + 1)]
    for place, wanted in enumerate(target, 1):
        before, row = row, [place * insert]
        for number, character in enumerate(source, 1):
            kept = before[number - 1] + (0 if character == wanted else replace)
            row.append(min(before[number] + insert, row[number - 1] + delete, kept))
    return row[-1]


_CODES = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230120022455012623010202", strict=True))


def soundex(text: str) -> str:
    """soundex(): a letter and three digits; nothing for a text without letters."""
    # PostgreSQL compares neighbours as they stand in the text, letters or not.
    upper = text.upper()
    start = next((at for at, letter in enumerate(upper) if letter in _CODES), None)
    if start is None:
        return ""
    found = before = upper[start]
    for letter in upper[start + 1 :]:
        if len(found) == 4:
            break
        code = _CODES.get(letter, "0")
        if code not in ("0", _CODES.get(before)):
            found += code
        before = letter
    return found.ljust(4, "0")


_T, _I = "VARCHAR", "INTEGER"

UDFS: Mapping[str, Udf] = {
    "tg_levenshtein": Udf((_T, _T, _I, _I, _I), _I, levenshtein),
    "tg_soundex": Udf((_T,), _T, soundex),
}
