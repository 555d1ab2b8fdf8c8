"""What random expressions are made of, read from `vocabulary.txt`, which a reader extends by a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PLACE = re.compile(r"\{\{|\}\}|\{([a-z]+(?:\[\])?)\}")
"""A place in a template, or two braces that stand for one."""

_HEAD = re.compile(r"\[(\w+) (\S+)\]")


def _sections() -> dict[str, dict[str, tuple[str, ...]]]:
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    word = kind = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if head := _HEAD.fullmatch(line):
            word, kind = head[1], head[2]
            found.setdefault(word, {})[kind] = ()
        elif line and not line.startswith("#"):
            found[word][kind] += (line,)
    return found


_FOUND = _sections()
CONSTANTS: Mapping[str, tuple[str, ...]] = _FOUND["constants"]
"""Constants of each type, NULL among them."""
TEMPLATES: Mapping[str, tuple[str, ...]] = _FOUND["templates"]
"""How an expression of each type is made of others."""
AGGREGATES: Mapping[str, tuple[str, ...]] = _FOUND["aggregates"]
"""Aggregates of each type."""
