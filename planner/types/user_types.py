"""The types that users define: what a type's oid stands for in the catalog that the running statement sees.

The look-ups by oid here and in `planner.types.type_names` read the catalog in force (`planner.types.type_scope`).

An enum's values are held as numbers in the declared order (`storage.catalog.model.EnumLabel.position`), on every engine
and in storage; labels are made of them where they leave as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from planner.catalog_data.content import TypeRow, types
from planner.errors import InsufficientPrivilege
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.types import derived_oids
from planner.types.base_types import KINDS
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.type_scope import TYPE_SCOPE, UserType, record_of
from planner.types.types import INT8, OID, REG_TYPES, SqlType, type_of_column
from storage.catalog.model import COMPOSITE, CatalogSnapshot, DomainType, EnumType, Relation, Schema
from storage.catalog.record import TEMPORARY_SCHEMA, Record, holds_temporary
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange

_INT8_ARRAY = 1016

STORED_SCHEMA = "tidegate"
"""The schema that types of users have in expressions that the catalog keeps, where they are called by the oids of their
records: renaming them changes no text."""


def is_user_type(oid: int) -> bool:
    """Whether `oid` is one that a type of a user, or the array of one, has."""
    return oid > FIRST_USER_TYPE


def enum_of(oid: int) -> EnumType | None:
    """The enum `oid`, or None when it is none."""
    if oid <= FIRST_USER_TYPE:
        return None
    record = record_of(oid)
    return record if isinstance(record, EnumType) else None


def held_as(type: SqlType) -> SqlType:
    """The built-in type of the numbers as which values of an enum (or of arrays of it), and of regclass and its like,
    are held; other types as they are. A text that must stay true when what it names is renamed is written with it."""
    if type.oid in REG_TYPES:
        return SqlType(OID)
    if enum_of(type.oid) is not None:
        return SqlType(INT8)
    element = derived_oids.owner_of_array_type(type.oid)
    if element is not None and enum_of(derived_oids.row_type_oid(element)) is not None:
        return SqlType(_INT8_ARRAY)
    return type


def is_type_record(record: Record | None) -> bool:
    """Whether the record is there for a type alone."""
    return isinstance(record, (EnumType, DomainType, UserRange, BaseType)) or (
        isinstance(record, Relation) and record.kind == COMPOSITE
    )


class Attribute(Struct, frozen=True, kw_only=True):
    """A field of a composite type. Engines and storage call it `physical`."""

    name: str
    type: SqlType
    physical: str
    collation: int = 0


def attributes(oid: int) -> tuple[Attribute, ...] | None:
    """The fields of the composite type `oid` in order; None when it is none."""
    record = record_of(oid)
    if not isinstance(record, Relation):
        return None
    return tuple(
        Attribute(
            name=column.name,
            type=type_of_column(column),
            physical=f"a{column.attnum}",
            collation=column.collation,
        )
        for column in record.live_columns()
    )


def user_type_row(oid: int) -> TypeRow | None:
    """What pg_type says of a type of a user or of the array over one."""
    element = derived_oids.owner_of_array_type(oid)
    if element is not None:
        inner = user_type_row(derived_oids.row_type_oid(element))
        return None if inner is None else _array_row(oid, inner)
    record = record_of(oid)
    return None if record is None else type_row_of(record)


def type_row_of(record: UserType) -> TypeRow:
    """What pg_type says of the type that is recorded so."""
    if isinstance(record, DomainType):
        return _domain_row(record)
    if isinstance(record, BaseType):
        return _base_row(record)
    enum, ranges = isinstance(record, EnumType), isinstance(record, UserRange)
    return TypeRow(
        oid=derived_oids.row_type_oid(record.oid),
        name=record.name,
        namespace=record.schema,
        len=4 if enum else -1,
        byval=enum,
        type=("m" if record.is_multirange else "r") if isinstance(record, UserRange) else "e" if enum else "c",
        category="E" if enum else "R" if ranges else "C",
        ispreferred=False,
        elem=0,
        array=derived_oids.array_type_oid(record.oid),
        basetype=0,
        typmod=-1,
        collation=0,
    )


def _domain_row(record: DomainType) -> TypeRow:
    base = types().get(record.base_oid) or user_type_row(record.base_oid)
    assert base is not None
    return TypeRow(
        oid=derived_oids.row_type_oid(record.oid),
        name=record.name,
        namespace=record.schema,
        len=base.len,
        byval=base.byval,
        type="d",
        category=base.category,
        ispreferred=False,
        elem=0,
        array=derived_oids.array_type_oid(record.oid),
        basetype=record.base_oid,
        typmod=record.typmod,
        collation=record.collation,
    )


def _base_row(record: BaseType) -> TypeRow:
    kind = KINDS[record.kind]
    return TypeRow(
        oid=derived_oids.row_type_oid(record.oid),
        name=record.name,
        namespace=record.schema,
        len=-1,
        byval=False,
        type="b",
        category=kind.category,
        ispreferred=False,
        elem=0,
        array=derived_oids.array_type_oid(record.oid),
        basetype=0,
        typmod=-1,
        collation=kind.collation,
    )


def _array_row(oid: int, element: TypeRow) -> TypeRow:
    return TypeRow(
        oid=oid,
        name=array_name(TYPE_SCOPE.get().catalog, element.namespace, element.name),
        namespace=element.namespace,
        len=-1,
        byval=False,
        type="b",
        category="A",
        ispreferred=False,
        elem=element.oid,
        array=0,
        basetype=0,
        typmod=-1,
        collation=element.collation,
    )


_MAX_NAME_BYTES = 63


def array_name(catalog: CatalogSnapshot, schema: int, name: str) -> str:
    """What the array type over the type `name` in the schema with this oid is called: an underscore and that name, and
    more underscores while another type has the name, or the array over an older one (makeArrayTypeName)."""
    first = _underscored(name, 1)
    if not name.startswith("_") and _named(catalog, schema, first) is None:
        return first
    base = name.lstrip("_")
    names = [_underscored(base, count) for count in range(_MAX_NAME_BYTES)]
    family = {each: found for each in names if (found := _named(catalog, schema, each)) is not None}
    taken = set(family)
    for each in sorted(family, key=lambda each: family[each].oid):
        count = 1
        while (array := _underscored(each, count)) in taken and count < _MAX_NAME_BYTES:
            count += 1
        if each == name:
            return array
        taken.add(array)
    return first


def _underscored(name: str, count: int) -> str:
    return f"{'_' * count}{name}".encode()[:_MAX_NAME_BYTES].decode(errors="ignore")


def find_type(names: Sequence[str]) -> int:
    """The oid of the type of a user that a possibly qualified name means, or of the array over one; 0 when none is."""
    scope = TYPE_SCOPE.get()
    if len(names) > 1 and names[-2] == STORED_SCHEMA:
        return derived_oids.row_type_oid(int(names[-1])) if names[-1].isdigit() else 0
    if len(names) > 1 and names[-2] in scope.closed_schemas:
        raise InsufficientPrivilege(f"permission denied for schema {names[-2]}")
    for schema_name in (names[-2],) if len(names) > 1 else scope.search_path:
        schema = scope.catalog.schema(schema_name)
        if schema is not None:
            found = type_in(scope.catalog, schema.oid, names[-1])
            if found:
                return found
    return 0


def type_in(catalog: CatalogSnapshot, schema: int, name: str) -> int:
    """The oid of the type called `name` in the schema with this oid, 0 when there is none."""
    record = _named(catalog, schema, name)
    if record is not None:
        return derived_oids.row_type_oid(record.oid)
    for count in range(1, len(name) - len(name.lstrip("_")) + 1):
        record = _named(catalog, schema, name[count:])
        if record is not None and array_name(catalog, schema, record.name) == name:
            return derived_oids.array_type_oid(record.oid)
    return 0


def _named(catalog: CatalogSnapshot, schema: int, name: str) -> UserType | None:
    oid = catalog.type_names.get((schema, name))
    if oid is not None:
        record = catalog.get(oid)
        return record if isinstance(record, (EnumType, DomainType, UserRange, BaseType)) else None
    return catalog.relation(schema, name)


_KEPT = re.compile(rf'(?:\(?(-?\d+)\)?::)?{STORED_SCHEMA}\."(\d+)"')


def kept_name(record_oid: int) -> str:
    """How an expression that the catalog keeps calls the type that is recorded under this oid."""
    return f'{STORED_SCHEMA}."{record_oid}"'


_KEPT_ITEM = re.compile(rf'(?:NULL|\(?(-?\d+)\)?::{STORED_SCHEMA}\."\d+")')
_KEPT_ARRAY = re.compile(
    rf'ARRAY(\[(?:\[|{_KEPT_ITEM.pattern.replace("(-", "(?:-")}|, |\])+\])::{STORED_SCHEMA}\."(\d+)"\[\]'
)
"""What `value_to_keep` makes of an array."""
_PART_OF_KEPT_ARRAY = re.compile(rf"{_KEPT_ITEM.pattern}|\[|\]|, ")
_SIGNS_OF_ARRAYS = {"[": "{", "]": "}", ", ": ","}
_SPECIAL_IN_ARRAYS = re.compile(r'[{}",\\\s]')
_KEPT_FIELD = re.compile(rf'"{STORED_SCHEMA} (\d+) (\d+)"')


def kept_field(type_oid: int, field: Attribute) -> str:
    """What an expression that the catalog keeps calls a field of the composite type, whose name may change."""
    return f"{STORED_SCHEMA} {record_oid_of(type_oid)} {field.physical[1:]}"


def fields_mentioned(text: str) -> set[tuple[int, int]]:
    """The fields that an expression which the catalog keeps names: the oids of the records of their types, and their
    attnums."""
    return {(int(match[1]), int(match[2])) for match in _KEPT_FIELD.finditer(text)}


_KEPT_ROW = re.compile(rf"[)']::{STORED_SCHEMA}\.\"(\d+)\"")


def rows_mentioned(text: str) -> set[int]:
    """The oids of the records of the types that an expression which the catalog keeps has values of written out, and
    maybe some more."""
    return {int(match[1]) for match in _KEPT_ROW.finditer(text)}


_KEPT_OPERATOR = re.compile(rf'OPERATOR\("{STORED_SCHEMA}\.(\d+)"\.([^)]+)\)')


def kept_schema(record_oid: int) -> str:
    """The schema that an operator of an extension has in an expression that the catalog keeps: that of the type which
    is recorded under this oid. (Names of operators are printed with one other name alone.)"""
    return f"{STORED_SCHEMA}.{record_oid}"


def shown_operator(record: BaseType, symbol: str) -> str:
    """An operator over the type of an extension as PostgreSQL prints it: with its schema where the search path does not
    show it; or as an expression that the catalog keeps has it."""
    scope = TYPE_SCOPE.get()
    if scope.stored:
        return f'OPERATOR("{kept_schema(record.oid)}".{symbol})'
    schema = scope.catalog.get(record.schema)
    assert isinstance(schema, Schema)
    return symbol if schema.name in scope.search_path else f"OPERATOR({quote_identifier(schema.name)}.{symbol})"


def mentions(text: str, record_oid: int) -> bool:
    """Whether an expression that the catalog keeps names the type that is recorded under this oid, or an operator over
    it."""
    return kept_name(record_oid) in text or f'"{kept_schema(record_oid)}"' in text


def mentioned(text: str) -> tuple[int, ...]:
    """The oids of the records of the types that an expression which the catalog keeps names, or has operators over."""
    found = [match[2] for match in _KEPT.finditer(text)] + [match[1] for match in _KEPT_OPERATOR.finditer(text)]
    return tuple(dict.fromkeys(map(int, found)))


_KEPT_RELATION = re.compile(r"'(\d+)'::regclass")


def relations_mentioned(text: str) -> tuple[int, ...]:
    """The oids of the relations that constants of regclass stand for in an expression which the catalog keeps."""
    return tuple(dict.fromkeys(map(int, _KEPT_RELATION.findall(text))))


def value_to_keep(value: object, type: SqlType) -> str | None:
    """A constant of an enum, or of an array of one (of tuples in tuples if it has several dimensions), as an expression
    that the catalog keeps has it, in which it stays what it is when its label changes; None where it is to be written
    with labels, and for other types."""
    if not TYPE_SCOPE.get().stored or type.oid in REG_TYPES or held_as(type) == type:
        return None
    owner = derived_oids.owner_of_row_type(type.oid) or derived_oids.owner_of_array_type(type.oid) or 0
    if isinstance(value, int):
        return position_to_keep(value, owner)
    if not isinstance(value, tuple) or not value:
        return None

    def kept(item: object) -> str:
        if isinstance(item, tuple):
            return f"[{', '.join(map(kept, item))}]"
        return position_to_keep(item, owner) if isinstance(item, int) else "NULL"

    return f"ARRAY{kept(value)}::{kept_name(owner)}[]"


def position_to_keep(position: int, record_oid: int) -> str:
    """The value of an enum at `position`, as an expression that the catalog keeps has it."""
    return f"{position if position >= 0 else f'({position})'}::{kept_name(record_oid)}"


def record_oid_of(type_oid: int) -> int:
    """The oid of the record of a user's type, or of the type that an array is over; 0 for built-in ones."""
    return derived_oids.owner_of_row_type(type_oid) or derived_oids.owner_of_array_type(type_oid) or 0


