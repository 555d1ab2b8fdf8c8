"""The relations of pg_catalog and information_schema, and the server's own, as name resolution sees them.

A system relation has the columns that PostgreSQL 15's has, in order and with its types. Columns of a domain
(information_schema) have the type under the domain, which is what PostgreSQL resolves operators with and reports to
clients. Their contents are `adapter.system_catalogs`' business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Literal, Protocol

from planner.catalog_data import content as catalog_data
from planner.types.own_relations import OWN_RELATIONS
from planner.types.types import OID, TID, XID, SqlType, column_type

CID = 29

SYSTEM_COLUMNS: tuple[tuple[str, int, SqlType], ...] = (
    ("ctid", -1, SqlType(TID)),
    ("xmin", -2, SqlType(XID)),
    ("cmin", -3, SqlType(CID)),
    ("xmax", -4, SqlType(XID)),
    ("cmax", -5, SqlType(CID)),
    ("tableoid", -6, SqlType(OID)),
)
"""The columns that every table has besides its own: name, attnum, type."""

SYSTEM_COLUMN_NAMES = frozenset(name for name, _, _ in SYSTEM_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRelation:
    """A built-in table (kind ``r``) or view (``v``). The attnum of `columns[i]` is i + 1; `system_columns` (name,
    attnum, type) are hidden from ``*`` and empty for views."""

    oid: int
    schema: str
    name: str
    kind: Literal["r", "v"]
    columns: tuple[tuple[str, SqlType], ...]
    system_columns: tuple[tuple[str, int, SqlType], ...] = ()
    positions: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Attnum by column name, system columns included."""


OWN_SCHEMA = "tidegate"
"""The schema of what PostgreSQL has not (`planner.functions.own`)."""


def own_oids() -> frozenset[int]:
    """The oids of the server's own relations."""
    return frozenset(relation.oid for relation in OWN_RELATIONS.values())


@cache
def _own(name: str) -> SystemRelation | None:
    found = OWN_RELATIONS.get(name)
    if found is None:
        return None
    return SystemRelation(
        oid=found.oid,
        schema=OWN_SCHEMA,
        name=name,
        kind="v",
        columns=tuple((name, SqlType(column.type_oid)) for name, column in found.columns.items()),
        positions={column: number for number, column in enumerate(found.columns, 1)},
    )


class SystemRelations(Protocol):
    """Where the binder looks up system relations."""

    def lookup(self, schema: str, name: str) -> SystemRelation | None:
        """The relation `schema`.`name`, or None."""
        ...


@cache
def _builtin(schema: str, name: str) -> SystemRelation | None:
    row = catalog_data.relations().get((schema, name))
    if row is None:
        return None
    columns = tuple((column.name, column_type(column.base_type_oid, column.base_typmod)) for column in row.columns)
    system_columns = SYSTEM_COLUMNS if row.kind == "r" else ()
    positions = {column_name: number for number, (column_name, _) in enumerate(columns, 1)}
    positions.update({column_name: number for column_name, number, _ in system_columns})
    return SystemRelation(
        oid=row.oid,
        schema=schema,
        name=name,
        kind=row.kind,
        columns=columns,
        system_columns=system_columns,
        positions=positions,
    )


class BuiltinRelations:
    """PostgreSQL 15's own relations, and the server's."""

    def lookup(self, schema: str, name: str) -> SystemRelation | None:
        """The relation `schema`.`name`, or None."""
        return _own(name) if schema == OWN_SCHEMA else _builtin(schema, name)
