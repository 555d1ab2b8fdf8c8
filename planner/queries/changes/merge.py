"""MERGE: target and source joined, each pair with the first action that its WHEN clauses give it.

Source of the rules: PostgreSQL 15's transformMergeStmt and ExecMerge; RETURNING and merge_action() are those of 17.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from planner.errors import DuplicateAlias, FeatureNotSupported, SqlSyntaxError
from planner.expressions.bind import MERGE_CLAUSE, bind, bind_clause
from planner.ir.bound import BoundMerge, MergeAction, MergePolicies
from planner.ir.nodes import (
    BoolOp,
    Call,
    Case,
    Cast,
    ColumnRef,
    Distinct,
    Filter,
    IsNull,
    Join,
    Literal,
    Project,
    Rel,
    Scalar,
    Scan,
)
from planner.queries.changes.assigned_values import assign_part, assigned_values, given_values
from planner.queries.changes.column_values import bound_query, computing, default_value, refuse_updates, refuse_values
from planner.queries.changes.dml import insert_columns, inserted_value
from planner.queries.changes.policy_checks import found_rows, inserted_checks, merged_checks, updated_checks
from planner.queries.changes.returning import joined_returning
from planner.queries.changes.targets import ChangeTarget, change_target, note_columns, note_item
from planner.queries.common_tables import bind_with, with_tables
from planner.queries.from_clause import bind_from
from planner.queries.in_from.presences import with_presences
from planner.queries.relations import offer, scan_table
from planner.resolution.casting import finish_row, to_boolean
from planner.resolution.operators import BOOLEAN
from planner.resolution.row_security import DELETE, UPDATE
from planner.resolution.statement import Level, NsItem, Statement
from planner.syntax.dialects.names import CALLED_ALIKE
from planner.syntax.libpg_query import pb
from planner.syntax.parse import Tree
from planner.types.types import INT4, INT8, TEXT, SqlType

_COMMANDS = {
    pb.CMD_UPDATE: "update",
    pb.CMD_DELETE: "delete",
    pb.CMD_INSERT: "insert",
    pb.CMD_NOTHING: "nothing",
}


_PRIVILEGES = {pb.CMD_UPDATE: "w", pb.CMD_DELETE: "d", pb.CMD_INSERT: "a", pb.CMD_NOTHING: ""}


class _Target:
    """The table that is merged into, and where its WHEN clauses are bound."""

    def __init__(self, level: Level, changed: ChangeTarget, scan: Scan, item: NsItem) -> None:
        self.level = level
        self.statement = level.statement
        self.changed = changed
        self.scan = scan
        self.item = item
        self.live = changed.live
        self.types = changed.types
        self.row_id = ColumnRef(id=scan.fields[-1].id, type=SqlType(INT8))

    def offer(self, *, target: bool) -> None:
        """Let expressions refer to the source, and with `target` to the target."""
        self.item.rel_visible = self.item.cols_visible = target


def bind_merge(level: Level, tree: Tree) -> BoundMerge:
    """MERGE. Raises 42601, 0A000, 42712 and what binding its parts raises."""
    statement = level.statement
    if tree.HasField("with_clause") and tree.with_clause.recursive:
        raise SqlSyntaxError("WITH RECURSIVE is not supported for MERGE statement")
    tables = bind_with(level, tree.with_clause) if tree.HasField("with_clause") else []
    clauses = [node.merge_when_clause for node in tree.merge_when_clauses]
    _refuse_unreachable(clauses)
    changed = change_target(statement, tree.relation, "merge")
    relation = changed.relation
    alias = tree.relation.alias if tree.relation.HasField("alias") else None
    scan, item = scan_table(level, relation, alias, tree.relation.location, row_id=True)
    level.rtes.append(item)
    note_item(level, tree, item)
    level.presences = []
    source = bind_from(level, [tree.source_relation])
    changed.need("".join({_PRIVILEGES[clause.command_type]: None for clause in clauses}) or "r")
    offer(level, changed.uses[0], item)
    if any(other.rel_visible and other.alias == item.alias for other in level.namespace):
        raise DuplicateAlias(
            f'name "{item.alias}" specified more than once',
            detail="The name is used both as MERGE target table and data source.",
        )
    clauses = [_spelled_out(clause, changed, level.namespace) for clause in clauses]
    level.namespace.append(item)
    target = _Target(level, changed, scan, item)
    condition = to_boolean(statement, bind_clause(level, tree.join_condition, "JOIN conditions"), "JOIN/ON")
    if statement.notes is not None:
        statement.notes.change(tree).where = condition
    all_of_source = any(clause.match_kind != pb.MERGE_WHEN_MATCHED for clause in clauses)
    pairs: Rel = Join(
        kind="left" if all_of_source else "inner",
        left=source,
        right=scan,
        condition=condition,
        lateral=False,
        fields=source.fields + scan.fields,
    )
    whens: list[tuple[Scalar, Scalar]] = []
    actions: list[MergeAction] = []
    changes: list[dict[int, Scalar]] = []
    for number, clause in enumerate(clauses, 1):
        command = _COMMANDS[clause.command_type]
        value = None if command == "nothing" else number
        whens.append((_applies(target, clause), Literal(value=value, type=SqlType(INT4))))
        values, numbered = _values(target, clause)
        changes.append(values)
        actions.append(MergeAction(command=command, numbered=numbered))
    target.offer(target=True)
    pairs = with_presences(level, pairs)
    # Nothing that RETURNING asks for is added any more.
    level.presences = None
    chosen = statement.new_field("_action", SqlType(INT4))
    action = ColumnRef(id=chosen.id, type=chosen.type)
    kept = tuple(ColumnRef(id=field.id, type=field.type) for field in pairs.fields)
    pairs = Project(
        input=pairs,
        exprs=(*kept, Case(whens=tuple(whens), otherwise=None, type=chosen.type)),
        fields=(*pairs.fields, chosen),
    )
    pairs = Filter(input=pairs, condition=IsNull(arg=action, negated=True, type=BOOLEAN), fields=pairs.fields)
    statement.merge_action = _action_name(action, actions)
    returning, joined, _ = joined_returning(level, tree, scan, pairs, tables)
    statement.merge_action = None
    old = [ColumnRef(id=field.id, type=field.type) for field in scan.fields[:-1]]
    new = [_new_value(action, place, before, changes) for place, before in enumerate(old)]
    others = [ColumnRef(id=field.id, type=field.type) for field in joined]
    exprs = (target.row_id, *old, *new, action, *others)
    names = ["_row_id", *(column.name for _ in range(2) for column in target.live), "_action"]
    names += [field.name for field in joined]
    fields = tuple(statement.new_field(name, expr.type) for name, expr in zip(names, exprs, strict=True))
    pairs = found_rows(statement, changed, scan, [], pairs)
    read = with_tables(tables, Project(input=pairs, exprs=exprs, fields=fields))
    computed = computing(statement, relation)
    return BoundMerge(
        relation_oid=relation.oid,
        columns=tuple(column.attnum for column in target.live),
        read=bound_query(statement, read),
        actions=tuple(actions),
        computed=None if computed is None else bound_query(statement, computed),
        returning=returning,
        policies=_policies(statement, changed, {action.command for action in actions}, returned=returning is not None),
    )


def _spelled_out(clause: Tree, changed: ChangeTarget, sources: Sequence[NsItem]) -> Tree:
    """`clause`, whose columns may be those of other dialects' UPDATE SET * and INSERT *: all of the target, with the
    source's of these names. Raises 0A000 where it is not one table."""
    if [node.res_target.name for node in clause.target_list] != [CALLED_ALIKE]:
        return clause
    if len(sources) != 1 or sources[0].alias is None:
        raise FeatureNotSupported("MERGE with * needs a source that is one table, or has a name")
    whole = pb.MergeWhenClause()
    whole.CopyFrom(clause)
    del whole.target_list[:]
    del whole.values[:]
    for column in changed.live:
        if column.generated:
            continue
        value = pb.Node()
        for name in (sources[0].alias, column.name):
            value.column_ref.fields.add().string.sval = name
        target = whole.target_list.add().res_target
        target.name = column.name
        if clause.command_type == pb.CMD_UPDATE:
            target.val.CopyFrom(value)
        else:
            whole.values.add().CopyFrom(value)
    return whole


