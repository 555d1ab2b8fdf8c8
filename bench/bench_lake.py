"""The open lake: `make bench NAME=lake`.

Four things, each beside what one would use instead, on the same files in the same run:

- TPC-H: Parquet files of others become the tables (`CALL tidegate.add_files`), and the 22 queries run on our Spark and
  on a plain Spark session over the very same files. Once more with the two large tables written by us, laid out
  (`LAYOUTS`), while plain Spark still reads the files of others.
- Bringing data in: add_files, COPY FROM and INSERT ... SELECT of `lineitem`, beside Spark's own write of it.
- Planning: EXPLAIN of a read that needs one file, of tables of 100, 10,000 and 100,000 files, and what a file takes of
  the server's memory.
- Small commits while the table is published as an Iceberg table, and while it is not.

A ratio says how many times better than the peer we are; of publishing, how many commits are left, by the clock and by
the server's processor time, which says more where others use the machine.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from bench.iceberg_spark import IcebergInSpark, iceberg_in_spark, is_installed
from bench.peers import plain_pyspark
from bench.report import geometric_mean, interleaved, machine, median_ms, print_json, print_table
from bench.tpch.load import TABLES, queries
from tests.support.server import AS_SHIPPED, TidegateServer, run_server

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "tpch"
DRIVER_MEMORY = "4g"
FILES_A_CALL = 10_000
WRITERS = 8
PLANS = 50
LAYOUTS = {
    "lineitem": "partition_by = 'year(l_shipdate)', sort_by = 'l_shipdate'",
    "orders": "partition_by = 'year(o_orderdate)', sort_by = 'o_orderdate'",
}
"""How one lays out tables that are asked for by their dates."""

PARTS = ["tpch", "laid-out", "bringing-in", "planning", "publishing"]
Ratios = dict[str, float]
Counts = dict[str, int | float]


def seconds(run: Callable[[], object]) -> float:
    """How long it takes."""
    before = time.perf_counter()
    run()
    return time.perf_counter() - before


def generated(scale_factor: float) -> Path:
    """The folder with a Parquet file for each table."""
    folder = CACHE / f"parquet-{scale_factor:g}"
    if not all((folder / f"{table}.parquet").exists() for table in TABLES):
        command = str(Path(sys.executable).with_name("tpchgen-cli"))
        subprocess.run([command, "parquet", "-s", f"{scale_factor:g}", "--output-dir", str(folder)], check=True)
    return folder


def add_tables(connection: psycopg.Connection, data: Path) -> float:
    """Makes tables of the files; the seconds that add_files takes for all."""
    total = 0.0
    for table in TABLES:
        path = data / f"{table}.parquet"
        connection.execute(f"CREATE TABLE {table} () WITH (definition_from = '{path}')".encode())
        total += seconds(partial(connection.execute, f"CALL tidegate.add_files('{table}', '{path}')".encode()))
    return total


def lay_out(connection: psycopg.Connection, data: Path) -> float:
    """Makes tables of the files by writing them anew, some laid out; the seconds that it takes."""
    before = time.perf_counter()
    connection.execute("SET engine = spark")
    for table in TABLES:
        path, options = data / f"{table}.parquet", LAYOUTS.get(table)
        given = "" if options is None else f", {options}"
        connection.execute(f"CREATE TABLE {table} () WITH (load_from = '{path}'{given})".encode())
    return time.perf_counter() - before


def fetched(connection: psycopg.Connection, text: str) -> int:
    """Runs a query on our side; how many rows it has."""
    return len(connection.execute(text.encode()).fetchall())


def collected(spark: Any, text: str) -> int:
    """The same on plain Spark."""
    return len(spark.sql(text.rstrip().rstrip(";")).collect())


def tpch(
    server: TidegateServer,
    spark: Any,
    data: Path,
    rounds: int,
    wanted: list[int],
    ratios: Ratios,
    counts: Counts,
    *,
    iceberg: IcebergInSpark | None = None,
    laid_out: bool = False,
) -> None:
    """The queries that are `wanted` (empty: all 22), of tables in a schema of their own."""
    name = "laid_out" if laid_out else "tpch"
    assert server.process is not None
    processes = {"ours": psutil.Process(server.process.pid)}
    if iceberg is not None:
        processes["iceberg"] = psutil.Process(iceberg.process.pid)
    clock: dict[int, dict[str, float]] = {}
    cost: dict[int, dict[str, float]] = {}
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}; SET search_path = {name}".encode())
        taken = (lay_out if laid_out else add_tables)(connection, data)
        counts[f"{name}_load_s"] = round(taken, 3)
        for table in TABLES:
            spark.read.parquet(str(data / f"{table}.parquet")).createOrReplaceTempView(table)
        connection.execute("SET engine = spark")
        for number, text in [each for each in queries() if not wanted or each[0] in wanted]:
            runs: dict[str, Callable[[], object]] = {
                "ours": partial(fetched, connection, text),
                "theirs": partial(collected, spark, text),
            }
            if iceberg is not None:
                runs["iceberg"] = partial(iceberg.count, text.rstrip().rstrip(";"))
            clock[number], cost[number] = by_turns(runs, processes, rounds)
            took = ", ".join(f"{side} {each:.2f} s ({cost[number][side]:.2f})" for side, each in clock[number].items())
            print(f"{name} q{number:02}: {took}", flush=True)
        connection.execute(f"RESET search_path; DROP SCHEMA {name} CASCADE".encode())
    print(f"\n{name}")
    peers = {"theirs": "Spark", "iceberg": "Iceberg in Spark"}
    for peer in [each for each in peers if each in next(iter(clock.values()))]:
        rows: list[list[str]] = [["query", "Tidegate", peers[peer], "ratio", "of the processor", peers[peer], "ratio"]]
        for number in clock:
            rows.append([f"q{number:02}"])
            for each in (clock[number], cost[number]):
                rows[-1] += [f"{each['ours']:.2f} s", f"{each[peer]:.2f} s", f"{each['ours'] / each[peer]:.2f}"]
        print_table(rows)
        beside = name if peer == "theirs" else f"{name}_{peer}"
        for suffix, found in (("", clock), ("_processor", cost)):
            better = [each[peer] / each["ours"] for each in found.values()]
            total = {side: sum(each[side] for each in found.values()) for side in ("ours", peer)}
            ratios[f"{beside}_total{suffix}"] = total[peer] / total["ours"]
            ratios[f"{beside}_mean{suffix}"] = geometric_mean(better)
            ratios[f"{beside}_worst{suffix}"] = min(better)


def by_turns(
    runs: Mapping[str, Callable[[], object]], processes: Mapping[str, psutil.Process], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of `rounds` turns of `runs`, after one that does not count: the seconds, and those of the processor, of
    the one of `processes` that is called so with its children, else of the other children of this process."""
    clocks: dict[str, list[float]] = {name: [] for name in runs}
    costs: dict[str, list[float]] = {name: [] for name in runs}
    but = tuple(processes.values())
    for number in range(rounds + 1):
        for name, run in runs.items():
            before = processors_s(processes.get(name), but)
            taken = seconds(run)
            cost = processors_s(processes.get(name), but) - before
            if number:
                clocks[name].append(taken)
                costs[name].append(cost)
    medians = [{name: statistics.median(each) for name, each in found.items()} for found in (clocks, costs)]
    return medians[0], medians[1]


