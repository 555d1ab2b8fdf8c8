"""The change of a view with GROUP BY that follows from the change under it and the stored rows, without its tables.

That is so where each group's row says all that has to be known of the group: how many rows it has (``count(*)``), and
of each sum how many values are in it: a count of them, or that they are never NULL. Sums are of types whose values add
up exactly, in whatever order: integers, and numerics with a declared scale. ``avg`` is there where the sum of the same
values is.

With the delta of the rows under it, `w` the weight of each::

    SELECT key, count(*), sum(x) FROM t GROUP BY key
    groups: SELECT key, sum(w), sum(w * x) FROM delta GROUP BY key
    the stored rows of these keys go; those with count + sum(w) > 0 come, with both sums added
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from msgspec import Struct

from planner.definitions.deparse import expression_text
from planner.definitions.maintained.increments import (
    WEIGHT,
    Change,
    Tables,
    copy_of,
    is_grouped,
    known_branches,
    terms_of,
)
from planner.definitions.maintained.places import references_of
from planner.ir.bound import BoundQuery
from planner.syntax.identifiers import quote_identifier
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types import types as t
from storage.catalog.model import Column, Relation

GROUPS = "tidegate groups"

_KEYS = frozenset({
    t.BOOL, t.INT2, t.INT4, t.INT8, t.TEXT, t.VARCHAR, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.UUID, t.BYTEA,
})  # fmt: skip
"""Types of keys whose equal values are the same."""

_INTEGERS = frozenset({t.INT2, t.INT4, t.INT8})


class _Target(Struct, frozen=True):
    """What a column of the view is: ``key``, ``rows``, ``count``, ``sum`` or ``avg``, and of which expression."""

    kind: str
    of: str
    place: int


def sums_of(
    view: Relation, schema: str, query: BoundQuery, tables: Tables, changed: Set[int], columns: Mapping[int, Relation]
) -> Change | None:
    """The change of `view`, in `schema`, whose definition is bound as `query`, when `changed` are the tables that have
    changed; `columns` are the tables by oid. None when more has to be read than the change and the stored rows."""
    branches = known_branches(view.definition or "", query)
    if branches is None or not is_grouped(branches):
        return None
    (select,) = branches
    references = references_of(select)
    if references is None or select.distinct_clause or select.HasField("having_clause"):
        return None
    own: dict[str, Relation] = {}
    for reference in references:
        oid = tables.get((reference.schemaname, reference.relname))
        if oid is None:
            return None
        own[reference.alias.aliasname or reference.relname] = columns[oid]
    targets = _targets(select, view.live_columns(), own)
    if targets is None:
        return None
    arguments = list(dict.fromkeys(target.of for target in targets if target.kind in ("count", "sum", "avg")))
    nodes = {expression_text(node): node for node in _arguments(select)}

    def prepare(copy: Any) -> None:
        keys = [
            copy_node(select.target_list[target.place].res_target.val) for target in targets if target.kind == "key"
        ]
        del copy.target_list[:]
        for name, node in (
            *((f"k{number}", key) for number, key in enumerate(keys)),
            *((f"a{number}", nodes[argument]) for number, argument in enumerate(arguments)),
        ):
            target = copy.target_list.add().res_target
            target.name = name
            target.val.CopyFrom(node)

    under = copy_of(select)
    for clause in ("group_clause", "sort_clause"):
        del getattr(under, clause)[:]
    terms = terms_of(under, tables, changed, prepare)
    if not terms:
        return None
    return _change(view, schema, targets, arguments, terms, own)


def copy_node(node: Tree) -> Any:
    """`node`, which stays what it is when its tree is edited."""
    copy = type(node)()
    copy.CopyFrom(node)
    return copy


def _arguments(select: Tree) -> Iterator[Tree]:
    for node in select.target_list:
        value = node.res_target.val
        if value.HasField("func_call") and len(value.func_call.args) == 1:
            yield value.func_call.args[0]


def _targets(select: Tree, columns: Sequence[Column], tables: Mapping[str, Relation]) -> list[_Target] | None:
    """What the columns of the view are; None when one is something else, or does not say enough."""
    keys: set[str] = set()
    for node in select.group_clause:
        if node.HasField("a_const"):
            if not node.a_const.HasField("ival"):
                return None
            node = select.target_list[node.a_const.ival.ival - 1].res_target.val
        keys.add(expression_text(node))
    found: list[_Target] = []
    for place, (node, column) in enumerate(zip(select.target_list, columns, strict=True)):
        value = node.res_target.val
        text = expression_text(value)
        if text in keys:
            if column.type_oid not in _KEYS:
                return None
            found.append(_Target("key", text, place))
            continue
        known = _aggregate(value, place)
        if known is None:
            return None
        found.append(known)
    if {target.of for target in found if target.kind == "key"} != keys or not any(t.kind == "rows" for t in found):
        return None
    counted = {target.of for target in found if target.kind == "count"}
    summed = {target.of for target in found if target.kind == "sum"}
    for target in found:
        if target.kind not in ("count", "sum", "avg"):
            continue
        argument = _column(select.target_list[target.place].res_target.val.func_call.args[0], tables)
        if argument is None:
            return None
        exact = argument.type_oid in _INTEGERS or (argument.type_oid == t.NUMERIC and argument.typmod != -1)
        if target.kind != "count" and (not exact or not (argument.not_null or target.of in counted)):
            return None
        if target.kind == "avg" and target.of not in summed:
            return None
    return found


def _aggregate(value: Tree, place: int) -> _Target | None:
    if not value.HasField("func_call"):
        return None
    call = value.func_call
    name = strings(call.funcname)
    if name[:-1] not in ((), ("pg_catalog",)) or name[-1] not in ("count", "sum", "avg"):
        return None
    if call.agg_distinct or call.agg_order or call.HasField("agg_filter") or call.HasField("over"):
        return None
    if call.agg_star:
        return _Target("rows", "", place)
    return _Target(name[-1], expression_text(call.args[0]), place) if len(call.args) == 1 else None


def _column(node: Tree, tables: Mapping[str, Relation]) -> Column | None:
    """The column that `node` is, of one of `tables`."""
    if not node.HasField("column_ref") or len(node.column_ref.fields) != 2:
        return None
    alias, name = (field.string.sval for field in node.column_ref.fields)
    table = tables.get(alias)
    return None if table is None else table.column(name)


def _change(
    view: Relation,
    schema: str,
    targets: Sequence[_Target],
    arguments: Sequence[str],
    terms: Sequence[str],
    tables: Mapping[str, Relation],
) -> Change:
    weight = quote_identifier(WEIGHT)
    stored = [f"v.{quote_identifier(column.name)}" for column in view.live_columns()]
    keys = [target for target in targets if target.kind == "key"]
    names = [f"k{number}" for number in range(len(keys))]
    sums = [f"sum({weight}) AS rows"]
    wide = {target.of: view.live_columns()[target.place].type_oid for target in targets if target.kind == "sum"}
    for number, argument in enumerate(arguments):
        sums.append(f"sum(CASE WHEN a{number} IS NOT NULL THEN {weight} ELSE 0 END) AS c{number}")
        if argument in wide:
            # NOTE: of type bigint, as the column is, so that nothing has to be made one of a numeric. A row that went
            # with the least integer of all overflows, and then the view is computed anew.
            cast = "integer" if wide[argument] == t.INT8 else "numeric"
            sums.append(f"sum({weight} * a{number}::{cast}) AS s{number}")
    groups = (
        f"SELECT {', '.join((*names, *sums))} FROM ({' UNION ALL '.join(terms)}) AS under GROUP BY {', '.join(names)}"
    )
    group = quote_identifier(GROUPS)
    match = " AND ".join(f"{stored[key.place]} IS NOT DISTINCT FROM d.k{number}" for number, key in enumerate(keys))
    view_name = f"{quote_identifier(schema)}.{quote_identifier(view.name)}"
    rows = next(stored[target.place] for target in targets if target.kind == "rows")
    counts = {target.of: stored[target.place] for target in targets if target.kind == "count"}
    held = {target.of: stored[target.place] for target in targets if target.kind == "sum"}
    values: list[str] = []
    for target in targets:
        number = arguments.index(target.of) if target.of in arguments else 0
        counted = f"(coalesce({counts.get(target.of, rows)}, 0) + d.c{number})"
        total = f"(coalesce({held.get(target.of, '0')}, 0) + coalesce(d.s{number}, 0))"
        match target.kind:
            case "key":
                values.append(f"d.k{keys.index(target)}")
            case "rows":
                values.append(f"coalesce({rows}, 0) + d.rows")
            case "count":
                values.append(counted)
            case "sum":
                values.append(f"CASE WHEN {counted} > 0 THEN {total} END")
            case _:
                values.append(f"CASE WHEN {counted} > 0 THEN {total}::numeric / {counted} END")
    typed = [
        value if target.kind == "key" else f"({value})::{'bigint' if column.type_oid == t.INT8 else 'numeric'}"
        for target, value, column in zip(targets, values, view.live_columns(), strict=True)
    ]
    text = (
        f"SELECT {', '.join(stored)}, -1 FROM {view_name} AS v JOIN {group} AS d ON {match} UNION ALL "
        f"SELECT {', '.join(typed)}, 1 FROM {group} AS d LEFT JOIN {view_name} AS v ON {match} "
        f"WHERE coalesce({rows}, 0) + d.rows > 0"
    )
    stays = f"coalesce({rows}, 0) + d.rows > 0"
    new = [f"CASE WHEN {stays} THEN {value} ELSE {old} END" for value, old in zip(typed, stored, strict=True)]
    replacing = (
        f"SELECT v._row_id, {', '.join(stored)}, {', '.join(new)}, {stays} "
        f"FROM {group} AS d LEFT JOIN {view_name} AS v ON {match}"
    )
    return Change(text=text, steps=((GROUPS, groups),), replacing=replacing)
