"""CREATE and ALTER STATISTICS, and finding statistics objects (PostgreSQL 15's statscmds.c)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from adapter.definitions.common.catalog_changes import change, new_oid, owner_oid
from adapter.definitions.common.column_options import checked_target
from adapter.definitions.common.owners import check_new_owner, give, require_owner
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import (
    creation_schema,
    kind_of,
    look_up,
    missing,
    plural,
    require_target_schema,
)
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.definitions.index_expressions import IndexExpression, refuse_whole_rows, statistics_expression
from planner.errors import (
    DuplicateColumn,
    DuplicateObject,
    FeatureNotSupported,
    InvalidObjectDefinition,
    SqlSyntaxError,
    TooManyColumns,
    UndefinedColumn,
    UndefinedObject,
    WrongObjectType,
)
from planner.statements import records as st
from planner.types.operator_classes import default_operator_class
from planner.types.system_relations import SYSTEM_COLUMN_NAMES
from planner.types.type_names import format_type
from storage.catalog.model import CatalogSnapshot, Relation, Schema
from storage.catalog.record import STATISTICS_FORMAT, ExtendedStatistics, holds_temporary
from storage.catalog.temporary import is_temporary

MAX_COLUMNS = 8
"""PostgreSQL's STATS_MAX_DIMENSIONS."""

_KINDS = {"ndistinct": "d", "dependencies": "f", "mcv": "m"}


async def create_statistics(running: Running, statement: st.CreateStatistics) -> None:
    """CREATE STATISTICS. Raises 0A000, 42P01, 42809, 42501, 3F000, 42710, 54011, 42703, 42601, 42P17, 42701, what
    binding its expressions raises, and 55000 while servers of an earlier version may be at work."""
    relation = _table(running, statement)
    catalog = own_catalog(running)
    schema = creation_schema(running, catalog, statement.name)
    if statistics_called(catalog, schema.oid, statement.name.name) is not None:
        message = f'statistics object "{statement.name.name}" already exists'
        if not statement.if_not_exists:
            raise DuplicateObject(message)
        running.session.notice(Notice(severity="NOTICE", sqlstate="42710", message=f"{message}, skipping"))
        return
    if len(statement.elements) > MAX_COLUMNS:
        raise TooManyColumns(f"cannot have more than {MAX_COLUMNS} columns in statistics")
    columns, expressions = _elements(running, relation, statement)
    kinds = _kinds(statement)
    if len(statement.elements) == 1 and expressions:
        if kinds:
            raise FeatureNotSupported(
                "when building statistics on a single expression, statistics kinds may not be specified"
            )
    else:
        if len(statement.elements) < 2:
            raise InvalidObjectDefinition("extended statistics require at least 2 columns")
        kinds = kinds or "".join(_KINDS.values())
    if len(set(columns)) < len(columns):
        raise DuplicateColumn("duplicate column name in statistics definition")
    texts = [expression.text for expression in expressions]
    if len(set(texts)) < len(texts):
        raise DuplicateColumn("duplicate expression in statistics definition")
    await running.services.env.formats.require(STATISTICS_FORMAT)
    running.transaction.rely_on([relation, schema])
    record = ExtendedStatistics(
        oid=new_oid(running, schema.oid if is_temporary(schema.oid) else relation.oid),
        name=statement.name.name,
        schema=schema.oid,
        owner=owner_oid(running),
        relation=relation.oid,
        columns=tuple(sorted(columns)),
        kinds=kinds,
        expressions=tuple(texts),
        reads=tuple(dict.fromkeys(attnum for expression in expressions for attnum in expression.columns)),
    )
    change(running, added=[record])


def _table(running: Running, statement: st.CreateStatistics) -> Relation:
    if len(statement.tables) != 1:
        raise FeatureNotSupported("only a single relation is allowed in CREATE STATISTICS")
    (name,) = statement.tables
    if name is None:
        raise FeatureNotSupported("CREATE STATISTICS only supports relation names in the FROM clause")
    catalog = own_catalog(running)
    record = look_up(running, catalog, name)
    if record is None:
        raise missing(catalog, name)
    if not isinstance(record, Relation) or record.kind not in ("r", "m", "f"):
        raise WrongObjectType(
            f'cannot define statistics for relation "{record.name}"',
            detail=f"This operation is not supported for {plural(kind_of(record))}.",
        )
    require_owner(running, record)
    return record


def _kinds(statement: st.CreateStatistics) -> str:
    """The letters of the kinds that are named, in PostgreSQL's order."""
    for kind in statement.kinds:
        if kind not in _KINDS:
            raise SqlSyntaxError(f'unrecognized statistics kind "{kind}"')
    return "".join(letter for kind, letter in _KINDS.items() if kind in statement.kinds)


