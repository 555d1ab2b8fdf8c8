"""What has no expressions inside: constants, parameters, columns, current_date and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from planner.common_errors import missing_parameter
from planner.errors import (
    FeatureNotSupported,
    InvalidColumnReference,
    InvalidObjectDefinition,
    SqlError,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedTable,
)
from planner.expressions.bind import CHECK_CLAUSE, DEFAULT_CLAUSE, DEFINITION_CLAUSES, GENERATION_CLAUSE, MERGE_CLAUSE
from planner.expressions.rows import argument, field_or_call
from planner.ir.nodes import Cast, Literal, RowConstructor, Scalar, SessionValue
from planner.ir.written import KeyWord
from planner.resolution.casting import numeric_literal_type
from planner.resolution.operators import BOOLEAN
from planner.resolution.scope import column_qualifier, find_item, note_references, resolve, star_items, whole_row
from planner.resolution.statement import DefinitionNotes, Handler, Level
from planner.syntax.libpg_query import pb
from planner.syntax.names import strings
from planner.syntax.parse import Tree
from planner.types.types import (
    BIT,
    DATE,
    INT4,
    INT8,
    NAME,
    NUMERIC,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    TIMETZ,
    UNKNOWN,
    SqlType,
)
from planner.values.opaque.bit_text import parse_bits
from planner.values.text_values import parse_text


def _constant(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    which = tree.WhichOneof("val")
    if which == "sval":
        literal = Literal(value=tree.sval.sval, type=SqlType(UNKNOWN))
    elif which == "ival":
        literal = Literal(value=tree.ival.ival, type=SqlType(INT4))
    elif which == "fval":
        literal = _number(level, tree.fval.fval, tree.location)
    elif which == "boolval":
        literal = Literal(value=tree.boolval.boolval, type=BOOLEAN)
    elif which == "bsval":
        try:
            literal = Literal(value=parse_bits(tree.bsval.bsval), type=SqlType(BIT))
        except SqlError as error:
            error.position = statement.position(tree.location)
            raise
    else:
        literal = Literal(value=None, type=SqlType(UNKNOWN))
    return statement.at(literal, tree.location)


def _number(level: Level, text: str, location: int) -> Literal:
    plain = text.replace("_", "").lower()
    if plain[:2] in ("0x", "0o", "0b") or plain.lstrip("+-").isdigit():
        whole = int(plain, 0) if plain[:1] == "0" and plain[1:2].isalpha() else int(plain)
        if -(2**31) <= whole < 2**31:
            return Literal(value=whole, type=SqlType(INT4))
        if -(2**63) <= whole < 2**63:
            return Literal(value=whole, type=SqlType(INT8))
        plain = str(whole)
    try:
        value = parse_text(plain, SqlType(NUMERIC))
    except SqlError as error:
        error.position = level.statement.position(location)
        raise
    assert isinstance(value, Decimal)
    return Literal(value=value, type=numeric_literal_type(value))


def _param(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    if level.clause in DEFINITION_CLAUSES and not level.takes_parameters:
        raise missing_parameter(tree.number, statement.position(tree.location))
    return statement.param(tree.number, tree.location)


_OF_ROW_VERSIONS = frozenset({"ctid", "xmin", "cmin", "xmax", "cmax"})
"""PostgreSQL's system columns that say where and when a version of a row was written. No column is called so."""

_OF_ROW_VERSIONS_FORBIDDEN = {
    CHECK_CLAUSE: 'system column "{}" reference in check constraint is invalid',
    GENERATION_CLAUSE: 'cannot use system column "{}" in column generation expression',
    MERGE_CLAUSE: 'cannot use system column "{}" in MERGE WHEN condition',
}


def _column(level: Level, tree: Tree) -> Scalar:
    if level.clause == DEFAULT_CLAUSE:
        raise FeatureNotSupported(
            "cannot use column reference in DEFAULT expression", position=level.statement.position(tree.location)
        )
    last = tree.fields[len(tree.fields) - 1]
    if last.HasField("a_star"):
        if len(tree.fields) == 1:
            raise SqlSyntaxError("row expansion via \"*\" is not supported here",
                                 position=level.statement.position(tree.location))  # fmt: skip
        return _of_part(level, _row(level, strings(list(tree.fields)[:-1]), tree.location), tree.location)
    parts = strings(tree.fields)
    if level.clause in _OF_ROW_VERSIONS_FORBIDDEN and parts[-1] in _OF_ROW_VERSIONS:
        raise InvalidColumnReference(
            _OF_ROW_VERSIONS_FORBIDDEN[level.clause].format(parts[-1]), position=level.statement.position(tree.location)
        )
    if level.statement.definition is not None and level.statement.view_depth == 0:
        _note(level, level.statement.definition, tree, parts)
    try:
        return _of_part(level, resolve(level, parts, tree.location), tree.location)
    except (UndefinedColumn, UndefinedTable) as error:
        found = _otherwise(level, tree, parts, error)
        if found is None:
            raise
        return found


def _otherwise(level: Level, tree: Tree, parts: Sequence[str], error: SqlError) -> Scalar | None:
    """What a reference means that no column is called after: an argument of the function whose statement it is, a field
    of one, or a function of the row that is before the last dot."""
    found = argument(level, parts, tree.location)
    if found is not None or len(parts) == 1:
        return found
    row = argument(level, parts[:-1], tree.location)
    if row is not None:
        return field_or_call(level, row, parts[-1], tree, 0, tree.location)
    if isinstance(error, UndefinedTable):
        return None
    row = _row(level, parts[:-1], tree.location)
    return level.statement.grammar.field_function(level, parts[-1], row, tree, 0, tree.location)


