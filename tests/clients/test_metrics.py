"""`--http`: what Prometheus reads, and who may."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.postgres import free_port
from tests.support.server import run_server


def samples(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What /metrics says, by name and labels."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def status(url: str, headers: dict[str, str] | None = None, context: ssl.SSLContext | None = None) -> int:
    """The status of an answer."""
    try:
        request = urllib.request.Request(url, headers=headers or {})
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def labels(**values: str) -> tuple[tuple[str, str], ...]:
    """Labels as `samples` has them."""
    return tuple(sorted(values.items()))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_done_is_counted(workers: int, tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--spark-start", "lazy", "--http", f"127.0.0.1:{port}", "--workers", str(workers))
    url = f"http://127.0.0.1:{port}"
    with run_server(tmp_path / "data", arguments=arguments) as server:
        assert status(f"{url}/healthz") == status(f"{url}/readyz") == 200
        assert status(f"{url}/nothing") == 404
        connections = [psycopg.connect(server.dsn(), autocommit=True) for _ in range(4)]
        one = connections[0]
        one.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
        before = samples(url)
        for number, connection in enumerate(connections):
            for _ in range(3):
                connection.execute("SELECT b FROM t WHERE a = 1")
            connection.execute("INSERT INTO t VALUES (%s, 'x')", (number,))
            connection.execute("SELECT count(*), sum(a) FROM t CROSS JOIN generate_series(1, 10)")
            with pytest.raises(psycopg.errors.UniqueViolation):
                connection.execute("INSERT INTO t VALUES (%s, 'x')", (number,))
        one.execute("BEGIN")
        # What is counted after the answer may come a moment later.
        time.sleep(0.2)
        after = samples(url)

        def more(name: str, **having: str) -> float:
            key = (name, labels(**having))
            return after.get(key, 0.0) - before.get(key, 0.0)

        assert more("tidegate_statement_seconds_count", kind="SELECT", engine="none") == 12
        assert more("tidegate_statement_seconds_count", kind="SELECT", engine="local") == 4
        assert more("tidegate_statement_seconds_count", kind="INSERT", engine="none") == 4
        assert more("tidegate_statement_seconds_bucket", kind="SELECT", engine="none", le="+Inf") == 12
        assert more("tidegate_statement_seconds_sum", kind="SELECT", engine="local") > 0
        assert more("tidegate_errors_total", sqlstate="23505") == 4
        assert more("tidegate_transactions_committed_total") == 4
        assert more("tidegate_commit_groups_total") >= 1
        assert after["tidegate_connections_total", ()] == 4
        assert after["tidegate_sessions", labels(state="idle")] == 3
        assert after["tidegate_sessions", labels(state="idle in transaction")] == 1
        assert 0 <= after["tidegate_loop_stall_seconds", ()] < 60
        assert after["tidegate_process_resident_memory_bytes", ()] > 50e6 * workers
        for connection in connections:
            connection.close()


def test_what_the_parts_of_a_server_do_is_told(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("--spark-start", "lazy", "--http", f"127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}"
    with run_server(tmp_path / "data", arguments=arguments) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as one, psycopg.connect(server.dsn()) as other:
            one.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            one.execute("CREATE MATERIALIZED VIEW seen AS SELECT count(*) FROM t")
            before = samples(url)
            assert before["tidegate_view_lag_seconds", labels(database="postgres", schema="public", view="seen")] == 0
            for number in range(20):
                one.execute("INSERT INTO t VALUES (%s, 'x')", (number,))
            one.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(100, 5000) n")
            one.execute("SELECT count(*) FROM t")
            one.execute("SELECT count(*) FROM t")
            other.execute("UPDATE t SET b = 'y' WHERE a = 1")
            one.execute("SET lock_timeout = 30")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                one.execute("UPDATE t SET b = 'z' WHERE a = 1")
            other.rollback()
            one.execute("CREATE MATERIALIZED VIEW made AS SELECT 1")
            one.execute("REFRESH MATERIALIZED VIEW made")
            time.sleep(3)
            after = samples(url)

        def more(name: str, **having: str) -> float:
            key = (name, labels(**having))
            return after.get(key, 0.0) - before.get(key, 0.0)

        assert more("tidegate_store_operations_total", store="consensus", operation="compare_and_set") >= 21
        assert more("tidegate_store_operations_total", store="blob", operation="put_if_absent") >= 1
        assert more("tidegate_store_bytes_total", store="blob", direction="written") > 0
        assert after["tidegate_store_failures_total", labels(store="consensus", operation="compare_and_set")] == 0
        assert more("tidegate_lock_wait_seconds_count", kind="tuple") == 1
        assert 0.02 <= more("tidegate_lock_wait_seconds_sum", kind="tuple") < 10
        assert more("tidegate_loop_delay_seconds_count") >= 20
        assert more("tidegate_compactions_total") >= 1
        assert more("tidegate_compacted_parts_total") >= 8
        assert more("tidegate_compaction_written_bytes_total") > 0
        assert after["tidegate_compaction_waiting_shards", ()] >= 0
        assert after["tidegate_upkeep_troubles", ()] == 0
        assert more("tidegate_cache_lookups_total", cache="plans", result="hit") >= 1
        assert after["tidegate_cache_bytes", labels(cache="parts")] >= 0
        assert {("what", "statement")} in [set(of) for name, of in after if name == "tidegate_retries_total"]
        assert after["tidegate_servers", ()] == 1
        assert after["tidegate_transactions_undone", labels(kind="staged")] == 0
        assert sum(value for (name, _), value in after.items() if name == "tidegate_view_refreshes_total") == 3
        assert after["tidegate_spilled_bytes", ()] == 0
        assert after["tidegate_publications_total", ()] == 0
        assert after["tidegate_view_lag_seconds", labels(database="postgres", schema="public", view="seen")] > 0


def test_from_elsewhere_only_who_is_known_may_read(tmp_path: Path) -> None:
    address = socket.gethostbyname(socket.gethostname())
    if address.startswith("127."):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", f"subjectAltName=IP:{address},IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert), *subject], check=True, capture_output=True)
    context = ssl.create_default_context(cafile=str(cert))
    port, plain = free_port(), free_port()

    def basic(user: str, password: str) -> dict[str, str]:
        return {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}

    arguments = ("--spark-start", "lazy", "--http", f"0.0.0.0:{port}", "--tls-cert", str(cert), "--tls-key", str(key))
    with run_server(tmp_path / "data", arguments=arguments) as server:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE watcher LOGIN PASSWORD 'w' IN ROLE pg_monitor")
            connection.execute("CREATE ROLE other LOGIN PASSWORD 'o'")
            connection.execute("CREATE ROLE boss LOGIN SUPERUSER PASSWORD 'b:c'")
            connection.execute("CREATE ROLE late LOGIN PASSWORD 'l' VALID UNTIL '2020-01-01' IN ROLE pg_monitor")
            connection.execute("CREATE ROLE nologin PASSWORD 'n' IN ROLE pg_monitor")
        url = f"https://{address}:{port}"
        assert status(f"https://127.0.0.1:{port}/metrics", context=context) == 200
        assert status(f"{url}/healthz", context=context) == 200
        cases = {
            ("watcher", "w"): 200,
            ("boss", "b:c"): 200,
            ("other", "o"): 403,
            ("nologin", "n"): 403,
            ("watcher", "x"): 401,
            ("late", "l"): 401,
            ("nobody", "w"): 401,
        }
        for (user, password), wanted in cases.items():
            assert status(f"{url}/metrics", basic(user, password), context) == wanted, user
        assert status(f"{url}/metrics", context=context) == 401
        for header in ("Basic", "Basic !", "Basic " + b64encode(b"nocolon").decode(), "Bearer x"):
            assert status(f"{url}/metrics", {"Authorization": header}, context) == 401
    with run_server(tmp_path / "plain", arguments=("--spark-start", "lazy", "--http", f"0.0.0.0:{plain}")):
        assert status(f"http://{address}:{plain}/metrics") == 403
        assert status(f"http://127.0.0.1:{plain}/metrics") == 200
