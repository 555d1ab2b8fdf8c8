"""What the storage has to know of a key: the columns of a table as the columns of an index.

Types that the storage can order are keys as they are. Of the others (arrays, records) only equality is known here, by
the text of their values.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Protocol

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.arrow_conditions import lower_case, vector_of
from adapter.plans.computed.constant_rows import array_of
from adapter.plans.predicates import Comparison, Conjunction, KeyValue, exact_conjunction, implies
from planner.definitions.expression_columns import ExpressionColumn
from planner.definitions.index_expressions import RowValue, bind_row_value
from planner.dialects.comparison_keys import numeric_key
from planner.ir.bound import BoundQuery
from planner.ir.physical import arrow_type, element_type
from planner.types import types as t
from planner.types.base_types import CITEXT, kind_of
from planner.types.ranges import range_or_multirange
from planner.types.table_indexes import DESCENDING, NULLS_FIRST, holds_keys, index_of_constraint
from planner.types.type_scope import types_of
from planner.types.types import SqlType, is_wide, type_of_column
from planner.types.user_types import held_as
from planner.values.range_bounds import comparison_key
from planner.values.text_values import format_numeric, parse_text
from storage.catalog.model import CatalogSnapshot, Column, Constraint, Index, Relation
from storage.catalog.store import CatalogStore
from storage.ids import ShardId
from storage.shards.indexes.definition import Computed, Domain, IndexDefinition, KeyColumn, StoredColumn, domain_of
from storage.timestamps.csn import Csn


@lru_cache(maxsize=4096)
def stored_column(relation: Relation, attnum: int) -> StoredColumn:
    """The column `attnum` of `relation` as the storage has it."""
    return _stored(next(column for column in relation.columns if column.attnum == attnum))


def _stored(column: Column) -> StoredColumn:
    type_ = type_of_column(column)
    missing = None
    if column.missing is not None:
        missing = array_of(type_, [parse_text(column.missing, held_as(type_))])[0]
    return StoredColumn(name=f"c{column.attnum}", type=arrow_type(type_), missing=missing)


@lru_cache(maxsize=4096)
def stored_columns(relation: Relation) -> tuple[StoredColumn, ...]:
    """All live columns of `relation`, in attnum order."""
    return tuple(map(_stored, relation.live_columns()))


@lru_cache(maxsize=4096)
def key_index(
    relation: Relation,
    attnums: tuple[int, ...],
    *,
    nulls_not_distinct: bool = False,
    as_texts: frozenset[int] = frozenset(),
) -> IndexDefinition:
    """The index by the columns `attnums` of `relation`. The same for the same table: what has been made of its parts is
    found again. Those of the columns that are `as_texts` are compared as texts though they are of type citext."""
    return IndexDefinition(
        id=relation.oid,
        columns=tuple(_key_column(relation, attnum, as_text=attnum in as_texts) for attnum in attnums),
        nulls_not_distinct=nulls_not_distinct,
    )


def constraint_index(relation: Relation, constraint: Constraint) -> IndexDefinition:
    """The index of a primary key, a unique constraint, or of the referring columns of a foreign key."""
    return key_index(relation, constraint.columns, nulls_not_distinct=constraint.nulls_not_distinct)


class RowValues(Hashable, Protocol):
    """What computes expressions over rows at hand that need an engine."""

    def computing(self, query: BoundQuery) -> Callable[[pa.Table], pa.Array]:
        """What gives the one column of `query`, which reads nothing but `RETURNING_ROWS`, for a table of these."""
        ...

    def unsupported(self, query: BoundQuery) -> str | None:
        """Why `query` cannot be computed, or None when it can."""
        ...


def unique_index(relation: Relation, key: Constraint | Index, values: RowValues) -> IndexDefinition:
    """The index of a primary key, a unique constraint or a unique index."""
    if isinstance(key, Constraint):
        return constraint_index(relation, key)
    return index_definition(relation, key, values)


def index_definition(relation: Relation, index: Index, values: RowValues) -> IndexDefinition:
    """The `index` of `relation` as the storage has it. `values` computes its expressions."""
    read = is_plain(index) or readable_part(relation, index) is not None
    return _index(relation, index, None if read else values)


def is_plain(index: Index) -> bool:
    """Whether `index` has all rows of its table by columns alone, in their order."""
    return not index.expressions and index.predicate is None and not index.overlapping


@lru_cache(maxsize=4096)
def readable_part(relation: Relation, index: Index) -> Conjunction | None:
    """The comparisons that say which rows are in an index: of a partial one those that its predicate consists of. None
    when it is not used to read: it holds no keys, or its keys or predicate may fail for a row, or take an engine."""
    if index.overlapping or not holds_keys(index):
        return None
    if not all(_is_quick(row_value(relation, text)) for text in index.expressions):
        return None
    if index.predicate is None:
        return ()
    value = bind_row_value(relation, index.predicate, condition=True)
    columns = {field.id: f"c{attnum}" for field, attnum in zip(value.fields, value.attnums, strict=True)}
    if not _is_quick(value):
        return None
    return exact_conjunction(value.scalar, columns)


@lru_cache(maxsize=4096)
def row_value(relation: Relation, text: str) -> RowValue:
    """What computes the key `text` of an index of `relation`."""
    return bind_row_value(relation, text)


def _is_quick(value: RowValue) -> bool:
    """Whether it is computed without an engine, and fails for no row."""
    return vector_of(value.scalar, {field.id: place for place, field in enumerate(value.fields)}) is not None


@lru_cache(maxsize=4096)
def _index(relation: Relation, index: Index, values: RowValues | None) -> IndexDefinition:
    expressions = iter(index.expressions)
    columns = []
    for attnum in index.columns:
        if attnum:
            columns.append(_key_column(relation, attnum))
        else:
            columns.append(_expression_column(relation, next(expressions), values))
    predicate = None
    if index.predicate is not None:
        condition = bind_row_value(relation, index.predicate, condition=True)
        predicate = _computed(relation, condition, index.predicate, values)
    keys = [
        replace(column, descending=bool(option & DESCENDING), nulls_first=bool(option & NULLS_FIRST))
        for column, option in zip(columns, index.options, strict=True)
    ]
    return IndexDefinition(
        id=index.oid,
        columns=tuple(keys[place] for place in places_in_index(index)),
        unique=index.unique,
        nulls_not_distinct=index.nulls_not_distinct,
        predicate=predicate,
        ordered=index.method == "btree" or bool(index.overlapping),
    )


def places_in_index(index: Index) -> list[int]:
    """The order in which the storage has the keys of `index`: those that overlap come last."""
    return sorted(range(len(index.columns)), key=lambda place: (place in index.overlapping, place))


def _computed(relation: Relation, value: RowValue, text: str, values: RowValues | None) -> Computed:
    """A bound expression over rows of `relation` as the storage has it; `text` is what the catalog has."""
    inputs = tuple(stored_column(relation, attnum) for attnum in value.attnums)
    names = [column.name for column in inputs]
    vector = vector_of(value.scalar, {field.id: place for place, field in enumerate(value.fields)})
    type_ = arrow_type(value.scalar.type)
    if vector is None:
        assert values is not None
        compute = values.computing(value.query)
        return Computed(text=text, type=type_, inputs=inputs, evaluate=lambda rows: compute(rows.select(names)))
    quick = vector

    def evaluate(rows: pa.Table) -> pa.Array:
        result = quick(rows.select(names).combine_chunks())
        if isinstance(result, pa.Scalar):
            result = pa.repeat(result, rows.num_rows)
        result = result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result
        return result if result.type == type_ else result.cast(type_)

    return Computed(text=text, type=type_, inputs=inputs, evaluate=evaluate, quick=True)


def _expression_column(relation: Relation, text: str, values: RowValues | None) -> KeyColumn:
    value = row_value(relation, text)
    source = _computed(relation, value, text, values)
    if kind_of(value.scalar.type.oid) == CITEXT:
        folded = replace(source, text=f"{text}{_FOLDED}", evaluate=lambda rows: _folded(source.evaluate(rows)))
        return KeyColumn(source=folded)
    if domain_of(source.type) is not None:
        return KeyColumn(source=source, padded=value.scalar.type.oid == t.BPCHAR)
    return KeyColumn(
        source=replace(
            source,
            text=f"text of {text}",
            type=pa.string(),
            evaluate=lambda rows: values_as_text(source.evaluate(rows)),
        )
    )


class UsableIndex(Struct, frozen=True, kw_only=True):
    """An index that rows of its table can be found with: `record` says its name, columns (attnums), uniqueness and
    predicate as the catalog has them, `definition` is what `KeyReader` is asked with. It has the rows of the table for
    which all of `rows` hold; `definition.ordered` says whether it also finds ranges, in the order of
    `definition.columns`. `expressions`: what it computes, as columns that a query may have conditions on
    (`planner.definitions.expression_columns`); `names`: of all its keys, None for one that no condition is on."""

    record: Index
    definition: IndexDefinition
    names: tuple[str | None, ...]
    compared: tuple[str | None, ...]
    """`names`, and those of columns that it has other keys of than their values: `key` gives these."""
    keys: Mapping[str, Callable[[Any], Any]] = MappingProxyType({})
    rows: Conjunction = ()
    expressions: tuple[ExpressionColumn, ...] = ()

    def as_keys(self, comparison: Comparison) -> Comparison:
        """`comparison` with what its value is in the index."""
        value = comparison.value
        if type(value) is KeyValue:
            value = self._key(comparison.column, value.value)
        elif comparison.op == "in" and value and type(value[0]) is KeyValue:
            value = tuple([self._key(comparison.column, each.value) for each in value])
        return comparison if value is comparison.value else replace(comparison, value=value)

    def _key(self, column: str, value: Any) -> Any:
        key = self.keys.get(column)
        return value if key is None else key(value)

    def has_all(self, needed: Conjunction) -> bool:
        """Whether it has every row for which `needed` holds."""
        return not self.rows or implies(needed, self.rows)


def usable_indexes(catalog: CatalogSnapshot, relation: Relation) -> tuple[UsableIndex, ...]:
    """The indexes of `relation` that its rows can be read with, those of enforced keys first."""
    keys = [constraint for constraint in catalog.constraints(relation.oid) if constraint.kind in ("p", "u")]
    return _usable_indexes(relation, tuple(keys), catalog.indexes(relation.oid))


@lru_cache(maxsize=1024)
def _usable_indexes(
    relation: Relation, keys: tuple[Constraint, ...], indexes: tuple[Index, ...]
) -> tuple[UsableIndex, ...]:
    found = [_usable(index_of_constraint(relation, key), constraint_index(relation, key), (), {}) for key in keys]
    readable = [(index, rows) for index in indexes if (rows := readable_part(relation, index)) is not None]
    texts = sorted({text for index, _ in readable for text in index.expressions})
    computed = {text: ExpressionColumn.of(place, row_value(relation, text)) for place, text in enumerate(texts)}
    found += [_usable(index, _index(relation, index, None), rows, computed) for index, rows in readable]
    return tuple(found)


def _usable(
    record: Index, definition: IndexDefinition, rows: Conjunction, computed: Mapping[str, ExpressionColumn]
) -> UsableIndex:
    names: list[str | None] = []
    compared: list[str | None] = []
    keys: dict[str, Callable[[Any], Any]] = {}
    for column in definition.columns:
        source = column.source
        if isinstance(source, StoredColumn):
            names.append(source.name)
            compared.append(source.name)
            if column.domain is Domain.INTERVAL:
                keys[source.name] = _interval_key
            continue
        own = computed.get(source.text)
        names.append(None if own is None else f"c{own.attnum}")
        key = _key_maker(source)
        if key is None:
            compared.append(names[-1])
        else:
            compared.append(source.inputs[0].name)
            keys[source.inputs[0].name] = key
    return UsableIndex(
        record=record,
        definition=definition,
        names=tuple(names),
        compared=tuple(compared),
        keys=keys,
        rows=rows,
        expressions=tuple([computed[text] for text in dict.fromkeys(record.expressions)]),
    )


def _key_maker(source: Computed) -> Callable[[Any], Any] | None:
    """What makes keys of values of the column that `source` is computed from; None when it is another expression."""
    column = source.inputs[0] if len(source.inputs) == 1 else None
    if column is None or not pa.types.is_string(column.type):
        return None
    if source.text == f"{column.name}{_COMPARED}":
        return lambda value: numeric_key(format_numeric(Decimal(value)))
    if source.text == f"{column.name}{_FOLDED}":
        return lambda value: _folded(pa.array([value], pa.string()))[0].as_py()
    return None


def _interval_key(value: Any) -> Any:
    return value.months, value.days, value.micros


def expression_columns(indexes: Sequence[UsableIndex]) -> tuple[ExpressionColumn, ...]:
    """What `indexes` of one table compute, each expression once."""
    return tuple({column.attnum: column for index in indexes for column in index.expressions}.values())


def kept_indexes(
    catalog: CatalogSnapshot, table: Relation, values: Callable[[], RowValues]
) -> Sequence[IndexDefinition]:
    """The indexes of `table` that its files get key runs of. `values` gives what computes expressions, when an index
    needs it."""
    with types_of(catalog, ()):
        keys = [constraint for constraint in catalog.constraints(table.oid) if constraint.kind in ("p", "u")]
        found = [replace(constraint_index(table, key), id=key.oid) for key in keys]
        indexes = catalog.indexes(table.oid)
        kept = [index for index in indexes if index.enforced or readable_part(table, index) is not None]
        found.extend(index_definition(table, index, values()) for index in kept)
        return found


class ShardIndexes:
    """The indexes that the files of a shard get key runs of: those of its table, as the newest catalog has them."""

    def __init__(self, catalog: CatalogStore, values: Callable[[], RowValues]) -> None:
        """`values` gives what computes expressions, when an index needs it."""
        self._catalog = catalog
        self._values = values
        self._csn: Csn | None = None
        self._tables: dict[ShardId, Relation] = {}
        self._looked_at: CatalogSnapshot | None = None

    def changed(self) -> set[ShardId]:
        """The shards of which the indexes, or their tables, are not what they were when this was last called. The first
        time those are none."""
        before, catalog = self._looked_at, self._catalog.current()
        self._looked_at = catalog
        if before is None or before is catalog:
            return set()
        tables = [record for record in catalog.all() if isinstance(record, Relation) and record.shard is not None]
        return {
            table.shard
            for table in tables
            if table.shard is not None
            and (
                catalog.indexes(table.oid) != before.indexes(table.oid)
                or catalog.constraints(table.oid) != before.constraints(table.oid)
            )
        }

    def __call__(self, shard: ShardId) -> Sequence[IndexDefinition]:
        catalog = self._catalog.current()
        if catalog.csn != self._csn:
            tables = [record for record in catalog.all() if isinstance(record, Relation)]
            self._tables = {table.shard: table for table in tables if table.shard is not None}
            self._csn = catalog.csn
        table = self._tables.get(shard)
        if table is None:
            return ()
        return kept_indexes(catalog, table, self._values)


def _key_column(relation: Relation, attnum: int, *, as_text: bool = False) -> KeyColumn:
    stored = stored_column(relation, attnum)
    column = next(column for column in relation.columns if column.attnum == attnum)
    type_oid = t.under_domain(column.type_oid)
    ranges = range_or_multirange(type_oid)
    wide = is_wide(type_of_column(column))
    if wide or (ranges is not None and ranges.subtype == t.NUMERIC):
        return KeyColumn(
            source=Computed(
                text=f"{stored.name}{_COMPARED}",
                type=stored.type,
                inputs=(stored,),
                evaluate=lambda table: _comparison_keys(table.column(stored.name)),
                quick=True,
            )
        )
    if kind_of(type_oid) == CITEXT and not as_text:
        return KeyColumn(
            source=Computed(
                text=f"{stored.name}{_FOLDED}",
                type=stored.type,
                inputs=(stored,),
                evaluate=lambda table: _folded(table.column(stored.name)),
                quick=True,
            )
        )
    if domain_of(stored.type) is not None:
        return KeyColumn(source=stored, padded=type_oid == t.BPCHAR)
    return KeyColumn(
        source=Computed(
            text=f"{stored.name} as text",
            type=pa.string(),
            inputs=(stored,),
            evaluate=lambda table: values_as_text(table.column(stored.name)),
            quick=True,
        )
    )


def values_as_text(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A text for each value that is the same for the same values, NULL for NULL."""
    return pa.array([None if value is None else repr(value) for value in values.to_pylist()], pa.string())


