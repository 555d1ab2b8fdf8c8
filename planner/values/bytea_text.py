"""Text to bytes as PostgreSQL's encode.c and byteain do: hexadecimal, base64 and escapes; the text of a "char"."""

from __future__ import annotations

import base64
import re

from planner.errors import InvalidParameterValue, InvalidTextRepresentation

_BLANKS = " \n\t\r"
_NO_BLANKS = dict.fromkeys(map(ord, _BLANKS))
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}|[ \n\t\r])*")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_SIXES = {
    char: value
    for value, char in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}  # fmt: skip
_ESCAPE = re.compile(rb"\\(\\|[0-3][0-7]{2})|\\")


def from_hex(text: str) -> bytes:
    """Pairs of hexadecimal digits, with blanks between them. Raises 22023."""
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    index = 0
    while index < len(text):
        if text[index] in _BLANKS:
            index += 1
            continue
        pair = text[index : index + 2]
        bad = next((char for char in pair if char not in _HEX_DIGITS), None)
        if bad is not None:
            raise InvalidParameterValue(f'invalid hexadecimal digit: "{bad}"')
        index += 2
    raise InvalidParameterValue("invalid hexadecimal data: odd number of digits")


def from_base64(text: str) -> bytes:
    """Base64, with blanks anywhere. After padding more may follow, whose groups give as many bytes as the padded one.
    Raises 22023."""
    dense = text.translate(_NO_BLANKS)
    if _BASE64.fullmatch(dense):
        return base64.b64decode(dense)
    out = bytearray()
    group, count, kept = 0, 0, 3
    for char in dense:
        if char == "=":
            if kept == 3:
                if count not in (2, 3):
                    raise InvalidParameterValue('unexpected "=" while decoding base64 sequence')
                kept = count - 1
            six = 0
        elif char in _SIXES:
            six = _SIXES[char]
        else:
            raise InvalidParameterValue(f'invalid symbol "{char}" found while decoding base64 sequence')
        group, count = group << 6 | six, count + 1
        if count == 4:
            out += group.to_bytes(3, "big")[:kept]
            group = count = 0
    if count:
        raise InvalidParameterValue(
            "invalid base64 end sequence",
            hint="Input data is missing padding, is truncated, or is otherwise corrupted.",
        )
    return bytes(out)


def from_escapes(text: str) -> bytes:
    r"""Bytes as they are, with `\\` and `\ooo`. Raises 22P02."""

    def unescape(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        if code is None:
            raise InvalidTextRepresentation("invalid input syntax for type bytea")
        return b"\\" if code == b"\\" else bytes([int(code, 8)])

    return _ESCAPE.sub(unescape, text.encode())


_OCTAL = re.compile(r"\\([0-3][0-7][0-7])")


def char_text(text: str) -> str:
    """A "char" as PostgreSQL shows it (charin, charout): the first byte of `text`, or the one that it is the octal
    escape of; a byte beyond ASCII as its escape, byte 0 as nothing."""
    return char_of(char_byte(text))


def char_byte(text: str) -> int:
    """The byte that a "char" is, by its text."""
    escape = _OCTAL.fullmatch(text)
    return int(escape[1], 8) if escape else next(iter(text.encode()), 0)


def char_of(byte: int) -> str:
    """The text of the "char" that is `byte`."""
    return f"\\{byte:03o}" if byte >= 128 else chr(byte) if byte else ""
