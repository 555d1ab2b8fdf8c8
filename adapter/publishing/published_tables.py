"""Which tables are published as Iceberg tables, and as what: the option ``iceberg``, and the columns' types.

The types that are stored as others know them are published as they are (uuid, json, xml, bpchar, network addresses and
a numeric without a precision as text). Those whose stored form means nothing outside are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
from msgspec.structs import replace

from adapter.plans.key_indexes import stored_column
from planner.errors import FeatureNotSupported, InvalidParameterValue
from planner.ir.physical import element_type
from planner.syntax.options import boolean_value
from planner.types.ranges import range_or_multirange
from planner.types.type_names import format_type
from planner.types.types import INT2VECTOR, INTERVAL, OIDVECTOR, SqlType, type_of_column
from planner.types.user_types import attributes, enum_of
from storage.catalog.model import CatalogSnapshot, Column, Database, Relation, Schema
from storage.catalog.temporary import is_temporary
from storage.layouts.definition import layout_of
from storage.publishing.columns import PublishableTable, PublishedColumn
from storage.upkeep.retention import Retention

OPTION = "iceberg"

LEAST_KEPT_MS = 300_000
"""How long a snapshot that is not the newest any more is readable at least: who has begun to read goes on."""


def _flag(value: str) -> str:
    if boolean_value(value) is None:
        raise InvalidParameterValue(f'invalid value for boolean option "{OPTION}": {value}')
    return value


OF_TABLES: Mapping[str, Callable[[str], str]] = {OPTION: _flag}
"""What checks the options that tables have for publishing. 22023."""


def flag_of(value: str) -> bool:
    """What the option of a schema or a database says. Raises 22023."""
    return boolean_value(_flag(value)) is True


def says_published(relation: Relation) -> bool | None:
    """What a table says itself of being published."""
    if relation.kind != "r":
        return False
    given = dict(option.split("=", 1) for option in relation.options if option.startswith(f"{OPTION}="))
    return None if OPTION not in given else boolean_value(given[OPTION]) is True


def is_published(catalog: CatalogSnapshot, relation: Relation) -> bool:
    """Whether `relation` is to be published: what it says, else its schema, else its database."""
    said = says_published(relation)
    return published_by_default(catalog, relation) if said is None else said


def published_by_default(catalog: CatalogSnapshot, relation: Relation) -> bool:
    """Whether what is in the schema of `relation`, or else in its database, is to be published."""
    schema = catalog.get(relation.schema)
    if not isinstance(schema, Schema) or is_temporary(schema.oid):
        return False
    if schema.iceberg is not None:
        return schema.iceberg
    database = catalog.get(schema.database)
    return isinstance(database, Database) and database.iceberg


def type_held(catalog: CatalogSnapshot, relation: Relation, type_: SqlType) -> SqlType:
    """The type of a new column of `relation`: arrays of any dimensions are held, but where others are to read them."""
    return type_ if is_published(catalog, relation) else of_any_dimensions(type_)


def of_any_dimensions(type_: SqlType) -> SqlType:
    """An array type as one that holds arrays of any dimensions; any other type as it is."""
    if element_type(type_) is None or type_.oid in (INT2VECTOR, OIDVECTOR):
        return type_
    return replace(type_, dimensioned=True)


def check_publishable(relation: Relation) -> None:
    """0A000 for a table that says it is to be published and cannot be."""
    if says_published(relation):
        if is_temporary(relation.schema):
            raise FeatureNotSupported("temporary tables cannot be published as Iceberg tables")
        published_columns(relation)


def published_columns(relation: Relation) -> tuple[PublishedColumn, ...]:
    """The columns as they are published. 0A000 for one of a type that Iceberg has not, and when there is none."""
    columns = relation.live_columns()
    if not columns:
        raise FeatureNotSupported(
            f'table "{relation.name}" cannot be published as an Iceberg table', detail="It has no columns."
        )
    return tuple(_published(relation, column) for column in columns)


def _published(relation: Relation, column: Column) -> PublishedColumn:
    type_ = type_of_column(column)
    if _is_opaque(type_):
        raise FeatureNotSupported(
            f'table "{relation.name}" cannot be published as an Iceberg table',
            detail=f'Iceberg has no type for column "{column.name}" of type {format_type(type_.oid, type_.typmod)}.',
        )
    stored = stored_column(relation, column.attnum)
    missing = None if stored.missing is None else _scalar(stored.missing, stored.type)
    return PublishedColumn(attnum=column.attnum, name=column.name, type=stored.type, missing=missing)


def _scalar(value: pa.Scalar | pa.Array, type_: pa.DataType) -> pa.Scalar:
    return value.cast(type_) if isinstance(value, pa.Scalar) else value[0].cast(type_)


def _is_opaque(type_: SqlType) -> bool:
    """Whether the stored form of values means nothing to others."""
    if type_.dimensioned:
        return True
    element = element_type(type_)
    if element is not None:
        return _is_opaque(element)
    if range_or_multirange(type_.oid) is not None or enum_of(type_.oid) is not None:
        return True
    return attributes(type_.oid) is not None or type_.oid == INTERVAL


def published_relations(catalog: CatalogSnapshot) -> Iterator[Relation]:
    """The tables of a database that are to be published, in the order of their oids."""
    found = [record for record in catalog.all() if isinstance(record, Relation) and is_published(catalog, record)]
    return iter(sorted(found, key=lambda relation: relation.oid))


def publishable(catalog: CatalogSnapshot, relation: Relation, retention: Retention) -> PublishableTable:
    """`relation` as it is published. Raises 0A000."""
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    assert relation.shard is not None
    return PublishableTable(
        relation=relation.oid,
        namespace=schema.name,
        name=relation.name,
        shard=relation.shard,
        columns=published_columns(relation),
        keep_ms=max(retention.of(relation.shard), LEAST_KEPT_MS),
        layout=layout_of(relation),
    )
