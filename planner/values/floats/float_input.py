"""How float4 and float8 are read: what C's strtod takes, by the rules of PostgreSQL's float8in_internal."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from planner.errors import InvalidTextRepresentation, NumericValueOutOfRange
from planner.values.floats.float_text import nearest_single

DECIMAL = r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
HEXADECIMAL = r"0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)([pP][+-]?\d+)?"
NAN = r"[nN][aA][nN](\([0-9a-zA-Z_]*\))?"
INFINITE = r"[iI][nN][fF]([iI][nN][iI][tT][yY])?"

_SPACE = " \t\n\r\v\f"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<hex>{HEXADECIMAL})|(?P<decimal>{DECIMAL})|(?P<nan>{NAN})|(?P<infinite>{INFINITE}))",
    re.ASCII,
)


def read_float(text: str, *, single: bool) -> float:
    """The float that a text stands for. Raises 22P02, 22003."""
    name = "real" if single else "double precision"
    body = text.strip(_SPACE)
    match = _NUMBER.match(body)
    if match is None:
        raise InvalidTextRepresentation(f'invalid input syntax for type {name}: "{text}"')
    value = _value(match, single=single)
    if value is None:
        raise NumericValueOutOfRange(f'"{match[0]}" is out of range for type {name}')
    # What is out of range is so whatever follows the number.
    if match.end() < len(body):
        raise InvalidTextRepresentation(f'invalid input syntax for type {name}: "{text}"')
    return value


def _value(match: re.Match[str], *, single: bool) -> float | None:
    """None where it is out of range."""
    if match["nan"]:
        return math.nan
    negative = match["sign"] == "-"
    if match["infinite"]:
        return -math.inf if negative else math.inf
    digits = match["hex"] or match["decimal"]
    try:
        value = float.fromhex(digits) if match["hex"] else float(digits)
    except OverflowError:
        return None
    if single and value and math.isfinite(value):
        value = nearest_single(value, _exact_hexadecimal(digits) if match["hex"] else Decimal(digits))
    mantissa = re.split("[pP]", digits[2:])[0] if match["hex"] else re.split("[eE]", digits)[0]
    if math.isinf(value) or (value == 0 and mantissa.strip("0.")):
        return None
    return -value if negative else value


def _exact_hexadecimal(digits: str) -> Fraction:
    mantissa, _, exponent = digits[2:].lower().partition("p")
    whole, _, fraction = mantissa.partition(".")
    # NOTE: a float has been made of it, so a long exponent has zeros before it.
    shift = int(re.sub(r"^([+-]?)0+(?=\d)", r"\1", exponent) or 0)
    return int(whole + fraction, 16) * Fraction(2) ** (shift - 4 * len(fraction))
