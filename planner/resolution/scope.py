"""Name resolution of columns: from a column reference to the scalar that a FROM item offers for it.

The rules are PostgreSQL's (parse_relation.c): inner levels hide outer ones, a name that two visible items of one level
offer is ambiguous, LATERAL items are seen only from where the join type allows it. Errors carry PostgreSQL's hints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from planner.common_errors import ambiguous_column
from planner.errors import (
    AmbiguousColumn,
    FeatureNotSupported,
    InvalidColumnReference,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedTable,
)
from planner.ir.nodes import ColumnRef, RowConstructor, Scalar
from planner.ir.rewrite import column_ids
from planner.ir.written import ItemColumn, WholeRow
from planner.resolution.statement import BindContext, Level, NsColumn, NsItem, Statement
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.derived_oids import row_type_oid
from planner.types.types import BOOL, RECORD, SqlType
from planner.types.user_types import attributes

_MAX_FUZZY_DISTANCE = 3


def levels(level: Level) -> Iterator[Level]:
    """The level and the levels around it, innermost first."""
    current: Level | None = level
    while current is not None:
        yield current
        current = current.parent


def reference(level: Level, column: Scalar, location: int) -> Scalar:
    """A fresh occurrence of a column, remembered as a reference to its level, and its position."""
    statement = level.statement
    if isinstance(column, ColumnRef):
        owner = statement.owner.get(column.id)
        if owner is not None:
            owner.references.append(column.id)
        fresh: Scalar = statement.at(ColumnRef(id=column.id, type=column.type), location)
        return fresh
    note_references(level.statement, column)
    return statement.at(replace(column), location)


def note_references(statement: Statement, scalar: object) -> None:
    """Counts every column inside `scalar` (a merged USING column, a whole row) as referenced."""
    for id in column_ids(scalar):
        owner = statement.owner.get(id)
        if owner is not None:
            owner.references.append(id)


def find_column(level: Level, name: str, location: int) -> Scalar | None:
    """The column called `name`, unqualified; None when no level has one. Raises 42702 when ambiguous, 42P10 when the
    item cannot be referenced from here."""
    for current in levels(level):
        found: NsColumn | None = None
        found_item: NsItem | None = None
        for item in current.namespace:
            if not item.cols_visible or (item.lateral_only and not current.lateral_active):
                continue
            matches = item.by_name.get(name)
            if not matches:
                continue
            if found is not None or len(matches) > 1:
                raise ambiguous_column(name, level.statement.position(location))
            found, found_item = matches[0], item
        if found is not None and found_item is not None:
            _check_lateral(current, found_item, location)
            scalar = reference(level, found.expr, location)
            return scalar if level.statement.written is None else _noted(level, found_item, found, scalar)
        for item in current.namespace:
            if item.cols_visible and name in item.system_columns:
                if item.lateral_only and not current.lateral_active:
                    continue
                if found is not None:
                    raise ambiguous_column(name, level.statement.position(location))
                found, found_item = NsColumn(name, item.system_columns[name]), item
        if found is not None:
            form = ItemColumn(name=name, item=found_item)
            return level.statement.written_as(reference(level, found.expr, location), form)
    return None


def _noted(level: Level, item: NsItem, column: NsColumn, scalar: Scalar) -> Scalar:
    """`scalar`, an occurrence of a column of `item`, remembered where its field does not tell what it is called."""
    if item.joined or not isinstance(scalar, ColumnRef):
        level.statement.written_as(scalar, ItemColumn(name=column.name, item=item if item.alias is not None else None))
    return scalar


def column_qualifier(level: Level, name: str) -> str | None:
    """What could qualify an unqualified column: the alias of the item that offers it; of a merged column of JOIN USING,
    of the side whose column it is, or of the join's merged columns. None for names that are not found."""
    for current in levels(level):
        for item in current.namespace:
            if item.cols_visible and name in item.by_name and not (item.lateral_only and not current.lateral_active):
                return qualifier_of(current, item, item.by_name[name][0])
    return None


