"""to_char of numbers (PostgreSQL, section 9.8): formatting.c's numeric_to_char and its like, and NUM_processor.

What a template says of a number is in the number's text by then: its digits with a point, or `#` where they do not fit.
"""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_UP, Context, Decimal

from planner.errors import FeatureNotSupported, InvalidTextRepresentation, NumericValueOutOfRange
from planner.functions.udfs.templates.number_patterns import NumberPattern, number_pattern
from planner.functions.udfs.templates.template_patterns import ordinal

_WIDE = Context(prec=150_000)
_FLOAT_DIGITS = {"float4": 6, "float8": 15}
"""C's FLT_DIG and DBL_DIG."""
_ROMAN_WIDTH = 15
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}


def to_char_number(text: str | None, pattern: str, kind: str) -> str | None:
    """to_char(number, pattern). `text` is the number, of the type `kind`: int4, int8, numeric, float4 or float8. Raises
    42601, 22003, 22P02, 0A000."""
    read = number_pattern(pattern)
    if text is None:
        return None
    if not pattern:
        return ""
    if read.is_roman:
        return _Writer(read, _roman(text, kind), "\0", 0).written()
    if read.is_scientific:
        return _Writer(read, _scientific(text, kind, read), "", 0).written()
    number, sign = _plain(text, kind, read)
    before = len(number.partition(".")[0])
    if before > read.pre:
        number = "#" * read.pre + "." + "#" * read.post
    return _Writer(read, number, sign, max(read.pre - before, 0)).written()


def _plain(text: str, kind: str, read: NumberPattern) -> tuple[str, str]:
    """The number's digits with as many behind the point as the template has, and its sign. What a float does not have
    is taken out of `read`; what is behind V becomes part of what is before the point."""
    name = _NOT_FINITE.get(text.lower().lstrip("-"))
    read.pre += read.multi
    if kind in _FLOAT_DIGITS:
        value = _float(text, kind)
        if read.is_multi:
            value = _float(repr(value * 10.0**read.multi), kind)
        before = len(name or f"{abs(value):.0f}")
        most = _FLOAT_DIGITS[kind]
        read.post = 0 if before >= most else min(read.post, most - before)
        shown = f"{value:.{read.post}f}" if name is None else text[: text.startswith("-")] + name
    elif name is not None:
        shown = text[: text.startswith("-")] + name
    else:
        exact = Decimal(text).scaleb(read.multi, context=_WIDE)
        if kind == "int4" and read.multi:
            # PostgreSQL multiplies in 32 bits, whatever becomes of it.
            exact = Decimal((int(exact) + (1 << 31)) % (1 << 32) - (1 << 31))
        shown = f"{exact.quantize(Decimal(1).scaleb(-read.post), rounding=ROUND_HALF_UP, context=_WIDE):f}"
        if not shown.strip("-0."):
            shown = shown.lstrip("-")
    return (shown[1:], "-") if shown.startswith("-") else (shown, "+")


def _float(text: str, kind: str) -> float:
    value = float(text)
    if kind == "float8":
        return value
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("-inf") if value < 0 else float("inf")
    return found


