"""Relations in FROM: tables, views, system relations and common tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct, field

from planner.common_errors import missing_relation, other_database, too_deep
from planner.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    UndefinedTable,
    WrongObjectType,
)
from planner.files.foreign_tables import foreign_rows
from planner.ir.barriers import barrier
from planner.ir.nodes import (
    ColumnRef,
    CteScan,
    Field,
    Literal,
    Origin,
    Rel,
    Scalar,
    Scan,
    SessionValue,
    SystemScan,
    Values,
)
from planner.queries.in_from.system_columns import may_name, system_columns
from planner.queries.recursion.search_and_cycle import AddedColumns, offered_columns
from planner.resolution.query import bind_query
from planner.resolution.required import Use, closed_schema
from planner.resolution.row_security import readable
from planner.resolution.scope import levels
from planner.resolution.statement import VIEW_WEIGHT, BindContext, Level, NsColumn, NsItem, Statement
from planner.statements.records import QualifiedName
from planner.syntax.options import boolean_value
from planner.syntax.parse import Parsed, Tree, split_and_parse
from planner.types.system_relations import SystemRelation
from planner.types.table_indexes import index_called
from planner.types.types import BOOL, INT8, OID, SqlType, type_of_column
from storage.catalog.model import COMPOSITE, Index, Relation, Sequence
from storage.catalog.record import LARGE_OBJECT_SCHEMA

PG_LARGEOBJECT = 2613

MAX_VIEW_DEPTH = 600
"""Views inside views: deeper nesting is refused before Python's stack is."""


class Cte(Struct, kw_only=True):
    """A common table in scope. `columns` are known once its query (of a recursive one, the non-recursive term) is
    bound. `records` are the fields of its record columns, by position."""

    id: int
    name: str
    columns: list[tuple[str, SqlType, Origin | None]]
    records: dict[int, tuple[tuple[str, SqlType], ...]] = field(default_factory=dict)
    recursive: bool = False
    """Whether its recursive term is being bound, in which its name means the rows so far."""
    references: int = 0
    has_rows: bool = True
    """False for a change of rows without RETURNING."""
    added: AddedColumns | None = None
    """What SEARCH and CYCLE add."""


def find_relation(
    context: BindContext, name: QualifiedName, *, stored: bool = False
) -> Relation | Sequence | SystemRelation | None:
    """The relation that a name means, by search path when it is unqualified. Raises 0A000 for another database, 42809
    for an index, 42501 for a schema without USAGE unless the name is that of a `stored` definition."""
    if name.database is not None and name.database != context.database:
        raise other_database(name, name.position)
    schemas = (name.schema,) if name.schema is not None else context.searched_schemas()
    catalog = context.catalog
    for schema in schemas:
        if schema in context.closed_schemas and not stored and name.schema is not None:
            raise closed_schema(schema, name.position)
        system = context.system_relations.lookup(schema, name.name)
        if system is not None:
            return system
        record = catalog.schema(schema)
        if record is None or schema == LARGE_OBJECT_SCHEMA:
            continue
        found = catalog.get(catalog.relation_names.get((record.oid, name.name), 0))
        if found is None:
            found = index_called(catalog, record.oid, name.name)
        if isinstance(found, Index):
            raise WrongObjectType(f'"{found.name}" is an index', position=name.position)
        if isinstance(found, Relation) and found.kind == COMPOSITE:
            raise WrongObjectType(f'"{found.name}" is a composite type', position=name.position)
        if isinstance(found, (Relation, Sequence)):
            return found
    return None


def schema_name(context: BindContext, oid: int) -> str:
    """The name of the schema with `oid`."""
    record = context.catalog.get(oid)
    return record.name if record is not None and hasattr(record, "name") else ""


def undefined_table(name: QualifiedName, position: int | None) -> UndefinedTable:
    """42P01 for a relation that does not exist."""
    shown = f"{name.schema}.{name.name}" if name.schema is not None else name.name
    return missing_relation(shown, position)


def apply_column_aliases(alias: Tree | None, table: str, names: list[str], *, what: str = "table") -> list[str]:
    """Column names after ``AS t(a, b)``. Raises 42P10 for too many."""
    if alias is None or not alias.colnames:
        return names
    given = [node.string.sval for node in alias.colnames]
    if len(given) > len(names):
        raise InvalidColumnReference(
            f'{what} "{table}" has {len(names)} columns available but {len(given)} columns specified',
        )
    return given + names[len(given) :]


