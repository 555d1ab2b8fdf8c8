"""What a change of rows is about: a table, or a view through which rows of a table are changed.

Through a view the table is read and written itself. The statement's names are those of the view; its columns stand for
expressions over the table's, its condition and those of views below it limit the rows that are found, and with WITH
CHECK OPTION also those that may be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from planner.common_errors import missing_column, too_deep
from planner.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    ObjectNotInPrerequisiteState,
    WrongObjectType,
)
from planner.expressions.bind import bind_clause
from planner.ir.bound import ViewChecks
from planner.ir.nodes import (
    RETURNING_ROWS,
    BooleanTest,
    Case,
    ColumnRef,
    CteScan,
    Filter,
    Literal,
    Origin,
    Project,
    Rel,
    Scalar,
    Scan,
)
from planner.ir.rewrite import column_ids
from planner.queries.changes.column_values import bound_query
from planner.queries.changes.updatable_views import NO_COLUMNS, UpdatableView, base_item, updatable_view
from planner.queries.relations import (
    MAX_VIEW_DEPTH,
    bind_in_view,
    find_relation,
    is_invoked,
    offer,
    scan_table,
    schema_name,
    undefined_table,
)
from planner.queries.target_list import bind_targets
from planner.resolution.casting import to_boolean
from planner.resolution.operators import BOOLEAN
from planner.resolution.required import Use
from planner.resolution.statement import Level, NsColumn, NsItem, Statement
from planner.statements.records import QualifiedName
from planner.syntax.parse import Tree
from planner.types.system_relations import SYSTEM_COLUMN_NAMES, SystemRelation
from planner.types.types import INT4, SqlType, type_of_column
from storage.catalog.model import Column, Relation

_VERBS = {
    "insert": ("insert into", "inserting into", "INSERT"),
    "update": ("update", "updating", "UPDATE"),
    "delete": ("delete from", "deleting from", "DELETE"),
}


@lru_cache(maxsize=256)
def _places(relation: Relation) -> Mapping[str, int]:
    """The place of each column among the live ones, by name."""
    return {column.name: place for place, column in enumerate(relation.live_columns())}


@lru_cache(maxsize=256)
def _live(relation: Relation) -> tuple[Column, ...]:
    return relation.live_columns()


_PRIVILEGES = {"insert": "a", "update": "w", "delete": "d", "merge": ""}


class ChangeTarget(Struct, frozen=True, kw_only=True):
    """`relation` is the table; `named` is what the statement names, a view if there are `views`, outermost first."""

    relation: Relation
    named: Relation
    views: tuple[UpdatableView, ...] = ()
    uses: tuple[Use, ...] = ()
    """What is needed of each of the views, and of the table."""

    @property
    def live(self) -> tuple[Column, ...]:
        """The table's columns."""
        return self.relation.live_columns()

    @property
    def types(self) -> list[SqlType]:
        """Their types."""
        return [type_of_column(column) for column in self.live]

    def index(self, name: str, position: int | None, *, assigned: bool = False) -> int:
        """The place of the column that a statement calls `name`, among those of `named`. Raises 42703, and 0A000 for a
        system column that is `assigned`."""
        place = _places(self.named).get(name)
        if place is None and assigned and name in SYSTEM_COLUMN_NAMES:
            raise FeatureNotSupported(f'cannot assign to system column "{name}"', position=position)
        if place is None:
            raise missing_column(self.named.name, name, position)
        return place

    def need(self, privileges: str) -> None:
        """The change needs these privileges besides: of the view its user, of what is below it its owner."""
        for use in self.uses:
            use.privileges += privileges

    def assigned(self, index: int, verb: str, *, inserted: bool = False) -> int:
        """`place` of a column that is given a value, in a row that is `inserted` or else updated."""
        place = self.place(index, verb)
        relations = (*(view.view for view in self.views), self.relation)
        below: int | None = index
        for depth, (use, relation) in enumerate(zip(self.uses, relations, strict=True)):
            assert below is not None
            (use.inserted if inserted else use.updated).add(_live(relation)[below].attnum)
            if depth < len(self.views):
                below = self.views[depth].columns[below].below
        return place

    def read(self, attnums: Sequence[int]) -> None:
        """Columns of the table, by attnum, are read to find out whether a row is there."""
        self.uses[-1].selected.update(attnums)
        wanted = {place for place, column in enumerate(self.live) if column.attnum in attnums}
        for use, view in zip(reversed(self.uses[:-1]), reversed(self.views), strict=True):
            wanted = {index for index, column in enumerate(view.columns) if column.below in wanted}
            use.selected.update(_live(view.view)[index].attnum for index in wanted)

    def default_column(self, index: int) -> Column:
        """The column whose DEFAULT counts for the column `index` of `named`, which rows can be changed through: that of
        the outermost view that has one."""
        for view in self.views:
            column = _live(view.view)[index]
            if column.default is not None:
                return column
            index = view.columns[index].below or 0
        return self.live[index]

    def view_defaults(self, given: Sequence[int]) -> Mapping[int, Column]:
        """The columns of views whose DEFAULT an INSERT takes that gives values for the columns `given` of `named`, by
        their places in the table. Raises 0A000 for such as rows cannot be changed through."""
        found: dict[int, Column] = {}
        indexes = set(given)
        for depth, view in enumerate(self.views):
            for index, column in enumerate(_live(view.view)):
                if column.default is not None and index not in indexes:
                    found[self.place(index, "insert", depth)] = column
                    indexes.add(index)
            indexes = {below for index in indexes if (below := view.columns[index].below) is not None}
        return found

    def place(self, index: int, verb: str, depth: int = 0) -> int:
        """The place of the table's column that the column `index` of `named`, or else of the view at `depth`, is.
        Raises 0A000 when it is none."""
        for view in self.views[depth:]:
            column = view.columns[index]
            if column.below is None:
                into = _VERBS[verb][0].removesuffix(" from")
                raise FeatureNotSupported(
                    f'cannot {into} column "{column.name}" of view "{view.view.name}"', detail=column.reason
                )
            index = column.below
        return index


