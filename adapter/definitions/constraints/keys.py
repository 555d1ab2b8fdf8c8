"""Keys of tables: PRIMARY KEY, UNIQUE and FOREIGN KEY declared with a table, added to one, and let go of.

The records of both tables name a foreign key, since changes of either side have to respect it. Rows that are there
already are looked at by `adapter.definitions.constraints.existing_rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, names_constraint, new_oid
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Running
from planner.catalog_data.content import casts as builtin_casts
from planner.common_errors import MAX_INDEX_COLUMNS, existing_relation, missing_key_column, too_many_index_columns
from planner.definitions.index_expressions import distinct_names
from planner.definitions.object_names import free_name
from planner.errors import (
    DatatypeMismatch,
    DuplicateColumn,
    DuplicateObject,
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidForeignKey,
    InvalidTableDefinition,
    ObjectNotInPrerequisiteState,
    SqlSyntaxError,
    TooManyColumns,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from planner.statements.records import QualifiedName
from planner.types import types as t
from planner.types.base_types import cast_rule
from planner.types.system_relations import SYSTEM_COLUMN_NAMES
from planner.types.table_indexes import is_key, is_taken, unique_keys
from planner.types.type_names import format_type
from planner.types.types import under_domain
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Column, Constraint, Index, Relation
from storage.catalog.temporary import is_temporary

_WITHOUT_ORDER = frozenset({t.JSON, 142, 600, 601, 602, 603, 604, 628, 718})
"""json, xml and the geometric types: no index can have them as keys."""

_STRINGS = frozenset({t.TEXT, t.VARCHAR, t.BPCHAR, t.NAME})

_LABELS = {"p": "pkey", "u": "key", "f": "fkey"}


def with_not_null(columns: Sequence[Column], definitions: Iterable[st.ConstraintDefinition]) -> list[Column]:
    """`columns`, those of a primary key NOT NULL."""
    names = {name for definition in definitions if definition.kind == "p" for name in definition.columns}
    return [replace(column, not_null=True) if column.name in names else column for column in columns]


def declared_keys(
    running: Running,
    relation: Relation,
    definitions: Iterable[st.ConstraintDefinition],
    known: Collection[Constraint] = (),
) -> list[Constraint]:
    """The records of the keys in `definitions`, for `relation`, whose record need not be in the catalog yet; `known`
    are other new constraints of it. Foreign keys come last, so that they may refer to the others.

    Raises 42703, 42701, 42704, 42830, 42804, 42P16, 42P07.
    """
    catalog = own_catalog(running)
    keys: list[Constraint] = []
    for definition in _without_repeated(definitions):
        if definition.kind == "f":
            keys.append(_foreign_key(running, relation, definition, (*known, *keys)))
        elif definition.kind in "pu":
            keys.append(_unique_key(running, catalog, relation, definition, (*known, *keys)))
    return keys


_ORDER = {"p": 0, "u": 1, "f": 3}


def _without_repeated(definitions: Iterable[st.ConstraintDefinition]) -> list[st.ConstraintDefinition]:
    """The primary key, the unique ones and then all others, without those that another one is already: it gets the name
    of one that it is, where it has none (transformIndexConstraints)."""
    kept: list[st.ConstraintDefinition] = []
    for definition in sorted(definitions, key=lambda definition: _ORDER.get(definition.kind, 2)):
        if definition.kind != "u":
            kept.append(definition)
            continue
        same = next((number for number, other in enumerate(kept) if _is_same_index(other, definition)), None)
        if same is None:
            kept.append(definition)
        elif kept[same].name is None:
            kept[same] = replace(kept[same], name=definition.name)
    return kept


def _is_same_index(one: st.ConstraintDefinition, other: st.ConstraintDefinition) -> bool:
    return one.kind in "pu" and all(
        getattr(one, name) == getattr(other, name)
        for name in ("columns", "include", "nulls_not_distinct", "deferrable", "deferred")
    )


def _unique_key(
    running: Running,
    catalog: CatalogSnapshot,
    relation: Relation,
    definition: st.ConstraintDefinition,
    known: Collection[Constraint],
) -> Constraint:
    title = "primary key" if definition.kind == "p" else "unique"
    own = [*catalog.constraints(relation.oid), *known]
    if definition.kind == "p" and any(constraint.kind == "p" for constraint in own):
        raise InvalidTableDefinition(f'multiple primary keys for table "{relation.name}" are not allowed')
    for number, name in enumerate(definition.columns):
        if name in definition.columns[:number]:
            raise DuplicateColumn(f'column "{name}" appears twice in {title} constraint', position=definition.position)
    columns = []
    for name in definition.columns:
        column = relation.column(name)
        if column is None:
            raise missing_key_column(name, definition.position)
        if under_domain(column.type_oid) in _WITHOUT_ORDER:
            raise UndefinedObject(
                f'data type {format_type(column.type_oid)} has no default operator class for access method "btree"',
                hint="You must specify an operator class for the index or define a default operator class for the "
                "data type.",
            )
        columns.append(column)
    include = []
    for name in definition.include:
        column = relation.column(name)
        if column is None:
            raise missing_key_column(name, definition.position)
        include.append(column.attnum)
    if len(columns) + len(include) > MAX_INDEX_COLUMNS:
        raise too_many_index_columns()
    taken = taken_names(catalog, relation, known)
    if definition.name is not None:
        taken.check_constraint(definition.name)
    middle = None if definition.kind == "p" else "_".join(distinct_names([*definition.columns, *definition.include]))
    return Constraint(
        oid=new_oid(running, relation.oid),
        name=definition.name or free_name(relation.name, middle, _LABELS[definition.kind], taken.__contains__),
        relation=relation.oid,
        kind=definition.kind,
        columns=tuple(column.attnum for column in columns),
        enforced=True,
        deferrable=definition.deferrable,
        deferred=definition.deferred,
        include=tuple(include),
        nulls_not_distinct=definition.nulls_not_distinct,
    )


def find_constraint(catalog: CatalogSnapshot, relation: Relation, name: str) -> Constraint | None:
    """The table's constraint called `name`, or None."""
    return next((found for found in catalog.constraints(relation.oid) if found.name == name), None)


