"""How benchmarks report: medians of interleaved runs, a table, and one closing line of JSON."""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def median_ms(samples: Sequence[float]) -> float:
    """The median of times in seconds, in milliseconds."""
    return statistics.median(samples) * 1000


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


def interleaved(
    runs: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    in_a_row: int = 1,
    warm_up: int = 2,
    budget_s: float = 60.0,
) -> dict[str, list[float]]:
    """Times each of `runs` in `rounds` turns, so that all see the same machine; seconds by name.

    A turn is `in_a_row` runs one after the other, as one client sends them: with a single one everybody is measured
    with what the others have left in the processor's caches. Stops early, after at least three rounds, when
    `budget_s` is spent.
    """
    for _ in range(warm_up):
        for run in runs.values():
            run()
    samples: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    for turn in range(rounds):
        for name, run in runs.items():
            for _ in range(in_a_row):
                before = time.perf_counter()
                run()
                samples[name].append(time.perf_counter() - before)
        if turn >= 2 and time.perf_counter() - start > budget_s:
            break
    return samples


def machine() -> str:
    """One line on what this was measured on."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Prints rows in aligned columns; the first row is the heading, the first column is left-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for index, row in enumerate(rows):
        cells = [
            cell.ljust(widths[0]) if column == 0 else cell.rjust(widths[column]) for column, cell in enumerate(row)
        ]
        print("  ".join(cells))
        if index == 0:
            print("  ".join("-" * width for width in widths))


def print_json(bench: str, ratios: Mapping[str, float], counts: Mapping[str, int | float]) -> None:
    """The closing line. A ratio says how many times better than the peer Tidegate is."""
    rounded = {name: round(value, 3) for name, value in ratios.items()}
    print(json.dumps({"bench": bench, "ratios": rounded, "counts": dict(counts)}))
