"""A stored statement when a column that it names gets another name.

As in PostgreSQL each reference to the column is one to its new name, and what the statement calls after the column
keeps that name. Where a join goes by the column (USING), what it is joined with keeps its own: there the relation has a
list of names, ``t t(a, other)``, that has the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import count

from planner.definitions.columns.named_joins import ColumnNames, NamedJoins
from planner.definitions.columns.noted import Noted
from planner.errors import SqlError
from planner.queries.column_names import column_name
from planner.queries.relations import schema_name
from planner.resolution.statement import BindContext
from planner.syntax.names import strings
from planner.syntax.parse import Parsed, Tree, subtrees
from storage.catalog.model import Relation


def rename_column(parsed: Parsed, context: BindContext, relation: Relation, old: str, new: str) -> None:
    """Writes into the tree of a stored statement, bound in the catalog before, that the column `old` of `relation` is
    called `new`. Raises what binding raises."""
    noted = Noted(parsed, context)
    names = [column.name for column in relation.live_columns()]
    called = [
        (target, column_name(target.val))
        for node in subtrees(parsed.tree)
        for target in _unnamed(node)
        if target.HasField("val")
    ]
    joined = _joined(parsed.tree)
    in_from: dict[int, str] = {}
    references: set[int] = set()
    for reference, item in noted.relations_in_from():
        if item.relation_oid == relation.oid:
            _, by = joined.get(id(reference), (reference, set[str]()))
            in_from[id(item)] = _name_in_from(reference, by, names, old, new)
            references.add(id(reference))

    def renamed(reference: Tree, called: Sequence[str]) -> list[ColumnNames]:
        now = list(called)
        if id(reference) in references:
            listed, place = strings(reference.alias.colnames), names.index(old)
            now[place] = listed[place] if place < len(listed) else new
        return list(zip(called, now, strict=True))

    in_joins = NamedJoins(noted, renamed).renamed
    for tree, item in noted.definition.named:
        last = tree.fields[len(tree.fields) - 1].string
        if item.relation_oid == relation.oid and last.sval == old:
            last.sval = in_from.get(id(item), new)
        last.sval = in_joins.get(id(item), {}).get(last.sval, last.sval)
    named = (schema_name(context, relation.schema), relation.name)
    for change in subtrees(parsed.tree):
        if change.DESCRIPTOR.name in _TARGETS and named == (change.relation.schemaname, change.relation.relname):
            for target in _targets(change):
                if target.name == old:
                    target.name = new
    for target, name in called:
        if column_name(target.val) != name:
            target.name = name


def list_added(parsed: Parsed, context: BindContext, relation: Relation, added: Sequence[str]) -> None:
    """Writes into the tree of a stored statement, bound in the catalog before, that what joins `relation` by columns
    called as some of those `added` goes by the columns that it went by: the new ones have other names there. The
    columns of joins with a name are those that they were."""
    names = [column.name for column in relation.live_columns()]
    meant = _meaning(context, relation)
    noted = _bound_for_named_joins(parsed, context, meant, listed=False)
    for reference, joined in list(_joined(parsed.tree).values()):
        if meant(reference) and not joined.isdisjoint(added):
            taken = (*names, *added)
            _list_names(reference, [*names, *(_unlike(each, taken) if each in joined else each for each in added)])

    def with_added(reference: Tree, called: Sequence[str]) -> list[ColumnNames]:
        kept: list[ColumnNames] = [(name, name) for name in called]
        return [*kept, *((None, name) for name in added)] if meant(reference) else kept

    if noted is not None:
        NamedJoins(noted, with_added)


def drop_listed(parsed: Parsed, context: BindContext, relation: Relation, attnum: int) -> None:
    """Writes into the tree of a stored statement, bound in the catalog before, that the lists of names which have the
    column of `relation` have it no longer."""
    place = [column.attnum for column in relation.live_columns()].index(attnum)
    meant = _meaning(context, relation)
    noted = _bound_for_named_joins(parsed, context, meant, listed=True)
    for reference in subtrees(parsed.tree):
        if reference.DESCRIPTOR.name == "RangeVar" and meant(reference) and len(reference.alias.colnames) > place:
            del reference.alias.colnames[place]

    def without(reference: Tree, called: Sequence[str]) -> list[ColumnNames]:
        gone = meant(reference)
        return [(name, None if gone and index == place else name) for index, name in enumerate(called)]

    if noted is not None:
        NamedJoins(noted, without)


def _meaning(context: BindContext, relation: Relation) -> Callable[[Tree], bool]:
    """Whether a reference is to `relation`."""
    named = (schema_name(context, relation.schema), relation.name)
    return lambda reference: (reference.schemaname, reference.relname) == named


def _bound_for_named_joins(
    parsed: Parsed, context: BindContext, meant: Callable[[Tree], bool], *, listed: bool
) -> Noted | None:
    """A stored statement, bound if it has a join with a name (and, if `listed`, a list of names) over a relation that
    is `meant`, which few have; None also of one that means nothing any more."""
    for join in subtrees(parsed.tree):
        if join.DESCRIPTOR.name != "JoinExpr" or not join.HasField("alias") or (listed and not join.alias.colnames):
            continue
        if any(meant(reference) for reference in _relations_under(join)):
            try:
                return Noted(parsed, context)
            except SqlError:
                return None
    return None


def _unlike(name: str, taken: Collection[str]) -> str:
    return next(each for number in count(1) if (each := f"{name}_{number}") not in taken)


def _list_names(reference: Tree, names: Sequence[str]) -> None:
    """Writes out that the columns of a relation in FROM are called `names`, but for those that have names there."""
    if not reference.alias.aliasname:
        reference.alias.aliasname = reference.relname
    for name in names[len(reference.alias.colnames) :]:
        reference.alias.colnames.add().string.sval = name


def _joined(statement: Tree) -> dict[int, tuple[Tree, set[str]]]:
    """The relations in FROM that are joined, by the identity of their trees, and the columns that joins over them go
    by."""
    found: dict[int, tuple[Tree, set[str]]] = {}
    for join in subtrees(statement):
        if join.DESCRIPTOR.name == "JoinExpr":
            for reference in _relations_under(join):
                found.setdefault(id(reference), (reference, set()))[1].update(strings(join.using_clause))
    return found


def _name_in_from(reference: Tree, joined: Collection[str], names: Sequence[str], old: str, new: str) -> str:
    """What is now called as the column was in what reads the relation, which is `joined` by these; its list of names
    says so, if it needs one."""
    place = names.index(old)
    listed = strings(reference.alias.colnames)
    name = _unlike(new, (*names, *listed)) if new in joined else new
    if place >= len(listed):
        if old in joined:
            _list_names(reference, names)
            return old
        if name != new:
            _list_names(reference, [name if each == old else each for each in names])
        return name
    # A list that a join has made necessary has the names of the other columns because it has to have some.
    others = [name for name, own in zip(listed, names, strict=False) if name != own]
    made = len(listed) == len(names) and bool(others) and set(others) <= set(joined)
    if made and listed[place] == old and old not in joined:
        reference.alias.colnames[place].string.sval = name
        return name
    return old


def _relations_under(tree: Tree) -> Iterator[Tree]:
    """The relations that a join joins, at any depth, without those in subqueries."""
    for node in (tree.larg, tree.rarg):
        if node.HasField("join_expr"):
            yield from _relations_under(node.join_expr)
        elif node.HasField("range_var"):
            yield node.range_var
        elif node.HasField("range_table_sample"):
            yield node.range_table_sample.relation.range_var


def _unnamed(node: Tree) -> Iterator[Tree]:
    """The results of a query or of RETURNING that have no names of their own."""
    kind = node.DESCRIPTOR.name
    targets = node.target_list if kind == "SelectStmt" else node.exprs if kind == "ReturningClause" else ()
    return (target.res_target for target in targets if not target.res_target.name)


def _targets(change: Tree) -> Iterator[Tree]:
    """What names columns of the relation that a statement changes, but for references in expressions."""
    for nodes in _TARGETS[change.DESCRIPTOR.name](change):
        yield from (node.res_target for node in nodes)
    if change.DESCRIPTOR.name == "InsertStmt" and change.HasField("on_conflict_clause"):
        yield from (node.index_elem for node in change.on_conflict_clause.infer.index_elems)


_TARGETS: Mapping[str, Callable[[Tree], Sequence[Sequence[Tree]]]] = {
    "InsertStmt": lambda change: (change.cols, change.on_conflict_clause.target_list),
    "UpdateStmt": lambda change: (change.target_list,),
    "MergeStmt": lambda change: [node.merge_when_clause.target_list for node in change.merge_when_clauses],
}
"""By the kinds of statements that change rows: the lists of columns that these are given values in."""
