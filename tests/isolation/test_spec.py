"""The grammar of isolation specs."""

from __future__ import annotations

import pytest

from tests.isolation.page import page
from tests.isolation.spec import Blocker, parse_spec

EXAMPLE = """
# Two sessions.
setup { CREATE TABLE t (a int); }
setup { VACUUM t; }
teardown { DROP TABLE t; }
session s1
setup    { BEGIN; }
step w1  { INSERT INTO t VALUES (1);  }
step "c 1" { COMMIT; }
session s2
step w2  { INSERT INTO t VALUES (2) }
teardown { ROLLBACK; }
"""


def test_parts() -> None:
    spec = parse_spec(EXAMPLE)
    assert spec.setups == ["CREATE TABLE t (a int);", "VACUUM t;"]
    assert spec.teardown == "DROP TABLE t;"
    assert [(session.name, session.setup, session.teardown) for session in spec.sessions] == [
        ("s1", "BEGIN;", None),
        ("s2", None, "ROLLBACK;"),
    ]
    assert spec.sessions[0].steps[0].sql == "INSERT INTO t VALUES (1);"


def test_all_orders_when_none_is_named() -> None:
    orders = [[launch.step.name for launch in order] for order in parse_spec(EXAMPLE).permutations]
    assert orders == [["w1", "c 1", "w2"], ["w1", "w2", "c 1"], ["w2", "w1", "c 1"]]


def test_markers() -> None:
    spec = parse_spec(EXAMPLE + 'permutation w1 w2(*,"c 1",w1 notices 2) "c 1"\npermutation w2')
    assert [launch.blockers for launch in spec.permutations[0]] == [
        (),
        (Blocker(None), Blocker("c 1"), Blocker("w1", 2)),
        (),
    ]
    assert len(spec.permutations) == 2


def test_what_is_no_spec() -> None:
    with pytest.raises(ValueError, match="part of a spec"):
        parse_spec("nonsense { }")
    with pytest.raises(ValueError, match="expected"):
        parse_spec("session { }")


def test_the_page_says_why_a_spec_differs() -> None:
    text = page({"a": True, "b": False, "c": False}, {"b": "no triggers"})
    assert "1 of 3" in text
    assert "| `b` | no triggers |" in text
    assert "| `c` | not yet explained |" in text
