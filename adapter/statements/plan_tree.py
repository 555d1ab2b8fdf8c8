"""A bound query as a tree of named nodes: what EXPLAIN prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from adapter.plans.conditions import Computed, Condition, condition_of, exact_conditions
from adapter.plans.index_paths import IndexPath
from adapter.plans.key_indexes import expression_columns
from adapter.plans.operands import Operands
from adapter.plans.predicates import bind_pattern
from planner.definitions.expression_columns import with_expressions
from planner.definitions.expression_text import expression_text
from planner.ir import nodes as ir
from planner.ir.bound import WITH_ROWS
from planner.ir.file_rows import FILE_ROWS
from planner.ir.past_rows import PAST_ROWS, PastTable
from planner.ir.physical import ELEMENT_ARRAYS, array_type
from planner.ir.rewrite import RELATIONS, column_ids, conjuncts, outermost_relations, walk
from planner.syntax.identifiers import quote_identifier
from storage.catalog.model import CatalogSnapshot, Relation


class Node(Struct, kw_only=True):
    """One node: its title, what else PostgreSQL would call it, details (label, value), and its inputs."""

    title: str
    type: str
    details: list[tuple[str, Any]] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    role: str | None = None


_NO_STEPS: Mapping[int, str] = MappingProxyType({})
_NO_PAST: Mapping[int, PastTable] = MappingProxyType({})


class PlanTree:
    """Makes the tree of one query."""

    def __init__(
        self,
        catalog: CatalogSnapshot,
        *,
        verbose: bool,
        paths: Mapping[int, Sequence[IndexPath]],
        params: Sequence[ir.Literal] = (),
        steps: Mapping[int, str] = _NO_STEPS,
        past: Mapping[int, PastTable] = _NO_PAST,
        operands: Operands | None = None,
    ) -> None:
        """`paths`: how the tables are read that are read by indexes, by oid; `params`: values of parameters; `steps`:
        the names of common tables that are not in the query; `past`: the tables that are read as they were;
        `operands`: those of the query, which has parameters in their place."""
        self._catalog = catalog
        self._past = past
        self._verbose = verbose
        self._paths = paths
        self._params = params
        self._operands = operands
        self._names: dict[int, str] = {}
        self._qualified: dict[int, str] = {}
        self._tables: dict[int, str] = dict(steps)

    def build(self, rel: ir.Rel) -> Node:
        """The tree of `rel`."""
        for oid, paths in self._paths.items():
            rel = with_expressions(rel, oid, expression_columns([path.index for path in paths]))
        self._learn(rel)
        return self._node(rel)

    def _learn(self, node: Any) -> None:
        """Names of all columns, by id."""
        for rel in relations_in(node):
            if isinstance(rel, ir.With):
                self._tables.update((table.id, table.name) for table in rel.tables)
            if isinstance(rel, (ir.Scan, ir.SystemScan, ir.CteScan, ir.Values, ir.FunctionScan)):
                for f in rel.fields:
                    self._names[f.id] = f.name
                    if f.origin is not None:
                        self._qualified[f.id] = f"{self._relation(f.origin.relation_oid)}.{f.name}"
        for rel in relations_in(node):
            for f in rel.fields:
                self._names.setdefault(f.id, f.name)
                self._qualified.setdefault(f.id, f.name)

    def text(self, expr: ir.Scalar) -> str:
        """An expression as text."""
        return expression_text(expr if self._operands is None else self._operands.shown(expr), self._names)

    def _list(self, exprs: tuple[ir.Scalar, ...]) -> str:
        return ", ".join(self.text(expr) for expr in exprs)

    def _keys(self, keys: tuple[ir.SortKey, ...]) -> str:
        parts = []
        for key in keys:
            text = self.text(key.expr)
            if key.descending:
                text += " DESC"
            if key.nulls_first != key.descending:
                text += " NULLS FIRST" if key.nulls_first else " NULLS LAST"
            parts.append(text)
        return ", ".join(parts)

    def _relation(self, oid: int) -> str:
        if oid in self._past:
            return self._past[oid].relation.name
        record = self._catalog.get(oid)
        return record.name if isinstance(record, Relation) else str(oid)

    def _node(self, rel: ir.Rel) -> Node:
        node = self._plain(rel)
        if self._verbose:
            node.details.insert(0, ("Output", [f.name for f in rel.fields]))
        for sub in _subqueries(rel):
            child = self._node(sub)
            child.role = "SubPlan"
            node.inputs.append(child)
        return node

    def _plain(self, rel: ir.Rel) -> Node:
        match rel:
            case ir.OneRow():
                return Node(title="Result", type="Result")
            case ir.Scan() if rel.relation_oid in self._paths:
                return self._index_scan(rel, ())
            case ir.Scan():
                return Node(title=f"Seq Scan on {self._relation(rel.relation_oid)}", type="Seq Scan",
                            details=[("Relation Name", self._relation(rel.relation_oid))])  # fmt: skip
            case ir.SystemScan():
                return Node(title=f"Seq Scan on {rel.schema}.{rel.name}", type="Seq Scan",
                            details=[("Relation Name", rel.name)])  # fmt: skip
            case ir.Values():
                return Node(title=f"Values Scan ({len(rel.rows)} rows)", type="Values Scan")
            case ir.FunctionScan():
                names = ", ".join(function.signature.name for function in rel.functions)
                return Node(title=f"Function Scan on {names}", type="Function Scan")
            case ir.Project():
                return self._project(rel)
            case ir.Filter(input=ir.Scan() as scan) if scan.relation_oid in self._paths:
                return self._index_scan(scan, conjuncts(rel.condition))
            case ir.Filter():
                inner = self._node(rel.input)
                inner.details.append(("Filter", self.text(rel.condition)))
                return inner
            case ir.ProjectSet():
                return Node(title="ProjectSet", type="ProjectSet", inputs=[self._node(rel.input)])
            case ir.Join():
                return self._join(rel)
            case ir.Aggregate():
                return self._aggregate(rel)
            case ir.Window():
                return Node(title="WindowAgg", type="WindowAgg", inputs=[self._node(rel.input)])
            case ir.Deduplicate():
                return Node(title="Unique", type="Unique", inputs=[self._node(rel.input)],
                            details=[("On", self._list(rel.on))] if rel.on else [])  # fmt: skip
            case ir.Sort() if self._is_ordered(rel):
                return self._node(rel.input)
            case ir.Sort():
                return Node(title="Sort", type="Sort", inputs=[self._node(rel.input)],
                            details=[("Sort Key", self._keys(rel.keys))])  # fmt: skip
            case ir.Limit():
                return Node(title="Limit", type="Limit", inputs=[self._node(rel.input)], details=self._bounds(rel))
            case ir.LockRows():
                node = Node(title="LockRows", type="LockRows", inputs=[self._node(rel.input)])
                if rel.count is None and rel.offset is None:
                    return node
                return Node(title="Limit", type="Limit", inputs=[node], details=self._bounds(rel))
            case ir.SetOperation():
                name = f"{rel.op.capitalize()}{' All' if rel.all else ''}"
                title = "Append" if rel.op == "union" and rel.all else f"SetOp {name}"
                return Node(title=title, type="SetOp", inputs=[self._node(rel.left), self._node(rel.right)])
            case ir.With():
                return self._with(rel)
            case ir.CteScan() if FILE_ROWS < rel.cte <= PAST_ROWS:
                return Node(title="Change Scan", type="Change Scan")
            case ir.CteScan() if WITH_ROWS < rel.cte <= FILE_ROWS:
                return Node(title="File Scan", type="File Scan")
            case ir.CteScan():
                return Node(title=f"CTE Scan on {self._tables[rel.cte]}", type="CTE Scan")

    def _bounds(self, rel: ir.Limit | ir.LockRows) -> list[tuple[str, Any]]:
        details = [] if rel.count is None else [("Count", self.text(rel.count))]
        if rel.offset is not None:
            details.append(("Offset", self.text(rel.offset)))
        return details

    def _index_scan(self, scan: ir.Scan, met: Sequence[ir.Scalar]) -> Node:
        """The scan of a table by indexes, whose rows have to meet all of `met`."""
        name, paths = self._relation(scan.relation_oid), self._paths[scan.relation_oid]
        index = paths[0].index.record.name
        leading = frozenset[str]().union(*[path.conditions for path in paths])
        columns = {field.id: f"c{field.origin.attnum}" for field in scan.fields if field.origin is not None}
        by_index = self._keys_of_partners(scan)
        filters: list[ir.Scalar] = []
        for scalar in met:
            condition = condition_of(scalar)
            if condition is None or columns.get(condition.field) not in leading or condition.op == "<>":
                filters.append(scalar)
                continue
            if condition.by_key or exact_conditions(scalar) is not None:
                by_index.append(self._any_of(condition) or self.text(scalar))
            elif condition.then is not None:
                by_index.append(self._row_comparison(condition))
            else:
                by_index += self._pattern(scalar, condition)
                filters.append(scalar)
        backward = " Backward" if paths[0].backward else ""
        node = Node(title=f"Index Scan{backward} using {index} on {name}", type="Index Scan",
                    details=[("Index Name", index), ("Relation Name", name)])  # fmt: skip
        if by_index:
            node.details.append(("Index Cond", _all_of(by_index)))
        if filters:
            node.details.append(("Filter", _all_of([self.text(scalar) for scalar in filters])))
        return node

    def _any_of(self, condition: Condition) -> str | None:
        """A list of constants as PostgreSQL has it; None for any other condition."""
        operand = condition.operand
        if condition.op != "in" or not isinstance(operand, tuple) or not operand:
            return None
        items = [item if self._operands is None else self._operands.shown(item) for item in operand]
        values = [item.value for item in items if isinstance(item, ir.Literal)]
        if len(values) < len(operand) or operand[0].type.oid not in ELEMENT_ARRAYS:
            return None
        array = ir.Literal(value=tuple(values), type=array_type(operand[0].type))
        name = self._names[condition.field]
        # An expression that an index is over has no name.
        return f"({quote_identifier(name) if condition.field >= 0 else name} = ANY ({self.text(array)}))"

    def _is_ordered(self, sort: ir.Sort) -> bool:
        """Whether the rows come in order, by an index."""
        rel: ir.Rel = sort.input
        while isinstance(rel, (ir.Project, ir.Filter)):
            rel = rel.input
        paths = self._paths.get(rel.relation_oid, ()) if isinstance(rel, ir.Scan) else ()
        return any(path.first is not None for path in paths)

    def _row_comparison(self, condition: Condition) -> str:
        names, values = [], []
        at: Condition | None = condition
        op = condition.op
        while at is not None:
            assert isinstance(at.operand, (ir.Literal, ir.Param, Computed))
            names.append(quote_identifier(self._names[at.field]))
            values.append(self.text(at.operand.scalar if isinstance(at.operand, Computed) else at.operand))
            op, at = at.op, at.then
        return f"(ROW({', '.join(names)}) {op} ROW({', '.join(values)}))"

    def _pattern(self, scalar: ir.Scalar, condition: Condition) -> list[str]:
        """What LIKE means to an index."""
        operand = condition.operand
        if condition.op != "like" or not isinstance(scalar, ir.Call) or not isinstance(operand, (ir.Literal, ir.Param)):
            return []
        if isinstance(operand, ir.Param):
            if operand.index > len(self._params):
                return []
            operand = self._params[operand.index - 1]
        column = self.text(scalar.args[0])
        return [
            f"({column} {each.op} {self.text(ir.Literal(value=each.value, type=operand.type))})"
            for each in bind_pattern("", operand.value)
            if each.value is not None
        ]

    def _project(self, rel: ir.Project) -> Node:
        """A projection of columns is part of its input's node; one that computes is a Result above it."""
        if isinstance(rel.input, ir.OneRow):
            return Node(title="Result", type="Result")
        return self._node(rel.input)

    def _join(self, rel: ir.Join) -> Node:
        kinds = {"cross": "", "inner": "", "left": " Left", "right": " Right", "full": " Full"}
        sides = {side: self._partners(side) for side in (rel.left, rel.right)}
        inner = next((side for side, keys in sides.items() if keys), None)
        if inner is not None and not rel.lateral:
            outer = rel.left if inner is rel.right else rel.right
            rest = [c for c in _conjuncts(rel.condition) if not _is_between(c, sides[inner])]
            details = [("Join Filter", _all_of([self.text(c) for c in rest]))] if rest else []
            title = "Nested Loop" if rel.kind in ("cross", "inner") else "Nested Loop Left Join"
            return Node(title=title, type=title, details=details, inputs=[self._node(outer), self._node(inner)])
        title = "Nested Loop" if rel.kind == "cross" or rel.lateral else f"Hash{kinds[rel.kind]} Join"
        details = [] if rel.condition is None else [("Join Cond", self.text(rel.condition))]
        return Node(title=title, type=title, details=details, inputs=[self._node(rel.left), self._node(rel.right)])

    def _partners(self, rel: ir.Rel) -> frozenset[int]:
        """The columns of a side of a join by which its rows are found for those of the other."""
        while isinstance(rel, ir.Filter):
            rel = rel.input
        if not isinstance(rel, ir.Scan):
            return frozenset()
        names = frozenset[str]().union(*[path.partners or () for path in self._paths.get(rel.relation_oid, ())])
        return frozenset(f.id for f in rel.fields if f.origin is not None and f"c{f.origin.attnum}" in names)

    def _keys_of_partners(self, scan: ir.Scan) -> list[str]:
        """The keys that a scan gets from the other side of a join."""
        found = []
        columns = {f"c{field.origin.attnum}": field for field in scan.fields if field.origin is not None}
        for path in self._paths[scan.relation_oid]:
            for column, expr in (path.partners or {}).items():
                found.append(f"({quote_identifier(columns[column].name)} = {expression_text(expr, self._qualified)})")
        return list(dict.fromkeys(found))

    def _aggregate(self, rel: ir.Aggregate) -> Node:
        title = "HashAggregate" if rel.keys else "Aggregate"
        details = [("Group Key", self._list(rel.keys))] if rel.keys else []
        return Node(title=title, type="Aggregate", details=details, inputs=[self._node(rel.input)])

    def _with(self, rel: ir.With) -> Node:
        body = self._node(rel.body)
        for index, table in enumerate(rel.tables):
            child = self._node(table.rel)
            child.role = f"CTE {table.name}"
            if table.step is not None:
                step = self._node(table.step)
                child = Node(title="Recursive Union", type="Recursive Union", inputs=[child, step], role=child.role)
                child.inputs[0].role = None
            body.inputs.insert(index, child)
        return body


