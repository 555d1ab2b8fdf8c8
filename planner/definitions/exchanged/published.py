"""The query of a view in the dialects of Spark and Trino, for Iceberg catalogs.

It is written from what the query means, not from its text: from the typed representation, in which every cast, null
order and column is said. Each part is one that has been vouched for (`operations`, `expressions`, and the relational
nodes below); any other is refused by its name. The texts are nested where one SELECT cannot say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from planner.definitions.exchanged.dialects import SPARK, TRINO, Dialect, iceberg_type, not_vouched
from planner.definitions.exchanged.expressions import Columns, Expressions
from planner.definitions.exchanged.operations import check_groupable
from planner.errors import InternalError
from planner.ir import nodes as ir
from planner.queries.grammar import new_statement
from planner.queries.relations import schema_name
from planner.resolution.query import bind_query
from planner.resolution.statement import BindContext, Level
from planner.syntax.parse import split_and_parse
from storage.catalog.model import Relation

_JOINS: Mapping[str, str] = {
    "cross": "CROSS JOIN", "inner": "INNER JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN",
}  # fmt: skip
_WORDS: Mapping[type, str] = {
    ir.FunctionScan: "a function in FROM", ir.ProjectSet: "a function that returns rows",
    ir.SystemScan: "a relation of the system", ir.LockRows: "FOR UPDATE",
}  # fmt: skip


class PublishedView(Struct, frozen=True, kw_only=True):
    """A view for others: its columns with types of Iceberg's, and its query by dialect."""

    columns: tuple[tuple[str, str], ...]
    texts: tuple[tuple[str, str], ...]


def published_view(view: Relation, context: BindContext) -> PublishedView:
    """The view as others can read it. Raises 0A000 for what has no certain counterpart there."""
    (parsed,) = split_and_parse(view.definition or "")
    statement = new_statement(parsed, context)
    statement.outlined = True  # Views that it reads stay views.
    rel = bind_query(Level(statement, None), parsed.tree)
    names = [column.name for column in view.live_columns()]
    if len({name.lower() for name in names}) < len(names):
        raise not_vouched("names of columns that differ in case alone")
    texts = tuple((each.name, _Query(each, context).whole(rel, names)) for each in (SPARK, TRINO))
    columns = tuple((name, iceberg_type(field.type)) for name, field in zip(names, rel.fields, strict=True))
    return PublishedView(columns=columns, texts=texts)


class _Source(Struct, kw_only=True):
    """What a SELECT reads: `columns` says how each column is called or computed, `where` and `order` its clauses.
    `plain` as long as it only names columns of FROM items."""

    columns: dict[int, str]
    items: str | None
    where: list[str]
    order: list[str]
    plain: bool = True


