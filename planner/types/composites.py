"""What columns of composite types, the types of tables' rows among them, are made of.

A value is stored as a struct of its fields, each under the name that it keeps for life (`user_types.Attribute`), so
fields come and go without a rewrite: a value lacks fields that are younger, and those that were dropped are not read.
What has been worked out for a table's columns holds for one form of their types only: `Column.form` tells the forms
apart.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from planner.types import derived_oids
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.type_scope import record_of, types_of
from storage.catalog.model import CatalogSnapshot, Column, DomainType, Relation


def composites_beneath(oid: int) -> Iterator[Relation]:
    """The composite types that values of the type `oid` are made of: itself, what it is an array or a domain over, and
    the fields'. Each comes once."""
    seen: set[int] = set()
    pending = [oid]
    while pending:
        oid = pending.pop()
        owner = derived_oids.owner_of_array_type(oid)
        record = record_of(oid if owner is None else derived_oids.row_type_oid(owner))
        if record is None or record.oid in seen:
            continue
        seen.add(record.oid)
        if isinstance(record, DomainType):
            pending.append(record.base_oid)
        elif isinstance(record, Relation):
            yield record
            pending.extend(column.type_oid for column in record.live_columns() if column.type_oid > FIRST_USER_TYPE)


def form_of(oid: int) -> int:
    """What tells the forms of a type with composite types in it apart; 0 for all other types."""
    if oid <= FIRST_USER_TYPE:
        return 0
    found = [(record.oid, fields_of(record)) for record in composites_beneath(oid)]
    return zlib.crc32(repr(sorted(found)).encode()) or 1 if found else 0


def fields_of(record: Relation) -> tuple[tuple[int, int, int, bool], ...]:
    """What of the columns of a relation the form of its row type depends on."""
    return tuple((column.attnum, column.type_oid, column.typmod, column.dropped) for column in record.columns)


def stored_uses(catalog: CatalogSnapshot, record_oid: int) -> Iterator[tuple[Relation, Column]]:
    """The columns of tables whose values are made of those of the type of the record: in arrays and domains, and in
    fields of other types (find_composite_type_dependencies)."""
    users = _users(catalog)
    seen: set[int] = set()

    def uses_of(oid: int) -> Iterator[tuple[Relation, Column]]:
        if oid in seen:
            return
        seen.add(oid)
        owner = derived_oids.owner_of_row_type(oid)
        if owner is not None:
            yield from uses_of(derived_oids.array_type_oid(owner))
        for record in sorted(users.get(oid, ()), key=lambda user: user.oid):
            if isinstance(record, DomainType) or record.shard is None:
                yield from uses_of(derived_oids.row_type_oid(record.oid))
            else:
                columns = (column for column in record.columns if column.type_oid == oid and not column.dropped)
                yield from ((record, column) for column in columns)

    yield from uses_of(derived_oids.row_type_oid(record_oid))


def composites_over(catalog: CatalogSnapshot, record_oid: int) -> list[Relation]:
    """The composite types, those of the rows of tables and views among them, with values of the type of the record in
    their fields."""
    users = _users(catalog)
    found: dict[int, Relation] = {}
    seen: set[int] = set()
    pending = [record_oid]
    while pending:
        oid = pending.pop()
        if oid in seen:
            continue
        seen.add(oid)
        for type_oid in (derived_oids.row_type_oid(oid), derived_oids.array_type_oid(oid)):
            for user in users.get(type_oid, ()):
                pending.append(user.oid)
                if isinstance(user, Relation):
                    found[user.oid] = user
    return list(found.values())


def _users(catalog: CatalogSnapshot) -> Mapping[int, Sequence[Relation | DomainType]]:
    """Who has columns of, or is a domain over, a type of a user, by the type's oid."""
    users: defaultdict[int, list[Relation | DomainType]] = defaultdict(list)
    for record in catalog.all():
        if isinstance(record, DomainType):
            users[record.base_oid].append(record)
        elif isinstance(record, Relation):
            for oid in {column.type_oid for column in record.columns if column.type_oid > FIRST_USER_TYPE}:
                users[oid].append(record)
    return users


def with_forms(relation: Relation, catalog: CatalogSnapshot) -> Relation:
    """`relation` with the forms that the types of its columns have in `catalog`."""
    if all(column.type_oid <= FIRST_USER_TYPE for column in relation.columns):
        return relation
    with types_of(catalog, ()):
        columns = tuple(map(_with_form, relation.columns))
    return relation if columns == relation.columns else replace(relation, columns=columns)


def _with_form(column: Column) -> Column:
    form = 0 if column.dropped else form_of(column.type_oid)
    return column if form == column.form else replace(column, form=form)