def types_used(record: Relation | DomainType | UserRange) -> tuple[int, ...]:
    """The oids of the records of the types that a relation's columns, their defaults and its query need, a domain's
    base type, default and checks, or a range's subtype and multirange."""
    found: list[int] = []
    if isinstance(record, DomainType):
        found.extend([record_oid_of(record.base_oid)] if record.base_oid > FIRST_USER_TYPE else [])
        for text in (record.default or "", *(check.expression for check in record.checks)):
            found.extend(mentioned(text))
        return tuple(found)
    if isinstance(record, UserRange):
        other = record.range if record.is_multirange else record.multirange
        return (other, record_oid_of(record.subtype)) if record.subtype > FIRST_USER_TYPE else (other,)
    relation = record
    for column in relation.columns:
        if column.type_oid > FIRST_USER_TYPE and not column.dropped:
            found.append(record_oid_of(column.type_oid))
        if column.default is not None:
            found.extend(mentioned(column.default))
    if relation.definition is not None:
        found.extend(mentioned(relation.definition))
    return tuple(found)


def domains_beneath(catalog: CatalogSnapshot, relation: Relation) -> tuple[DomainType, ...]:
    """The domains that columns of `relation` are of or made of."""
    found: dict[int, DomainType] = {}
    seen: set[int] = set()
    pending = [column.type_oid for column in relation.live_columns() if column.type_oid > FIRST_USER_TYPE]
    while pending:
        oid = record_oid_of(pending.pop())
        record = catalog.get(oid)
        if oid in seen:
            continue
        seen.add(oid)
        if isinstance(record, DomainType):
            found[oid] = record
            pending.append(record.base_oid)
        elif isinstance(record, Relation):
            pending.extend(column.type_oid for column in record.live_columns())
    return tuple(found.values())


