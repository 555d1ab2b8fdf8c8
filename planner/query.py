"""Queries: WITH, set operations, VALUES and subqueries; a single SELECT is `planner.select`'s.

Binding a query has two steps. First it is analyzed: names, types, target lists. Unknown literals among its output
columns stay unknown, because what surrounds the query (a set operation, an INSERT) may give them a type. Then it is
built into relational nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from postgast import pg_query_pb2 as pb

from planner.binding import Level, Statement
from planner.casting import coerce, resolve_unknown, to_common, unified_type, unify, with_shape
from planner.coercion import Context, common_type
from planner.errors import (
    DatatypeMismatch,
    DuplicateAlias,
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidRecursion,
    SqlSyntaxError,
)
from planner.expressions import bind, bind_clause, sort_direction, strings
from planner.functions.numeric_shapes import ANY_NUMERIC
from planner.ir import (
    Cast,
    ColumnRef,
    CommonTable,
    Field,
    Limit,
    OneRow,
    Origin,
    Param,
    Project,
    Rel,
    Scalar,
    SetOperation,
    Sort,
    SortKey,
    Values,
    With,
)
from planner.ir import Literal as Constant
from planner.parse import Tree, tree_location
from planner.relations import Cte
from planner.rewrite import walk
from planner.type_names import format_type
from planner.types import INT8, NUMERIC, UNKNOWN, SqlType, column_type


class Analyzed(Protocol):
    """A query after analysis. `types[i]` may be unknown; `coerce_column` then gives it one."""

    level: Level

    @property
    def names(self) -> list[str]: ...

    @property
    def types(self) -> list[SqlType]: ...

    def origins(self) -> list[Origin | None]: ...

    def column_expr(self, index: int) -> Scalar | None: ...

    def set_column(self, index: int, expr: Scalar) -> None: ...

    def build(self) -> Rel: ...


def bind_query(level: Level, tree: Tree) -> Rel:
    """The relation of a SelectStmt bound in `level` (a level of its own), unknown columns as text."""
    analyzed = analyze_query(level, tree)
    resolve_unknown_columns(analyzed)
    return analyzed.build()


def bind_subquery(level: Level, node: Tree) -> Rel:
    """The relation of a subquery inside an expression of `level`."""
    if not node.HasField("select_stmt"):
        raise FeatureNotSupported("this kind of subquery is not supported")
    return bind_query(Level(level.statement, level), node.select_stmt)


def resolve_unknown_columns(analyzed: Analyzed) -> None:
    """Gives columns of unknown type the type text."""
    statement = analyzed.level.statement
    for index, type in enumerate(analyzed.types):
        if type.oid == UNKNOWN:
            expr = analyzed.column_expr(index)
            if expr is not None:
                analyzed.set_column(index, resolve_unknown(statement, expr))


def analyze_query(level: Level, tree: Tree) -> Analyzed:
    """Analysis of a SelectStmt of any form in its own `level`."""
    from planner.select import SelectQuery

    tables: list[CommonTable] = []
    if tree.HasField("with_clause"):
        tables = bind_with(level, tree.with_clause)
    if tree.HasField("into_clause"):
        raise SqlSyntaxError("SELECT ... INTO is not allowed here",
                             position=level.statement.position(tree.into_clause.rel.location))  # fmt: skip
    analyzed: Analyzed
    if tree.op != pb.SETOP_NONE:
        analyzed = SetQuery(level, tree)
    elif tree.values_lists:
        analyzed = ValuesQuery(level, tree)
    else:
        analyzed = SelectQuery(level, tree)
    return WithQuery(analyzed, tables) if tables else analyzed


# ---------------------------------------------------------------- column casts


def cast_columns(statement: Statement, rel: Rel, types: Sequence[SqlType]) -> Rel:
    """`rel` with its columns cast implicitly to `types`; `rel` itself when they have them."""
    if all(field.type == type for field, type in zip(rel.fields, types, strict=True)):
        return rel
    exprs: list[Scalar] = []
    fields: list[Field] = []
    for field, type in zip(rel.fields, types, strict=True):
        expr: Scalar = ColumnRef(id=field.id, type=field.type)
        if field.type.oid != type.oid:
            expr = coerce(statement, expr, type, Context.IMPLICIT)
        if expr.type.shape != type.shape:
            expr = with_shape(statement, expr, type)
        exprs.append(expr)
        origin = field.origin if isinstance(expr, ColumnRef) else None
        fields.append(statement.new_field(field.name, SqlType(type.oid, type.typmod, expr.type.shape), origin))
    return Project(input=rel, exprs=tuple(exprs), fields=tuple(fields))


def single_column(statement: Statement, rel: Rel, index: int) -> Rel:
    """`rel` reduced to one of its columns."""
    field = rel.fields[index]
    if len(rel.fields) == 1:
        return rel
    target = statement.new_field(field.name, field.type, field.origin)
    return Project(input=rel, exprs=(ColumnRef(id=field.id, type=field.type),), fields=(target,))


# ---------------------------------------------------------------- WITH


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


def bind_with(level: Level, tree: Tree) -> list[CommonTable]:
    """The common tables of a WITH clause, put in `level`'s scope."""
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
        ctes = _in_dependency_order(ctes)
    tables = []
    for cte in ctes:
        if not cte.ctequery.HasField("select_stmt"):
            raise FeatureNotSupported(
                "data-modifying statements in WITH are not supported", position=statement.position(cte.location)
            )
        if cte.HasField("search_clause") or cte.HasField("cycle_clause"):
            raise FeatureNotSupported(
                "SEARCH and CYCLE clauses are not supported", position=statement.position(cte.location)
            )
        if tree.recursive and cte.ctename in _referenced_names(cte.ctequery):
            tables.append(_recursive_table(level, cte))
        else:
            tables.append(_common_table(level, cte))
    return tables


