"""Parse trees are printed so that they are read back: with the parentheses that libpg_query leaves out."""

from __future__ import annotations

import pytest

from planner.definitions.deparse import query_text
from planner.syntax.libpg_query import parse, pb
from planner.syntax.parse import subtrees

OPERANDS = (
    "x", "greatest(a, b)", "array(select 1)", "coalesce(a)", "case when a then b end", "(select a)", "array[1]", "f(a)",
    "a || b", "a::int[]", "row(a, b)", "current_date", "a is distinct from b", "a = b", "a in (1)", "a between 1 and 2",
    "a like 'x'", "a is null", "not a", "a = any (b)", "exists (select 1)", "a > all (select 1)", "a similar to 'x'",
    "a and b", "a or b", "a is true", 'a collate "C"', "-a", "nullif(a, b)", "extract(year from a)", "$1", "1", "null",
    "a at time zone 'x'", "a not in (select 1)", "(a, b) overlaps (c, d)", "a[1]", "(a).b",
)  # fmt: skip
AROUND = (
    "({})[1]", "({}).f", "({}) is unknown", "({}) is null", "({})::int", '({}) collate "C"', "- ({})", "not ({})",
    "({}) + 1", "1 = ({})", "({}) in (1)", "1 in (({}))", "({}) between ({}) and ({})", "({}) like ({})",
    "({}) is distinct from ({})", "({}) and b", "a or ({})", "({}) at time zone 'x'", "({}) = any (({}))",
    "({}) in (select 1)", "({})[1:({})]",
)  # fmt: skip


def without_places(tree: pb.ParseResult) -> bytes:
    for part in list(subtrees(tree)):
        for descriptor, _ in part.ListFields():
            if "location" in descriptor.name or descriptor.name.endswith(("_start", "_end", "_len")):
                part.ClearField(descriptor.name)
    text: bytes = tree.SerializeToString(deterministic=True)
    return text


@pytest.mark.parametrize("around", AROUND)
def test_what_is_printed_is_read_back(around: str) -> None:
    for operand in OPERANDS:
        tree = parse(f"select {around.replace('{}', operand)}")
        text = query_text(tree.stmts[0].stmt)
        assert without_places(parse(text)) == without_places(tree), text
