"""A catalog for binder tests, made from CREATE statements by the binder itself, and descriptions of what it bound."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planner.analyze import BindContext, analyze, define_view
from planner.errors import SqlError
from planner.ir import nodes as ir
from planner.ir.bound import BoundDelete, BoundInsert, BoundQuery, BoundUpdate, BoundWith
from planner.statements.records import CreateTable, CreateView
from planner.syntax.parse import split_and_parse
from planner.types.system_relations import BuiltinRelations
from planner.types.type_names import format_type
from storage.catalog.model import PUBLIC_SCHEMA_OID, CatalogSnapshot, CatalogUpdate, Column, Constraint, Relation
from storage.catalog.standard_objects import bootstrap_updates
from storage.ids import ShardId
from storage.timestamps.csn import Csn

DATA = Path(__file__).parent.parent / "data" / "planner"


def context_of(catalog: CatalogSnapshot, database: str = "postgres") -> BindContext:
    """A session's context over `catalog`, with PostgreSQL's default settings."""
    return BindContext(
        catalog=catalog,
        search_path=("public",),
        settings={"TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres"},
        user="postgres",
        database=database,
        system_relations=BuiltinRelations(),
    )


def create(catalog: CatalogSnapshot, sql: str) -> CatalogSnapshot:
    """`catalog` with the tables and views of some CREATE statements."""
    for parsed in split_and_parse(sql):
        statement = analyze(parsed, context_of(catalog))
        oid = catalog.next_oid
        constraints: list[Constraint] = []
        if isinstance(statement, CreateTable):
            columns = tuple(
                Column(attnum=number, name=column.name, type_oid=column.type.oid, typmod=column.type.typmod,
                       not_null=column.not_null, default=column.default)
                for number, column in enumerate(statement.columns, 1)
            )  # fmt: skip
            attnums = {column.name: column.attnum for column in columns}
            constraints = [
                Constraint(oid=oid + number, name=f"c{oid}_{number}", relation=oid, kind=constraint.kind,
                           columns=tuple(attnums[name] for name in constraint.columns))
                for number, constraint in enumerate(statement.constraints, 1)
            ]  # fmt: skip
            relation = Relation(oid=oid, name=statement.name.name, schema=PUBLIC_SCHEMA_OID, owner=10, kind="r",
                                columns=columns, shard=ShardId(f"s{oid}"),
                                constraints=tuple([constraint.oid for constraint in constraints]))  # fmt: skip
        elif isinstance(statement, CreateView):
            view = define_view(statement, context_of(catalog))
            relation = Relation(
                oid=oid, name=statement.name.name, schema=PUBLIC_SCHEMA_OID, owner=10, kind="v",
                columns=tuple(
                    Column(attnum=number, name=name, type_oid=type.oid, typmod=type.typmod)
                    for number, (name, type) in enumerate(view.columns, 1)
                ),
                definition=view.definition, depends_on=view.depends_on,
            )  # fmt: skip
        else:
            raise AssertionError(f"not a CREATE TABLE or VIEW: {parsed.source}")
        updates = [CatalogUpdate(record=relation, diff=1)]
        updates.extend(CatalogUpdate(record=record, diff=1) for record in constraints)
        catalog = catalog.apply(updates, Csn(catalog.csn + 1))
    return catalog


@cache
def corpus_context() -> BindContext:
    """The context that the statements of the corpus refer to (tests/data/planner/schema.sql)."""
    empty = CatalogSnapshot.empty().apply(bootstrap_updates(), Csn(1))
    return context_of(create(empty, (DATA / "schema.sql").read_text()))


@dataclass(frozen=True, slots=True)
class Described:
    """What Describe answers for a statement: parameter types, and columns (name, type with modifier) or None."""

    params: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] | None


def output_rel(bound: object) -> ir.Rel | None:
    """The relation whose columns the client sees."""
    if isinstance(bound, BoundQuery):
        return bound.rel
    if isinstance(bound, (BoundInsert, BoundUpdate, BoundDelete)) and bound.returning is not None:
        return bound.returning.query.rel
    return None


def input_query(bound: object) -> BoundQuery | None:
    """The query that holds a statement's parameters."""
    if isinstance(bound, BoundQuery):
        return bound
    if isinstance(bound, BoundInsert):
        return bound.source
    if isinstance(bound, (BoundUpdate, BoundDelete)):
        return bound.read
    return None


def describe(sql: str, context: BindContext, declared: tuple[int, ...] = ()) -> Described:
    """Binds the one statement of `sql` and describes it. Raises the binder's errors."""
    (parsed,) = split_and_parse(sql)
    bound = analyze(parsed, context, declared)
    if isinstance(bound, BoundWith):
        bound = bound.body
    query = input_query(bound)
    params = tuple(format_type(type.oid) for type in query.param_types) if query is not None else ()
    rel = output_rel(bound)
    columns = None
    if rel is not None:
        columns = tuple((field.name, format_type(field.type.oid, field.type.typmod)) for field in rel.fields)
    return Described(params, columns)


def render(sql: str, context: BindContext) -> str:
    """One case's outcome as text: `params:` and `columns:` lines, or the error with its fields."""
    try:
        described = describe(sql, context)
    except SqlError as error:
        return render_error(error.sqlstate, error.message, error.detail, error.hint, error.position)
    return render_description(described.params, described.columns)


def render_description(params: tuple[str, ...], columns: tuple[tuple[str, str], ...] | None) -> str:
    """The text of a description."""
    lines = []
    if params:
        lines.append("params: " + "; ".join(params))
    if columns is None:
        lines.append("no columns")
    else:
        lines.append("columns: " + "; ".join(f"{name} {type}" for name, type in columns))
    return "\n".join(lines)


def render_error(sqlstate: str, message: str, detail: str | None, hint: str | None, position: int | None) -> str:
    """The text of an error."""
    lines = [f"error {sqlstate}: {message}"]
    if detail:
        lines.append(f"detail: {detail}")
    if hint:
        lines.append(f"hint: {hint}")
    if position:
        lines.append(f"position: {position}")
    return "\n".join(lines)