def _conjuncts(condition: ir.Scalar | None) -> Sequence[ir.Scalar]:
    return () if condition is None else conjuncts(condition)


def _is_between(condition: ir.Scalar, fields: frozenset[int]) -> bool:
    """Whether it says that one of `fields` equals something."""
    return (
        isinstance(condition, ir.Call)
        and condition.signature.name == "="
        and not fields.isdisjoint(column_ids(condition))
    )


def _all_of(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({' AND '.join(texts)})"


def relations_in(node: Any) -> Iterator[Any]:
    """Every relation in `node`, itself included."""
    return (inner for inner in walk(node) if type(inner) in RELATIONS)


_INPUTS = frozenset({"input", "left", "right", "body", "tables"})


def _subqueries(rel: ir.Rel) -> Iterator[ir.Rel]:
    """The relations inside the node's own expressions."""
    for name in rel.__struct_fields__:
        if name not in _INPUTS and name != "fields":
            yield from outermost_relations((getattr(rel, name),))


def text_lines(node: Node, depth: int = 0, annotations: Mapping[int, str] | None = None) -> list[str]:
    """The tree as PostgreSQL indents it. `annotations` follow the titles, by identity of the node."""
    pad = "" if depth == 0 else "  " + "      " * (depth - 1)
    arrow = "" if depth == 0 else "->  "
    lines = []
    if node.role is not None:
        lines.append(f"{pad}{node.role}")
        pad += "  "
        arrow = "->  "
    note = (annotations or {}).get(id(node), "")
    lines.append(f"{pad}{arrow}{node.title}{note}")
    inner = pad + " " * len(arrow) + "  "
    for label, value in node.details:
        if label not in ("Operation", "Relation Name", "Index Name"):
            lines.append(f"{inner}{label}: {', '.join(value) if isinstance(value, list) else value}")
    for child in node.inputs:
        lines.extend(text_lines(child, depth + 1, annotations))
    return lines


def json_node(node: Node) -> dict[str, Any]:
    """The tree as EXPLAIN (FORMAT JSON) has it."""
    data: dict[str, Any] = {"Node Type": node.type}
    if node.role is not None:
        data["Subplan Name"] = node.role
    data.update(dict(node.details))
    if node.inputs:
        data["Plans"] = [json_node(child) for child in node.inputs]
    return data
