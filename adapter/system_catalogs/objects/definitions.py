"""Objects as SQL text: types, view queries, constraints, functions' arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

from adapter.system_catalogs.objects.builtin import builtin_columns
from adapter.system_catalogs.objects.objects import (
    CatalogObjects,
    builtin_operators,
    static_row,
)
from planner.catalog_data import content as catalog_data
from planner.definitions import updatability
from planner.definitions.columns.noted import condition_query
from planner.definitions.expression_text import NotPrintable, ObjectNames
from planner.definitions.index_expressions import key_collations, key_texts
from planner.definitions.row_expressions import generation_expression, value_of
from planner.definitions.row_expressions import shown_expression as stored_expression_text
from planner.definitions.shown.conditions import condition_shown
from planner.definitions.shown.queries import query_shown
from planner.definitions.shown.view_layout import layout
from planner.errors import SqlError
from planner.resolution.statement import BindContext
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.types import operator_classes, type_names
from planner.types.system_relations import SYSTEM_COLUMNS, BuiltinRelations
from planner.types.table_indexes import DESCENDING, NULLS_FIRST, find_index
from planner.types.type_scope import TYPE_SCOPE
from planner.types.types import REGCLASS
from planner.types.user_types import with_names_shown
from planner.values.output_style import is_as_kept
from storage.catalog.model import (
    Column,
    Constraint,
    DomainConstraint,
    DomainType,
    Index,
    Relation,
)
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.record import TEMPORARY_SCHEMA, holds_temporary


def format_type(objects: CatalogObjects, oid: int, typmod: int | None = None, path: tuple[int, ...] = ()) -> str:
    """The name of any type as format_type prints it; a type outside `path` (schema oids) is qualified."""
    if oid in catalog_data.types():
        return type_names.format_type(oid, typmod)
    if oid == 0:
        return "-"
    element = objects.element_type(oid)
    if element:
        return format_type(objects, element, typmod, path) + "[]"
    named = objects.type(oid)
    if named is None:
        return "???"
    name = quote_identifier(named.name)
    if named.namespace in path:
        return name
    return f"{quote_identifier(objects.schema_name_by_oid.get(named.namespace, ''))}.{name}"


@cache
def builtin_view_definitions() -> Mapping[int, str]:
    """The query of each built-in view by its oid."""
    data = catalog_data.columns("pg_rewrite")
    return {
        relation: definition
        for relation, name, definition in zip(data["ev_class"], data["rulename"], data["ev_action"], strict=True)
        if name == "_RETURN"
    }


@cache
def _pretty() -> Mapping[int, str]:
    """What `pretty` shows of built-in views and constraints, by oid."""
    data = catalog_data.columns("pretty")
    return dict(zip(data["oid"], data["text"], strict=True))


def view_definition(
    objects: CatalogObjects,
    oid: int,
    path: tuple[int, ...] = (),
    *,
    pretty: bool = False,
    wrap: int = 0,
    names: Callable[[int, int], str] | None = None,
) -> str | None:
    """pg_get_viewdef: None when there is no such view. Relations outside `path` (schema oids) are qualified. `pretty`
    leaves out parentheses; `wrap` is how long a line may be before the next column begins another; `names` is as of
    `shown_expression`."""
    builtin = builtin_view_definitions().get(oid)
    if builtin is not None:
        return _pretty()[oid] if pretty else builtin
    relation = objects.snapshot.get(oid)
    if not isinstance(relation, Relation) or relation.kind not in ("v", "m") or relation.definition is None:
        return None
    shown = relation_names(objects, path)
    columns = [column.name for column in relation.live_columns()]
    try:
        text = query_shown(
            relation.definition, bind_context(objects), shown, columns,
            pretty=pretty, wrap=wrap, objects=names or partial(name_of_object, objects),
        )  # fmt: skip
    except (NotPrintable, SqlError):
        # One that cannot be bound any more is shown as it is kept.
        text = layout(relation.definition, shown, columns)
    return with_names_shown(text) + ";"


def relation_names(objects: CatalogObjects, path: tuple[int, ...]) -> Callable[[str, str], str]:
    """How relations are called, by schema and name: qualified where `path` (schema oids) does not find them."""
    visible = objects.visible_relations(path)
    oids = {(objects.schema_name_by_oid.get(namespace, ""), name): named.oid
            for (namespace, name), named in objects.relation_by_name.items()}  # fmt: skip

    def shown(schema: str, name: str) -> str:
        found = quote_identifier(name)
        if oids.get((schema, name)) in visible:
            return found
        return f"{quote_identifier(TEMPORARY_SCHEMA if holds_temporary(schema) else schema)}.{found}"

    return shown


@cache
def _attribute_names() -> Mapping[tuple[int, int], str]:
    data = builtin_columns("pg_attribute")
    return {
        (relation, number): name
        for relation, number, name in zip(data["attrelid"], data["attnum"], data["attname"], strict=True)
    }


def column_name(objects: CatalogObjects, relation_oid: int, attnum: int) -> str | None:
    """The name of a column of any relation."""
    relation = objects.snapshot.get(relation_oid)
    if isinstance(relation, Relation):
        if attnum < 0 and relation.kind in "rmf":
            return next((name for name, number, _ in SYSTEM_COLUMNS if number == attnum), None)
        return next((column.name for column in relation.columns if column.attnum == attnum), None)
    return _attribute_names().get((relation_oid, attnum))


def column_number(objects: CatalogObjects, relation_oid: int, name: str) -> int | None:
    """The attnum of a column of any relation, system columns among them; 0 for one that is dropped, by the name that
    pg_attribute has of it; None for a name of no column."""
    relation = objects.snapshot.get(relation_oid)
    if not isinstance(relation, Relation):
        names = _attribute_names().items()
        return next((attnum for (oid, attnum), column in names if oid == relation_oid and column == name), None)
    for column in relation.columns:
        if column.dropped and name == f"........pg.dropped.{column.attnum}........":
            return 0
        if not column.dropped and column.name == name:
            return column.attnum
    return next((attnum for column, attnum, _ in SYSTEM_COLUMNS if column == name), None)


def column_list(objects: CatalogObjects, relation_oid: int, attnums: Sequence[int]) -> str:
    """The quoted names of columns, with commas between them."""
    return ", ".join(quote_identifier(column_name(objects, relation_oid, attnum) or "???") for attnum in attnums)


def qualified_relation_name(
    objects: CatalogObjects, oid: int, path: tuple[int, ...] | None, *, numbered: bool = False
) -> str:
    """The relation's quoted name, with its schema unless `path` reaches it (None: always with its schema). The
    temporary schema is pg_temp, as definitions have it, or has its number."""
    named = objects.relation(oid)
    if named is None:
        return str(oid)
    name = quote_identifier(named.name)
    if path is not None and oid in objects.visible_relations(path):
        return name
    schema = objects.schema_name_by_oid.get(named.namespace, "") if numbered else objects.defined_in(named.namespace)
    return f"{quote_identifier(schema)}.{name}"


def constraint_definition(
    objects: CatalogObjects,
    oid: int,
    path: tuple[int, ...],
    *,
    pretty: bool = False,
    names: ObjectNames | None = None,
) -> str | None:
    """pg_get_constraintdef: None when there is no such constraint. `pretty` leaves out parentheses; `names` is what
    regclass and the like show."""
    constraint = objects.snapshot.get(oid)
    of_domain = objects.domain_checks.get(oid)
    if of_domain is not None:
        check, domain = of_domain
        text = f"CHECK ({shown_check(objects, check, domain, pretty=pretty, names=names)})"
        return text if check.validated else f"{text} NOT VALID"
    if not isinstance(constraint, Constraint):
        return _builtin_constraint_definition(objects, oid, pretty=pretty)
    text = _constraint_text(objects, constraint, path, names, pretty=pretty)
    if constraint.deferrable:
        text += " DEFERRABLE"
    if constraint.deferred:
        text += " INITIALLY DEFERRED"
    return text if constraint.validated else f"{text} NOT VALID"


_ACTIONS = {"r": "RESTRICT", "c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


def shown_check(
    objects: CatalogObjects,
    check: DomainConstraint,
    domain: DomainType,
    *,
    pretty: bool = False,
    names: ObjectNames | None = None,
) -> str:
    """The condition of a domain's check as it is shown."""
    if not pretty and _is_shown_as_kept(check.expression):
        return with_names_shown(check.expression)
    return stored_expression_text(
        value_of(domain),
        check.expression,
        bind_context(objects),
        pretty=pretty,
        objects=names or partial(name_of_object, objects),
    )