def bind_range_var(level: Level, tree: Tree, *, sampled: bool = False) -> tuple[Rel, NsItem]:
    """A relation or common table in FROM. What is `sampled` has to be a table, and its scan gives the rows' ids."""
    statement = level.statement
    alias = tree.alias if tree.HasField("alias") else None
    if not tree.schemaname:
        cte = _find_cte(level, tree.relname)
        if cte is not None and sampled:
            raise _no_samples(statement, tree)
        if cte is not None:
            return _cte_scan(level, cte, tree, alias)
    name = QualifiedName(
        name=tree.relname, schema=tree.schemaname or None, database=tree.catalogname or None,
        position=statement.position(tree.location),
    )  # fmt: skip
    found = find_relation(statement.context, name, stored=statement.required.stored)
    if found is None:
        raise undefined_table(name, statement.position(tree.location))
    if sampled and not (isinstance(found, Relation) and found.kind in ("r", "m")):
        if isinstance(found, SystemRelation):
            raise FeatureNotSupported("TABLESAMPLE of system catalogs is not supported", position=name.position)
        raise _no_samples(statement, tree)
    if sampled and found.oid in statement.context.expanded:
        raise FeatureNotSupported("TABLESAMPLE of materialized views that are kept exact is not supported")
    if isinstance(found, SystemRelation):
        found = _pages_of_large_objects(statement.context, found)
    if isinstance(found, SystemRelation):
        return _system_scan(level, found, tree, alias)
    if isinstance(found, Sequence):
        return _sequence(level, found, tree, alias)
    statement.relations.add(found.oid)
    if found.kind == "v" or found.oid in statement.context.expanded:
        return _view(level, found, tree, alias)
    if found.foreign is not None:
        described, item = scan_table(level, found, alias, tree.location)
        offer(level, statement.required.use(found.oid, "r"), item)
        return foreign_rows(statement, found, described.fields), item
    if found.kind not in ("r", "m"):
        raise WrongObjectType(f'"{found.name}" is not a table', position=statement.position(tree.location))
    row_id = sampled or found.oid == statement.context.numbered or may_name(statement.parsed.text)
    scan, item = scan_table(level, found, alias, tree.location, row_id=row_id)
    offer(level, statement.required.use(found.oid, "r"), item)
    return scan if statement.context.policies is None else readable(statement, scan, found), item


def _pages_of_large_objects(context: BindContext, found: SystemRelation) -> Relation | SystemRelation:
    """Of pg_largeobject the table that has its rows, which has the same columns; every other relation as it is."""
    if found.oid != PG_LARGEOBJECT:
        return found
    schema = context.catalog.schema(LARGE_OBJECT_SCHEMA)
    table = None if schema is None else context.catalog.relation(schema.oid, found.name)
    return found if table is None else table


def _no_samples(statement: Statement, tree: Tree) -> FeatureNotSupported:
    return FeatureNotSupported(
        "TABLESAMPLE clause can only be applied to tables and materialized views",
        position=statement.position(tree.location),
    )


def offer(level: Level, use: Use, item: NsItem) -> None:
    """The columns that `item` offers in `level` are those of the relation in `use`."""
    attnums = level.statement.origins
    columns: dict[int, list[int]] = {}
    for column in item.columns:
        if column.field is not None and column.field.id in attnums:
            columns[column.field.id] = [attnums[column.field.id].attnum]
    use.offering(level.references, columns)


_Template: TypeAlias = tuple[tuple[str, SqlType, Origin], ...]
_templates: dict[int, tuple[object, _Template]] = {}
"""Name, type and origin of each column, by relation oid, beside the very record that they were made from. A record is
immutable, so an entry never lies; it is replaced when the relation has a newer record."""

MAX_TEMPLATES = 10_000


def _columns_of(relation: Relation | SystemRelation) -> _Template:
    known = _templates.get(relation.oid)
    if known is not None and known[0] is relation:
        return known[1]
    if isinstance(relation, Relation):
        columns = [(column.name, type_of_column(column), column.attnum) for column in relation.live_columns()]
    else:
        columns = [(name, type, number) for number, (name, type) in enumerate(relation.columns, 1)]
    template = tuple((name, type, Origin(relation_oid=relation.oid, attnum=attnum)) for name, type, attnum in columns)
    if len(_templates) >= MAX_TEMPLATES:
        _templates.clear()
    _templates[relation.oid] = (relation, template)
    return template


