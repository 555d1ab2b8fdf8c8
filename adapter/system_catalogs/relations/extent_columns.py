"""Columns of pg_class that follow from what is stored: reltuples and relpages. ANALYZE has no part in them: they are
exact, and found out where a query reads them."""

from __future__ import annotations

from functools import cache

from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import walk
from planner.types.system_relations import BuiltinRelations

TABLES = {"pg_stat_all_tables": "all", "pg_stat_sys_tables": "sys", "pg_stat_user_tables": "user"}
INDEXES = {"pg_stat_all_indexes": "all", "pg_stat_sys_indexes": "sys", "pg_stat_user_indexes": "user"}
"""The relations that show what was counted: of which tables, and indexes, each."""

COMPUTED = {"reltuples": "tg_reltuples", "relpages": "tg_relpages"}
"""By column of pg_class: the function of the local engine that tells it, of an oid and of what stands there."""


@cache
def computed_columns() -> tuple[tuple[int, str], ...]:
    """The place (1-based) in pg_class of each such column, and its function."""
    relation = BuiltinRelations().lookup("pg_catalog", "pg_class")
    assert relation is not None
    return tuple([(relation.positions[name], function) for name, function in COMPUTED.items()])


def is_computed(scan: ir.SystemScan) -> bool:
    """Whether the relation has such columns."""
    return scan.schema == "pg_catalog" and scan.name == "pg_class"


def reads_extents(query: BoundQuery) -> bool:
    """Whether the query reads such a column, or a relation that tells how many rows tables have."""
    wanted: set[int] = set()
    read: set[int] = set()
    places = {place for place, _ in computed_columns()}
    for node in walk(query):
        if isinstance(node, ir.ColumnRef):
            read.add(node.id)
        elif isinstance(node, ir.SystemScan):
            if node.name in TABLES or node.name in INDEXES:
                return True
            if is_computed(node):
                wanted.update(f.id for f in node.fields if f.origin is not None and f.origin.attnum in places)
    return not wanted.isdisjoint(read)
