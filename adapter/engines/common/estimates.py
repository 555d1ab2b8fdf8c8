"""What a query is expected to take on either engine, by what its plan reads and does: rough, and made in microseconds.

Rows are followed from the tables through the operators; each operator costs time for each row that it is given. What
conditions keep is guessed. The figures are those of a common core: what matters is whether a query takes milliseconds,
seconds or hours, and which engine is the faster one by far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from adapter.admission.classes import WorkloadClass, class_for
from adapter.engines.common.engine import TableInput
from adapter.execution_context import ExecutionContext
from adapter.plans.computed.constant_rows import constant_value
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import column_ids, conjuncts

LOCAL_START_S = 0.001
SPARK_START_S = 0.15
"""A job of a Spark that runs, for each of a query's stages."""
SPARK_LAUNCH_S = 5.0
"""Until Spark runs, when it does not."""

BYTES_A_SECOND = 400e6
"""Stored bytes that one core reads and unpacks, on the local engine."""
ROWS_A_SECOND = 50e6
"""Rows that one core takes through a simple operator, on the local engine."""
SPARK_SLOWER = 2.5
"""How much longer a core of Spark's needs for the same."""

UNKNOWN_ROWS = 1000.0
"""Rows of what cannot be seen."""
KEPT = 0.33
"""Share of rows that a condition keeps."""
ROUNDS = 10.0
"""Rounds of a recursive table."""
MOST = 1e15


class Estimate(Struct, frozen=True, kw_only=True):
    """Seconds on the local engine and on Spark, and rows of the result."""

    local_s: float
    spark_s: float
    rows: float

    def __str__(self) -> str:
        return f"local {shown(self.local_s)}, spark {shown(self.spark_s)}"


def shown(seconds: float) -> str:
    """A time in the unit that keeps it readable."""
    if seconds < 1:
        return f"{max(seconds * 1000, 1):.0f} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s" if seconds < 1e5 else "more than a day"


def estimate(
    query: BoundQuery, tables: Mapping[int, TableInput], params: Sequence[ir.Literal], *, cores: int, is_spark_up: bool
) -> Estimate:
    """What `query` over the pruned `tables` takes on so many cores, when nobody else is there."""
    walk = _Walk(tables, params)
    rows = walk.rows(query.rel)
    size = sum(table.bytes for table in tables.values()) + sum(table.bytes for table in query.files.values())
    work_s = size / BYTES_A_SECOND + walk.work / ROWS_A_SECOND
    start = SPARK_START_S * (1 + walk.stages) + (0 if is_spark_up else SPARK_LAUNCH_S)
    return Estimate(local_s=LOCAL_START_S + work_s / cores, spark_s=start + SPARK_SLOWER * work_s / cores, rows=rows)


def workload_class(
    query: BoundQuery,
    tables: Mapping[int, TableInput],
    params: Sequence[ir.Literal],
    context: ExecutionContext,
    *,
    cores: int,
    is_small: bool,
    on_spark: bool = False,
) -> WorkloadClass:
    """The class in which `query` begins. `is_small`: it reads nothing but what is in memory."""
    asked = context.settings.get("workload_class", "auto")
    expected = estimate(query, tables, params, cores=cores, is_spark_up=True)
    return class_for(
        asked,
        expected_s=expected.spark_s if on_spark else expected.local_s,
        is_small=is_small,
        is_catalog=query.system,
        purpose=context.purpose,
    )