def _policies(
    statement: Statement, target: ChangeTarget, commands: Collection[str], *, returned: bool
) -> MergePolicies | None:
    updates = "update" in commands
    policies = MergePolicies(
        inserted=inserted_checks(statement, target, returned=returned) if "insert" in commands else None,
        replaced=merged_checks(statement, target, UPDATE) if updates else None,
        updated=updated_checks(statement, target) if updates else None,
        deleted=merged_checks(statement, target, DELETE) if "delete" in commands else None,
    )
    return None if policies == MergePolicies() else policies


def _refuse_unreachable(clauses: Sequence[Tree]) -> None:
    always: set[int] = set()
    for clause in clauses:
        if clause.match_kind == pb.MERGE_WHEN_NOT_MATCHED_BY_SOURCE:
            raise FeatureNotSupported("WHEN NOT MATCHED BY SOURCE is not supported")
        if clause.match_kind in always:
            raise SqlSyntaxError("unreachable WHEN clause specified after unconditional WHEN clause")
        if not clause.HasField("condition"):
            always.add(clause.match_kind)


def _applies(target: _Target, clause: Tree) -> Scalar:
    """Whether a pair is one that the clause is about."""
    matched = clause.match_kind == pb.MERGE_WHEN_MATCHED
    is_pair: Scalar = IsNull(arg=target.row_id, negated=matched, type=BOOLEAN)
    target.offer(target=matched)
    if not clause.HasField("condition"):
        return is_pair
    bound = bind_clause(target.level, clause.condition, MERGE_CLAUSE)
    condition = to_boolean(target.statement, bound, "WHEN")
    if target.statement.notes is not None:
        target.statement.notes.change(clause).where = condition
    return BoolOp(op="and", args=(is_pair, condition), type=BOOLEAN)


