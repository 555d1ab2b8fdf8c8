"""Which routine a call means: overload resolution (PostgreSQL, chapter 10.3), named arguments and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from planner.calls.user_functions import (
    constructors_named,
    default_argument,
    functions_named,
    is_user_function,
    record_of,
    signature_of,
)
from planner.catalog_data.content import columns
from planner.common_errors import missing_schema
from planner.errors import AmbiguousFunction, DatatypeMismatch, FeatureNotSupported, SqlSyntaxError, UndefinedFunction
from planner.functions import of_extensions, own, own_bodies, registry
from planner.functions.behind import CAST
from planner.functions.routines import routines
from planner.ir.nodes import ArrayConstructor, Literal, Param, RowConstructor, Scalar
from planner.ir.written import FunctionCall
from planner.resolution.casting import (
    as_domain,
    call_type,
    coerce,
    explicit_cast,
    finish_row,
    resolve_unknown,
    with_like_arrays,
)
from planner.resolution.coercion import (
    ANY,
    Ambiguous,
    Candidate,
    Context,
    can_coerce,
    candidates,
    category,
    choose,
    concrete_signature,
    pathway,
    resolve_polymorphic,
)
from planner.resolution.operators import column_type_of_array, is_searched, make_operator
from planner.resolution.records import is_record
from planner.resolution.required import closed_schema
from planner.resolution.session_values import session_signatures
from planner.resolution.statement import Level, Statement
from planner.syntax.names import qualifier
from planner.syntax.parse import Tree, split_and_parse, tree_location
from planner.types.base_types import base_type
from planner.types.derived_oids import FIRST_USER_TYPE
from planner.types.signature import Signature, Volatility
from planner.types.type_names import array_of, element_of, format_type, lookup_type
from planner.types.types import FLOAT8, RECORD, UNKNOWN, VOID, SqlType, column_type
from planner.types.user_types import attributes
from storage.catalog.model import Schema
from storage.catalog.record import holds_temporary
from storage.catalog.routines import Function

_HINT = "No function matches the given name and argument types. You might need to add explicit type casts."


_AGGREGATE_HINT = (
    "No aggregate function matches the given name and argument types. Perhaps you misplaced ORDER BY; ORDER BY must "
    "appear after all regular arguments of the aggregate."
)


class Resolved(Struct):
    """A call whose overload is chosen: concrete signature, arguments cast to it, and the result's type."""

    signature: Signature
    args: list[Scalar]
    type: SqlType
    columns: tuple[tuple[str, SqlType], ...] | None = None
    """Of a function of a user: the columns of its rows, None when its result is no row."""
    given: tuple[Scalar, ...] = ()
    """The arguments that its call was written with."""


def overloads(level: Level, names: tuple[str, ...], location: int) -> tuple[Signature, ...]:
    """All routines that a name can mean. Raises 3F000 for a schema that does not exist."""
    name = names[-1]
    context, position = level.statement.context, level.statement.position(location)
    schema = qualifier(names, context.database, position)
    if schema == own.SCHEMA and not name.isdigit():
        return own.functions(name) or tuple(map(signature_of, own_bodies.functions_named(name)))
    if schema in ("pg_catalog", "information_schema"):
        return _built_in(name)
    if schema is not None and schema != own.SCHEMA and context.catalog.schema(schema) is None:
        raise missing_schema(schema, position)
    if schema in context.closed_schemas and not level.statement.required.stored:
        raise closed_schema(schema)
    of_users = [(path, signature_of(record)) for path, record in functions_named(context, schema, name)]
    if context.catalog.type_names:
        of_users += constructors_named(context, schema, name)
    if schema is not None:
        return tuple(signature for _, signature in of_users)
    if not of_users:
        return _built_in(name)
    path = context.searched_schemas()
    place = path.index("pg_catalog")
    before = [signature for of, signature in of_users if path.index(of) < place]
    after = [signature for of, signature in of_users if path.index(of) > place]
    return (*before, *_built_in(name), *after)


def _made_routines(level: Level, names: tuple[str, ...], inputs: tuple[int, ...]) -> Iterator[Signature]:
    """The aggregates of extensions over the types of the arguments, where their schema is searched, and the functions
    that their scripts call."""
    for oid in dict.fromkeys(inputs):
        record = base_type(oid)
        if record is not None and names[:-1] == (own.SCHEMA,):
            yield from of_extensions.functions(record, names[-1])
        elif record is not None and is_searched(level, record, names[-2] if len(names) > 1 else ""):
            yield from of_extensions.aggregates(record, names[-1])