def _is_shown_as_kept(text: str) -> bool:
    """Whether a stored expression, with all of its parentheses, is shown as it is but for names of types."""
    return "::reg" not in text and is_as_kept()


def name_of_object(objects: CatalogObjects, type_oid: int, oid: int) -> str:
    """What an expression shows for the object that a value of regclass and the like stands for."""
    return qualified_relation_name(objects, oid, None, numbered=True) if type_oid == REGCLASS else str(oid)


def _constraint_text(
    objects: CatalogObjects, constraint: Constraint, path: tuple[int, ...], names: ObjectNames | None, *, pretty: bool
) -> str:
    columns = column_list(objects, constraint.relation, constraint.columns)
    if constraint.kind in ("p", "u"):
        words = "PRIMARY KEY" if constraint.kind == "p" else "UNIQUE"
        if constraint.nulls_not_distinct:
            words += " NULLS NOT DISTINCT"
        include = column_list(objects, constraint.relation, constraint.include)
        return f"{words} ({columns})" + (f" INCLUDE ({include})" if include else "")
    if constraint.kind == "f" and constraint.foreign_relation is not None:
        table = qualified_relation_name(objects, constraint.foreign_relation, path)
        foreign = column_list(objects, constraint.foreign_relation, constraint.foreign_columns)
        text = f"FOREIGN KEY ({columns}) REFERENCES {table}({foreign})"
        if constraint.match == "f":
            text += " MATCH FULL"
        if constraint.on_update in _ACTIONS:
            text += f" ON UPDATE {_ACTIONS[constraint.on_update]}"
        if constraint.on_delete in _ACTIONS:
            text += f" ON DELETE {_ACTIONS[constraint.on_delete]}"
        chosen = column_list(objects, constraint.relation, constraint.delete_columns)
        return f"{text} ({chosen})" if chosen else text
    if constraint.kind == "x":
        return _exclusion_text(objects, constraint, names, pretty=pretty)
    expression = shown_expression(objects, constraint.relation, constraint.expression or "", pretty=pretty, names=names)
    return f"CHECK ({expression})" + (" NO INHERIT" if constraint.no_inherit else "")


