"""What the project depends on is used, and what it uses is pinned: in pyproject.toml and in the lock files alike."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOREYS = ("frontend", "adapter", "planner", "storage")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PIN = re.compile(r"^(?P<name>[A-Za-z0-9_.-]+)(?:\[[^]]+\])?==(?P<version>[^ ;\\]+)")


def pins(requirements: list[object]) -> dict[str, str]:
    """Name -> version of the requirements that are written out (groups that are included are not)."""
    found = [PIN.match(each) for each in requirements if isinstance(each, str)]
    assert all(found), "every requirement is pinned to one version"
    return {match["name"].lower().replace("_", "-"): match["version"] for match in found if match}


RUNTIME = pins(PROJECT["project"]["dependencies"])
DEVELOPMENT = pins(PROJECT["dependency-groups"]["dev"])
JAVA = pins(PROJECT["dependency-groups"]["java"])
LAKES = pins(PROJECT["dependency-groups"]["lakes"])
CONNECT = pins(PROJECT["dependency-groups"]["connect"])
DUCKLAKE = pins(PROJECT["dependency-groups"]["ducklake"])
ICEBERG = pins(PROJECT["dependency-groups"]["iceberg"])
TPCDS = pins(PROJECT["dependency-groups"]["tpcds"])


@cache
def imported_packages(*folders: str) -> frozenset[str]:
    """The top-level names that the modules below `folders` import, also inside functions."""
    return frozenset(_imported_packages(*folders))


def _imported_packages(*folders: str) -> Iterator[str]:
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                yield node.module.split(".")[0]


PROVIDERS = packages_distributions()


def distributions_of(names: AbstractSet[str]) -> set[str]:
    """The installed distributions that provide the packages `names`."""
    return {each.lower().replace("_", "-") for name in names for each in PROVIDERS.get(name, ())}


def test_the_server_imports_every_dependency() -> None:
    assert not set(RUNTIME) - distributions_of(imported_packages(*STOREYS, "sqllogictest"))


def test_the_server_imports_nothing_else() -> None:
    ours = {*STOREYS, "sqllogictest"}
    foreign = imported_packages(*sorted(ours)) - ours - set(sys.stdlib_module_names)
    # Spark brings py4j, postgast protobuf and pyiceberg requests, each in the version that it needs; the generated
    # catalogs are written by a tool for developers, who have psycopg.
    brought = {"py4j", "google", "requests", "psycopg"}
    assert {name for name in foreign if not distributions_of({name}) & set(RUNTIME)} == brought


@pytest.mark.parametrize("name", sorted(DEVELOPMENT | LAKES))
def test_a_tool_for_developers_is_used(name: str) -> None:
    """Imported, a plugin of pytest, the types of a package of the server, or named by what runs it."""
    if name.startswith("types-"):
        assert name.removeprefix("types-") in RUNTIME
        return
    imported = name in distributions_of(imported_packages("tests", "bench", "scripts", "planner"))
    plugin = bool(distribution(name).entry_points.select(group="pytest11"))
    written = re.compile(rf"\b{'[-_]'.join(map(re.escape, name.split('-')))}\b")
    files = [
        ROOT / "Makefile",
        *(ROOT / "scripts").rglob("*"),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "bench").rglob("*.py"),
    ]
    named = any(
        path != Path(__file__) and written.search(path.read_text(encoding="utf-8")) for path in files if path.is_file()
    )
    assert imported or plugin or named


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements.lock", RUNTIME),
        ("requirements-dev.lock", RUNTIME | DEVELOPMENT | JAVA | LAKES),
        ("requirements-java.lock", JAVA),
        ("requirements-ducklake.lock", DUCKLAKE),
        ("requirements-iceberg.lock", ICEBERG),
        ("requirements-tpcds.lock", TPCDS),
        ("requirements-connect.lock", CONNECT),
    ],
)
def test_the_lock_files_are_those_of_make_lock(lock: str, wanted: dict[str, str]) -> None:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    locked = pins([line for line in lines if PIN.match(line)])
    assert wanted.items() <= locked.items()
    asked_for = [line for line in lines if "tidegate (pyproject.toml" in line]
    assert len(asked_for) == len(wanted), "a distribution that pyproject.toml no longer names is still asked for"
