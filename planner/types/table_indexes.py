"""The indexes of tables, those of constraints among them: one kind of record for both.

CREATE INDEX leaves a record in the catalog. What there is to know of the index of a primary key or unique constraint
follows from the constraint, and its oid from the constraint's (`derived_oids`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from planner.types import derived_oids
from planner.types.operator_classes import column_collation, default_operator_class
from storage.catalog.model import (
    INFORMATION_SCHEMA_OID,
    PG_CATALOG_OID,
    CatalogSnapshot,
    Constraint,
    Index,
    Relation,
)

METHODS: Mapping[str, frozenset[str]] = {
    "btree": frozenset({"can_order", "can_unique", "can_multi_col", "can_exclude", "can_include"}),
    "hash": frozenset({"can_exclude"}),
    "gist": frozenset({"can_multi_col", "can_exclude", "can_include"}),
    "gin": frozenset({"can_multi_col"}),
    "spgist": frozenset({"can_exclude", "can_include"}),
    "brin": frozenset({"can_multi_col"}),
}
"""What indexes of each of PostgreSQL's access methods can (its Table 9.76)."""

CLUSTERABLE = frozenset({"btree", "gist"})
"""The access methods whose indexes CLUSTER takes."""

_HOLDING = frozenset({"btree", "hash"})
"""The access methods whose indexes hold keys here."""

DESCENDING = 1
NULLS_FIRST = 2
"""Bits of `Index.options` (pg_index.indoption)."""


@lru_cache(maxsize=4096)
def index_of_constraint(relation: Relation, constraint: Constraint) -> Index:
    """The index of a primary key or unique constraint of `relation`."""
    columns = {column.attnum: column for column in relation.columns}
    return Index(
        oid=derived_oids.index_oid(constraint.oid),
        name=constraint.name,
        schema=relation.schema,
        relation=relation.oid,
        columns=constraint.columns,
        options=(0,) * len(constraint.columns),
        operator_classes=tuple(default_operator_class(columns[attnum].type_oid) or 0 for attnum in constraint.columns),
        collations=tuple(column_collation(columns[attnum]) for attnum in constraint.columns),
        include=constraint.include,
        unique=True,
        nulls_not_distinct=constraint.nulls_not_distinct,
    )


def indexes_of(catalog: CatalogSnapshot, relation: Relation) -> list[Index]:
    """All indexes of `relation`: those of its constraints first, each kind in the order of their oids."""
    keys = [constraint for constraint in catalog.constraints(relation.oid) if constraint.kind in ("p", "u")]
    return [*(index_of_constraint(relation, key) for key in keys), *catalog.indexes(relation.oid)]


def unique_keys(catalog: CatalogSnapshot, relation: int) -> list[Constraint | Index]:
    """What makes columns of the relation with this oid a key: its primary key, unique constraints and unique indexes,
    in the order of their oids."""
    keys: list[Constraint | Index] = [key for key in catalog.constraints(relation) if key.kind in "pu"]
    keys += [index for index in catalog.indexes(relation) if is_key(index)]
    return sorted(keys, key=lambda key: key.oid)


def is_key(index: Index) -> bool:
    """Whether a foreign key may refer to the columns of `index`."""
    return index.unique and index.predicate is None and not index.expressions


def holds_keys(index: Index) -> bool:
    """Whether the keys of rows are kept. Indexes of other access methods stand in the catalog, and find nothing."""
    return index.method in _HOLDING or index.enforced


def constraint_of_index(catalog: CatalogSnapshot, oid: int) -> Constraint | None:
    """The constraint whose index has this oid; None when no constraint's has."""
    index = catalog.get(oid)
    owner = index.constraint if isinstance(index, Index) else derived_oids.owner_of_index(oid)
    record = None if owner is None else catalog.get(owner)
    return record if isinstance(record, Constraint) and record.kind in ("p", "u", "x") else None


def find_index(catalog: CatalogSnapshot, oid: int) -> Index | None:
    """The index with this oid, of either kind."""
    record = catalog.get(oid)
    if isinstance(record, Index):
        return record
    constraint = constraint_of_index(catalog, oid)
    relation = None if constraint is None else catalog.get(constraint.relation)
    if constraint is None or not isinstance(relation, Relation):
        return None
    return index_of_constraint(relation, constraint)


def key_constraint(catalog: CatalogSnapshot, schema: int, name: str) -> Constraint | None:
    """The primary key or unique constraint whose index is called `name` in the schema with this oid."""
    if schema in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID):
        return None
    for oid in catalog.constraint_names.get(name, ()):
        constraint = catalog.get(oid)
        if isinstance(constraint, Constraint) and constraint.kind in ("p", "u"):
            relation = catalog.get(constraint.relation)
            if isinstance(relation, Relation) and relation.schema == schema:
                return constraint
    return None


def is_taken(catalog: CatalogSnapshot, schema: int, name: str) -> bool:
    """Whether a relation or an index of the schema with this oid is called `name`."""
    return (schema, name) in catalog.relation_names or key_constraint(catalog, schema, name) is not None


def index_called(catalog: CatalogSnapshot, schema: int, name: str) -> Index | None:
    """The index called `name` in the schema with this oid, of either kind."""
    record = catalog.get(catalog.relation_names.get((schema, name), 0))
    if record is not None:
        return record if isinstance(record, Index) else None
    constraint = key_constraint(catalog, schema, name)
    return None if constraint is None else find_index(catalog, derived_oids.index_oid(constraint.oid))