def with_names_shown(text: str) -> str:
    """An expression that the catalog keeps, with its types, their constants and their fields as PostgreSQL prints
    them."""

    def shown(match: re.Match[str]) -> str:
        record = record_of(derived_oids.row_type_oid(int(match[2])))
        if record is None:
            return function_name(int(match[2]), defined=True) or match[0]
        name = shown_name(type_row_of(record))
        if match[1] is None or not isinstance(record, EnumType):
            return match[0].removesuffix(kept_name(int(match[2]))) + name
        label = next(label.name for label in record.labels if label.position == int(match[1]))
        return f"{quote_literal(label)}::{name}"

    def shown_field(match: re.Match[str]) -> str:
        fields = attributes(derived_oids.row_type_oid(int(match[1]))) or ()
        return next((quote_identifier(field.name) for field in fields if field.physical == f"a{match[2]}"), match[0])

    def operator(match: re.Match[str]) -> str:
        record = record_of(derived_oids.row_type_oid(int(match[1])))
        return shown_operator(record, match[2]) if isinstance(record, BaseType) else match[0]

    return _KEPT_OPERATOR.sub(operator, _KEPT_FIELD.sub(shown_field, _KEPT.sub(shown, with_arrays_shown(text))))


def with_arrays_shown(text: str) -> str:
    """An expression that the catalog keeps, with the arrays of enums that are constants as such (`value_to_keep`)."""

    def shown(match: re.Match[str]) -> str:
        record = record_of(derived_oids.row_type_oid(int(match[2])))
        if not isinstance(record, EnumType):
            return match[0]
        labels = {str(label.position): label.name for label in record.labels}

        def part(found: re.Match[str]) -> str:
            return _SIGNS_OF_ARRAYS.get(found[0]) or (_array_item(labels[found[1]]) if found[1] else "NULL")

        written = _PART_OF_KEPT_ARRAY.sub(part, match[1])
        return f"{quote_literal(written)}::{kept_name(int(match[2]))}[]"

    return _KEPT_ARRAY.sub(shown, text)


