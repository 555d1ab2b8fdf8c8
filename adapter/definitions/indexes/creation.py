"""CREATE INDEX.

An index is there from its commit on. Rows that are written get key runs of it with their files; files that are there
already get theirs before the commit (`building`). A unique index is named in its table's record, so that a change of
rows by whoever did not know of it cannot commit.

Source of the rules and their order: PostgreSQL's DefineIndex and ComputeIndexAttrs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid
from adapter.definitions.common.columns import refuse_pseudo_type
from adapter.definitions.common.in_use import refuse_in_use
from adapter.definitions.common.owners import require_owner
from adapter.definitions.constraints.existing_rows import NewRules, check_existing_rows
from adapter.definitions.constraints.keys import TakenNames, taken_names
from adapter.definitions.indexes.building import build_indexes
from adapter.definitions.indexes.parameters import class_options, storage_parameters
from adapter.execution.guards import own_catalog, prevent_in_block
from adapter.execution.relation_names import kind_of, look_up, missing, plural
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.collations.errors import IndeterminateCollation
from planner.common_errors import (
    MAX_INDEX_COLUMNS,
    existing_relation,
    missing_key_column,
    too_many_index_columns,
    unknown_column,
)
from planner.definitions.index_expressions import (
    WITHOUT_NAME,
    bind_row_value,
    distinct_names,
    expression_collation,
    index_expression,
    index_predicate,
    refuse_whole_rows,
)
from planner.definitions.object_names import free_name
from planner.errors import (
    FeatureNotSupported,
    InvalidObjectDefinition,
    InvalidParameterValue,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from planner.types.operator_classes import column_collation, key_collation, operator_class
from planner.types.system_relations import SYSTEM_COLUMN_NAMES
from planner.types.table_indexes import DESCENDING, METHODS, NULLS_FIRST, holds_keys
from planner.types.types import SqlType
from storage.catalog.model import Index, Relation
from storage.catalog.record import INDEX_METHODS_FORMAT


class _Keys(Struct, kw_only=True):
    """The keys of an index in the making."""

    columns: list[int]
    names: list[str]
    types: list[SqlType]
    collations: list[int]
    """What each has by itself."""
    expressions: list[str]
    expression_types: list[tuple[int, int]]
    reads: list[int]


async def create_index(running: Running, statement: st.CreateIndex) -> None:
    """CREATE INDEX. Raises 42P07, 42P01, 42809, 42703, 42704, 42804, 42P17, 0A000, 22023, 54011, 25001; 23505 when the
    rows that are there break a unique one; 55000 for a method that servers of an earlier version, which may be at work,
    do not know."""
    if statement.concurrently:
        prevent_in_block(running, "CREATE INDEX CONCURRENTLY")
    relation = _table(running, statement)
    refuse_in_use(running, relation, "CREATE INDEX")
    index = index_of(running, relation, statement, taken_names(own_catalog(running), relation))
    if index is not None:
        if not holds_keys(index):
            await running.services.env.formats.require(INDEX_METHODS_FORMAT)
        await add_index(running, relation, index)


def index_of(
    running: Running, relation: Relation, statement: st.CreateIndex, taken: TakenNames, label: str = "idx"
) -> Index | None:
    """The record of the index that `statement` defines for `relation`, whose record need not be in the catalog; None
    when there is one of its name and that is to be skipped. `taken` are names that it may not have."""
    if statement.method == "rtree":
        message = 'substituting access method "gist" for obsolete method "rtree"'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
        statement = replace(statement, method="gist")
    excluding = label != "idx"
    keys = _expressions(running, relation, statement)
    predicate = None
    if statement.predicate is not None:
        context = running.session.bind_context(own_catalog(running))
        predicate = index_predicate(relation, "", context, statement.predicate)
        refuse_whole_rows(predicate.columns)
        keys.reads += predicate.columns
    if len(statement.elements) + len(statement.include) > MAX_INDEX_COLUMNS:
        raise too_many_index_columns()
    check_tablespace(statement.tablespace)
    _check_method(statement, excluding=excluding)
    parameters = storage_parameters(statement.options, statement.method)
    _columns(relation, statement, keys, missing_column=missing_key_column if excluding else unknown_column)
    classes, collations, options = _orders(statement, keys)
    include = _included(relation, statement)
    name = _name(running, relation, statement, keys.names, taken, label)
    if name is None:
        return None
    index = Index(
        oid=new_oid(running, relation.oid),
        name=name,
        schema=relation.schema,
        relation=relation.oid,
        columns=tuple(keys.columns),
        expressions=tuple(keys.expressions),
        expression_types=tuple(keys.expression_types),
        expression_names=tuple(
            name for name, attnum in zip(distinct_names(keys.names), keys.columns, strict=True) if not attnum
        ),
        options=options,
        operator_classes=classes,
        collations=collations,
        include=include,
        predicate=None if predicate is None else predicate.text,
        reads=tuple(dict.fromkeys(keys.reads)),
        unique=statement.unique,
        nulls_not_distinct=statement.nulls_not_distinct,
        method=statement.method,
        parameters=parameters,
        class_options=class_options(classes, [element.class_options for element in statement.elements]),
    )
    if excluding or holds_keys(index):
        _check_computable(running, relation, index)
    return index


def _check_computable(running: Running, relation: Relation, index: Index) -> None:
    """0A000 when a key or the predicate is nothing that can be computed here."""
    values = [bind_row_value(relation, text) for text in index.expressions]
    if index.predicate is not None:
        values.append(bind_row_value(relation, index.predicate, condition=True))
    for value in values:
        reason = running.engines.row_values.unsupported(value.query)
        if reason is not None:
            raise FeatureNotSupported(reason)


async def add_index(running: Running, relation: Relation, index: Index) -> None:
    """Put a new `index` of `relation` into the catalog. Raises 23505 when it is unique and the rows are not."""
    if not index.unique:
        running.transaction.rely_on([relation])
        change(running, added=[index])
        await build_indexes(running, relation.oid)
        return
    changed = replace(relation, constraints=(*relation.constraints, index.oid))
    change(running, removed=[relation], added=[changed, index])
    await check_existing_rows(running, relation.oid, NewRules(keys=[index.oid]))
    await build_indexes(running, relation.oid)


def _table(running: Running, statement: st.CreateIndex) -> Relation:
    catalog = own_catalog(running)
    record = look_up(running, catalog, statement.table)
    if record is None:
        raise missing(catalog, statement.table)
    require_owner(running, record)
    if not isinstance(record, Relation) or record.kind not in ("r", "m"):
        raise WrongObjectType(
            f'cannot create index on relation "{record.name}"',
            detail=f"This operation is not supported for {plural(kind_of(record))}.",
        )
    return record


def _expressions(running: Running, relation: Relation, statement: st.CreateIndex) -> _Keys:
    """The keys that are expressions; of the others, which are looked at later, the names. 42P16 for pseudo-types."""
    context = running.session.bind_context(own_catalog(running))
    keys = _Keys(columns=[], names=[], types=[], collations=[], expressions=[], expression_types=[], reads=[])
    for element in statement.elements:
        if element.expression is None:
            assert element.name is not None
            keys.columns.append(0)
            keys.names.append(element.name)
            keys.types.append(SqlType(0))
            keys.collations.append(0)
            continue
        found = index_expression(relation, element.text, context, element.expression)
        refuse_whole_rows(found.columns)
        refuse_pseudo_type(found.name, found.type)
        keys.names.append(found.name)
        keys.types.append(found.type)
        given = (found.collation,) if found.collation else ()
        if found.is_column:
            keys.columns.append(found.columns[0])
            column = next(column for column in relation.columns if column.attnum == found.columns[0])
            keys.collations.append(key_collation(column.type_oid, given) if given else column_collation(column))
            continue
        keys.columns.append(0)
        keys.expressions.append(found.text)
        own = key_collation(found.type.oid, given) if given else expression_collation(relation, found.text)
        keys.collations.append(own)
        keys.expression_types.append((found.type.oid, found.type.typmod))
        keys.reads += found.columns
    return keys


def _columns(
    relation: Relation, statement: st.CreateIndex, keys: _Keys, *, missing_column: Callable[[str], UndefinedColumn]
) -> None:
    """The keys that are columns. 42703, and 0A000 for system columns."""
    for place, element in enumerate(statement.elements):
        if element.expression is not None:
            continue
        assert element.name is not None
        column = relation.column(element.name)
        if column is None:
            if element.name in SYSTEM_COLUMN_NAMES:
                raise FeatureNotSupported("index creation on system columns is not supported")
            raise missing_column(element.name)
        keys.columns[place] = column.attnum
        keys.types[place] = SqlType(column.type_oid, column.typmod)
        keys.collations[place] = column_collation(column)


def _orders(statement: st.CreateIndex, keys: _Keys) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Operator classes, collations and options of the keys."""
    classes, collations, options = [], [], []
    for element, type_, own in zip(statement.elements, keys.types, keys.collations, strict=True):
        collations.append(key_collation(type_.oid, element.collation) if element.collation else own)
        if not collations[-1] and key_collation(type_.declared_oid):
            raise IndeterminateCollation(
                "could not determine which collation to use for index expression",
                hint="Use the COLLATE clause to set the collation explicitly.",
            )
        classes.append(
            operator_class(
                type_.oid,
                statement.method,
                element.operator_class,
                has_options=bool(element.class_options),
            )
        )
        if "can_order" not in METHODS[statement.method]:
            for given, what in ((element.descending, "ASC/DESC"), (element.nulls_first, "NULLS FIRST/LAST")):
                if given is not None:
                    raise FeatureNotSupported(f'access method "{statement.method}" does not support {what} options')
        descending = bool(element.descending)
        nulls_first = descending if element.nulls_first is None else element.nulls_first
        options.append(DESCENDING * descending | NULLS_FIRST * nulls_first)
    return tuple(classes), tuple(collations), tuple(options)