def qualifier_of(level: Level, item: NsItem, column: NsColumn) -> str | None:
    """The alias that qualifies a column that `item` offers, None when there is none."""
    if item.alias is not None:
        return item.alias
    for other in level.namespace:
        if other.alias is not None and other.rel_visible and any(own.expr is column.expr for own in other.columns):
            return other.alias
    return None


def _check_lateral(level: Level, item: NsItem, location: int) -> None:
    if item.lateral_only and not item.lateral_ok:
        outside = (
            f'There is an entry for table "{item.alias}", but it cannot be referenced from this part of the query.'
        )
        combined = "The combining JOIN type must be INNER or LEFT for a LATERAL reference."
        raise InvalidColumnReference(
            f'invalid reference to FROM-clause entry for table "{item.alias}"',
            detail=None if item.changed else combined,
            hint=outside if item.changed else None,
            position=level.statement.position(location),
        )


def find_item(level: Level, schema: str | None, name: str, location: int) -> NsItem | None:
    """The FROM item that `name` (or schema.name) refers to; None when there is none. Raises 42P09 when ambiguous."""
    for current in levels(level):
        found: NsItem | None = None
        for item in current.namespace:
            if not item.rel_visible or (item.lateral_only and not current.lateral_active):
                continue
            if schema is None:
                if item.alias != name:
                    continue
            elif item.aliased or item.schema != schema or item.relation_name != name:
                continue
            if found is not None:
                raise AmbiguousAlias(
                    f'table reference "{name}" is ambiguous', position=level.statement.position(location)
                )
            found = item
        if found is not None:
            _check_lateral(current, found, location)
            return found
    return None


class AmbiguousAlias(AmbiguousColumn):
    """PostgreSQL's ambiguous_alias."""

    sqlstate = "42P09"


def resolve(level: Level, parts: Sequence[str], location: int) -> Scalar:
    """The column that a reference of one to four parts means. Raises 42703, 42P01, 42702, 42601, 0A000."""
    if len(parts) == 1:
        name = parts[0]
        column = find_column(level, name, location)
        if column is not None:
            return column
        item = find_item(level, None, name, location)
        if item is not None:
            return whole_row(level, item, location)
        raise missing_column(level, None, name, location)
    column_name = parts[-1]
    item = _qualified_item(level, parts[:-1], column_name, location)
    column = item_column(level, item, column_name, location)
    if column is None:
        raise missing_column(level, parts[-2], column_name, location)
    return column


def _qualified_item(level: Level, qualifier: Sequence[str], column: str, location: int) -> NsItem:
    """The FROM item for the qualifier of a column: [[database.]schema.]relation."""
    statement = level.statement
    if len(qualifier) > 3:
        raise SqlSyntaxError(
            f"improper qualified name (too many dotted names): {'.'.join(qualifier)}",
            position=statement.position(location),
        )
    if len(qualifier) == 3:
        if qualifier[0] != statement.context.database:
            raise FeatureNotSupported(
                f"cross-database references are not implemented: {'.'.join([*qualifier, column])}",
                position=statement.position(location),
            )
        qualifier = qualifier[1:]
    schema = qualifier[0] if len(qualifier) == 2 else None
    item = find_item(level, schema, qualifier[-1], location)
    if item is None:
        raise missing_item(level, schema, qualifier[-1], location)
    return item


def item_column(level: Level, item: NsItem, name: str, location: int) -> Scalar | None:
    """The column `name` of one FROM item, system columns included; None when it has none."""
    matches = item.by_name.get(name)
    if matches:
        if len(matches) > 1:
            raise ambiguous_column(name, level.statement.position(location))
        scalar = reference(level, matches[0].expr, location)
        return scalar if level.statement.written is None else _noted(level, item, matches[0], scalar)
    system = item.system_columns.get(name)
    if system is None:
        return None
    return level.statement.written_as(reference(level, system, location), ItemColumn(name=name, item=item))


