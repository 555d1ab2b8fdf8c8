"""tidegate.as_of and tidegate.changes in FROM.

    SELECT * FROM tidegate.as_of('accounts', '2026-11-23 09:15') WHERE id = 7
    SELECT * FROM tidegate.changes('accounts', $1, tidegate.current_csn())

The name is a constant, for what columns a statement has is known before it runs. A moment may be an expression: it is
evaluated by itself first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from msgspec import Struct

from planner.calls.user_calls import UserRows
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidParameterValue, SqlError, UndefinedFunction
from planner.expressions.bind import bind
from planner.files.past_queries import as_it_was, at_moment
from planner.ir.nodes import ColumnRef, CteScan, Origin, Project, Rel, Scan
from planner.ir.past_rows import PAST_ROWS, PastMoment, PastTable
from planner.resolution.casting import coerce_to_target
from planner.resolution.coercion import Context
from planner.resolution.query import bind_query
from planner.resolution.reg_types import split_name
from planner.resolution.row_security import readable
from planner.resolution.statement import Level
from planner.syntax.identifiers import quote_identifier
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Parsed, Tree, split_and_parse, subtrees
from planner.types.types import INT8, TEXT, UNKNOWN, SqlType, type_of_column
from storage.catalog.model import Schema

_SCHEMA = "tidegate"
_MOMENTS = {"as_of": 1, "changes": 2}
"""The functions, with the number of moments that each takes after the name of the table."""


class PastCall(Struct, frozen=True, kw_only=True, eq=False):
    """A call as it is written: the parts of the table's name, and the moments, as constants (their texts) or as queries
    of one value each."""

    location: int
    name: tuple[str, ...]
    moments: tuple[str | Parsed, ...]


def is_past_call(call: Tree) -> bool:
    """Whether a FuncCall is one of these functions."""
    names = strings(call.funcname)
    return len(names) == 2 and names[0] == _SCHEMA and names[1] in _MOMENTS


def past_calls(parsed: Parsed) -> tuple[PastCall, ...]:
    """The calls anywhere in a statement. One that is wrong is left to the binder."""
    found = []
    if parsed.reads_past:
        for tree in subtrees(parsed.tree):
            if tree.DESCRIPTOR.name == "FuncCall" and is_past_call(tree):
                try:
                    found.append(past_call(parsed, tree))
                except SqlError:
                    continue
    return tuple(found)


def bind_past_call(level: Level, call: Tree) -> UserRows:
    """The rows of a call in FROM.

    Raises what looking its table up has raised, 42883 for another number of arguments, 22023 and 0A000 for a name that
    is no constant, 42602 for one that is none, 42804 for a moment of another type, and 0A000 in views and functions.
    """
    statement = level.statement
    name = ".".join(strings(call.funcname))
    position = statement.position(call.location)
    past_call(statement.parsed, call, position)
    if statement.definition is not None or statement.view_depth or statement.arguments is not None:
        raise FeatureNotSupported(f"{name} cannot be used in a stored definition", position=position)
    for moment in call.args[1:]:
        value = bind(level, moment)
        # A parameter of no type is a text: a moment as it is written.
        text = SqlType(TEXT)
        if value.type.oid == UNKNOWN and coerce_to_target(statement, value, text, Context.IMPLICIT) is None:
            raise DatatypeMismatch(f"{name} takes CSNs and times", position=position)
    past = statement.context.past
    found = past.calls.get(call.location) if past.text == statement.parsed.text else None
    if found is None:
        raise FeatureNotSupported(f"{name} cannot be used here", position=position)
    if isinstance(found, SqlError):
        raise found
    if found.moment is not None and found.since is None:
        return UserRows(name=strings(call.funcname)[-1], rel=_view_rows(level, found, found.moment), is_value=False)
    id = PAST_ROWS - len(statement.past)
    statement.past[id] = found
    rel = _rows(level, id, found) if found.since is None else _changes(level, id, found)
    return UserRows(name=strings(call.funcname)[-1], rel=rel, is_value=False)


def _rows(level: Level, id: int, table: PastTable) -> Rel:
    """The rows of a table as it was, without the oid of the table of today, whose keys may be others."""
    statement = level.statement
    columns = table.relation.live_columns()
    fields = [
        statement.new_field(column.name, type_of_column(column), Origin(relation_oid=id, attnum=column.attnum))
        for column in columns
    ]
    shown = tuple(statement.new_field(field.name, field.type) for field in fields)
    scan = Scan(relation_oid=id, fields=tuple(fields))
    use = statement.required.use(table.relation.oid, "r")
    use.then = table.then
    places = {field.id: [column.attnum] for field, column in zip(shown, columns, strict=True)}
    use.offering(level.references, places)
    rel: Rel = scan
    if statement.context.policies is not None:
        rel = readable(statement, scan, table.relation)
    exprs = tuple(ColumnRef(id=field.id, type=field.type) for field in fields)
    return Project(input=rel, exprs=exprs, fields=shown)


def _view_rows(level: Level, view: PastTable, moment: PastMoment) -> Rel:
    """What the query of a view gave."""
    statement = level.statement
    schema = moment.then.get(view.relation.schema)
    assert isinstance(schema, Schema)
    text = f"SELECT * FROM {quote_identifier(schema.name)}.{quote_identifier(view.relation.name)}"
    outer = statement.parsed
    with at_moment(statement, moment):
        statement.parsed = split_and_parse(text)[0]
        try:
            rel = bind_query(Level(statement, None), statement.parsed.tree)
        finally:
            statement.parsed = outer
    rel = as_it_was(statement, moment, rel)
    fields = tuple([statement.new_field(field.name, field.type) for field in rel.fields])
    return Project(
        input=rel, exprs=tuple([ColumnRef(id=field.id, type=field.type) for field in rel.fields]), fields=fields
    )


def _changes(level: Level, id: int, table: PastTable) -> Rel:
    """What was done to a table: the CSN and the diff, then its columns."""
    statement = level.statement
    columns = table.relation.live_columns()
    leading = [statement.new_field(name, SqlType(INT8)) for name in ("tidegate_csn", "tidegate_diff")]
    fields = [statement.new_field(column.name, type_of_column(column)) for column in columns]
    use = statement.required.use(table.relation.oid, "r")
    use.then = table.then
    use.offering(level.references, {f.id: [c.attnum] for f, c in zip(fields, columns, strict=True)})
    return CteScan(cte=id, fields=(*leading, *fields))


def past_call(parsed: Parsed, call: Tree, position: int | None = None) -> PastCall:
    """A call with the name of a table and moments. Raises as `bind_past_call` does."""
    name = ".".join(strings(call.funcname))
    wanted = 1 + _MOMENTS.get(strings(call.funcname)[-1], 1)
    plain = not (call.agg_star or call.agg_distinct or call.agg_order or call.HasField("agg_filter"))
    if (
        len(call.args) != wanted
        or not plain
        or call.HasField("over")
        or call.func_variadic
        or any(arg.HasField("named_arg_expr") for arg in call.args)
    ):
        raise UndefinedFunction(
            f"{name} takes the name of a table and {'a moment' if wanted == 2 else 'two moments'}", position=position
        )
    table = call.args[0]
    if not table.HasField("a_const"):
        raise FeatureNotSupported(f"the table of {name} must be a constant", position=position)
    if table.a_const.WhichOneof("val") != "sval":
        raise InvalidParameterValue(f"the table of {name} must be named by a text", position=position)
    moments = tuple(_moment(parsed, call, number) for number in range(1, wanted))
    return PastCall(location=call.location, name=tuple(split_name(table.a_const.sval.sval)), moments=moments)


@cache
def _one_value() -> Parsed:
    return split_and_parse("SELECT NULL")[0]


def _moment(parsed: Parsed, call: Tree, number: int) -> str | Parsed:
    node = call.args[number]
    if node.HasField("a_const"):
        constant = node.a_const
        kind = constant.WhichOneof("val")
        if kind == "sval":
            return str(constant.sval.sval)
        if kind == "ival":
            return str(constant.ival.ival)
        if kind == "fval":
            return str(constant.fval.fval)
    select = pb.SelectStmt()
    select.CopyFrom(_one_value().tree)
    select.target_list[0].res_target.val.CopyFrom(node)
    # Plans are told apart by the text and the place where a statement begins.
    start = parsed.start + call.location + number
    return replace(parsed, tree=select, kind="select_stmt", start=start, extension=None, reads_past=False)
