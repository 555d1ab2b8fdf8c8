"""Every statement of the corpora is bound to IR that keeps the IR's promises."""

from __future__ import annotations

import json

from planner.analyze import BindContext, analyze
from planner.errors import SqlError
from planner.syntax.parse import split_and_parse
from tests.planner.invariants import check
from tests.planner.support import DATA, corpus_context, input_query, output_rel
from tests.planner.test_client_queries import FOLDER, context


def problems_of(sql: str, bind_context: BindContext, declared: tuple[int, ...] = ()) -> list[str]:
    """What is wrong with the IR of each statement in `sql`; nothing for those that are refused."""
    try:
        bound = [analyze(parsed, bind_context, declared) for parsed in split_and_parse(sql)]
    except SqlError:
        return []
    found = []
    for statement in bound:
        query, output = input_query(statement), output_rel(statement)
        if query is not None:
            found.extend(check(query.rel))
        if output is not None:
            found.extend(check(output))
    return found


def test_corpus() -> None:
    lines = [line for line in (DATA / "statements.sql").read_text().splitlines() if not line.startswith("--")]
    bad = {line: found for line in lines if (found := problems_of(line, corpus_context()))}
    assert bad == {}


def test_client_queries() -> None:
    bad = {}
    for file in sorted(FOLDER.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            case = json.loads(line)
            found = problems_of(case["sql"], context(), tuple(case["oids"]))
            if found:
                bad[case["sql"][:200]] = found
    assert bad == {}
