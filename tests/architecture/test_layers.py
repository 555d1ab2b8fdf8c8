"""The house stands: imports go downwards, from storey to storey and from room to room, and never in a circle.

The rules of each module are in test_modules.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import grimp
import pytest

from tests.architecture.house import (
    FULLEST_ROOM,
    ROOMS,
    STOREYS,
    against_order,
    circle,
    graph_of,
    imports,
    room_of,
    rooms_of,
    undivided,
    upward,
)

# What no storey imports: they stand beside the house and use it.
OUTSIDE = {"tests", "bench", "scripts", "sqllogictest"}


@pytest.fixture(scope="module")
def house() -> grimp.ImportGraph:
    return graph_of(*STOREYS)


def test_the_graph_is_whole(house: grimp.ImportGraph) -> None:
    edges = list(imports(house))
    assert len(edges) > len(house.modules)
    assert ("frontend.command.main", "frontend.command.serve") in edges, "an import inside a function"
    assert ("storage.clock", "asyncio") in edges, "an import of a library"


def test_imports_go_downwards(house: grimp.ImportGraph) -> None:
    assert upward(house, STOREYS) == []


def test_no_storey_needs_what_stands_outside(house: grimp.ImportGraph) -> None:
    assert [each for each in imports(house) if each[1].split(".")[0] in OUTSIDE] == []


def test_no_module_needs_itself_when_it_runs() -> None:
    assert circle(graph_of(*STOREYS, types=False)) == []


@pytest.mark.parametrize("storey", ROOMS)
def test_no_import_comes_back_to_where_it_began(storey: str) -> None:
    assert circle(graph_of(storey)) == []


@pytest.mark.parametrize("storey", ROOMS)
def test_every_room_has_a_place(house: grimp.ImportGraph, storey: str) -> None:
    assert sorted(ROOMS[storey]) == sorted(rooms_of(house, storey))


@pytest.mark.parametrize("storey", ROOMS)
def test_rooms_import_from_those_below_them(house: grimp.ImportGraph, storey: str) -> None:
    assert against_order(house, storey, ROOMS[storey]) == []


@pytest.mark.parametrize("storey", STOREYS)
def test_a_stranger_finds_the_room(house: grimp.ImportGraph, storey: str) -> None:
    assert undivided(rooms_of(house, storey)) == {}


# The tests above bite: each of these plants the mistake that one of them is there to find.

Planted = Callable[[dict[str, str]], grimp.ImportGraph]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    """Makes a house of two storeys, `attic` over `cellar`, from the text of each module."""

    def plant(sources: dict[str, str]) -> grimp.ImportGraph:
        for name, source in {"attic/__init__.py": "", "cellar/__init__.py": "", **sources}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
            for folder in path.relative_to(tmp_path).parents[:-1]:
                (tmp_path / folder / "__init__.py").touch()
        return graph_of("attic", "cellar")

    monkeypatch.syspath_prepend(str(tmp_path))
    assert not {"attic", "cellar"} & set(sys.modules)
    return plant


def test_a_planted_upward_import_is_noticed(planted: Planted) -> None:
    inside = "def later():\n    from attic.lamp import light\n"
    for source in ("import attic.lamp", "from attic import lamp", inside):
        graph = planted({"attic/lamp.py": "import cellar.wine", "cellar/wine.py": source})
        assert upward(graph, ("attic", "cellar")) == [("cellar.wine", "attic.lamp")]


def test_a_planted_circle_is_noticed(planted: Planted) -> None:
    graph = planted({"attic/a.py": "from attic.b import x", "attic/b.py": "import attic.c", "attic/c.py": ""})
    assert circle(graph) == []
    for source in ("import attic.a", "def later():\n    from attic import a"):
        found = circle(planted({"attic/c.py": source}))
        assert found[0] == found[-1]
        assert set(found) == {"attic.a", "attic.b", "attic.c"}


def test_a_planted_circle_of_types_is_noticed(planted: Planted) -> None:
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from attic.a import A\n"
    graph = planted({"attic/a.py": "from attic.b import B", "attic/b.py": for_types})
    assert set(circle(graph)) == {"attic.a", "attic.b"}
    assert circle(graph_of("attic", types=False)) == []


def test_a_planted_import_against_the_order_of_rooms_is_noticed(planted: Planted) -> None:
    sources = {
        "attic/desk/drawer.py": "import attic.shelf.deep.book",
        "attic/shelf/deep/book.py": "import attic.dust",
        "attic/dust.py": "",
    }
    order = ("desk", "shelf.deep", "dust")
    graph = planted(sources)
    assert sorted(rooms_of(graph, "attic")) == sorted(order)
    assert against_order(graph, "attic", order) == []
    assert against_order(graph, "attic", ("shelf.deep", "dust", "desk")) == [
        ("attic.desk.drawer", "attic.shelf.deep.book")
    ]
    graph = planted({"attic/dust.py": "def later():\n    import attic.desk.drawer"})
    assert against_order(graph, "attic", order) == [("attic.dust", "attic.desk.drawer")]


def test_a_planted_room_without_a_place_is_noticed(planted: Planted) -> None:
    graph = planted({"attic/desk/drawer.py": "", "attic/desk/lock/key.py": "", "attic/dust.py": ""})
    assert sorted(rooms_of(graph, "attic")) == ["desk", "desk.lock", "dust"]
    assert room_of("attic.desk", frozenset({"attic.desk"})) == "desk"


def test_a_planted_crowd_is_noticed(planted: Planted) -> None:
    full = {f"attic/desk/m{number}.py": "" for number in range(FULLEST_ROOM)}
    assert undivided(rooms_of(planted(full), "attic")) == {}
    graph = planted({"attic/desk/one_more.py": ""})
    assert undivided(rooms_of(graph, "attic")) == {"desk": FULLEST_ROOM + 1}