class _Query:
    def __init__(self, dialect: Dialect, context: BindContext) -> None:
        self._dialect = dialect
        self._context = context
        self._expressions = Expressions(dialect, self._subquery)
        self._aliases = 0
        self._tables: dict[int, str] = {}
        self._conditions = 0
        self._depth = 0
        """How many conditions and subqueries what is being written is inside of."""

    def whole(self, rel: ir.Rel, names: Sequence[str]) -> str:
        """The text of the query with these names of its columns."""
        source = self._source(rel, {})
        labels = {field.id: self._dialect.identifier(name) for field, name in zip(rel.fields, names, strict=True)}
        if len(labels) < len(names):
            source = self._wrapped(source, rel.fields)
        return self._select(source, [(field.id, labels[field.id]) for field in rel.fields], ordered=False)

    def _subquery(self, rel: ir.Rel, outer: Columns) -> str:
        correlated = self._conditions == 1 and self._depth == 0
        self._depth += 1
        text = self._finished(self._source(rel, outer if correlated else {}), rel.fields)
        self._depth -= 1
        return text

    def _condition(self, node: ir.Scalar, env: Columns) -> str:
        """A condition on rows, whose subqueries may refer to them."""
        self._conditions += 1
        text = self._expressions.condition(node, env)
        self._conditions -= 1
        return text

    def _alias(self, prefix: str = "t") -> str:
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    def _select(self, source: _Source, labels: Sequence[tuple[int, str]], *, ordered: bool) -> str:
        listed = ", ".join(f"{source.columns[id]} AS {label}" for id, label in labels) or "1 AS c0"
        text = f"SELECT {listed}"
        if source.items is not None:
            text += f" FROM {source.items}"
        if source.where:
            text += f" WHERE {' AND '.join(source.where)}"
        if ordered and source.order:
            text += f" ORDER BY {', '.join(source.order)}"
        return text

    def _finished(self, source: _Source, fields: Sequence[ir.Field], *, ordered: bool = False) -> str:
        ids = dict.fromkeys(field.id for field in fields)
        return self._select(source, [(id, f"c{id}") for id in ids], ordered=ordered)

    def _derived(self, text: str, fields: Sequence[ir.Field]) -> _Source:
        """A query as a FROM item."""
        alias = self._alias()
        columns = {field.id: f"{alias}.c{field.id}" for field in fields}
        return _Source(columns=columns, items=f"({text}) AS {alias}", where=[], order=[])

    def _wrapped(self, source: _Source, fields: Sequence[ir.Field]) -> _Source:
        return self._derived(self._finished(source, fields), fields)

    def _source(self, rel: ir.Rel, outer: Columns) -> _Source:
        match rel:
            case ir.OneRow():
                return _Source(columns={}, items=None, where=[], order=[])
            case ir.Scan():
                return self._scan(rel)
            case ir.Project():
                return self._project(rel, outer)
            case ir.Filter():
                source = self._source(rel.input, outer)
                if source.items is None:
                    source = self._wrapped(source, rel.input.fields)
                source.where.append(self._condition(rel.condition, {**outer, **source.columns}))
                return source
            case ir.Join():
                return self._join(rel, outer)
            case ir.Aggregate():
                return self._derived(self._aggregate(rel, outer), rel.fields)
            case ir.Window(in_order=False):
                return self._window(rel, outer)
            case ir.Deduplicate(on=()):
                for field in rel.fields:
                    check_groupable(field.type, "DISTINCT over values")
                source = self._source(rel.input, outer)
                text = self._finished(source, rel.fields)
                return self._derived("SELECT DISTINCT" + text.removeprefix("SELECT"), rel.fields)
            case ir.Sort():
                source = self._source(rel.input, outer)
                env = {**outer, **source.columns}
                source.order = [self._expressions.key(key, env) for key in rel.keys]
                return source
            case ir.Limit(ties=False):
                return self._derived(self._limit(rel, outer), rel.fields)
            case ir.SetOperation(by=None):
                return self._derived(self._set_operation(rel, outer), rel.fields)
            case ir.Values():
                rows = ", ".join(
                    "(" + ", ".join(self._expressions.text(each, outer) for each in row) + ")" for row in rel.rows
                )
                alias = self._alias()
                names = ", ".join(f"c{field.id}" for field in rel.fields)
                columns = {field.id: f"{alias}.c{field.id}" for field in rel.fields}
                return _Source(columns=columns, items=f"(VALUES {rows}) AS {alias} ({names})", where=[], order=[])
            case ir.With():
                for table in rel.tables:
                    if table.step is not None:
                        raise not_vouched("WITH RECURSIVE")
                    source = self._source(table.rel, outer)
                    # The columns of a common table are known by their places.
                    labels = [(field.id, f"c{place}") for place, field in enumerate(table.rel.fields)]
                    self._tables[table.id] = self._select(source, labels, ordered=False)
                return self._source(rel.body, outer)
            case ir.CteScan() if rel.cte in self._tables:
                alias = self._alias()
                columns = {field.id: f"{alias}.c{place}" for place, field in enumerate(rel.fields)}
                return _Source(columns=columns, items=f"({self._tables[rel.cte]}) AS {alias}", where=[], order=[])
            case ir.Deduplicate():
                raise not_vouched("DISTINCT ON")
            case ir.Limit():
                raise not_vouched("FETCH FIRST ... WITH TIES")
            case _:
                raise not_vouched(_WORDS.get(type(rel), type(rel).__name__))

    def _scan(self, rel: ir.Scan) -> _Source:
        relation = self._context.catalog.get(rel.relation_oid)
        if not isinstance(relation, Relation) or rel.row_id is not None:
            raise not_vouched("a column of the system")
        alias = self._alias()
        names = {column.attnum: column.name for column in relation.live_columns()}
        columns: dict[int, str] = {}
        for field in rel.fields:
            if field.origin is None or field.origin.attnum not in names:
                raise not_vouched("a column of the system")
            columns[field.id] = f"{alias}.{self._dialect.identifier(names[field.origin.attnum])}"
        schema = schema_name(self._context, relation.schema)
        named = f"{self._dialect.identifier(schema)}.{self._dialect.identifier(relation.name)}"
        return _Source(columns=columns, items=f"{named} AS {alias}", where=[], order=[])

    def _project(self, rel: ir.Project, outer: Columns) -> _Source:
        source = self._source(rel.input, outer)
        bare = all(isinstance(expr, ir.ColumnRef) for expr in rel.exprs)
        if not bare and not source.plain:
            # What is computed is not computed again by what is computed of it.
            if source.order:
                raise not_vouched("ORDER BY below what is computed of its result")
            source = self._wrapped(source, rel.input.fields)
        env = {**outer, **source.columns}
        columns = {
            field.id: self._expressions.text(expr, env) for field, expr in zip(rel.fields, rel.exprs, strict=True)
        }
        return _Source(
            columns=columns, items=source.items, where=source.where, order=source.order, plain=source.plain and bare
        )

    def _side(self, rel: ir.Rel, outer: Columns) -> _Source:
        source = self._source(rel, outer)
        joined = isinstance(rel, ir.Join)
        if source.plain and not source.where and source.items is not None and not joined:
            return source
        return self._wrapped(source, rel.fields)

    def _join(self, rel: ir.Join, outer: Columns) -> _Source:
        if rel.lateral:
            raise not_vouched("LATERAL")
        left = self._source(rel.left, outer)
        if not (left.plain and not left.where and left.items is not None):
            left = self._wrapped(left, rel.left.fields)
        right = self._side(rel.right, outer)
        columns = {**left.columns, **right.columns}
        items = f"{left.items} {_JOINS[rel.kind]} {right.items}"
        if rel.kind != "cross":
            condition = rel.condition
            if condition is None:
                raise InternalError("a join without condition")
            items += f" ON {self._expressions.text(condition, {**outer, **columns})}"
        return _Source(columns=columns, items=items, where=[], order=[])

    def _aggregate(self, rel: ir.Aggregate, outer: Columns) -> str:
        if rel.grouping_sets is not None or rel.groupings:
            raise not_vouched("GROUPING SETS, ROLLUP and CUBE")
        source = self._source(rel.input, outer)
        env = {**outer, **source.columns}
        keys = []
        for key in rel.keys:
            check_groupable(key.type, "GROUP BY values")
            if isinstance(key, ir.Literal):
                raise not_vouched("GROUP BY of a constant")
            keys.append(self._expressions.text(key, env))
        values = [*keys, *(self._expressions.aggregate(call, env) for call in rel.calls)]
        columns = {field.id: value for field, value in zip(rel.fields, values, strict=True)}
        made = _Source(columns=columns, items=source.items, where=source.where, order=[])
        text = self._finished(made, rel.fields)
        return f"{text} GROUP BY {', '.join(keys)}" if keys else text

    def _window(self, rel: ir.Window, outer: Columns) -> _Source:
        source = self._source(rel.input, outer)
        env = {**outer, **source.columns}
        calls = [self._expressions.window(call, env) for call in rel.calls]
        fields = rel.fields[len(rel.fields) - len(calls) :]
        columns = {**source.columns, **{field.id: text for field, text in zip(fields, calls, strict=True)}}
        made = _Source(columns=columns, items=source.items, where=source.where, order=[])
        return self._derived(self._finished(made, rel.fields), rel.fields)

    def _limit(self, rel: ir.Limit, outer: Columns) -> str:
        source = self._source(rel.input, outer)
        text = self._finished(source, rel.fields, ordered=True)
        numbers = []
        for node in (rel.count, rel.offset):
            value = node.value if isinstance(node, ir.Literal) else node
            if value is not None and not isinstance(value, int):
                raise not_vouched("LIMIT and OFFSET that are no constants")
            numbers.append(value)
        count, offset = numbers
        limit = "" if count is None else f" LIMIT {count}"
        skip = f" OFFSET {offset}" if offset else ""
        return text + (limit + skip if self._dialect.is_spark else skip + limit)

    def _set_operation(self, rel: ir.SetOperation, outer: Columns) -> str:
        if not (rel.op == "union" and rel.all):
            for field in rel.fields:
                check_groupable(field.type, f"{rel.op.upper()} of values")
        sides = []
        for side in (rel.left, rel.right):
            source = self._source(side, outer)
            labels = [(field.id, f"c{out.id}") for field, out in zip(side.fields, rel.fields, strict=True)]
            sides.append(self._select(source, labels, ordered=False))
        return f"({sides[0]}) {rel.op.upper()} {'ALL' if rel.all else 'DISTINCT'} ({sides[1]})"