def scan_table(
    level: Level, relation: Relation, alias: Tree | None, location: int, *, row_id: bool = False, versions: bool = False
) -> tuple[Scan, NsItem]:
    """A user table: its scan and what it offers. `versions`: all system columns in any case, not only when the text
    may name them."""
    statement = level.statement
    item_alias = alias.aliasname if alias is not None else relation.name
    template = _columns_of(relation)
    names = apply_column_aliases(alias, item_alias, [name for name, _, _ in template])
    fields = statement.new_fields(template)
    columns = [NsColumn(name, field=item) for name, item in zip(names, fields, strict=True)]
    level.own_all(fields, item_alias, names)
    row_id_field: Field | None = None
    if row_id:
        row_id_field = statement.new_field("_row_id", SqlType(20))
        fields.append(row_id_field)
        level.own(row_id_field.id, item_alias, "_row_id")
        if relation.oid == statement.context.numbered:
            columns.append(NsColumn("_row_id", field=row_id_field))
    scan = Scan(
        relation_oid=relation.oid, fields=tuple(fields), row_id=row_id_field.id if row_id_field is not None else None
    )
    system: Mapping[str, Scalar]
    if relation.foreign is None and (versions or may_name(statement.parsed.text)):
        system = system_columns(relation.oid, fields[: len(template)], row_id_field)
    else:
        system = {"tableoid": Literal(value=relation.oid, type=SqlType(OID))}
    item_ = NsItem(
        alias=item_alias,
        columns=columns,
        schema=schema_name(statement.context, relation.schema),
        relation_name=relation.name,
        relation_oid=relation.oid,
        aliased=alias is not None,
        system_columns=system,
    )
    return scan, item_


_SEQUENCE_COLUMNS = (("last_value", SqlType(INT8)), ("log_cnt", SqlType(INT8)), ("is_called", SqlType(BOOL)))


def _sequence(level: Level, found: Sequence, tree: Tree, alias: Tree | None) -> tuple[Rel, NsItem]:
    """A sequence read as a table: one row, whose values the session knows."""
    statement = level.statement
    item_alias = alias.aliasname if alias is not None else found.name
    template = [
        (name, type, Origin(relation_oid=found.oid, attnum=number))
        for number, (name, type) in enumerate(_SEQUENCE_COLUMNS, 1)
    ]
    names = apply_column_aliases(alias, item_alias, [name for name, _, _ in template])
    fields = statement.new_fields(template)
    level.own_all(fields, item_alias, names)
    if statement.definition is not None:
        statement.definition.sequences.add(found.oid)
    use = statement.required.use(found.oid, "r")
    use.offering(level.references, {item.id: [number] for number, item in enumerate(fields, 1)})
    row: tuple[Scalar, ...] = (
        SessionValue(name=f"sequence_last_value:{found.oid}", type=SqlType(INT8)),
        Literal(value=0, type=SqlType(INT8)),
        SessionValue(name=f"sequence_is_called:{found.oid}", type=SqlType(BOOL)),
    )
    return Values(rows=(row,), fields=tuple(fields)), NsItem(
        alias=item_alias,
        columns=[NsColumn(name, field=item) for name, item in zip(names, fields, strict=True)],
        schema=schema_name(statement.context, found.schema),
        relation_name=found.name,
        relation_oid=found.oid,
        aliased=alias is not None,
        system_columns={"tableoid": Literal(value=found.oid, type=SqlType(OID))},
    )


def _system_scan(level: Level, found: SystemRelation, tree: Tree, alias: Tree | None) -> tuple[Rel, NsItem]:
    statement = level.statement
    statement.system = True
    item_alias = alias.aliasname if alias is not None else found.name
    template = _columns_of(found)
    names = apply_column_aliases(alias, item_alias, [name for name, _, _ in template])
    fields = statement.new_fields(template)
    columns = [NsColumn(name, field=item) for name, item in zip(names, fields, strict=True)]
    level.own_all(fields, item_alias, names)
    system: dict[str, Scalar] = {}
    for column_name, attnum, type in found.system_columns:
        if column_name in statement.parsed.text:
            item = statement.new_field(column_name, type, Origin(relation_oid=found.oid, attnum=attnum))
            fields.append(item)
            system[column_name] = ColumnRef(id=item.id, type=type)
            level.own(item.id, item_alias, column_name)
    use = statement.required.use(found.oid, "r")
    use.offering(level.references, {item.id: [statement.origins[item.id].attnum] for item in fields})
    scan = SystemScan(schema=found.schema, name=found.name, relation_oid=found.oid, fields=tuple(fields))
    return scan, NsItem(
        alias=item_alias,
        columns=columns,
        schema=found.schema,
        relation_name=found.name,
        relation_oid=found.oid,
        aliased=alias is not None,
        system_columns=system,
    )


# ---------------------------------------------------------------- common tables


def _find_cte(level: Level, name: str) -> Cte | None:
    for current in levels(level):
        cte: Cte | None = current.ctes.get(name)
        if cte is not None:
            return cte
    return None


