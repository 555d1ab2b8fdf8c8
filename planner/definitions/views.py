"""Definitions of views: the stored text of the query, the view's columns and what it reads.

The text is the query as written, with every relation name qualified and every `*` written out, so that it means the
same whatever the search path is and whatever columns its tables get later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from planner.collations.conflicts import check_stored
from planner.collations.derivation import Collations
from planner.common_errors import repeated_column
from planner.definitions.columns.noted import write_out_columns
from planner.definitions.deparse import query_text
from planner.definitions.kept_operators import keep_operators
from planner.errors import FeatureNotSupported, SqlSyntaxError, UndefinedParameter
from planner.expressions.rows import row_before
from planner.queries.changes.changes import CHANGES, bind_change
from planner.queries.column_names import column_name
from planner.queries.grammar import new_statement
from planner.queries.relations import find_relation, schema_name
from planner.queries.stored_expressions import parse_expression
from planner.resolution.query import bind_query
from planner.resolution.statement import BindContext, DefinitionNotes, Level, QueryNotes, WithChanges
from planner.statements.records import CreateView, QualifiedName
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Parsed, Tree, split_and_parse, subtrees
from planner.types import derived_oids
from planner.types.system_relations import SystemRelation
from planner.types.type_names import lookup_type
from planner.types.types import REGCLASS, SqlType
from planner.types.user_types import STORED_SCHEMA, position_to_keep
from storage.catalog.model import Relation


class ViewDefinition(Struct, frozen=True, kw_only=True):
    """What CREATE VIEW stores: columns (name, type) in order, `Column.collation` of each, SQL text, and the oids of the
    relations that it reads."""

    columns: tuple[tuple[str, SqlType], ...]
    collations: tuple[int, ...]
    definition: str
    depends_on: tuple[int, ...]
    needs_keys: tuple[int, ...]


def define_view(create: CreateView, context: BindContext) -> ViewDefinition:
    """Binds the query of a CREATE VIEW. Raises what binding raises; 42601 for too many column names, 42P22."""
    return define_query(create.query, create.column_names, context, of_view=True)


def define_query(
    query: Parsed,
    column_names: tuple[str, ...],
    context: BindContext,
    *,
    too_many: str = "CREATE VIEW specifies more column names than columns",
    of_view: bool = False,
) -> ViewDefinition:
    """The definition that a query would have as a view (or materialized view) with these column names; `too_many` says
    that there are more of them than columns, `of_view` that errors are of a view's columns."""
    if query.kind != "select_stmt":
        raise FeatureNotSupported("views must be defined by a SELECT")
    statement = new_statement(query, context)
    statement.outlined = True
    rel = bind_query(Level(statement, None), query.tree)
    if statement.param_types:
        raise UndefinedParameter("there is no parameter $1")
    names = [field.name for field in rel.fields]
    if len(column_names) > len(names):
        raise SqlSyntaxError(too_many)
    names = [*column_names, *names[len(column_names) :]]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise repeated_column(name)
    text, used, keys = written_out(query, context)
    columns = tuple((name, field.type) for name, field in zip(names, rel.fields, strict=True))
    check_stored(rel, query.text, statement.relations, context.catalog)
    collations = Collations(rel, context.catalog.get).of_fields(zip(names, rel.fields, strict=True), of_view=of_view)
    return ViewDefinition(
        columns=columns,
        collations=collations,
        definition=text,
        depends_on=tuple(sorted(used)),
        needs_keys=tuple(sorted(keys)),
    )