_NOT_MERGED = {"v": "views", "m": "materialized views", "f": "foreign tables"}


def change_target(statement: Statement, tree: Tree, verb: str) -> ChangeTarget:
    """What a RangeVar names as the target of a change: "insert", "update", "delete" or "merge". Raises 42P01, 42809,
    42501, 55000, 0A000."""
    position = statement.position(tree.location)
    name = QualifiedName(
        name=tree.relname, schema=tree.schemaname or None, database=tree.catalogname or None, position=position
    )
    found = find_relation(statement.context, name, stored=statement.required.stored)
    if found is None:
        raise undefined_table(name, position)
    if isinstance(found, SystemRelation):
        raise InsufficientPrivilege(f'permission denied: "{found.name}" is a system catalog')
    if not isinstance(found, Relation):
        raise WrongObjectType(f'cannot change sequence "{found.name}"')
    if found.kind in _NOT_MERGED and verb == "merge":
        kinds = _NOT_MERGED[found.kind]
        raise FeatureNotSupported(
            f'cannot execute MERGE on relation "{found.name}"', detail=f"This operation is not supported for {kinds}."
        )
    if found.foreign is not None and verb != "insert":
        what = {"insert": "insert into", "delete": "delete from"}.get(verb, verb)
        raise FeatureNotSupported(f'cannot {what} foreign table "{found.name}"')
    if found.kind == "m":
        raise WrongObjectType(f'cannot change materialized view "{found.name}"')
    views: list[UpdatableView] = []
    relation = found
    if found.kind == "v" and statement.notes is not None:
        # Its own names are printed.
        statement.relations.add(found.oid)
        return ChangeTarget(relation=found, named=found, uses=(statement.required.use(found.oid, _PRIVILEGES[verb]),))
    required = statement.required
    needed = _PRIVILEGES[verb]
    uses = [required.use(found.oid, needed)]
    statement.relations.add(found.oid)
    while relation.kind == "v":
        if len(views) >= MAX_VIEW_DEPTH:
            raise too_deep()
        views.append(_updatable(statement, relation, verb))
        with required.inside_view(None if is_invoked(relation) else relation.owner):
            relation = views[-1].base
            uses.append(required.use(relation.oid, needed))
        statement.relations.add(relation.oid)
    return ChangeTarget(relation=relation, named=found, views=tuple(views), uses=tuple(uses))


def _updatable(statement: Statement, view: Relation, verb: str) -> UpdatableView:
    with statement.required.without_notes():
        analyzed = updatable_view(statement, view)
    if isinstance(analyzed, UpdatableView) and (verb == "delete" or analyzed.has_updatable_columns):
        return analyzed
    what, doing, event = _VERBS[verb]
    raise ObjectNotInPrerequisiteState(
        f'cannot {what} view "{view.name}"',
        detail=NO_COLUMNS if isinstance(analyzed, UpdatableView) else analyzed,
        hint=f"To enable {doing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO "
        "INSTEAD rule.",
    )


def note_item(level: Level, tree: Tree, item: NsItem) -> None:
    """Notes `item`, bound in `level`, as one that stands for the row that `tree` changes."""
    if level.statement.notes is not None:
        noted = level.statement.notes.change(tree)
        noted.level = level
        noted.items.append(item)


def note_columns(level: Level, tree: Tree, target: ChangeTarget, given: Sequence[int], nodes: Sequence[Tree]) -> None:
    """Notes the columns `given` that an INSERT lists as `nodes`, if it lists any."""
    if level.statement.notes is None:
        return
    live = target.named.live_columns()
    trees = [node.res_target for node in nodes] or [None] * len(given)
    noted = level.statement.notes.change(tree)
    noted.level, noted.columns = level, [(live[index].name, node) for index, node in zip(given, trees, strict=True)]


