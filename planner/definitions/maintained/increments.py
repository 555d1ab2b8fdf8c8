"""The change of a view's rows that follows from changes of the tables that its query reads, as a query.

Of a table that has changed there are, besides the table as it is now, two more relations: its *delta*, whose rows are
those that came (`WEIGHT` 1) and went (-1), and what was there *before*. In them the change is

- of filters, projections and inner joins: for each place in FROM where a changed table stands the query with the delta
  there, the tables before it as they are now and those behind it as they were (so a table that is joined with itself is
  taken care of by the same rule); of UNION ALL: the changes of its parts;
- of GROUP BY with sums and counts: what `planner.definitions.maintained.sums` makes of the change under it and of the
  stored rows;
- of other GROUP BY and DISTINCT: what the query gives now for the groups that the change under it touches, less what it
  gave for them before.

For queries of other kinds `change_of` has no answer: they are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from msgspec import Struct

from planner.definitions.deparse import expression_text, query_text
from planner.ir import nodes as ir
from planner.ir.bound import BoundQuery
from planner.ir.rewrite import walk
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree, split_and_parse, subtrees

WEIGHT = "tidegate weight"
AFFECTED = "tidegate affected"


def delta_name(oid: int) -> str:
    """What the delta of the table is called, in the table's schema."""
    return f"tidegate delta of {oid}"


def before_name(oid: int) -> str:
    """What the table as it was is called, in the table's schema."""
    return f"tidegate before of {oid}"


class Change(Struct, frozen=True, kw_only=True):
    """`text` gives the rows (as many columns as the view has) and their weight behind; `steps` are common tables that
    it reads, by name."""

    text: str
    steps: tuple[tuple[str, str], ...] = ()


Tables = Mapping[tuple[str, str], int]
"""The oids of the tables that a query may read, by schema and name."""


_NEVER = (
    ir.Window, ir.Limit, ir.ProjectSet, ir.FunctionScan, ir.Values, ir.With, ir.CteScan, ir.SystemScan, ir.LockRows,
    ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery,
)  # fmt: skip
"""What makes more of rows than `change_of` knows."""


@lru_cache(maxsize=1000)
def names_in(definition: str) -> frozenset[tuple[str, str]]:
    """The schema and name of every relation that stands in a FROM of the definition."""
    (parsed,) = split_and_parse(definition)
    nodes = (node for node in subtrees(parsed.tree) if node.DESCRIPTOR.name == "RangeVar")
    return frozenset((node.schemaname, node.relname) for node in nodes)


def change_of(definition: str, query: BoundQuery, tables: Tables, changed: Set[int]) -> Change | None:
    """The change of the view that `definition` defines, which is bound as `query`, when `changed` are the tables that
    have changed; None for a query that has to be computed anew."""
    branches = known_branches(definition, query)
    if branches is None:
        return None
    if is_grouped(branches):
        return _grouped(branches[0], tables, changed)
    terms: list[str] = []
    for branch in branches:
        found = terms_of(branch, tables, changed, lambda select: None)
        if found is None:
            return None
        terms += found
    return Change(text=" UNION ALL ".join(terms)) if terms else None


def known_branches(definition: str, query: BoundQuery) -> list[Tree] | None:
    """The SELECTs whose rows together are the view's; None when something is in them that is not known here."""
    (parsed,) = split_and_parse(definition)
    if parsed.kind != "select_stmt":
        return None
    branches = _branches(parsed.tree)
    if branches is None:
        return None
    for node in walk(query.rel):
        if isinstance(node, _NEVER) or (isinstance(node, ir.Join) and node.kind not in ("cross", "inner")):
            return None
        if isinstance(node, (ir.Aggregate, ir.Deduplicate)) and not is_grouped(branches):
            return None
    return branches


def is_grouped(branches: Sequence[Tree]) -> bool:
    """Whether it is one SELECT with GROUP BY or DISTINCT."""
    return len(branches) == 1 and _is_grouped(branches[0])


def _branches(select: Tree) -> list[Tree] | None:
    """The SELECTs whose rows together are those of `select`."""
    if select.HasField("with_clause") or select.HasField("limit_count") or select.HasField("limit_offset"):
        return None
    if select.op == pb.SETOP_NONE:
        return [select]
    if select.op != pb.SETOP_UNION or not select.all:
        return None
    left, right = _branches(select.larg), _branches(select.rarg)
    return None if left is None or right is None else left + right


def _is_grouped(select: Tree) -> bool:
    return bool(select.group_clause) or bool(select.distinct_clause)


def _is_plain(select: Tree) -> bool:
    """Whether each row comes from one of each table, and goes its way alone."""
    return (
        bool(select.from_clause)
        and not select.window_clause
        and not select.locking_clause
        and not select.values_lists
        and not any(node.DESCRIPTOR.name in ("SubLink", "WindowDef", "GroupingSet") for node in subtrees(select))
    )


