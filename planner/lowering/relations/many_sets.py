"""Very many grouping sets, as one grouping.

An engine groups the rows for each set by itself, and what a set of its own takes of memory adds up: 500 of them take a
gigabyte for a hundred rows. So every row is joined to the sets, and what they are grouped by is the number of the set
and those keys that are in it; the others are NULL.
"""

from __future__ import annotations

from collections.abc import Callable

from planner.ir import nodes as ir
from planner.ir.rewrite import is_volatile
from planner.types.types import BOOL, INT4, SqlType

MANY_SETS = 64
"""So many are left to the engine."""


def has_many_sets(rel: ir.Aggregate) -> bool:
    """Whether `by_set_number` is for `rel`. A key that is volatile has to be computed once for each row."""
    sets = rel.grouping_sets
    return sets is not None and len(sets) > MANY_SETS and not any(map(is_volatile, rel.keys))


def by_set_number(rel: ir.Aggregate, new_id: Callable[[], int]) -> ir.Rel:
    """`rel` without grouping sets. Where there are no rows it has none, whatever the sets."""

    def field(name: str, type: SqlType) -> ir.Field:
        return ir.Field(id=new_id(), name=name, type=type)

    def ref(of: ir.Field) -> ir.ColumnRef:
        return ir.ColumnRef(id=of.id, type=of.type)

    sets = [frozenset(chosen) for chosen in rel.grouping_sets or ()]
    boolean, integer = SqlType(BOOL), SqlType(INT4)
    number = field("number", integer)
    inside = [field("inside", boolean) for _ in rel.keys]
    told = [field("told", integer) for _ in rel.groupings]
    rows = tuple([
        (
            ir.Literal(value=place, type=integer),
            *(ir.Literal(value=key in chosen, type=boolean) for key in range(len(rel.keys))),
            *(ir.Literal(value=_told(grouping, chosen), type=integer) for grouping in rel.groupings),
        )
        for place, chosen in enumerate(sets)
    ])  # fmt: skip
    numbered = ir.Values(rows=rows, fields=(number, *inside, *told))
    joined = ir.Join(
        kind="cross", left=rel.input, right=numbered, condition=None, lateral=False,
        fields=(*rel.input.fields, *numbered.fields),
    )  # fmt: skip
    keys = [
        ir.Case(whens=((ref(is_in), key),), otherwise=None, type=of.type)
        for is_in, key, of in zip(inside, rel.keys, rel.fields, strict=False)
    ]
    calls = rel.fields[len(keys) : len(keys) + len(rel.calls)]
    keyed = [field(of.name, of.type) for of in rel.fields[: len(keys)]]
    told_again = [field("told", integer) for _ in told]
    grouped = ir.Aggregate(
        input=joined,
        keys=(ref(number), *keys, *map(ref, told)),
        calls=rel.calls,
        fields=(
            field("number", integer),
            *keyed,
            *told_again,
            *(computed := [field(of.name, of.type) for of in calls]),
        ),
    )
    return ir.Project(input=grouped, exprs=tuple(map(ref, [*keyed, *computed, *told_again])), fields=rel.fields)


def _told(grouping: tuple[int, ...], chosen: frozenset[int]) -> int:
    """GROUPING(): a bit for each key, set where it is left out, the first one the highest."""
    value = 0
    for key in grouping:
        value = value << 1 | (key not in chosen)
    return value