def _referenced_names(node: Any) -> set[str]:
    """The unqualified relation names in a parse tree."""
    names: set[str] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        for descriptor, value in current.ListFields():
            if descriptor.message_type is None:
                continue
            if descriptor.is_repeated:
                stack.extend(value)
            else:
                stack.append(value)
        if current.DESCRIPTOR.name == "RangeVar" and not current.schemaname:
            names.add(current.relname)
    return names


def _reference_location(node: Any, name: str) -> int:
    """Where a relation name first stands in a parse tree."""
    found = []
    stack = [node]
    while stack:
        current = stack.pop()
        for descriptor, value in current.ListFields():
            if descriptor.message_type is not None:
                stack.extend(value if descriptor.is_repeated else (value,))
        if current.DESCRIPTOR.name == "RangeVar" and current.relname == name:
            found.append(current.location)
    return min(found, default=-1)


def _in_dependency_order(ctes: list[Any]) -> list[Any]:
    """WITH RECURSIVE allows forward references: those that need nothing unbound come first."""
    needs = {cte.ctename: _referenced_names(cte.ctequery) - {cte.ctename} for cte in ctes}
    names = set(needs)
    done: list[Any] = []
    waiting = list(ctes)
    while waiting:
        bound = {cte.ctename for cte in done}
        ready = next((cte for cte in waiting if not (needs[cte.ctename] & names) - bound), None)
        if ready is None:
            raise FeatureNotSupported("mutual recursion between WITH items is not implemented")
        done.append(ready)
        waiting.remove(ready)
    return done


def _materialized(tree: Tree) -> bool | None:
    if tree.ctematerialized == pb.CTEMaterializeAlways:
        return True
    if tree.ctematerialized == pb.CTEMaterializeNever:
        return False
    return None


def _cte_names(level: Level, tree: Tree, names: list[str]) -> list[str]:
    given = [node.string.sval for node in tree.aliascolnames]
    if len(given) > len(names):
        raise InvalidColumnReference(
            f'WITH query "{tree.ctename}" has {len(names)} columns available but {len(given)} columns specified',
            position=level.statement.position(tree.location),
        )
    return given + names[len(given) :]


def _common_table(level: Level, tree: Tree) -> CommonTable:
    statement = level.statement
    rel = bind_query(Level(statement, level), tree.ctequery.select_stmt)
    cte = _register(level, tree, rel)
    return CommonTable(id=cte.id, name=cte.name, rel=rel, materialized=_materialized(tree))


