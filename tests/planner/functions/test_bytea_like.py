"""LIKE of bytea: many wildcards take no more time than one."""

from __future__ import annotations

import pytest

from planner.functions.udfs.text import like_bytea


@pytest.mark.parametrize(
    ("data", "pattern", "matches"),
    [
        (b"abc", b"a%c", True), (b"abc", b"a_c", True), (b"abc", b"%b%", True), (b"abc", b"a%b", False),
        (b"abab", b"%ab", True), (b"aab", b"%a%ab", True), (b"ab", b"%a%ab", False), (b"", b"%", True),
        (b"", b"", True), (b"a%", b"a\\%", True), (b"ab", b"a\\%", False), (b"a\nb", b"a%b", True),
        (b"xaybz", b"x%a%_z", True), (b"aa", b"a%%a", True), (b"a", b"a%a", False),
    ],
)  # fmt: skip
def test_bytes_are_like(data: bytes, pattern: bytes, matches: bool) -> None:
    assert like_bytea(data, pattern) is matches


def test_many_wildcards_end() -> None:
    assert not like_bytea(b"a" * 200_000, b"%a" * 12 + b"%b")
