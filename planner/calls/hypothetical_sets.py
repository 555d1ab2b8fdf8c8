"""Hypothetical-set aggregates: rank, dense_rank, percent_rank and cume_dist of a row that is not there.

They count the rows that come before it in the order of WITHIN GROUP, so each is bound as what it is short for: a count
with a FILTER. Source: PostgreSQL's orderedsetaggs.c (`hypothetical_rank_common`, `hypothetical_dense_rank_final`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.errors import FeatureNotSupported, GroupingError, UndefinedFunction
from planner.expressions.bind import bind, bind_clause
from planner.ir.nodes import Scalar
from planner.resolution.statement import Level
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse, subtrees
from planner.types.type_names import format_type

_FORMS: Mapping[str, str] = {
    "rank": "1 + count(*) FILTER (WHERE {before})",
    "dense_rank": "1 + count(DISTINCT ROW({keys})) FILTER (WHERE {before})",
    "percent_rank": "CASE WHEN {count} = 0 THEN 0::float8 ELSE count(*) FILTER (WHERE {before})::float8 / {count} END",
    "cume_dist": "(1 + count(*) FILTER (WHERE {before} OR {same}))::float8 / (1 + {count})",
}
"""What each is short for, in terms of the rows before the hypothetical one and of those that are its peers."""


def is_hypothetical_set(names: tuple[str, ...]) -> bool:
    """Whether a call of `names` with arguments means one of these aggregates."""
    return names[-1] in _FORMS and names[:-1] in ((), ("pg_catalog",))


def hypothetical_set(level: Level, tree: Tree, name: str) -> Scalar:
    """The call `tree` of the aggregate `name`, which has WITHIN GROUP. Raises 42883, 0A000 and what binding raises."""
    statement = level.statement
    position = statement.position(tree.location)
    if tree.HasField("over"):
        raise FeatureNotSupported(f"OVER is not supported for ordered-set aggregate {name}", position=position)
    orders, direct = [node.sort_by for node in tree.agg_order], list(tree.args)
    if len(orders) != len(direct):
        types = [bind(level, node).type.oid for node in (*direct, *(order.node for order in orders))]
        raise UndefinedFunction(
            f"function {name}({', '.join(map(format_type, types))}) does not exist",
            hint=f"To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments"
            f" (here {len(direct)}) must match the number of ordering columns (here {len(orders)}).",
            position=position,
        )
    given: dict[str, Any] = {}
    before: list[str] = []
    same: list[str] = []
    for number, (order, value) in enumerate(zip(orders, direct, strict=True)):
        key, other = f"tg key {number}", f"tg value {number}"
        given[key], given[other] = order.node, value
        before.append(" AND ".join([*same, _is_before(order, f'"{key}"', f'"{other}"')]))
        same.append(f'"{key}" IS NOT DISTINCT FROM "{other}"')
    condition = ""
    if tree.HasField("agg_filter"):
        given["tg filter"] = tree.agg_filter
        condition = '"tg filter" AND '
    text = _FORMS[name].format(
        before=f"{condition}({' OR '.join(f'({case})' for case in before)})",
        same=f"{condition}{' AND '.join(same)}",
        keys=", ".join(f'"tg key {number}"' for number in range(len(orders))),
        count='count(*) FILTER (WHERE "tg filter")' if condition else "count(*)",
    )
    # Direct arguments are of the group: here they stand outside of the aggregate, too.
    grouped = [f'"tg value {n}"' for n, value in enumerate(direct) if _reads_columns(value)]
    checked = f"CASE WHEN false AND ({' , '.join(grouped)}) IS NULL THEN NULL ELSE {text} END" if grouped else text
    (parsed,) = split_and_parse(f"SELECT {checked}")
    node = parsed.tree.target_list[0].res_target.val
    _fill(node, given, tree.location)
    try:
        return bind(level, node)
    except GroupingError as error:
        if not error.message.endswith(" in FILTER"):
            raise
        if tree.HasField("agg_filter"):
            # It may be the condition that was written.
            bind_clause(level, tree.agg_filter, "FILTER")
        raise GroupingError("aggregate function calls cannot be nested", position=error.position) from None


def _is_before(order: Tree, key: str, value: str) -> str:
    """Whether a row with `key` comes before the one with `value`."""
    descending = order.sortby_dir == pb.SORTBY_DESC
    if order.sortby_dir == pb.SORTBY_USING:
        descending = order.use_op[-1].string.sval == ">"
    operator = ">" if descending else "<"
    nulls_first = order.sortby_nulls == pb.SORTBY_NULLS_FIRST or (
        order.sortby_nulls != pb.SORTBY_NULLS_LAST and descending
    )
    null, other = (key, value) if nulls_first else (value, key)
    return f"({key} {operator} {value} OR ({null} IS NULL AND {other} IS NOT NULL))"


def _reads_columns(node: Tree) -> bool:
    return any(tree.DESCRIPTOR.name == "ColumnRef" for tree in subtrees(node))


def _fill(node: Any, given: Mapping[str, Any], location: int) -> None:
    """Put what is `given` in the place of the columns of that name; all else is at `location`."""
    for field, value in node.ListFields():
        if field.name == "location":
            node.location = location
        elif field.message_type is not None:
            for child in list(value) if field.is_repeated else [value]:
                name = _name(child)
                if name in given:
                    child.CopyFrom(given[name])
                else:
                    _fill(child, given, location)


def _name(node: Any) -> str:
    if node.DESCRIPTOR.name != "Node" or not node.HasField("column_ref"):
        return ""
    fields = node.column_ref.fields
    return str(fields[0].string.sval) if len(fields) == 1 else ""
