"""Whether a view answers a query, and the query over the view that gives the same rows.

Both are texts as `planner.definitions.views.written_out` makes them. A view of one SELECT without DISTINCT and LIMIT
answers a SELECT over the same tables, joined alike, with the same groups, if

- each condition of the view is one of the query's, and
- the query can be written with the view's columns alone: each expression of it is one of the view's, or is made of
  such (over a view with groups the conditions are about the groups: WHERE about their keys, HAVING about them).

Any view answers a query of the same text, up to the names of columns and of tables' aliases. A subquery in FROM may be
answered as well as the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from planner.definitions.deparse import expression_text, query_text
from planner.definitions.maintained.places import add_condition
from planner.functions.registry import aggregates
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import split_and_parse, subtrees

ALIAS = "tidegate answer"

_NEVER = ("with_clause", "limit_count", "limit_offset", "into_clause")


class View(Struct, frozen=True, kw_only=True):
    """A view: its name as it is written in FROM, its columns and its definition."""

    name: str
    columns: Sequence[str]
    definition: str


class _Unanswered(Exception):
    """The view does not answer the query."""


def answer(definition: str, names: Sequence[str], view: View) -> str | None:
    """The query over `view` with the rows of the query `definition`, whose columns have these names; None when the view
    does not answer it."""
    query, given = _select(definition), _select(view.definition)
    if query is None or given is None:
        return None
    _with_alike_aliases(given)
    is_answered = False
    for select in list(_selects(query)):
        alike = pb.SelectStmt()
        alike.CopyFrom(select)
        _with_alike_aliases(alike)
        try:
            if select.op == pb.SETOP_NONE:
                for place, node in enumerate(alike.target_list):
                    node.res_target.name = names[place] if select is query else _name_of(node.res_target)
            rewritten = _answered(alike, given, view)
        except _Unanswered:
            continue
        select.CopyFrom(rewritten)
        is_answered = True
        if select is query:
            # What is answered as a whole is not looked into.
            break
    return _text(query) if is_answered else None


def _select(definition: str) -> Any:
    (parsed,) = split_and_parse(definition)
    if parsed.kind != "select_stmt":
        return None
    copy = pb.SelectStmt()
    copy.CopyFrom(parsed.tree)
    return copy


def _selects(query: Any) -> Iterator[Any]:
    """The query and its subqueries in FROM."""
    yield query
    nodes = list(query.from_clause)
    while nodes:
        node = nodes.pop()
        if node.HasField("join_expr"):
            nodes += [node.join_expr.larg, node.join_expr.rarg]
        elif node.HasField("range_subselect") and not node.range_subselect.lateral:
            yield from _selects(node.range_subselect.subquery.select_stmt)


def _text(select: Any) -> str:
    node = pb.Node()
    node.select_stmt.CopyFrom(select)
    return query_text(node)


def _with_alike_aliases(select: Any) -> None:
    """Call the tables of FROM by their places. In queries with subqueries they keep their names."""
    if any(node.DESCRIPTOR.name in ("SubLink", "RangeSubselect", "RangeFunction") for node in subtrees(select)):
        return
    names: dict[str, str] = {}
    for node in subtrees(select):
        if node.DESCRIPTOR.name == "RangeVar":
            name = node.alias.aliasname or node.relname
            if name in names or node.alias.colnames:
                return
            names[name] = f"t{len(names) + 1}"
    for node in subtrees(select):
        if node.DESCRIPTOR.name == "RangeVar":
            node.alias.aliasname = names[node.alias.aliasname or node.relname]
        elif node.DESCRIPTOR.name == "ColumnRef" and len(node.fields) == 2:
            first = node.fields[0].string
            first.sval = names.get(first.sval, first.sval)


def _answered(query: Any, given: Any, view: View) -> Any:
    """`query` over the view that `given` defines. Raises _Unanswered."""
    if _bare_text(query) == _bare_text(given):
        return _over(query, view)
    if not (_is_one(query) and _is_one(given)) or given.distinct_clause or any(map(given.HasField, _NEVER)):
        raise _Unanswered
    if query.HasField("with_clause") or query.HasField("into_clause") or query.locking_clause:
        raise _Unanswered
    if any(node.DESCRIPTOR.name in ("SubLink", "WindowDef", "GroupingSet") for node in _subtrees_of(query, given)):
        raise _Unanswered
    if list(map(_node_text, query.from_clause)) != list(map(_node_text, given.from_clause)):
        raise _Unanswered
    conditions = {expression_text(node): node for node in _parts(query.where_clause)}
    known = {expression_text(node) for node in _parts(given.where_clause)}
    if not known <= conditions.keys():
        raise _Unanswered
    rest = [node for text, node in conditions.items() if text not in known]
    columns: dict[str, str] = {}
    for node, name in zip(given.target_list, view.columns, strict=True):
        columns.setdefault(expression_text(node.res_target.val), name)
    keys = _keys(given)
    is_grouped = _is_grouped(given)
    if is_grouped:
        # Without GROUP BY there is a row also of no rows.
        if _keys(query) != keys or not _is_grouped(query) or (rest and not keys):
            raise _Unanswered
        passed, wanted = (
            {expression_text(node): node for node in _parts(each.having_clause)} for each in (given, query)
        )
        if not passed.keys() <= wanted.keys():
            raise _Unanswered
        # What is not a key is not there before the groups are.
        of_keys = {text: name for text, name in columns.items() if text in keys}
        rest = [_rewritten(node, of_keys) for node in rest]
        rest += [_rewritten(node, columns) for text, node in wanted.items() if text not in passed]
    else:
        rest = [_rewritten(node, columns) for node in rest]
    result = pb.SelectStmt()
    result.CopyFrom(query)
    del result.from_clause[:]
    result.ClearField("where_clause")
    del result.target_list[:]
    outputs = set()
    for node in query.target_list:
        target = result.target_list.add().res_target
        target.name = node.res_target.name
        outputs.add(target.name)
        target.val.CopyFrom(_rewritten(node.res_target.val, columns))
    if is_grouped:
        del result.group_clause[:]
        result.ClearField("having_clause")
    else:
        _rewrite_all(result.group_clause, columns, outputs)
        if result.HasField("having_clause"):
            result.having_clause.CopyFrom(_rewritten(query.having_clause, columns))
    _rewrite_all(result.distinct_clause, columns, set())
    for node in result.sort_clause:
        _rewrite_all([node.sort_by.node], columns, outputs)
    if is_grouped and any(map(_has_aggregate, (result.where_clause, *rest, *result.target_list, *result.sort_clause))):
        raise _Unanswered
    result.from_clause.add().CopyFrom(_reference(view))
    for node in rest:
        add_condition(result, node)
    return result


def _subtrees_of(*trees: Any) -> Iterator[Any]:
    for tree in trees:
        yield from subtrees(tree)


def _bare_text(select: Any) -> str:
    """The text without the names of the columns."""
    copy = pb.SelectStmt()
    copy.CopyFrom(select)
    if not select.sort_clause and _is_one(select):
        for node in copy.target_list:
            node.res_target.name = ""
    return _text(copy)


def _over(query: Any, view: View) -> Any:
    """All of the view, with the query's names of columns."""
    leftmost = query
    while leftmost.op != pb.SETOP_NONE:
        leftmost = leftmost.larg
    names = [_name_of(node.res_target) for node in leftmost.target_list]
    result = pb.SelectStmt()
    for name, column in zip(names, view.columns, strict=True):
        target = result.target_list.add().res_target
        target.name = name
        target.val.CopyFrom(_column(column))
    result.from_clause.add().CopyFrom(_reference(view))
    result.limit_option, result.op = query.limit_option, pb.SETOP_NONE
    if query.sort_clause:
        # By the places of the columns, for the view has its rows in no order.
        for node in query.sort_clause:
            place = _place(node.sort_by.node, query)
            kept = result.sort_clause.add()
            kept.CopyFrom(node)
            kept.sort_by.node.a_const.ival.ival = place
    return result


