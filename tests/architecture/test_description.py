"""ARCHITECTURE.md says what is so: its two ways are walked in its order, and what it names exists."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from tests.architecture.house import ROOT, STOREYS

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WAYS = {"SELECT": "The way of a SELECT", "INSERT ... SELECT": "The way of an INSERT ... SELECT"}
MODULE = re.compile(rf"`((?:{'|'.join(STOREYS)})\.[a-z_.]+)`")


def section(title: str) -> str:
    return TEXT.split(f"## {title}\n")[1].split("\n## ")[0]


def listed(title: str) -> list[str]:
    """The modules that the numbered list under `title` names, in order."""
    items = section(title)[section(title).index("1. ") :]
    return MODULE.findall(items)


@lru_cache
def walked() -> dict[str, list[str]]:
    """By statement the modules that a repeated one enters, in the order in which it first does."""
    command = [sys.executable, str(Path(__file__).with_name("walks.py")), "--json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    return {statement: walks["hot"]["modules"] for statement, walks in json.loads(said).items()}


def out_of_order(names: list[str], modules: list[str]) -> list[str]:
    """The `names` that are not among `modules`, or come before one that is named before them."""
    found, last = [], -1
    for name in names:
        at = modules.index(name) if name in modules else -1
        if at < last or at < 0:
            found.append(name)
        last = max(last, at)
    return found


@pytest.mark.parametrize("statement", WAYS)
def test_the_way_is_walked_in_this_order(statement: str) -> None:
    names = listed(WAYS[statement])
    assert len(names) > 10
    assert out_of_order(names, walked()[statement]) == []


def test_a_wrong_order_is_noticed() -> None:
    assert out_of_order(["a", "c", "b", "d"], ["a", "b", "c"]) == ["b", "d"]


def test_what_is_named_exists() -> None:
    named = MODULE.findall(TEXT)
    assert all(importlib.util.find_spec(name) is not None for name in named)
    for link in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (ROOT / link).is_file(), link
    for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", section("A reading order for one afternoon")):
        assert any((ROOT / storey / path).is_file() for storey in ("", *STOREYS)), path
