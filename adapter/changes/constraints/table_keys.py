"""The keys of a table: those that are unique in it, by which it refers to others, and by which others refer to it.

A table's record names every constraint that a change of its rows has to respect, so a change that was planned before
one came cannot commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.key_indexes import RowValues, is_plain, key_index, unique_index
from planner.ir.physical import arrow_type
from planner.types import types as t
from planner.types.base_types import CITEXT, kind_of, like_text
from planner.types.types import SqlType, type_of_column
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Constraint, Index, Relation
from storage.shards.indexes.definition import IndexDefinition
from storage.shards.indexes.keys import indexed

MAX_KEPT = 1000
"""Tables whose keys are kept."""


class UniqueKey(Struct, frozen=True, kw_only=True):
    """A primary key, a unique constraint or a unique index. `places` are those of the columns that its keys follow from
    (`index.inputs`, or the keys themselves) among the live ones."""

    constraint: Constraint | Index
    index: IndexDefinition
    places: tuple[int, ...]

    @property
    def computed(self) -> bool:
        """Whether keys have to be computed from the columns at `places`, and rows may have none."""
        return isinstance(self.constraint, Index) and not is_plain(self.constraint)

    async def keys_of(self, columns: Sequence[pa.Array]) -> tuple[tuple[pa.Array, ...], pa.Array | None]:
        """The keys of rows, of which `columns` are those at `places`, and which rows they belong to: None if to all of
        them. Raises what the expressions raise."""
        if not self.computed:
            return tuple(columns), None
        names = [column.name for column in self.index.inputs]
        rows = pa.table([pa.chunked_array([column]) for column in columns], names=names)
        if self.index.in_threads:
            return await asyncio.to_thread(_computed_keys, self.index, rows)
        return _computed_keys(self.index, rows)


def _computed_keys(index: IndexDefinition, rows: pa.Table) -> tuple[tuple[pa.Array, ...], pa.Array | None]:
    places, keys = indexed(index, rows)
    return tuple(keys), None if len(places) == rows.num_rows else pa.array(places, pa.int64())


class ForeignKey(Struct, frozen=True, kw_only=True):
    """A foreign key of `child` to `parent`. `child_index` is by the referring columns, `parent_index` by those referred
    to, in the same order; the places are those among the live columns of each."""

    constraint: Constraint
    child: Relation
    child_index: IndexDefinition
    child_places: tuple[int, ...]
    parent: Relation
    parent_index: IndexDefinition
    parent_places: tuple[int, ...]
    unlike: tuple[UnlikeTypes | None, ...]
    """For each column, its types where values of one are not looked up as those of the other."""


_FOLLOWS = {"c", "d"}
"""The actions (`Constraint.on_update`) that give values: CASCADE, SET DEFAULT."""


class UnlikeTypes(Struct, frozen=True):
    """The types of a column that refers, and of the one that it refers to."""

    child: SqlType
    parent: SqlType


class TableKeys(Struct, frozen=True, kw_only=True):
    """The keys of one table, each kind in the order in which PostgreSQL checks them."""

    unique: tuple[UniqueKey, ...]
    foreign: tuple[ForeignKey, ...]
    referenced: tuple[ForeignKey, ...]

    @property
    def let_numbers_follow(self) -> bool:
        """Whether numerics of other tables follow what is changed or deleted here: they may get a NaN."""
        return any(
            _FOLLOWS & {key.constraint.on_update, key.constraint.on_delete}
            and any(column.type_oid == t.NUMERIC for column in key.child.live_columns())
            for key in self.referenced
        )

    def touches(self, attnums: frozenset[int]) -> bool:
        """Whether one of the columns `attnums` is part of a key."""
        read = {int(column.name[1:]) for key in self.unique for column in key.index.inputs}
        read.update(attnum for key in self.foreign for attnum in key.constraint.columns)
        read.update(attnum for key in self.referenced for attnum in key.constraint.foreign_columns)
        return not attnums.isdisjoint(read)


_kept: BoundedMap[int, tuple[CatalogSnapshot, TableKeys | None]] = BoundedMap(max_entries=MAX_KEPT)


def table_keys(catalog: CatalogSnapshot, relation: Relation, values: RowValues) -> TableKeys | None:
    """The keys of `relation` as `catalog` has it; None when it has none. `values` computes expressions."""
    known = _kept.get(relation.oid)
    if known is not None and known[0] is catalog:
        return known[1]
    found = _table_keys(catalog, relation, values)
    _kept.put(relation.oid, (catalog, found))
    return found


def _table_keys(catalog: CatalogSnapshot, relation: Relation, values: RowValues) -> TableKeys | None:
    constraints = [record for oid in relation.constraints if isinstance(record := catalog.get(oid), Constraint)]
    unique: list[Constraint | Index] = [constraint for constraint in constraints if constraint.kind in "pu"]
    unique += [index for index in catalog.indexes(relation.oid) if index.oid in relation.constraints]
    unique.sort(key=lambda record: record.oid)
    # As PostgreSQL's triggers fire, whose names have their oids: in the order in which they were made.
    foreign = sorted((each for each in constraints if each.kind == "f"), key=lambda constraint: constraint.oid)
    if not unique and not foreign:
        return None
    return TableKeys(
        unique=tuple(_unique_key(relation, constraint, values) for constraint in unique),
        foreign=tuple(
            foreign_key(catalog, constraint) for constraint in foreign if constraint.relation == relation.oid
        ),
        referenced=tuple(
            foreign_key(catalog, constraint) for constraint in foreign if constraint.foreign_relation == relation.oid
        ),
    )


def _unique_key(relation: Relation, constraint: Constraint | Index, values: RowValues) -> UniqueKey:
    index = unique_index(relation, constraint, values)
    key = UniqueKey(constraint=constraint, index=index, places=())
    attnums = tuple(int(column.name[1:]) for column in index.inputs) if key.computed else constraint.columns
    return replace(key, places=places_of(relation, attnums))


def foreign_key(catalog: CatalogSnapshot, constraint: Constraint) -> ForeignKey:
    """The foreign key that `constraint` declares."""
    child = catalog.get(constraint.relation)
    parent = catalog.get(constraint.foreign_relation or 0)
    assert isinstance(child, Relation)
    assert isinstance(parent, Relation)
    return ForeignKey(
        constraint=constraint,
        child=child,
        child_index=key_index(child, constraint.columns, as_texts=_compared_as_texts(child, parent, constraint)),
        child_places=places_of(child, constraint.columns),
        parent=parent,
        parent_index=key_index(parent, constraint.foreign_columns),
        parent_places=places_of(parent, constraint.foreign_columns),
        unlike=tuple(
            _unlike(child, attnum, parent, other)
            for attnum, other in zip(constraint.columns, constraint.foreign_columns, strict=True)
        ),
    )


def _type_of(relation: Relation, attnum: int) -> SqlType:
    return type_of_column(next(column for column in relation.columns if column.attnum == attnum))


def _compared_as_texts(child: Relation, parent: Relation, constraint: Constraint) -> frozenset[int]:
    """The referring columns of type citext that refer to texts: they are compared as these are."""
    pairs = zip(constraint.columns, constraint.foreign_columns, strict=True)
    return frozenset(
        one for one, other in pairs
        if kind_of(_type_of(child, one).oid) == CITEXT and kind_of(_type_of(parent, other).oid) is None
    )  # fmt: skip


_ALIKE = (frozenset({t.INT2, t.INT4, t.INT8}), frozenset({t.TEXT, t.VARCHAR, t.NAME}))
"""Types whose values are looked up as those of each other."""


def _unlike(child: Relation, attnum: int, parent: Relation, other: int) -> UnlikeTypes | None:
    one, two = _type_of(child, attnum), _type_of(parent, other)
    if kind_of(two.oid) is None:
        one = like_text(one)
    if any(one.oid in types and two.oid in types for types in _ALIKE):
        return None
    same = one.oid == two.oid and arrow_type(one) == arrow_type(two)
    return None if same and (one.oid != t.BPCHAR or one.typmod == two.typmod) else UnlikeTypes(one, two)


def places_of(relation: Relation, attnums: tuple[int, ...]) -> tuple[int, ...]:
    """The places of columns among the live ones."""
    live = [column.attnum for column in relation.live_columns()]
    return tuple(live.index(attnum) for attnum in attnums)