def _register(level: Level, tree: Tree, rel: Rel) -> Cte:
    statement = level.statement
    names = _cte_names(level, tree, [field.name for field in rel.fields])
    cte = Cte(
        id=statement.next_cte,
        name=tree.ctename,
        columns=[(name, field.type, field.origin) for name, field in zip(names, rel.fields, strict=True)],
        records={
            index: statement.record_columns[field.id]
            for index, field in enumerate(rel.fields)
            if field.id in statement.record_columns
        },
    )
    statement.next_cte += 1
    level.ctes[cte.name] = cte
    return cte


def _recursive_table(level: Level, tree: Tree) -> CommonTable:
    statement = level.statement
    select = tree.ctequery.select_stmt
    name = tree.ctename
    position = statement.position(tree.location)
    if select.op != pb.SETOP_UNION:
        raise InvalidRecursion(
            f'recursive query "{name}" does not have the form non-recursive-term UNION [ALL] recursive-term',
            position=position,
        )
    if select.sort_clause:
        raise FeatureNotSupported("ORDER BY in a recursive query is not implemented", position=position)
    if select.HasField("limit_offset"):
        raise FeatureNotSupported("OFFSET in a recursive query is not implemented", position=position)
    if select.HasField("limit_count"):
        raise FeatureNotSupported("LIMIT in a recursive query is not implemented", position=position)
    if select.locking_clause:
        raise FeatureNotSupported("FOR UPDATE/SHARE in a recursive query is not implemented", position=position)
    if name in _referenced_names(select.larg):
        raise InvalidRecursion(
            f'recursive reference to query "{name}" must not appear within its non-recursive term',
            position=statement.position(_reference_location(select.larg, name)),
        )
    inner = Level(statement, level)
    if select.HasField("with_clause"):
        # Its tables are in scope of both terms and stand inside each use.
        raise FeatureNotSupported("WITH inside a recursive query is not supported", position=position)
    base = bind_query(Level(statement, inner), select.larg)
    types = [
        SqlType(field.type.oid, field.type.typmod, ANY_NUMERIC) if field.type.oid == NUMERIC and field.type.typmod < 0
        else field.type
        for field in base.fields
    ]  # fmt: skip
    base = cast_columns(statement, base, types)
    names = _cte_names(level, tree, [field.name for field in base.fields])
    cte = Cte(
        id=statement.next_cte,
        name=name,
        columns=[(column, type, None) for column, type in zip(names, types, strict=True)],
        recursive=True,
    )
    statement.next_cte += 1
    inner.ctes[name] = cte
    step_query = analyze_query(Level(statement, inner), select.rarg)
    if len(step_query.types) != len(types):
        raise SqlSyntaxError(
            "each UNION query must have the same number of columns", position=_first_position(step_query)
        )
    for index, (mine, other) in enumerate(zip(types, step_query.types, strict=True)):
        chosen = common_type([mine.oid, other.oid])
        if chosen is None:
            raise DatatypeMismatch(
                f"UNION types {format_type(mine.oid)} and {format_type(other.oid)} cannot be matched",
                position=_column_position(step_query, index),
            )
        if chosen != mine.oid:
            raise DatatypeMismatch(
                f'recursive query "{name}" column {index + 1} has type {format_type(mine.oid)} in non-recursive term '
                f"but type {format_type(chosen)} overall",
                hint="Cast the output of the non-recursive term to the correct type.",
                position=statement.position_of(_base_expr(base, index)),
            )
        if other.oid == UNKNOWN:
            _coerce_column(step_query, index, mine.oid, "UNION")
    step = cast_columns(statement, step_query.build(), types)
    level.ctes[name] = cte
    return CommonTable(
        id=cte.id, name=name, rel=base, step=step, union_all=select.all, materialized=_materialized(tree)
    )


def _base_expr(rel: Rel, index: int) -> Scalar | None:
    return rel.exprs[index] if isinstance(rel, Project) else None


