"""Where each room of the house stands, and how its imports are read.

A *room* is a folder of a storey without its subfolders, or a module that lies in the storey's own folder; it is named
by its dotted path below the storey. `ROOMS` lists each storey's rooms from the top down: a module imports from its own
room and from those that stand after it. Imports are those that `grimp` finds: also the ones inside functions, and those
that only type checkers see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[2]

# From the top down: each storey imports from itself and from those after it.
STOREYS = ("frontend", "adapter", "planner", "storage")

ROOMS: dict[str, tuple[str, ...]] = {
    "frontend": (
        "command",
        "workers",
        "server",
        "authentication",
        "connections",
        "copy",
        "decoding",
        "protocol",
        "encoding",
    ),
    "adapter": (
        "sessions",
        "metrics",
        "statements",
        "statements.numerics",
        "statements.explaining",
        "statements.maintenance",
        "controllers",
        "subscriptions",
        "definitions",
        "definitions.extensions",
        "definitions.statistics",
        "definitions.policies",
        "definitions.large_objects",
        "definitions.privileges",
        "definitions.roles",
        "definitions.databases",
        "definitions.routines",
        "definitions.types",
        "definitions.materialized",
        "definitions.indexes",
        "definitions.constraints",
        "definitions.foreign",
        "definitions.common",
        "changes.copy",
        "changes",
        "changes.constraints",
        "changes.rows",
        "queries.past",
        "queries",
        "queries.acting",
        "queries.large_objects",
        "queries.by_index",
        "queries.facts",
        "queries.extents",
        "procedures",
        "procedures.extensions",
        "execution",
        "materialized",
        "publishing",
        "transactions.two_phase",
        "transactions.past",
        "transactions",
        "engines",
        "engines.recursion",
        "engines.spark.connect",
        "engines.spark",
        "engines.spark.java",
        "engines.spark.limits",
        "engines.spark.cluster",
        "engines.spark.databases",
        "engines.spark.python",
        "engines.local",
        "engines.common",
        "admission",
        "lake",
        "plans",
        "plans.computed",
        "transactions.locks.servers",
        "transactions.locks",
        "workers",
        "system_catalogs",
        "system_catalogs.functions",
        "system_catalogs.relations",
        "system_catalogs.information_schema",
        "system_catalogs.pg_catalog",
        "system_catalogs.objects",
        "statistics",
        "access",
        "spilling",
        "settings",
        "execution_context",
        "results",
        "store_errors",
        "threads",
        "wall_clock",
        "distinct_ids",
    ),
    "planner": (
        "analyze",
        "copies",
        "utility",
        "definitions.maintained",
        "definitions.exchanged",
        "definitions.shown",
        "definitions",
        "definitions.columns",
        "queries.changes",
        "queries",
        "queries.recursion",
        "queries.in_from",
        "files",
        "calls",
        "expressions",
        "expressions.extensions",
        "resolution",
        "lowering",
        "lowering.relations",
        "lowering.scalars",
        "lowering.fragments",
        "functions",
        "functions.families.extensions",
        "functions.families",
        "functions.families.datetime",
        "functions.families.opaque",
        "functions.engines",
        "functions.udfs.geometry",
        "functions.udfs.opaque",
        "functions.udfs.extensions",
        "functions.udfs.numbers",
        "functions.udfs",
        "functions.udfs.templates",
        "functions.forms",
        "dialects",
        "values",
        "values.datetimes",
        "values.geometry",
        "values.opaque",
        "values.json",
        "values.floats",
        "command_tags",
        "statements",
        "collations",
        "ir",
        "types",
        "syntax.dialects",
        "syntax",
        "catalog_data",
        "extensions",
        "common_errors",
        "errors",
    ),
    "storage": (
        "doubles",  # At the top, so that nothing of the storage imports them.
        "offline",
        "environment",
        "publishing",
        "reading",
        "upkeep",
        "membership",
        "transactions",
        "layouts",
        "catalog",
        "lake.snapshots",
        "lake.output",
        "lake",
        "shards.indexes.reading",
        "shards.indexes",
        "shards",
        "shards.columns",
        "shards.partitions",
        "timestamps",
        "durable",
        "stores",
        "ids",
        "errors",
        "clock",
        "cache_memory",
        "bounded_map",
        "persistent_list",
        "free_memory",
        "off_loop",
        "unawaited",
        "host_memory",
    ),
}

LONGEST_MODULE = 600  # lines
FULLEST_ROOM = 14  # modules

Import = tuple[str, str]  # the module that imports, the module that is imported


def graph_of(*packages: str, types: bool = True) -> grimp.ImportGraph:
    """The imports between the modules of `packages`, and those of other packages; `types`: type-only ones as well."""
    return grimp.build_graph(
        *packages, include_external_packages=True, exclude_type_checking_imports=not types, cache_dir=None
    )


def imports(graph: grimp.ImportGraph) -> Iterator[Import]:
    """Every import in `graph`."""
    for module in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            yield module, imported


def circle(graph: grimp.ImportGraph) -> list[str]:
    """The modules of some circle of imports in `graph`, the first again at the end; empty when there is none."""
    needs: dict[str, set[str]] = {}
    for module, imported in imports(graph):
        needs.setdefault(module, set()).add(imported)
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def upward(graph: grimp.ImportGraph, storeys: Sequence[str]) -> list[Import]:
    """The imports of `graph` from a storey into one above it."""
    height = {name: -index for index, name in enumerate(storeys)}
    tops = [(each, each[0].split(".")[0], each[1].split(".")[0]) for each in imports(graph)]
    return [each for each, lower, upper in tops if lower in height and height.get(upper, -len(height)) > height[lower]]


def room_of(module: str, packages: frozenset[str]) -> str:
    """The room of a module below its storey; a package counts to the room that it is."""
    storey, *inner = module.split(".")
    assert inner, f"{storey} is a storey and no room"
    return ".".join(inner if module in packages or len(inner) == 1 else inner[:-1])


def rooms_of(graph: grimp.ImportGraph, storey: str) -> dict[str, list[str]]:
    """Each room of `storey` and its modules, those of a folder without its package."""
    packages = packages_of(graph)
    rooms: dict[str, list[str]] = {}
    for module in sorted(graph.find_descendants(storey)):
        room = rooms.setdefault(room_of(module, packages), [])
        if module not in packages:
            room.append(module)
    return {room: modules for room, modules in rooms.items() if modules}


def packages_of(graph: grimp.ImportGraph) -> frozenset[str]:
    """The modules of `graph` that are packages."""
    return frozenset(module.rpartition(".")[0] for module in graph.modules if "." in module)


def against_order(graph: grimp.ImportGraph, storey: str, rooms: Sequence[str]) -> list[Import]:
    """The imports inside `storey` that go from one of its `rooms` to one that stands before it."""
    packages = packages_of(graph)
    place = {room: index for index, room in enumerate(rooms)}
    inside = [each for each in imports(graph) if all(name.startswith(f"{storey}.") for name in each)]
    return [each for each in inside if place[room_of(each[1], packages)] < place[room_of(each[0], packages)]]


def undivided(rooms: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The rooms that hold more modules than a stranger finds his way in, with their number."""
    return {room: len(modules) for room, modules in rooms.items() if len(modules) > FULLEST_ROOM}