def _cte_scan(level: Level, cte: Cte, tree: Tree, alias: Tree | None) -> tuple[Rel, NsItem]:
    statement = level.statement
    if not cte.has_rows:
        raise FeatureNotSupported(
            f'WITH query "{cte.name}" does not have a RETURNING clause', position=statement.position(tree.location)
        )
    cte.references += 1
    level.reads_itself = level.reads_itself or cte.recursive
    item_alias = alias.aliasname if alias is not None else cte.name
    fields = [statement.new_field(*column) for column in cte.columns]
    for index, known in cte.records.items():
        statement.record_columns[fields[index].id] = known
    # In queries below the one with the WITH, and in the table's own, `*` leaves out what SEARCH and CYCLE add.
    own = len(fields) if cte.added is None else cte.added.width
    columns = [NsColumn(item.name, field=item) for item in fields[:own]]
    added = [] if cte.added is None else offered_columns(statement, cte.added, fields)
    if level.ctes.get(cte.name) is cte:
        columns += added
    names = apply_column_aliases(alias, item_alias, [column.name for column in columns])
    for column, name in zip(columns, names, strict=True):
        column.name = name
    level.own_all(fields, item_alias, names[:own] + [item.name for item in fields[own:]])
    hidden = {column.name: column.expr for column in added if column not in columns}
    hidden.update({item.name: ColumnRef(id=item.id, type=item.type) for item in fields[own:]} if hidden else {})
    scan = CteScan(cte=cte.id, fields=tuple(fields))
    return scan, NsItem(
        alias=item_alias,
        columns=columns,
        relation_name=cte.name,
        aliased=alias is not None,
        system_columns=hidden,
    )


# ---------------------------------------------------------------- views


@lru_cache(maxsize=512)
def parse_view(definition: str) -> Parsed:
    """The parse tree of a view's stored query."""
    return split_and_parse(definition)[0]


def _view(level: Level, relation: Relation, tree: Tree, alias: Tree | None) -> tuple[Rel, NsItem]:
    statement = level.statement
    use = statement.required.use(relation.oid, "r")
    if statement.outlined:
        scan, outlined = scan_table(level, relation, alias, tree.location)
        offer(level, use, outlined)
        return scan, outlined
    if statement.view_depth >= MAX_VIEW_DEPTH:
        raise too_deep()
    statement.weigh(VIEW_WEIGHT)
    item_alias = alias.aliasname if alias is not None else relation.name
    live = relation.live_columns()
    names = apply_column_aliases(alias, item_alias, [column.name for column in live])
    parsed = parse_view(relation.definition or "")
    with statement.required.inside_view(None if is_invoked(relation) else relation.owner):
        rel = bind_in_view(statement, lambda inner: bind_query(inner, parsed.tree), parsed)
    if is_barrier_view(relation):
        statement.has_barriers = True
        rel = barrier(rel)
    columns = []
    use.offering(level.references, {item.id: [column.attnum] for column, item in zip(live, rel.fields, strict=False)})
    for column, name, item in zip(live, names, rel.fields, strict=False):
        statement.origins[item.id] = Origin(relation_oid=relation.oid, attnum=column.attnum)
        columns.append(NsColumn(name, field=item))
        level.own(item.id, item_alias, name)
    stored: dict[str, Scalar] = {"tableoid": Literal(value=relation.oid, type=SqlType(OID))}
    return rel, NsItem(
        alias=item_alias,
        columns=columns,
        schema=schema_name(statement.context, relation.schema),
        relation_name=relation.name,
        relation_oid=relation.oid,
        aliased=alias is not None,
        system_columns=stored if relation.kind == "m" else {},
    )


def is_invoked(view: Relation) -> bool:
    """Whether who uses a view needs what its query reads, not its owner (security_invoker)."""
    return _is_set(view, "security_invoker")


def is_barrier_view(view: Relation) -> bool:
    """Whether no condition is computed for rows that the view does not show (security_barrier)."""
    return _is_set(view, "security_barrier")


def _is_set(view: Relation, name: str) -> bool:
    options = dict(option.split("=", 1) for option in view.options)
    return bool(boolean_value(options.get(name, "off")))


def bind_in_view(statement: Statement, bind: Any, parsed: Parsed) -> Any:
    """What `bind(level)` gives in a fresh scope where names are found as in a stored definition: all qualified,
    without parameters and without error positions."""
    outer_parsed, outer_positions, arguments = statement.parsed, statement.view_depth, statement.arguments
    statement.parsed, statement.view_depth, statement.arguments = parsed, outer_positions + 1, None
    outer_stored, statement.required.stored = statement.required.stored, True
    try:
        return bind(Level(statement, None))
    finally:
        statement.required.stored = outer_stored
        statement.parsed, statement.view_depth, statement.arguments = outer_parsed, outer_positions, arguments