def _place(node: Any, query: Any) -> int:
    """Which column of the query ORDER BY means."""
    if node.HasField("a_const") and node.a_const.HasField("ival"):
        return int(node.a_const.ival.ival)
    text = expression_text(node)
    for place, target in enumerate(query.target_list, 1):
        name = _name_of(target.res_target)
        if text in (expression_text(target.res_target.val), quote_identifier(name)):
            return place
    raise _Unanswered


def _name_of(target: Any) -> str:
    """What a column of a query is called. Raises _Unanswered where that is not simply said."""
    if target.name:
        return str(target.name)
    kind = target.val.WhichOneof("node")
    if kind == "column_ref":
        return strings(target.val.column_ref.fields)[-1]
    if kind == "func_call":
        return strings(target.val.func_call.funcname)[-1]
    raise _Unanswered


def _reference(view: View) -> Any:
    (parsed,) = split_and_parse(f"SELECT FROM {view.name} AS {quote_identifier(ALIAS)}")
    return parsed.tree.from_clause[0]


def _column(name: str) -> Any:
    node = pb.Node()
    for part in (ALIAS, name):
        node.column_ref.fields.add().string.sval = part
    return node


def _is_one(select: Any) -> bool:
    return select.op == pb.SETOP_NONE and bool(select.from_clause) and not select.values_lists


