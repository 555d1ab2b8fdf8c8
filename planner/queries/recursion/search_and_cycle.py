"""SEARCH and CYCLE of recursive common tables, which become columns of the table, as PostgreSQL's rewriter makes them:

SEARCH DEPTH FIRST collects the rows on the way in an array, SEARCH BREADTH FIRST has the number of the step and the
row; CYCLE marks a row that is on its own way, the array of the rows so far, and goes on from none that is marked.

An array of records is held as texts, which are in no order: beside it stands an array of what the rows are ordered by,
where one can be made, in a column that no statement sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from planner.errors import DatatypeMismatch, DuplicateColumn, FeatureNotSupported, SqlSyntaxError
from planner.ir.nodes import ColumnRef, Field, RowConstructor
from planner.resolution.coercion import common_type
from planner.resolution.statement import NsColumn, Statement
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree, parse_tree, subtrees, tree_location
from planner.types.type_names import element_of, format_type
from planner.types.types import BOOL, INT2, INT4, INT8, NAME, OID, RECORD, TEXT, UUID, VARCHAR, SqlType

_DEPTH, _SEQUENCE_KEY, _PATH_KEY = "*DEPTH*", "*SEQUENCE*", "*PATH*"
_BEFORE, _STEP = '"*TLOCRN*"', '"*TROCRN*"'
"""What PostgreSQL calls the two terms inside the rewritten query."""

_AS_TEXTS = frozenset({TEXT, VARCHAR, NAME, BOOL, UUID})
"""Types of which the texts are ordered as the values are."""
_INTEGERS = frozenset({INT2, INT4, INT8, OID})


_NAMED = (
    ("search_clause", "search", "search_col_list", (("search_seq_column", "search sequence"),)),
    (
        "cycle_clause",
        "cycle",
        "cycle_col_list",
        (("cycle_mark_column", "cycle mark"), ("cycle_path_column", "cycle path")),
    ),
)
"""The clauses, what they are called, and where they name columns that there are and columns that they make."""


class AddedColumns(Struct, frozen=True, kw_only=True):
    """What the columns behind the first `width` of a common table are for. `offered` are seen by statements, in their
    order, those in `rows` in the form of a row of the columns at these positions. `sorted_by` says by which column one
    is ordered."""

    width: int
    offered: tuple[str, ...]
    rows: dict[str, tuple[int, ...]]
    sorted_by: dict[int, int]


class _Column(Struct, frozen=True):
    """A column that is added: its value in the first rows, and in those of a step over the one before."""

    name: str
    first: str
    following: str


def check_clauses(statement: Statement, tree: Tree, *, recursive: bool) -> bool:
    """Whether a common table has SEARCH or CYCLE. Raises 42601 where it does not refer to itself or its recursive term
    is no SELECT, 0A000 where the other is none."""
    if not tree.HasField("search_clause") and not tree.HasField("cycle_clause"):
        return False
    if not recursive:
        raise SqlSyntaxError("WITH query is not recursive", position=statement.position(tree.location))
    select = tree.ctequery.select_stmt
    for side, term, error in (("left", select.larg, FeatureNotSupported), ("right", select.rarg, SqlSyntaxError)):
        if select.op == pb.SETOP_UNION and term.op != pb.SETOP_NONE:
            raise error(f"with a SEARCH or CYCLE clause, the {side} side of the UNION must be a SELECT")
    return True


def check_names(statement: Statement, tree: Tree, names: Sequence[str]) -> None:
    """Raises PostgreSQL's errors for names that the clauses of a common table with the columns `names` cannot use."""
    taken: dict[str, str] = {}
    for field, what, listed, made in _NAMED:
        if not tree.HasField(field):
            continue
        clause = getattr(tree, field)
        position = statement.position(clause.location)
        seen: set[str] = set()
        for name in strings(getattr(clause, listed)):
            if name not in names:
                raise SqlSyntaxError(f'{what} column "{name}" not in WITH query column list', position=position)
            if name in seen:
                raise DuplicateColumn(f'{what} column "{name}" specified more than once', position=position)
            seen.add(name)
        for attribute, kind in made:
            name = getattr(clause, attribute)
            if name in names:
                raise SqlSyntaxError(
                    f'{kind} column name "{name}" already used in WITH query column list', position=position
                )
        for attribute, kind in made:
            name = getattr(clause, attribute)
            if name in taken:
                first = tree.search_clause if taken[name] == "search sequence" else clause
                raise SqlSyntaxError(
                    f"{taken[name]} column name and {kind} column name are the same",
                    position=statement.position(first.location),
                )
            taken[name] = kind