def _exclusion_text(objects: CatalogObjects, constraint: Constraint, names: ObjectNames | None, *, pretty: bool) -> str:
    index = find_index(objects.snapshot, constraint.index or 0)
    relation = objects.snapshot.get(constraint.relation)
    assert index is not None
    assert isinstance(relation, Relation)
    shown = names or partial(name_of_object, objects)
    context = bind_context(objects)
    keys = key_texts(relation, index.columns, index.expressions, context, pretty=pretty, objects=shown)
    operators = [builtin_operators()[oid][0] for oid in constraint.exclude_operators]
    elements = [
        f"{key}{option} WITH {operator}"
        for key, option, operator in zip(keys, key_options(objects, relation, index), operators, strict=True)
    ]
    text = f"EXCLUDE USING {quote_identifier(index.method)} ({', '.join(elements)})"
    if index.include:
        text += f" INCLUDE ({column_list(objects, relation.oid, index.include)})"
    if index.predicate is not None:
        predicate = shown_expression(objects, relation.oid, index.predicate, pretty=pretty, names=names)
        text += f" WHERE ({predicate})"
    return text


def key_options(objects: CatalogObjects, relation: Relation, index: Index) -> Iterator[str]:
    """What follows each key: collation, operator class with its options, and order, where they are not the default. A
    class is written with its schema unless the search path reaches it."""
    told = index.class_options or ((),) * len(index.columns)
    types = {column.attnum: column.type_oid for column in relation.columns}
    expressions = iter(index.expression_types)
    own_collations = key_collations(relation, index)
    for attnum, option, operator_class, given, collation, own in zip(
        index.columns, index.options, index.operator_classes, told, index.collations, own_collations, strict=True
    ):
        type_oid = types[attnum] if attnum else next(expressions)[0]
        text = ""
        if collation != own:
            text += f" COLLATE {quote_identifier(operator_classes.collation_name(collation))}"
        if given or (operator_class and not operator_classes.is_default_class(operator_class, type_oid, index.method)):
            text += f" {_class_name(objects, operator_class)}"
        if given:
            text += f" ({', '.join(map(parameter_text, given))})"
        yield text + (order_text(option) if index.method == "btree" else "")


def _class_name(objects: CatalogObjects, oid: int) -> str:
    name = quote_identifier(operator_classes.operator_class_name(oid))
    extension = operator_classes.extension_of(oid)
    oids = (each.schema for each in objects.extensions if each.name == extension)
    schema = objects.schema_name_by_oid.get(next(oids, 0))
    if schema is None or schema in TYPE_SCOPE.get().search_path:
        return name
    return f"{quote_identifier(schema)}.{name}"


def parameter_text(parameter: str) -> str:
    """A storage parameter, or an option of an operator class, as definitions show it."""
    name, _, value = parameter.partition("=")
    return f"{quote_identifier(name)}={value if quote_identifier(value) == value else quote_literal(value)}"


def order_text(option: int) -> str:
    """The order of a key as pg_get_indexdef shows it."""
    if option & DESCENDING:
        return " DESC" if option & NULLS_FIRST else " DESC NULLS LAST"
    return " NULLS FIRST" if option & NULLS_FIRST else ""


