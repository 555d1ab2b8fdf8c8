"""The house stands: imports go downwards only, the planner is pure, storage takes time and chance from outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STOREYS = ("frontend", "adapter", "planner", "storage")
MODULES = sorted(path for storey in STOREYS for path in (ROOT / storey).rglob("*.py"))
CLOCK_MODULES = {ROOT / "storage" / "clock.py", ROOT / "storage" / "doubles" / "clock.py"}


def imports_of(path: Path) -> Iterator[str]:
    """Every module that `path` imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def calls_of(path: Path) -> Iterator[str]:
    """The dotted names that `path` calls."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def upward_imports(storey: str, imported: str) -> bool:
    """Whether a module of `storey` may not import `imported`."""
    top = imported.split(".")[0]
    if top in {"tests", "bench", "sqllogictest"}:
        return True
    return top in STOREYS and STOREYS.index(top) < STOREYS.index(storey)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards(path: Path) -> None:
    storey = path.relative_to(ROOT).parts[0]
    assert not [name for name in imports_of(path) if upward_imports(storey, name)]


def test_upward_imports_are_noticed() -> None:
    assert upward_imports("storage", "planner.types.types")
    assert upward_imports("planner", "adapter.sessions.session")
    assert upward_imports("adapter", "frontend.server.accepting")
    assert not upward_imports("adapter", "storage.timestamps.csn")


def needs_of(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """The modules that running `tree` imports sooner or later: not what only type checkers see."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                inner = (f"{module}.{alias.name}" for alias in node.names)
                yield from (name if name in modules else module for name in inner)
            case _:
                yield from needs_of(node, modules)


def in_order(needs: dict[str, set[str]]) -> list[str]:
    """Modules, each after those that it needs. Raises CycleError."""
    return list(TopologicalSorter(needs).static_order())


def test_no_module_needs_itself() -> None:
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES}
    needs = {
        name: set(needs_of(ast.parse(path.read_text(encoding="utf-8")), set(names))).intersection(names)
        for name, path in names.items()
    }
    assert sum(map(len, needs.values())) > len(needs)
    assert set(in_order(needs)) == set(names)


def test_cycles_are_noticed() -> None:
    source = "import a\ndef later():\n    from b import c\nif TYPE_CHECKING:\n    import d"
    assert list(needs_of(ast.parse(source), {"b.c"})) == ["a", "b.c"]
    with pytest.raises(CycleError):
        in_order({"a": {"b"}, "b": {"c"}, "c": {"a"}})


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.relative_to(ROOT).parts[0] == "planner" and path.name != "generate.py"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
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
    allowed = {"storage.catalog.model", "storage.timestamps.csn", "storage.ids"}
    planner = [path for path in MODULES if path.relative_to(ROOT).parts[0] == "planner"]
    taken = {name for path in planner for name in imports_of(path) if name.split(".")[0] == "storage"}
    assert taken <= allowed


@pytest.mark.parametrize(
    "path",
    [path for path in MODULES if path.relative_to(ROOT).parts[0] == "storage" and path not in CLOCK_MODULES],
    ids=lambda path: str(path.relative_to(ROOT)),
)
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


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring
    assert len(docstring) > 20