def whole_row(level: Level, item: NsItem, location: int) -> Scalar:
    """A FROM item's row as a value."""
    if item.scalar_function:
        return reference(level, item.columns[0].expr, location)
    items = tuple(reference(level, column.expr, location) for column in item.columns)
    level.statement.row_parts.update({id(part): part for part in items})
    type = _row_type(item)
    fields = attributes(type.oid) or item.columns
    names = tuple(field.name for field in fields)
    # That of a join which has a name is a row also where there is none of it (PostgreSQL writes its columns out).
    nullable = item.nullable and not item.joined
    presence = _presence(level, item, location) if nullable else None
    if presence is not None:
        level.statement.row_parts[id(presence)] = presence
    row = RowConstructor(items=items, names=names, type=type, nullable=nullable, value=presence)
    if item.alias is not None:
        first = item.columns[0].field if item.columns else None
        form = WholeRow(name=item.alias, type=type.oid, first=None if first is None else first.id)
        level.statement.written_as(row, form)
    return level.statement.at(row, location)


def is_whole_row(statement: Statement, scalar: Scalar) -> bool:
    """Whether `scalar` is to be printed as a FROM item's row, if anybody prints."""
    known = None if statement.written is None else statement.written.get(id(scalar))
    return known is not None and isinstance(known[1], WholeRow)


def _presence(level: Level, item: NsItem, location: int) -> Scalar | None:
    """What is NULL where an outer join lacks a row of `item`: the columns of a row that is there may all be NULL too.
    None where the FROM that it is in can have no further column."""
    source, owner = item.source, item.of
    if source is None or owner is None or owner.presences is None:
        return None
    if item.presence is None:
        item.presence = level.statement.new_field("present", SqlType(BOOL))
        owner.own(item.presence.id, item.alias, "*")
        owner.presences.append((source, item.presence))
    return reference(level, ColumnRef(id=item.presence.id, type=item.presence.type), location)


def renamed_column(level: Level, row: str, name: str, location: int) -> Scalar | None:
    """`(row).name` of a FROM item whose columns have other names than its table's: it goes by those that they have
    here. None where `row` is something else. 42703."""
    if find_column(level, row, location) is not None:
        return None
    item = find_item(level, None, row, location)
    if item is None or item.scalar_function or not (item.relation_oid or item.row_type):
        return None
    fields = attributes(_row_type(item).oid)
    if fields is None or [field.name for field in fields] == [column.name for column in item.columns]:
        return None
    column = item_column(level, item, name, location)
    if column is None:
        raise missing_column(level, row, name, location)
    return column


def _row_type(item: NsItem) -> SqlType:
    """The type of a FROM item's rows: a table's, view's or function's own, whatever its columns are called here;
    else record."""
    oid = item.row_type or (row_type_oid(item.relation_oid) if item.relation_oid else 0)
    if oid:
        fields = attributes(oid)
        if fields is not None and len(fields) == len(item.columns):
            return SqlType(oid)
    return SqlType(RECORD)


def star_items(level: Level, qualifier: Sequence[str], location: int) -> NsItem:
    """The FROM item of `qualifier.*`."""
    return _qualified_item(level, qualifier, "*", location)


def expand_item(level: Level, item: NsItem, location: int) -> list[tuple[str, Scalar]]:
    """A FROM item's columns, in order, for `*`."""
    return [(column.name, reference(level, column.expr, location)) for column in item.columns]


# ---------------------------------------------------------------- errors


def expand_star(level: Level, fields: Sequence[Tree], location: int) -> list[tuple[str, Scalar]]:
    """The columns that `t.*`, a ColumnRef of `fields`, stands for."""
    return expand_item(level, star_items(level, strings(list(fields)[:-1]), location), location)


