"""The statements of docs/views.md run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.adapter.harness import connect, open_server

PAGE = Path(__file__).resolve().parents[3] / "docs" / "views.md"


async def test_the_statements_of_the_page_run() -> None:
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    async with open_server() as server:
        client = await connect(server)
        for block in blocks:
            await client.run(block)
        assert await client.value("select count(*) from large where amount = 5000") == 1
        shown = dict(await client.rows("select viewname, refresh from tidegate.materialized_views"))
        assert shown == {"totals": "manual", "recent": "every", "large": "on commit"}
        read = [line for (line,) in await client.rows("explain select * from large") if line.startswith("Materialized")]
        assert read[0].startswith("Materialized view large: its ")