def refuse_duplicate(catalog: CatalogSnapshot, relation: Relation, name: str) -> None:
    """42710 when the table has a constraint called `name`."""
    if find_constraint(catalog, relation, name) is not None:
        raise duplicate_constraint(relation, name)


def duplicate_constraint(relation: Relation, name: str) -> DuplicateObject:
    """The error for a second constraint of a name."""
    return DuplicateObject(f'constraint "{name}" for relation "{relation.name}" already exists')


class TakenNames:
    """Names that an index of `relation` may not get: those of relations and indexes of its schema. One that is made up
    for a constraint is no constraint's there either. `known` are other new constraints of the table."""

    def __init__(self, catalog: CatalogSnapshot, relation: Relation, known: Iterable[Constraint]) -> None:
        self._catalog = catalog
        self._relation = relation
        self._known = {constraint.name: constraint.kind for constraint in known}

    def add(self, name: str) -> None:
        """The name of a constraint with an index that is about to be made."""
        self._known[name] = "x"

    def has_relation(self, name: str) -> bool:
        """Whether a relation or an index has the name."""
        if name == self._relation.name or self._known.get(name, "f") in "pux":
            return True
        return is_taken(self._catalog, self._relation.schema, name)

    def check_constraint(self, name: str) -> None:
        """42P07 for the name of a relation, 42710 for that of another constraint of the table."""
        if self.has_relation(name):
            raise existing_relation(name)
        if name in self._known:
            raise duplicate_constraint(self._relation, name)
        refuse_duplicate(self._catalog, self._relation, name)

    def __contains__(self, name: object) -> bool:
        """Whether a relation, an index or a constraint has the name."""
        if not isinstance(name, str):
            return False
        in_schema = names_constraint(self._catalog, self._relation.schema, name)
        return name in self._known or in_schema or self.has_relation(name)


def taken_names(catalog: CatalogSnapshot, relation: Relation, known: Iterable[Constraint] = ()) -> TakenNames:
    """Names that no index of the table may get."""
    return TakenNames(catalog, relation, known)


# ---------------------------------------------------------------- foreign keys


