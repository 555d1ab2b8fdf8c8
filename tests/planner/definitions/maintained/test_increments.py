"""Which changes of views follow from changes of tables, and by what query."""

from __future__ import annotations

import pytest

from planner.definitions.maintained.increments import change_of
from planner.ir.bound import BoundQuery
from planner.ir.nodes import OneRow

TABLES = {("public", "a"): 1, ("public", "b"): 2}
QUERY = BoundQuery(rel=OneRow())


def _change(definition: str, *changed: int) -> str | None:
    found = change_of(definition, QUERY, TABLES, set(changed))
    return None if found is None else found.text


def test_a_filter_is_applied_to_the_delta() -> None:
    assert _change("SELECT a.x FROM public.a a WHERE a.x > 1", 1) == (
        '(SELECT a.x, a."tidegate weight" AS "tidegate weight" FROM public."tidegate delta of 1" a WHERE a.x > 1)'
    )


def test_a_join_has_a_term_for_each_table_that_has_changed() -> None:
    definition = "SELECT a.x FROM public.a a JOIN public.b b ON a.x = b.x"
    text = _change(definition, 1, 2)
    assert text is not None
    first, second = text.split(" UNION ALL ")
    assert '"tidegate delta of 1" a JOIN public."tidegate before of 2" b' in first
    assert 'public.a a JOIN public."tidegate delta of 2" b' in second
    alone = _change(definition, 2)
    assert alone is not None
    assert 'public.a a JOIN public."tidegate delta of 2" b' in alone
    assert "UNION" not in alone


def test_rows_that_a_change_in_an_outer_join_or_a_subquery_can_reach_are_computed_again() -> None:
    text = _change("SELECT a.x FROM public.a a LEFT JOIN public.b b ON a.x = b.x", 2)
    assert text is not None
    now, before = text.split(" UNION ALL ")
    guard = 'WHERE EXISTS (SELECT 1 FROM public."tidegate delta of 2" b WHERE a.x = b.x)'
    assert now.count("public.b b") == before.count('"tidegate before of 2" b') == 1
    assert guard in now
    assert guard in before
    text = _change("SELECT a.x FROM public.a a WHERE NOT (a.x IN (SELECT b.x FROM public.b b))", 2)
    assert text is not None
    assert text.count("IS NOT FALSE") == 2


def test_groups_are_computed_again_where_they_are_touched() -> None:
    found = change_of("SELECT a.x, sum(a.y) FROM public.a a GROUP BY a.x HAVING sum(a.y) > 1", QUERY, TABLES, {1})
    assert found is not None
    ((name, touched),) = found.steps
    assert name == "tidegate affected"
    assert touched.startswith("SELECT DISTINCT k1 FROM ((SELECT a.x AS k1")
    assert found.text.count("HAVING") == 2
    assert found.text.count('"tidegate before of 1"') == 1


@pytest.mark.parametrize(
    "definition",
    [
        "SELECT a.x FROM public.a a FULL JOIN public.b b ON a.x = b.x",
        "SELECT a.x FROM public.a a LEFT JOIN (public.b b LEFT JOIN public.b c ON b.x = c.x) ON a.x = b.x",
        "SELECT a.x FROM public.a a LEFT JOIN public.b b USING (x)",
        "SELECT a.x, EXISTS (SELECT 1 FROM public.b b WHERE b.x = a.x) FROM public.a a",
        "SELECT a.x FROM public.a a UNION SELECT b.x FROM public.b b",
        "SELECT a.x FROM public.a a ORDER BY a.x LIMIT 1",
        "SELECT a.x FROM public.a a WHERE EXISTS (SELECT 1 FROM public.b b WHERE b.x = a.x OFFSET 1)",
        "SELECT a.x FROM public.a a WHERE a.x = (SELECT b.x FROM public.b b)",
        "SELECT s.x FROM (SELECT a.x FROM public.a a) s",
        "SELECT c.x FROM public.c c",
        "WITH w AS (SELECT 1) SELECT a.x FROM public.a a",
    ],
)
def test_other_queries_are_computed_anew(definition: str) -> None:
    assert _change(definition, 1) is None
