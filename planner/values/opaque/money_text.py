"""money: values read from text and printed as PostgreSQL 15 does (cash.c) with lc_monetary C.

A value is held as the text that its output function prints: ``-$1,234.50``.
"""

from __future__ import annotations

from planner.errors import InvalidTextRepresentation, NumericValueOutOfRange

_LEAST, _MOST = -(2**63), 2**63 - 1
_SPACES = " \t\n\v\f\r"
_CENTS = 2
"""Digits of the fraction."""


def show_money(cents: int) -> str:
    """What cash_out prints."""
    whole, fraction = divmod(abs(cents), 10**_CENTS)
    return f"{'-' if cents < 0 else ''}${whole:,}.{fraction:02d}"


def cents_of(text: str) -> int:
    """The number of hundredths that a value stands for."""
    return int(text.translate({ord("$"): None, ord(","): None, ord("."): None}))


def checked_cents(cents: int, what: str = "money") -> int:
    """`cents`, if a money can hold them. Raises 22003, of `what`."""
    if not _LEAST <= cents <= _MOST:
        raise NumericValueOutOfRange(f"{what} out of range")
    return cents


def parse_money(text: str) -> str:
    """cash_in: a sign or parentheses, a dollar sign, digits with commas, and a fraction that is rounded.

    Raises 22P02, 22003.
    """
    invalid = InvalidTextRepresentation(f'invalid input syntax for type money: "{text}"')
    at, negative = 0, False

    def skip(characters: str) -> None:
        nonlocal at
        while at < len(text) and text[at] in characters:
            at += 1

    skip(_SPACES)
    if text.startswith("$", at):
        at += 1
    skip(_SPACES)
    if at < len(text) and text[at] in "-(+":
        negative = text[at] != "+"
        at += 1
    skip(_SPACES)
    if text.startswith("$", at):
        at += 1
    skip(_SPACES)
    digits, fraction = "", None
    while at < len(text):
        character = text[at]
        if character.isascii() and character.isdigit() and (fraction is None or len(fraction) < _CENTS):
            if fraction is None:
                digits += character
            else:
                fraction += character
        elif character == "." and fraction is None:
            fraction = ""
        elif character != ",":
            break
        at += 1
    cents = int((digits + (fraction or "").ljust(_CENTS, "0")) or "0")
    if at < len(text) and text[at].isascii() and text[at].isdigit():
        # The first digit that is left out rounds.
        cents += text[at] >= "5"
        while at < len(text) and text[at].isascii() and text[at].isdigit():
            at += 1
    while at < len(text):
        if text[at] in ")-":
            negative = True
        elif text[at] not in _SPACES and text[at] not in "+$":
            raise invalid
        at += 1
    cents = -cents if negative else cents
    if not _LEAST <= cents <= _MOST:
        raise NumericValueOutOfRange(f'value "{text}" is out of range for type money')
    return show_money(cents)