_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
    (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


def _roman(text: str, kind: str) -> str:
    name = _NOT_FINITE.get(text.lower().lstrip("-"))
    if kind in _FLOAT_DIGITS:
        value = -1 if name is not None else round(float(text))
    elif name is not None:
        raise FeatureNotSupported(f"cannot convert {'NaN' if name == 'NaN' else 'infinity'} to integer")
    else:
        value = int(Decimal(text).quantize(Decimal(1), rounding=ROUND_HALF_UP, context=_WIDE))
        if not -(1 << 31) <= value < 1 << 31:
            raise NumericValueOutOfRange("integer out of range")
    if not 0 < value < 4000:
        return "#" * _ROMAN_WIDTH
    out = ""
    for size, letters in _ROMAN:
        while value >= size:
            out += letters
            value -= size
    return out


def _scientific(text: str, kind: str, read: NumberPattern) -> str:
    if text.lower().lstrip("-") in _NOT_FINITE:
        return " " + "#" * read.pre + "." + "#" * (read.post + 4)
    if kind in ("float4", "float8", "int4"):
        shown = f"{_float(text, kind if kind != 'int4' else 'float8'):+.{read.post}e}"
        return " " + shown[1:] if shown.startswith("+") else shown
    value = Decimal(text)
    exponent = value.adjusted() if value else 0
    significand = value.scaleb(-exponent, context=_WIDE).quantize(
        Decimal(1).scaleb(-read.post), rounding=ROUND_HALF_UP, context=_WIDE
    )
    shown = f"{significand:f}e{exponent:+03d}"
    return shown if shown.startswith("-") else " " + shown


class _Writer:
    """NUM_processor, of a number's text: `spaces` more digits could stand before it."""

    def __init__(self, pattern: NumberPattern, number: str, sign: str, spaces: int) -> None:
        self._pattern, self._number, self._sign = pattern, number, sign
        self._out: list[str] = []
        self._at = 0
        """Where in the number it is."""
        self._count = 0
        """How many digits, and the point, the template has had."""
        self._in_number = False
        self._spaces = spaces
        self._zero_start = max(pattern.zero_start - 1, 0)
        self._last_relevant = -1
        """The place of what is shown last behind the point with FM; -1: there is no such thing."""
        if pattern.is_roman:
            self._pattern = pattern = NumberPattern(items=pattern.items, is_roman=True, is_filled=pattern.is_filled)
        if pattern.has_plus or pattern.has_minus:
            self._sign_written = pattern.has_minus
        else:
            if sign != "-" and pattern.is_filled:
                pattern.is_bracket = False
            self._sign_written = sign == "+" and pattern.is_filled and not pattern.has_sign
            if pattern.sign_place == "pre" and pattern.pre == pattern.pre_sign:
                pattern.sign_place = "post"
        self._end = pattern.post + pattern.pre - 1
        if pattern.is_filled and pattern.is_decimal and "." in number:
            point = number.index(".")
            self._last_relevant = max(point, len(number.rstrip("0")) - 1)
            if pattern.zero_end > spaces:
                self._last_relevant = max(self._last_relevant, min(len(number) - 1, pattern.zero_end - spaces))
        if not self._sign_written and not spaces:
            self._end += 1

    def written(self) -> str:
        """The number by its template. Raises 22P02."""
        if self._pattern.is_scientific:
            return self._number
        for item in self._pattern.items:
            self._write(item)
        # PostgreSQL writes the end of the number's text where a template goes beyond it.
        return "".join(self._out).partition("\0")[0]

    def _write(self, item: str) -> None:
        out, sign, is_filled = self._out, self._sign, self._pattern.is_filled
        match item:
            case "9" | "0" | "." | "D":
                if not self._pattern.is_roman:
                    self._part(item)
            case "," | "G":
                if self._in_number:
                    out.append(",")
                elif not is_filled:
                    out.append(" ")
            case "L":
                out.append(" ")
            case "RN" | "rn":
                letters = self._number if item == "RN" else self._number.lower()
                out.append(letters if is_filled else letters.rjust(_ROMAN_WIDTH))
            case "TH" | "th":
                self._write_ordinal(item)
            case "MI":
                out.append("-" if sign == "-" else "" if is_filled else " ")
            case "PL":
                out.append("+" if sign == "+" else "" if is_filled else " ")
            case "SG":
                out.append(sign)
            case _ if item.startswith('"'):
                out.append(item[1:])

    def _write_ordinal(self, item: str) -> None:
        pattern, number = self._pattern, self._number
        if pattern.is_roman or number.startswith("#") or self._sign == "-" or pattern.is_decimal:
            return
        if not number[-1:].isdigit():
            raise InvalidTextRepresentation(f'"{number}" is not a number')
        self._out.append(ordinal(number, item)[len(number) :])

    def _part(self, item: str) -> None:
        """A digit, or the point."""
        pattern, out = self._pattern, self._out
        self._in_number = False
        ends_at_point = self._last_relevant >= 0 and self._number[self._last_relevant] == "."
        begins = self._count >= self._spaces or (pattern.has_zero and self._zero_start == self._count)
        if not self._sign_written and begins and (not self._is_leading_zero or ends_at_point):
            self._write_sign()
        if self._count < self._spaces:
            if pattern.has_zero and self._zero_start <= self._count:
                out.append("0")
                self._in_number = True
            elif not pattern.is_filled:
                out.append(" ")
        else:
            self._write_digit(item, ends_at_point)
            self._at += self._at < len(self._number)
        end = self._end + (self._spaces > 0) + pattern.is_decimal
        if self._last_relevant >= 0 and self._last_relevant == self._at:
            end = self._count
        if self._count + 1 == end:
            if self._sign_written and pattern.is_bracket:
                out.append(" " if self._sign == "+" else ">")
            elif pattern.has_sign and pattern.sign_place == "post":
                out.append("-" if self._sign == "-" else "+")
        self._count += 1

    @property
    def _is_leading_zero(self) -> bool:
        """Whether it is at a zero before the point, which is not shown: 9.9 makes .1 of 0.1."""
        return not self._pattern.has_zero and self._at == 0 and self._number.startswith("0") and self._pattern.post != 0

    def _write_sign(self) -> None:
        pattern, sign = self._pattern, self._sign
        if pattern.has_sign:
            if pattern.sign_place == "pre":
                self._out.append("-" if sign == "-" else "+")
                self._sign_written = True
            return
        if pattern.is_bracket:
            self._out.append(" " if sign == "+" else "<")
        elif sign == "-":
            self._out.append("-")
        elif not pattern.is_filled:
            self._out.append(" ")
        self._sign_written = True

    def _write_digit(self, item: str, ends_at_point: bool) -> None:
        char = self._number[self._at] if self._at < len(self._number) else "\0"
        if char == ".":
            self._out.append(".")
        elif 0 <= self._last_relevant < self._at and item != "0":
            pass
        elif self._is_leading_zero:
            if not self._pattern.is_filled:
                self._out.append(" ")
            elif ends_at_point:
                self._out.append("0")
        else:
            self._out.append(char)
            self._in_number = True
