"""to_char of numbers, and to_number (PostgreSQL, section 9.8)."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

from planner.errors import InvalidTextRepresentation
from planner.functions.udfs.templates.template_patterns import ordinal

_WIDE = Context(prec=200)


def to_char_number(text: str | None, pattern: str, kind: str) -> str | None:
    """to_char(number, pattern). `text` is the number; `kind` tells floats, whose infinities show as #."""
    fill = False
    upper = pattern.upper()
    if "EEEE" in upper:
        return _scientific(text, upper)
    body, marks, index = [], set(), 0
    while index < len(pattern):
        two = upper[index : index + 2]
        if two == "FM":
            fill = True
            index += 2
        elif two in ("MI", "PL", "SG", "PR", "TH", "RN"):
            body.append(two if two != "TH" else pattern[index : index + 2])
            marks.add(two)
            index += 2
        elif pattern[index] == '"':
            end = pattern.find('"', index + 1)
            end = len(pattern) if end < 0 else end
            body.append('"' + pattern[index + 1 : end])
            index = end + 1
        elif upper[index] == "B":
            index += 1  # It is read, and says nothing.
        else:
            body.append(upper[index] if upper[index] in "09.,DGSLV" else '"' + pattern[index])
            index += 1
    if text is None:
        return None
    number = Decimal(text) if text.lower().lstrip("-") not in ("nan", "inf", "infinity") else None
    if "RN" in marks:
        return _roman(number, fill)
    return _number_body(
        number, body, fill, signed_zero=kind != "numeric", below=text.startswith("-"), nan=text.lower() == "nan"
    )


def _roman(number: Decimal | None, fill: bool) -> str:
    value = -1 if number is None else int(number.quantize(Decimal(1), rounding=ROUND_HALF_UP))
    if not 0 < value < 4000:
        return "#" * 15
    out = ""
    for size, letters in (
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ):
        while value >= size:
            out += letters
            value -= size
    return out if fill else out.rjust(15)


def _number_body(
    number: Decimal | None, body: list[str], fill: bool, *, signed_zero: bool, below: bool, nan: bool
) -> str:
    """`below`: the number's text has a sign, also where it is no finite one (`nan`, or infinite). `signed_zero`: a
    float's, which stays when nothing but zeros is left of it."""
    point = next((place for place, item in enumerate(body) if item in (".", "D")), len(body))
    shift = next((place for place, item in enumerate(body) if item == "V"), None)
    digits_before = sum(1 for item in body[:point] if item in ("0", "9"))
    digits_after = sum(1 for item in body[point:] if item in ("0", "9"))
    if shift is not None:
        multiplied = sum(1 for item in body[shift:] if item in ("0", "9"))
        number = None if number is None else number.scaleb(multiplied, context=_WIDE)
    rounded = (
        None
        if number is None
        else number.quantize(Decimal(1).scaleb(-digits_after), rounding=ROUND_HALF_UP, context=_WIDE)
    )
    negative = below if rounded is None else rounded < 0 or (signed_zero and below and rounded.is_signed())
    whole, _, fraction = ("" if rounded is None else f"{abs(rounded):f}").partition(".")
    if whole.strip("0") == "":
        whole = ""
    is_nan = rounded is None and nan
    if is_nan:
        whole = "NaN"
    # Even a zero takes a place before the point.
    crowded = len(whole) > digits_before or (not digits_before and digits_after > 0)
    overflow = crowded or (rounded is None and not is_nan)
    first_zero = next(
        (index for index, item in enumerate(i for i in body[:point] if i in ("0", "9")) if item == "0"), None
    )
    whole = whole.rjust(digits_before)
    signed = any(item in ("S", "MI", "SG", "PR") for item in body)
    last_fraction = len(fraction)
    if fill:
        zeros_kept = 0
        seen = 0
        for item in body[point:]:
            if item in ("0", "9"):
                seen += 1
                if item == "0":
                    zeros_kept = seen
        last_fraction = max(len(fraction.rstrip("0")), zeros_kept)
    out: list[str] = []
    place = fraction_place = 0
    started = False
    sign_at_start = not signed
    significant = next((index for index, char in enumerate(whole) if char != " "), digits_before)
    if first_zero is not None:
        significant = min(significant, first_zero)
    leading_sign = "S" in body[:1] or (body[:1] == ["S"])
    sign_pending = sign_at_start or leading_sign
    digit_total = digits_before
    for position, item in enumerate(body):
        if item in ("0", "9"):
            if position > point:
                if overflow:
                    out.append("#")
                elif fraction_place < last_fraction:
                    out.append(fraction[fraction_place])
                fraction_place += 1
                continue
            if overflow:
                if sign_pending:
                    out.append(_sign(negative, leading_sign, fill))
                    sign_pending = False
                out.append("#")
            elif place >= significant or (place == digit_total - 1 and digits_after == 0 and not started):
                if sign_pending:
                    out.append(_sign(negative, leading_sign, fill))
                    sign_pending = False
                char = whole[place]
                out.append("0" if char == " " else char)
                started = True
            elif not fill:
                out.append(" ")
            place += 1
        elif item in (",", "G"):
            if started or overflow:
                out.append(",")
            elif not fill:
                out.append(" ")
        elif item in (".", "D"):
            if sign_pending:
                out.append(_sign(negative, leading_sign, fill))
                sign_pending = False
            if not is_nan and not (fill and last_fraction == 0 and digits_after == 0):
                out.append(".")
        elif item == "S":
            if position != 0:
                out.append("-" if negative else "+")
        elif item == "MI":
            out.append("-" if negative else "" if fill else " ")
        elif item == "PL":
            out.append("+" if not negative else "" if fill else " ")
        elif item == "SG":
            out.append("-" if negative else "+")
        elif item == "PR":
            out.append(">" if negative else "" if fill else " ")
        elif item.upper() == "TH":
            if not negative and not overflow and whole.strip().isdigit():
                out.append(ordinal(whole.strip(), item)[len(whole.strip()) :])
        elif item == "L":
            out.append("" if fill else " ")
        elif item.startswith('"'):
            out.append(item[1:])
    text = "".join(out)
    if "PR" in body:
        stripped = text.lstrip(" ")
        padding = text[: len(text) - len(stripped)]
        text = padding + ("<" if negative else "" if fill else " ") + stripped
    return text


