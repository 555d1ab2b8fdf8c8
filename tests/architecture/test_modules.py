"""What holds for each module: a pure planner, a storage that takes time and chance from outside, and a description."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.house import LONGEST_MODULE, ROOT, STOREYS

DESCRIBED = STOREYS
MODULES = sorted(path for storey in STOREYS for path in (ROOT / storey).rglob("*.py"))
PACKAGES = [path for path in MODULES if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] in DESCRIBED]
CLOCK_MODULES = {ROOT / "storage" / "clock.py", ROOT / "storage" / "doubles" / "clock.py"}


def modules_of(storey: str) -> list[Path]:
    return [path for path in MODULES if path.relative_to(ROOT).parts[0] == storey]


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(path: Path) -> Iterator[str]:
    """Every module that `path` imports, also inside functions."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def calls_of(path: Path) -> Iterator[str]:
    """The dotted names that `path` calls."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@pytest.mark.parametrize("path", [path for path in modules_of("planner") if path.name != "generate.py"], ids=name_of)
def test_the_planner_is_pure(path: Path) -> None:
    forbidden = {
        "asyncio",
        "socket",
        "threading",
        "time",
        "random",
        "subprocess",
        "duckdb",
        "pyspark",
        "obstore",
        "apsw",
    }
    assert not {name.split(".")[0] for name in imports_of(path)} & forbidden


def test_the_planner_takes_only_the_catalog_snapshot_from_storage() -> None:
    allowed = {
        *("storage.catalog.model", "storage.catalog.record", "storage.catalog.routines", "storage.catalog.access"),
        *("storage.catalog.types", "storage.catalog.outside"),
        *("storage.timestamps.csn", "storage.ids"),
    }
    taken = {name for path in modules_of("planner") for name in imports_of(path) if name.split(".")[0] == "storage"}
    assert taken <= allowed


@pytest.mark.parametrize("path", [path for path in modules_of("storage") if path not in CLOCK_MODULES], ids=name_of)
def test_storage_takes_time_and_chance_from_outside(path: Path) -> None:
    forbidden = {
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "datetime.now",
        "datetime.datetime.now",
        "uuid.uuid4",
        "uuid4",
    }
    assert not set(calls_of(path)) & forbidden
    assert "random" not in set(imports_of(path))
    assert "secrets" not in set(imports_of(path))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(parsed(path))
    assert docstring
    assert len(docstring) > 20


def test_what_is_kept_is_bounded_in_one_place() -> None:
    """Nobody drops the oldest entry by hand: `storage.bounded_map` does, and `functools.lru_cache` for functions."""
    dropping = [path for path in MODULES if {"OrderedDict", "cachetools"} & words_of(path)]
    assert dropping == [ROOT / "storage" / "bounded_map.py"]
    assert [path for path in MODULES if any(name.endswith(".popitem") for name in calls_of(path))] == []


def words_of(path: Path) -> set[str]:
    """The names that `path` uses or imports."""
    return set(re.findall(r"\w+", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_is_one_job(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines < LONGEST_MODULE


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_a_package_holds_its_description_only(path: Path) -> None:
    assert [type(node) for node in parsed(path).body] == [ast.Expr]


@pytest.mark.parametrize("path", PACKAGES, ids=name_of)
def test_a_package_says_what_it_may_import_and_where_to_begin(path: Path) -> None:
    said = ast.get_docstring(parsed(path)) or ""
    assert "import" in said
    assert first_to_read(said, path.parent)


def first_to_read(said: str, folder: Path) -> bool:
    """Whether a sentence "Read `name` first" names a module of `folder`, by itself or in full."""
    sentence = re.search(r"\bRead `([\w.]+)`[^.]*\bfirst\b", " ".join(said.split()))
    if sentence is None:
        return False
    name = sentence[1].removeprefix(".".join(folder.relative_to(ROOT).parts) + ".")
    return folder.joinpath(*name.split(".")).with_suffix(".py").is_file()


def test_a_description_that_leads_nowhere_is_noticed() -> None:
    folder = ROOT / "frontend" / "connections"
    assert first_to_read("What it is. Read `connection` first, then `channel`.", folder)
    assert first_to_read("Read `frontend.connections.connection` (the rules)\nfirst.", folder)
    assert not first_to_read("Read `gone` first.", folder)
    assert not first_to_read("Read `connection`. First of all.", folder)
    assert not first_to_read("A description to be written.", folder)
