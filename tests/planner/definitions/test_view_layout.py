"""The layout of views' queries, which is PostgreSQL's."""

from __future__ import annotations

import pytest

from planner.definitions.shown.view_layout import layout


def shown(schema: str, name: str) -> str:
    return name if schema == "public" else f"{schema}.{name}"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT t.a, count(*) FROM public.t JOIN s.u AS u ON t.a = u.a LEFT JOIN public.w USING (a) "
            "WHERE t.a > 1 GROUP BY t.a HAVING count(*) > 2 ORDER BY 1 DESC NULLS LAST LIMIT 3 OFFSET 1",
            " SELECT t.a,\n    count(*) AS count\n   FROM t\n     JOIN s.u ON t.a = u.a\n     LEFT JOIN w USING (a)\n"
            "  WHERE t.a > 1\n  GROUP BY t.a\n HAVING count(*) > 2\n  ORDER BY 1 DESC NULLS LAST\n OFFSET 1\n LIMIT 3",
        ),
        (
            "SELECT a FROM public.t UNION ALL SELECT b FROM public.u",
            " SELECT a\n   FROM t\nUNION ALL\n SELECT b\n   FROM u",
        ),
        (
            "WITH q AS (SELECT a, b FROM public.t) SELECT s.a FROM q, (SELECT a FROM q WHERE b) AS s",
            " WITH q AS (\n         SELECT a,\n            b\n           FROM t\n        )\n SELECT s.a\n   FROM q,\n"
            "    ( SELECT a\n           FROM q\n          WHERE b) s",
        ),
        ("VALUES (1, 'x')", " VALUES (1,'x')"),
        (
            "SELECT 1 FROM generate_series(1, 3) AS g(n), public.t AS x FOR UPDATE",
            ' SELECT 1 AS "?column?"\n   FROM generate_series(1, 3) g(n),\n    t x\n FOR UPDATE',
        ),
    ],
)
def test_layout(query: str, expected: str) -> None:
    assert layout(query, shown) == expected


def test_columns_have_the_view_s_names() -> None:
    assert layout("SELECT a, 1 FROM public.t", shown, ["a", "b"]) == " SELECT a,\n    1 AS b\n   FROM t"
