"""node-postgres and postgres.js. Their packages carry no tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
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
_CHOOSES = "  if (only && !o)\n    return\n"
_ENDS = "      ++done === Object.keys(tests).length && exit()\n"
_CHOSEN = (
    "  if (process.env.ONLY ? line !== process.env.ONLY : process.env.DONE.split(',').includes(line))\n    return\n"
)
_BEGINS = "(console.log('\\nBEGAN ' + JSON.stringify([line, name])), fn())"
_TELLS = (
    "      const x = tests[line]\n"
    "      const told = [line, name, !!x.succeeded, x.error ? util.inspect(x.error) : '']\n"
    "      console.log('\\nTOLD ' + JSON.stringify(told))\n"
    "      ++done === Object.keys(tests).length && process.exit()\n"
)


def _postgres_install(checkout: Path | None) -> Path:
    """With its runner changed, not its tests: it goes on after one that fails, tells what becomes of each, can leave
    out those that are done, and ends after the last."""
    if checkout is None:
        raise ToolError("its tests are in no package: give a checkout with --sources")
    home = _installed(f"postgres@{_POSTGRES}", checkout / "tests")
    runner = home / "tests" / "test.js"
    text = runner.read_text(encoding="utf-8")
    for theirs, ours in ((_STOPS, _BEGINS), (_CHOOSES, _CHOOSES + _CHOSEN), (_ENDS, _TELLS)):
        if theirs not in text:
            raise ToolError("its runner is another one")
        text = text.replace(theirs, ours)
    runner.write_text(text, encoding="utf-8")
    return home


def _postgres(place: Place) -> Results:
    """All tests in one process, as its runner has it. An error that nobody waits for ends that process: the rest runs
    in another one then, and whatever has not passed once more, in a process of its own, which decides."""
    found: dict[str, tuple[str, Result]] = {}
    while True:
        told = _postgres_process(place, {"DONE": ",".join(found)})
        found.update(told)
        if not told:
            break
    for line, (_, result) in list(found.items()):
        if result.kind != PASSED:
            found.update(_postgres_process(place, {"DONE": "", "ONLY": line}))
    return {f"tests: {line} {name}": result for line, (name, result) in found.items()}


def _postgres_process(place: Place, chosen: Mapping[str, str]) -> dict[str, tuple[str, Result]]:
    """What became of the tests that one process has begun, by their lines: their names and results. ToolError when it
    fails before the first."""
    environment = {"PGHOST": place.host, "PGPORT": str(place.port), "PGUSER": "postgres", **chosen}
    wrong = ""
    try:
        printed = run_tool("node", "tests/index.js", cwd=place.installed, environment=environment, timeout_s=_SUITE_S)
    except ToolError as error:
        printed, wrong = error.printed, str(error)[-2000:]
    found: dict[str, tuple[str, Result]] = {}
    for text in printed.splitlines():
        kind, _, told = text.partition(" ")
        if kind == "BEGAN":
            line, name = json.loads(told)
            found[line] = name, Result(FAILED, f"the process ended\n{wrong}")
        elif kind == "TOLD":
            line, name, succeeded, shown = json.loads(told)
            found[line] = name, Result(PASSED) if succeeded else Result(FAILED, shown[:2000])
    if wrong and not found:
        raise ToolError(wrong)
    return found


SUITES = (
    Suite(name="node-postgres", version=_PG, checkout="node-postgres", install=_pg_install, run=_pg),
    Suite(name="postgres.js", version=_POSTGRES, checkout="postgres", install=_postgres_install, run=_postgres),
)