def _sign(negative: bool, explicit: bool, fill: bool) -> str:
    if negative:
        return "-"
    return "+" if explicit else "" if fill else " "


def _scientific(text: str | None, pattern: str) -> str | None:
    if text is None:
        return None
    digits = sum(1 for char in pattern.partition(".")[2] if char in "09") if "." in pattern or "D" in pattern else 0
    value = Decimal(text)
    if not value.is_finite():
        whole = sum(1 for char in pattern.replace("D", ".").partition(".")[0] if char in "09")
        return f" {'#' * whole}.{'#' * (digits + 4)}"
    if value:
        value = value.quantize(Decimal(1).scaleb(value.adjusted() - digits), rounding=ROUND_HALF_UP, context=_WIDE)
    shown = f"{value:.{digits}e}" if value else f"{0:.{digits}e}"
    mantissa, _, exponent = shown.partition("e")
    sign = exponent[0] if exponent[0] in "+-" else "+"
    body = f"{mantissa}e{sign}{exponent.lstrip('+-').rjust(2, '0')}"
    return body if body.startswith("-") or "FM" in pattern else " " + body


def to_number(text: str, pattern: str) -> str:
    """to_number(text, pattern)."""
    upper = pattern.upper()
    kept: list[str] = []
    negative = False
    position = index = 0
    while index < len(upper) and position <= len(text):
        if upper[index : index + 2] in ("FM", "TH"):
            index += 2
            continue
        if upper[index : index + 2] in ("MI", "PL", "SG", "PR"):
            mark = text[position : position + 1]
            if mark in ("-", "+", "<", ">"):
                negative = negative or mark in ("-", "<")
                position += 1
            index += 2
            continue
        char = upper[index]
        if char in "09":
            while position < len(text) and text[position] in " +-<":
                negative = negative or text[position] in "-<"
                position += 1
            if position < len(text) and text[position].isdigit():
                kept.append(text[position])
                position += 1
            elif position < len(text) and text[position] == "." and "." in upper[:index] and "." not in kept:
                kept.append(".")
                position += 1
                continue
        elif char in ".D":
            if text[position : position + 1] == ".":
                kept.append(".")
                position += 1
        elif char in ",G":
            if text[position : position + 1] == ",":
                position += 1
        elif char == "S":
            mark = text[position : position + 1]
            if mark in ("-", "+"):
                negative = mark == "-"
                position += 1
        elif char == "L":
            if position < len(text) and not text[position].isdigit() and text[position] not in "+-.,":
                position += 1
        elif position < len(text):
            position += 1
        index += 1
    if text.rstrip().endswith(("-", ">")):
        negative = True
    digits = "".join(kept)
    if not digits.strip("."):
        raise InvalidTextRepresentation(f'invalid input syntax for type numeric: "{text.strip() or " "}"')
    return ("-" if negative else "") + digits