def _foreign_key(
    running: Running, relation: Relation, definition: st.ConstraintDefinition, known: Collection[Constraint]
) -> Constraint:
    catalog = own_catalog(running)
    if definition.name is not None and any(constraint.name == definition.name for constraint in known):
        raise duplicate_constraint(relation, definition.name)
    assert definition.foreign_table is not None
    itself = catalog.get(relation.oid) is None and _means(running, catalog, definition.foreign_table, relation)
    parent = relation if itself else find_relation(running, catalog, definition.foreign_table)
    if parent.oid == relation.oid:
        parent = relation
    if parent.kind != "r":
        raise WrongObjectType(f'referenced relation "{parent.name}" is not a table')
    if is_temporary(parent.oid) != is_temporary(relation.oid):
        kind = "temporary" if is_temporary(relation.oid) else "permanent"
        raise InvalidTableDefinition(f"constraints on {kind} tables may reference only {kind} tables")
    if len(definition.columns) > MAX_INDEX_COLUMNS:
        raise TooManyColumns(f"cannot have more than {MAX_INDEX_COLUMNS} keys in a foreign key")
    columns = [_referring_column(relation, name) for name in definition.columns]
    keys = [
        *unique_keys(catalog, parent.oid),
        *(key for key in known if key.relation == parent.oid and key.kind in "pu"),
    ]
    referenced = _referenced(parent, keys, definition)
    if not itself:
        running.session.rights(catalog).require_columns(parent.oid, "x", referenced)
    taken = {constraint.name for constraint in (*catalog.constraints(relation.oid), *known)}
    name = definition.name or free_name(relation.name, "_".join(definition.columns), "fkey", taken.__contains__)
    for column, attnum in zip(columns, referenced, strict=True):
        _check_comparable(name, column, _column_at(parent, attnum))
    delete_columns = []
    for named in definition.delete_columns:
        column = _referring_column(relation, named)
        if column.attnum not in [known_column.attnum for known_column in columns]:
            raise InvalidColumnReference(
                f'column "{named}" referenced in ON DELETE SET action must be part of foreign key'
            )
        if column.attnum not in delete_columns:
            delete_columns.append(column.attnum)
    if definition.match == "p":
        raise InvalidForeignKey("MATCH PARTIAL not yet implemented")
    if any(column.generated for column in columns):
        _refuse_setting(definition)
    return Constraint(
        oid=new_oid(running, relation.oid),
        name=name,
        relation=relation.oid,
        kind="f",
        columns=tuple(column.attnum for column in columns),
        foreign_relation=parent.oid,
        foreign_columns=referenced,
        enforced=True,
        validated=not definition.not_valid,
        deferrable=definition.deferrable,
        deferred=definition.deferred,
        match=definition.match or "s",
        on_update=definition.on_update or "a",
        on_delete=definition.on_delete or "a",
        delete_columns=tuple(delete_columns),
    )


def _refuse_setting(definition: st.ConstraintDefinition) -> None:
    """42601 for actions that would give a generated column a value."""
    for event, action, setting in (("UPDATE", definition.on_update, "ncd"), ("DELETE", definition.on_delete, "nd")):
        if action and action in setting:
            raise SqlSyntaxError(f"invalid ON {event} action for foreign key constraint containing generated column")


def _means(running: Running, catalog: CatalogSnapshot, name: QualifiedName, relation: Relation) -> bool:
    """Whether `name` means a table that is being created, which the catalog does not have yet."""
    if name.name != relation.name:
        return False
    path = running.session.bind_context(catalog).search_path if name.schema is None else (name.schema,)
    schemas = [schema for schema in map(catalog.schema, path) if schema is not None]
    first = (schema.oid for schema in schemas if (schema.oid, name.name) in catalog.relation_names)
    oids = [schema.oid for schema in schemas]
    return relation.schema in oids and oids.index(relation.schema) <= oids.index(next(first, relation.schema))


def _referring_column(relation: Relation, name: str) -> Column:
    column = relation.column(name)
    if column is None and name in SYSTEM_COLUMN_NAMES:
        raise FeatureNotSupported("system columns cannot be used in foreign keys")
    if column is None:
        raise UndefinedColumn(f'column "{name}" referenced in foreign key constraint does not exist')
    return column


def _referenced(
    parent: Relation, keys: Sequence[Constraint | Index], definition: st.ConstraintDefinition
) -> tuple[int, ...]:
    """The columns that a foreign key refers to: those that it names, which must be one of the `keys` of `parent`, or
    its primary key. Raises 42703, 42704 and 42830."""
    if definition.foreign_columns:
        attnums = tuple(_referring_column(parent, name).attnum for name in definition.foreign_columns)
    else:
        primary = next((key for key in keys if isinstance(key, Constraint) and key.kind == "p"), None)
        if primary is None:
            raise UndefinedObject(f'there is no primary key for referenced table "{parent.name}"')
        attnums = primary.columns
    if len(set(attnums)) != len(attnums):
        raise InvalidForeignKey("foreign key referenced-columns list must not contain duplicates")
    matching = [key for key in keys if sorted(key.columns) == sorted(attnums)]
    if not matching:
        raise InvalidForeignKey(
            f'there is no unique constraint matching given keys for referenced table "{parent.name}"'
        )
    if all(isinstance(key, Constraint) and key.deferrable for key in matching):
        title = "primary key" if not definition.foreign_columns else "unique constraint"
        raise ObjectNotInPrerequisiteState(f'cannot use a deferrable {title} for referenced table "{parent.name}"')
    if len(attnums) != len(definition.columns):
        raise InvalidForeignKey("number of referencing and referenced columns for foreign key disagree")
    return attnums