def check_marks(statement: Statement, tree: Tree, types: tuple[int, int]) -> None:
    """Raises 42804 when the marks of CYCLE, of those types, cannot be of one type."""
    if common_type(list(types)) is None:
        value, default = types
        raise DatatypeMismatch(
            f"CYCLE types {format_type(value)} and {format_type(default)} cannot be matched",
            position=statement.position(tree_location(tree.cycle_clause.cycle_mark_default)),
        )


def rewritten(tree: Tree, names: Sequence[str], fields: Sequence[Field]) -> tuple[Tree, AddedColumns]:
    """The common table without its clauses and with their columns, where its own are called `names` and are `fields`.
    Raises 0A000 when its recursive term refers to it elsewhere than in its FROM."""
    alias = _own_alias(tree)
    columns: list[_Column] = []
    offered: list[str] = []
    rows: dict[str, tuple[int, ...]] = {}
    keys: dict[str, _Column] = {}
    condition = ""
    if tree.HasField("search_clause"):
        clause = tree.search_clause
        places = [names.index(name) for name in strings(clause.search_col_list)]
        offered.append(clause.search_seq_column)
        if clause.search_breadth_first:
            columns.append(_Column(_DEPTH, "0::pg_catalog.int8", f'{_STEP}."{_DEPTH}" + 1'))
            rows[clause.search_seq_column] = (len(names), *places)
        else:
            columns.append(_collected(clause.search_seq_column, f"ROW({_listed(places)})"))
            _add_key(keys, clause.search_seq_column, _SEQUENCE_KEY, fields, places)
    if tree.HasField("cycle_clause"):
        clause = tree.cycle_clause
        places = [names.index(name) for name in strings(clause.cycle_col_list)]
        offered += [clause.cycle_mark_column, clause.cycle_path_column]
        row, path = f"ROW({_listed(places)})", quote_identifier(clause.cycle_path_column)
        columns.append(
            _Column(
                clause.cycle_mark_column,
                "CASE WHEN false THEN $1 ELSE $2 END",
                f"CASE WHEN {row} = ANY ({_STEP}.{path}) THEN $1 ELSE $2 END",
            )
        )
        columns.append(_collected(clause.cycle_path_column, row))
        _add_key(keys, clause.cycle_path_column, _PATH_KEY, fields, places)
        condition = f" WHERE {_STEP}.{quote_identifier(clause.cycle_mark_column)} <> $1"
    columns += keys.values()
    place_of = {column.name: len(names) + index for index, column in enumerate(columns)}
    own = _listed(range(len(names)))
    added = [quote_identifier(column.name) for column in columns]
    query = (
        f"SELECT {', '.join([own, *[column.first for column in columns]])} FROM (SELECT) AS {_BEFORE}({own}) UNION ALL "
        f"SELECT {', '.join([own, *[column.following for column in columns]])} "
        f"FROM (SELECT {', '.join([f'{quote_identifier(alias)}.{name}' for name in added])}) AS "
        f"{_STEP}({', '.join([own, *added])}){condition}"
    )
    table = _put_together(tree, query)
    table.ClearField("search_clause")
    table.ClearField("cycle_clause")
    del table.aliascolnames[:]
    for name in [*names, *[column.name for column in columns]]:
        table.aliascolnames.add().string.sval = name
    sorted_by = {place_of[name]: place_of[key.name] for name, key in keys.items()}
    return table, AddedColumns(width=len(names), offered=tuple(offered), rows=rows, sorted_by=sorted_by)


def _listed(places: Sequence[int]) -> str:
    """A term's columns at `places`, by the names that they have inside the rewritten query."""
    return ", ".join([f'"*{place}"' for place in places])