def written_out(query: Parsed, context: BindContext) -> tuple[str, set[int], set[int]]:
    """The text of a query or a change of rows in which every name is qualified, every `*` written out and functions of
    users are called by their oids; the oids of the relations, sequences and functions that it names; and those of the
    primary keys that it needs for what it groups by."""
    # A tree of its own, because names are written into it.
    copy = split_and_parse(statement_text(query))[0]
    statement = new_statement(copy, context)
    statement.outlined = True
    notes = statement.definition = DefinitionNotes()
    statement.with_changes = WithChanges(bind=bind_change)
    changes = statement.notes = QueryNotes()
    level = Level(statement, None)
    if copy.kind == "select_stmt":
        bind_query(level, copy.tree)
    elif copy.kind in CHANGES:
        CHANGES[copy.kind](level, copy.tree)
    write_out_columns(changes)
    for tree, alias in notes.unqualified:
        name = tree.fields[0].string.sval
        tree.fields[0].string.sval = alias
        tree.fields.add().string.sval = name
    for join, names_in_common in notes.natural:
        _write_out_natural(join, names_in_common)
    for join, item in changes.merged.values():
        join.join_using_alias.aliasname = item.alias
    if notes.fields:
        _keep_fields(copy.tree, notes.fields)
    _write_out_stars(notes)
    called = [
        (node, column_name(node.val))
        for node in subtrees(copy.tree)
        if node.DESCRIPTOR.name == "ResTarget" and node.HasField("val") and not node.name
    ]
    if notes.enum_values or notes.objects:
        _keep_values(copy.tree, notes)
    keep_functions(copy.tree, notes.functions)
    if notes.operators:
        keep_operators(copy.tree, notes.operators)
    if notes.field_calls:
        _write_out_calls(copy.tree, notes)
    _Qualified(context).visit(copy.tree, frozenset())
    for node, name in called:
        # What is called after a type keeps that name.
        if not node.name and column_name(node.val) != name:
            node.name = name
    used = _with_what_views_read(context, statement.relations)
    named = {oid for type_oid, oid in notes.objects.values() if type_oid == REGCLASS and context.catalog.get(oid)}
    used = used.union(notes.sequences, named, (oid for _, oid in notes.functions))
    return statement_text(copy), used, statement.needs_keys


def _write_out_calls(tree: Tree, notes: DefinitionNotes) -> None:
    """Writes what is a call of a function, and looks like a field of a row, as the call."""
    calls = {id(written): (step, call) for written, step, call in notes.field_calls}
    for node in list(subtrees(tree)):
        kind = node.WhichOneof("node") if node.DESCRIPTOR.name == "Node" else None
        if kind not in ("column_ref", "a_indirection") or id(getattr(node, kind)) not in calls:
            continue
        written = getattr(node, kind)
        step, call = calls[id(written)]
        call.args[0].CopyFrom(row_before(written, step))
        steps = [] if kind == "column_ref" else list(written.indirection)[step + 1 :]
        made = pb.Node()
        made.func_call.CopyFrom(call)
        if steps:
            behind = pb.Node()
            behind.a_indirection.arg.CopyFrom(made)
            behind.a_indirection.indirection.extend(steps)
            made = behind
        node.CopyFrom(made)


def keep_functions(tree: Tree, functions: Sequence[tuple[Tree, int]]) -> None:
    """Calls functions of users by their oids. What is called after a function keeps that name."""
    if not functions:
        return
    for node in list(subtrees(tree)):
        match node.DESCRIPTOR.name:
            case "ResTarget" if node.HasField("val") and not node.name:
                node.name = column_name(node.val)
            case "RangeFunction" if not node.HasField("alias"):
                call = node.functions[0].list.items[0]
                if len(node.functions) == 1 and call.HasField("func_call"):
                    node.alias.aliasname = strings(call.func_call.funcname)[-1]
    for call, oid in functions:
        del call.funcname[:]
        for part in (STORED_SCHEMA, str(oid)):
            call.funcname.add().string.sval = part


def _with_what_views_read(context: BindContext, relations: Iterable[int]) -> set[int]:
    """`relations`, and what the views among them read."""
    found: set[int] = set()
    queue = list(relations)
    while queue:
        oid = queue.pop()
        if oid not in found:
            found.add(oid)
            record = context.catalog.get(oid)
            if isinstance(record, Relation):
                queue += [read for read in record.depends_on if read not in found]
    return found


def _keep_values(tree: Tree, notes: DefinitionNotes) -> None:
    """Writes constants of enums so that they stay what they are when their labels change, and those that name objects
    by the oids of these."""
    for node in list(subtrees(tree)):
        if node.DESCRIPTOR.name != "Node":
            continue
        # A constant of unknown type is converted by the cast over it.
        inner = node.type_cast.arg if node.HasField("type_cast") else node
        if not inner.HasField("a_const") or not inner.a_const.HasField("sval"):
            continue
        location = inner.a_const.location
        if location in notes.enum_values:
            _, constant = parse_expression(position_to_keep(*notes.enum_values[location]))
            node.CopyFrom(constant)
        elif location in notes.objects:
            inner.a_const.sval.sval = str(notes.objects[location][1])


def statement_text(parsed: Parsed) -> str:
    """The SQL text of a statement, in one line."""
    node = pb.Node()
    getattr(node, parsed.kind).CopyFrom(parsed.tree)
    return query_text(node)


