"""The records that the catalog consists of, and the immutable snapshot that sessions plan against.

Every object that a user can name is one frozen record with an ``oid``. A DDL statement is a list of `CatalogUpdate`: a
retraction (-1) of the old record and an addition (+1) of the new one. A `CatalogSnapshot` is the sum of all updates up
to its CSN, indexed for look-up.

Storage knows nothing of SQL: types are PostgreSQL's type OIDs and type modifiers, expressions (defaults, checks, view
definitions) are SQL text.

Invariants: an oid names at most one live record; oids and a relation's attnums are never reused; within a schema a
relation name is unique; within a relation the names of live columns are unique.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, assert_never

import msgspec
from immutables import Map
from msgspec import Struct
from msgspec.structs import replace

from storage.catalog.access import AuthenticationSecret, Membership, Policies, Policy, Role, Roles, RowSecurity
from storage.catalog.acl import Acl, Acls, DefaultAcl
from storage.catalog.materialized import Materialized
from storage.catalog.outside import Extension, ForeignServer, ForeignTable
from storage.catalog.record import ExtendedStatistics, IndexMarks, Record, with_oid, without_oid
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, EnumLabel, UserRange
from storage.ids import ShardId
from storage.timestamps.csn import Csn

FIRST_USER_OID = 16384
"""PostgreSQL's FirstNormalObjectId: smaller oids belong to built-in objects."""

BOOTSTRAP_SUPERUSER_OID = 10
PG_CATALOG_OID = 11
PUBLIC_SCHEMA_OID = 2200
INFORMATION_SCHEMA_OID = 13000
OWN_SCHEMA_OID = 15980  # Of the schema `tidegate`: PostgreSQL gives out no such oid.
POSTGRES_DATABASE_OID = 5
WHOLE = 0  # In place of a database's oid: what belongs to all of them.

DATABASE_OWNER_ROLE_OID = 6171
"""PostgreSQL's predefined role pg_database_owner, to which the schema public belongs."""


class Database(Record, frozen=True, kw_only=True, tag="database"):
    name: str
    owner: int
    is_template: bool = False  # Whether who may create databases may copy it; others copy only their own.
    allows_connections: bool = True
    connection_limit: int = -1  # Sessions of roles that are no superusers, at once; -1: any number.
    retain_ms: int | None = None  # What is kept of its tables' past (`storage.upkeep.retention`); None: what is usual.
    iceberg: bool = False  # Whether its tables are published that do not say themselves.


class Schema(Record, frozen=True, kw_only=True, tag="schema"):
    name: str
    owner: int
    database: int = POSTGRES_DATABASE_OID
    """The database whose schema it is. `pg_catalog` and `information_schema` are those of every database."""
    origin: int | None = None
    """Of another database's standard schema `public`: the oid of PostgreSQL's, whose privileges and comment it has."""
    retain_ms: int | None = None  # As of a database; None: what that says.
    iceberg: bool | None = None


OWN_SCHEMA = Schema(oid=OWN_SCHEMA_OID, name="tidegate", owner=BOOTSTRAP_SUPERUSER_OID, database=WHOLE)
"""What is in every catalog without being stored, of whatever version the environment is."""


