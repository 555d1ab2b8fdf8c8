"""read_parquet, read_orc, read_avro, read_csv and read_json in FROM.

    SELECT * FROM read_csv('/lake/in/*.csv', delimiter => ';')

Files and options are constants: what columns a statement has is known before it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.calls.user_calls import UserRows
from planner.catalog_data.encodings import canonical_name, codec_of
from planner.errors import DatatypeMismatch, FeatureNotSupported, InvalidParameterValue, SqlError, SqlSyntaxError
from planner.ir.file_rows import FILE_ROWS, FileRequest
from planner.ir.nodes import ColumnRef, CteScan, Project, Rel, Scalar
from planner.resolution.casting import explicit_cast
from planner.resolution.statement import Level, Statement
from planner.syntax.names import strings
from planner.syntax.parse import Parsed, Tree, subtrees
from planner.types.types import JSON, JSONB, SqlType

_COMMON: dict[str, type] = {"hive_partitioning": bool}

OPTIONS: dict[str, dict[str, type]] = {
    "parquet": _COMMON,
    "orc": _COMMON,
    "avro": _COMMON,
    "csv": {**_COMMON, "header": bool, "delimiter": str, "quote": str, "escape": str, "null": str, "encoding": str},
    "json": _COMMON,
}
"""The options of each format, with the types of their values."""

MAX_NAME_BYTES = 63

_PREFIX = "read_"


def is_read_call(call: Tree) -> bool:
    """Whether a FuncCall is one of these functions."""
    names = strings(call.funcname)
    if names[-1].removeprefix(_PREFIX) not in OPTIONS or not names[-1].startswith(_PREFIX):
        return False
    return len(names) == 1 or names[-2] == "pg_catalog"


def file_requests(parsed: Parsed) -> frozenset[FileRequest]:
    """What a statement asks for anywhere. A call that is wrong is left to the binder."""
    found: set[FileRequest] = set()
    # A long text is mostly constants: looking at every node of its tree takes longer than planning it.
    if _PREFIX not in parsed.text.lower():
        return frozenset()
    for tree in subtrees(parsed.tree):
        if tree.DESCRIPTOR.name == "FuncCall" and is_read_call(tree):
            try:
                found.add(_request(tree, None))
            except SqlError:
                continue
    return frozenset(found)


def bind_read_call(level: Level, call: Tree, definitions: Sequence[Any]) -> UserRows:
    """The rows of a call in FROM.

    Raises what looking the files up has raised, 42601 for an option that there is not and for column `definitions`,
    22023 for a bad value, 42804 and 0A000 for files that are not constants, and 0A000 where no files are read: in views
    and functions.
    """
    statement = level.statement
    name = strings(call.funcname)[-1]
    position = statement.position(call.location)
    request = _request(call, position)
    if statement.definition is not None or statement.view_depth or statement.arguments is not None:
        raise FeatureNotSupported(f"{name} cannot be used in a stored definition", position=position)
    found = statement.context.files.get(request)
    if found is None:
        raise FeatureNotSupported(f"{name} cannot be used here", position=position)
    if isinstance(found, SqlError):
        raise found
    if definitions:
        raise SqlSyntaxError(
            f"a column definition list is redundant for {name}, whose columns are those of the files",
            hint="Name the columns without types, and cast them.",
            position=statement.position(definitions[0].column_def.location),
        )
    id = FILE_ROWS - len(statement.files) - len(statement.foreign)
    statement.files[id] = found
    fields = tuple(statement.new_field(identifier(column), type) for column, type in found.columns)
    return UserRows(name=name, rel=_shown(statement, CteScan(cte=id, fields=fields)), is_value=False)


def _shown(statement: Statement, read: CteScan) -> Rel:
    """The rows `read`, with JSON as jsonb."""
    fields = tuple(statement.new_field(field.name, shown_type(field.type)) for field in read.fields)
    if [field.type for field in fields] == [field.type for field in read.fields]:
        return read
    exprs: list[Scalar] = []
    for held, field in zip(read.fields, fields, strict=True):
        value = ColumnRef(id=held.id, type=held.type)
        exprs.append(value if held.type == field.type else explicit_cast(statement, value, field.type, -1))
    return Project(input=read, exprs=tuple(exprs), fields=fields)


def shown_type(type: SqlType) -> SqlType:
    """The type that a column has for who names none: jsonb of what is read as JSON."""
    return SqlType(JSONB) if type.oid == JSON else type


def _request(call: Tree, position: int | None) -> FileRequest:
    name = strings(call.funcname)[-1]
    format = name.removeprefix(_PREFIX)
    if call.agg_star or call.agg_distinct or call.agg_order or call.HasField("agg_filter") or call.HasField("over"):
        raise FeatureNotSupported(f"{name} is no aggregate and no window function", position=position)
    patterns: tuple[str, ...] | None = None
    options: dict[str, str | bool] = {}
    for arg in call.args:
        if arg.HasField("named_arg_expr"):
            option = arg.named_arg_expr.name
            expected = OPTIONS[format].get(option)
            if expected is None:
                raise SqlSyntaxError(f'option "{option}" not recognized', position=position)
            options[option] = read_option(option, expected, arg.named_arg_expr.arg, position)
        elif patterns is None:
            patterns = read_patterns(name, arg, position)
        else:
            raise SqlSyntaxError(
                f"{name} takes one pattern or an array of patterns; its options are named", position=position
            )
    check_csv(options, position)
    if not patterns:
        raise SqlSyntaxError(f"{name} takes the path of a file, or an array of paths", position=position)
    return FileRequest(format=format, patterns=patterns, options=tuple(sorted(options.items())))


def read_patterns(name: str, arg: Tree, position: int | None) -> tuple[str, ...]:
    """The files that the argument `arg` of `name` means. Raises 0A000 and 42804."""
    items: Sequence[Tree] = arg.a_array_expr.elements if arg.HasField("a_array_expr") else [arg]
    values = [_constant(item) for item in items]
    if any(value is _UNKNOWN for value in values):
        raise FeatureNotSupported(f"the files of {name} must be constants", position=position)
    if not all(isinstance(value, str) for value in values):
        raise DatatypeMismatch(f"the files of {name} must be texts", position=position)
    return tuple(values)


def read_option(name: str, expected: type, node: Tree, position: int | None) -> str | bool:
    """The value of an option, of the type `expected`. Raises 22023."""
    value = _constant(node)
    if expected is bool and isinstance(value, str) and value.lower() in ("true", "false", "on", "off"):
        value = value.lower() in ("true", "on")
    if expected is bool and isinstance(value, bool):
        return value
    if expected is str and isinstance(value, str):
        if name in ("delimiter", "quote", "escape") and (len(value.encode()) != 1 or value in "\r\n"):
            raise InvalidParameterValue(f'option "{name}" must be a single one-byte character', position=position)
        return file_codec(value, position) if name == "encoding" else value
    kind = "a Boolean value" if expected is bool else "a string"
    raise InvalidParameterValue(f'option "{name}" requires {kind}', position=position)


def check_csv(options: Mapping[str, str | bool], position: int | None = None) -> None:
    """Raises 22023 for options of CSV that cannot be told from each other."""
    if options.get("delimiter", ",") == options.get("quote", '"'):
        raise InvalidParameterValue('options "delimiter" and "quote" must be different', position=position)


def identifier(column: str) -> str:
    """What a column of files is called in statements, whose names have 63 bytes at most."""
    return (
        column if len(column.encode()) <= MAX_NAME_BYTES else column.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    )


def file_codec(encoding: str, position: int | None = None) -> str:
    """Python's codec for files in PostgreSQL's `encoding`. Raises 22023 where there is none of that name, and 0A000."""
    name = canonical_name(encoding)
    if name is None:
        raise InvalidParameterValue('argument to option "encoding" must be a valid encoding name', position=position)
    codec = codec_of(name)
    if codec is None:
        raise FeatureNotSupported(
            f"files in encoding {name} cannot be read as tables", hint="COPY FROM reads them.", position=position
        )
    return codec


_UNKNOWN: Any = object()
"""What is no constant."""


def _constant(node: Tree) -> Any:
    while node.HasField("type_cast"):
        node = node.type_cast.arg
    if not node.HasField("a_const"):
        return _UNKNOWN
    constant = node.a_const
    if constant.isnull:
        return None
    kind = constant.WhichOneof("val")
    if kind == "sval":
        return constant.sval.sval
    return constant.boolval.boolval if kind == "boolval" else _UNKNOWN
