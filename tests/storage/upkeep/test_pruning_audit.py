"""The audit of pruning finds parts whose statistics are wrong, and nothing else."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from storage.doubles.clock import SeededRandomness
from storage.environment.environment import Environment
from storage.errors import CorruptPart
from storage.shards.parts import ColumnStats, Part, inline_part, part_may_match, read_table
from storage.upkeep.pruning_audit import PruningAudit, rows_match
from tests.storage.environments import Stores, create, insert


@dataclass(frozen=True)
class Wanted:
    column: str
    op: str
    value: Any = None


async def setup(share: float) -> tuple[Environment, Part, PruningAudit]:
    """An environment, a part of it whose statistics lie, and an audit."""
    env = await Stores().open()
    shard = await create(env)
    await insert(env, shard, (5, "five"), (7, "seven"))
    (part,) = (await env.reader.snapshot(shard, await env.oracle.read_ts("user"))).inserts
    wrong = msgspec.structs.replace(
        part, stats={**part.stats, "c1": ColumnStats(domain="int", min=6, max=7, null_count=0)}
    )
    return env, wrong, PruningAudit(lambda p, columns: env.parts.read(p, columns), SeededRandomness(1), share)


async def test_a_part_with_wrong_statistics_is_found() -> None:
    _, part, audit = await setup(1.0)
    conjunction = (Wanted("c1", "=", 5),)
    assert not part_may_match(part, "c1", "=", 5)
    with pytest.raises(CorruptPart, match=r"c1 = 5; check the environment with tidegate admin fsck"):
        await audit.left_out([part], [conjunction])
    assert audit.faults == 1
    await audit.left_out([part], [(Wanted("c1", "=", 8),), (Wanted("c1", "=", 5), Wanted("c2", "=", "seven"))])
    assert (audit.audited, audit.faults) == (2, 1)


async def test_a_server_samples_in_the_background_and_reports() -> None:
    _, part, audit = await setup(0.2)
    for _ in range(200):
        await audit.left_out([part], [(Wanted("c1", "=", 5),)])
    await audit.finished()
    assert audit.faults == audit.audited
    assert 10 < audit.audited < 100


async def test_environments_under_test_audit_everything() -> None:
    assert (await Stores().open()).pruning.share == 1.0


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [-3, 0, 7, None]),
    "float": (pa.float64(), [-1.5, 0.0, math.inf, math.nan, None]),
    "text": (pa.string(), ["", "a", "Ä", "zz" * 50, None]),
    "numeric": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal("2.00"), None]),
    "date": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2026, 1, 1), None]),
    "bool": (pa.bool_(), [False, True, None]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff" * 80, None]),
}


@pytest.mark.parametrize("kind", VALUES)
async def test_pruning_and_its_audit_agree_on_every_small_part(kind: str) -> None:
    type_, values = VALUES[kind]
    for size in (1, 2, 3):
        for start in range(len(values)):
            rows = [values[(start + n) % len(values)] for n in range(size)]
            part = inline_part("insert", pa.table({"c1": pa.array(rows, type_)}))
            assert part.inline is not None
            table = read_table(part, part.inline)
            for value in values:
                conditions = [Wanted("c1", op, value) for op in ("=", "<>", "<", "<=", ">", ">=")]
                conditions += [Wanted("c1", "in", (value, values[0])), Wanted("c1", "is null")]
                for condition in (*conditions, Wanted("c1", "is not null")):
                    if not part_may_match(part, "c1", condition.op, condition.value):
                        assert not rows_match(table, (condition,)), (rows, condition)


def test_conditions_are_evaluated_exactly() -> None:
    rows = pa.table({"c1": pa.array([1, None, 3]), "c2": pa.array([1.0, math.nan, None])})
    assert rows_match(rows, (Wanted("c1", ">", 2),))
    assert not rows_match(rows, (Wanted("c1", ">", 3),))
    assert not rows_match(rows, (Wanted("c1", "=", None),))
    assert rows_match(rows, (Wanted("c1", "is null"), Wanted("c2", ">", 5.0)))
    assert rows_match(rows, (Wanted("c2", "=", math.nan),))
    assert not rows_match(rows, (Wanted("c1", "=", 1), Wanted("c2", "is null")))
    assert not rows_match(rows, (Wanted("c9", "=", 1),))
    assert not rows_match(rows, (Wanted("c1", "=", "one"),))
    assert not rows_match(rows, ())
