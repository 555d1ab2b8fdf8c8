"""Character set encodings: text to the bytes of PostgreSQL's encodings and back.

What a client's encoding is called (`canonical_name`), and its text (`encoded`, `decoded`). Python's codecs are used
where they are PostgreSQL's conversions; the others, of several bytes a character, are tables that PostgreSQL was asked
for (`planner.catalog_data`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from planner.catalog_data.content import columns, conversions, encodings
from planner.errors import CharacterNotInRepertoire, FeatureNotSupported, UndefinedFunction, UntranslatableCharacter

UTF8 = "UTF8"
SQL_ASCII = "SQL_ASCII"
"""No encoding: bytes are taken and given as they are, which is UTF-8."""
_CODECS = {
    "LATIN1": "latin-1", "LATIN2": "iso8859-2", "LATIN3": "iso8859-3", "LATIN4": "iso8859-4", "LATIN5": "iso8859-9",
    "LATIN6": "iso8859-10", "LATIN7": "iso8859-13", "LATIN8": "iso8859-14", "LATIN9": "iso8859-15",
    "LATIN10": "iso8859-16", "ISO_8859_5": "iso8859-5", "ISO_8859_6": "iso8859-6", "ISO_8859_7": "iso8859-7",
    "ISO_8859_8": "iso8859-8", "WIN866": "cp866", "WIN874": "cp874", "WIN1250": "cp1250", "WIN1251": "cp1251",
    "WIN1252": "cp1252", "WIN1253": "cp1253", "WIN1254": "cp1254", "WIN1255": "cp1255", "WIN1256": "cp1256",
    "WIN1257": "cp1257", "WIN1258": "cp1258", "KOI8R": "koi8-r", "KOI8U": "koi8-u", "EUC_CN": "gb2312",
    "GB18030": "gb18030",
}  # fmt: skip
_EUC = frozenset({"EUC_JP", "EUC_CN", "EUC_KR", "EUC_TW", "EUC_JIS_2004", "JOHAB"})
_SHIFTED = frozenset({"SJIS", "SHIFT_JIS_2004"})
_SEVERAL = _EUC | _SHIFTED | {"BIG5", "GBK", "UHC", "GB18030"}
_SS2, _SS3 = 0x8E, 0x8F
"""What announces the further sets of characters of the EUC encodings."""
_ASCII = re.compile(rb"[\x01-\x7f]+")


@cache
def _names() -> Mapping[str, str]:
    own = {_plain(name): name for name in encodings().values()}
    return {**conversions().aliases, **own}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def canonical_name(name: str) -> str | None:
    """What PostgreSQL calls the encoding that is called `name` in any of the ways it knows; None for none."""
    return _names().get(_plain(name))


def is_convertible(name: str) -> bool:
    """Whether there is a conversion between UTF8 and the encoding `name` (canonical)."""
    return name in _CODECS or name in (UTF8, SQL_ASCII) or name in conversions().tables


@cache
def _default_conversions() -> frozenset[tuple[str, str]]:
    """From what encoding to what other one PostgreSQL converts."""
    found, names = columns("pg_conversion"), encodings()
    pairs = zip(found["conforencoding"], found["contoencoding"], strict=True)
    return frozenset((names[source], names[target]) for source, target in pairs)


def check_conversion(source: str, target: str) -> None:
    """Raises 42883 where PostgreSQL has no conversion from the encoding `source` to `target` (both canonical)."""
    if source == target or SQL_ASCII in (source, target) or (source, target) in _default_conversions():
        return
    raise UndefinedFunction(f'default conversion function for encoding "{source}" to "{target}" does not exist')


def codec_of(name: str) -> str | None:
    """Python's codec for the encoding `name` (canonical), None where there is none that converts as PostgreSQL does."""
    return "utf-8" if name in (UTF8, SQL_ASCII) else _CODECS.get(name)


def _invalid_utf8(data: bytes, start: int) -> CharacterNotInRepertoire:
    """PostgreSQL's error for the invalid UTF-8 sequence at `start`, showing the bytes that the first one announces."""
    first = data[start]
    length = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4 if first < 0xF8 else 1
    shown = " ".join(f"0x{byte:02x}" for byte in data[start : start + length])
    return CharacterNotInRepertoire(f'invalid byte sequence for encoding "UTF8": {shown}')


def encoded(text: str, name: str) -> bytes:
    """`text` in the encoding `name`. Raises 22P05 for a character that it has not, 0A000 for MULE_INTERNAL."""
    if text.isascii() or name in (UTF8, SQL_ASCII):
        return text.encode()
    codec = _CODECS.get(name)
    if codec is None:
        return _table(name).encoded(text)
    try:
        return text.encode(codec)
    except UnicodeEncodeError as error:
        raise _untranslatable(text[error.start].encode(), UTF8, name) from None


def _decoded_utf8(data: bytes) -> str:
    zero = data.find(0)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid_utf8(data, error.start if zero < 0 else min(zero, error.start)) from None
    if zero >= 0:
        raise _invalid_utf8(data, zero)
    return text


def decoded(data: bytes, name: str) -> str:
    """The text that `data` is in the encoding `name`. Raises 22021 for bytes that are none of it, zero among them,
    22P05 for a character that UTF-8 has not, 0A000 for what is no ASCII in MULE_INTERNAL."""
    if name in (UTF8, SQL_ASCII):
        return _decoded_utf8(data)
    if 0 in data:
        raise _invalid(data, data.index(0), name)
    codec = _CODECS.get(name)
    if codec is None:
        return data.decode("ascii") if data.isascii() and not is_convertible(name) else _table(name).decoded(data)
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        size = _size(data, error.start, name)
        if not _is_valid(data[error.start : error.start + size], size, name):
            raise _invalid(data, error.start, name) from None
        raise _untranslatable(data[error.start : error.start + size], name, UTF8) from None