def shown_expression(
    objects: CatalogObjects,
    relation_oid: int,
    text: str,
    *,
    pretty: bool = False,
    names: ObjectNames | None = None,
    path: tuple[int, ...] = (),
) -> str:
    """A stored expression over the columns of a relation (0: of none) as it is shown. `names` calls objects by their
    names; without it relations are qualified; those in subqueries are where `path` (schema oids) does not find them.
    Expressions of built-in relations stay as they are."""
    if relation_oid and "SELECT" in text.upper():
        try:
            query = condition_query(objects.snapshot, relation_oid, text)
            known = names or partial(name_of_object, objects)
            shown_name = relation_names(objects, path)
            return with_names_shown(
                condition_shown(query, bind_context(objects), shown_name, pretty=pretty, objects=known)
            )
        except (NotPrintable, SqlError):
            pass
    for check, domain in objects.domain_checks.values() if not relation_oid else ():
        if check.expression == text:
            return shown_check(objects, check, domain, pretty=pretty, names=names)
    if not pretty and _is_shown_as_kept(text):
        return with_names_shown(text)
    relation = objects.snapshot.get(relation_oid)
    if relation_oid and not isinstance(relation, Relation):
        return text
    column = None
    if isinstance(relation, Relation):
        column = next((column for column in relation.live_columns() if column.default == text), None)
    else:
        relation = None
    shown = names or partial(name_of_object, objects)
    return stored_expression_text(relation, text, bind_context(objects), column, pretty=pretty, objects=shown)


def generation_sources(objects: CatalogObjects, relation: Relation, column: Column) -> Sequence[int]:
    """The attnums of the columns that a generated one is computed from."""
    return generation_expression(relation, column, bind_context(objects), stored=True).columns


def is_identity(objects: CatalogObjects, sequence: SequenceRecord) -> bool:
    """Whether a sequence is part of an identity column."""
    relation = objects.snapshot.get(sequence.owned_by[0]) if sequence.owned_by is not None else None
    return isinstance(relation, Relation) and any(c.sequence == sequence.oid for c in relation.live_columns())


def updatable_events(objects: CatalogObjects, oid: int, attnum: int | None = None) -> int:
    """What can be done to the rows of a relation, or to its column `attnum`: PostgreSQL's bits."""
    relation = objects.snapshot.get(oid)
    if not isinstance(relation, Relation):
        named = objects.relation(oid)
        return updatability.ALL if named is not None and named.kind == "r" else 0
    places = updatability.updatable_places(relation, bind_context(objects))
    if places is not None and attnum is not None and relation.kind == "v":
        live = relation.live_columns()
        places = frozenset(place for place in places if live[place].attnum == attnum)
    return updatability.events(places)


def updatable_columns(objects: CatalogObjects, oid: int) -> frozenset[int]:
    """The attnums of the columns of a view that can be changed."""
    relation = objects.snapshot.get(oid)
    if not isinstance(relation, Relation):
        return frozenset()
    live = relation.live_columns()
    places = updatability.updatable_places(relation, bind_context(objects))
    return frozenset(live[place].attnum for place in places or ())


def is_updatable(events: int) -> bool:
    """Whether rows, or a column, may be updated in the standard's sense: UPDATE and DELETE are possible."""
    both = updatability.UPDATE | updatability.DELETE
    return events & both == both


def is_insertable(events: int) -> bool:
    """Whether rows may be inserted."""
    return bool(events & updatability.INSERT)


def bind_context(objects: CatalogObjects) -> BindContext:
    """What stored expressions are bound in, which mean the same everywhere."""
    return BindContext(
        catalog=objects.snapshot,
        search_path=(),
        settings={},
        user="",
        database=objects.database,
        system_relations=BuiltinRelations(),
    )


def _without_outer_parentheses(text: str) -> str:
    """`text` without one pair of parentheses that encloses all of it."""
    stripped = text.strip()
    if not (stripped.startswith("(") and stripped.endswith(")")):
        return stripped
    depth = 0
    quote = ""
    for position, character in enumerate(stripped):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            if depth == 0 and position < len(stripped) - 1:
                return stripped
    return stripped[1:-1]


def _builtin_constraint_definition(objects: CatalogObjects, oid: int, *, pretty: bool) -> str | None:
    position = static_row("pg_constraint", "oid").get(oid)
    if position is None:
        return None
    data = catalog_data.columns("pg_constraint")
    kind = data["contype"][position]
    if kind == "c":
        if pretty:
            return _pretty()[oid]
        return f"CHECK (({_without_outer_parentheses(data['conbin'][position])}))"
    columns = column_list(objects, data["conrelid"][position], data["conkey"][position])
    return f"{'PRIMARY KEY' if kind == 'p' else 'UNIQUE'} ({columns})"
