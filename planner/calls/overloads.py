"""Which routine a call means: overload resolution (PostgreSQL, chapter 10.3), named arguments and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial

from msgspec import Struct
from msgspec.structs import replace

from planner.calls.hypothetical_sets import is_hypothetical_set
from planner.calls.user_functions import (
    constructors_named,
    default_argument,
    functions_named,
    is_user_function,
    record_of,
    signature_of,
    taken_by,
)
from planner.catalog_data.content import columns
from planner.common_errors import missing_schema
from planner.errors import (
    AmbiguousFunction,
    DatatypeMismatch,
    FeatureNotSupported,
    SqlSyntaxError,
    UndefinedFunction,
    WrongObjectType,
)
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
    candidates,
    choose,
    concrete_signature,
    pathway,
    resolve_polymorphic,
)
from planner.resolution.operators import column_type_of_array, is_searched, make_operator
from planner.resolution.records import is_record
from planner.resolution.required import closed_schema
from planner.resolution.session_values import session_signatures
from planner.resolution.statement import BindContext, Level, Statement
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


def overloads(level: Level, names: tuple[str, ...], location: int) -> list[tuple[Signature, ...]]:
    """All routines that a name can mean, those of each schema together, in the order of the search path. Raises 3F000
    for a schema that does not exist."""
    return [found for found in _by_schema(level, names, location) if found]


def _by_schema(level: Level, names: tuple[str, ...], location: int) -> list[tuple[Signature, ...]]:
    name = names[-1]
    context, position = level.statement.context, level.statement.position(location)
    schema = qualifier(names, context.database, position)
    if schema == own.SCHEMA and not name.isdigit():
        return [own.functions(name) or tuple(map(signature_of, own_bodies.functions_named(name)))]
    if schema in ("pg_catalog", "information_schema"):
        return [_built_in(name)]
    if schema is not None and schema != own.SCHEMA and context.catalog.schema(schema) is None:
        raise missing_schema(schema, position)
    if schema in context.closed_schemas and not level.statement.required.stored:
        raise closed_schema(schema)
    of_users = [(path, signature_of(record)) for path, record in functions_named(context, schema, name)]
    if context.catalog.type_names:
        of_users += constructors_named(context, schema, name)
    if schema is None and not of_users:
        return [_built_in(name)]
    path = context.searched_schemas() if schema is None else (schema,)
    grouped = {each: [signature for of, signature in of_users if of == each] for each in path}
    return [(*found, *(_built_in(name) if of == "pg_catalog" else ())) for of, found in grouped.items()]


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


def resolve_call(
    level: Level,
    names: tuple[str, ...],
    args: list[Scalar],
    location: int,
    *,
    arg_names: Sequence[str | None] = (),
    variadic: bool = False,
    ordered: bool = False,
    within: bool = False,
) -> Resolved | Scalar:
    """The call that `names(args)` means; a `Scalar` when it is a cast or an operator written as a function
    (``int4(x)``, ``int4eq(x, y)``). `within`: it has WITHIN GROUP, which ordered-set aggregates need (42809)."""
    statement = level.statement
    found = overloads(level, names, location)
    if any(map(_is_output, args)):
        # Clients declare parameters of type void for what a function gives back (PostgreSQL, ParseFuncOrColumn).
        kept = [index for index, arg in enumerate(args) if not _is_output(arg)]
        arg_names = [arg_names[index] for index in kept] if arg_names else ()
        args = [args[index] for index in kept]
    named = any(name is not None for name in arg_names)
    inputs = tuple(arg.type.oid for arg in args)
    if max(inputs, default=0) > FIRST_USER_TYPE:
        found.append(tuple(_made_routines(level, names, inputs)))
    places = partial(argument_places, statement.context, arg_names, spread=variadic) if named else None
    fitting: dict[tuple[int, ...], Candidate] = {}
    for of_schema in found:
        for candidate in candidates(of_schema, len(args), expand_variadic=not variadic, places=places):
            fitting.setdefault(candidate.args, candidate)
    possible = list(fitting.values())
    if variadic and any(candidate.args[-1:] == (ANY,) for candidate in possible):
        _check_spread(level, args[-1])
        possible = [replace(candidate, signature=replace(candidate.signature, spread=True)) for candidate in possible]
    if inputs not in fitting and len(args) == 1 and not named and not variadic:
        cast = _as_cast(level, names, args[0], location)
        if cast is not None:
            return cast
    try:
        chosen = choose(possible, inputs)
    except Ambiguous:
        raise AmbiguousFunction(
            f"function {_signature_text(names, inputs, arg_names)} is not unique",
            hint="Could not choose a best candidate function. You might need to add explicit type casts.",
            position=statement.position(location),
        ) from None
    if chosen is not None and variadic and chosen.places and chosen.places[-1] != len(args) - 1:
        chosen = None  # what is named before the last parameter is left out (PostgreSQL, func_get_detail)
    if chosen is None and len(names) == 1 and len(args) == 1 and not named:
        # PostgreSQL's functional notation: name(row) is (row).name.
        row = args[0]
        if isinstance(row, RowConstructor) and names[0] in row.names:
            return row.items[row.names.index(names[0])]
    # Hypothetical-set aggregates take arguments of any number and type, and no others of their names take any.
    hypothetical = chosen is None and bool(args) and not named and is_hypothetical_set(names)
    if not within and (hypothetical or (chosen is not None and chosen.signature.ordered_set)):
        raise WrongObjectType(
            f"WITHIN GROUP is required for ordered-set aggregate {'.'.join(names)}",
            position=statement.position(location),
        )
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
    """`type(x)` as a cast, where the conversion is trivial or through text or the argument an unknown literal
    (func_get_detail)."""
    row = lookup_type(names)
    if row is None or row.type == "c":
        return None
    schema = level.statement.context.catalog.get(row.namespace)
    if len(names) == 1 and isinstance(schema, Schema) and holds_temporary(schema.name):
        return None
    wanted = column_type(row.oid)
    source, target = arg.type.oid, wanted.oid
    if source != UNKNOWN:
        how = pathway(source, target, Context.EXPLICIT)
        if how not in ("io", "relabel") or (how == "io" and is_record(source)):
            return None
    return explicit_cast(level.statement, arg, wanted, location)


def _apply(level: Level, chosen: Candidate, args: list[Scalar], location: int) -> Resolved | Scalar:
    statement = level.statement
    declared, record = chosen.args, None
    if is_user_function(chosen.signature):
        record = record_of(statement.context, chosen.signature)
    if not chosen.expanded:
        args = with_defaults(statement, chosen, record, args)
        declared = chosen.signature.args[: len(args)]
    given = tuple(args)
    actual = tuple(arg.type.oid for arg in args)
    concrete, result = resolve_polymorphic(chosen.signature, declared, actual)
    bound: list[Scalar] = []
    for arg, wanted in zip(args, concrete, strict=True):
        if wanted == ANY:
            if isinstance(arg, Literal):
                # PostgreSQL leaves it a constant of no type.
                arg = statement.written_as(resolve_unknown(statement, arg), arg)
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
    args = [
        _of_domain(statement, arg, parameter.type_oid) for arg, parameter in zip(args, taken_by(record), strict=True)
    ]
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


# ---------------------------------------------------------------- names of arguments, and defaults


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


def argument_places(
    context: BindContext, names: Sequence[str | None], signature: Signature, *, spread: bool
) -> tuple[int, ...] | None:
    """The parameters of an overload that the arguments of a call are for, of which some are named; None when they do
    not fit: a name that it does not have, two arguments for one parameter, or none for one that has no default. A
    variadic overload fits only a call with VARIADIC, which `spread` says (PostgreSQL, MatchNamedCall)."""
    if signature.variadic and not spread:
        return None
    parameters = _parameter_names(context, signature)
    count = len(signature.args)
    places: list[int] = []
    for index, name in enumerate(names):
        place = index if name is None else (parameters.index(name) if name in parameters else count)
        if place >= count or place in places:
            return None
        places.append(place)
    if any(place not in places for place in range(count - signature.defaults)):
        return None
    return tuple(places)


def _parameter_names(context: BindContext, signature: Signature) -> Sequence[str | None]:
    """The names of the parameters that a call gives arguments for, in their order; empty where they have none."""
    if is_user_function(signature):
        return [parameter.name for parameter in taken_by(record_of(context, signature))]
    data = columns("pg_proc")
    oids = data["oid"]
    return (data["proargnames"][oids.index(signature.oid)] or ()) if signature.oid in oids else ()


def with_defaults(statement: Statement, chosen: Candidate, record: Function | None, args: list[Scalar]) -> list[Scalar]:
    """The arguments of a call in the order of the parameters, and defaults for those that have none: all of a function
    of a user (`record`), of a built-in one those before the last that is given."""
    places = chosen.places or tuple(range(len(args)))
    given = dict(zip(places, args, strict=True))
    signature = chosen.signature
    if record is not None:
        parameters = range(len(signature.args))
        return [given[each] if each in given else default_argument(statement, record, each) for each in parameters]
    defaults = _defaults(signature) if len(given) <= max(places, default=-1) else {}
    return [given[each] if each in given else defaults[each] for each in range(max(places, default=-1) + 1)]


@lru_cache(maxsize=256)
def _defaults(signature: Signature) -> dict[int, Literal]:
    """The defaults of a built-in function's parameters, which are all constants."""
    data = columns("pg_proc")
    written = data["proargdefaults"][data["oid"].index(signature.oid)]
    values = [target.res_target.val for target in split_and_parse(f"SELECT {written}")[0].tree.target_list]
    first = len(signature.args) - len(values)
    return {place: _constant(node, signature.args[place]) for place, node in enumerate(values, first)}


def _constant(node: Tree, oid: int) -> Literal:
    while node.HasField("type_cast"):
        node = node.type_cast.arg
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