def values_of_texts(texts: pa.Array, type_: SqlType) -> pa.Array:
    """The values of `type_` that `values_as_text` made `texts` of; `texts` themselves where they are values, or hold
    what is not written as a constant (a date, say)."""
    if element_type(type_) is None or not pa.types.is_string(texts.type):
        return texts
    try:
        values = [None if text is None else literal_eval(text) for text in texts.to_pylist()]
    except ValueError:
        return texts
    return pa.array(values, arrow_type(type_))


_COMPARED = " compared"
"""What is in an index of numerics held as text, or of ranges of numerics, is what is compared of them."""


_FOLDED = " folded"
"""What is in an index of citexts, or of keys of that type."""


def _folded(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    found = lower_case(values)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _comparison_keys(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    key = numeric_key if pa.types.is_string(values.type) else comparison_key
    return pa.array([None if value is None else key(value) for value in values.to_pylist()], values.type)


def key_arrays(index: IndexDefinition, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Values of the stored columns of `index` as its keys, which `KeyReader` is asked for."""
    found = []
    for column, values in zip(index.columns, columns, strict=False):
        if isinstance(column.source, Computed) and column.source.text.endswith(_COMPARED):
            values = _comparison_keys(values)
        elif isinstance(column.source, Computed) and column.source.text.endswith(_FOLDED):
            values = _folded(values)
        found.append(values if domain_of(values.type) is not None else values_as_text(values))
    return found