def bringing_in(
    server: TidegateServer, spark: Any, data: Path, scratch: Path, rounds: int, ratios: Ratios, counts: Counts
) -> None:
    """The table `lineitem` in five ways by turns, each into a new table or folder, after a turn that does not count."""
    path = data / "lineitem.parquet"
    assert server.process is not None
    ours = psutil.Process(server.process.pid)
    clocks: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        ways = {
            "add_files": f"CALL tidegate.add_files('add_files', '{path}')",
            "copy": f"COPY copy FROM '{path}'",
            "insert": f"INSERT INTO insert SELECT * FROM read_parquet('{path}')",
            "own_table": "INSERT INTO own_table SELECT * FROM copy",
        }
        connection.execute("SET engine = spark")
        frame = spark.read.parquet(str(path))
        for number in range(rounds + 1):
            connection.execute("CREATE SCHEMA ways; SET search_path = ways")
            for name in ways:
                connection.execute(f"CREATE TABLE {name} () WITH (definition_from = '{path}')".encode())
            runs: dict[str, Callable[[], object]] = {
                name: partial(connection.execute, text.encode()) for name, text in ways.items()
            }
            runs["spark"] = partial(frame.write.parquet, str(scratch / f"written-{number}"))
            for name, run in runs.items():
                root = None if name == "spark" else ours
                before = processors_s(root, [ours])
                taken = seconds(run)
                cost = processors_s(root, [ours]) - before
                if number:
                    clocks.setdefault(name, []).append(taken)
                    costs.setdefault(name, []).append(cost)
            connection.execute("RESET search_path; DROP SCHEMA ways CASCADE")
            shutil.rmtree(scratch / f"written-{number}")
    clock = {name: statistics.median(each) for name, each in clocks.items()}
    cost_of = {name: statistics.median(each) for name, each in costs.items()}
    print(f"\nlineitem, {path.stat().st_size / 1e6:.0f} MB")
    rows = [(name, f"{clock[name]:.2f} s", f"{cost_of[name]:.2f} s") for name in clock]
    print_table([("way", "time", "of the processor"), *rows])
    for name in ways:
        ratios[f"bring_{name}"] = clock["spark"] / clock[name]
        ratios[f"bring_{name}_processor"] = cost_of["spark"] / cost_of[name]
    counts["lineitem_bytes"] = path.stat().st_size