def _coerce_column(query: Analyzed, index: int, oid: int, construct: str) -> None:
    expr = query.column_expr(index)
    if expr is not None:
        query.set_column(index, to_common(query.level.statement, expr, oid, construct))


def _column_position(query: Analyzed, index: int) -> int | None:
    expr = query.column_expr(index)
    return query.level.statement.position_of(expr) if expr is not None else None


def _first_position(query: Analyzed) -> int | None:
    return _column_position(query, 0) if query.types else None


# ---------------------------------------------------------------- set operations

_SET_OPERATIONS = {pb.SETOP_UNION: "UNION", pb.SETOP_INTERSECT: "INTERSECT", pb.SETOP_EXCEPT: "EXCEPT"}


class SetQuery:
    """UNION, INTERSECT or EXCEPT with its ORDER BY and LIMIT."""

    def __init__(self, level: Level, tree: Tree) -> None:
        self.level = level
        if tree.locking_clause:
            raise FeatureNotSupported("FOR UPDATE is not allowed with UNION/INTERSECT/EXCEPT")
        self.root = _SetNode(level, tree)
        self.order = [self._sort_item(node.sort_by) for node in tree.sort_clause]
        self.count, self.offset = bind_limit(level, tree)
        self.ties = tree.limit_option == pb.LIMIT_OPTION_WITH_TIES

    @property
    def names(self) -> list[str]:
        return self.root.names

    @property
    def types(self) -> list[SqlType]:
        return self.root.types

    def origins(self) -> list[Origin | None]:
        return [None] * len(self.root.types)

    def column_expr(self, index: int) -> Scalar | None:
        return self.root.column_expr(index)

    def set_column(self, index: int, expr: Scalar) -> None:
        raise AssertionError("a set operation's columns have types")

    def _sort_item(self, tree: Tree) -> tuple[int, bool, bool]:
        index = find_output_column(self.level, tree.node, self.names, "ORDER BY")
        if index is None:
            raise FeatureNotSupported(
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                detail="Only result column names can be used, not expressions or functions.",
                hint="Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                position=self.level.statement.position(tree_location(tree.node)),
            )
        column = ColumnRef(id=0, type=self.types[index])
        descending, nulls_first = sort_direction(self.level, tree, column)
        return index, descending, nulls_first

    def build(self) -> Rel:
        rel = self.root.build()
        if self.order:
            keys = tuple(
                SortKey(
                    expr=ColumnRef(id=rel.fields[index].id, type=rel.fields[index].type),
                    descending=descending,
                    nulls_first=nulls_first,
                )
                for index, descending, nulls_first in self.order
            )
            rel = Sort(input=rel, keys=keys, fields=rel.fields)
        return limited(rel, self.count, self.offset, self.ties)


def find_output_column(level: Level, node: Tree, names: list[str], clause: str) -> int | None:
    """The output column that an ORDER BY item of a set operation means: by name or by number."""
    statement = level.statement
    if node.HasField("column_ref") and len(node.column_ref.fields) == 1:
        name = strings(node.column_ref.fields)[0]
        found = [index for index, candidate in enumerate(names) if candidate == name]
        if len(found) > 1:
            from planner.errors import AmbiguousColumn

            raise AmbiguousColumn(
                f'{clause} "{name}" is ambiguous', position=statement.position(node.column_ref.location)
            )
        if found:
            return found[0]
        from planner.scope import missing_column

        if find_column_in_outer(level, name) is None:
            raise missing_column(level, None, name, node.column_ref.location)
        return None
    if node.HasField("a_const"):
        constant = node.a_const
        if not constant.HasField("ival"):
            raise SqlSyntaxError(f"non-integer constant in {clause}", position=statement.position(constant.location))
        number = constant.ival.ival
        if not 1 <= number <= len(names):
            raise InvalidColumnReference(
                f"{clause} position {number} is not in select list", position=statement.position(constant.location)
            )
        return int(number) - 1
    return None


def find_column_in_outer(level: Level, name: str) -> Scalar | None:
    """A column of an enclosing query, without complaint."""
    from planner.scope import find_column

    return find_column(level, name, -1)


