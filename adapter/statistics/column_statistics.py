"""What ANALYZE makes of the sampled values of a column, by PostgreSQL's rules (analyze.c: std_typanalyze,
compute_scalar_stats, compute_trivial_stats, analyze_mcv_list; rangetypes_typanalyze.c). Pure.

Values come sorted, equal ones numbered alike, each with its width and its place among the rows; of what is kept of them
(most common values, bounds of the histogram) the texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

MAX_WIDTH = 1024
"""Bytes of a value that may be among those kept (PostgreSQL's WIDTH_THRESHOLD)."""


class ColumnStatistics(Struct, frozen=True, kw_only=True):
    """Of one column, under pg_stats' names. `type_oid` is its type then: of a column that has another one by now they
    say nothing."""

    type_oid: int
    null_frac: float
    avg_width: int
    n_distinct: float = 0.0
    most_common_vals: tuple[str, ...] = ()
    most_common_freqs: tuple[float, ...] = ()
    histogram_bounds: tuple[str, ...] = ()
    correlation: float | None = None


class SampledValues(Struct, frozen=True, kw_only=True):
    """The values of a column in a sample of `rows` rows, those that are not NULL in their order: of each the number of
    the group of equal ones that it is in, the place of its row, its width, and its text (an Arrow array; NULL for wide
    ones)."""

    rows: int
    groups: Any
    places: Any
    widths: Any
    texts: Any


def counted_statistics(type_oid: int, rows: int, values: int, avg_width: float, n_distinct: float) -> ColumnStatistics:
    """Of a type without an order: only how many of the `rows` have a value is known of it, and how wide these are."""
    return ColumnStatistics(
        type_oid=type_oid, null_frac=(rows - values) / rows, avg_width=int(avg_width),
        n_distinct=n_distinct * values / rows,
    )  # fmt: skip


def scalar_statistics(type_oid: int, fixed: int, sample: SampledValues, total: float, target: int) -> ColumnStatistics:
    """Of a type with an order. `fixed`: its length, if all its values have the same, else below 1; `total`: how many
    rows the table has; `target`: its statistics target, which is not 0. The sample has rows."""
    count = len(sample.groups)
    null_frac = (sample.rows - count) / sample.rows
    if not count:
        return ColumnStatistics(type_oid=type_oid, null_frac=1.0, avg_width=max(fixed, 0))
    width = fixed if fixed > 0 else int(sample.widths.sum() / count)
    fits = sample.widths <= MAX_WIDTH
    wide = count - int(fits.sum())
    if wide == count:
        return ColumnStatistics(type_oid=type_oid, null_frac=null_frac, avg_width=width, n_distinct=null_frac - 1.0)
    kept = np.flatnonzero(fits)
    starts = np.flatnonzero(np.diff(sample.groups[kept], prepend=-1))
    counts = np.diff(starts, append=len(kept))
    n_distinct = _distinct(counts, wide, sample.rows, count, null_frac, total)
    common = _most_common(counts, wide, n_distinct, null_frac, sample.rows, total, target)
    freqs = tuple(float(counts[group]) / sample.rows for group in common)
    places = np.argsort(np.argsort(sample.places[kept]))
    return ColumnStatistics(
        type_oid=type_oid,
        null_frac=null_frac,
        avg_width=width,
        n_distinct=n_distinct,
        most_common_vals=_texts(sample, kept[starts[common]]),
        most_common_freqs=freqs,
        histogram_bounds=_texts(sample, kept[_bounds(counts, common, target)]),
        correlation=_correlation(places),
    )


def _texts(sample: SampledValues, places: Any) -> tuple[str, ...]:
    return tuple(sample.texts.take(places).to_pylist())


def _distinct(counts: Any, wide: int, rows: int, values: int, null_frac: float, total: float) -> float:
    """pg_stats.n_distinct: below 0 where it seems to grow with the table."""
    distinct, several = len(counts), int((counts > 1).sum())
    if several == 0:
        return null_frac - 1.0
    if wide == 0 and several == distinct:
        found = float(distinct)
    else:
        # The estimator Duj1 of Haas and Stokes.
        once = distinct - several + wide
        known = once + several
        there = total * (1.0 - null_frac)
        found = values * known / ((values - once) + once * values / there) if there > 0 else 0.0
        found = math.floor(min(max(found, known), there) + 0.5)
    return -(found / total) if found > 0.1 * total else found


def _most_common(
    counts: Any, wide: int, n_distinct: float, null_frac: float, rows: int, total: float, target: int
) -> Any:
    """The groups of the most common values, the commonest first."""
    several = np.flatnonzero(counts > 1)
    order = several[np.argsort(-counts[several], kind="stable")][:target]
    if len(order) == len(counts) and wide == 0 and n_distinct > 0:
        return order
    return order[: _worth_keeping(counts[order].tolist(), n_distinct, null_frac, rows, total)]


def _worth_keeping(counts: Sequence[int], n_distinct: float, null_frac: float, rows: int, total: float) -> int:
    """How many of the values are so much commoner than the rest that it is no accident (analyze_mcv_list)."""
    found = len(counts)
    if rows == total or total <= 1.0:
        return found
    distinct = -n_distinct * total if n_distinct < 0 else n_distinct
    before = float(sum(counts[:-1]))
    while found > 0:
        share = min(max(1.0 - before / rows - null_frac, 0.0), 1.0)
        others = distinct - (found - 1)
        if others > 1:
            share /= others
        there = total * counts[found - 1] / rows
        variance = rows * there * (total - there) * (total - rows) / (total * total * (total - 1))
        if counts[found - 1] > share * rows + 2 * math.sqrt(max(variance, 0.0)) + 0.5:
            break
        found -= 1
        if found:
            before -= counts[found - 1]
    return found


def _bounds(counts: Any, common: Any, target: int) -> Any:
    """The places, among the values that are kept, of those that divide the ones which are not among the most common
    into parts of equal size."""
    size = min(len(counts) - len(common), target + 1)
    if size < 2:
        return np.empty(0, np.int64)
    is_common = np.zeros(len(counts), bool)
    is_common[common] = True
    others = np.flatnonzero(~np.repeat(is_common, counts))
    last = len(others) - 1
    return others[[at * last // (size - 1) for at in range(size)]]


def _correlation(places: Any) -> float | None:
    """How far the order of the rows is that of the values."""
    count = len(places)
    if count < 2:
        return None
    products = float(np.dot(np.arange(count, dtype=np.float64), places.astype(np.float64)))
    whole = (count - 1) * count / 2.0
    squares = (count - 1) * count * (2 * count - 1) / 6.0
    return (count * products - whole * whole) / (count * squares - whole * whole)