def _built_in(name: str) -> tuple[Signature, ...]:
    session = session_signatures(name)
    return session or registry.functions(name) + registry.aggregates(name) + registry.window_functions(name)


def written_arguments(statement: Statement, nodes: Iterable[Tree]) -> Iterator[tuple[str | None, Tree]]:
    """The arguments of a call as they are written: their names, where they have one, and their expressions. Raises
    42601 for a name that comes twice, and for what comes without a name after one that has one."""
    seen: set[str] = set()
    for node in nodes:
        if not node.HasField("named_arg_expr"):
            if seen:
                raise SqlSyntaxError(
                    "positional argument cannot follow named argument",
                    position=statement.position(tree_location(node)),
                )
            yield None, node
            continue
        named = node.named_arg_expr
        if named.name in seen:
            raise SqlSyntaxError(
                f'argument name "{named.name}" used more than once', position=statement.position(named.location)
            )
        seen.add(named.name)
        yield named.name, named.arg


def resolve_call(
    level: Level,
    names: tuple[str, ...],
    args: list[Scalar],
    location: int,
    *,
    arg_names: Sequence[str | None] = (),
    variadic: bool = False,
    ordered: bool = False,
) -> Resolved | Scalar:
    """The call that `names(args)` means; a `Scalar` when it is a cast or an operator written as a function
    (``int4(x)``, ``int4eq(x, y)``)."""
    statement = level.statement
    found = overloads(level, names, location)
    if any(map(_is_output, args)):
        # Clients declare parameters of type void for what a function gives back (PostgreSQL, ParseFuncOrColumn).
        kept = [index for index, arg in enumerate(args) if not _is_output(arg)]
        arg_names = [arg_names[index] for index in kept] if arg_names else ()
        args = [args[index] for index in kept]
    named = any(name is not None for name in arg_names)
    if named:
        found, args = _by_argument_names(statement, found, args, arg_names)
    inputs = tuple(arg.type.oid for arg in args)
    if max(inputs, default=0) > FIRST_USER_TYPE:
        found = (*found, *_made_routines(level, names, inputs))
    possible = candidates(found, len(args), expand_variadic=not variadic)
    if variadic and any(candidate.args[-1:] == (ANY,) for candidate in possible):
        _check_spread(level, args[-1])
        possible = [replace(candidate, signature=replace(candidate.signature, spread=True)) for candidate in possible]
    chosen: Candidate | None = next((candidate for candidate in possible if candidate.args == inputs), None)
    if chosen is None and len(args) == 1 and not named and not variadic:
        cast = _as_cast(level, names, args[0], location)
        if cast is not None:
            return cast
    if chosen is None:
        try:
            chosen = choose(possible, inputs)
        except Ambiguous:
            raise AmbiguousFunction(
                f"function {_signature_text(names, inputs, arg_names)} is not unique",
                hint="Could not choose a best candidate function. You might need to add explicit type casts.",
                position=statement.position(location),
            ) from None
    if chosen is None and len(names) == 1 and len(args) == 1 and not named:
        # PostgreSQL's functional notation: name(row) is (row).name.
        row = args[0]
        if isinstance(row, RowConstructor) and names[0] in row.names:
            return row.items[row.names.index(names[0])]
    if chosen is None and not found and (refused := _refused(level, names, len(args))) is not None:
        raise FeatureNotSupported(refused, position=statement.position(location))
    if chosen is None:
        raise UndefinedFunction(
            f"function {_signature_text(names, inputs, arg_names)} does not exist",
            hint=_AGGREGATE_HINT if ordered else _HINT,
            position=statement.position(location),
        )
    return _apply(level, chosen, args, location)


def _refused(level: Level, names: tuple[str, ...], count: int) -> str | None:
    """What to say of a function that PostgreSQL has with as many arguments, and that does not exist here; None where
    PostgreSQL has none either."""
    schema = qualifier(names, level.statement.context.database, None)
    if schema not in (None, "pg_catalog") or not candidates(_of_postgresql(names[-1]), count):
        return None
    return f"function {names[-1]}() is not supported"


@cache
def _of_postgresql(name: str) -> tuple[Signature, ...]:
    return tuple(routine.signature for routine in routines().values() if routine.signature.name == name)


def _is_output(arg: Scalar) -> bool:
    return isinstance(arg, Param) and arg.type.oid == VOID


def _check_spread(level: Level, arg: Scalar) -> None:
    if element_of(arg.type.oid) == 0:
        raise DatatypeMismatch("VARIADIC argument must be an array", position=level.statement.position_of(arg))


