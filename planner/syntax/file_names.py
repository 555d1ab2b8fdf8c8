"""The format of a file by the end of its name, where a statement does not say it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PACKED = r"(?:\.(?:gz|zst|bz2|lz4))?"
_SUFFIXES = {
    "parquet": re.compile(r"\.(?:parquet|parq|pq)$", re.IGNORECASE),
    "orc": re.compile(r"\.orc$", re.IGNORECASE),
    "avro": re.compile(r"\.avro$", re.IGNORECASE),
    "json": re.compile(rf"\.(?:json|jsonl|ndjson){_PACKED}$", re.IGNORECASE),
    "csv": re.compile(rf"\.(?:csv|tsv){_PACKED}$", re.IGNORECASE),
}


def format_of(name: str) -> str:
    """parquet, orc, avro, json or csv; empty when the name says nothing."""
    return next((format for format, suffix in _SUFFIXES.items() if suffix.search(name)), "")


def table_format(options: Iterable[tuple[str, str]]) -> str:
    """The format of a foreign table with these options; empty when they do not say it."""
    given = dict(options)
    return given.get("format", format_of(given.get("path", ""))).lower()


def is_remote(options: Iterable[tuple[str, str]]) -> bool:
    """Whether a foreign table with these options is one of another database."""
    return any(name in ("table_name", "query") for name, _ in options)


def says_types(format: str) -> bool:
    """Whether files of `format`, or tables of it, say what types their columns have; others hold texts."""
    return format not in ("csv", "json")


def without_suffix(name: str) -> str:
    """`name` without what its format ends in."""
    suffix = _SUFFIXES.get(format_of(name))
    return name if suffix is None else suffix.sub("", name)