def _values(target: _Target, clause: Tree) -> tuple[dict[int, Scalar], tuple[tuple[int, Scalar], ...]]:
    """The columns (by place) that the clause gives values, and those that are to be numbered by a sequence."""
    statement, live, types = target.statement, target.live, target.types
    if clause.command_type == pb.CMD_UPDATE:
        old = [ColumnRef(id=field.id, type=field.type) for field in target.scan.fields[:-1]]
        written = given_values(target.level, clause)
        changes, given = assigned_values(target.level, target.changed, clause, written, old)
        refuse_updates(live, given)
        return changes, ()
    if clause.command_type != pb.CMD_INSERT:
        return {}, ()
    places = insert_columns(statement, target.changed, clause.target_list)
    note_columns(target.level, clause, target.changed, places, clause.target_list)
    nodes = list(clause.values)
    target.level.clause = "VALUES"
    values, given = _inserted(target, clause, places, nodes)
    target.level.clause = None
    refuse_values(live, given, clause.override)
    numbered = []
    for place, expr in values.items():
        inner = expr.arg if isinstance(expr, Cast) else expr
        if isinstance(inner, Call) and inner.signature.name == "nextval" and isinstance(inner.args[0], Literal):
            numbered.append((place, inner.args[0]))
            values[place] = Literal(value=None, type=types[place])
    return values, tuple(numbered)


def _inserted_item(
    target: _Target, clause: Tree, named: Tree | None, node: Tree, place: int, before: Scalar | None
) -> Scalar:
    """What the clause gives the column at `place`, or the whole of it, which was `before`, with the part that `named`
    means."""
    column, type = target.live[place], target.types[place]
    if named is None or not named.indirection:
        return inserted_value(target.level, node, column, type, clause.override)
    is_default = node.HasField("set_to_default")
    value = None if is_default else finish_row(target.statement, bind(target.level, node), type)
    return assign_part(target.level, named, column, type, before or Literal(value=None, type=type), value)


def _inserted(
    target: _Target, clause: Tree, places: Sequence[int], nodes: Sequence[Tree]
) -> tuple[dict[int, Scalar], set[int]]:
    statement, live, types = target.statement, target.live, target.types
    if len(nodes) > len(places):
        extra = bind_clause(target.level, nodes[len(places)], "VALUES")
        raise SqlSyntaxError("INSERT has more expressions than target columns", position=statement.position_of(extra))
    if nodes and len(nodes) < len(places) and clause.target_list:
        position = statement.position(clause.target_list[len(nodes)].res_target.location)
        raise SqlSyntaxError("INSERT has more target columns than expressions", position=position)
    row: list[Scalar] = []
    values: dict[int, Scalar] = {}
    given: set[int] = set()
    for number, (place, node) in enumerate(zip(places, nodes, strict=False)):
        if not node.HasField("set_to_default"):
            given.add(place)
        target.changed.assigned(place, "merge", inserted=True)
        named = clause.target_list[number].res_target if clause.target_list else None
        values[place] = _inserted_item(target, clause, named, node, place, values.get(place))
        row.append(values[place])
    if statement.notes is not None:
        statement.notes.change(clause).rows = [row]
    for place, column in enumerate(live):
        if place not in values:
            values[place] = default_value(statement, column, types[place])
    return values, given


def _new_value(action: Scalar, place: int, before: Scalar, changes: Sequence[dict[int, Scalar]]) -> Scalar:
    whens = tuple((_is(action, number), values[place]) for number, values in enumerate(changes, 1) if place in values)
    return Case(whens=whens, otherwise=before, type=before.type) if whens else before


def _is(action: Scalar, number: int) -> Scalar:
    return Distinct(left=action, right=Literal(value=number, type=SqlType(INT4)), negated=True, type=BOOLEAN)


def _action_name(action: Scalar, actions: Sequence[MergeAction]) -> Scalar:
    """merge_action()."""
    type = SqlType(TEXT)
    whens = tuple(
        (_is(action, number), Literal(value=each.command.upper(), type=type))
        for number, each in enumerate(actions, 1)
        if each.command != "nothing"
    )
    return Case(whens=whens, otherwise=None, type=type) if whens else Literal(value=None, type=type)
