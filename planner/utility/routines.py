"""CREATE and ALTER of functions and procedures, DROP and COMMENT ON of them, and CALL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from planner.calls.user_functions import returning_statements, standard_statements
from planner.errors import FeatureNotSupported, InvalidName, InvalidParameterValue, SqlSyntaxError, UndefinedFunction
from planner.files.past_calls import past_call
from planner.files.read_calls import read_option, read_patterns
from planner.resolution.reg_types import split_name
from planner.statements import records as st
from planner.syntax.libpg_query import pb
from planner.syntax.names import name_from_list, role_name, strings
from planner.syntax.object_kinds import OBJECT_KINDS
from planner.syntax.options import option_text
from planner.syntax.parse import Parsed, Tree
from planner.syntax.qualified_names import QualifiedName
from planner.types.system_relations import OWN_SCHEMA
from planner.types.type_names import UnknownName, resolve_type_name
from planner.utility.settings import setting_values

_MODES = {
    pb.FUNC_PARAM_IN: "i",
    pb.FUNC_PARAM_OUT: "o",
    pb.FUNC_PARAM_INOUT: "b",
    pb.FUNC_PARAM_VARIADIC: "v",
    pb.FUNC_PARAM_TABLE: "t",
    pb.FUNC_PARAM_DEFAULT: "i",
}
_VOLATILITIES = {"immutable": "i", "stable": "s", "volatile": "v"}
_PARALLEL = {"safe": "s", "restricted": "r", "unsafe": "u"}
_OF_FUNCTIONS = frozenset({"window", "volatility", "strict", "leakproof", "cost", "rows", "support", "parallel"})
"""Options that a procedure cannot have."""

ROUTINES = frozenset({"function", "procedure", "routine"})


def _create_routine(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    parameters = tuple(_parameter(node.function_parameter, parsed) for node in tree.parameters)
    has_body = tree.HasField("sql_body")
    return st.CreateRoutine(
        kind="procedure" if tree.is_procedure else "function",
        name=replace(name_from_list(tree.funcname), position=None),
        parameters=parameters,
        result=resolve_type_name(tree.return_type, parsed, located=False) if tree.HasField("return_type") else None,
        returns_set=tree.HasField("return_type") and tree.return_type.setof,
        options=_options([node.def_elem for node in tree.options], parsed),
        replace=tree.replace,
        statements=standard_statements(parsed) if has_body else None,
        returns=returning_statements(parsed) if has_body else (),
        is_return=has_body and tree.sql_body.HasField("return_stmt"),
    )


def _parameter(tree: Tree, parsed: Parsed) -> st.RoutineParameter:
    try:
        type = resolve_type_name(tree.arg_type, parsed, located=False)
    except UnknownName as error:
        # PostgreSQL writes the name without quotes here.
        raise UnknownName(error.message.replace('"', ""), error.names, None) from None
    return st.RoutineParameter(
        name=tree.name,
        type=type,
        mode=_MODES[tree.mode],
        set_of=tree.arg_type.setof,
        default=parsed.expression(tree.defexpr) if tree.HasField("defexpr") else None,
        position=parsed.position(tree.location),
    )


def _options(elements: Sequence[Any], parsed: Parsed) -> st.RoutineOptions:
    """Raises 42601 for what is said twice, 22023 for bad values."""
    found: dict[str, Any] = {}
    settings: list[st.SetVariable] = []
    reset_all = False
    refused: list[tuple[str, int | None]] = []
    seen: set[str] = set()
    for element in elements:
        name = element.defname
        position = parsed.position(element.location)
        if name == "set":
            inner = element.arg.variable_set_stmt
            if inner.kind == pb.VAR_RESET_ALL:
                settings, reset_all = [], True
            else:
                settings.append(_setting(inner, parsed))
            continue
        if name in seen:
            raise SqlSyntaxError("conflicting or redundant options", position=position)
        seen.add(name)
        if name in _OF_FUNCTIONS:
            refused.append((name, position))
        _take(found, name, element, parsed)
    return st.RoutineOptions(settings=tuple(settings), reset_all=reset_all, refused=tuple(refused), **found)


def _take(found: dict[str, Any], name: str, element: Tree, parsed: Parsed) -> None:
    text = option_text(element) if name not in ("as", "transform") else None
    match name:
        case "as":
            items = [item.string.sval for item in element.arg.list.items]
            found["body"] = items[0]
            found["link"] = items[1] if len(items) > 1 else None
            start = (parsed.position(element.location) or 1) - 1
            place = parsed.text.find(items[0], start) if items[0] else -1
            found["body_position"] = place if place >= 0 else None
        case "language":
            found["language"] = text
        case "volatility":
            found["volatility"] = _VOLATILITIES[text or "volatile"]
        case "strict" | "leakproof":
            found[name] = element.arg.boolean.boolval
        case "security":
            found["security_definer"] = element.arg.boolean.boolval
        case "parallel":
            if text not in _PARALLEL:
                raise SqlSyntaxError('parameter "parallel" must be SAFE, RESTRICTED, or UNSAFE')
            found["parallel"] = _PARALLEL[text]
        case "cost" | "rows":
            number = float(text or "0")
            if number <= 0:
                raise InvalidParameterValue(f"{name.upper()} must be positive")
            found[name] = number
        case _:
            found[name] = True


def _setting(tree: Tree, parsed: Parsed) -> st.SetVariable:
    name = tree.name.lower()
    if tree.kind in (pb.VAR_RESET, pb.VAR_SET_DEFAULT):
        return st.SetVariable(name=name, values=None)
    if tree.kind == pb.VAR_SET_CURRENT:
        return st.SetVariable(name=name, values=(), local=True)
    return st.SetVariable(name=name, values=setting_values(name, tree.args, parsed))


def dropped_routine(tree: Tree, kind: str, parsed: Parsed, *, if_exists: bool) -> st.RoutineName:
    """An ObjectWithArgs of DROP, which with IF EXISTS may name types that there are not."""
    try:
        return routine_name(tree, kind, parsed)
    except UnknownName as error:
        if not if_exists:
            raise
        return st.RoutineName(kind=kind, name=name_from_list(tree.objname), inputs=(), unknown=error)


def routine_name(tree: Tree, kind: str, parsed: Parsed) -> st.RoutineName:
    """An ObjectWithArgs."""
    name = name_from_list(tree.objname)
    if tree.args_unspecified:
        return st.RoutineName(kind=kind, name=name, inputs=None)
    inputs = tuple(resolve_type_name(node.type_name, parsed, located=False).declared_oid for node in tree.objargs)
    taken = [node.function_parameter for node in tree.objfuncargs]
    plain = all(parameter.mode == pb.FUNC_PARAM_DEFAULT for parameter in taken)
    types = tuple(resolve_type_name(parameter.arg_type, parsed, located=False).declared_oid for parameter in taken)
    return st.RoutineName(
        kind=kind,
        name=name,
        inputs=inputs,
        written=tuple(".".join(strings(node.type_name.names)) for node in tree.objargs),
        all_types=types if plain and kind != "function" else None,
    )


def _alter_routine(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    kind = OBJECT_KINDS[tree.objtype]
    options = _options([node.def_elem for node in tree.actions], parsed)
    return st.AlterRoutine(routine=routine_name(tree.func, kind, parsed), options=options)


def renamed_routine(parsed: Parsed, tree: Tree, kind: str) -> st.AlterRoutine:
    """ALTER FUNCTION ... RENAME TO."""
    return st.AlterRoutine(routine=routine_name(tree.object.object_with_args, kind, parsed), new_name=tree.newname)


def moved_routine(parsed: Parsed, tree: Tree, kind: str) -> st.AlterRoutine:
    """ALTER FUNCTION ... SET SCHEMA."""
    return st.AlterRoutine(routine=routine_name(tree.object.object_with_args, kind, parsed), new_schema=tree.newschema)


def given_routine(parsed: Parsed, tree: Tree, kind: str) -> st.AlterRoutine:
    """ALTER FUNCTION ... OWNER TO."""
    name = routine_name(tree.object.object_with_args, kind, parsed)
    return st.AlterRoutine(routine=name, owner=role_name(tree.newowner))


def _call(parsed: Parsed, tree: Tree) -> st.UtilityStatement:
    if strings(tree.funccall.funcname) == (OWN_SCHEMA, "publish"):
        (table,) = _named_tables(parsed, tree.funccall, 1)
        return st.Publish(table=table)
    if strings(tree.funccall.funcname) == (OWN_SCHEMA, "add_files"):
        return _add_files(parsed, tree.funccall)
    if strings(tree.funccall.funcname) == (OWN_SCHEMA, "clone_table"):
        table, name = _named_tables(parsed, tree.funccall, 2)
        return st.CloneTable(table=table, name=name)
    if strings(tree.funccall.funcname) == (OWN_SCHEMA, "undrop_table"):
        (table,) = _named_tables(parsed, tree.funccall, 1)
        return st.UndropTable(table=table)
    if strings(tree.funccall.funcname) == (OWN_SCHEMA, "restore_table"):
        call = past_call(parsed, tree.funccall, parsed.position(tree.funccall.location))
        if len(call.name) > 2:
            raise FeatureNotSupported(f"cross-database references are not implemented: {'.'.join(call.name)}")
        name = QualifiedName(name=call.name[-1], schema=call.name[0] if len(call.name) > 1 else None)
        return st.RestoreTable(table=name, moment=call.moments[0])
    return st.CallProcedure(call=parsed)


def _add_files(parsed: Parsed, call: Tree) -> st.AddFiles:
    position = parsed.position(call.location)
    procedure = ".".join(strings(call.funcname))
    given = [arg for arg in call.args if not arg.HasField("named_arg_expr")]
    if len(given) != 2:
        raise UndefinedFunction(
            f"procedure {procedure} needs the name of a table and the paths of files",
            hint="Write both as text; owned and checksum are given by name.",
            position=position,
        )
    options: dict[str, bool] = {}
    for arg in call.args:
        if arg.HasField("named_arg_expr"):
            name = arg.named_arg_expr.name
            if name not in ("owned", "checksum"):
                raise SqlSyntaxError(f'option "{name}" not recognized', position=position)
            options[name] = bool(read_option(name, bool, arg.named_arg_expr.arg, position))
    table = _named_table(procedure, given[0], position)
    return st.AddFiles(table=table, patterns=read_patterns(procedure, given[1], position), **options)


def _named_tables(parsed: Parsed, call: Tree, wanted: int) -> list[QualifiedName]:
    """The tables that the arguments of `call` name, `wanted` string literals."""
    position = parsed.position(call.location)
    procedure = ".".join(strings(call.funcname))
    if len(call.args) != wanted:
        raise UndefinedFunction(
            f"procedure {procedure} needs {'one argument' if wanted == 1 else 'two arguments'}",
            hint="Write the table's name as text.",
            position=position,
        )
    return [_named_table(procedure, arg, position) for arg in call.args]


def _named_table(procedure: str, arg: Tree, position: int | None) -> QualifiedName:
    if not (arg.HasField("a_const") and arg.a_const.HasField("sval")):
        raise FeatureNotSupported(f"{procedure} takes the name of a table as a string literal", position=position)
    parts = split_name(arg.a_const.sval.sval)
    if len(parts) > 3:
        raise InvalidName(f"improper relation name (too many dotted names): {'.'.join(parts)}", position=position)
    *qualifiers, name = parts
    return QualifiedName(
        name=name,
        schema=qualifiers[-1] if qualifiers else None,
        database=qualifiers[0] if len(qualifiers) > 1 else None,
        position=position,
    )


BUILDERS: Mapping[str, Callable[[Parsed, Tree], st.UtilityStatement]] = {
    "create_function_stmt": _create_routine,
    "alter_function_stmt": _alter_routine,
    "call_stmt": _call,
}
"""By kind of parse tree: what makes its statement."""
