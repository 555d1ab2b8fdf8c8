"""Use cases beside each other: `make bench NAME=isolation`.

One session reads rows by their key and one changes them, each statement a transaction of its own. What their answers
take, the median and the 99th of a hundred, is measured while nobody else is there, and beside each load of
`bench.isolation.loads`: TPC-H on Spark, large loads, large results, queries of the local engine that never end, many
writers, many open transactions, a subscriber that does not read, a statement with a long text. The aim is a 99th of at
most three times the quiet one. By default all is small and takes two minutes or so: see the options, and `--full`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg

from bench.isolation.loads import LOADS, WIDE, Size, loaded
from bench.isolation.probe import ROWS, Probe, probe
from bench.report import machine, print_json, print_table
from bench.tpch.load import copy_tables, create_tables, generate
from tests.support.server import AS_SHIPPED, run_server

AIM = 3.0
"""How many times the quiet 99th that beside a load may be."""

KINDS = ("read", "commit")
SETTLE_S = 1.0
"""From a load's begin to the first look."""

Measured = dict[str, dict[str, float]]
"""Figures by kind of statement."""

BEFORE = (
    "CREATE TABLE probed (id int PRIMARY KEY, n int NOT NULL, label text NOT NULL)",
    f"INSERT INTO probed SELECT g, 0, 'label ' || g FROM generate_series(1, {ROWS}) t(g)",
    "CREATE TABLE written (id bigint PRIMARY KEY, n int NOT NULL)",
    f"CREATE TABLE loaded ({', '.join(f'c{column} int' for column in range(10))})",
)


def percentile(times: Sequence[float], share: float) -> float:
    """The time within which `share` of the answers came."""
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def main(arguments: Sequence[str]) -> None:
    """Measures, prints a table and one line of JSON."""
    parser = argparse.ArgumentParser(prog="make bench NAME=isolation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="10 million rows, TPC-H SF 1, 30 s for each load")
    parser.add_argument("--seconds", type=float, help="how long each load is measured")
    parser.add_argument("--rows", type=int, help="rows of the loads and of the table that is fetched")
    parser.add_argument("--scale", type=float, help="TPC-H's scale factor")
    parser.add_argument("--idle", type=int, default=1000, help="sessions that are idle in a transaction")
    parser.add_argument("--only", help="loads whose names have this text in them")
    parser.add_argument("--workers", type=int, default=0, help="worker processes of the server")
    options = parser.parse_args(arguments)
    seconds = options.seconds or (30.0 if options.full else 5.0)
    rows = options.rows or (10_000_000 if options.full else 1_000_000)
    scale = options.scale or (1.0 if options.full else 0.01)
    names = [name for name in LOADS if options.only is None or options.only in name]
    folder = Path(tempfile.mkdtemp(prefix="tidegate-isolation-"))
    server_arguments = ["--max-connections", str(options.idle + 100)]
    if options.workers:
        server_arguments += ["--workers", str(options.workers)]
    results: dict[str, Measured] = {}
    try:
        with run_server(folder / "data", arguments=tuple(server_arguments), environment=AS_SHIPPED) as server:
            dsn = server.dsn()
            with psycopg.connect(dsn, autocommit=True) as connection:
                for text in BEFORE:
                    connection.execute(text.encode())
                wide = min(rows, 1_000_000)
                connection.execute(f"CREATE TABLE wide AS SELECT {WIDE} FROM generate_series(1, {wide}) t(g)".encode())
                if any(name.startswith("TPC-H") for name in names):
                    generate(folder / "tpch", scale)
                    create_tables(connection)
                    copy_tables(connection, folder / "tpch", progress=lambda *_: None)
                    connection.execute("SET engine = spark")
                    connection.execute("SELECT count(*) FROM lineitem")
            with probe(dsn, "read") as reader, probe(dsn, "commit") as committer:
                # From here on this process and its threads give way, so that the measured sessions do not wait for it.
                os.nice(10)
                size = Size(rows=rows, idle=options.idle, text=10_000_000)
                time.sleep(SETTLE_S)
                for name in ("quiet", *names):
                    probes = dict(zip(KINDS, (reader, committer), strict=True))
                    if name == "quiet":
                        measured = _measured(probes, seconds)
                    else:
                        with loaded(dsn, name, size) as load:
                            time.sleep(SETTLE_S)
                            measured = _measured(probes, seconds)
                            if load.errors:
                                print(f"{name}: {load.errors[0]}", file=sys.stderr)
                    results[name] = measured
                    time.sleep(SETTLE_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _report(results)


def _measured(probes: Mapping[str, Probe], seconds: float) -> Measured:
    """What the measured sessions are told in `seconds`."""
    for each in probes.values():
        each.times_ms()
    time.sleep(seconds)
    times = {kind: each.times_ms() for kind, each in probes.items()}
    return {
        kind: {
            "p50": round(statistics.median(found), 3),
            "p99": round(percentile(found, 0.99), 3),
            "max": round(max(found), 3),
            "statements": len(found),
        }
        for kind, found in times.items()
    }


def _report(results: Mapping[str, Measured]) -> None:
    quiet = results["quiet"]
    heading = ["beside"] + [f"{kind} {figure}" for kind in KINDS for figure in ("p50", "p99", "max", "times quiet")]
    lines = [heading]
    ratios: dict[str, float] = {}
    for name, measured in results.items():
        cells = [name]
        for kind in KINDS:
            ratio = measured[kind]["p99"] / quiet[kind]["p99"]
            if name != "quiet":
                ratios[f"{kind} beside {name}"] = round(ratio, 2)
            cells += [f"{measured[kind][figure]:.2f} ms" for figure in ("p50", "p99", "max")] + [f"{ratio:.1f}"]
        lines.append(cells)
    print(machine())
    print_table(lines)
    reached = sum(ratio <= AIM for ratio in ratios.values())
    print(f"aim: a 99th of at most {AIM:.0f} times the quiet one; reached by {reached} of {len(ratios)}")
    # The peer is ourselves while nobody else is there.
    better = {name: 1 / ratio for name, ratio in ratios.items()}
    counts = {f"{kind} beside {name}: p99 ms": round(measured[kind]["p99"], 2)
              for name, measured in results.items() for kind in KINDS}  # fmt: skip
    print_json("isolation", better, counts)


if __name__ == "__main__":
    main(sys.argv[1:])
