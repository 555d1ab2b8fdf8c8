"""pg_trgm: similarity of texts by their trigrams (PostgreSQL 15, appendix F.35).

A word is a run of letters and digits, lower case, with two spaces before it and one behind it. The similarity of two
texts is the share of common trigrams among all of theirs. The word similarity of a text to another is the greatest
similarity of its trigrams to those of an extent of the other: an extent that begins and ends at words' bounds for the
strict one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from planner.functions.udfs.table import Udf

_WORD = re.compile(r"[^\W_]+")


def _words(text: str) -> list[list[str]]:
    """The trigrams of each word, in order."""
    padded = [f"  {word.lower()} " for word in _WORD.findall(text)]
    return [[word[at : at + 3] for at in range(len(word) - 2)] for word in padded]


def _trigrams(text: str) -> set[str]:
    return {trigram for word in _words(text) for trigram in word}


def shown(text: str) -> list[str]:
    """show_trgm(): in the order of their bytes, which have signs; those that are not three bytes by a hash, as
    PostgreSQL stores them."""
    stored = sorted((_stored(trigram) for trigram in _trigrams(text)), key=lambda data: struct.unpack("3b", data))
    return [data.decode() if data.isascii() and data.decode().isprintable() else f"0x{data.hex()}" for data in stored]


def _stored(trigram: str) -> bytes:
    data = trigram.encode()
    return data if len(data) == 3 else struct.pack("<I", _legacy_crc(data))[:3]


def _table() -> Sequence[int]:
    entries = []
    for entry in range(256):
        for _ in range(8):
            entry = entry >> 1 ^ (0xEDB88320 if entry & 1 else 0)
        entries.append(entry)
    return entries


_CRC_TABLE = _table()


def _legacy_crc(data: bytes) -> int:
    """The checksum that PostgreSQL keeps for its old uses: a table for one bit order, used in the other (pg_crc.h)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc >> 24 ^ byte) & 0xFF] ^ crc << 8 & 0xFFFFFFFF
    return crc ^ 0xFFFFFFFF


def similarity(one: str, other: str) -> float:
    """similarity()."""
    a, b = _trigrams(one), _trigrams(other)
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def word_similarity(one: str, other: str, strict: bool) -> float:
    """word_similarity() and strict_word_similarity() of `one` in `other`."""
    wanted = _trigrams(one)
    words = _words(other)
    if not wanted or not words:
        return 0.0
    if strict:
        extents = _word_extents(words, wanted)
    else:
        extents = _extents([trigram for word in words for trigram in word], wanted)
    return extents


def _best(found: int, of: int, wanted: int) -> float:
    return found / (wanted + of - found)


def _extents(trigrams: Sequence[str], wanted: set[str]) -> float:
    ends = [at for at, trigram in enumerate(trigrams) if trigram in wanted]
    best = 0.0
    for begin in ends:
        seen: set[str] = set()
        found = 0
        for at in range(begin, len(trigrams)):
            trigram = trigrams[at]
            if trigram in seen:
                continue
            seen.add(trigram)
            if trigram in wanted:
                found += 1
                best = max(best, _best(found, len(seen), len(wanted)))
    return best


def _word_extents(words: Sequence[Sequence[str]], wanted: set[str]) -> float:
    best = 0.0
    for begin in range(len(words)):
        seen: set[str] = set()
        for word in words[begin:]:
            seen.update(word)
            best = max(best, _best(len(seen & wanted), len(seen), len(wanted)))
    return best


_T = "VARCHAR"

UDFS: Mapping[str, Udf] = {
    "tg_trigrams": Udf((_T,), "VARCHAR[]", shown),
    "tg_trigram_similarity": Udf((_T, _T), "FLOAT", similarity),
    "tg_trigram_word_similarity": Udf((_T, _T, "BOOLEAN"), "FLOAT", word_similarity),
}
