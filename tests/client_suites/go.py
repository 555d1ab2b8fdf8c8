"""pgx and lib/pq, whose modules carry their tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.client_suites.suite import FAILED, PASSED, SKIPPED, Result, Results, Suite
from tests.clients_basic.client import CACHE, Place, ToolError, run_tool

_PGX, _PQ = "5.7.5", "1.10.9"
_SUITE_S = 1200.0
_KINDS = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}


def _module(path: str, version: str) -> Path:
    """The module with its tests, as `go` has unpacked it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    printed = run_tool("go", "mod", "download", "-json", f"{path}@v{version}", cwd=CACHE, timeout_s=_SUITE_S)
    return Path(json.loads(printed)["Dir"])


def _go_test(place: Place, packages: str, environment: Mapping[str, str]) -> Results:
    """What `go test` makes of the packages of a module, in a copy that it may write to."""
    home = place.folder / "source"
    shutil.copytree(place.installed, home)
    for folder in (home, *(path for path in home.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    output = place.folder / "output.json"
    command = f"go test -json -p 1 -count 1 -timeout 15m {packages} >{output}"
    wrong = ""
    try:
        run_tool("bash", "-c", command, cwd=home, environment=environment, timeout_s=_SUITE_S)
    except ToolError as error:
        wrong = str(error)
    found = _results(output)
    if not found:
        raise ToolError(wrong)
    return found


def _results(output: Path) -> dict[str, Result]:
    """Of the tests without others inside them; a test that never ended has failed."""
    kinds: dict[str, str] = {}
    printed: dict[str, str] = {}
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "Test" not in event:
            continue
        name = f"{event['Package'].split('/', 3)[-1].replace('/', '.')}: {event['Test']}"
        if event["Action"] == "output":
            printed[name] = printed.get(name, "") + event["Output"]
        elif event["Action"] in _KINDS or event["Action"] == "run":
            kinds[name] = _KINDS.get(event["Action"], FAILED)
    outer = {name.rsplit("/", depth)[0] for name in kinds for depth in range(1, name.count("/") + 1)}
    return {name: Result(kind, printed.get(name, "")) for name, kind in kinds.items() if name not in outer}


def _pgx(place: Place) -> Results:
    """Its set-up makes extensions, a domain and roles: what cannot be made is left out."""
    setup = place.installed / "testsetup" / "postgresql_setup.sql"
    server = ("-h", place.host, "-p", str(place.port), "-U", "postgres", "-d", place.database)
    run_tool("psql", "-q", *server, "-f", setup, cwd=place.folder)
    address = {"PGX_TEST_DATABASE": place.dsn(), "PGX_TEST_TCP_CONN_STRING": place.dsn(), "PGX_TEST_STRESS_FACTOR": "1"}
    return _go_test(place, "./...", address)


def _pq(place: Place) -> Results:
    place.execute("CREATE DATABASE pqgotest")
    address = {"PGHOST": place.host, "PGPORT": str(place.port), "PGUSER": "postgres", "PGSSLMODE": "disable"}
    return _go_test(place, ".", {**address, "PGDATABASE": "pqgotest"})


SUITES = (
    Suite(name="pgx", version=_PGX, install=lambda _: _module("github.com/jackc/pgx/v5", _PGX), run=_pgx),
    Suite(name="lib/pq", version=_PQ, install=lambda _: _module("github.com/lib/pq", _PQ), run=_pq),
)
