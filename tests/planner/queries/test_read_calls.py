"""Which files a statement asks for (`planner.files.read_calls`)."""

from __future__ import annotations

import pytest

from planner.files import read_calls
from planner.ir.file_rows import FileRequest
from planner.syntax.parse import split_and_parse


def test_calls_are_found_anywhere() -> None:
    (parsed,) = split_and_parse("SELECT 1 WHERE EXISTS (SELECT * FROM READ_CSV('a.csv', header => true))")
    wanted = FileRequest(format="csv", patterns=("a.csv",), options=(("header", True),))
    assert read_calls.file_requests(parsed) == {wanted}


def test_the_tree_of_a_text_without_such_a_name_is_not_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """INSERT of 50,000 parameters spent two thirds of its time there."""
    monkeypatch.setattr(read_calls, "subtrees", lambda _: pytest.fail("walked"))
    (parsed,) = split_and_parse("INSERT INTO t VALUES ($1), ($2)")
    assert read_calls.file_requests(parsed) == frozenset()
