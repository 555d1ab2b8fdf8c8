"""Look-ups over everything that has an oid: the built-in objects and those of one catalog snapshot.

`CatalogObjects` is built once per snapshot and indexes lazily. It knows names, kinds and owners; what the rows of the
system relations look like is for the modules that make them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, TypeVar

from msgspec import Struct

from adapter.system_catalogs.objects.builtin import builtin_columns
from planner.catalog_data import content as catalog_data
from planner.extensions.available import PLPGSQL
from planner.types import derived_oids
from planner.types.table_indexes import indexes_of
from planner.types.user_types import array_name, type_row_of
from storage.catalog.access import Policy, Role
from storage.catalog.model import (
    BOOTSTRAP_SUPERUSER_OID,
    OWN_SCHEMA,
    PG_CATALOG_OID,
    CatalogRecord,
    CatalogSnapshot,
    Column,
    Comment,
    Constraint,
    Database,
    DomainConstraint,
    DomainType,
    EnumType,
    Index,
    Relation,
    Schema,
    Setting,
)
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.outside import Extension, ForeignServer
from storage.catalog.record import (
    LARGE_OBJECT_COMMENTS,
    LARGE_OBJECT_SCHEMA,
    TEMPORARY_SCHEMA,
    ExtendedStatistics,
    holds_temporary,
)
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange

PG_CLASS = 1259
PG_TYPE = 1247
PG_PROC = 1255
PG_AUTHID = 1260
PG_DATABASE = 1262
PG_CONSTRAINT = 2606
PG_ATTRDEF = 2604
PG_NAMESPACE = 2615
PG_REWRITE = 2618
PG_EXTENSION = 3079
PG_POLICY = 3256
PG_STATISTIC_EXT = 3381
PG_FOREIGN_SERVER = 1417
PG_USER_MAPPING = 1418
PG_FOREIGN_DATA_WRAPPER = 2328
PG_LARGEOBJECT = 2613
PG_DEFAULT_ACL = 826

PLPGSQL_OID = 13561
"""The oid of the extension that every database has."""

RecordT = TypeVar("RecordT", bound=CatalogRecord)


class Named(Struct, frozen=True):
    """An object that has a name in a schema."""

    oid: int
    namespace: int
    name: str
    owner: int
    kind: str
    """pg_class.relkind, pg_type.typtype or pg_proc.prokind."""


def _rows(name: str, *wanted: str) -> Iterator[tuple[Any, ...]]:
    data = builtin_columns(name)
    return zip(*(data[column] for column in wanted), strict=True)


@cache
def _builtin_relations() -> Mapping[int, Named]:
    rows = _rows("pg_class", "oid", "relnamespace", "relname", "relowner", "relkind")
    return {row[0]: Named(*row) for row in rows}


@cache
def _builtin_types() -> Mapping[int, Named]:
    return {
        row.oid: Named(row.oid, row.namespace, row.name, BOOTSTRAP_SUPERUSER_OID, row.type)
        for row in catalog_data.types().values()
    }


@cache
def builtin_functions() -> Mapping[int, Named]:
    """pg_proc by oid."""
    rows = _rows("pg_proc", "oid", "pronamespace", "proname", "proowner", "prokind")
    return {row[0]: Named(*row) for row in rows}


@cache
def builtin_functions_by_name() -> Mapping[str, Sequence[int]]:
    """Oids of the functions of each name."""
    found: dict[str, list[int]] = defaultdict(list)
    for oid, name in _rows("pg_proc", "oid", "proname"):
        found[name].append(oid)
    return found


@cache
def builtin_operators() -> Mapping[int, tuple[str, int, int]]:
    """pg_operator: name, left type and right type by oid."""
    return {
        oid: (name, left, right)
        for oid, name, left, right in _rows("pg_operator", "oid", "oprname", "oprleft", "oprright")
    }


@cache
def builtin_operators_by_name() -> Mapping[str, Sequence[int]]:
    """Oids of the operators of each name."""
    found: dict[str, list[int]] = defaultdict(list)
    for oid, name in _rows("pg_operator", "oid", "oprname"):
        found[name].append(oid)
    return found


@cache
def static_row(relation: str, key: str) -> Mapping[Any, int]:
    """Position of each row of the static relation by the value of column `key`."""
    return {value: position for position, value in enumerate(builtin_columns(relation)[key])}


@cache
def static_descriptions() -> Mapping[tuple[int, int, int], str]:
    """pg_description by (class oid, object oid, sub-id)."""
    return {
        (row[0], row[1], row[2]): row[3]
        for row in _rows("pg_description", "classoid", "objoid", "objsubid", "description")
    }


def _oids_of_large_objects(snapshot: CatalogSnapshot) -> frozenset[int]:
    """The schema and the tables that hold large objects, which no catalog shows."""
    schema = snapshot.schema(LARGE_OBJECT_SCHEMA)
    if schema is None:
        return frozenset()
    tables = [record.oid for record in snapshot.all() if isinstance(record, Relation) and record.schema == schema.oid]
    return frozenset([schema.oid, *tables])


class CatalogObjects:
    """The objects of `snapshot` and the built-in ones, by oid and by name."""

    def __init__(self, snapshot: CatalogSnapshot, database: str = "postgres") -> None:
        self.snapshot = snapshot
        self.database = database
        """The name of the database that is connected to: every table_catalog of information_schema."""
        by_kind: dict[type, list[Any]] = defaultdict(list)
        hidden = _oids_of_large_objects(snapshot)
        for record in snapshot.all():
            if not hidden or (record.oid not in hidden and getattr(record, "relation", 0) not in hidden):
                by_kind[type(record)].append(record)
        for records in by_kind.values():
            records.sort(key=lambda record: record.oid)
        self._by_kind = by_kind
        self._visible: dict[tuple[int, ...], frozenset[int]] = {}

    def _of(self, kind: type[RecordT]) -> Sequence[RecordT]:
        return self._by_kind[kind]

    @property
    def relations(self) -> Sequence[Relation]:
        """User tables and views, in oid order (like the other lists here)."""
        return self._of(Relation)

    @property
    def sequences(self) -> Sequence[SequenceRecord]:
        """Sequences."""
        return self._of(SequenceRecord)

    @property
    def functions(self) -> Sequence[Function]:
        """Functions and procedures of users."""
        return self._of(Function)

    def function(self, oid: int) -> Named | None:
        """The function with this oid, built in or of a user."""
        record = self.snapshot.get(oid)
        if isinstance(record, Function):
            return Named(record.oid, record.schema, record.name, record.owner, record.kind)
        return builtin_functions().get(oid)

    def functions_named(self, name: str) -> Sequence[int]:
        """Oids of the functions of this name."""
        own = [record.oid for record in self.functions if record.name == name]
        return [*builtin_functions_by_name().get(name, ()), *own]

    @property
    def extensions(self) -> Sequence[Extension]:
        """Extensions, but for plpgsql."""
        return self._of(Extension)

    @property
    def foreign_servers(self) -> Sequence[ForeignServer]:
        """Servers of foreign data."""
        return self._of(ForeignServer)

    @property
    def statistics(self) -> Sequence[ExtendedStatistics]:
        """Extended statistics."""
        # Temporary ones are of this session, which does not hear of it when their table goes.
        return [record for record in self._of(ExtendedStatistics) if record.relation in self.snapshot.records]

    @property
    def enums(self) -> Sequence[EnumType]:
        """Enums."""
        return self._of(EnumType)

    @property
    def domains(self) -> Sequence[DomainType]:
        """Domains."""
        return self._of(DomainType)

    @property
    def ranges(self) -> Sequence[UserRange]:
        """Ranges of users and their multiranges."""
        return self._of(UserRange)

    @property
    def base_types(self) -> Sequence[BaseType]:
        """Types that extensions have made."""
        return self._of(BaseType)

    @cached_property
    def domain_checks(self) -> Mapping[int, tuple[DomainConstraint, DomainType]]:
        """The checks of domains by oid, with the domain that each is of."""
        return {check.oid: (check, domain) for domain in self.domains for check in domain.checks}

    @property
    def schemas(self) -> Sequence[Schema]:
        """Schemas, pg_catalog, information_schema and the server's own among them."""
        return [OWN_SCHEMA, *self._of(Schema)]

    @property
    def roles(self) -> Sequence[Role]:
        """Roles that the catalog holds (not the predefined pg_* ones)."""
        return self._of(Role)

    @property
    def databases(self) -> Sequence[Database]:
        """Databases."""
        return self._of(Database)

    @property
    def constraints(self) -> Sequence[Constraint]:
        """Constraints."""
        return self._of(Constraint)

    @cached_property
    def indexes(self) -> Sequence[tuple[Index, Relation]]:
        """The indexes of all tables, those of constraints among them, with the tables."""
        return [(index, relation) for relation in self.relations for index in indexes_of(self.snapshot, relation)]

    @property
    def comments(self) -> Sequence[Comment]:
        """Comments."""
        return self._of(Comment)

    @property
    def settings(self) -> Sequence[Setting]:
        """ALTER DATABASE / ROLE ... SET."""
        return self._of(Setting)

    @cached_property
    def constraints_by_relation(self) -> Mapping[int, Sequence[Constraint]]:
        """The constraints of each table, primary key first, then by name as psql lists them."""
        found: dict[int, list[Constraint]] = defaultdict(list)
        for constraint in self.constraints:
            found[constraint.relation].append(constraint)
        for constraints in found.values():
            constraints.sort(key=lambda constraint: (constraint.kind != "p", constraint.name))
        return found

    @cached_property
    def defaults(self) -> Mapping[int, tuple[Relation, Column]]:
        """Columns with a default or the expression that they are generated by, each with its relation, by the oid that
        pg_attrdef has for it."""
        columns = [(relation, column) for relation in self.relations for column in relation.live_columns()]
        with_one = [(relation, column) for relation, column in columns if column.default is not None]
        return dict(enumerate(with_one, derived_oids.ATTRDEF_START))

    @cached_property
    def schema_name_by_oid(self) -> Mapping[int, str]:
        """Schema names."""
        return {schema.oid: schema.name for schema in self.schemas}

    def defined_in(self, schema: int) -> str:
        """The name of a schema as definitions have it: every session's temporary one is pg_temp there
        (get_namespace_name_or_temp)."""
        name = self.schema_name_by_oid.get(schema, "")
        return TEMPORARY_SCHEMA if holds_temporary(name) else name

    @cached_property
    def role_names(self) -> Mapping[int, str]:
        """Role names, the predefined roles included."""
        names = dict(_rows("pg_authid", "oid", "rolname"))
        names.update({role.oid: role.name for role in self.roles})
        return names

    @cached_property
    def descriptions(self) -> Mapping[tuple[int, int, int], str]:
        """Comments on user objects by (class oid, object oid, sub-id)."""
        found = {
            (PG_NAMESPACE, schema.oid, 0): static_descriptions()[PG_NAMESPACE, schema.origin, 0]
            for schema in self.schemas
            if schema.origin is not None
        }
        found[PG_EXTENSION, PLPGSQL_OID, 0] = PLPGSQL.comment
        for comment in self.comments:
            if comment.object_oid > LARGE_OBJECT_COMMENTS:
                found[PG_LARGEOBJECT, comment.object_oid - LARGE_OBJECT_COMMENTS, 0] = comment.text
                continue
            class_oid, oid = self.class_of(comment.object_oid), comment.object_oid
            if class_oid == PG_TYPE and comment.subid:
                class_oid = PG_CLASS
            elif class_oid == PG_TYPE:
                oid = derived_oids.row_type_oid(oid)
            found[class_oid, oid, comment.subid] = comment.text
        return found

    def class_of(self, oid: int) -> int:
        """The catalog (pg_class oid) in which the user object `oid` has its row; pg_class when unknown."""
        match self.snapshot.get(oid):
            case Schema():
                return PG_NAMESPACE
            case Role():
                return PG_AUTHID
            case Database():
                return PG_DATABASE
            case Constraint():
                return PG_CONSTRAINT
            case EnumType() | DomainType() | UserRange() | BaseType() | Relation(kind="c"):
                return PG_TYPE
            case Function():
                return PG_PROC
            case Extension():
                return PG_EXTENSION
            case ForeignServer():
                return PG_FOREIGN_SERVER
            case Policy():
                return PG_POLICY
            case ExtendedStatistics():
                return PG_STATISTIC_EXT
            case None if oid in self.domain_checks:
                return PG_CONSTRAINT
            case _:
                return PG_CLASS

    @cached_property
    def user_relations(self) -> Mapping[int, Named]:
        """What has a row in pg_class: tables, views, sequences and indexes."""
        found: dict[int, Named] = {}
        for relation in self.relations:
            found[relation.oid] = Named(relation.oid, relation.schema, relation.name, relation.owner, relation.kind)
        for sequence in self.sequences:
            found[sequence.oid] = Named(sequence.oid, sequence.schema, sequence.name, sequence.owner, "S")
        for index, table in self.indexes:
            found[index.oid] = Named(index.oid, table.schema, index.name, table.owner, "i")
        return found

    @cached_property
    def relation_by_name(self) -> Mapping[tuple[int, str], Named]:
        """Everything in pg_class by (schema oid, name)."""
        found = {(named.namespace, named.name): named for named in _builtin_relations().values()}
        found.update({(named.namespace, named.name): named for named in self.user_relations.values()})
        return found

    def relation(self, oid: int) -> Named | None:
        """The relation, sequence or index with this oid."""
        return self.user_relations.get(oid) or _builtin_relations().get(oid)

    def type(self, oid: int) -> Named | None:
        """The type with this oid: built-in, of a user, or the array over one."""
        builtin = _builtin_types().get(oid)
        if builtin is not None:
            return builtin
        owner = derived_oids.owner_of_row_type(oid)
        if owner is not None:
            record = self.snapshot.get(owner)
            if isinstance(record, (Relation, EnumType, DomainType, UserRange, BaseType)):
                kind = type_row_of(record).type
                return Named(oid, record.schema, record.name, record.owner, kind)
        owner = derived_oids.owner_of_array_type(oid)
        if owner is not None:
            record = self.snapshot.get(owner)
            if isinstance(record, (Relation, EnumType, DomainType, UserRange, BaseType)):
                name = array_name(self.snapshot, record.schema, record.name)
                return Named(oid, record.schema, name, record.owner, "b")
        return None

    def element_type(self, oid: int) -> int:
        """The element type of a true array type, else 0."""
        row = catalog_data.types().get(oid)
        if row is not None:
            return row.elem if row.category == "A" else 0
        owner = derived_oids.owner_of_array_type(oid)
        return 0 if owner is None else derived_oids.row_type_oid(owner)

    def base_type(self, oid: int, typmod: int) -> tuple[int, int]:
        """The type that a domain is over, and the modifier that it has there; both as they are for other types."""
        owner = derived_oids.owner_of_row_type(oid)
        record = None if owner is None else self.snapshot.get(owner)
        if isinstance(record, DomainType):
            return record.base_oid, record.typmod
        row = catalog_data.types().get(oid)
        return (row.basetype, row.typmod) if row is not None and row.type == "d" else (oid, typmod)

    def effective_path(self, search_path: Sequence[str], user: str) -> tuple[int, ...]:
        """Oids of the schemas that names are looked for in: those of `search_path` that exist, "$user" replaced, and
        pg_catalog first unless it is named."""
        path: list[int] = []
        for name in search_path:
            schema = self.snapshot.schema(user if name == "$user" else name)
            if schema is not None and schema.oid not in path:
                path.append(schema.oid)
        if PG_CATALOG_OID not in path:
            path.insert(0, PG_CATALOG_OID)
        return tuple(path)

    def visible_relations(self, path: tuple[int, ...]) -> frozenset[int]:
        """Oids of the relations that an unqualified name reaches along `path`."""
        found = self._visible.get(path)
        if found is None:
            rank = {namespace: position for position, namespace in enumerate(path)}
            best: dict[str, Named] = {}
            for (namespace, name), named in self.relation_by_name.items():
                if namespace in rank:
                    other = best.get(name)
                    if other is None or rank[namespace] < rank[other.namespace]:
                        best[name] = named
            found = frozenset(named.oid for named in best.values())
            self._visible[path] = found
        return found