def _collected(name: str, row: str) -> _Column:
    return _Column(name, f"ARRAY[{row}]", f"{_STEP}.{quote_identifier(name)} || {row}")


def _add_key(keys: dict[str, _Column], name: str, key: str, fields: Sequence[Field], places: Sequence[int]) -> None:
    """The column of what the array of rows `name` is ordered by: the values of all its rows, one after the other, which
    have to be of one type. None where no such type is found."""
    types = [fields[place].type.oid for place in places]
    if len(set(types)) == 1 and types[0] != RECORD and not element_of(types[0]):
        values = _listed(places)
    elif all(type in _AS_TEXTS | _INTEGERS for type in types):
        values = ", ".join([
            f'"*{place}"::pg_catalog.text' if type in _AS_TEXTS
            # All of twenty digits, so that they are ordered as texts.
            else f'("*{place}"::pg_catalog.numeric + 10000000000000000000)::pg_catalog.text'
            for place, type in zip(places, types, strict=True)
        ])  # fmt: skip
    else:
        return
    keys[name] = _Column(key, f"ARRAY[{values}]", f'{_STEP}."{key}" || ARRAY[{values}]')


def _own_alias(tree: Tree) -> str:
    """What the recursive term calls the table itself."""
    step = tree.ctequery.select_stmt.rarg
    taken = {node.common_table_expr.ctename for node in step.with_clause.ctes}
    for reference in _in_from(step.from_clause) if tree.ctename not in taken else ():
        if reference.relname == tree.ctename and not reference.schemaname:
            name: str = reference.alias.aliasname or reference.relname
            return name
    raise FeatureNotSupported(
        f'with a SEARCH or CYCLE clause, the recursive reference to WITH query "{tree.ctename}" must be at the top '
        "level of its right-hand SELECT"
    )


def _in_from(nodes: Sequence[Tree]) -> Iterator[Tree]:
    for node in nodes:
        if node.HasField("range_var"):
            yield node.range_var
        elif node.HasField("join_expr"):
            yield from _in_from([node.join_expr.larg, node.join_expr.rarg])


def _put_together(tree: Tree, text: str) -> Tree:
    """A copy of the common table with the query `text`: the terms of its own stand in the place of the subqueries
    there, the marks of CYCLE in the place of the parameters."""
    table = type(tree)()
    table.CopyFrom(tree)
    query = parse_tree(text).stmts[0].stmt
    clause = tree.cycle_clause if tree.HasField("cycle_clause") else None
    place = tree.search_clause.location if clause is None else clause.location
    for part in list(subtrees(query)):
        if "location" in part.DESCRIPTOR.fields_by_name:
            part.location = place
        if part.DESCRIPTOR.name == "Node" and part.HasField("param_ref") and clause is not None:
            part.CopyFrom(clause.cycle_mark_value if part.param_ref.number == 1 else clause.cycle_mark_default)
    union, own = query.select_stmt, tree.ctequery.select_stmt
    union.all = own.all
    first = union.larg.from_clause[0].range_subselect.subquery.select_stmt
    first.CopyFrom(own.larg)
    step = union.rarg.from_clause[0].range_subselect.subquery.select_stmt
    added = list(step.target_list)
    step.CopyFrom(own.rarg)
    step.target_list.extend(added)
    table.ctequery.CopyFrom(query)
    return table


def offered_columns(statement: Statement, added: AddedColumns, fields: Sequence[Field]) -> list[NsColumn]:
    """The columns that SEARCH and CYCLE offer in a scan of the table with these fields, in their order."""
    refs = [ColumnRef(id=field.id, type=field.type) for field in fields]
    statement.sorted_by.update({refs[place].id: refs[key] for place, key in added.sorted_by.items()})
    by_name = {field.name: field for field in fields[added.width :]}
    columns = []
    for name in added.offered:
        places = added.rows.get(name)
        if places is None:
            columns.append(NsColumn(name, field=by_name[name]))
            continue
        names = tuple([fields[place].name for place in places])
        items = tuple([refs[place] for place in places])
        columns.append(NsColumn(name, RowConstructor(items=items, names=names, type=SqlType(RECORD))))
    return columns
