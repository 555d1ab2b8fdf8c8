"""The classes of statements (`workload_class`), and what each gets of the machine.

`catalog` and `point` are answered at once, on threads that no other class uses. `interactive` ones share the cores.
`heavy` ones, `load` (statements that write much) and `maintenance` (refreshes, index builds) are few at a time, with
memory of their own, on threads that give way to all others. A statement that takes longer than its class allows goes on
in the heavier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from adapter.admission.machine import Machine, own_part
from adapter.execution_context import Purpose

WorkloadClass: TypeAlias = Literal["catalog", "point", "interactive", "heavy", "load", "maintenance"]

CLASSES: tuple[WorkloadClass, ...] = get_args(WorkloadClass)

AT_ONCE: frozenset[WorkloadClass] = frozenset({"catalog", "point"})
"""Classes of what is answered at once: they wait for nobody."""

LOCAL_SHARE = 4
"""The local engine has one of so many parts of the machine's memory."""

POINT_S = 0.02
"""What a statement is expected to take at most that is answered at once."""

INTERACTIVE_S = 4.0
"""What one is expected to take at most that somebody waits for."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one class gets. `databases` of the local engine are its own, each with `threads` and `memory` bytes; `slots`
    of its statements compute at a time there, and `spark_slots` on Spark, with `weight` in its FAIR pool. `nice` is
    what its threads give way to others by; after `allowed_s` its statements move to `heavier`."""

    slots: int
    threads: int
    memory: int
    nice: int
    spark_slots: int
    weight: int
    databases: int = 1
    allowed_s: float | None = None
    heavier: WorkloadClass | None = None


def limits_on(machine: Machine) -> Mapping[WorkloadClass, Limits]:
    """What each class gets of `machine`."""
    memory = own_part(machine.memory // LOCAL_SHARE)
    several = max(2, machine.cores // 4)
    some = max(min(machine.cores, 2), machine.cores // 2)
    point = Limits(
        slots=64, threads=1, memory=_at_least(memory // 16), nice=0, spark_slots=8, weight=8,
        allowed_s=0.25, heavier="interactive",
    )  # fmt: skip
    return {
        "catalog": point,
        "point": point,
        "interactive": Limits(
            slots=max(4, 2 * machine.cores), threads=machine.cores, memory=_at_least(memory // 4), nice=4,
            spark_slots=8, weight=4, allowed_s=INTERACTIVE_S, heavier="heavy",
        ),
        "heavy": Limits(
            slots=several, threads=some, memory=_at_least(memory // 2 // several), nice=10,
            spark_slots=6, weight=2, databases=several,
        ),
        "load": Limits(
            slots=2, threads=some, memory=_at_least(memory // 8 // 2), nice=10,
            spark_slots=6, weight=2, databases=2,
        ),
        "maintenance": Limits(
            slots=1, threads=1, memory=_at_least(memory // 16), nice=12, spark_slots=2, weight=1,
        ),
    }  # fmt: skip


def class_for(asked: str, *, expected_s: float, is_small: bool, is_catalog: bool, purpose: Purpose) -> WorkloadClass:
    """The class of a statement: what its session asks for (`workload_class`), or what its plan says. `is_small`: it
    reads nothing but what is in memory; `is_catalog`: system relations."""
    for name in CLASSES:
        if asked == name:
            return name
    if is_small and expected_s <= POINT_S:
        return "catalog" if is_catalog else "point"
    if purpose:
        return purpose
    return "interactive" if expected_s <= INTERACTIVE_S else "heavy"


def _at_least(size: int) -> int:
    """`size`, or what a database cannot do without."""
    return max(size, 64 << 20)