class Column(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One column of a relation. The physical column of a table is named ``c<attnum>``."""

    attnum: int
    name: str
    type_oid: int
    typmod: int = -1
    not_null: bool = False
    default: str | None = None  # SQL text of the DEFAULT expression.
    missing: str | None = None
    """Text form of the value that rows written before the column was added have (pg_attribute.attmissingval)."""
    dropped: bool = False
    identity: str = ""
    """``a`` GENERATED ALWAYS AS IDENTITY, ``d`` BY DEFAULT (pg_attribute.attidentity): the column has no default of its
    own, it takes the next value of `sequence`."""
    generated: str = ""
    """``s`` GENERATED ALWAYS AS (...) STORED (pg_attribute.attgenerated): `default` is the expression that gives the
    column's value."""
    sequence: int | None = None  # Oid of the sequence that an identity column takes its values from.
    dimensioned: bool = False
    """Whether an array was declared with several dimensions: its values have any, and are stored with their bounds."""
    options: tuple[str, ...] = ()  # As pg_attribute.attoptions has them.
    statistics: int = -1  # Its statistics target (pg_attribute.attstattarget).
    collation: int = 0  # The oid of its collation (pg_attribute.attcollation), 0 for the one that its type has.
    holds_nan: bool = False
    """Whether a numeric(p, s) is stored as text, as numeric is, for the NaN among its values: decimals have none."""
    form: int = 0
    """Of a composite type, or one made of such: what tells the fields that it has now from those that it had before."""


COMPOSITE = "c"  # `Relation.kind` of a composite type, whose fields are the columns.


class Relation(Record, frozen=True, kw_only=True, tag="relation", cache_hash=True, omit_defaults=True):
    """A table (kind ``r``), foreign table (``f``), view (``v``), materialized view (``m``), composite type (``c``)."""

    name: str
    schema: int
    owner: int
    kind: str
    columns: tuple[Column, ...]
    shard: ShardId | None = None
    definition: str | None = None
    """The query of a view, as deparsed SQL with every name qualified."""
    depends_on: tuple[int, ...] = ()  # Relations that a view's query reads.
    needs_keys: tuple[int, ...] = ()  # Primary keys that say what it may name beside what it groups by.
    check_option: str | None = None  # ``local`` or ``cascaded``: what a view WITH CHECK OPTION holds new rows against.
    options: tuple[str, ...] = ()  # But for check_option, as pg_class.reloptions has them.
    constraints: tuple[int, ...] = ()
    """Oids of what a change of its rows has to keep: its own enforced constraints and unique indexes, and foreign keys
    of others that refer to it. A transaction relies on the records of the tables that it changes, so that one which did
    not know of a constraint cannot commit once that has been added."""
    materialized: Materialized | None = None  # Of a materialized view: how it is kept.
    foreign: ForeignTable | None = None  # Of a foreign table: where its rows are.
    retain_ms: int | None = None  # How much of its past is kept; None: what its schema says.
    marks: IndexMarks = IndexMarks()
    of_type: int = 0  # Of a typed table: the composite type whose fields are its columns.

    def live_columns(self) -> tuple[Column, ...]:
        """The columns that exist, in attnum order."""
        return tuple(column for column in self.columns if not column.dropped)

    def column(self, name: str) -> Column | None:
        """The live column called `name`, or None."""
        return next((c for c in self.columns if c.name == name and not c.dropped), None)


class Comment(Record, frozen=True, kw_only=True, tag="comment"):
    """COMMENT ON: `oid` is the comment record's own oid; `object_oid` and `subid` say what it describes."""

    object_oid: int
    subid: int = 0
    text: str
    database: int = POSTGRES_DATABASE_OID
    """The database of the object. A role or a database is every database's, and so are the comments on it."""


class Constraint(Record, frozen=True, kw_only=True, tag="constraint"):
    """A declared constraint of a table. `kind` as pg_constraint.contype: p primary key, u unique, c check, f foreign
    key, x exclusion. What a record of an earlier version lacks has the default."""

    name: str
    relation: int
    kind: str
    columns: tuple[int, ...] = ()
    """Of a key those that it names, in order; of a check those that its expression reads."""
    expression: str | None = None
    """SQL text of a check."""
    foreign_relation: int | None = None
    foreign_columns: tuple[int, ...] = ()
    enforced: bool = False
    """Whether every write is held against it. False in records from before such constraints were enforced: rows that
    break them may be there."""
    validated: bool = True
    """Whether the rows that were there when it was added keep it too (pg_constraint.convalidated)."""
    deferrable: bool = False
    deferred: bool = False
    """INITIALLY DEFERRED: checked at the end of a transaction unless SET CONSTRAINTS says otherwise."""
    no_inherit: bool = False
    index: int | None = None
    """Oid of the index that enforces a key, or of the one that a foreign key refers to."""
    include: tuple[int, ...] = ()
    """Columns that a key's index carries in addition to its own (INCLUDE)."""
    nulls_not_distinct: bool = False
    match: str = "s"
    """Of a foreign key: ``s`` MATCH SIMPLE, ``f`` MATCH FULL."""
    on_update: str = "a"
    """Of a foreign key: ``a`` NO ACTION, ``r`` RESTRICT, ``c`` CASCADE, ``n`` SET NULL, ``d`` SET DEFAULT."""
    on_delete: str = "a"
    delete_columns: tuple[int, ...] = ()
    """The columns that ON DELETE SET NULL or SET DEFAULT changes; all of the key's when empty."""
    exclude_operators: tuple[int, ...] = ()
    """Oids of the operators of an exclusion constraint, one for each element (pg_constraint.conexclop)."""


class Index(Record, frozen=True, kw_only=True, tag="index", omit_defaults=True):
    """An index of a table, made by CREATE INDEX or for an exclusion constraint. The indexes of primary keys and unique
    constraints are not recorded: all that is to know of them is in the constraint. The fields are those of pg_index."""

    name: str
    schema: int
    """That of its table, in which its name is one of the relations' names."""
    relation: int
    columns: tuple[int, ...]
    """The attnums of its keys, 0 for an expression."""
    expressions: tuple[str, ...] = ()
    """SQL text of the keys that are expressions, in order."""
    expression_types: tuple[tuple[int, int], ...] = ()
    """Type and type modifier of each of them."""
    expression_names: tuple[str, ...] = ()
    """What pg_attribute calls each of them."""
    options: tuple[int, ...]
    """For each key: 1 DESC, 2 NULLS FIRST, 3 both."""
    operator_classes: tuple[int, ...]
    collations: tuple[int, ...]
    include: tuple[int, ...] = ()
    predicate: str | None = None
    """SQL text of WHERE."""
    reads: tuple[int, ...] = ()
    """The attnums of the columns that the expressions and the predicate read."""
    unique: bool = False
    nulls_not_distinct: bool = False
    method: str = "btree"
    parameters: tuple[str, ...] = ()
    """What WITH (...) says, as pg_class.reloptions has it."""
    valid: bool = True
    constraint: int | None = None
    """Oid of the exclusion constraint that it enforces: no two rows have equal keys, of which none is NULL."""
    overlapping: tuple[int, ...] = ()
    """The places of those keys, if any, that the constraint compares with && instead."""
    class_options: tuple[tuple[str, ...], ...] = ()
    """For each key what its operator class is told (pg_attribute.attoptions); none when no class is told anything."""
    statistics: tuple[int, ...] = ()  # For each key its statistics target, -1 for none; none when no key has one.

    @property
    def enforced(self) -> bool:
        """Whether rows have to keep to it."""
        return self.unique or self.constraint is not None

    def uses(self, attnum: int) -> bool:
        """Whether it cannot be without the column `attnum`."""
        return attnum in self.columns or attnum in self.include or attnum in self.reads


class Sequence(Record, frozen=True, kw_only=True, tag="sequence"):
    """A sequence's definition; its position is not catalog data. What a record of an earlier version lacks has the
    default."""

    name: str
    schema: int
    owner: int
    type_oid: int = 20
    start: int = 1
    increment: int = 1
    minimum: int = 1
    maximum: int = 9223372036854775807
    cache: int = 1
    cycle: bool = False
    owned_by: tuple[int, int] | None = None
    """The table and the attnum of the column that it goes with."""
    generation: int = 0
    """What tells its positions before and after a RESTART apart: a number that no other restart has had."""
    first: int | None = None
    """The number with which the generation begins; None: `start`."""


class EnumType(Record, frozen=True, kw_only=True, tag="enum"):
    """An enum. Its type's oid, as that of every type of a user, follows from the record's
    (`planner.types.derived_oids`)."""

    name: str
    schema: int
    owner: int
    labels: tuple[EnumLabel, ...]
    """In the order that was declared, which is that of their positions."""


class DomainConstraint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A CHECK of a domain (a row of pg_constraint). `oid` is its own over its life."""

    oid: int
    name: str
    expression: str
    """SQL text over the column ``value``."""
    validated: bool = True
    """Whether the rows that were there when it was added keep it too."""


class DomainType(Record, frozen=True, kw_only=True, tag="domain"):
    """A domain: a type with rules of its own over another one. Values are those of the type under it; its type's oid
    follows from the record's, as an enum's does."""

    name: str
    schema: int
    owner: int
    base_oid: int
    typmod: int = -1
    collation: int = 0
    not_null: bool = False
    default: str | None = None
    """SQL text of the DEFAULT expression."""
    checks: tuple[DomainConstraint, ...] = ()


class Setting(Record, frozen=True, kw_only=True, tag="setting"):
    """ALTER DATABASE / ROLE ... SET: a session default."""

    name: str
    value: str
    database: int = 0
    role: int = 0


class SystemSetting(Record, frozen=True, kw_only=True, tag="system_setting"):
    """ALTER SYSTEM SET: what the environment's servers begin with. Oids have the order in which they were set."""

    name: str
    value: str


CatalogRecord: TypeAlias = (
    Database | Role | Schema | Relation | Comment | Constraint | Index | Sequence | Setting | EnumType | DomainType
    | Function | Membership | Extension | AuthenticationSecret | Acl | DefaultAcl | Policy | RowSecurity | ForeignServer
    | UserRange | BaseType | SystemSetting | ExtendedStatistics
)  # fmt: skip


class CatalogUpdate(msgspec.Struct, frozen=True):
    """One change: `record` appears (`diff` +1) or disappears (-1)."""

    record: CatalogRecord
    diff: int


class CatalogSnapshot(Struct, frozen=True, kw_only=True):
    """The catalog as of `csn`; immutable, shared by reference. `next_oid` is the first oid that no record up to `csn`
    has used."""

    csn: Csn
    next_oid: int
    records: Map[int, CatalogRecord]
    database: int
    """The database whose catalog it is, with what all share: roles, databases, settings, the standard schemas.
    `WHOLE`: that of the environment, with the objects of every database."""
    databases: Map[int, CatalogSnapshot]
    """Of the whole: the catalog of each database by its oid, and under `WHOLE` what they share."""
    relation_names: Map[tuple[int, str], int]
    schema_names: Map[tuple[int, str], int]
    """By database, `WHOLE` for those of every one."""
    constraint_oids: Map[int, tuple[int, ...]]
    """The constraints of a relation, and those of other relations that refer to it, in the order of their oids."""
    constraint_names: Map[str, tuple[int, ...]]
    """The constraints of one name, of whatever relations."""
    index_oids: Map[int, tuple[int, ...]]
    """The indexes that a relation has besides those of its constraints, in the order of their oids."""
    type_names: Map[tuple[int, str], int]
    """The types that are no relation's rows."""
    function_oids: Map[tuple[int, str], tuple[int, ...]]
    """The functions and procedures of one name, in the order of their oids."""
    roles: Roles
    acls: Acls
    policies: Policies

    @staticmethod
    def empty() -> CatalogSnapshot:
        """The catalog before its first update."""
        return CatalogSnapshot(
            csn=Csn(0),
            next_oid=FIRST_USER_OID,
            records=Map(),
            database=WHOLE,
            databases=Map(),
            relation_names=Map(),
            schema_names=Map(),
            constraint_oids=Map(),
            constraint_names=Map(),
            index_oids=Map(),
            type_names=Map(),
            function_oids=Map(),
            roles=Roles(),
            acls=Acls(),
            policies=Policies(),
        )

    def apply(self, updates: Iterable[CatalogUpdate], csn: Csn) -> CatalogSnapshot:
        """The snapshot after `updates` at `csn`; retractions take effect before additions. The catalog of one database
        takes no notice of those to others.

        Raises ValueError when an update does not fit: a retraction of a record that is not there, or an
        addition that clashes with one that is.
        """
        ordered = sorted(updates, key=lambda update: update.diff)
        touched = {update.record.oid: update.record for update in ordered}
        places = [_database_of(update.record, touched, self.records) for update in ordered]
        if self.database != WHOLE:
            here = (WHOLE, self.database)
            return self._with([update for update, place in zip(ordered, places, strict=True) if place in here], csn)
        after = self._with(ordered, csn)
        return replace(after, databases=self._divided(ordered, places, after))

    def _divided(
        self, ordered: list[CatalogUpdate], places: list[int], after: CatalogSnapshot
    ) -> Map[int, CatalogSnapshot]:
        """The catalogs of the databases that there are in `after`, once `ordered` has happened, each at its place."""
        by_place: dict[int, list[CatalogUpdate]] = {}
        for update, place in zip(ordered, places, strict=True):
            by_place.setdefault(place, []).append(update)
        for_all = by_place.pop(WHOLE, [])
        shared = self.databases.get(WHOLE) or CatalogSnapshot.empty()
        shared = replace(shared._with(for_all, after.csn), next_oid=after.next_oid)
        divided = Map({WHOLE: shared})
        oids = {update.record.oid for update in for_all if isinstance(update.record, Database)}
        for oid in oids.union(self.databases, by_place):
            if not isinstance(after.records.get(oid), Database):
                continue
            before = self.databases.get(oid)
            own = by_place.get(oid, [])
            if before is None:
                catalog = replace(shared, database=oid)._with(own, after.csn)
            else:
                catalog = before._with([*for_all, *own], after.csn)
            divided = divided.set(oid, replace(catalog, next_oid=after.next_oid))
        return divided

    def place(self, record: CatalogRecord) -> int:
        """The database that `record`, which is in the catalog, belongs to; `WHOLE` for what all share."""
        return _database_of(record, {}, self.records)

    def _with(self, ordered: list[CatalogUpdate], csn: Csn) -> CatalogSnapshot:
        if not ordered:
            return replace(self, csn=csn)
        records, names, schemas, next_oid = self.records, self.relation_names, self.schema_names, self.next_oid
        constraints, called, indexes = self.constraint_oids, self.constraint_names, self.index_oids
        types, functions = self.type_names, self.function_oids
        for update in ordered:
            record = update.record
            if update.diff == -1:
                if records.get(record.oid) != record:
                    raise ValueError(f"retraction of a record that is not in the catalog: {record!r}")
                records = records.delete(record.oid)
                if isinstance(record, (Relation, Sequence, Index)):
                    names = names.delete((record.schema, record.name))
                    if isinstance(record, Index):
                        indexes = without_oid(indexes, record.relation, record.oid)
                elif isinstance(record, Schema):
                    schemas = schemas.delete(_schema_key(record))
                elif isinstance(record, Constraint):
                    constraints = _without_constraint(constraints, record)
                    called = without_oid(called, record.name, record.oid)
                elif isinstance(record, (EnumType, DomainType, UserRange, BaseType)):
                    types = types.delete((record.schema, record.name))
                elif isinstance(record, Function):
                    functions = without_oid(functions, (record.schema, record.name), record.oid)
            else:
                if record.oid in records:
                    raise ValueError(f"oid {record.oid} is taken")
                records = records.set(record.oid, record)
                next_oid = max(next_oid, record.oid + 1)
                if isinstance(record, (Relation, Sequence, Index)):
                    key = (record.schema, record.name)
                    if key in names:
                        raise ValueError(f"relation {record.name!r} exists in schema {record.schema}")
                    names = names.set(key, record.oid)
                    if isinstance(record, Index):
                        indexes = with_oid(indexes, record.relation, record.oid)
                elif isinstance(record, Schema):
                    if _schema_key(record) in schemas:
                        raise ValueError(f"schema {record.name!r} exists")
                    schemas = schemas.set(_schema_key(record), record.oid)
                elif isinstance(record, Constraint):
                    constraints = _with_constraint(constraints, record)
                    called = with_oid(called, record.name, record.oid)
                elif isinstance(record, (EnumType, DomainType, UserRange, BaseType)):
                    if (record.schema, record.name) in types:
                        raise ValueError(f"type {record.name!r} exists in schema {record.schema}")
                    types = types.set((record.schema, record.name), record.oid)
                elif isinstance(record, Function):
                    same_name = (records[oid] for oid in functions.get((record.schema, record.name), ()))
                    if any(isinstance(f, Function) and f.input_types == record.input_types for f in same_name):
                        raise ValueError(f"function {record.name!r} exists in schema {record.schema}")
                    functions = with_oid(functions, (record.schema, record.name), record.oid)
        return replace(
            self,
            csn=csn,
            next_oid=next_oid,
            records=records,
            relation_names=names,
            schema_names=schemas,
            constraint_oids=constraints,
            constraint_names=called,
            index_oids=indexes,
            type_names=types,
            function_oids=functions,
            roles=self.roles.changed((update.record, update.diff) for update in ordered),
            acls=self.acls.changed((update.record, update.diff) for update in ordered),
            policies=self.policies.changed((update.record, update.diff) for update in ordered),
        )

    def get(self, oid: int) -> CatalogRecord | None:
        """The record with `oid`, or None."""
        return self.records.get(oid) or (OWN_SCHEMA if oid == OWN_SCHEMA_OID else None)

    def schema(self, name: str) -> Schema | None:
        """The schema called `name`, or None. The whole knows those of the database `postgres` by name."""
        names = self.schema_names
        oid = names.get((self.database or POSTGRES_DATABASE_OID, name)) or names.get((WHOLE, name))
        if oid is None:
            return OWN_SCHEMA if name == OWN_SCHEMA.name else None
        record = self.records[oid]
        return record if isinstance(record, Schema) else None

    def relation(self, schema: int, name: str) -> Relation | None:
        """The relation `name` in the schema with oid `schema`, or None."""
        oid = self.relation_names.get((schema, name))
        record = None if oid is None else self.records[oid]
        return record if isinstance(record, Relation) else None

    def sequence(self, schema: int, name: str) -> Sequence | None:
        """The sequence `name` in the schema with oid `schema`, or None."""
        oid = self.relation_names.get((schema, name))
        record = None if oid is None else self.records[oid]
        return record if isinstance(record, Sequence) else None

    def functions(self, schema: int, name: str) -> tuple[Function, ...]:
        """The functions and procedures called `name` in the schema with oid `schema`, in the order of their oids."""
        found = (self.records[oid] for oid in self.function_oids.get((schema, name), ()))
        return tuple(record for record in found if isinstance(record, Function))

    def constraints(self, relation: int) -> tuple[Constraint, ...]:
        """The constraints of the relation with this oid, in the order of their oids."""
        return tuple(constraint for constraint in self._constraints_at(relation) if constraint.relation == relation)

    def indexes(self, relation: int) -> tuple[Index, ...]:
        """The indexes of the relation with this oid, but for those of constraints, in the order of their oids."""
        found = (self.records[oid] for oid in self.index_oids.get(relation, ()))
        return tuple(record for record in found if isinstance(record, Index))

    def referencing(self, relation: int) -> tuple[Constraint, ...]:
        """The foreign keys, of whatever relation, that refer to the one with this oid."""
        return tuple(c for c in self._constraints_at(relation) if c.foreign_relation == relation)

    def _constraints_at(self, relation: int) -> Iterator[Constraint]:
        for oid in self.constraint_oids.get(relation, ()):
            record = self.records[oid]
            assert isinstance(record, Constraint)
            yield record

    def all(self) -> Iterator[CatalogRecord]:
        """Every record, in no particular order."""
        records: Mapping[int, CatalogRecord] = self.records
        return iter(records.values())


def _schema_key(schema: Schema) -> tuple[int, str]:
    return _database_of_schema(schema), schema.name


def _database_of_schema(schema: Schema) -> int:
    return WHOLE if schema.oid in (PG_CATALOG_OID, INFORMATION_SCHEMA_OID) else schema.database


def _database_of(
    record: CatalogRecord, touched: Mapping[int, CatalogRecord], known: Mapping[int, CatalogRecord]
) -> int:
    """The database that `record` belongs to, by the schema that it is in, `WHOLE` for what all share."""
    match record:
        case Schema():
            return _database_of_schema(record)
        case Relation() | Sequence() | Index() | EnumType() | DomainType() | UserRange() | BaseType():
            above = record.schema
        case Function() | Extension() | ExtendedStatistics():
            above = record.schema
        case Constraint() | Policy() | RowSecurity():
            above = record.relation
        case DefaultAcl() | ForeignServer():
            return record.database
        case Comment() | Acl():
            if isinstance(record, Acl) and record.parameter:
                return WHOLE
            # The object may be gone by now, or be derived from one that has another oid.
            owner = touched.get(record.object_oid) or known.get(record.object_oid)
            return WHOLE if isinstance(owner, (Role, Database)) else record.database
        case Database() | Role() | Setting() | SystemSetting() | Membership() | AuthenticationSecret():
            return WHOLE
        case _:
            assert_never(record)
    owner = touched.get(above) or known.get(above)
    return WHOLE if owner is None else _database_of(owner, touched, known)


def _relations_of(constraint: Constraint) -> Iterator[int]:
    yield constraint.relation
    if constraint.foreign_relation is not None and constraint.foreign_relation != constraint.relation:
        yield constraint.foreign_relation


def _with_constraint(oids: Map[int, tuple[int, ...]], constraint: Constraint) -> Map[int, tuple[int, ...]]:
    for relation in _relations_of(constraint):
        oids = with_oid(oids, relation, constraint.oid)
    return oids


def _without_constraint(oids: Map[int, tuple[int, ...]], constraint: Constraint) -> Map[int, tuple[int, ...]]:
    for relation in _relations_of(constraint):
        oids = without_oid(oids, relation, constraint.oid)
    return oids
