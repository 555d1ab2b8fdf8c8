"""json_to_record, json_to_recordset, json_populate_record, json_populate_recordset, and those of jsonb, in FROM: each
is a query of one expression for each column, put together as text from the types of the columns. json_populate_record
elsewhere is a subquery of one row, json_populate_recordset the elements of an array of rows."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from planner.calls.user_calls import UserRows
from planner.errors import DatatypeMismatch, FeatureNotSupported, SqlSyntaxError
from planner.expressions.bind import bind
from planner.functions.own import SCHEMA
from planner.ir.nodes import Cast, ColumnRef, Literal, Scalar, ScalarSubquery
from planner.ir.written import FunctionCall
from planner.resolution.casting import coerce
from planner.resolution.coercion import Context
from planner.resolution.query import bind_query
from planner.resolution.records import record_fields
from planner.resolution.statement import Level
from planner.syntax.identifiers import quote_identifier, quote_literal
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree, parse_tree, subtrees
from planner.types.type_names import element_of, format_type
from planner.types.types import BPCHAR, JSON, JSONB, RECORD, TEXT, UNKNOWN, VARCHAR, SqlType, column_type
from planner.types.user_types import attributes

_TO_RECORD = frozenset({"json_to_record", "json_to_recordset", "jsonb_to_record", "jsonb_to_recordset"})
_POPULATE = frozenset({
    "json_populate_record", "json_populate_recordset", "jsonb_populate_record", "jsonb_populate_recordset",
})  # fmt: skip

_ONE = frozenset({"json_populate_record", "jsonb_populate_record"})

TYPMOD_HEADER = 4
"""What the typmod of char(n) is more than n (PostgreSQL's VARHDRSZ)."""

_VALUE, _BASE = '"*r"."*v"', '"*r"."*b"'
"""An object, and the row whose fields it has where it says nothing of them."""


def json_records(level: Level, call: Tree, definitions: Sequence[Tree]) -> UserRows | None:
    """The rows of such a call; None for a call of another function. Raises 42601 without the columns that it needs."""
    names = strings(call.funcname)
    name = names[-1]
    if (len(names) > 1 and names[0] != "pg_catalog") or len(call.args) != (1 if name in _TO_RECORD else 2):
        return None
    statement = level.statement
    defined: list[tuple[str, SqlType]] = []
    columns: Sequence[tuple[str, SqlType]] | None
    if name in _TO_RECORD:
        columns, populated = None, False
    elif name in _POPULATE:
        base = bind(level, call.args[0])
        columns, populated = _fields(level, base), not (base.type.oid == RECORD and _is_null(base))
    else:
        return None
    if columns is None or base.type.oid == RECORD:
        if not definitions:
            raise SqlSyntaxError(
                'a column definition list is required for functions returning "record"',
                position=statement.position(call.location),
            )
        nodes = [node.column_def for node in definitions]
        defined = [(node.colname, statement.type_named(node.type_name)) for node in nodes]
    if columns is None and populated:
        raise FeatureNotSupported(
            f"{name} of a row whose fields are not known is not supported", position=statement.position(call.location)
        )
    if columns is None:
        columns = defined
    elif defined:
        _check_defined(columns, defined)
    kind = "jsonb" if name.startswith("jsonb") else "json"
    shown = [column for column, _ in defined or columns]
    rel = bind_query(Level(statement, level), _select(level, call, name, columns, shown, populated=populated))
    written = FunctionCall(name=name, args=_written_arguments(level, call, kind))
    return UserRows(name=name, rel=rel, is_value=False, written=written)


def json_record(level: Level, call: Tree) -> Scalar | None:
    """The value of such a call outside FROM; None for a call of another function, and of a row whose fields are not
    known. Raises 0A000 and 42804 where nothing says what the row is."""
    names = strings(call.funcname)
    name = names[-1]
    if (len(names) > 1 and names[0] != "pg_catalog") or len(call.args) != (1 if name in _TO_RECORD else 2):
        return None
    base = bind(level, call.args[0]) if name in _POPULATE else None
    if base is not None and base.type.oid == UNKNOWN:
        raise DatatypeMismatch("could not determine polymorphic type because input has type unknown")
    fields = None if base is None else _fields(level, base)
    if base is None or fields is None:
        if name in _TO_RECORD or (base is not None and base.type.oid == RECORD and _is_null(base)):
            raise FeatureNotSupported(
                f"could not determine row type for result of {name}",
                hint="Provide a non-null record argument, or call the function in the FROM clause using a column "
                "definition list.",
            )
        return None
    several = name not in _ONE
    tree = _select(level, call, name, fields, (), row=base.type)
    holder = pb.Node()
    holder.sub_link.sub_link_type = pb.ARRAY_SUBLINK if several else pb.EXPR_SUBLINK
    holder.sub_link.subselect.select_stmt.CopyFrom(tree)
    if several:
        rows = parse_tree("SELECT pg_catalog.unnest(NULL)").stmts[0].stmt.select_stmt.target_list[0].res_target.val
        rows.func_call.location = call.location
        rows.func_call.args[0].CopyFrom(holder)
        holder = rows
    value = bind(level, holder)
    if isinstance(value, (ColumnRef, ScalarSubquery)):
        field = value.id if isinstance(value, ColumnRef) else value.rel.fields[0].id
        known = tuple([(column, SqlType(TEXT) if type.oid == UNKNOWN else type) for column, type in fields])
        level.statement.record_columns[field] = known
    kind = "jsonb" if name.startswith("jsonb") else "json"
    if level.statement.written is not None:
        level.statement.written_as(value, FunctionCall(name=name, args=_written_arguments(level, call, kind)))
    return level.statement.at(value, call.location)


def _fields(level: Level, base: Scalar) -> Sequence[tuple[str, SqlType]] | None:
    """The names and types of the fields of a row, where they are known."""
    if base.type.oid == RECORD and _is_null(base):
        return None
    fields = attributes(base.type.oid)
    return record_fields(level, base) if fields is None else [(field.name, field.type) for field in fields]


def _check_defined(columns: Sequence[tuple[str, SqlType]], defined: Sequence[tuple[str, SqlType]]) -> None:
    """42804 for a row whose fields are not those that a column definition list says."""
    message = "function return row and query-specified return row do not match"
    if len(columns) != len(defined):
        noun = "attribute" if len(columns) == 1 else "attributes"
        raise DatatypeMismatch(
            message, detail=f"Returned row contains {len(columns)} {noun}, but query expects {len(defined)}."
        )
    for place, ((_, type), (_, wanted)) in enumerate(zip(columns, defined, strict=True), 1):
        if type.declared_oid != wanted.declared_oid:
            given, expected = format_type(type.declared_oid), format_type(wanted.declared_oid)
            raise DatatypeMismatch(
                message, detail=f"Returned type {given} at ordinal position {place}, but query expects {expected}."
            )


def _is_null(base: Scalar) -> bool:
    while isinstance(base, Cast):
        base = base.arg
    return isinstance(base, Literal) and base.value is None


def _select(
    level: Level, call: Tree, name: str, columns: Sequence[tuple[str, SqlType]], shown: Sequence[str],
    *, row: SqlType | None = None, populated: bool = True,
) -> Tree:  # fmt: skip
    """The query of the columns, which it calls `shown`, or of one `row` of them."""
    kind = "jsonb" if name.startswith("jsonb") else "json"
    exprs = [
        f"{_field(kind, column, type, populated=populated)} AS {quote_identifier(alias)}"
        for (column, type), alias in zip(columns, shown or [column for column, _ in columns], strict=True)
    ]
    objects = f"{kind}_array_elements($1)" if name.endswith("set") else f"(SELECT $1::{kind})"
    # Of what is no object the other call says so.
    refused = f"""jsonb_set("*v"::jsonb, '{{a}}', '0')::{kind}"""
    checked = f"""CASE WHEN {kind}_typeof("*v") = 'object' THEN "*v" ELSE {refused} END"""
    given = ", $2" if populated else ""
    renamed = '("*v", "*b")' if given else '("*v")'
    if row is not None:
        values = [_field(kind, column, type, populated=True) for column, type in columns]
        cast = "" if row.oid == RECORD else f"::{format_type(row.declared_oid, row.declared_typmod)}"
        exprs = [f'CASE WHEN "*v" IS NOT NULL OR "*b" IS NOT NULL THEN ROW({", ".join(values)}){cast} END']
    query = f'SELECT {", ".join(exprs)} FROM (SELECT {checked}{given} FROM {objects} AS "*e"("*v")) AS "*r"{renamed}'
    tree = parse_tree(query).stmts[0].stmt.select_stmt
    for part in list(subtrees(tree)):
        if "location" in part.DESCRIPTOR.fields_by_name:
            part.location = call.location
        if part.DESCRIPTOR.name == "Node" and part.HasField("param_ref"):
            part.CopyFrom(call.args[-1] if part.param_ref.number == 1 else call.args[0])
    return tree


def _written_arguments(level: Level, call: Tree, kind: str) -> tuple[Scalar, ...]:
    """The arguments, for who prints the call."""
    if level.statement.written is None:
        return ()
    given = [bind(level, arg) for arg in call.args]
    document = coerce(level.statement, given[-1], SqlType(JSONB if kind == "jsonb" else JSON), Context.IMPLICIT)
    return (*given[:-1], document)


def _field(kind: str, name: str, type: SqlType, *, populated: bool) -> str:
    """The value that an object has under a name, as one of `type`."""
    return _member(kind, _VALUE, name, type, _BASE if populated else None)


def _member(kind: str, object: str, name: str, type: SqlType, base: str | None) -> str:
    """The value that `object` has under a name; what the row `base` has where it says nothing of it."""
    key = quote_literal(name)
    given = None if base is None else f"({base}).{quote_identifier(name)}"
    value = _value(kind, f"({object} -> {key})", name, type, given)
    if given is None:
        return value
    # A domain may have something against the NULL that a row which is none has there.
    missing = f"WHEN ({base}) IS NULL THEN NULL::{format_type(type.declared_oid)} " if type.domain else ""
    return f"CASE WHEN {object}::jsonb ? {key} THEN {value} {missing}ELSE {given} END"


def _value(kind: str, member: str, name: str, type: SqlType, base: str | None) -> str:
    """The JSON `member` as a value of `type` (populate_record_field), which is called `name`. `base` is the value that
    it takes the place of, None: there is none."""
    shown = "text" if type.oid == UNKNOWN else format_type(type.declared_oid, type.declared_typmod)
    text = f"({member} #>> '{{}}')"
    limit = type.typmod - TYPMOD_HEADER if type.oid in (BPCHAR, VARCHAR) and type.typmod >= 0 else None
    if limit is not None:
        text = f"{SCHEMA}.json_text_within({text}, {limit}, {quote_literal(format_type(type.oid, type.typmod))})"
    text = f"{text}::{shown}"
    fields, element = attributes(type.oid), element_of(type.oid)
    if type.oid in (JSON, JSONB):
        return f"CASE WHEN {kind}_typeof({member}) <> 'null' THEN {member}::{shown} END"
    if fields is not None:
        items = [_member(kind, member, field.name, field.type, base) for field in fields]
        row = f"ROW({', '.join(items)})::{shown}"
        other = f"{SCHEMA}.json_row_text(CASE WHEN {kind}_typeof({member}) <> 'object' THEN {member}::text END)"
        return f"CASE WHEN {kind}_typeof({member}) = 'object' THEN {row} ELSE {other}::{shown} END"
    if not element:
        return text
    form = "json" if element in (JSON, JSONB) else "text"
    if element in (BPCHAR, VARCHAR) and type.typmod >= 0:
        form = f"text {type.typmod - TYPMOD_HEADER} {format_type(element, type.typmod)}"
    if attributes(column_type(element).oid) is None:
        array = f"{SCHEMA}.json_array_text({member}::text, {quote_literal(name)}, '{form}')"
        # Of what is JSON already in two steps, which Spark has as well.
        return f"{array}::text[]::{shown}" if form == "json" else f"{array}::{shown}"
    # Once more inside: engines may compute a subquery for rows that do not need it.
    array = f"CASE WHEN {kind}_typeof({member}) = 'array' THEN {member} END"
    place = f'"*w{member.count("*w")}"'
    item = _value(kind, f'"*i".{place}', name, replace(column_type(element), typmod=type.typmod), None)
    listed = f'ARRAY(SELECT {item} FROM {kind}_array_elements({array}) AS "*i"({place}))'
    if type.domain:
        listed += f"::{shown}"
    other = f"CASE WHEN {kind}_typeof({member}) <> 'array' THEN {member}::text END"
    text = f"{SCHEMA}.json_array_text({other}, {quote_literal(name)}, 'text')::{shown}"
    return f"CASE WHEN {kind}_typeof({member}) = 'array' THEN {listed} ELSE {text} END"