def _row(level: Level, qualifier: Sequence[str], location: int) -> Scalar:
    """The row of a FROM item, or the argument, that is called so."""
    try:
        return whole_row(level, star_items(level, qualifier, location), location)
    except UndefinedTable:
        found = argument(level, qualifier, location)
        if found is None:
            raise
        return found


def _note(level: Level, notes: DefinitionNotes, tree: Tree, parts: Sequence[str]) -> None:
    """Notes what the column `parts` is called after, and whose it is."""
    if len(parts) == 1:
        alias = column_qualifier(level, parts[0])
        if alias is None:
            return
        notes.unqualified.append((tree, alias))
        parts = (alias, parts[0])
    schema = parts[-3] if len(parts) > 2 else None
    item = find_item(level, schema, parts[-2], tree.location)
    if item is not None and parts[-1] in item.by_name:
        notes.named.append((tree, item))


def _of_part(level: Level, scalar: Scalar, location: int) -> Scalar:
    """`scalar`, unless it is a row that holds the generated column which is being defined. 42P17."""
    if level.clause == GENERATION_CLAUSE and isinstance(scalar, RowConstructor):
        raise InvalidObjectDefinition(
            "cannot use whole-row variable in column generation expression",
            detail="This would cause the generated column to depend on its own value.",
            position=level.statement.position(location),
        )
    return scalar


def _sql_value(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    name, type = _SQL_VALUES[tree.op]
    source = SqlType(TIMESTAMPTZ) if name == "now" else type
    value: Scalar = SessionValue(name=name, type=source)
    if name == "now":
        precision = tree.typmod if tree.op in _WITH_PRECISION and tree.typmod >= 0 else -1
        target = SqlType(type.oid, min(precision, 6))
        if target != source:
            value = Cast(arg=value, type=target, explicit=True)
    return statement.written_as(statement.at(value, tree.location), KeyWord(text=_key_word(tree)))


def _key_word(tree: Tree) -> str:
    """As it is printed: CURRENT_USER, CURRENT_TIMESTAMP(3)."""
    name = str(pb.SQLValueFunctionOp.Name(tree.op)).removeprefix("SVFOP_")
    if tree.op in _WITH_PRECISION:
        return f"{name.removesuffix('_N')}({tree.typmod})"
    return name


_WITH_PRECISION = {
    pb.SVFOP_CURRENT_TIME_N,
    pb.SVFOP_CURRENT_TIMESTAMP_N,
    pb.SVFOP_LOCALTIME_N,
    pb.SVFOP_LOCALTIMESTAMP_N,
}
_SQL_VALUES: dict[int, tuple[str, SqlType]] = {
    pb.SVFOP_CURRENT_DATE: ("now", SqlType(DATE)),
    pb.SVFOP_CURRENT_TIME: ("now", SqlType(TIMETZ)),
    pb.SVFOP_CURRENT_TIME_N: ("now", SqlType(TIMETZ)),
    pb.SVFOP_CURRENT_TIMESTAMP: ("now", SqlType(TIMESTAMPTZ)),
    pb.SVFOP_CURRENT_TIMESTAMP_N: ("now", SqlType(TIMESTAMPTZ)),
    pb.SVFOP_LOCALTIME: ("now", SqlType(TIME)),
    pb.SVFOP_LOCALTIME_N: ("now", SqlType(TIME)),
    pb.SVFOP_LOCALTIMESTAMP: ("now", SqlType(TIMESTAMP)),
    pb.SVFOP_LOCALTIMESTAMP_N: ("now", SqlType(TIMESTAMP)),
    pb.SVFOP_CURRENT_ROLE: ("current_user", SqlType(NAME)),
    pb.SVFOP_CURRENT_USER: ("current_user", SqlType(NAME)),
    pb.SVFOP_USER: ("current_user", SqlType(NAME)),
    pb.SVFOP_SESSION_USER: ("session_user", SqlType(NAME)),
    pb.SVFOP_CURRENT_CATALOG: ("current_database", SqlType(NAME)),
    pb.SVFOP_CURRENT_SCHEMA: ("current_schema", SqlType(NAME)),
}


def _default(level: Level, tree: Tree) -> Scalar:
    raise SqlSyntaxError("DEFAULT is not allowed in this context", position=level.statement.position(tree.location))


def _xml(level: Level, tree: Tree) -> Scalar:
    raise FeatureNotSupported("XML functions are not supported", position=level.statement.position(tree.location))


def _cursor(level: Level, tree: Tree) -> Scalar:
    raise FeatureNotSupported("WHERE CURRENT OF is not supported here")


def _merge_action(level: Level, tree: Tree) -> Scalar:
    statement = level.statement
    if statement.merge_action is None:
        raise SqlSyntaxError(
            "MERGE_ACTION() can only be used in the RETURNING list of a MERGE command",
            position=statement.position(tree.location),
        )
    note_references(statement, statement.merge_action)
    return statement.merge_action


HANDLERS: Mapping[str, Handler] = {
    "a_const": _constant,
    "param_ref": _param,
    "column_ref": _column,
    "sqlvalue_function": _sql_value,
    "set_to_default": _default,
    "xml_expr": _xml,
    "xml_serialize": _xml,
    "current_of_expr": _cursor,
    "merge_support_func": _merge_action,
}