def missing_item(level: Level, schema: str | None, name: str, location: int) -> UndefinedTable:
    """42P01 for a qualifier that is no visible FROM item, with PostgreSQL's hints."""
    position = level.statement.position(location)
    item = _item_meant(level, schema, name)
    if item is None:
        return UndefinedTable(f'missing FROM-clause entry for table "{name}"', position=position)
    hint = f'There is an entry for table "{item.alias}", but it cannot be referenced from this part of the query.'
    renamed = item.aliased and item.alias is not None and item.alias != name
    if renamed and find_item(level, None, item.alias or "", location) is item:
        hint = f'Perhaps you meant to reference the table alias "{item.alias}".'
    return UndefinedTable(f'invalid reference to FROM-clause entry for table "{name}"', hint=hint, position=position)


def _item_meant(level: Level, schema: str | None, name: str) -> NsItem | None:
    """The FROM item that a qualifier may have meant, visible or not: one of the relation or common table that it is
    the name of, or one called so (searchRangeTableForRel)."""
    common = schema is None and any(name in current.ctes for current in levels(level))
    meant = 0 if common else _relation_called(level.statement.context, schema, name)
    for current in levels(level):
        for item in current.rtes:
            if item.alias == name or (meant and item.relation_oid == meant):
                return item
            if common and item.relation_name == name and not item.relation_oid:
                return item
    return None


def _relation_called(context: BindContext, schema: str | None, name: str) -> int:
    """The oid of the relation of this name, by search path when it is unqualified; 0 when there is none."""
    for path in (schema,) if schema is not None else context.searched_schemas():
        system = context.system_relations.lookup(path, name)
        if system is not None:
            return system.oid
        record = context.catalog.schema(path)
        oid = 0 if record is None else context.catalog.relation_names.get((record.oid, name), 0)
        if oid:
            return oid
    return 0


def missing_column(level: Level, relation: str | None, name: str, location: int) -> UndefinedColumn:
    """42703 with the hint that PostgreSQL finds by edit distance."""
    position = level.statement.position(location)
    message = f"column {relation}.{name} does not exist" if relation is not None else f'column "{name}" does not exist'
    distance = _MAX_FUZZY_DISTANCE + 1
    first: tuple[NsItem, str] | None = None
    second: tuple[NsItem, str] | None = None
    for current in levels(level):
        for item in current.rtes:
            penalty = 0
            if relation is not None:
                penalty = edit_distance(relation, item.alias or "", _MAX_FUZZY_DISTANCE + 1)
            if penalty == 0 and name in item.by_name:
                return UndefinedColumn(
                    message,
                    hint=f'There is a column named "{name}" in table "{item.alias}", but it cannot be referenced from '
                    "this part of the query.",
                    position=position,
                )
            if penalty > distance:
                continue
            for column in item.columns:
                cost = edit_distance(column.name, name, distance + 1 - penalty)
                if cost > len(name.encode()) // 2:
                    continue
                cost += penalty
                if cost < distance:
                    first, second, distance = (item, column.name), None, cost
                elif cost == distance:
                    if second is not None:
                        first, second, distance = None, None, cost - 1
                    elif first is not None:
                        second = (item, column.name)
                    else:
                        first = (item, column.name)
    hint: str | None = None
    if first is not None and second is not None:
        hint = (
            f'Perhaps you meant to reference the column "{first[0].alias}.{first[1]}" or the column '
            f'"{second[0].alias}.{second[1]}".'
        )
    elif first is not None:
        hint = f'Perhaps you meant to reference the column "{first[0].alias}.{first[1]}".'
    return UndefinedColumn(message, hint=hint, position=position)


def edit_distance(left: str, right: str, limit: int) -> int:
    """Levenshtein distance, or something above `limit` when it exceeds it."""
    if abs(len(left) - len(right)) > limit:
        return limit + 1
    previous = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        current = [row]
        for column, b in enumerate(right, 1):
            current.append(min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (a != b)))
        previous = current
    return previous[-1]