def _signature_text(names: tuple[str, ...], inputs: tuple[int, ...], arg_names: Sequence[str | None]) -> str:
    labels = list(arg_names) if arg_names else [None] * len(inputs)
    parts = []
    for index, oid in enumerate(inputs):
        label = labels[index] if index < len(labels) else None
        parts.append(f"{label} => {format_type(oid)}" if label else format_type(oid))
    return f"{'.'.join(names)}({', '.join(parts)})"


def _as_cast(level: Level, names: tuple[str, ...], arg: Scalar, location: int) -> Scalar | None:
    """`type(x)` as a cast, where the conversion is trivial or the argument an unknown literal."""
    row = lookup_type(names)
    if row is None or row.type not in "bd":
        return None
    schema = level.statement.context.catalog.get(row.namespace)
    if len(names) == 1 and isinstance(schema, Schema) and holds_temporary(schema.name):
        return None
    source, target = arg.type.oid, row.oid
    if source != UNKNOWN:
        how = pathway(source, target, Context.EXPLICIT)
        if how == "io":
            if is_record(source) or category(target) != "S" or category(source) == "S":
                return None
        elif how != "relabel":
            return None
    return explicit_cast(level.statement, arg, column_type(target), location)


def _apply(level: Level, chosen: Candidate, args: list[Scalar], location: int) -> Resolved | Scalar:
    statement = level.statement
    declared, given = chosen.args, tuple(args)
    record = None
    if is_user_function(chosen.signature):
        record = record_of(statement.context, chosen.signature)
        if not chosen.expanded:
            args = [
                *args,
                *(default_argument(statement, record, place) for place in range(len(args), len(chosen.signature.args))),
            ]
            declared = chosen.signature.args
    actual = tuple(arg.type.oid for arg in args)
    concrete, result = resolve_polymorphic(chosen.signature, declared, actual)
    bound: list[Scalar] = []
    for arg, wanted in zip(args, concrete, strict=True):
        if wanted == ANY:
            if isinstance(arg, Literal):
                arg = resolve_unknown(statement, arg)
            bound.append(finish_row(level.statement, arg))
        else:
            target = column_type_of_array(wanted) if element_of(wanted) else column_type(wanted)
            bound.append(finish_row(level.statement, coerce(statement, arg, target, Context.IMPLICIT)))
    bound = with_like_arrays(statement, bound)
    signature = chosen.signature
    if record is not None:
        return _of_user(statement, record, chosen, bound, (declared, actual, concrete, result), given)
    if signature.means:
        return _operation(level, signature, bound, location)
    signature = concrete_signature(signature, concrete, result)
    constants = tuple(arg.value if isinstance(arg, Literal) else None for arg in bound)
    bound, type = call_type(statement, signature, bound, constants)
    if signature.volatility is Volatility.VOLATILE:
        statement.volatile = True
    return Resolved(signature, bound, type)


def _operation(level: Level, function: Signature, args: list[Scalar], location: int) -> Scalar:
    """What a call of a function behind an operator or a cast does."""
    statement = level.statement
    if function.means == CAST:
        result = explicit_cast(statement, args[0], column_type(function.result), location)
    else:
        left, right = (None, *args)[-2:]
        assert right is not None
        result = make_operator(level, ("pg_catalog", function.means), left, right, location)
    if statement.written is not None:
        statement.written_as(result, FunctionCall(name=function.name, args=tuple(args)))
    return result


def _of_user(
    statement: Statement,
    record: Function,
    chosen: Candidate,
    args: list[Scalar],
    types: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int],
    given: tuple[Scalar, ...],
) -> Resolved:
    """The call of a function of a user; `types` are those of its arguments (declared, given and concrete) and its
    result."""
    declared, actual, concrete, result = types
    if chosen.expanded:
        items = tuple(args[-chosen.expanded :])
        element = concrete[-1]
        array = column_type_of_array(array_of(element))
        args = [*args[: -chosen.expanded], ArrayConstructor(items=items, type=array)]
        concrete = (*concrete[: -chosen.expanded], array.oid)
    taken = record.parameters if record.kind == "p" else record.inputs
    args = [_of_domain(statement, arg, parameter.type_oid) for arg, parameter in zip(args, taken, strict=True)]
    signature = concrete_signature(chosen.signature, concrete, result)

    def output(type_oid: int) -> SqlType:
        wanted = replace(chosen.signature, result=type_oid)
        return column_type(resolve_polymorphic(wanted, declared, actual)[1])

    columns: tuple[tuple[str, SqlType], ...] | None = None
    outputs = record.outputs
    if record.result == RECORD and outputs:
        columns = tuple(
            (parameter.name or f"column{place}", output(parameter.type_oid))
            for place, parameter in enumerate(outputs, 1)
        )
    else:
        fields = attributes(result)
        if fields is not None:
            columns = tuple((field.name, field.type) for field in fields)
    declared_result = column_type(record.result) if record.result else SqlType(VOID)
    type = declared_result if declared_result.domain else column_type(result)
    return Resolved(signature, args, type, columns, given)