def _node_text(node: Any) -> str:
    select = pb.SelectStmt()
    select.from_clause.add().CopyFrom(node)
    return _text(select)


def _parts(condition: Any) -> Iterator[Any]:
    """What is connected by AND."""
    if condition.WhichOneof("node") is None:
        return
    if condition.HasField("bool_expr") and condition.bool_expr.boolop == pb.AND_EXPR:
        for node in condition.bool_expr.args:
            yield from _parts(node)
    else:
        yield condition


def _keys(select: Any) -> frozenset[str]:
    """The texts of the expressions in GROUP BY."""
    found = set()
    for node in select.group_clause:
        if node.HasField("a_const") and node.a_const.HasField("ival"):
            node = select.target_list[node.a_const.ival.ival - 1].res_target.val
        found.add(expression_text(node))
    return frozenset(found)


def _is_grouped(select: Any) -> bool:
    return bool(select.group_clause) or select.HasField("having_clause") or any(map(_has_aggregate, select.target_list))


def _has_aggregate(tree: Any) -> bool:
    return any(
        node.DESCRIPTOR.name == "FuncCall" and (node.agg_star or bool(aggregates(strings(node.funcname)[-1])))
        for node in subtrees(tree)
    )


def _rewrite_all(nodes: Any, columns: Mapping[str, str], outputs: set[str]) -> None:
    for node in nodes:
        is_place = node.HasField("a_const") and node.a_const.HasField("ival")
        is_bare = node.HasField("column_ref") and len(node.column_ref.fields) == 1
        is_output = is_bare and strings(node.column_ref.fields)[0] in outputs
        if not node.WhichOneof("node") or is_place or is_output:
            continue
        node.CopyFrom(_rewritten(node, columns))


def _rewritten(node: Any, columns: Mapping[str, str]) -> Any:
    """The expression in the view's columns. Raises _Unanswered."""
    name = columns.get(expression_text(node))
    if name is not None:
        return _column(name)
    copy = pb.Node()
    copy.CopyFrom(node)
    _rewrite_within(copy, columns)
    return copy


def _rewrite_within(message: Any, columns: Mapping[str, str]) -> None:
    if message.DESCRIPTOR.name == "ColumnRef":
        raise _Unanswered
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for each in value if field.is_repeated else [value]:
            if each.DESCRIPTOR.name == "Node" and _is_expression(each):
                each.CopyFrom(_rewritten(each, columns))
            else:
                _rewrite_within(each, columns)


def _is_expression(node: Any) -> bool:
    return node.WhichOneof("node") not in (None, "string", "list", "type_name", "integer", "sort_by", "case_when")