def references_of(select: Tree) -> list[Tree] | None:
    """The RangeVars of FROM in order; None when something else than tables and inner joins of tables is there."""
    found: list[Tree] = []

    def visit(node: Tree) -> bool:
        kind = node.WhichOneof("node")
        if kind == "range_var":
            found.append(node.range_var)
            return True
        if kind != "join_expr":
            return False
        join = node.join_expr
        return join.jointype == pb.JOIN_INNER and visit(join.larg) and visit(join.rarg)

    return found if all(visit(node) for node in select.from_clause) else None


def terms_of(select: Tree, tables: Tables, changed: Set[int], prepare: Callable[[Any], None]) -> list[str] | None:
    """For each place where a changed table stands the query's text with the delta there; `prepare` edits each query
    before its weight is added."""
    references = references_of(select)
    if references is None or not _is_plain(select) or _is_grouped(select) or select.HasField("having_clause"):
        return None
    oids = [tables.get((reference.schemaname, reference.relname)) for reference in references]
    if any(oid is None for oid in oids):
        return None
    terms = []
    for place, oid in enumerate(oids):
        if oid not in changed:
            continue
        copy = copy_of(select)
        del copy.sort_clause[:]
        own = references_of(copy)
        assert own is not None
        for other, (reference, known) in enumerate(zip(own, oids, strict=True)):
            assert known is not None
            if other == place:
                _rename(reference, delta_name(known))
            elif other > place and known in changed:
                _rename(reference, before_name(known))
        prepare(copy)
        weight = copy.target_list.add().res_target
        weight.name = WEIGHT
        for part in (own[place].alias.aliasname, WEIGHT):
            weight.val.column_ref.fields.add().string.sval = part
        terms.append(_text(copy))
    return terms


def _rename(reference: Tree, name: str) -> None:
    if not reference.alias.aliasname:
        reference.alias.aliasname = reference.relname
    reference.relname = name


def copy_of(select: Tree) -> Any:
    copy = pb.SelectStmt()
    copy.CopyFrom(select)
    return copy


def _text(select: Any) -> str:
    node = pb.Node()
    node.select_stmt.CopyFrom(select)
    return f"({query_text(node)})"


def _grouped(select: Tree, tables: Tables, changed: Set[int]) -> Change | None:
    """The change of a query with GROUP BY or DISTINCT, by the groups that are touched."""
    references = references_of(select)
    if references is None or not _is_plain(select):
        return None
    keys = _keys(select)
    if keys is None:
        return None
    under = copy_of(select)
    for clause in ("group_clause", "distinct_clause", "sort_clause"):
        del getattr(under, clause)[:]
    under.ClearField("having_clause")

    def only_keys(copy: Any) -> None:
        del copy.target_list[:]
        for number, key in enumerate(keys, 1):
            target = copy.target_list.add().res_target
            target.name = f"k{number}"
            target.val.CopyFrom(key)

    terms = terms_of(under, tables, changed, only_keys)
    if not terms:
        return None
    names = [f"k{number}" for number in range(1, len(keys) + 1)]
    touched = f"SELECT DISTINCT {', '.join(names)} FROM ({' UNION ALL '.join(terms)}) AS touched"
    now, before = copy_of(select), copy_of(select)
    for copy in (now, before):
        del copy.sort_clause[:]
        _restrict(copy, keys)
    own = references_of(before)
    assert own is not None
    # The last one is what the groups are restricted by.
    for reference in own[:-1]:
        oid = tables.get((reference.schemaname, reference.relname))
        if oid in changed:
            assert oid is not None
            _rename(reference, before_name(oid))
    text = f"SELECT rows.*, 1 FROM {_text(now)} AS rows UNION ALL SELECT rows.*, -1 FROM {_text(before)} AS rows"
    return Change(text=text, steps=((AFFECTED, touched),))


def _keys(select: Tree) -> Sequence[Tree] | None:
    """The expressions that tell the groups apart."""
    if select.distinct_clause:
        if select.group_clause or any(node.WhichOneof("node") is not None for node in select.distinct_clause):
            return None
        return [node.res_target.val for node in select.target_list] or None
    keys: list[Tree] = []
    for node in select.group_clause:
        if node.HasField("a_const"):
            if not node.a_const.HasField("ival"):
                return None
            node = select.target_list[node.a_const.ival.ival - 1].res_target.val
        keys.append(node)
    return keys


def _restrict(select: Any, keys: Sequence[Tree]) -> None:
    """Let the query read the touched groups alone."""
    texts = [
        f"{quote_identifier(AFFECTED)}.k{number} IS NOT DISTINCT FROM ({expression_text(key)})"
        for number, key in enumerate(keys, 1)
    ]
    (parsed,) = split_and_parse(f"SELECT FROM {quote_identifier(AFFECTED)} WHERE {' AND '.join(texts)}")
    select.from_clause.add().CopyFrom(parsed.tree.from_clause[0])
    condition = pb.Node()
    condition.bool_expr.boolop = pb.AND_EXPR
    if select.HasField("where_clause"):
        condition.bool_expr.args.add().CopyFrom(select.where_clause)
    condition.bool_expr.args.add().CopyFrom(parsed.tree.where_clause)
    if len(condition.bool_expr.args) == 1:
        condition.CopyFrom(parsed.tree.where_clause)
    select.where_clause.CopyFrom(condition)
