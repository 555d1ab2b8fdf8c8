"""node-postgres and postgres.js. Their packages carry no tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.client_suites.fetching import debian_source
from tests.client_suites.suite import FAILED, PASSED, Result, Results, Suite
from tests.clients_basic.client import CACHE, Place, ToolError, run_tool

_PG, _POSTGRES = "8.14.1", "3.4.9"
_TOOLS = ("async@2.6.4", "bluebird@3.7.2", "co@4.6.0", "pg-copy-streams@0.3.0")
_INSTALL_S, _FILE_S, _SUITE_S = 600.0, 60.0, 600.0


def _installed(package: str, tests: Path, *others: str) -> Path:
    """The package beside what its tests need, and its tests inside it, where they look for its modules."""
    folder = CACHE / f"{package.split('@')[0]}-suite"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}", encoding="utf-8")
    command = ("npm", "install", "--silent", "--no-audit", "--no-fund", package, *others)
    run_tool(*command, cwd=folder, timeout_s=_INSTALL_S)
    home = folder / "node_modules" / package.split("@")[0]
    shutil.copytree(tests, home / tests.name)
    return home


def _pg_install(checkout: Path | None) -> Path:
    source = debian_source("node-postgres") if checkout is None else checkout
    return _installed(f"pg@{_PG}", source / "packages" / "pg" / "test", *_TOOLS)


def _pg(place: Place) -> Results:
    """A test is a file of its folder `integration`, a program that fails or does not."""
    environment = {
        "PGHOST": place.host,
        "PGPORT": str(place.port),
        "PGUSER": "postgres",
        "PGDATABASE": place.database,
        "PGTESTNOSSL": "1",
    }
    found: dict[str, Result] = {}
    for path in sorted((place.installed / "test" / "integration").rglob("*-tests.js")):
        name = f"{path.parent.name}: {path.stem}"
        try:
            run_tool("node", path, cwd=place.installed, environment=environment, timeout_s=_FILE_S)
            found[name] = Result(PASSED)
        except ToolError as error:
            found[name] = Result(FAILED, str(error))
    return found


_STOPS = "failed\n      ? (ignored++, ignore)\n      : fn()"
_EXIT = "function exit() {\n"
_TELLS = (
    "  for (const x of Object.values(tests))\n"
    "    console.log('TOLD ' + JSON.stringify([x.line, x.name, !!x.succeeded, x.error ? util.inspect(x.error) : '']))\n"
)


def _postgres_install(checkout: Path | None) -> Path:
    """With its runner changed, not its tests: it goes on after one that fails, and tells what became of each."""
    if checkout is None:
        raise ToolError("its tests are in no package: give a checkout with --sources")
    home = _installed(f"postgres@{_POSTGRES}", checkout / "tests")
    runner = home / "tests" / "test.js"
    text = runner.read_text(encoding="utf-8")
    if _STOPS not in text or _EXIT not in text:
        raise ToolError("its runner is another one")
    runner.write_text(text.replace(_STOPS, "fn()").replace(_EXIT, _EXIT + _TELLS), encoding="utf-8")
    return home


def _postgres(place: Place) -> Results:
    environment = {"PGHOST": place.host, "PGPORT": str(place.port), "PGUSER": "postgres"}
    try:
        printed = run_tool(
            *("node", "tests/index.js"), cwd=place.installed, environment=environment, timeout_s=_SUITE_S
        )
    except ToolError as error:
        printed = error.printed
    told = [json.loads(line.partition("TOLD ")[2]) for line in printed.splitlines() if "TOLD " in line]
    if not told:
        raise ToolError(f"its runner told nothing:\n{printed[-2000:]}")
    return {
        f"tests: {line} {name}": Result(PASSED) if succeeded else Result(FAILED, error[:2000])
        for line, name, succeeded, error in told
    }


SUITES = (
    Suite(name="node-postgres", version=_PG, checkout="node-postgres", install=_pg_install, run=_pg),
    Suite(name="postgres.js", version=_POSTGRES, checkout="postgres", install=_postgres_install, run=_postgres),
)