NO_COMMON_COLUMN = "NOT false"
"""The condition that an outer NATURAL join without a column in common is kept with; PostgreSQL shows that it has none.
"""


def _write_out_natural(join: Tree, names: list[str]) -> None:
    """Says the columns of a NATURAL join, which would change with the columns of its sides."""
    join.is_natural = False
    for name in names:
        join.using_clause.add().string.sval = name
    if not names and join.jointype != pb.JOIN_INNER:
        join.quals.CopyFrom(parse_expression(NO_COMMON_COLUMN)[1])


def _keep_fields(tree: Tree, fields: Sequence[tuple[Tree, str]]) -> None:
    """Calls fields of composite types by the names that last. What is called after a field keeps that name."""
    for node in list(subtrees(tree)):
        if node.DESCRIPTOR.name == "ResTarget" and node.HasField("val") and not node.name:
            steps = node.val.a_indirection.indirection if node.val.HasField("a_indirection") else ()
            if len(steps) and steps[len(steps) - 1].HasField("string"):
                node.name = steps[len(steps) - 1].string.sval
    for step, name in fields:
        step.string.sval = name


def _write_out_stars(notes: DefinitionNotes) -> None:
    """Replaces the stars of target lists by the columns and fields that they stand for."""
    selects = {id(select): (select, dict[int, list[Tree]]()) for select, _ in (*notes.stars, *notes.rows)}
    for select, expansion in notes.stars:
        for index, columns in expansion.items():
            selects[id(select)][1][index] = columns
    for select, fields in notes.rows:
        for index, names in fields.items():
            star = _targets(select)[index].res_target.val
            selects[id(select)][1][index] = [_field(star, *name) for name in names]
    for select, written in selects.values():
        nodes: list[Tree] = []
        targets = _targets(select)
        for index, node in enumerate(targets):
            kept = pb.Node()
            kept.CopyFrom(node)
            nodes.extend(written.get(index, [kept]))
        del targets[:]
        targets.extend(nodes)


def _targets(select: Tree) -> Any:
    """The target list of a query, or of a RETURNING."""
    return select.exprs if select.DESCRIPTOR.name == "ReturningClause" else select.target_list


def _field(star: Tree, name: str, kept: str) -> Tree:
    """The field of the row that `star`, an A_Indirection, has all fields of."""
    node = pb.Node()
    node.res_target.name = name
    node.res_target.val.CopyFrom(star)
    steps = node.res_target.val.a_indirection.indirection
    steps[len(steps) - 1].string.sval = kept
    return node


class _Qualified:
    """Writes the schema into every relation name that is not a common table's."""

    def __init__(self, context: BindContext) -> None:
        self.context = context

    def visit(self, node: Any, ctes: frozenset[str]) -> None:
        """Descends into `node`; `ctes` are the names of common tables in scope."""
        name = node.DESCRIPTOR.name
        if name == "RangeVar":
            self._range_var(node, ctes)
            return
        if name == "TypeName":
            self._type_name(node)
            return
        changes = name in ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt")
        if changes:
            # No common table is changed.
            self._range_var(node.relation, frozenset())
        if (changes or name == "SelectStmt") and node.HasField("with_clause"):
            inner = ctes
            for cte in node.with_clause.ctes:
                own = cte.common_table_expr.ctename
                self.visit(cte.common_table_expr.ctequery, inner | {own} if node.with_clause.recursive else inner)
                inner = inner | {own}
            ctes = inner
        for descriptor, value in node.ListFields():
            if descriptor.message_type is None or descriptor.name in ("with_clause", "locked_rels"):
                continue
            if descriptor.is_repeated:
                for item in value:
                    self.visit(item, ctes)
            else:
                self.visit(value, ctes)

    def _type_name(self, node: Any) -> None:
        """Calls a type of a user by the oid of its record."""
        row = lookup_type(strings(node.names))
        owner = derived_oids.owner_of_row_type(row.oid) if row is not None else None
        if owner is not None:
            del node.names[:]
            for part in (STORED_SCHEMA, str(owner)):
                node.names.add().string.sval = part

    def _range_var(self, node: Any, ctes: frozenset[str]) -> None:
        if node.schemaname or node.relname in ctes:
            return
        found = find_relation(self.context, QualifiedName(name=node.relname))
        if isinstance(found, SystemRelation):
            node.schemaname = found.schema
        elif isinstance(found, Relation):
            node.schemaname = schema_name(self.context, found.schema)