def processors_s(root: psutil.Process | None, but: Sequence[psutil.Process]) -> float:
    """The processor's time that `root` and its children have taken; without it, that of the children of this process
    but those."""
    trees = [each for each in psutil.Process().children() if each not in but] if root is None else [root]
    total = 0.0
    for each in [process for tree in trees for process in (tree, *tree.children(recursive=True))]:
        times = each.cpu_times()
        total += times.user + times.system
    return total


def resident_bytes(server: TidegateServer) -> int:
    """What the server's process has in memory."""
    assert server.process is not None
    for line in Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no memory is told")


def processor_s(server: TidegateServer) -> float:
    """The processor's time that the server's process has taken."""
    assert server.process is not None
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


def planning(server: TidegateServer, files: list[int], folder: Path, counts: Counts) -> None:
    """EXPLAIN of a read of one row, of tables of so many files."""
    rows = [("files", "planning", "of the processor", "memory of a file")]
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for number in files:
            table = f"files_{number}"
            connection.execute(f"CREATE TABLE {table} (k bigint, v text)".encode())
            before = resident_bytes(server)
            for first in range(0, number, FILES_A_CALL):
                into = folder / table / str(first)
                into.mkdir(parents=True)
                for place in range(first, min(first + FILES_A_CALL, number)):
                    rows_of = pa.table({"k": [place * 10, place * 10 + 9], "v": ["a", "b"]})
                    pq.write_table(rows_of, into / f"{place}.parquet", compression="none")
                connection.execute(f"CALL tidegate.add_files('{table}', '{into}', checksum => false)".encode())
            taken = (resident_bytes(server) - before) / number
            text = f"EXPLAIN SELECT v FROM {table} WHERE k = {number * 5 // 10 * 10}"
            fetched(connection, text)
            started = processor_s(server)
            samples = interleaved({"plan": partial(fetched, connection, text)}, rounds=PLANS, warm_up=0)
            cost = (processor_s(server) - started) / PLANS * 1000
            took = median_ms(samples["plan"])
            counts[f"plan_{number}_ms"], counts[f"bytes_a_file_{number}"] = round(took, 2), round(taken)
            counts[f"plan_{number}_processor_ms"] = round(cost, 2)
            rows.append((str(number), f"{took:.1f} ms", f"{cost:.1f} ms", f"{taken:.0f} B"))
            connection.execute(f"DROP TABLE {table}".encode())
    print()
    print_table(rows)


