"""Small statements and start-up against another checkout of Tidegate: whether a change made them dearer.

    python -m bench.bench_before OTHER_CHECKOUT

Both servers run at once, each on its own data directory, and are asked in turn; start-ups are in turn too, alone on the
machine. A ratio is the other one's median time divided by ours: above 1, this checkout is faster.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg

from bench.report import interleaved, machine, median_ms, print_json, print_table
from tests.support.server import AS_SHIPPED, ROOT, TidegateServer, run_server

ROWS = 100
LAZY = ("--spark-start", "lazy")
STATEMENTS: dict[str, Callable[[int], str]] = {
    "SELECT 1": lambda _: "SELECT 1",
    "point read": lambda _: "SELECT id, label FROM small WHERE id = 42",
    "aggregate": lambda _: "SELECT kind, count(*), sum(id) FROM small GROUP BY kind",
    "INSERT of one row": lambda number: f"INSERT INTO grown VALUES ({number}, 'label')",
    "INSERT ... SELECT": lambda _: "INSERT INTO grown SELECT id, label FROM small WHERE id < 3",
}


def start_up(checkout: Path, folder: Path) -> float:
    """Seconds from starting a server on a data directory that exists to the answer of its first statement."""
    server = TidegateServer(folder, arguments=LAZY, environment=AS_SHIPPED, checkout=checkout)
    before = time.perf_counter()
    server.start()
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SELECT 1").fetchall()
        return time.perf_counter() - before
    finally:
        server.kill()


def prepare(connection: psycopg.Connection) -> None:
    """The tables, alike on both servers."""
    connection.execute("CREATE TABLE small (id int NOT NULL, kind int NOT NULL, label text NOT NULL)")
    rows = ", ".join(f"({number}, {number % 7}, 'label {number}')" for number in range(ROWS))
    connection.execute(f"INSERT INTO small VALUES {rows}".encode())
    connection.execute("CREATE TABLE grown (id int NOT NULL, label text NOT NULL)")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m bench.bench_before", description=__doc__)
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument(
        "--in-a-row", type=int, default=5, help="statements to one server before the other has its turn"
    )
    parser.add_argument("--starts", type=int, default=9, help="start-ups of each")
    options = parser.parse_args()
    checkouts = {"ours": ROOT, "other": options.other.resolve()}
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    samples: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with ExitStack() as serving:
            connections = {}
            for name, checkout in checkouts.items():
                server = serving.enter_context(
                    run_server(folder / name, arguments=LAZY, environment=AS_SHIPPED, checkout=checkout)
                )
                connections[name] = serving.enter_context(psycopg.connect(server.dsn(), autocommit=True))
                connections[name].prepare_threshold = None
                prepare(connections[name])
            for statement, text in STATEMENTS.items():
                numbers = itertools.count()

                def runner(
                    connection: psycopg.Connection,
                    text: Callable[[int], str] = text,
                    numbers: itertools.count[int] = numbers,
                ) -> Callable[[], object]:
                    return lambda: connection.execute(text(next(numbers)).encode())

                runs = {name: runner(connection) for name, connection in connections.items()}
                samples[statement] = interleaved(
                    runs, rounds=options.rounds, in_a_row=options.in_a_row, warm_up=20, budget_s=30.0
                )
        starts = {
            name: (lambda name=name, checkout=checkout: start_up(checkout, folder / name))
            for name, checkout in checkouts.items()
        }
        samples["start-up"] = interleaved(starts, rounds=options.starts, warm_up=1, budget_s=120.0)
    print(machine())
    rows = [["", "ours, ms", "other, ms", "ratio"]]
    ratios: dict[str, float] = {}
    for statement, times in samples.items():
        ours, other = median_ms(times["ours"]), median_ms(times["other"])
        ratios[statement] = other / ours
        rows.append([statement, f"{ours:.2f}", f"{other:.2f}", f"{ratios[statement]:.2f}"])
    print_table(rows)
    print_json("before", ratios, {"rounds": options.rounds, "starts": options.starts})


if __name__ == "__main__":
    main()