def bind_where(level: Level, tree: Tree) -> Scalar:
    """The WHERE of a change of rows or a clause of it."""
    condition = to_boolean(level.statement, bind_clause(level, tree.where_clause, "WHERE"), "WHERE")
    if level.statement.notes is not None:
        level.statement.notes.change(tree).where = condition
    return condition


def scan_target(
    level: Level, target: ChangeTarget, alias: Tree | None, location: int, *, row_id: bool = False
) -> tuple[Rel, Scan, NsItem]:
    """The rows of `target`: the table's columns, those rows of them that a view shows, their scan, and what they are
    called."""
    if not target.views:
        scan, item = scan_table(level, target.relation, alias, location, row_id=row_id)
        offer(level, target.uses[0], item)
        return scan, scan, item
    scan, item = scan_table(level, target.relation, None, location, row_id=row_id, versions=True)
    offer(level, target.uses[-1], item)
    item, conditions = through_views(level, target.views, item, target.uses)
    if alias is not None:
        item.alias, item.aliased = alias.aliasname, True
    rel: Rel = scan
    for condition in conditions:
        if condition is not None:
            rel = Filter(input=rel, condition=condition, fields=rel.fields)
    return rel, scan, item


def through_views(
    level: Level, views: Sequence[UpdatableView], item: NsItem, uses: Sequence[Use] = ()
) -> tuple[NsItem, list[Scalar | None]]:
    """What the outermost of `views` offers over the table that offers `item`, and the condition of each, the innermost
    first. `uses` are what is needed of each of the views."""
    statement = level.statement
    # What the views' queries refer to, the statement does not.
    before = len(level.references)
    conditions: list[Scalar | None] = []
    for depth, view in reversed([*enumerate(views)]):

        def bind(inner: Level, view: UpdatableView = view, below: NsItem = item) -> tuple[list[Scalar], Scalar | None]:
            tree = view.parsed.tree
            reference = tree.from_clause[0].range_var
            source = base_item(inner, reference, view.base, below.columns, reference.schemaname)
            source.system_columns = below.system_columns
            inner.namespace.append(source)
            inner.rtes.append(source)
            exprs = [target.expr for target in bind_targets(inner, tree.target_list, "SELECT")]
            condition = None
            if tree.HasField("where_clause"):
                condition = to_boolean(statement, bind_clause(inner, tree.where_clause, "WHERE"), "WHERE")
            return exprs, condition

        exprs, condition = bind_in_view(statement, bind, view.parsed)
        del level.references[before:]
        conditions.append(condition)
        columns = []
        offered: dict[int, list[int]] = {}
        for column, expr in zip(view.view.live_columns(), exprs, strict=True):
            for id in column_ids(expr):
                offered.setdefault(id, []).append(column.attnum)
            if isinstance(expr, ColumnRef):
                statement.origins[expr.id] = Origin(relation_oid=view.view.oid, attnum=column.attnum)
            columns.append(NsColumn(column.name, expr=expr))
        if uses:
            uses[depth].offering(level.references, offered)
        item = NsItem(
            alias=view.view.name,
            columns=columns,
            schema=schema_name(statement.context, view.view.schema),
            relation_name=view.view.name,
            relation_oid=view.view.oid,
        )
    return item, conditions


def view_checks(statement: Statement, target: ChangeTarget) -> ViewChecks | None:
    """What views WITH CHECK OPTION require of new rows; None when none does."""
    checked: list[bool] = []
    cascaded = False
    for view in target.views:
        option = view.view.check_option
        checked.append(cascaded or option is not None)
        cascaded = cascaded or option == "cascaded"
    if not any(checked):
        return None
    level = Level(statement, None)
    scan, item = scan_table(level, target.relation, None, -1)
    _, conditions = through_views(level, target.views, item)
    names: list[str] = []
    whens: list[tuple[Scalar, Scalar]] = []
    for view, wanted, condition in zip(reversed(target.views), reversed(checked), conditions, strict=True):
        if wanted and condition is not None:
            names.append(view.view.name)
            number = Literal(value=len(names), type=SqlType(INT4))
            whens.append((BooleanTest(arg=condition, test="true", negated=True, type=BOOLEAN), number))
    if not whens:
        return None
    failing = statement.new_field("failing", SqlType(INT4))
    first = Case(whens=tuple(whens), otherwise=Literal(value=0, type=failing.type), type=failing.type)
    rows = CteScan(cte=RETURNING_ROWS, fields=scan.fields)
    query = bound_query(statement, Project(input=rows, exprs=(first,), fields=(failing,)))
    return ViewChecks(views=tuple(names), query=query)