_FAMILIES = (
    frozenset({t.INT2, t.INT4, t.INT8}),
    frozenset({t.FLOAT4, t.FLOAT8}),
    frozenset({t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ}),
)
"""Types that btree's operator families of several types compare with each other (pg_amop)."""


def _comparable(one: int, other: int) -> bool:
    """Whether PostgreSQL compares a key of the type ``one`` with the one of the type ``other`` that it refers to: by an
    operator of both, or as a value of that type, to which it is cast implicitly (ATAddForeignKeyConstraint)."""
    if one == other or (one in _STRINGS and other in _STRINGS):
        return True
    if any(one in family and other in family for family in _FAMILIES):
        return True
    cast = builtin_casts().get((one, other)) or cast_rule(one, other)
    return cast is not None and cast.context == "i"


def _column_at(relation: Relation, attnum: int) -> Column:
    return next(column for column in relation.columns if column.attnum == attnum)


def _check_comparable(name: str, column: Column, other: Column) -> None:
    """42804 when `column` of the foreign key `name` cannot be compared with `other`, which it refers to."""
    if not _comparable(under_domain(column.type_oid), under_domain(other.type_oid)):
        raise DatatypeMismatch(
            f'foreign key constraint "{name}" cannot be implemented',
            detail=f'Key columns "{column.name}" and "{other.name}" are of incompatible types: '
            f"{format_type(column.type_oid)} and {format_type(other.type_oid)}.",
        )


def retyped_foreign_keys(catalog: CatalogSnapshot, changed: Relation, attnums: Collection[int]) -> list[Constraint]:
    """The foreign keys of `changed`, and those that refer to it, whose columns `attnums` of it have new types. Raises
    42804 when these cannot be compared."""
    found = []
    for key in dict.fromkeys((*catalog.constraints(changed.oid), *catalog.referencing(changed.oid))):
        child, parent = (
            changed if oid == changed.oid else catalog.get(oid) for oid in (key.relation, key.foreign_relation or 0)
        )
        if not isinstance(child, Relation) or not isinstance(parent, Relation):
            continue
        if (child is changed and not set(attnums).isdisjoint(key.columns)) or (
            parent is changed and not set(attnums).isdisjoint(key.foreign_columns)
        ):
            for one, other in zip(key.columns, key.foreign_columns, strict=True):
                _check_comparable(key.name, _column_at(child, one), _column_at(parent, other))
            found.append(key)
    return found


def name_in_parents(running: Running, constraints: Iterable[Constraint]) -> None:
    """Name new foreign keys in the records of the tables that they refer to."""
    for constraint in constraints:
        if constraint.kind == "f" and constraint.foreign_relation != constraint.relation:
            parent = own_catalog(running).get(constraint.foreign_relation or 0)
            assert isinstance(parent, Relation)
            named = replace(parent, constraints=(*parent.constraints, constraint.oid))
            change(running, removed=[parent], added=[named])


def without_names(catalog: CatalogSnapshot, gone: Iterable[CatalogRecord]) -> list[tuple[Relation, Relation]]:
    """The records (before, after) of tables that stay and name constraints or indexes of `gone`."""
    records = list(gone)
    oids = {record.oid for record in records}
    tables = {
        oid
        for record in records
        if isinstance(record, (Constraint, Index))
        for oid in (record.relation, (isinstance(record, Constraint) and record.foreign_relation) or 0)
        if oid not in oids
    }
    found = []
    for oid in sorted(tables):
        table = catalog.get(oid)
        if isinstance(table, Relation) and not oids.isdisjoint(table.constraints):
            kept = tuple(constraint for constraint in table.constraints if constraint not in oids)
            found.append((table, replace(table, constraints=kept)))
    return found


def forget_names(running: Running, gone: Iterable[CatalogRecord]) -> None:
    """Take constraints and indexes that are `gone` out of the records of the tables that still name them."""
    pairs = without_names(own_catalog(running), gone)
    if pairs:
        change(running, removed=[before for before, _ in pairs], added=[after for _, after in pairs])


def referring(catalog: CatalogSnapshot, key: Constraint | Index) -> list[Constraint]:
    """The foreign keys that rest on the unique `key`: no other one has the same columns."""
    if not (is_key(key) if isinstance(key, Index) else key.kind in "pu"):
        return []
    others = [
        other
        for other in unique_keys(catalog, key.relation)
        if other.oid != key.oid and sorted(other.columns) == sorted(key.columns)
    ]
    table = catalog.get(key.relation)
    if others or not isinstance(table, Relation):
        return []
    named = [catalog.get(oid) for oid in table.constraints]
    return [
        record
        for record in named
        if isinstance(record, Constraint)
        and record.kind == "f"
        and record.foreign_relation == key.relation
        and sorted(record.foreign_columns) == sorted(key.columns)
    ]
