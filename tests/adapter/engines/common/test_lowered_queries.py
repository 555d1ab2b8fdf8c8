"""What is kept of queries that were lowered."""

from __future__ import annotations

from typing import Any

import pytest

from adapter.engines.common.lowered_queries import LONG_VALUE, EngineText, KnownQuery
from tests.adapter.harness import Client


@pytest.mark.parametrize(("length", "kept"), [(100, True), (LONG_VALUE + 1, False)])
async def test_texts_with_long_values_are_not_kept(
    client: Client, monkeypatch: pytest.MonkeyPatch, length: int, kept: bool
) -> None:
    known: list[KnownQuery] = []
    text = KnownQuery.text

    def noted(self: KnownQuery, *given: Any) -> EngineText:
        known.append(self)
        return text(self, *given)

    monkeypatch.setattr(KnownQuery, "text", noted)
    await client.run("create table t (v text); insert into t values ('a')")
    await client.run("prepare p (text) as select length(v || $1) from t group by v")
    for _ in range(2):
        assert await client.rows(f"execute p('{'x' * length}')") == [(length + 1,)]
    assert known
    assert [query._latest is not None for query in known] == [kept] * len(known)
    assert [bool(query._texts) for query in known] == [kept] * len(known)