class _SetNode:
    """One set operation of a tree of them; its sides are set operations or queries."""

    def __init__(self, level: Level, tree: Tree) -> None:
        statement = level.statement
        self.level = level
        self.operation = _SET_OPERATIONS[tree.op]
        self.all = tree.all
        self.left = _set_side(level, tree.larg)
        self.right = _set_side(level, tree.rarg)
        left, right = self.left.types, self.right.types
        if len(left) != len(right):
            raise SqlSyntaxError(
                f"each {self.operation} query must have the same number of columns",
                position=_first_position(self.right),
            )
        self.names = self.left.names
        self.types: list[SqlType] = []
        for index in range(len(left)):
            a, b = left[index], right[index]
            chosen = common_type([a.oid, b.oid])
            if chosen is None:
                raise DatatypeMismatch(
                    f"{self.operation} types {format_type(a.oid)} and {format_type(b.oid)} cannot be matched",
                    position=_column_position(self.right, index),
                )
            sides = []
            for query, type in ((self.left, a), (self.right, b)):
                expr = query.column_expr(index)
                if type.oid == UNKNOWN and expr is not None:
                    _coerce_column(query, index, chosen, self.operation)
                    sides.append(query.types[index])
                elif type.oid != chosen:
                    sample: Scalar = expr if expr is not None else ColumnRef(id=0, type=type)
                    sides.append(to_common(statement, sample, chosen, self.operation).type)
                else:
                    sides.append(type)
            self.types.append(unified_type(sides, chosen))
            if not tree.all or self.operation != "UNION":
                from planner.operators import check_groupable

                sample = self.left.column_expr(index) or ColumnRef(id=0, type=self.types[-1])
                check_groupable(level, sample if sample.type.oid == chosen else ColumnRef(id=0, type=self.types[-1]))

    def origins(self) -> list[Origin | None]:
        return [None] * len(self.types)

    def column_expr(self, index: int) -> Scalar | None:
        return self.left.column_expr(index)

    def set_column(self, index: int, expr: Scalar) -> None:
        raise AssertionError("a set operation's columns have types")

    def build(self) -> Rel:
        statement = self.level.statement
        left = cast_columns(statement, self.left.build(), self.types)
        right = cast_columns(statement, self.right.build(), self.types)
        fields = tuple(statement.new_field(name, type) for name, type in zip(self.names, self.types, strict=True))
        op: Any = self.operation.lower()
        return SetOperation(op=op, all=self.all, left=left, right=right, fields=fields)


def _set_side(level: Level, tree: Tree) -> Analyzed:
    plain = not (
        tree.sort_clause
        or tree.HasField("limit_count")
        or tree.HasField("limit_offset")
        or tree.locking_clause
        or tree.HasField("with_clause")
    )
    if tree.HasField("into_clause"):
        raise SqlSyntaxError(
            "INTO is only allowed on first SELECT of UNION/INTERSECT/EXCEPT",
            position=level.statement.position(tree.into_clause.rel.location),
        )
    if tree.op != pb.SETOP_NONE and plain:
        return _SetNode(level, tree)
    return analyze_query(Level(level.statement, level), tree)


# ---------------------------------------------------------------- VALUES


