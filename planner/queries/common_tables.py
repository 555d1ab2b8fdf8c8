"""WITH: common tables, recursive ones too, and the queries around which they stand."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from planner.errors import (
    DatatypeMismatch,
    DuplicateAlias,
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidRecursion,
    SqlSyntaxError,
)
from planner.expressions.bind import bind_clause
from planner.ir.bound import WITH_ROWS, Returning, WithStep
from planner.ir.nodes import CommonTable, CteScan, Field, Origin, Project, Rel, Scalar, With
from planner.ir.rewrite import walk
from planner.queries.recursion.rules import check_recursion, in_dependency_order, refers_to_itself
from planner.queries.recursion.search_and_cycle import AddedColumns, check_clauses, check_marks, check_names, rewritten
from planner.queries.relations import Cte
from planner.resolution.casting import resolve_unknown
from planner.resolution.coercion import common_type
from planner.resolution.operators import is_made_of
from planner.resolution.query import (
    analyze_query,
    bind_query,
    built,
    cast_columns,
    coerce_column,
    column_position,
    first_position,
)
from planner.resolution.statement import Analyzed, Level, SearchedTable
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.type_names import format_type
from planner.types.types import BIT, MONEY, NUMERIC, UNKNOWN, VARBIT, WIDE, SqlType, computed_type


class WithQuery:
    """A query with common tables around it."""

    def __init__(self, body: Analyzed, tables: list[CommonTable]) -> None:
        self.body, self.tables, self.level = body, tables, body.level

    @property
    def names(self) -> list[str]:
        return self.body.names

    @property
    def types(self) -> list[SqlType]:
        return self.body.types

    def origins(self) -> list[Origin | None]:
        return self.body.origins()

    def column_expr(self, index: int) -> Scalar | None:
        return self.body.column_expr(index)

    def set_column(self, index: int, expr: Scalar) -> None:
        self.body.set_column(index, expr)

    def build(self) -> Rel:
        rel = self.body.build()
        return With(tables=tuple(self.tables), body=rel, fields=rel.fields)


def with_tables(tables: Sequence[CommonTable], rel: Rel) -> Rel:
    """`rel` with those common tables around it, if it reads one: as far inside as it goes, so that an INSERT sees which
    columns its outermost projection computes."""
    ids = {table.id for table in tables}

    def reads(node: object) -> bool:
        return any(isinstance(inner, CteScan) and inner.cte in ids for inner in walk(node))

    def placed(rel: Rel) -> Rel:
        if isinstance(rel, Project) and not reads(rel.exprs):
            return replace(rel, input=placed(rel.input))
        return With(tables=tuple(tables), body=rel, fields=rel.fields)

    return placed(rel) if ids and reads(rel) else rel


def bind_with(level: Level, tree: Tree) -> list[CommonTable]:
    """The common tables of a WITH clause, put in `level`'s scope.

    When one of them changes rows, they are all left to the whole statement (`Statement.with_changes`) instead.
    """
    statement = level.statement
    seen: set[str] = set()
    ctes = [node.common_table_expr for node in tree.ctes]
    for cte in ctes:
        if cte.ctename in seen:
            raise DuplicateAlias(
                f'WITH query name "{cte.ctename}" specified more than once', position=statement.position(cte.location)
            )
        seen.add(cte.ctename)
    if tree.recursive:
        ctes = in_dependency_order(statement, ctes)
    tables: list[CommonTable] = []
    changes = False
    named: list[CommonTable | WithStep] = []
    items: list[CommonTable | WithStep] = []
    for cte in ctes:
        if not cte.ctequery.HasField("select_stmt"):
            changes = True
            named.append(_change(level, cte, recursive=tree.recursive))
            items.append(named[-1])
            continue
        recursive = tree.recursive and refers_to_itself(cte)
        if check_clauses(statement, cte, recursive=recursive):
            made = _searched_table(level, cte)
        elif recursive:
            made = _recursive_table(level, cte)
        else:
            made = [_common_table(level, cte)]
        tables += made
        items += made
        named.append(made[-1])
    if statement.notes is not None:
        statement.notes.tables[id(tree)] = (tree, named)
    if changes and statement.with_changes is not None:
        statement.with_changes.items = items
        return []
    return tables


def _change(level: Level, tree: Tree, *, recursive: bool) -> WithStep:
    """A common table that changes rows. Raises 0A000 where none may stand, 42P19 for one that refers to itself."""
    statement = level.statement
    whole, position = statement.with_changes, statement.position(tree.location)
    if level.parent is not None or statement.view_depth:
        raise FeatureNotSupported(
            "WITH clause containing a data-modifying statement must be at the top level", position=position
        )
    if whole is None:
        raise FeatureNotSupported("views must not contain data-modifying statements in WITH")
    if recursive and refers_to_itself(tree):
        raise InvalidRecursion(
            f'recursive query "{tree.ctename}" must not contain data-modifying statements', position=position
        )
    whole.bound_inside = True
    bound = whole.bind(Level(statement, level), tree.ctequery)
    whole.bound_inside = False
    returning: Returning | None = getattr(bound, "returning", None)
    cte = _register(level, tree, () if returning is None else returning.query.rel.fields)
    cte.id, cte.has_rows = WITH_ROWS - cte.id, returning is not None
    return WithStep(id=cte.id, name=cte.name, statement=bound)


def _materialized(tree: Tree) -> bool | None:
    if tree.ctematerialized == pb.CTEMaterializeAlways:
        return True
    if tree.ctematerialized == pb.CTEMaterializeNever:
        return False
    return None


def _cte_names(level: Level, tree: Tree, names: list[str]) -> list[str]:
    given = list(strings(tree.aliascolnames))
    if len(given) > len(names):
        raise InvalidColumnReference(
            f'WITH query "{tree.ctename}" has {len(names)} columns available but {len(given)} columns specified',
            position=level.statement.position(tree.location),
        )
    return given + names[len(given) :]


def _common_table(level: Level, tree: Tree) -> CommonTable:
    statement = level.statement
    rel = bind_query(Level(statement, level), tree.ctequery.select_stmt)
    cte = _register(level, tree, rel.fields)
    return CommonTable(id=cte.id, name=cte.name, rel=rel, materialized=_materialized(tree))


def _register(level: Level, tree: Tree, fields: Sequence[Field]) -> Cte:
    statement = level.statement
    names = _cte_names(level, tree, [field.name for field in fields])
    cte = Cte(
        id=statement.next_cte,
        name=tree.ctename,
        columns=[(name, field.type, field.origin) for name, field in zip(names, fields, strict=True)],
        records={
            index: statement.record_columns[field.id]
            for index, field in enumerate(fields)
            if field.id in statement.record_columns
        },
    )
    statement.next_cte += 1
    level.ctes[cte.name] = cte
    return cte


def _searched_table(level: Level, tree: Tree) -> list[CommonTable]:
    """As `_recursive_table`, with SEARCH or CYCLE."""
    statement = level.statement
    check_recursion(statement, tree)
    if tree.ctequery.select_stmt.HasField("with_clause"):
        # The terms are bound more than once.
        raise FeatureNotSupported(
            "WITH inside a recursive query with SEARCH or CYCLE is not supported",
            position=statement.position(tree.location),
        )
    before = bind_query(Level(statement, level), tree.ctequery.select_stmt.larg)
    names = _cte_names(level, tree, [field.name for field in before.fields])
    check_names(statement, tree, names)
    marks: list[Scalar] = []
    if tree.HasField("cycle_clause"):
        clause = tree.cycle_clause
        marks = [
            bind_clause(Level(statement, level), mark, "CYCLE")
            for mark in (clause.cycle_mark_value, clause.cycle_mark_default)
        ]
        check_marks(statement, tree, (marks[0].type.oid, marks[1].type.oid))
    table, added = rewritten(tree, names, before.fields)
    found = _recursive_table(level, table, added)
    if statement.definition is not None or statement.notes is not None:
        # The terms as they are written, for what their stars and names mean: `rewritten` has copies.
        step = analyze_query(Level(statement, level), tree.ctequery.select_stmt.rarg)
        if statement.notes is not None:
            marks = [resolve_unknown(statement, mark) for mark in marks]
            statement.notes.searched[id(tree)] = SearchedTable(tree, before, step, marks)
    return found


def _recursive_table(level: Level, tree: Tree, added: AddedColumns | None = None) -> list[CommonTable]:
    """A recursive table, after those of the WITH around its terms: they do not refer to it, both terms read them."""
    statement = level.statement
    select = tree.ctequery.select_stmt
    name = tree.ctename
    check_recursion(statement, tree)
    inner = Level(statement, level)
    tables = bind_with(inner, select.with_clause) if select.HasField("with_clause") else []
    analyzed = analyze_query(Level(statement, inner), select.larg)
    # Constants of no type are text in this term, and what the other one has in the whole.
    is_open = [type.oid == UNKNOWN for type in analyzed.types]
    base = built(inner, analyzed, select.larg)
    types = [
        SqlType(field.type.oid, field.type.typmod, WIDE) if field.type.oid == NUMERIC and field.type.typmod < 0
        else computed_type(field.type)
        for field in base.fields
    ]  # fmt: skip
    base = cast_columns(statement, base, types)
    names = _cte_names(level, tree, [field.name for field in base.fields])
    cte = Cte(
        id=statement.next_cte,
        name=name,
        columns=[(column, type, None) for column, type in zip(names, types, strict=True)],
        recursive=True,
        added=added,
    )
    statement.next_cte += 1
    inner.ctes[name] = cte
    step_query = analyze_query(Level(statement, inner), select.rarg)
    if len(step_query.types) != len(types):
        raise SqlSyntaxError(
            "each UNION query must have the same number of columns", position=first_position(step_query)
        )
    for index, (mine, other) in enumerate(zip(types, step_query.types, strict=True)):
        chosen = common_type([UNKNOWN if is_open[index] else mine.oid, other.oid])
        if chosen is None:
            raise DatatypeMismatch(
                f"UNION types {format_type(mine.oid)} and {format_type(other.oid)} cannot be matched",
                position=column_position(step_query, index),
            )
        # The whole has a modifier that both terms have, else none.
        if chosen != mine.oid or (mine.typmod >= 0 and other.typmod != mine.typmod):
            raise DatatypeMismatch(
                f'recursive query "{name}" column {index + 1} has type {format_type(mine.oid, mine.typmod)} in '
                f"non-recursive term but type {format_type(chosen, -1)} overall",
                hint="Cast the output of the non-recursive term to the correct type.",
                position=statement.position_of(_base_expr(base, index)),
            )
        if other.oid == UNKNOWN:
            coerce_column(step_query, index, mine.oid, "UNION")
    if not select.all and any(is_made_of(type.oid, _NOT_HASHABLE) for type in types):
        raise FeatureNotSupported(
            "could not implement recursive UNION", detail="All column datatypes must be hashable."
        )
    found = step_query.build()
    if statement.notes is not None:
        statement.notes.queries[id(found)] = (found, step_query, select.rarg)
    step = cast_columns(statement, found, types)
    cte.recursive = False
    level.ctes[name] = cte
    table = CommonTable(
        id=cte.id, name=name, rel=base, step=step, union_all=select.all, materialized=_materialized(tree)
    )
    return [*tables, table]


_NOT_HASHABLE = frozenset({MONEY, BIT, VARBIT})
"""Types whose values are equal and ordered, but have no hash in PostgreSQL."""


def _base_expr(rel: Rel, index: int) -> Scalar | None:
    return rel.exprs[index] if isinstance(rel, Project) else None