def incomplete_end(data: bytes, name: str) -> int:
    """How many bytes at the end of `data` begin a character whose other bytes are missing."""
    if name not in _SEVERAL:
        return 0
    position, size = 0, 1
    while position < len(data):
        ascii_run = _ASCII.match(data, position)
        if ascii_run is not None:
            position = ascii_run.end()
            continue
        size = _size(data, position, name)
        if position + size > len(data):
            return len(data) - position
        position += size
    return 0


class _Table(Struct, frozen=True):
    name: str
    read: Mapping[bytes, str]
    written: Mapping[str, bytes]

    def encoded(self, text: str) -> bytes:
        found: list[bytes] = []
        position = 0
        while position < len(text):
            character = text[position]
            if character < "\x80":
                found.append(self.written.get(character) or character.encode())
                position += 1
                continue
            pair = self.written.get(text[position : position + 2]) if position + 1 < len(text) else None
            code = pair or self.written.get(character)
            if code is None:
                raise _untranslatable(character.encode(), UTF8, self.name)
            found.append(code)
            position += 1 if pair is None else 2
        return b"".join(found)

    def decoded(self, data: bytes) -> str:
        found: list[str] = []
        position = 0
        while position < len(data):
            ascii_run = _ASCII.match(data, position)
            if ascii_run is not None:
                found.append(ascii_run[0].decode())
                position = ascii_run.end()
                continue
            size = _size(data, position, self.name)
            code = data[position : position + size]
            if not _is_valid(code, size, self.name):
                raise _invalid(data, position, self.name)
            character = self.read.get(code)
            if character is None:
                raise _untranslatable(code, self.name, UTF8)
            found.append(character)
            position += size
        return "".join(found)


@cache
def _table(name: str) -> _Table:
    if not is_convertible(name):
        raise FeatureNotSupported(f"encoding {name} is not supported")
    data = conversions().tables[name]
    read: dict[bytes, str] = {}
    for start, characters in data.runs.items():
        size, first = len(start) // 2, int(start, 16)
        for place, character in enumerate(characters):
            read[(first + place).to_bytes(size)] = character
    read.update({bytes.fromhex(code): pair for code, pair in data.pairs.items()})
    read_only = set(map(bytes.fromhex, data.read_only))
    written = {text: code for code, text in read.items() if code not in read_only}
    written.update({text: bytes.fromhex(code) for text, code in data.written_only.items()})
    return _Table(name, read, written)


def _size(data: bytes, position: int, name: str) -> int:
    """How many bytes the character at `position` has, as its first bytes say (pg_encoding_mblen)."""
    first = data[position]
    if first < 0x80 or name not in _SEVERAL:
        return 1
    if name in _SHIFTED:
        return 1 if 0xA1 <= first <= 0xDF else 2
    if name == "GB18030":
        second = data[position + 1] if position + 1 < len(data) else 0
        return 4 if 0x30 <= second <= 0x39 else 2
    if name == "EUC_TW" and first == _SS2:
        return 4
    return 3 if first in ((_SS2, _SS3) if name == "EUC_CN" else (_SS3,)) and name in _EUC else 2


def _is_valid(code: bytes, size: int, name: str) -> bool:
    """Whether the bytes may be a character (PostgreSQL's verification of each encoding)."""
    if len(code) < size:
        return False
    if size == 1:
        return True
    first, rest = code[0], code[1:]
    plain = all(0xA1 <= byte <= 0xFE for byte in rest)
    if name in ("EUC_JP", "EUC_JIS_2004") and first == _SS2:
        return 0xA1 <= rest[0] <= 0xDF
    if name == "EUC_TW":
        return plain and first != _SS3 and (first != _SS2 or rest[0] <= 0xA7)
    if name == "JOHAB" or (name in ("EUC_JP", "EUC_JIS_2004") and first == _SS3):
        return plain
    if name in _EUC:
        return plain and 0xA1 <= first <= 0xFE
    if name in _SHIFTED:
        is_head = 0x81 <= first <= 0x9F or 0xE0 <= first <= 0xFC
        return is_head and (0x40 <= rest[0] <= 0x7E or 0x80 <= rest[0] <= 0xFC)
    if name == "GB18030":
        if size == 4:
            return 0x81 <= first <= 0xFE and 0x81 <= rest[1] <= 0xFE and 0x30 <= rest[2] <= 0x39
        return 0x81 <= first <= 0xFE and (0x40 <= rest[0] <= 0x7E or 0x80 <= rest[0] <= 0xFE)
    return 0 not in rest


def _invalid(data: bytes, position: int, name: str) -> CharacterNotInRepertoire:
    shown = _shown(data[position : position + _size(data, position, name)])
    return CharacterNotInRepertoire(f'invalid byte sequence for encoding "{name}": {shown}')


def _untranslatable(code: bytes, source: str, target: str) -> UntranslatableCharacter:
    return UntranslatableCharacter(
        f'character with byte sequence {_shown(code)} in encoding "{source}" has no equivalent in encoding "{target}"'
    )


def _shown(data: bytes) -> str:
    return " ".join(f"0x{byte:02x}" for byte in data)
