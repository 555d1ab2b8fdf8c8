"""Functions on money, held as the text that its output function prints."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, localcontext

from planner.errors import DivisionByZero, FeatureNotSupported, NumericValueOutOfRange
from planner.functions.udfs.table import Udf
from planner.values.opaque.money_text import cents_of, checked_cents, parse_money, show_money

_SMALL = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
)  # fmt: skip
_TENS = ("zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_GROUPS = ("", " thousand", " million", " billion", " trillion", " quadrillion")


def of_numeric(text: str) -> str:
    """The cast of a numeric, rounded. Raises 0A000, 22003."""
    number = Decimal(text)
    if not number.is_finite():
        raise FeatureNotSupported(f"cannot convert {'NaN' if number.is_nan() else 'infinity'} to bigint")
    with localcontext(prec=200):
        return show_money(checked_cents(int((number * 100).quantize(Decimal(1), ROUND_HALF_UP)), "bigint"))


def times(text: str, factor: float) -> str:
    """money * double precision. Raises 22003."""
    return show_money(_rounded(cents_of(text) * factor))


def over(text: str, divisor: float) -> str:
    """money / double precision. Raises 22003, 22012."""
    if divisor == 0:
        raise DivisionByZero("division by zero")
    return show_money(_rounded(cents_of(text) / divisor))


def _rounded(cents: float) -> int:
    if cents != cents or abs(cents) >= 2**63:
        raise NumericValueOutOfRange("money out of range")
    return round(cents)


def words(text: str) -> str:
    """cash_words(money)."""
    cents = cents_of(text)
    whole, fraction = divmod(abs(cents), 100)
    groups: list[str] = []
    for number, name in enumerate(_GROUPS):
        group = whole // 1000**number % 1000
        if group:
            groups.insert(0, f"{_hundreds(group)}{name}")
    said = " ".join(groups) or "zero"
    said += f" dollar{'' if whole == 1 else 's'} and {_hundreds(fraction)} cent{'' if fraction == 1 else 's'}"
    said = f"minus {said}" if cents < 0 else said
    return said[0].upper() + said[1:]


def _hundreds(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    parts = [f"{_SMALL[hundreds]} hundred"] if hundreds else []
    if rest % 10 == 0 and rest >= 20:
        parts.append(_TENS[rest // 10])
    elif rest > 20:
        parts.append(f"{_TENS[rest // 10]} {_SMALL[rest % 10]}")
    elif rest or not parts:
        parts.append(_SMALL[rest])
    return " ".join(parts)


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_money_in": Udf((_T,), _T, parse_money),
    "tg_money_of_integer": Udf(("DECIMAL(38,0)",), _T, lambda cents: show_money(checked_cents(int(cents), "bigint"))),
    "tg_money_show": Udf(("DECIMAL(38,0)",), _T, lambda cents: show_money(checked_cents(int(cents)))),
    "tg_money_of_numeric": Udf((_T,), _T, of_numeric),
    "tg_money_times": Udf((_T, "DOUBLE"), _T, times),
    "tg_money_over": Udf((_T, "DOUBLE"), _T, over),
    "tg_money_words": Udf((_T,), _T, words),
}