def _included(relation: Relation, statement: st.CreateIndex) -> tuple[int, ...]:
    attnums = []
    for element in statement.include:
        if element.expression is not None:
            raise FeatureNotSupported("expressions are not supported in included columns")
        assert element.name is not None
        column = relation.column(element.name)
        if column is None:
            if element.name in SYSTEM_COLUMN_NAMES:
                raise FeatureNotSupported("index creation on system columns is not supported")
            raise unknown_column(element.name)
        for given, what in (
            (element.collation, "a collation"),
            (element.operator_class, "an operator class"),
            (element.descending is not None, "ASC/DESC options"),
            (element.nulls_first is not None, "NULLS FIRST/LAST options"),
        ):
            if given:
                raise InvalidObjectDefinition(f"including column does not support {what}")
        attnums.append(column.attnum)
    return tuple(attnums)


def _check_method(statement: st.CreateIndex, *, excluding: bool) -> None:
    method = statement.method
    if method not in METHODS:
        raise UndefinedObject(f'access method "{method}" does not exist')
    for asked, ability, what in (
        (statement.unique, "can_unique", "unique indexes"),
        (statement.include, "can_include", "included columns"),
        (len(statement.elements) > 1, "can_multi_col", "multicolumn indexes"),
        (excluding, "can_exclude", "exclusion constraints"),
    ):
        if asked and ability not in METHODS[method]:
            raise FeatureNotSupported(f'access method "{method}" does not support {what}')


def check_tablespace(name: str | None) -> None:
    """42704 for a tablespace other than the one that there is."""
    if name not in (None, "pg_default"):
        if name == "pg_global":
            raise InvalidParameterValue("only shared relations can be placed in pg_global tablespace")
        raise UndefinedObject(f'tablespace "{name}" does not exist')


def _name(
    running: Running,
    relation: Relation,
    statement: st.CreateIndex,
    names: Sequence[str],
    taken: TakenNames,
    label: str,
) -> str | None:
    """What the index is called; None, with a notice, when IF NOT EXISTS finds one of that name. 42P07, 42710."""
    of_constraint = label != "idx"
    if statement.name is None:
        included = [element.name or WITHOUT_NAME for element in statement.include]
        middle = "_".join(distinct_names([*names, *included]))
        return free_name(relation.name, middle, label, taken.__contains__ if of_constraint else taken.has_relation)
    if of_constraint:
        taken.check_constraint(statement.name)
    if not taken.has_relation(statement.name):
        return statement.name
    if not statement.if_not_exists:
        raise existing_relation(statement.name)
    message = f'relation "{statement.name}" already exists, skipping'
    running.session.notice(Notice(severity="NOTICE", sqlstate="42P07", message=message))
    return None
