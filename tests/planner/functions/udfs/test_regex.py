"""Regular expressions: braces that are no counts, and matches that would never end."""

from __future__ import annotations

import threading
import time

import pytest

from planner.errors import InvalidRegularExpression, StatementTooComplex
from planner.functions.udfs import regex

ENDLESS = ("a" * 70 + "b", "(a|aa)+$")


def test_a_brace_without_a_number_is_a_brace() -> None:
    assert regex.replace("ab{e}c", "b{e}", "X", "g") == "aXc"
    assert regex.like("a{,2}", "a{,2}", "")
    assert not regex.like("ab", "ax{e}", "")
    assert regex.like("aab", "^a{2}b$", "")


def test_what_is_no_regular_expression_is_refused() -> None:
    for pattern in ("(", "[a"):
        with pytest.raises(InvalidRegularExpression):
            regex.like("x", pattern, "")


def test_a_match_without_end_is_given_up() -> None:
    for call in (
        lambda: regex.like(*ENDLESS, ""),
        lambda: regex.replace(*ENDLESS, "x", "g"),
        lambda: regex.split(*ENDLESS, "", "regexp_split_to_array"),
        lambda: regex.count(*ENDLESS[:1], ENDLESS[1], 1, ""),
    ):
        with pytest.raises(StatementTooComplex):
            call()


def test_other_threads_run_while_it_is_tried() -> None:
    turns = 0

    def count_turns() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    done = threading.Event()
    other = threading.Thread(target=count_turns)
    other.start()
    try:
        with pytest.raises(StatementTooComplex):
            regex.like(*ENDLESS, "")
    finally:
        done.set()
        other.join()
    assert turns > 20
