"""TPC-H on a Spark cluster with an object store: `make cluster`.

Starts a master and two workers, an S3 server and a PostgreSQL for consensus on this machine, and two servers of ours on
these. The eight tables are loaded through COPY, and the 22 queries run on the executors, of which one is killed in the
middle; then UPDATE and DELETE on Spark, and the server is killed while its executors write. At last tables are
published, and pyiceberg reads them from the object store. Every answer is compared with that of a real PostgreSQL on
the same data. Exits with 1 if one differs, or if anything stays behind.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pyarrow.compute as pc
from pyiceberg.table import StaticTable

from bench.demo import CACHE, run_queries
from bench.tpch.load import copy_tables, create_tables, generate
from bench.tpch.oracle import answers
from storage.stores.object_place import ObjectFiles, ObjectPlace
from tests.storage.store_servers import S3Server, postgres_url
from tests.support.postgres import start_postgres
from tests.support.server import AS_SHIPPED, TidegateServer
from tests.support.spark_cluster import SparkCluster

CHANGES = (
    "UPDATE lineitem SET l_comment = 'seen' WHERE l_orderkey % 10 = 0",
    "DELETE FROM orders WHERE o_orderkey % 7 = 0",
)
SUMS = (
    "SELECT count(*), sum(l_extendedprice), count(*) FILTER (WHERE l_comment = 'seen') FROM lineitem",
    "SELECT count(*), sum(o_totalprice) FROM orders",
)
READ = {
    "lineitem": ("l_extendedprice", "l_comment = 'seen'"),
    "orders": ("o_totalprice", "o_orderstatus = 'F'"),
}
"""What readers of Iceberg add up, and count, of each table."""

WAIT_S = 120
"""How long what a killed server has left may stay."""


def parts(files: ObjectFiles) -> set[str]:
    """The objects that tasks wrote."""
    return {key for key in files.list("parts/") if key.count(".") == 5}


def run(connection: psycopg.Connection, other: psycopg.Connection, statements: tuple[str, ...]) -> bool:
    """Whether both servers answer alike; prints a line for each statement."""
    right = True
    for statement in statements:
        start = time.monotonic()
        ours = answer(connection, statement)
        print(f"  {time.monotonic() - start:6.1f} s  {statement}  {ours}")
        theirs = answer(other, statement)
        if ours != theirs:
            print(f"           PostgreSQL: {theirs}")
            right = False
    return right


def answer(connection: psycopg.Connection, statement: str) -> object:
    """The rows, or the command tag."""
    cursor = connection.execute(statement)
    return cursor.fetchall() if cursor.description else cursor.statusmessage


def readers_agree(ours: psycopg.Connection, theirs: psycopg.Connection, keys: Mapping[str, str]) -> bool:
    """Publishes the tables of `READ`; whether pyiceberg, with the `keys` of the object store, finds the rows that
    PostgreSQL has."""
    names = {"endpoint": "endpoint", "region": "region", "access_key_id": "access-key-id"}
    names["secret_access_key"] = "secret-access-key"
    properties = {f"s3.{names[name]}": value for name, value in keys.items()}
    for table in READ:
        ours.execute(f"ALTER TABLE {table} SET (iceberg = 'on')".encode())
    ours.execute(f"CALL tidegate.publish('{next(iter(READ))}')".encode())
    right = True
    for table, (column, condition) in READ.items():
        start = time.monotonic()
        text = "SELECT metadata_location FROM tidegate.iceberg_tables WHERE table_name = %s"
        ((location,),) = ours.execute(text, (table,)).fetchall()
        published = StaticTable.from_metadata(location, properties)
        rows = published.scan(selected_fields=(column,)).to_arrow()
        found = (rows.num_rows, pc.sum(rows.column(column)).as_py(), published.scan(row_filter=condition).count())
        print(f"  {time.monotonic() - start:6.1f} s  pyiceberg reads {table}  {found}")
        sums = f"SELECT count(*), sum({column}), count(*) FILTER (WHERE {condition}) FROM {table}"
        expected = theirs.execute(sums.encode()).fetchone()
        if found != expected:
            print(f"           PostgreSQL: {expected}")
            right = False
    return right


def kill_while_writing(server: TidegateServer, files: ObjectFiles) -> set[str]:
    """Kill `server` while its executors write; the objects that they have written then."""
    before = parts(files)

    def insert() -> None:
        with contextlib.suppress(psycopg.Error), psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("SET engine = spark")
            connection.execute("INSERT INTO lineitem SELECT l.* FROM lineitem l, nation")

    writer = threading.Thread(target=insert)
    writer.start()
    while writer.is_alive() and parts(files) == before:
        time.sleep(0.05)
    server.kill()
    writer.join()
    return parts(files) - before


def main() -> int:
    """Runs all of it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--scale-factor", type=float, default=0.1)
    options = parser.parse_args()
    data = CACHE / f"sf{options.scale_factor}"
    generate(data, options.scale_factor)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-cluster-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        postgres = stack.enter_context(start_postgres(settings=("work_mem=256MB",)))
        print("asking PostgreSQL for the answers", file=sys.stderr)
        expected = answers(postgres.dsn(), data)
        s3 = S3Server()
        stack.callback(s3.stop)
        keys = {"endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "test", "secret_access_key": "test"}
        place = ObjectPlace(root=f"s3://{s3.new_bucket()}/lake", options=keys)
        cluster = stack.enter_context(SparkCluster(folder / "cluster", workers=2))
        arguments = [*cluster.arguments, "--consensus", postgres_url(postgres), "--blob", place.root]
        for pair in keys.items():
            arguments += ["--blob-option", "=".join(pair)]
        servers = []
        for name in ("one", "two"):
            server = TidegateServer(
                folder / name, arguments=(*arguments, "--spark-start", "lazy"), environment=AS_SHIPPED
            )
            stack.callback(server.kill)
            server.start()
            servers.append(server)
        theirs = stack.enter_context(psycopg.connect(postgres.dsn(), autocommit=True))
        ours = stack.enter_context(psycopg.connect(servers[0].dsn(), autocommit=True))
        create_tables(ours)
        start = time.monotonic()
        counts = copy_tables(ours, data)
        print(f"loaded {sum(counts.values()):,} rows in {time.monotonic() - start:.1f} s")
        ours.execute("SET engine = spark")
        ours.execute("SELECT count(*) FROM region")
        killer = threading.Timer(20, cluster.kill_executor)
        killer.start()
        right, _ = run_queries(ours, "spark", expected)
        killer.join()
        print("\nan executor was killed meanwhile\n")
        alike = run(ours, theirs, (*CHANGES, *SUMS))
        files = place.open()
        written = kill_while_writing(servers[0], files)
        print(f"\nthe server was killed when its executors had written {len(written)} objects\n")
        there = stack.enter_context(psycopg.connect(servers[1].dsn(), autocommit=True))
        there.execute("SET engine = spark")
        alike = run(there, theirs, SUMS) and alike
        alike = readers_agree(there, theirs, keys) and alike
        deadline = time.monotonic() + WAIT_S
        while (left := written & parts(files)) and time.monotonic() < deadline:
            time.sleep(1)
        print(f"\n{right} of {len(expected)} queries right; {len(left)} objects left behind")
        return 0 if right == len(expected) and alike and not left else 1


if __name__ == "__main__":
    sys.exit(main())
