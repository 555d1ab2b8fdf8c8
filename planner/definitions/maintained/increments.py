"""The change of a view's rows that follows from changes of the tables that its query reads, as a query.

Of a table that has changed there are, besides the table as it is now, two more relations: its *delta*, whose rows are
those that came (`WEIGHT` 1) and went (-1), and what was there *before*. In them the change is

- of filters, projections and inner joins: for each place in FROM where a changed table stands the query with the delta
  there, the tables before it as they are now and those behind it as they were (so a table that is joined with itself is
  taken care of by the same rule); of UNION ALL: the changes of its parts;
- for a place that a LEFT or RIGHT JOIN may lack, or in a subquery of WHERE (EXISTS, IN, op ANY and ALL): what the query
  gives with the table as it is now, less what it gives with the table as it was, both for the rows alone that a change
  there can reach (`planner.definitions.maintained.places`);
- of GROUP BY with sums and counts: what `planner.definitions.maintained.sums` makes of the change under it and of the
  stored rows;
- of other GROUP BY and DISTINCT: what the query gives now for the groups that the change under it touches, less what it
  gave for them before.

For queries of other kinds `change_of` has no answer: they are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from msgspec import Struct

from planner.definitions.deparse import expression_text, query_text
from planner.definitions.maintained.places import Place, add_condition, guard_condition, places_of
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
    it reads, by name. `replacing`, where the stored rows are found by what has changed: the row id of a stored row
    (NULL: there is none yet), its columns, those of the row in its place, and whether there is one."""

    text: str
    steps: tuple[tuple[str, str], ...] = ()
    replacing: str | None = None


Tables = Mapping[tuple[str, str], int]
"""The oids of the tables that a query may read, by schema and name."""


_NEVER = (
    ir.Window, ir.Limit, ir.ProjectSet, ir.FunctionScan, ir.Values, ir.With, ir.CteScan, ir.SystemScan, ir.LockRows,
    ir.ScalarSubquery, ir.ArraySubquery,
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
    groupings, has_subqueries = 0, False
    for node in walk(query.rel):
        if isinstance(node, _NEVER) or (isinstance(node, ir.Join) and node.kind == "full"):
            return None
        groupings += isinstance(node, (ir.Aggregate, ir.Deduplicate))
        has_subqueries |= isinstance(node, (ir.Exists, ir.QuantifiedSubquery))
    if groupings and (not is_grouped(branches) or (has_subqueries and groupings > 1)):
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
        and not any(node.DESCRIPTOR.name in ("WindowDef", "GroupingSet") for node in subtrees(select))
    )


def terms_of(select: Tree, tables: Tables, changed: Set[int], prepare: Callable[[Any], None]) -> list[str] | None:
    """For each place where a changed table stands the text of the query for the change that comes from there; `prepare`
    edits each query before its weight is added."""
    places = places_of(select)
    if places is None or not _is_plain(select) or _is_grouped(select) or select.HasField("having_clause"):
        return None
    found = [tables.get((place.reference.schemaname, place.reference.relname)) for place in places]
    oids = [oid for oid in found if oid is not None]
    if len(oids) < len(found):
        return None
    bare = copy_of(select)
    del bare.sort_clause[:]
    terms = []
    for place, oid in enumerate(oids):
        if oid in changed:
            one_place = _linear if places[place].guard is None else _guarded
            for copy, weight in one_place(bare, oids, changed, place):
                prepare(copy)
                target = copy.target_list.add().res_target
                target.name = WEIGHT
                target.val.CopyFrom(weight)
                terms.append(_text(copy))
    return terms


def _linear(select: Tree, oids: Sequence[int], changed: Set[int], place: int) -> Iterator[tuple[Any, Any]]:
    copy = _at(select, oids, changed, place, delta_name(oids[place]))
    weight = pb.Node()
    for part in (_places(copy)[place].reference.alias.aliasname, WEIGHT):
        weight.column_ref.fields.add().string.sval = part
    yield copy, weight


def _guarded(select: Tree, oids: Sequence[int], changed: Set[int], place: int) -> Iterator[tuple[Any, Any]]:
    with_delta = _places(_at(select, oids, changed, place, delta_name(oids[place])))
    guard = with_delta[place].guard
    assert guard is not None
    condition = guard_condition(guard)
    for weight, name in ((1, None), (-1, before_name(oids[place]))):
        copy = _at(select, oids, changed, place, name)
        add_condition(copy, condition)
        (parsed,) = split_and_parse(f"SELECT {weight}")
        yield copy, parsed.tree.target_list[0].res_target.val


def _at(select: Tree, oids: Sequence[int], changed: Set[int], place: int, name: str | None) -> Any:
    """`select` with the relation `name` (None: the table as it is now) at the place, the tables before it as they are
    now and those behind it as they were."""
    copy = copy_of(select)
    for other, (own, oid) in enumerate(zip(_places(copy), oids, strict=True)):
        if other == place and name is not None:
            _rename(own.reference, name)
        elif other > place and oid in changed:
            _rename(own.reference, before_name(oid))
    return copy


def _places(select: Tree) -> list[Place]:
    """The places of a copy of a query that is known to have them."""
    places = places_of(select)
    assert places is not None
    return places


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
    if places_of(select) is None or not _is_plain(select):
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
    for place in _places(before):
        oid = tables.get((place.reference.schemaname, place.reference.relname))
        if oid in changed:
            assert oid is not None
            _rename(place.reference, before_name(oid))
    for copy in (now, before):
        del copy.sort_clause[:]
        _restrict(copy, keys)
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
    add_condition(select, parsed.tree.where_clause)
