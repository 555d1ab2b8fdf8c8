"""Partition specs and sort orders, as Iceberg describes them, of tables whose files are laid out.

A file names the spec that its part conforms to (`storage.shards.parts.Part.partition`), which need not be that of the
table's newest layout; one of several partitions names spec 0, which has no fields. Specs and their ids stay as they
are: a layout that comes again has its spec again. The sort order is the table's wish: no file says that it keeps to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, BooleanType, DecimalType, IntegerType, LongType

from storage.layouts.layout import TableLayout
from storage.shards.field_ids import column_id
from storage.shards.partitions.transforms import PartitionField as Field
from storage.shards.partitions.transforms import PartitionValue
from storage.shards.parts import Part

FIRST_FIELD = 1000
"""The lowest id of a field of a spec (table specification, "Partition Specs")."""

_LIMITS: Mapping[type, int] = {IntegerType: 1 << 31, LongType: 1 << 63}


class Partition(Struct, frozen=True):
    """Of which spec a file is, and what it has in common of that."""

    spec: int
    values: tuple[Any, ...] = ()

    @property
    def record(self) -> Record:
        """The values as the library has them."""
        return Record(*self.values)


WHOLE_TABLE = Partition(0)
"""Where a file is that may have rows of any partition."""


class Specs(Struct, frozen=True, kw_only=True):
    """The specs of a table by id, that of its layout, and the highest id of their fields."""

    by_id: Mapping[int, PartitionSpec]
    current: int
    last_field: int
    known: Mapping[tuple[Field, ...], int]

    def partition_of(self, part: Part, schema: Schema) -> Partition:
        """Where the file of `part` is, in a table whose columns are `schema`."""
        spec = self.known.get(fields_of(part))
        if not spec:
            return WHOLE_TABLE
        values = [_value(value, schema) for value in part.partition]
        return WHOLE_TABLE if any(value is _NONE for value in values) else Partition(spec, tuple(values))


def fields_of(part: Part) -> tuple[Field, ...]:
    """By what the file of `part` is of one partition."""
    return tuple([value.field for value in part.partition])


def with_specs(
    before: TableMetadataV2 | None, schema: Schema, layout: TableLayout | None, used: Iterable[tuple[Field, ...]]
) -> Specs:
    """The specs of a table whose columns are `schema`: those that it had, and what `layout` and its files need besides,
    which are each of one partition by fields of `used`."""
    specs = [UNPARTITIONED_PARTITION_SPEC] if before is None else list(before.partition_specs)
    last = FIRST_FIELD - 1 if before is None else before.last_partition_id or FIRST_FIELD - 1
    ids = {(field.source_id, str(field.transform)): field for spec in specs for field in spec.fields}
    wanted = () if layout is None else layout.partition
    known: dict[tuple[Field, ...], int] = {(): 0}
    for fields in dict.fromkeys([wanted, *used]):
        if fields in known or any(not _is_there(field, schema) for field in fields):
            continue
        made: list[PartitionField] = []
        for each in fields:
            source, transform = column_id(each.column), _transform(each)
            assert source is not None
            field = ids.get((source, transform))
            if field is None:
                last += 1
                name = _name(each, schema.find_field(source).name, schema, {one.name for one in ids.values()})
                field = PartitionField(source_id=source, field_id=last, transform=parse_transform(transform), name=name)
                ids[source, transform] = field
            made.append(field)
        same = next((spec.spec_id for spec in specs if list(spec.fields) == made), None)
        if same is None:
            same = max(spec.spec_id for spec in specs) + 1
            specs.append(PartitionSpec(*made, spec_id=same))
        known[fields] = same
    by_id = {spec.spec_id: spec for spec in specs}
    return Specs(by_id=by_id, current=known.get(wanted, 0), last_field=last, known=known)


def with_orders(
    before: TableMetadataV2 | None, schema: Schema, layout: TableLayout | None
) -> tuple[list[SortOrder], int]:
    """The sort orders of a table, those that it had and that of `layout`, and the id of the latter."""
    orders = [UNSORTED_SORT_ORDER] if before is None else list(before.sort_orders)
    sources = [column_id(name) for name in (() if layout is None else layout.sort)]
    fields = [
        SortField(
            source_id=source,
            transform=IdentityTransform(),
            direction=SortDirection.ASC,
            null_order=NullOrder.NULLS_LAST,
        )
        for source in sources
        if source is not None
    ]
    if not fields:
        return orders, UNSORTED_SORT_ORDER.order_id
    for order in orders:
        if list(order.fields) == fields:
            return orders, order.order_id
    number = max(order.order_id for order in orders) + 1
    return [*orders, SortOrder(*fields, order_id=number)], number


def _is_there(field: Field, schema: Schema) -> bool:
    return column_id(field.column) in schema.field_ids


def _transform(field: Field) -> str:
    """As table metadata spells it."""
    return f"{field.transform}[{field.width}]" if field.width else field.transform


def _name(field: Field, column: str, schema: Schema, taken: set[str]) -> str:
    """The name of a field: as the library of Iceberg for Java calls them, with the width."""
    if field.transform == "identity":
        return column
    short = {"truncate": "trunc"}.get(field.transform, field.transform)
    name = f"{column}_{short}_{field.width}" if field.width else f"{column}_{short}"
    while name in schema.column_names or name in taken:
        name += "_"
    return name


_NONE: Any = object()


def _value(value: PartitionValue, schema: Schema) -> Any:
    """The key as the library writes it; `_NONE` when it is none of the field's type."""
    key, field = value.key, value.field
    if key is None:
        return None
    source = column_id(field.column)
    assert source is not None
    type = parse_transform(_transform(field)).result_type(schema.find_type(source))
    if isinstance(key, int):
        limit = _LIMITS.get(type.__class__)
        if limit is not None and not -limit <= key < limit:
            return _NONE  # Rounded down, it is no value of the column any more.
        return bool(key) if isinstance(type, BooleanType) else key
    if isinstance(type, DecimalType):
        number = Decimal(key)
        return number if len(number.as_tuple().digits) <= type.precision else _NONE
    return key.encode("latin-1") if isinstance(type, BinaryType) else key