def _of_domain(statement: Statement, arg: Scalar, declared: int) -> Scalar:
    """An argument as a value of the domain that its parameter is `declared` to be of, if it is."""
    target = column_type(declared)
    if not target.domain or arg.type.domain == target.domain:
        return arg
    return as_domain(statement, arg, target, explicit=False)


def _arranged(
    statement: Statement, record: Function, args: list[Scalar], arg_names: Sequence[str | None]
) -> list[Scalar] | None:
    """The arguments of a call of `record`, some of which are named, in the order of its parameters, with defaults; None
    when they do not fit."""
    taken = record.parameters if record.kind == "p" else record.inputs
    names = [parameter.name for parameter in taken]
    slots: list[Scalar | None] = [None] * len(taken)
    for index, (arg, name) in enumerate(zip(args, arg_names, strict=True)):
        place = index if name is None else (names.index(name) if name in names else -1)
        if not 0 <= place < len(slots) or slots[place] is not None:
            return None
        slots[place] = arg
    arranged: list[Scalar] = []
    for place, slot in enumerate(slots):
        if slot is None and taken[place].default is None:
            return None
        arranged.append(default_argument(statement, record, place) if slot is None else slot)
    return arranged


def _by_argument_names(
    statement: Statement, found: tuple[Signature, ...], args: list[Scalar], arg_names: Sequence[str | None]
) -> tuple[tuple[Signature, ...], list[Scalar]]:
    """Named arguments put into position; left-out ones before the last given get their defaults."""
    data = columns("pg_proc")
    oids = data["oid"]
    matching: list[Signature] = []
    ordered: list[Scalar] = args
    for signature in found:
        if is_user_function(signature):
            arranged = _arranged(statement, record_of(statement.context, signature), args, arg_names)
            if arranged is not None and all(
                can_coerce(arg.type.oid, wanted, Context.IMPLICIT)
                for arg, wanted in zip(arranged, signature.args, strict=True)
            ):
                matching.append(signature)
                ordered = arranged
            continue
        if signature.oid not in oids:
            continue
        row = oids.index(signature.oid)
        names = data["proargnames"][row]
        if not names:
            continue
        slots: list[Scalar | None] = [None] * len(signature.args)
        for index, (arg, name) in enumerate(zip(args, arg_names, strict=True)):
            position = index if name is None else (names.index(name) if name in names else -1)
            if not 0 <= position < len(slots) or slots[position] is not None:
                break
            slots[position] = arg
        else:
            filled = _fill_defaults(slots, signature, data["proargdefaults"][row])
            if filled is not None:
                matching.append(signature)
                ordered = filled
    return tuple(matching), ordered


def _fill_defaults(slots: list[Scalar | None], signature: Signature, defaults: str | None) -> list[Scalar] | None:
    last = max(index for index, slot in enumerate(slots) if slot is not None)
    filled: list[Scalar] = []
    values: list[Any] = []
    if defaults:
        tree = split_and_parse(f"SELECT {defaults}")[0].tree
        values = [target.res_target.val for target in tree.target_list]
    first_default = len(slots) - signature.defaults
    for index, slot in enumerate(slots):
        if slot is not None:
            filled.append(slot)
        elif index < first_default:
            return None
        elif index < last:
            literal = _default_literal(values[index - first_default] if values else None, signature.args[index])
            if literal is None:
                return None
            filled.append(literal)
    return filled


def _default_literal(node: Any, oid: int) -> Literal | None:
    while node is not None and node.HasField("type_cast"):
        node = node.type_cast.arg
    if node is None or not node.HasField("a_const"):
        return None
    constant = node.a_const
    if constant.isnull:
        return Literal(value=None, type=column_type(oid))
    if constant.HasField("ival"):
        value: object = constant.ival.ival
    elif constant.HasField("fval"):
        value = constant.fval.fval
    elif constant.HasField("boolval"):
        value = constant.boolval.boolval
    else:
        value = constant.sval.sval
    if oid == FLOAT8:
        value = float(str(value))
    return Literal(value=value, type=column_type(oid))