class ValuesQuery:
    """VALUES as a query."""

    def __init__(self, level: Level, tree: Tree) -> None:
        statement = level.statement
        self.level = level
        rows = bind_rows(level, tree)
        width = len(rows[0])
        columns: list[list[Scalar]] = []
        self.types: list[SqlType] = []
        for index in range(width):
            values, type = unify(statement, [row[index] for row in rows], "VALUES")
            columns.append(values)
            self.types.append(type)
        self.columns = columns
        self.names = [f"column{index}" for index in range(1, width + 1)]
        self.order = [self._sort_item(node.sort_by) for node in tree.sort_clause]
        self.count, self.offset = bind_limit(level, tree)
        self.ties = tree.limit_option == pb.LIMIT_OPTION_WITH_TIES

    def _sort_item(self, tree: Tree) -> tuple[int, bool, bool]:
        index = find_output_column(self.level, tree.node, self.names, "ORDER BY")
        if index is None:
            raise FeatureNotSupported("ORDER BY of an expression over VALUES is not supported")
        descending, nulls_first = sort_direction(self.level, tree, self.columns[index][0])
        return index, descending, nulls_first

    def origins(self) -> list[Origin | None]:
        return [None] * len(self.types)

    def column_expr(self, index: int) -> Scalar | None:
        return self.columns[index][0]

    def set_column(self, index: int, expr: Scalar) -> None:
        raise AssertionError("the columns of VALUES have types")

    def build(self) -> Rel:
        statement = self.level.statement
        fields = tuple(statement.new_field(name, type) for name, type in zip(self.names, self.types, strict=True))
        rows = tuple(zip(*self.columns, strict=True))
        rel: Rel = Values(rows=rows, fields=fields)
        if self.order:
            keys = tuple(
                SortKey(expr=ColumnRef(id=fields[index].id, type=fields[index].type), descending=d, nulls_first=n)
                for index, d, n in self.order
            )
            rel = Sort(input=rel, keys=keys, fields=fields)
        return limited(rel, self.count, self.offset, self.ties)


def bind_rows(level: Level, tree: Tree, bind_item: Callable[[int, Tree], Scalar] | None = None) -> list[list[Scalar]]:
    """The rows of VALUES, each expression bound (by `bind_item(column, node)` when given). Raises 42601 for rows of
    unlike lengths."""
    rows: list[list[Scalar]] = []
    width = -1
    for node in tree.values_lists:
        items = node.list.items
        if width == -1:
            width = len(items)
        elif len(items) != width:
            raise SqlSyntaxError(
                "VALUES lists must all be the same length",
                position=level.statement.position(tree_location(items[0])) if items else None,
            )
        outer = level.clause
        level.clause = "VALUES"
        try:
            if bind_item is None:
                rows.append([bind(level, item) for item in items])
            else:
                rows.append([bind_item(index, item) for index, item in enumerate(items)])
        finally:
            level.clause = outer
    return rows


# ---------------------------------------------------------------- LIMIT


def bind_limit(level: Level, tree: Tree) -> tuple[Scalar | None, Scalar | None]:
    """LIMIT and OFFSET as int8 expressions; LIMIT ALL and LIMIT NULL are no limit."""
    count = _limit_value(level, tree.limit_count, "LIMIT") if tree.HasField("limit_count") else None
    offset = _limit_value(level, tree.limit_offset, "OFFSET") if tree.HasField("limit_offset") else None
    if tree.limit_option == pb.LIMIT_OPTION_WITH_TIES and not tree.sort_clause:
        raise SqlSyntaxError("WITH TIES cannot be specified without ORDER BY clause")
    return count, offset


def _limit_value(level: Level, node: Tree, clause: str) -> Scalar | None:
    from planner.casting import to_specific

    statement = level.statement
    if node.HasField("a_const") and node.a_const.isnull:
        return None
    expr = to_specific(statement, bind_clause(level, node, clause), SqlType(INT8), clause)
    for part in walk(expr):
        if isinstance(part, ColumnRef) and statement.owner.get(part.id) is level:
            raise InvalidColumnReference(
                f"argument of {clause} must not contain variables", position=statement.position_of(part)
            )
    return expr


def limited(rel: Rel, count: Scalar | None, offset: Scalar | None, ties: bool) -> Rel:
    """`rel` with LIMIT and OFFSET, when there are any."""
    if count is None and offset is None:
        return rel
    return Limit(input=rel, count=count, offset=offset, ties=ties, fields=rel.fields)


def one_row_query(statement: Statement, exprs: Sequence[Scalar], names: Sequence[str]) -> Rel:
    """A query of one row with these expressions."""
    fields = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    return Project(input=OneRow(), exprs=tuple(exprs), fields=fields)


__all__ = [
    "Analyzed", "Cast", "Constant", "Param", "analyze_query", "bind_limit", "bind_query", "bind_rows",
    "bind_subquery", "bind_with", "cast_columns", "column_type", "limited", "one_row_query",
    "resolve_unknown_columns", "single_column",
]  # fmt: skip
