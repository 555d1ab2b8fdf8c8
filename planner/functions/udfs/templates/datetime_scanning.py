"""What the fields of a template find in a text: to_timestamp and to_date (PostgreSQL 15's DCH_from_char)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.errors import DatetimeFieldOverflow, FeatureNotSupported, InvalidDatetimeFormat
from planner.functions.udfs.templates.template_patterns import DAYS, MONTHS, tokens

_SPACES = " \t\n\r\v\f"
_LENGTHS = {"HH24": 2, "HH12": 2, "MS": 3, "US": 6, "IDDD": 3, "RM": 4, "Y,YYY": 5, "SSSSS": 5, "SSSS": 4,
            "TZH": 2, "TZM": 2}  # fmt: skip
"""Digits that a field takes where another one follows at once, unless they are as many as its name has letters."""

_SHORT_YEARS = {"YYY": "YYYY", "YY": "YYYY", "Y": "YYYY", "IYY": "IYYY", "IY": "IYYY", "I": "IYYY"}
"""Fields of fewer than four digits, which stand for the year nearest to 2020, and the field that they fill."""

_NAMES = frozenset({"AM", "PM", "A.M.", "P.M.", "AD", "BC", "A.D.", "B.C.", "MONTH", "MON", "DAY", "DY", "RM"})
_NO_DIGITS = _NAMES | {"OF", "TZ", "TZH"}
_ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
_ISO = frozenset({"IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I"})
_GREGORIAN = frozenset({"DDD", "DD", "D", "MM", "MONTH", "MON", "RM", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y"})
_ADVICE = 'If your source string is not fixed-width, try using the "FM" modifier.'
_INTEGER = re.compile(r"[ \t\n\r\v\f]*([+-]?[0-9]+)")


class _Scan:
    """A text that is being taken apart. `found` are the numbers by field; `skipped` counts the separators before the
    place that the template has no place for."""

    def __init__(self, text: str) -> None:
        self.text = text.partition("\0")[0]
        self.at = 0
        self.skipped = 0
        self.found: dict[str, int] = {}
        self._mode = ""

    def ended(self) -> bool:
        return self.at >= len(self.text)

    def skip_spaces(self) -> None:
        while not self.ended() and self.text[self.at] in _SPACES:
            self.at += 1
            self.skipped += 1

    def literal(self, char: str, *, quoted: bool, fixed: bool) -> None:
        """A character of the template that is no field."""
        here = self.text[self.at]
        if not quoted and (char in _SPACES or _is_separator(char)):
            if fixed:
                self.at += 1
                return
            self.skipped -= 1
            if here in _SPACES or _is_separator(here):
                self.at += 1
                self.skipped += 1
        elif not fixed and self.skipped > 0:
            # More was skipped than the template has; this may be part of a field.
            self.skipped -= 1
        else:
            self.at += 1

    def exactly(self, part: str, *, quoted: bool) -> None:
        """The same in the text. 22007 for something else."""
        if not self.text.startswith(part, self.at):
            what = f'character "{part[:1]}"' if quoted else f'separator "{part}"'
            raise InvalidDatetimeFormat(f"unmatched format {what}")
        self.at += len(part)

    def check_mode(self, field: str) -> None:
        """22007 for fields of both kinds of years."""
        mode = "ISO" if field in _ISO else "Gregorian" if field in _GREGORIAN else ""
        if mode and self._mode and mode != self._mode:
            raise InvalidDatetimeFormat(
                "invalid combination of date conventions",
                hint="Do not mix Gregorian and ISO week date conventions in a formatting template.",
            )
        self._mode = self._mode or mode

    def keep(self, key: str, value: int, field: str) -> None:
        """22007 when the field says something else already."""
        if self.found.get(key, 0) not in (0, value):
            raise InvalidDatetimeFormat(
                f'conflicting values for "{field}" field in formatting string',
                detail="This value contradicts a previous setting for the same field type.",
            )
        self.found[key] = value

    def number(self, field: str, width: int, *, open_ended: bool) -> tuple[int, int]:
        """The number here, and how many characters were read. Raises 22007, 22008."""
        start = self.at
        while not self.ended() and self.text[self.at] in _SPACES:
            self.at += 1
        piece = self.text[self.at : self.at + width]
        if open_ended:
            match = _INTEGER.match(self.text, start)
            self.at = start if match is None else match.end()
        else:
            if len(piece) < width:
                raise InvalidDatetimeFormat(
                    f'source string too short for "{field}" formatting field',
                    detail=f"Field requires {width} characters, but only {len(piece)} remain.",
                    hint=_ADVICE,
                )
            match = _INTEGER.match(piece)
            used = 0 if match is None else match.end()
            if 0 < used < width:
                raise InvalidDatetimeFormat(
                    f'invalid value "{piece}" for "{field}"',
                    detail=f"Field requires {width} characters, but only {used} could be parsed.",
                    hint=_ADVICE,
                )
            self.at += used
        if self.at == start or match is None:
            raise InvalidDatetimeFormat(f'invalid value "{piece}" for "{field}"', detail="Value must be an integer.")
        value = int(match[1])
        if not -(1 << 31) <= value < 1 << 31:
            raise DatetimeFieldOverflow(
                f'value for "{field}" in source string is out of range',
                detail="Value must be in the range -2147483648 to 2147483647.",
            )
        return value, self.at - start

    def name(self, field: str, names: Sequence[str]) -> int:
        """The place of the name that the text has here. 22007 for another one."""
        rest = self.text[self.at :].lower()
        for place, each in enumerate(names):
            if rest.startswith(each.lower()):
                self.at += len(each)
                return place
        shown = re.split(r"[ \t\n\r\f]", self.text[self.at :], maxsplit=1)[0]
        raise InvalidDatetimeFormat(
            f'invalid value "{shown}" for "{field}"',
            detail="The given value did not match any of the allowed values for this field.",
        )


def scanned_fields(text: str, pattern: str, *, standard: bool = False) -> dict[str, int]:
    """The numbers that the fields of a template find in `text`, by field. `standard`: as SQL says for jsonpath, where
    text and template have to be the same but for fields. Raises 22007, 22008, and 0A000 for a field that only to_char
    has."""
    scan = _Scan(text)
    parts = tokens(pattern)
    fixed = standard or pattern[:2].upper() == "FX"
    for number, (kind, part, fill, _) in enumerate(parts):
        if scan.ended():
            if standard:
                raise InvalidDatetimeFormat("input string is too short for datetime format")
            break
        if not fixed and (kind == "field" or number == 0):
            scan.skip_spaces()
        if kind != "field" and standard:
            scan.exactly(part, quoted=kind == "quoted")
            continue
        if kind != "field":
            for char in part:
                if scan.ended():
                    break
                scan.literal(char, quoted=kind == "quoted", fixed=fixed)
            continue
        field, _, suffix = part.partition("\0")
        _read(scan, field, open_ended=fill or bool(suffix) or _ends(parts[number + 1 : number + 2]))
        if suffix and field.upper() not in _NAMES:
            scan.at += 2
        if not fixed:
            scan.skipped = 0
            scan.skip_spaces()
    if standard:
        scan.skip_spaces()
        if not scan.ended():
            raise InvalidDatetimeFormat("trailing characters remain in input string after datetime format")
    return _put_together(scan.found)


def _ends(following: Sequence[tuple[str, str, bool, bool]]) -> bool:
    """Whether what follows a number is no digit: it goes on until there."""
    if not following:
        return True
    kind, part, _, _ = following[0]
    if kind == "field":
        return part.partition("\0")[0].upper() in _NO_DIGITS
    return not part[:1].isdigit()


def _is_separator(char: str) -> bool:
    return " " < char < "\x7f" and not char.isalnum()


def _read(scan: _Scan, field: str, *, open_ended: bool) -> None:
    upper = field.upper()
    scan.check_mode(upper)
    if upper in _NAMES:
        _read_name(scan, field, upper)
        return
    if upper in ("TZ", "OF"):
        raise FeatureNotSupported(f'formatting field "{field}" is only supported in to_char')
    if upper == "Y,YYY":
        match = re.compile(r"[ \t]*([+-]?\d+),(\d{1,3})").match(scan.text, scan.at)
        if match is None:
            raise InvalidDatetimeFormat('invalid input string for "Y,YYY"')
        scan.keep("YYYY", int(match[1]) * 1000 + int(match[2]), field)
        scan.at = match.end()
        return
    if upper == "TZH":
        here = scan.text[scan.at : scan.at + 1]
        negative = (
            here == "-" if here and here in "+- " else scan.skipped > 0 and scan.text[scan.at - 1 : scan.at] == "-"
        )
        scan.at += bool(here) and here in "+- "
        scan.found["TZ sign"] = -1 if negative else 1
    width = int(upper[2]) if upper.startswith("FF") else _LENGTHS.get(upper, len(upper))
    value, length = scan.number(field, width, open_ended=open_ended)
    if upper == "MS":
        scan.found["MS"] = value * 10 ** max(0, 3 - length)
    elif upper == "US" or upper.startswith("FF"):
        scan.found |= {"FF": width} if upper != "US" else {}
        scan.found["US"] = value * 10 ** max(0, 6 - length)
    elif upper in _SHORT_YEARS:
        if length < 4:
            value += 2000 if value < 70 else 1900 if value < 100 else 2000 if value < 520 else 1000
        scan.keep(_SHORT_YEARS[upper], value, field)
    elif upper in ("HH", "HH12"):
        scan.keep("hour", value, field)
        scan.found["12"] = 1
    elif upper == "HH24":
        scan.keep("hour", value, field)
    elif upper != "Q":
        scan.keep(upper, value, field)


def _read_name(scan: _Scan, field: str, upper: str) -> None:
    match upper:
        case "AM" | "PM":
            scan.keep("PM", scan.name(field, ["am", "pm"]), field)
            scan.found["12"] = 1
        case "A.M." | "P.M.":
            scan.keep("PM", scan.name(field, ["a.m.", "p.m."]), field)
            scan.found["12"] = 1
        case "AD" | "BC":
            scan.keep("BC", scan.name(field, ["ad", "bc"]), field)
        case "A.D." | "B.C.":
            scan.keep("BC", scan.name(field, ["a.d.", "b.c."]), field)
        case "MONTH":
            scan.keep("MM", scan.name(field, MONTHS) + 1, field)
        case "MON":
            scan.keep("MM", scan.name(field, [month[:3] for month in MONTHS]) + 1, field)
        case "RM":
            # Longer numbers first, as PostgreSQL has them.
            places = sorted(range(12), reverse=True)
            scan.keep("MM", places[scan.name(field, [_ROMAN[place] for place in places])] + 1, field)
        case "DAY":
            scan.name(field, DAYS)
        case _:
            scan.name(field, [day[:3] for day in DAYS])


def _put_together(found: dict[str, int]) -> dict[str, int]:
    """The hour by its clock, and all fractions of a second as one."""
    if "hour" in found:
        found["HH12" if "12" in found else "HH24"] = found.pop("hour")
    elif "12" in found:
        found["HH12"] = 0
    if not found.get("BC", 1):
        del found["BC"]
    if "MS" in found:
        found["US"] = found.get("US", 0) + found.pop("MS") * 1000
    return found
