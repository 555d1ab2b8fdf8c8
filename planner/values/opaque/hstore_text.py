"""hstore: sets of pairs of a key and a text or NULL, held as the text that they are shown as (PostgreSQL 15, F.18).

That text has one form for each set, with its keys in their order: shorter ones first, then by their bytes.

    "a"=>"1", "b"=>NULL, "key"=>"some \\"text\\""
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping

from planner.errors import SqlError

Pairs = Mapping[str, str | None]
"""The pairs of one hstore. Mappings of this module are in the order of the keys."""

_PAIR = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:NULL|"((?:[^"\\]|\\.)*)")', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SPACE = " \t\n\r\v\f"


class HstoreError(SqlError):
    """What hstore_in cannot read. PostgreSQL 15 gives it no SQLSTATE of its own: clients see that of internal errors
    there too."""


def pairs_of(text: str) -> Pairs:
    """The pairs of an hstore as it is held."""
    found = [(match[1], match[2]) for match in _PAIR.finditer(text)]
    if "\\" not in text:
        return dict(found)
    return {_plain(key): None if value is None else _plain(value) for key, value in found}


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


def _quoted(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return text.replace('"', '\\"')


def show_hstore(pairs: Pairs) -> str:
    """hstore_out of pairs that are in the order of their keys: how they are held."""
    return ", ".join(
        [
            f'"{_quoted(key)}"=>NULL' if value is None else f'"{_quoted(key)}"=>"{_quoted(value)}"'
            for key, value in pairs.items()
        ]
    )


def _place(pair: tuple[str, str | None]) -> tuple[int, bytes]:
    key = pair[0].encode()
    return len(key), key


def ordered(pairs: Iterable[tuple[str, str | None]]) -> Pairs:
    """The pairs in the order of their keys. Of several with one key the first stays (hstoreUniquePairs)."""
    found: dict[str, str | None] = {}
    for key, value in sorted(pairs, key=_place):
        found.setdefault(key, value)
    return found


def parse_hstore(text: str) -> str:
    """hstore_in: the hstore that `text` stands for, as it is held. Raises the syntax errors of PostgreSQL."""
    return show_hstore(ordered(_Reader(text).pairs()))


class _Reader:
    """Reads what hstore_in takes (parse_hstore in hstore_io.c)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def pairs(self) -> Iterable[tuple[str, str | None]]:
        while True:
            key = self._word(is_value=False)
            if key is None:
                return
            if self._after_space() != "=":
                raise self._wrong()
            self._at += 1
            if self._text[self._at : self._at + 1] != ">":
                raise self._wrong()
            self._at += 1
            value = self._word(is_value=True)
            if value is None:
                raise self._ended()
            word, is_quoted = value
            yield key[0], None if not is_quoted and word.lower() == "null" else word
            after = self._after_space()
            if after == "":
                return
            if after != ",":
                raise self._wrong()
            self._at += 1

    def _after_space(self) -> str:
        """The next character that is no white space, where reading goes on; empty at the end."""
        text = self._text
        while self._at < len(text) and text[self._at] in _SPACE:
            self._at += 1
        return text[self._at : self._at + 1]

    def _word(self, *, is_value: bool) -> tuple[str, bool] | None:
        """A key or a value, and whether it is in double quotes; None at the end (get_val)."""
        first = self._after_space()
        if first == "":
            return None
        if first == '"':
            self._at += 1
            return self._quoted(), True
        if first == "=" and not is_value:
            raise self._wrong()
        text, end = self._text, "," if is_value else "="
        found: list[str] = []
        while self._at < len(text):
            char = text[self._at]
            if char == "\\":
                self._at += 1
                if self._at == len(text):
                    raise self._ended()
                char = text[self._at]
            elif found and (char == end or char in _SPACE):
                break
            found.append(char)
            self._at += 1
        return "".join(found), False

    def _quoted(self) -> str:
        text, found = self._text, list[str]()
        while self._at < len(text):
            char = text[self._at]
            self._at += 1
            if char == '"':
                return "".join(found)
            if char == "\\":
                if self._at == len(text):
                    break
                char = text[self._at]
                self._at += 1
            found.append(char)
        raise self._ended()

    def _wrong(self) -> HstoreError:
        if self._at >= len(self._text):
            return self._ended()
        place = len(self._text[: self._at].encode())
        return HstoreError(f'Syntax error near "{self._text[self._at]}" at position {place}')

    def _ended(self) -> HstoreError:
        return HstoreError("Unexpected end of string")


def order_key(pairs: Pairs) -> bytes:
    """What hstores are ordered by (hstore_cmp): the bytes of all keys and values, how many there are, then where each
    ends and which are NULL. Texts have no zero bytes."""
    if not pairs:
        return b""
    end, texts, entries = 0, [], []
    for pair in pairs.items():
        for text in pair:
            data = b"" if text is None else text.encode()
            end += len(data)
            texts.append(data)
            entries.append(struct.pack(">I?", end, text is None))
    return b"".join([*texts, b"\0", struct.pack(">I", len(pairs)), *entries])