def _array_item(label: str) -> str:
    """A label as the text of an array has it."""
    if label and label.upper() != "NULL" and not _SPECIAL_IN_ARRAYS.search(label):
        return label
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def shown_name(row: TypeRow) -> str:
    """The name of a user's type as PostgreSQL prints it: qualified where the search path does not show it."""
    scope = TYPE_SCOPE.get()
    if scope.stored:
        return kept_name(derived_oids.owner_of_row_type(row.oid) or 0)
    name = quote_identifier(row.name)
    if find_type((row.name,)) == row.oid:
        return name
    schema = scope.catalog.get(row.namespace)
    return f"{quote_identifier(schema.name)}.{name}" if isinstance(schema, Schema) else name


def function_name(oid: int, *, defined: bool = False) -> str:
    """The name of a function of a user, or of the constructors of a range type, as PostgreSQL prints it (in
    definitions with pg_temp for the temporary schema, if `defined`), or as an expression that the catalog keeps has it:
    by its oid. Empty when there is none."""
    scope = TYPE_SCOPE.get()
    if scope.stored:
        return kept_name(oid)
    record = scope.catalog.get(oid)
    if isinstance(record, UserRange):
        return shown_name(type_row_of(record))
    if not isinstance(record, Function):
        return ""
    name = quote_identifier(record.name)
    for path in scope.search_path:
        searched = None if holds_temporary(path) else scope.catalog.schema(path)
        found = () if searched is None else scope.catalog.functions(searched.oid, record.name)
        if any(other.input_types == record.input_types for other in found):
            if record in found:
                return name
            break
    schema = scope.catalog.get(record.schema)
    if not isinstance(schema, Schema):
        return name
    shown = TEMPORARY_SCHEMA if defined and holds_temporary(schema.name) else schema.name
    return f"{quote_identifier(shown)}.{name}"
