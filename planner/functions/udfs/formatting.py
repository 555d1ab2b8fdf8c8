"""to_char, to_date, to_timestamp and to_number: PostgreSQL's template patterns."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from planner.datetime_text import load_zone
from planner.errors import DatetimeFieldOverflow, InvalidDatetimeFormat, InvalidTextRepresentation
from planner.functions.udfs.table import INTERVAL, Udf

_MONTHS = list(calendar.month_name)[1:]
_DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
_FIELDS = [
    "SSSSS",
    "SSSS",
    "HH24",
    "HH12",
    "Y,YYY",
    "YYYY",
    "IYYY",
    "MONTH",
    "Month",
    "month",
    "A.D.",
    "a.d.",
    "B.C.",
    "b.c.",
    "A.M.",
    "a.m.",
    "P.M.",
    "p.m.",
    "FF1",
    "FF2",
    "FF3",
    "FF4",
    "FF5",
    "FF6",
    "IDDD",
    "DDD",
    "DAY",
    "Day",
    "day",
    "MON",
    "Mon",
    "mon",
    "YYY",
    "IYY",
    "TZH",
    "TZM",
    "HH",
    "MI",
    "SS",
    "MS",
    "US",
    "AM",
    "am",
    "PM",
    "pm",
    "YY",
    "IY",
    "BC",
    "bc",
    "AD",
    "ad",
    "MM",
    "DY",
    "Dy",
    "dy",
    "DD",
    "ID",
    "WW",
    "IW",
    "CC",
    "RM",
    "rm",
    "TZ",
    "tz",
    "OF",
    "Y",
    "I",
    "D",
    "W",
    "Q",
    "J",
]
_INSENSITIVE = {
    "SSSSS",
    "SSSS",
    "HH24",
    "HH12",
    "Y,YYY",
    "YYYY",
    "IYYY",
    "FF1",
    "FF2",
    "FF3",
    "FF4",
    "FF5",
    "FF6",
    "IDDD",
    "DDD",
    "YYY",
    "IYY",
    "TZH",
    "TZM",
    "HH",
    "MI",
    "SS",
    "MS",
    "US",
    "YY",
    "IY",
    "MM",
    "DD",
    "ID",
    "WW",
    "IW",
    "CC",
    "OF",
    "Y",
    "I",
    "D",
    "W",
    "Q",
    "J",
}


@lru_cache(maxsize=512)
def _tokens(pattern: str) -> tuple[tuple[str, str, bool, bool], ...]:
    """(kind, text, fill mode, ordinal suffix) of each part; kind is "field" or "text"."""
    tokens: list[tuple[str, str, bool, bool]] = []
    index = 0
    while index < len(pattern):
        if pattern[index] == '"':
            end = index + 1
            text = ""
            while end < len(pattern) and pattern[end] != '"':
                if pattern[end] == "\\" and end + 1 < len(pattern):
                    end += 1
                text += pattern[end]
                end += 1
            tokens.append(("quoted", text, False, False))
            index = end + 1
            continue
        fill = False
        start = index
        while pattern[index : index + 2].upper() in ("FM", "TM", "FX"):
            fill = fill or pattern[index : index + 2].upper() == "FM"
            index += 2
        for field in _FIELDS:
            part = pattern[index : index + len(field)]
            if part == field or (field in _INSENSITIVE and part.upper() == field):
                index += len(field)
                suffix = pattern[index : index + 2] if pattern[index : index + 2] in ("TH", "th") else ""
                index += len(suffix)
                tokens.append(("field", field, fill, bool(suffix)))
                if suffix:
                    tokens[-1] = ("field", field + "\0" + suffix, fill, True)
                break
        else:
            if index == start or index < len(pattern):
                char = pattern[index : index + 1]
                if char == "\\" and pattern[index + 1 : index + 2] == '"':
                    index += 1
                    char = '"'
                if char:
                    tokens.append(("text", char, False, False))
                index += 1
    return tuple(tokens)


def _ordinal(number: str, suffix: str) -> str:
    value = abs(int(number))
    word = "th" if 10 < value % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
    return number + (word.upper() if suffix == "TH" else word)


def to_char_timestamp(value: dt.datetime, pattern: str, zone: str) -> str:
    """to_char(timestamp, pattern); `zone` is the session's time zone for timestamptz and empty otherwise."""
    out: list[str] = []
    for token, text, fill, _ in _tokens(pattern):
        if token != "field":
            out.append(text)
            continue
        field, _, suffix = text.partition("\0")
        shown = _moment_field(value, field, fill, zone)
        out.append(_ordinal(shown, suffix) if suffix and shown.lstrip("-").isdigit() else shown)
    return "".join(out)


