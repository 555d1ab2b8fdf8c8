"""to_number (PostgreSQL, section 9.8): formatting.c's numeric_to_number and NUM_numpart_from_char."""

from __future__ import annotations

from decimal import Context, Decimal

from planner.errors import FeatureNotSupported, InvalidTextRepresentation, NumericValueOutOfRange
from planner.functions.udfs.templates.number_patterns import NumberPattern, number_pattern

_DATA = frozenset("0123456789.,+-")
_WIDE = Context(prec=150_000)
_MIN_DIGITS = 16
"""PostgreSQL's NUMERIC_MIN_SIG_DIGITS."""


def to_number(text: str, pattern: str) -> str | None:
    """to_number(text, pattern); NULL for an empty pattern. Raises 42601, 0A000, 22P02, 22003."""
    read = number_pattern(pattern)
    if not pattern:
        return None
    if read.is_scientific:
        raise FeatureNotSupported('"EEEE" not supported for input')
    if read.is_roman:
        raise FeatureNotSupported('"RN" not supported for input')
    reader = _Reader(read, text)
    digits = reader.digits()
    if not digits.strip("."):
        raise InvalidTextRepresentation(f'invalid input syntax for type numeric: "{reader.sign}{digits}"')
    number = Decimal(digits)
    if number.adjusted() >= read.pre + read.multi and number:
        precision, scale = read.pre + read.multi + reader.behind, reader.behind
        raise NumericValueOutOfRange(
            "numeric field overflow",
            detail=f"A field with precision {precision}, scale {scale} must round to an absolute value less than "
            f"10^{precision - scale}.",
        )
    if reader.sign == "-" and number:
        number = number.copy_negate()
    if read.is_multi:
        # The product with 10 ^ -n, which has that many digits.
        scale = max(_MIN_DIGITS, read.multi)
        number = number.scaleb(-read.multi, context=_WIDE)
        return f"{number.quantize(Decimal(1).scaleb(-scale - reader.behind), context=_WIDE):f}"
    return f"{number:f}"


class _Reader:
    """NUM_processor, of an input."""

    def __init__(self, pattern: NumberPattern, text: str) -> None:
        self._pattern, self._text = pattern, text
        self._at = 0
        self._digits: list[str] = []
        self.sign = " "
        self._before = 0
        self.behind = 0
        """How many digits stand behind the point."""
        self._has_point = False

    def digits(self) -> str:
        """The digits and the point that the template takes out of the input."""
        for item in self._pattern.items:
            if self._is_over():
                break
            if self._read(item):
                self._at += 1
        return "".join(self._digits).rstrip(".") if self._digits[-1:] == ["."] else "".join(self._digits)

    def _is_over(self) -> bool:
        return self._at >= len(self._text)

    @property
    def _char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _read(self, item: str) -> bool:
        """Read what `item` stands for; whether it goes on behind the character that it is at."""
        match item:
            case "9" | "0" | "." | "D":
                self._part(item)
                return True
            case "," | "G":
                return not self._pattern.is_filled and self._char == ","
            case "L":
                self._skip(1)
                return False
            case "TH" | "th":
                if not self._pattern.is_decimal:
                    self._skip(2)
                return False
            case "MI" | "PL" | "SG":
                if self._char and self._char in {"MI": "-", "PL": "+", "SG": "+-"}[item]:
                    self.sign = self._char
                    return True
                self._skip(1)
                return False
            case _:
                return item.startswith('"')

    def _skip(self, count: int) -> None:
        """Pass over what is no part of a number."""
        for _ in range(count):
            if self._is_over() or self._char in _DATA:
                return
            self._at += 1

    def _part(self, item: str) -> None:
        pattern = self._pattern
        if self._char == " ":
            self._at += 1
        if self._is_over():
            return
        if self.sign == " " and item in "09" and not self._before + self.behind:
            self._read_sign_before()
        if self._is_over():
            return
        is_read = False
        if self._char.isascii() and self._char.isdigit():
            if self._has_point and self.behind == pattern.post:
                return
            self._digits.append(self._char)
            if self._has_point:
                self.behind += 1
            else:
                self._before += 1
            is_read = True
        elif pattern.is_decimal and not self._has_point and self._char == ".":
            self._digits.append(".")
            self._has_point = is_read = True
        if self.sign == " " and self._before + self.behind:
            self._read_sign_behind(is_read)

    def _read_sign_before(self) -> None:
        pattern, char = self._pattern, self._char
        if pattern.has_sign and pattern.sign_place == "pre":
            if char in "+-":
                self.sign = char
                self._at += 1
        elif char == "-" or (pattern.is_bracket and char == "<"):
            self.sign = "-"
            self._at += 1
        elif char == "+":
            self.sign = "+"
            self._at += 1

    def _read_sign_behind(self, is_read: bool) -> None:
        pattern, following = self._pattern, self._text[self._at + 1 : self._at + 2]
        if pattern.has_sign and is_read and following and not (following.isascii() and following.isdigit()):
            if following in "+-":
                self.sign = following
                self._at += 1
        elif not is_read and not pattern.has_sign and (pattern.has_plus or pattern.has_minus) and self._char in "+-":
            self.sign = self._char
