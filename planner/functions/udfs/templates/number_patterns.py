"""Templates of numbers, and how they are read: PostgreSQL 15's formatting.c (parse_format, NUMDesc_prepare)."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from planner.errors import SqlSyntaxError

_WORDS = (",", ".", "0", "9", "B", "C", "D", "EEEE", "FM", "G", "L", "MI", "PL", "PR", "RN", "SG", "SP", "S", "TH", "V")
_LOWER = {"th", "rn"}
"""What means something else in small letters."""


class NumberPattern(Struct):
    """A template: `items` are its patterns, or single characters behind a quote that stand for themselves. `pre` and
    `post` are how many digits stand before and behind the point, `multi` those behind V."""

    items: list[str]
    pre: int = 0
    post: int = 0
    multi: int = 0
    zero_start: int = 0
    """The number of the first digit that is 0, from 1 on."""
    zero_end: int = 0
    """The number of the last one."""
    sign_place: str = ""
    """Where S stands: "pre", "post", or nowhere."""
    pre_sign: int = 0
    """How many digits stand before S."""
    is_decimal: bool = False
    has_zero: bool = False
    is_filled: bool = False
    """FM."""
    has_sign: bool = False
    is_bracket: bool = False
    has_minus: bool = False
    has_plus: bool = False
    is_roman: bool = False
    is_multi: bool = False
    is_scientific: bool = False
    is_blank: bool = False


def number_pattern(text: str) -> NumberPattern:
    """A template as it is read, for the caller to change. Raises 42601."""
    found = _read(text)
    return NumberPattern(**{name: getattr(found, name) for name in NumberPattern.__struct_fields__})


@lru_cache(maxsize=200)
def _read(text: str) -> NumberPattern:
    pattern = NumberPattern(items=[])
    position = 0
    while position < len(text):
        word = _word(text, position)
        if word:
            position += len(word)
            pattern.items.append(word if word in _LOWER else word.upper())
            _note(pattern, word.upper())
        elif text[position] == '"':
            position += 1
            while position < len(text) and text[position] != '"':
                if text[position] == "\\" and position + 1 < len(text):
                    position += 1
                pattern.items.append('"' + text[position])
                position += 1
            position += 1
        else:
            if text.startswith('\\"', position):
                position += 1
            pattern.items.append('"' + text[position])
            position += 1
    return pattern


def _word(text: str, position: int) -> str:
    """The pattern that stands there; "" for none. Its letters are all large ones, or all small ones."""
    for word in _WORDS:
        for form in (word, word.lower()):
            if text.startswith(form, position):
                return form
    return ""


def _note(pattern: NumberPattern, word: str) -> None:
    """Take in what a pattern says of the number."""
    if pattern.is_scientific and word != "EEEE":
        raise SqlSyntaxError('"EEEE" must be the last pattern used')
    match word:
        case "9" | "0":
            _note_digit(pattern, word)
        case "B":
            pattern.is_blank = pattern.is_blank or not (pattern.pre or pattern.post or pattern.has_zero)
        case "." | "D":
            if pattern.is_decimal:
                raise SqlSyntaxError("multiple decimal points")
            if pattern.is_multi:
                raise SqlSyntaxError('cannot use "V" and decimal point together')
            pattern.is_decimal = True
        case "FM":
            pattern.is_filled = True
        case "S" | "MI" | "PL" | "SG" | "PR":
            _note_sign(pattern, word)
        case "RN":
            pattern.is_roman = True
        case "V":
            if pattern.is_decimal:
                raise SqlSyntaxError('cannot use "V" and decimal point together')
            pattern.is_multi = True
        case "EEEE":
            if pattern.is_scientific:
                raise SqlSyntaxError('cannot use "EEEE" twice')
            signed = pattern.has_sign or pattern.is_bracket or pattern.has_minus or pattern.has_plus
            if signed or pattern.is_blank or pattern.is_filled or pattern.is_roman or pattern.is_multi:
                raise SqlSyntaxError(
                    '"EEEE" is incompatible with other formats',
                    detail='"EEEE" may only be used together with digit and decimal point patterns.',
                )
            pattern.is_scientific = True


def _note_digit(pattern: NumberPattern, word: str) -> None:
    if pattern.is_bracket:
        raise SqlSyntaxError(f'"{word}" must be ahead of "PR"')
    if word == "9" and pattern.is_multi:
        pattern.multi += 1
        return
    if word == "0" and not pattern.has_zero and not pattern.is_decimal:
        pattern.has_zero = True
        pattern.zero_start = pattern.pre + 1
    if pattern.is_decimal:
        pattern.post += 1
    else:
        pattern.pre += 1
    if word == "0":
        pattern.zero_end = pattern.pre + pattern.post


def _note_sign(pattern: NumberPattern, word: str) -> None:
    others = pattern.has_plus or pattern.has_minus
    if word == "S":
        if pattern.has_sign:
            raise SqlSyntaxError('cannot use "S" twice')
        if others or pattern.is_bracket:
            raise SqlSyntaxError('cannot use "S" and "PL"/"MI"/"SG"/"PR" together')
        pattern.has_sign = True
        pattern.sign_place = "post" if pattern.is_decimal else "pre"
        pattern.pre_sign = 0 if pattern.is_decimal else pattern.pre
        return
    if word == "PR":
        if pattern.has_sign or others:
            raise SqlSyntaxError('cannot use "PR" and "S"/"PL"/"MI"/"SG" together')
        pattern.is_bracket = True
        return
    if pattern.has_sign:
        raise SqlSyntaxError(f'cannot use "S" and "{word}" together')
    pattern.has_minus = pattern.has_minus or word in ("MI", "SG")
    pattern.has_plus = pattern.has_plus or word in ("PL", "SG")
