"""Run simulations: ``python -m tests.simulation --seeds 500``, or one again with ``--seed 17 --trace 200``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.run import Outcome, run

OUTPUT = sys.stdout

PROGRESS_S = 30.0
"""How often a long run says how far it is, on stderr."""


def outcomes(seeds: range, workers: int) -> Iterator[Outcome]:
    """The outcome of each seed, as they finish."""
    if workers == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=4)


def main() -> int:
    """Run the seeds asked for; the exit status is 1 when one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed only and say more about it")
    parser.add_argument("--trace", type=int, default=0, help="with --seed: print the last so many lines of its trace")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes to run them in")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failing seed")
    options = parser.parse_args()
    if options.seed is not None:
        outcome = run(options.seed, keep_lines=options.trace)
        OUTPUT.write("".join(f"{line}\n" for line in outcome.trace[-options.trace :] if options.trace))
        OUTPUT.write(f"{replace(outcome, trace=())}\n")
        return 1 if outcome.problems else 0
    totals = dict.fromkeys(("committed", "failed", "in_doubt", "kills", "switches", "faults", "steps"), 0)
    failing: list[int] = []
    done = 0
    told = time.monotonic()
    for outcome in outcomes(range(options.first, options.first + options.seeds), options.workers):
        done += 1
        for name in totals:
            totals[name] += getattr(outcome, name)
        if outcome.problems:
            failing.append(outcome.seed)
            OUTPUT.write(f"seed {outcome.seed} failed; again with: python -m tests.simulation --seed {outcome.seed}\n")
            OUTPUT.write("".join(f"    {problem[:2000]}\n" for problem in outcome.problems[:5]))
            OUTPUT.flush()
            if not options.keep_going:
                break
        if time.monotonic() - told >= PROGRESS_S:
            told = time.monotonic()
            sys.stderr.write(f"{done} of {options.seeds} seeds, {len(failing)} failed\n")
    summary = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in totals.items())
    OUTPUT.write(f"{done} seeds: {len(failing)} failed; {summary}\n")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