def _elements(
    running: Running, relation: Relation, statement: st.CreateStatistics
) -> tuple[list[int], list[IndexExpression]]:
    """The attnums of the columns, and the expressions."""
    context = running.session.bind_context(own_catalog(running))
    columns: list[int] = []
    expressions: list[IndexExpression] = []
    for element in statement.elements:
        if element.expression is None:
            column = relation.column(element.name or "")
            if column is None and element.name in SYSTEM_COLUMN_NAMES:
                raise FeatureNotSupported("statistics creation on system columns is not supported")
            if column is None:
                raise UndefinedColumn(f'column "{element.name}" does not exist')
            _require_order(f'column "{column.name}" cannot be used in statistics', column.type_oid)
            columns.append(column.attnum)
            continue
        found = statistics_expression(relation, element.text, context, element.expression)
        refuse_whole_rows(found.columns)
        if found.is_column:
            _require_order(f'column "{found.name}" cannot be used in statistics', found.type.oid)
            columns.append(found.columns[0])
            continue
        if len(statement.elements) > 1:
            _require_order("expression cannot be used in multivariate statistics", found.type.oid)
        expressions.append(found)
    return columns, expressions


def _require_order(refused: str, type_oid: int) -> None:
    if default_operator_class(type_oid) is None:
        raise FeatureNotSupported(
            f"{refused} because its type {format_type(type_oid)} has no default btree operator class"
        )


async def alter_statistics(running: Running, statement: st.AlterStatistics) -> None:
    """ALTER STATISTICS. Raises 42704, 42501, 42710, 3F000, 22023."""
    catalog = own_catalog(running)
    record = find_statistics(running, statement.name)
    if record is None and statement.if_exists:
        message = f'statistics object "{statement.name.name}" does not exist, skipping'
        running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))
        return
    record = require_statistics(running, statement.name)
    if statement.owner is not None:
        give(running, record, check_new_owner(running, record, statement.owner).oid)
        return
    require_owner(running, record)
    changed = record
    if statement.target is not None:
        changed = replace(record, target=checked_target(running, statement.target))
    if statement.new_name is not None:
        changed = replace(record, name=statement.new_name)
    if statement.schema is not None:
        schema = require_target_schema(catalog, statement.schema)
        if schema.oid != record.schema and (is_temporary(schema.oid) or is_temporary(record.schema)):
            raise FeatureNotSupported("cannot move objects into or out of temporary schemas")
        changed = replace(record, schema=schema.oid)
    if (changed.schema, changed.name) != (record.schema, record.name):
        _check_free(running, changed)
    if changed != record:
        change(running, removed=[record], added=[changed])


def _check_free(running: Running, changed: ExtendedStatistics) -> None:
    catalog = own_catalog(running)
    if statistics_called(catalog, changed.schema, changed.name) is not None:
        schema = catalog.get(changed.schema)
        assert isinstance(schema, Schema)
        raise DuplicateObject(f'statistics object "{changed.name}" already exists in schema "{schema.name}"')


def all_statistics(catalog: CatalogSnapshot) -> Iterator[ExtendedStatistics]:
    """Every statistics object."""
    return (record for record in catalog.all() if isinstance(record, ExtendedStatistics))


def statistics_called(catalog: CatalogSnapshot, schema: int, name: str) -> ExtendedStatistics | None:
    """The statistics object of this name in a schema, or None."""
    return next((each for each in all_statistics(catalog) if (each.schema, each.name) == (schema, name)), None)


def find_statistics(running: Running, name: st.QualifiedName) -> ExtendedStatistics | None:
    """The statistics object that a name means, or None."""
    catalog = own_catalog(running)
    if name.schema is not None:
        path = [name.schema]
    else:
        path = [each for each in running.session.bind_context(catalog).search_path if not holds_temporary(each)]
    for schema_name in path:
        schema = catalog.schema(schema_name)
        found = None if schema is None else statistics_called(catalog, schema.oid, name.name)
        if found is not None:
            return found
    return None


def require_statistics(running: Running, name: st.QualifiedName) -> ExtendedStatistics:
    """The statistics object that a name means. Raises 3F000, 42704."""
    found = find_statistics(running, name)
    if found is None:
        catalog = own_catalog(running)
        if name.schema is not None and catalog.schema(name.schema) is None:
            raise missing(catalog, name)
        raise UndefinedObject(f'statistics object "{name}" does not exist')
    return found
