"""Text and bytea: case, quoting, encodings, format(), arrays from text, and the text of floats and intervals."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache

from planner.catalog_data.encodings import SQL_ASCII, UTF8, canonical_name, check_conversion, decoded, encoded
from planner.common_errors import numeric_overflow
from planner.errors import (
    ArraySubscriptError,
    InvalidEscapeSequence,
    InvalidParameterValue,
    InvalidTextRepresentation,
    NullValueNotAllowed,
    NumericValueOutOfRange,
    SqlSyntaxError,
    SubstringError,
)
from planner.functions.udfs.table import INTERVAL, Udf
from planner.ir.nodes import Interval
from planner.syntax.identifiers import quote_identifier
from planner.types import types
from planner.types.types import SqlType
from planner.values.bytea_text import char_byte, char_of, char_text, from_base64, from_escapes, from_hex
from planner.values.floats.float_input import read_float
from planner.values.floats.float_text import format_float
from planner.values.interval_text import format_interval
from planner.values.record_text import record_items
from planner.values.text_values import parse_text


def upper(text: str) -> str:
    """upper(): one character for one, as in the C.UTF-8 locale."""
    return "".join([big if len(big := char.upper()) == 1 else char for char in text])


def initcap(text: str) -> str:
    """initcap(): words are runs of alphanumeric characters."""
    out: list[str] = []
    inside = False
    for char in text:
        out.append(char.lower() if inside else upper(char))
        inside = char.isalnum()
    return "".join(out)


def quote_literal(text: str) -> str:
    """quote_literal(): doubled quotes, E'' where there is a backslash."""
    body = text.replace("'", "''")
    return "E'" + body.replace("\\", "\\\\") + "'" if "\\" in body else f"'{body}'"


_DIRECTIVE = re.compile(r"%(?:(\d+)\$)?(-)?(\*(?:\d+\$)?|\d+)?(.)?", re.S)


def format_text(pattern: str | None, args: list[str | None] | None) -> str | None:
    """format(): %s, %I, %L with positions, widths and the minus flag."""
    if pattern is None:
        return None
    values = args or []
    used = 0
    out: list[str] = []
    last = 0
    for match in _DIRECTIVE.finditer(pattern):
        out.append(pattern[last : match.start()])
        last = match.end()
        position, minus, width, kind = match.groups()
        if kind is None:
            raise InvalidParameterValue("unterminated format() type specifier", hint='For a single "%" use "%%".')
        if kind == "%":
            out.append("%")
            continue
        if width is not None and width.startswith("*"):
            index = _argument(width[1:-1]) if len(width) > 1 else used
            used = index + 1
            if index >= len(values):
                raise InvalidParameterValue("too few arguments for format()")
            size = _width(values[index])
        else:
            size = int(width or 0)
        if size < 0:
            minus, size = "-", -size
        index = _argument(position) if position is not None else used
        used = index + 1
        if kind not in "sIL":
            raise InvalidParameterValue(
                f'unrecognized format() type specifier "{kind}"', hint='For a single "%" use "%%".'
            )
        if index >= len(values):
            raise InvalidParameterValue("too few arguments for format()")
        value = values[index]
        if kind == "s":
            text = value or ""
        elif kind == "L":
            text = "NULL" if value is None else quote_literal(value)
        elif value is None:
            raise NullValueNotAllowed("null values cannot be formatted as an SQL identifier")
        else:
            text = quote_identifier(value)
        out.append(text.ljust(size) if minus else text.rjust(size))
    out.append(pattern[last:])
    return "".join(out)


def _argument(number: str) -> int:
    """The index of the argument that a directive of format() numbers."""
    if int(number) == 0:
        raise InvalidParameterValue("format specifies argument 0, but arguments are numbered from 1")
    return int(number) - 1


def _width(text: str | None) -> int:
    """A width that format() takes from an argument, NULL for none."""
    if text is None:
        return 0
    if re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII) is None:
        raise InvalidTextRepresentation(f'invalid input syntax for type integer: "{text}"')
    return int(text)


def string_to_array(text: str | None, delimiter: str | None, null: str | None) -> list[str | None] | None:
    """string_to_array(): a NULL delimiter splits into characters, an empty one does not split."""
    if text is None:
        return None
    if text == "":
        return []
    parts: list[str] = list(text) if delimiter is None else [text] if delimiter == "" else text.split(delimiter)
    return [None if null is not None and part == null else part for part in parts]


def _encoding(name: str, purpose: str) -> str:
    found = canonical_name(name)
    if found is None:
        raise InvalidParameterValue(f'invalid {purpose}encoding name "{name}"')
    return found


def convert_from(data: bytes, name: str) -> str:
    """convert_from(). Raises 22023, 42883, 22021, 22P05."""
    source = _encoding(name, "source ")
    check_conversion(source, UTF8)
    return decoded(data, source)


def convert_to(text: str, name: str) -> bytes:
    """convert_to(). Raises 22023, 42883, 22P05."""
    target = _encoding(name, "destination ")
    check_conversion(UTF8, target)
    return encoded(text, target)


def convert(data: bytes, source: str, target: str) -> bytes:
    """convert(). Raises 22023, 42883, 22021, 22P05."""
    given, wanted = _encoding(source, "source "), _encoding(target, "destination ")
    check_conversion(given, wanted)
    if given == wanted or SQL_ASCII in (given, wanted):
        decoded(data, wanted if given == SQL_ASCII else given)
        return data
    return encoded(decoded(data, given), wanted)


def length_in(data: bytes, name: str) -> int:
    """length(bytea, name): the characters that the bytes are in an encoding. Raises 22023, 22021."""
    return len(decoded(data, _encoding(name, "")))


def encode(data: bytes, kind: str) -> str:
    """encode(): hex, base64 (in lines of 76 characters) and escape."""
    lowered = kind.lower()
    if lowered == "hex":
        return data.hex()
    if lowered == "base64":
        text = base64.b64encode(data).decode()
        return "\n".join([text[start : start + 76] for start in range(0, len(text), 76)])
    if lowered == "escape":
        return "".join(
            ["\\\\" if byte == 92 else f"\\{byte:03o}" if byte == 0 or byte > 127 else chr(byte) for byte in data]
        )
    raise InvalidParameterValue(f'unrecognized encoding: "{kind}"')


def decode(text: str, kind: str) -> bytes:
    """decode(): the inverse of encode()."""
    read = {"hex": from_hex, "base64": from_base64, "escape": from_escapes}.get(kind.lower())
    if read is None:
        raise InvalidParameterValue(f'unrecognized encoding: "{kind}"')
    return read(text)


def digest(name: str, data: bytes) -> bytes:
    """sha224, sha384, sha512."""
    return hashlib.new(name, data).digest()


def substring_bytea(data: bytes, start: int, length: int) -> bytes:
    """substring(bytea, start, length)."""
    if length < 0:
        raise SubstringError("negative substring length not allowed")
    end = start + length
    return data[max(start, 1) - 1 : max(end, 1) - 1]


def get_byte(data: bytes, index: int) -> int:
    """get_byte()."""
    if not 0 <= index < len(data):
        raise ArraySubscriptError(f"index {index} out of valid range, 0..{len(data) - 1}")
    return data[index]


def get_bit(data: bytes, index: int) -> int:
    """get_bit()."""
    if not 0 <= index < 8 * len(data):
        raise ArraySubscriptError(f"index {index} out of valid range, 0..{8 * len(data) - 1}")
    return (data[index // 8] >> (index % 8)) & 1


def set_byte(data: bytes, index: int, value: int) -> bytes:
    """set_byte(): of the value the low eight bits."""
    get_byte(data, index)
    return data[:index] + bytes([value & 255]) + data[index + 1 :]


def set_bit(data: bytes, index: int, value: int) -> bytes:
    """set_bit()."""
    get_bit(data, index)
    if value not in (0, 1):
        raise InvalidParameterValue("new bit must be 0 or 1")
    mask = 1 << (index % 8)
    byte = data[index // 8] & ~mask | (mask if value else 0)
    return set_byte(data, index // 8, byte)


@lru_cache(maxsize=256)
def _like_bytes(pattern: bytes) -> re.Pattern[bytes]:
    pieces, index = [b""], 0
    while index < len(pattern):
        byte = pattern[index : index + 1]
        if byte == b"%":
            pieces.append(b"")
        elif byte == b"_":
            pieces[-1] += b"."
        else:
            if byte == b"\\":
                index += 1
                if index == len(pattern):
                    raise InvalidEscapeSequence("LIKE pattern must not end with escape character")
            pieces[-1] += re.escape(pattern[index : index + 1])
        index += 1
    first, *others = pieces
    # What stands between two % is found where it comes first, and not looked for again: many % take no more than one.
    middle = b"".join([b"(?>.*?" + piece + b")" for piece in others[:-1]])
    return re.compile(first + middle + (b".*" + others[-1] if others else b""), re.DOTALL)


def like_bytea(data: bytes, pattern: bytes) -> bool:
    """bytea LIKE: byte by byte (bytealike). Raises 22025."""
    return _like_bytes(pattern).fullmatch(data) is not None


def like_escape_bytea(pattern: bytes, escape: bytes) -> bytes:
    """LIKE ... ESCAPE of bytea: the pattern with the backslash as its escape (like_escape_bytea). Raises 22025."""
    if len(escape) > 1:
        raise InvalidEscapeSequence("invalid escape string", hint="Escape string must be empty or one character.")
    if escape == b"\\":
        return pattern
    out, after = bytearray(), False
    for byte in pattern:
        if escape and byte == escape[0] and not after:
            out += b"\\"
            after = True
            continue
        if byte == ord("\\") and not after:
            out += b"\\"
        out.append(byte)
        after = False
    return bytes(out)


def char_of_integer(number: int) -> str:
    """The "char" of a number (i4tochar). Raises 22003."""
    if not -128 <= number <= 127:
        raise NumericValueOutOfRange('"char" out of range')
    return char_of(number & 255)


def char_to_integer(text: str) -> int:
    """The number of a "char", from -128 to 127 (chartoi4)."""
    byte = char_byte(text)
    return byte - 256 if byte > 127 else byte


def overlay_bytea(data: bytes, new: bytes, start: int, length: int) -> bytes:
    """overlay() of bytea; a negative length stands for that of the new bytes."""
    if start <= 0:
        raise SubstringError("negative substring length not allowed")
    return data[: start - 1] + new + data[max(start - 1 + length, 0) :]


def trim_bytea(data: bytes, characters: bytes, side: str) -> bytes:
    """btrim(), ltrim() and rtrim() of bytea."""
    return {"b": data.strip, "l": data.lstrip, "r": data.rstrip}[side](characters)


_ESCAPED = re.compile(r"\\(\\|\+[0-9a-fA-F]{6}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-9a-fA-F]{4}|)")


def unistr(text: str) -> str:
    """unistr(): \\XXXX, \\+XXXXXX, \\uXXXX, \\UXXXXXXXX and \\\\; surrogates in pairs. Raises 42601,
    22023."""
    out: list[str] = []
    first: int | None = None
    last = 0
    for match in _ESCAPED.finditer(text):
        body = match[1]
        if not body:
            raise SqlSyntaxError(
                "invalid Unicode escape", hint="Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX."
            )
        between = text[last : match.start()]
        last = match.end()
        code = ord("\\") if body == "\\" else int(body.lstrip("+uU"), 16)
        is_second = 0xDC00 <= code < 0xE000
        if (first is not None) != is_second or (first is not None and between):
            raise SqlSyntaxError("invalid Unicode surrogate pair")
        out.append(between)
        if is_second and first is not None:
            code = 0x10000 + ((first - 0xD800) << 10) + code - 0xDC00
            first = None
        elif 0xD800 <= code < 0xDC00:
            first = code
            continue
        if code == 0 or code > 0x10FFFF:
            raise InvalidParameterValue(f"invalid Unicode code point: {code:04X}")
        out.append(chr(code))
    if first is not None:
        raise SqlSyntaxError("invalid Unicode surrogate pair")
    return "".join(out) + text[last:]


def normalize(text: str, form: str) -> str:
    """normalize(text, form)."""
    if form.upper() not in ("NFC", "NFD", "NFKC", "NFKD"):
        raise InvalidParameterValue(f"invalid normalization form: {form}")
    return unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


def parse_ident(text: str, strict: bool) -> list[str]:
    """parse_ident(): the parts of a qualified name."""
    parts: list[str] = []
    rest = text.strip()
    while True:
        match = re.match(r'\s*(?:"((?:[^"]|"")*)"|([A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*))\s*', rest)
        if match is None or match[1] == "":
            raise InvalidParameterValue(
                f'string is not a valid identifier: "{text}"', detail=_no_identifier(rest.lstrip(), bool(parts))
            )
        parts.append(match[1].replace('""', '"') if match[1] is not None else match[2].lower())
        rest = rest[match.end() :]
        if rest.startswith("."):
            rest = rest[1:]
            continue
        if rest and strict:
            raise InvalidParameterValue(f'string is not a valid identifier: "{text}"')
        return parts


def _no_identifier(rest: str, after_dot: bool) -> str | None:
    """Why `rest` does not begin with an identifier."""
    if rest.startswith('""'):
        return "Quoted identifier must not be empty."
    if rest.startswith('"'):
        return "String has unclosed double quotes."
    if rest.startswith("."):
        return 'No valid identifier before ".".'
    return 'No valid identifier after ".".' if after_dot else None


def numeric_size(text: str) -> int:
    """Bytes that PostgreSQL takes for a numeric, without those of its length: two or four of sign, weight and scale,
    two for each four digits."""
    value = Decimal(text)
    if not value.is_finite():
        return 2
    digits = "".join(map(str, value.as_tuple().digits)) if value else ""
    low = value.adjusted() + 1 - len(digits)
    aligned = "0" * (-(value.adjusted() + 1) % 4) + digits + "0" * (low % 4) if digits else ""
    groups = [aligned[at : at + 4] for at in range(0, len(aligned), 4)]
    while groups and groups[-1].strip("0") == "":
        groups.pop()
    weight = value.adjusted() // 4 if value else 0
    small = -int(value.as_tuple().exponent) <= 63 and -64 <= weight <= 63
    return (2 if small else 4) + 2 * len(groups)


_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def size_pretty(size: int) -> str:
    """pg_size_pretty(bigint)."""
    limits = (10 * 1024, 20 * 1024 - 1, 20 * 1024 - 1, 20 * 1024 - 1, 20 * 1024 - 1)
    bits = (0, 9, 10, 10, 10)
    value = size
    for index, unit in enumerate(_UNITS[:5]):
        if index == len(bits) - 1 or abs(value) < limits[index]:
            if index:
                value = (abs(value) + 1) // 2 * (1 if value >= 0 else -1)
            return f"{value} {unit}"
        shift = 9 if index == 0 else 10
        value = abs(value) >> shift if value >= 0 else -(abs(value) >> shift)
    return f"{value} PB"


def size_bytes(text: str) -> int:
    """pg_size_bytes()."""
    match = re.fullmatch(r"\s*([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[+-]?\.\d+)\s*([A-Za-z]*)\s*", text)
    units = {"": 0, "bytes": 0, "b": 0, "kb": 1, "mb": 2, "gb": 3, "tb": 4, "pb": 5}
    if match is None:
        raise InvalidParameterValue(f'invalid size: "{text}"')
    if match[2].lower() not in units:
        raise InvalidParameterValue(
            f'invalid size: "{text}"', detail=f'Invalid size unit: "{match[2]}".',
            hint='Valid units are "bytes", "kB", "MB", "GB", "TB", and "PB".',
        )  # fmt: skip
    if len(match[1].lower().partition("e")[2]) > _EXPONENT_DIGITS:
        raise numeric_overflow()
    size = Decimal(match[1]) * 1024 ** units[match[2].lower()]
    rounded = int(size.quantize(Decimal(1), rounding=ROUND_HALF_UP)) if abs(size) <= 1 << 63 else 1 << 63
    if not -(1 << 63) <= rounded < 1 << 63:
        raise NumericValueOutOfRange("bigint out of range")
    return rounded


_EXPONENT_DIGITS = 6
"""More of them in an exponent are beyond numeric."""


def interval_out(value: Mapping[str, int], style: str) -> str:
    """Text of an interval."""
    return format_interval(Interval(value["months"], value["days"], value["micros"]), style)


def float8_in(text: str) -> float:
    """double precision input."""
    return read_float(text, single=False)


def float4_in(text: str) -> float:
    """real input."""
    return read_float(text, single=True)


def float8_out(value: float) -> str:
    """Text of a double precision value."""
    return format_float(value)


def float4_out(value: float) -> str:
    """Text of a real value."""
    return format_float(value, single=True)


def bytea_in(text: str) -> bytes:
    """bytea input."""
    value = parse_text(text, SqlType(types.BYTEA))
    assert isinstance(value, bytes)
    return value


def uuid_in(text: str) -> str:
    """uuid input."""
    value = parse_text(text, SqlType(types.UUID))
    assert isinstance(value, str)
    return value


def record_item(text: str, index: int, count: int) -> str | None:
    """The text of field `index` (from 0) of a row of `count` fields; None for NULL. Raises 22P02."""
    return list(record_items(text, count))[index]


_T, _I, _B = "VARCHAR", "INTEGER", "BLOB"


def record_field(text: str, index: int) -> str | None:
    """The text of field `index` (from 0) of a record in its text form; None for NULL."""
    number, position = 0, 1
    while True:
        value: list[str] = []
        quoted = False
        start = position
        while position < len(text):
            character = text[position]
            if character == '"':
                if quoted and text[position + 1 : position + 2] == '"':
                    value.append('"')
                    position += 1
                else:
                    quoted = not quoted
            elif character == "\\":
                position += 1
                value.append(text[position])
            elif not quoted and character in ",)":
                break
            else:
                value.append(character)
            position += 1
        if number == index:
            return None if position == start else "".join(value)
        number += 1
        position += 1


UDFS: Mapping[str, Udf] = {
    "tg_upper": Udf((_T,), _T, upper),
    "tg_initcap": Udf((_T,), _T, initcap),
    "tg_quote_identifier": Udf((_T,), _T, quote_identifier),
    "tg_quote_literal": Udf((_T,), _T, quote_literal),
    "tg_format": Udf((_T, "VARCHAR[]"), _T, format_text, nulls=True),
    "tg_string_to_array": Udf((_T, _T, _T), "VARCHAR[]", string_to_array, nulls=True),
    "tg_record_item": Udf((_T, _I, _I), _T, record_item),
    "tg_record_field": Udf((_T, _I), _T, record_field),
    "tg_convert_from": Udf((_B, _T), _T, convert_from),
    "tg_convert_to": Udf((_T, _T), _B, convert_to),
    "tg_convert": Udf((_B, _T, _T), _B, convert),
    "tg_length_in": Udf((_B, _T), _I, length_in),
    "tg_encode": Udf((_B, _T), _T, encode),
    "tg_decode": Udf((_T, _T), _B, decode),
    "tg_digest": Udf((_T, _B), _B, digest),
    "tg_substring_bytea": Udf((_B, _I, _I), _B, substring_bytea),
    "tg_get_byte": Udf((_B, _I), _I, get_byte),
    "tg_position_bytea": Udf((_B, _B), _I, lambda data, part: data.find(part) + 1),
    "tg_set_byte": Udf((_B, _I, _I), _B, set_byte),
    "tg_set_bit": Udf((_B, "BIGINT", _I), _B, set_bit),
    "tg_overlay_bytea": Udf((_B, _B, _I, _I), _B, overlay_bytea),
    "tg_trim_bytea": Udf((_B, _B, _T), _B, trim_bytea),
    "tg_get_bit": Udf((_B, "BIGINT"), _I, get_bit),
    "tg_unistr": Udf((_T,), _T, unistr),
    "tg_normalize": Udf((_T, _T), _T, normalize),
    "tg_parse_ident": Udf((_T, "BOOLEAN"), "VARCHAR[]", parse_ident),
    "tg_numeric_size": Udf((_T,), _I, numeric_size),
    "tg_size_pretty": Udf(("BIGINT",), _T, size_pretty),
    "tg_size_bytes": Udf((_T,), "BIGINT", size_bytes),
    "tg_interval_out": Udf((INTERVAL, _T), _T, interval_out),
    "tg_float8_in": Udf((_T,), "DOUBLE", float8_in),
    "tg_float4_in": Udf((_T,), "FLOAT", float4_in),
    "tg_float8_out": Udf(("DOUBLE",), _T, float8_out),
    "tg_float4_out": Udf(("FLOAT",), _T, float4_out),
    "tg_bytea_in": Udf((_T,), _B, bytea_in),
    "tg_uuid_in": Udf((_T,), _T, uuid_in),
    "tg_char_in": Udf((_T,), _T, char_text),
    "tg_char_of_integer": Udf((_I,), _T, char_of_integer),
    "tg_char_to_integer": Udf((_T,), _I, char_to_integer),
    "tg_like_bytea": Udf((_B, _B), "BOOLEAN", like_bytea),
    "tg_like_escape_bytea": Udf((_B, _B), _B, like_escape_bytea),
}