def inserts(server: TidegateServer, table: str, duration_s: float) -> float:
    """Rows a second that `WRITERS` clients insert one by one."""
    until = time.monotonic() + duration_s

    def insert(place: int) -> int:
        count = 0
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            while time.monotonic() < until:
                connection.execute(f"INSERT INTO {table} VALUES (%s, 'some text')".encode(), (place * 10**6 + count,))
                count += 1
        return count

    with ThreadPoolExecutor(WRITERS) as pool:
        return sum(pool.map(insert, range(WRITERS))) / duration_s


def publishing(server: TidegateServer, duration_s: float, rounds: int, ratios: Ratios, counts: Counts) -> None:
    """Small commits to a table that is published and to one that is not, by turns."""
    found: dict[str, list[float]] = {"off": [], "on": []}
    costs: dict[str, list[float]] = {"off": [], "on": []}
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        for way in found:
            connection.execute(f"CREATE TABLE commits_{way} (id bigint, v text)".encode())
        connection.execute("ALTER TABLE commits_on SET (iceberg = 'on')")
        inserts(server, "commits_off", duration_s / 3)
        for _ in range(rounds):
            for way, rates in found.items():
                connection.execute(f"ALTER TABLE commits_on SET (iceberg = '{way}')".encode())
                before = processor_s(server)
                rates.append(inserts(server, f"commits_{way}", duration_s))
                costs[way].append((processor_s(server) - before) / (rates[-1] * duration_s) * 1000)
    medians = {way: statistics.median(each) for way, each in found.items()}
    print(f"\nsmall commits a second: {medians['off']:.0f} unpublished, {medians['on']:.0f} published")
    print(f"processor time of a commit: {min(costs['off']):.2f} ms unpublished, {min(costs['on']):.2f} ms published")
    ratios["publishing"] = medians["on"] / medians["off"]
    ratios["publishing_processor"] = min(costs["off"]) / min(costs["on"])
    counts["commits_per_s"] = round(medians["off"], 1)


def main() -> int:
    """Runs the benchmark; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make bench NAME=lake", description=__doc__)
    parser.add_argument("--scale-factor", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, nargs="+", default=[100, 10_000, 100_000])
    parser.add_argument("--queries", type=int, nargs="+", default=[], help="of TPC-H; all without it")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--seconds", type=float, default=15.0, help="of small commits, each time")
    arguments = parser.parse_args()
    data = generated(arguments.scale_factor)
    scratch = Path(tempfile.mkdtemp(prefix="bench-lake-"))
    ratios: Ratios = {}
    counts: Counts = {"scale_factor": arguments.scale_factor}
    print(machine())
    server_arguments: tuple[str, ...] = ("--allow-path", str(data), "--allow-path", str(scratch), "--spark-conf")
    server_arguments += (f"spark.driver.memory={DRIVER_MEMORY}",)
    try:
        with run_server(scratch / "data", arguments=server_arguments, environment=AS_SHIPPED) as server:
            if not {"tpch", "laid-out", "bringing-in"}.isdisjoint(arguments.parts):
                with plain_pyspark([("spark.driver.memory", DRIVER_MEMORY)]) as spark:
                    if "tpch" in arguments.parts:
                        given = (arguments.rounds, arguments.queries, ratios, counts)
                        if is_installed():
                            with iceberg_in_spark(data, scratch / "iceberg", DRIVER_MEMORY) as iceberg:
                                tpch(server, spark, data, *given, iceberg=iceberg)
                        else:
                            print("Iceberg in Spark: not installed; scripts/setup.sh iceberg")
                            tpch(server, spark, data, *given)
                    if "laid-out" in arguments.parts:
                        given = (arguments.rounds, arguments.queries, ratios, counts)
                        tpch(server, spark, data, *given, laid_out=True)
                    if "bringing-in" in arguments.parts:
                        bringing_in(server, spark, data, scratch, arguments.rounds, ratios, counts)
            if "planning" in arguments.parts:
                planning(server, arguments.files, scratch / "files", counts)
            if "publishing" in arguments.parts:
                publishing(server, arguments.seconds, arguments.rounds, ratios, counts)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print_json("lake", ratios, counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