class _Walk:
    """Follows the rows through a plan. `work`: rows that operators are given; `stages`: exchanges of rows that Spark
    needs."""

    def __init__(self, tables: Mapping[int, TableInput], params: Sequence[ir.Literal]) -> None:
        self._tables = tables
        self._params = params
        self._named: dict[int, float] = {}
        self._equal: list[ir.Scalar] = []
        """Conditions of equality that hold for what is above the operator at hand."""
        self.work = 0.0
        self.stages = 0

    def rows(self, rel: ir.Rel) -> float:
        """The rows of `rel`; what it takes is added to `work`."""
        return min(self._rows(rel), MOST)

    def _given(self, rows: float, times: float = 1.0) -> float:
        self.work = min(self.work + rows * times, MOST)
        return rows

    def _sorted(self, rows: float) -> float:
        self.stages += 1
        return self._given(rows, 1 + math.log2(rows + 2) / 2)

    def _rows(self, rel: ir.Rel) -> float:
        match rel:
            case ir.OneRow():
                return 1.0
            case ir.Scan(relation_oid=oid):
                return self._given(float(self._tables[oid].rows) if oid in self._tables else UNKNOWN_ROWS)
            case ir.Values():
                return self._given(float(len(rel.rows)))
            case ir.CteScan(cte=cte):
                return self._given(self._named.get(cte, UNKNOWN_ROWS))
            case ir.FunctionScan(functions=functions):
                return self._given(max((self._function_rows(call) for call in functions), default=1.0))
            case ir.ProjectSet(input=input, functions=functions):
                return self._given(
                    self.rows(input) * max((self._function_rows(call) for call in functions), default=1.0)
                )
            case ir.Filter(input=input, condition=condition):
                above, self._equal = self._equal, [*self._equal, *_equalities(condition)]
                rows = self.rows(input)
                self._equal = above
                return max(1.0, self._given(rows) * KEPT)
            case ir.Join():
                return self._joined(rel)
            case ir.Aggregate(input=input, keys=keys, calls=calls):
                rows = self._given(self.rows(input), 1 + len(calls) / 2)
                self.stages += 1
                return max(1.0, rows / 10) if keys else 1.0
            case ir.Window(input=input) | ir.Sort(input=input) | ir.Deduplicate(input=input):
                return self._sorted(self.rows(input))
            case ir.Limit(input=input, count=count):
                known = None if count is None else self._number(count)
                rows = self.rows(input)
                return rows if known is None else min(rows, known)
            case ir.Project(input=input) | ir.LockRows(input=input):
                return self._given(self.rows(input), 0.5)
            case ir.SetOperation(left=left, right=right, all=keeps):
                rows = self.rows(left) + self.rows(right)
                return rows if keeps else self._sorted(rows)
            case ir.With(tables=tables, body=body):
                for table in tables:
                    rows = self.rows(table.rel)
                    if table.step is not None:
                        self._named[table.id] = rows
                        before = self.work
                        rows += ROUNDS * self.rows(table.step)
                        self.work += (ROUNDS - 1) * (self.work - before)
                    self._named[table.id] = rows
                return self.rows(body)
            case _:
                return self._given(UNKNOWN_ROWS)

    def _joined(self, join: ir.Join) -> float:
        left, right = self.rows(join.left), self.rows(join.right)
        self._given(left + right, 2)
        self.stages += 1
        if join.lateral:
            return self._given(left * max(1.0, right))
        equal = [*self._equal, *([] if join.condition is None else _equalities(join.condition))]
        if _connects(equal, join):
            return max(left, right)
        rows = self._given(left * right)
        return rows if join.condition is None else max(left, rows * KEPT)

    def _number(self, expr: ir.Scalar) -> float | None:
        if isinstance(expr, ir.Cast):
            return self._number(expr.arg)
        known, value = constant_value(expr, self._params)
        return float(value) if known and isinstance(value, int | float) and not isinstance(value, bool) else None

    def _function_rows(self, call: ir.FunctionCall) -> float:
        """Rows of generate_series of constants, or so many as one cannot know."""
        if call.signature.name != "generate_series":
            return 10.0
        numbers = [self._number(arg) for arg in call.args]
        if len(numbers) < 2 or numbers[0] is None or numbers[1] is None:
            return UNKNOWN_ROWS
        step = numbers[2] if len(numbers) > 2 and numbers[2] else 1.0
        return max(0.0, (numbers[1] - numbers[0]) / step + 1)


def _equalities(condition: ir.Scalar) -> list[ir.Scalar]:
    """The parts that must hold and compare two values for equality."""
    return [
        part
        for part in conjuncts(condition)
        if isinstance(part, ir.Call) and part.signature.name == "=" and len(part.args) == 2
    ]


def _connects(equal: Sequence[ir.Scalar], join: ir.Join) -> bool:
    """Whether one of the conditions compares something of one side with something of the other."""
    left, right = ({field.id for field in side.fields} for side in (join.left, join.right))
    for part in equal:
        assert isinstance(part, ir.Call)
        one, other = (set(column_ids(arg)) for arg in part.args)
        if (one & left and other & right) or (one & right and other & left):
            return True
    return False