def _padded(number: int, width: int, fill: bool) -> str:
    return str(number) if fill else f"{number:0{width}d}"


def _cased(names: list[str], index: int, field: str, fill: bool, width: int) -> str:
    name = names[index]
    shown = name.upper() if field.isupper() else name.lower() if field.islower() else name
    return shown if fill else shown.ljust(width)


def _moment_field(value: dt.datetime, field: str, fill: bool, zone: str) -> str:
    iso_year, iso_week, iso_day = value.isocalendar()
    hour12 = value.hour % 12 or 12
    day_of_year = value.timetuple().tm_yday
    weekday = (value.weekday() + 1) % 7
    century = (value.year + 99) // 100
    numbers = {
        "HH24": (value.hour, 2),
        "HH12": (hour12, 2),
        "HH": (hour12, 2),
        "MI": (value.minute, 2),
        "SS": (value.second, 2),
        "MS": (value.microsecond // 1000, 3),
        "US": (value.microsecond, 6),
        "YYYY": (value.year, 4),
        "IYYY": (iso_year, 4),
        "YYY": (value.year % 1000, 3),
        "YY": (value.year % 100, 2),
        "Y": (value.year % 10, 1),
        "IYY": (iso_year % 1000, 3),
        "IY": (iso_year % 100, 2),
        "I": (iso_year % 10, 1),
        "MM": (value.month, 2),
        "DD": (value.day, 2),
        "DDD": (day_of_year, 3),
        "D": (weekday + 1, 1),
        "ID": (iso_day, 1),
        "IDDD": ((iso_week - 1) * 7 + iso_day, 3),
        "W": ((value.day - 1) // 7 + 1, 1),
        "WW": ((day_of_year - 1) // 7 + 1, 2),
        "IW": (iso_week, 2),
        "CC": (century, 2),
        "Q": ((value.month - 1) // 3 + 1, 1),
        "J": (value.toordinal() + 1721425, 1),
    }
    if field in numbers:
        return _padded(*numbers[field], fill)
    if field in ("SSSS", "SSSSS"):
        return str(value.hour * 3600 + value.minute * 60 + value.second)
    if field.startswith("FF"):
        return f"{value.microsecond:06d}"[: int(field[2])]
    if field.upper() == "MONTH":
        return _cased(_MONTHS, value.month - 1, field, fill, 9)
    if field.upper() == "MON":
        return _cased([name[:3] for name in _MONTHS], value.month - 1, field, True, 3)
    if field.upper() == "DAY":
        return _cased(_DAYS, weekday, field, fill, 9)
    if field.upper() == "DY":
        return _cased([name[:3] for name in _DAYS], weekday, field, True, 3)
    if field in ("AM", "PM"):
        return "AM" if value.hour < 12 else "PM"
    if field in ("am", "pm"):
        return "am" if value.hour < 12 else "pm"
    if field in ("A.M.", "P.M."):
        return "A.M." if value.hour < 12 else "P.M."
    if field in ("a.m.", "p.m."):
        return "a.m." if value.hour < 12 else "p.m."
    if field in ("AD", "BC", "A.D.", "B.C.", "ad", "bc", "a.d.", "b.c."):
        word = "A.D." if "." in field else "AD"
        return word if field.isupper() else word.lower()
    if field == "Y,YYY":
        return f"{value.year // 1000},{value.year % 1000:03d}"
    if field in ("RM", "rm"):
        roman = _ROMAN[value.month - 1]
        roman = roman if fill else roman.ljust(4)
        return roman if field == "RM" else roman.lower()
    return _zone_field(value, field, zone)


def _zone_field(value: dt.datetime, field: str, zone: str) -> str:
    if not zone:
        return "+00" if field in ("OF", "TZH") else "00" if field == "TZM" else ""
    local = value.replace(tzinfo=load_zone(zone))
    offset = local.utcoffset() or dt.timedelta()
    minutes = int(offset.total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if field == "TZH":
        return f"{sign}{hours:02d}"
    if field == "TZM":
        return f"{rest:02d}"
    if field == "OF":
        return f"{sign}{hours:02d}" + (f":{rest:02d}" if rest else "")
    name = local.tzname() or ""
    return name if field == "TZ" else name.lower()


def to_char_interval(interval: Mapping[str, int], pattern: str) -> str:
    """to_char(interval, pattern): years, months, days and an unlimited hour."""
    years, months = int(interval["months"] / 12), interval["months"] - int(interval["months"] / 12) * 12
    micros = abs(interval["micros"])
    sign = -1 if interval["micros"] < 0 else 1
    hours, rest = divmod(micros, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    hour12 = hours % 12 or 12
    numbers = {
        "HH24": (sign * hours, 2),
        "HH12": (sign * hour12, 2),
        "HH": (sign * hour12, 2),
        "MI": (sign * minutes, 2),
        "SS": (sign * seconds, 2),
        "MS": (sign * (fraction // 1000), 3),
        "US": (sign * fraction, 6),
        "YYYY": (years, 4),
        "YYY": (years % 1000, 3),
        "YY": (years % 100, 2),
        "Y": (years % 10, 1),
        "MM": (months, 2),
        "DD": (interval["days"], 1 if interval["days"] < 0 else 2),
        "DDD": (interval["days"] + 30 * interval["months"], 3),
        "Q": (((months - 1) // 3 + 1) if months else 0, 1),
        "CC": (years // 100, 2),
    }
    out: list[str] = []
    for token, text, fill, _ in _tokens(pattern):
        if token != "field":
            out.append(text)
            continue
        field, _, suffix = text.partition("\0")
        if field in numbers:
            number, width = numbers[field]
            shown = str(number) if fill else f"{number:0{width + (number < 0)}d}"
        elif field in ("SSSS", "SSSSS"):
            shown = str(sign * (hours * 3600 + minutes * 60 + seconds))
        elif field.upper() in ("AM", "PM"):
            shown = ("AM" if hours % 24 < 12 else "PM") if field.isupper() else ("am" if hours % 24 < 12 else "pm")
        elif field.startswith("FF"):
            shown = f"{fraction:06d}"[: int(field[2])]
        else:
            raise InvalidDatetimeFormat(
                "invalid format specification for an interval value",
                hint="Intervals are not tied to specific calendar dates.",
            )
        out.append(_ordinal(shown, suffix) if suffix else shown)
    return "".join(out)


# ---------------------------------------------------------------- input


def _invalid_value(text: str, field: str, detail: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(f'invalid value "{text}" for "{field}"', detail=detail)


def to_timestamp(text: str, pattern: str) -> dt.datetime:
    """to_timestamp(text, pattern) and to_date: the wall-clock time that the fields say."""
    found: dict[str, int] = {}
    position = 0
    tokens = _tokens(pattern)
    for number, (token, part, _, _) in enumerate(tokens):
        if token != "field":
            if part == " " or not part.isalnum():
                if position < len(text) and not text[position].isalnum() and text[position] not in "+":
                    position += 1
            else:
                position += len(part)
            continue
        while position < len(text) and text[position] == " ":
            position += 1
        if position >= len(text):
            break
        field = part.partition("\0")[0]
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        position = _read_field(text, position, field, following is not None and following[0] == "field", found)
    return _assembled(found, text)


_WIDTHS = {
    "HH24": 2,
    "HH12": 2,
    "HH": 2,
    "MI": 2,
    "SS": 2,
    "MS": 3,
    "US": 6,
    "YYYY": 4,
    "YYY": 3,
    "YY": 2,
    "Y": 1,
    "MM": 2,
    "DD": 2,
    "DDD": 3,
    "D": 1,
    "W": 1,
    "WW": 2,
    "IW": 2,
    "IYYY": 4,
    "ID": 1,
    "Q": 1,
    "J": 7,
    "CC": 2,
    "SSSS": 5,
    "SSSSS": 5,
    "FF1": 1,
    "FF2": 2,
    "FF3": 3,
    "FF4": 4,
    "FF5": 5,
    "FF6": 6,
}


def _read_field(text: str, position: int, field: str, adjacent: bool, found: dict[str, int]) -> int:
    upper = field.upper()
    if upper in ("MONTH", "MON", "DAY", "DY"):
        names = _MONTHS if upper in ("MONTH", "MON") else _DAYS
        rest = text[position:].lower()
        for index, name in enumerate(names):
            for form in (name,) if upper in ("MONTH", "DAY") else (name[:3],):
                if rest.startswith(form.lower()):
                    if names is _MONTHS:
                        found["MM"] = index + 1
                    return position + len(form)
        raise _invalid_value(
            text[position : position + 3 if upper in ("MON", "DY") else None],
            field,
            "The given value did not match any of the allowed values for this field.",
        )
    if upper in ("AM", "PM", "A.M.", "P.M."):
        found["PM"] = 1 if text[position : position + 1].lower() == "p" else 0
        return position + len(field)
    if upper in ("AD", "BC", "A.D.", "B.C."):
        if text[position : position + 1].lower() == "b":
            found["BC"] = 1
        return position + len(field)
    if upper == "Y,YYY":
        match = re.compile(r"(\d+),(\d{3})").match(text, position)
        if match is None:
            raise _invalid_value(text[position : position + 5], field, "Value must be an integer.")
        found["YYYY"] = int(match[1]) * 1000 + int(match[2])
        return match.end()
    if upper in ("TZH", "TZM", "OF", "TZ"):
        match = re.compile(r"[+-]?\d+(?::\d+)?").match(text, position)
        if match is None:
            raise _invalid_value(text[position : position + 2], field, "Value must be an integer.")
        found[upper] = int(match[0].partition(":")[0])
        return match.end()
    width = _WIDTHS.get(upper, 2)
    limit = r"\d{1," + str(width) + "}" if adjacent or upper in ("MS", "US") or upper.startswith("FF") else r"\d+"
    match = re.compile(r"[+-]?" + limit).match(text, position)
    if match is None:
        shown = text[position : position + width]
        raise _invalid_value(shown, field, "Value must be an integer.")
    digits = match[0]
    value = int(digits)
    if upper == "MS":
        found["US"] = int(digits.ljust(3, "0")) * 1000
    elif upper == "US" or upper.startswith("FF"):
        found["US"] = int(digits.ljust(6, "0")[:6])
    elif upper in ("YYY", "YY", "Y") and len(digits) < 4:
        found["YYYY"] = (
            value + (2000 if value < 70 else 1900) if value < 100 else value + (2000 if value < 520 else 1000)
        )
    else:
        found["YYYY" if upper in ("YYY", "YY", "Y") else "HH12" if upper == "HH" else upper] = value
    return match.end()


def _assembled(found: Mapping[str, int], text: str) -> dt.datetime:
    year, month, day = found.get("YYYY", 1), found.get("MM", 1), found.get("DD", 1)
    hour = found.get("HH24", 0)
    if "HH12" in found:
        hour = found["HH12"]
        if not 1 <= hour <= 12:
            raise DatetimeFieldOverflow(
                f'hour "{hour}" is invalid for the 12-hour clock',
                hint="Use the 24-hour clock, or give an hour between 1 and 12.",
            )
        if "PM" in found:
            hour = hour % 12 + 12 * found["PM"]
    try:
        if "J" in found:
            date = dt.date.fromordinal(found["J"] - 1721425)
        elif "IYYY" in found:
            date = dt.date.fromisocalendar(found["IYYY"], found.get("IW", 1), found.get("ID", 1))
        elif "DDD" in found and "MM" not in found:
            date = dt.date(year, 1, 1) + dt.timedelta(days=found["DDD"] - 1)
        elif "WW" in found and "MM" not in found:
            date = dt.date(year, 1, 1) + dt.timedelta(days=(found["WW"] - 1) * 7)
        else:
            date = dt.date(year, month, day)
        moment = dt.datetime.combine(date, dt.time(hour, found.get("MI", 0), found.get("SS", 0), found.get("US", 0)))
    except ValueError:
        raise DatetimeFieldOverflow(f'date/time field value out of range: "{text}"') from None
    seconds = found.get("SSSS", found.get("SSSSS"))
    return moment if seconds is None else moment + dt.timedelta(seconds=seconds)


# ---------------------------------------------------------------- numbers

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
        else:
            body.append(upper[index] if upper[index] in "09.,DGSLV" else '"' + pattern[index])
            index += 1
    if text is None:
        return None
    number = Decimal(text) if text.lower().lstrip("-") not in ("nan", "inf", "infinity") else None
    if "RN" in marks:
        return _roman(number, fill)
    return _number_body(number, body, fill)


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


def _number_body(number: Decimal | None, body: list[str], fill: bool) -> str:
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
    negative = rounded is not None and (rounded < 0 or (rounded.is_signed() and number is not None and number < 0))
    whole, _, fraction = ("" if rounded is None else f"{abs(rounded):f}").partition(".")
    if whole.strip("0") == "":
        whole = ""
    overflow = rounded is None or len(whole) > digits_before
    first_zero = next(
        (index for index, item in enumerate(i for i in body[:point] if i in ("0", "9")) if item == "0"), None
    )
    whole = whole.rjust(digits_before)
    signed = any(item in ("S", "MI", "PL", "SG", "PR") for item in body)
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
            if not (fill and last_fraction == 0 and digits_after == 0):
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
            if not negative and whole.strip():
                out.append(_ordinal(whole.strip(), item)[len(whole.strip()) :])
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
    if value:
        value = value.quantize(Decimal(1).scaleb(value.adjusted() - digits), rounding=ROUND_HALF_UP, context=_WIDE)
    shown = f"{value:.{digits}e}"
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


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_to_char_timestamp": Udf(("TIMESTAMP", _T, _T), _T, to_char_timestamp),
    "tg_to_char_interval": Udf((INTERVAL, _T), _T, to_char_interval),
    "tg_to_char_number": Udf((_T, _T, _T), _T, to_char_number),
    "tg_to_timestamp": Udf((_T, _T), "TIMESTAMP", to_timestamp),
    "tg_to_number": Udf((_T, _T), _T, to_number),
}
