"""The programs that PostgreSQL brings along beside psql and pg_dump."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.clients_basic.client import Check, Client, Place, ToolError, run_tool
from tests.support.postgres import DEBIAN_POSTGRES_15
from tests.support.server import ROOT

_SEED = "--random-seed=1"


def _install() -> Path:
    run_tool(DEBIAN_POSTGRES_15 / "pgbench", "--version", cwd=ROOT)
    return DEBIAN_POSTGRES_15


def _run(place: Place, program: str, *arguments: str) -> str:
    """What a program prints, its name before it."""
    address = ("-h", place.host, "-p", str(place.port), "-U", "postgres")
    printed = run_tool(place.installed / program, *address, *arguments, cwd=place.folder)
    return f"{program}: {printed}".replace(str(place.port), "PORT").strip()


def _fails(place: Place, program: str, *arguments: str) -> str:
    """What it prints when it fails, which it has to."""
    try:
        _run(place, program, *arguments)
    except ToolError as error:
        lines = error.printed.replace(str(place.port), "PORT")
        return f"{program}: {lines}".strip()
    raise AssertionError(f"{program} has not failed")


def _databases_and_roles(place: Place) -> Sequence[str]:
    names = "rolname, rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolinherit, rolconnlimit, rolreplication"
    roles = f"SELECT {names} FROM pg_roles WHERE rolname LIKE 'clerk%' ORDER BY 1"
    members = "SELECT roleid::regrole, member::regrole FROM pg_auth_members WHERE member::regrole::text LIKE 'clerk%'"
    databases = (
        "SELECT datname, datdba::regrole, shobj_description(oid, 'pg_database') FROM pg_database"
        " WHERE datname LIKE 'office%' ORDER BY 1"
    )
    return [
        _run(place, "pg_isready", "-d", place.database),
        _run(place, "createuser", "--echo", "--createdb", "--connection-limit=7", "clerk"),
        _run(place, "createuser", "--echo", "--no-login", "--role=clerk", "--no-inherit", "clerk of clerks"),
        _fails(place, "createuser", "clerk"),
        *place.rows(roles),
        *place.rows(members),
        _run(place, "createdb", "--echo", "--owner=clerk", "--template=template0", "office", "where they work"),
        _run(place, "createdb", "--echo", "--encoding=UTF8", "--template=office", "office 2"),
        _fails(place, "createdb", "office"),
        *place.rows(databases),
        _run(place, "dropdb", "--echo", "--force", "office 2"),
        _run(place, "dropdb", "--echo", "--if-exists", "office 2"),
        _fails(place, "dropdb", "office 2"),
        _fails(place, "dropuser", "clerk"),
        _run(place, "dropdb", "office"),
        _run(place, "dropuser", "--echo", "clerk of clerks"),
        _run(place, "dropuser", "--if-exists", "clerk"),
        *place.rows(roles),
        *place.rows(databases),
    ]


def _maintenance(place: Place) -> Sequence[str]:
    place.execute(
        "CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY, name text);"
        "CREATE TABLE plain (a int, b int);"
        "CREATE INDEX orders_name ON shop.orders (name); CLUSTER shop.orders USING orders_pkey;"
        "INSERT INTO shop.orders SELECT g, 'o' || g FROM generate_series(1, 500) g; INSERT INTO plain VALUES (1, 2)"
    )
    database = place.database
    done = [
        _run(place, "vacuumdb", "--echo", "--analyze", "--table=shop.orders", database),
        _run(place, "vacuumdb", "--echo", "--full", "--freeze", "--table=plain(a, b)", "--analyze", database),
        _run(place, "vacuumdb", "--echo", "--analyze-only", "--table=plain(b)", database),
        _run(place, "vacuumdb", "--analyze-in-stages", database),
        _run(place, "vacuumdb", "--quiet", "--jobs=2", "--analyze", "--table=shop.orders", "--table=plain", database),
        _run(place, "vacuumdb", "--quiet", "--no-index-cleanup", "--skip-locked", "--min-xid-age=1", database),
        _run(place, "vacuumdb", "--all", "--analyze-only", "--quiet"),
        _fails(place, "vacuumdb", "--table=nothing", database),
        _run(place, "reindexdb", "--echo", "--table=shop.orders", database),
        _run(place, "reindexdb", "--echo", "--concurrently", "--index=shop.orders_name", database),
        _run(place, "reindexdb", "--quiet", "--jobs=2", "--schema=shop", database),
        _run(place, "reindexdb", "--quiet", "--all"),
        _run(place, "clusterdb", "--echo", "--table=shop.orders", database),
        _run(place, "clusterdb", "--quiet", database),
    ]
    counts = "SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'orders'"
    return [*done, *place.rows("SELECT count(*), sum(id) FROM shop.orders"), *place.rows(counts)]


_TIMES = re.compile(r"\d+\.\d+")
_VARIES = re.compile(r"^(latency|tps|initial connection time|scaling|progress)", re.MULTILINE)


def _counts(printed: str) -> str:
    """What pgbench says of what it has done, without how long it took."""
    lines = [line for line in printed.splitlines() if not _VARIES.match(line)]
    return "\n".join(_TIMES.sub("N", line) for line in lines)


_SUMS = (
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches),"
    " (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches),"
    " (SELECT sum(delta) FROM pgbench_history) = (SELECT sum(bbalance) FROM pgbench_branches),"
    " (SELECT count(*) FROM pgbench_history), (SELECT count(*) FROM pgbench_accounts)"
)


def _pgbench(place: Place) -> Sequence[str]:
    database = place.database
    _run(place, "pgbench", "--initialize", "--init-steps=dtgvpf", "--quiet", "--scale=1", database)
    keys = "SELECT conname, contype FROM pg_constraint WHERE conname LIKE 'pgbench%' ORDER BY 1"
    found = [*place.rows(keys)]
    for protocol in ("simple", "extended", "prepared"):
        # Those of one branch wait for each other, or are run once more.
        mixed = ("--protocol", protocol, "--client=3", "--transactions=20", "--max-tries=1000", _SEED, "--no-vacuum")
        for script in ("tpcb-like", "simple-update", "select-only"):
            printed = _run(place, "pgbench", *mixed, f"--builtin={script}", database)
            found += [line for line in _counts(printed).splitlines() if "retried" not in line and "retries" not in line]
        found += place.rows(_SUMS)
    return found


_SCRIPT = """\
\\set id random(1, 100)
\\set even :id % 2
\\if :even = 0
SELECT :id AS id, abalance AS balance FROM pgbench_accounts WHERE aid = :id \\gset
UPDATE pgbench_tellers SET filler = :'client' WHERE tid = 1 + :client_id;
\\else
\\startpipeline
BEGIN;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (1, 1, :id, 0, CURRENT_TIMESTAMP);
SELECT count(*) FROM pgbench_branches;
END;
\\endpipeline
\\endif
\\sleep 1 ms
"""


def _scripts(place: Place) -> Sequence[str]:
    """A script of its own with variables, conditions and a pipeline."""
    script = place.folder / "script.sql"
    script.write_text(_SCRIPT.replace(":'client'", "'c' || :client_id"), encoding="utf-8")
    before = place.rows("SELECT count(*) FROM pgbench_history")
    options = (
        "--client=2",
        "--jobs=2",
        "--transactions=30",
        _SEED,
        "--no-vacuum",
        "--protocol=extended",
        "--max-tries=1000",
    )
    printed = _run(place, "pgbench", *options, f"--file={script}@3", place.database)
    counts = [line for line in _counts(printed).splitlines() if "retr" not in line]
    wanted = ("number of transactions actually processed", "number of failed transactions")
    after = place.rows("SELECT count(*) > 0 FROM pgbench_history")
    return [*[line for line in counts if line.startswith(wanted)], str(len(before)), *after]


CLIENT = Client(
    name="PostgreSQL's programs",
    version="15",
    install=_install,
    checks=(
        Check("pg_isready, createuser, createdb, dropdb, dropuser", _databases_and_roles),
        Check("vacuumdb, reindexdb, clusterdb", _maintenance),
        Check("pgbench: its tables, its scripts by each protocol", _pgbench),
        Check("pgbench: a script with variables, conditions and a pipeline", _scripts),
    ),
)
