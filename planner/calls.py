"""Function calls: overload resolution (chapter 10.3), aggregates, window functions, set-returning functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.binding import Level
from planner.casting import coerce, explicit_cast, resolve_unknown, to_boolean
from planner.catalog_data import columns
from planner.coercion import (
    ANY,
    Ambiguous,
    Candidate,
    Context,
    candidates,
    category,
    choose,
    concrete_signature,
    pathway,
    resolve_polymorphic,
)
from planner.errors import (
    AmbiguousFunction,
    FeatureNotSupported,
    GroupingError,
    InvalidColumnReference,
    InvalidSchemaName,
    SqlSyntaxError,
    UndefinedFunction,
    WindowingError,
    WrongObjectType,
)
from planner.functions import registry
from planner.functions.signature import Kind, Signature, Volatility
from planner.ir import (
    AggregateCall,
    Call,
    ColumnRef,
    FunctionCall,
    Literal,
    RowConstructor,
    Scalar,
    SortKey,
)
from planner.operators import check_groupable, check_sortable, column_type_of_array
from planner.parse import Tree, split_and_parse
from planner.rewrite import walk
from planner.session_values import session_signatures, session_value
from planner.type_names import element_of, format_type, lookup_type
from planner.types import RECORD, TEXT, UNKNOWN, VOID, SqlType, column_type

_HINT = "No function matches the given name and argument types. You might need to add explicit type casts."
_AGGREGATE_HINT = (
    "No aggregate function matches the given name and argument types. Perhaps you misplaced ORDER BY; ORDER BY must "
    "appear after all regular arguments of the aggregate."
)


@dataclass(slots=True)
class Resolved:
    """A call whose overload is chosen: concrete signature, arguments cast to it, and the result's type."""

    signature: Signature
    args: list[Scalar]
    type: SqlType


def overloads(level: Level, names: tuple[str, ...], location: int) -> tuple[Signature, ...]:
    """All routines that a name can mean. Raises 3F000 for a schema that does not exist."""
    name = names[-1]
    if len(names) > 1 and names[-2] not in ("pg_catalog", "information_schema"):
        if level.statement.context.catalog.schema(names[-2]) is None:
            raise InvalidSchemaName(f'schema "{names[-2]}" does not exist', position=level.statement.position(location))
        return ()
    session = session_signatures(name)
    if session:
        return session
    return registry.functions(name) + registry.aggregates(name) + registry.window_functions(name)


def resolve(
    level: Level,
    names: tuple[str, ...],
    args: list[Scalar],
    location: int,
    *,
    arg_names: Sequence[str | None] = (),
    variadic: bool = False,
    ordered: bool = False,
) -> Resolved | Scalar:
    """The call that `names(args)` means; a `Scalar` when it is a cast written as a function (``int4(x)``)."""
    statement = level.statement
    found = overloads(level, names, location)
    named = any(name is not None for name in arg_names)
    if named:
        found, args = _by_argument_names(found, args, arg_names)
    inputs = tuple(arg.type.oid for arg in args)
    possible = candidates(found, len(args), expand_variadic=not variadic)
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
    if chosen is None:
        raise UndefinedFunction(
            f"function {_signature_text(names, inputs, arg_names)} does not exist",
            hint=_AGGREGATE_HINT if ordered and len(args) > 1 else _HINT,
            position=statement.position(location),
        )
    return _apply(level, chosen, args)


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
    source, target = arg.type.oid, row.oid
    if source != UNKNOWN:
        how = pathway(source, target, Context.EXPLICIT)
        if how == "io":
            if source == RECORD or category(target) != "S" or category(source) == "S":
                return None
        elif how != "relabel":
            return None
    return explicit_cast(level.statement, arg, column_type(target), location)


def _apply(level: Level, chosen: Candidate, args: list[Scalar]) -> Resolved:
    statement = level.statement
    actual = tuple(arg.type.oid for arg in args)
    concrete, result = resolve_polymorphic(chosen.signature, chosen.args, actual)
    bound: list[Scalar] = []
    for arg, wanted in zip(args, concrete, strict=True):
        if wanted == ANY:
            if isinstance(arg, Literal):
                arg = resolve_unknown(statement, arg)
            bound.append(finish_row(level, arg))
        else:
            target = column_type_of_array(wanted) if element_of(wanted) else column_type(wanted)
            bound.append(finish_row(level, coerce(statement, arg, target, Context.IMPLICIT)))
    signature = chosen.signature
    signature = concrete_signature(signature, concrete, result)
    constants = tuple(arg.value if isinstance(arg, Literal) else None for arg in bound)
    type = registry.result_type(signature, [arg.type for arg in bound], constants)
    if signature.volatility is Volatility.VOLATILE:
        statement.volatile = True
    return Resolved(signature, bound, type)


def finish_row(level: Level, scalar: Scalar) -> Scalar:
    """A row constructor whose unknown literals are text; anything else unchanged."""
    if isinstance(scalar, RowConstructor) and any(item.type.oid == UNKNOWN for item in scalar.items):
        items = tuple(
            resolve_unknown(level.statement, item) if isinstance(item, Literal) else item for item in scalar.items
        )
        done = RowConstructor(items=items, names=scalar.names, type=scalar.type)
        return level.statement.at(done, level.statement.location(scalar))
    return scalar


def _by_argument_names(
    found: tuple[Signature, ...], args: list[Scalar], arg_names: Sequence[str | None]
) -> tuple[tuple[Signature, ...], list[Scalar]]:
    """Named arguments put into position; left-out ones before the last given get their defaults."""
    data = columns("pg_proc")
    oids = data["oid"]
    matching: list[Signature] = []
    ordered: list[Scalar] = args
    for signature in found:
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
    if oid == 701:
        value = float(str(value))
    return Literal(value=value, type=column_type(oid))


# ---------------------------------------------------------------- calls in expressions


def bind_call(level: Level, tree: Tree) -> Scalar:
    """A FuncCall in an expression."""
    from planner.expressions import bind

    statement = level.statement
    location = tree.location
    names = tuple(node.string.sval for node in tree.funcname)
    args: list[Scalar] = []
    arg_names: list[str | None] = []
    aggregate_like = bool(tree.agg_star or tree.agg_distinct or tree.agg_order or tree.HasField("agg_filter"))
    over = tree.over if tree.HasField("over") else None
    filtered = tree.agg_filter if tree.HasField("agg_filter") else None
    start_srfs = len(level.srfs)
    for node in tree.args:
        if node.HasField("named_arg_expr"):
            named = node.named_arg_expr
            if named.name in arg_names:
                raise SqlSyntaxError(
                    f'argument name "{named.name}" used more than once', position=statement.position(named.location)
                )
            arg_names.append(named.name)
            args.append(bind(level, named.arg))
        else:
            if any(name is not None for name in arg_names):
                raise SqlSyntaxError(
                    "positional argument cannot follow named argument", position=statement.position(location)
                )
            arg_names.append(None)
            args.append(bind(level, node))
    order = []
    if tree.agg_within_group:
        order = [(node.sort_by, bind(level, node.sort_by.node)) for node in tree.agg_order]
        args.extend(expr for _, expr in order)
        arg_names.extend(None for _ in order)
    resolved = resolve(
        level,
        names,
        args,
        location,
        arg_names=arg_names if any(arg_names) else (),
        variadic=tree.func_variadic,
        ordered=bool(tree.agg_order) and not tree.agg_within_group,
    )
    name_text = ".".join(names)
    if not isinstance(resolved, Resolved):
        _only_aggregates(level, name_text, aggregate_like, tree, over)
        return resolved
    kind = resolved.signature.kind
    if kind is Kind.AGGREGATE:
        if over is not None and tree.agg_within_group is False:
            return _window(level, resolved, tree, over, filtered, name_text, start_srfs)
        if over is not None:
            raise FeatureNotSupported(
                f"OVER is not supported for ordered-set aggregate {names[-1]}", position=statement.position(location)
            )
        return _aggregate(level, resolved, tree, filtered, len(args) - len(order), order, start_srfs, name_text)
    if kind is Kind.WINDOW:
        if over is None:
            raise WrongObjectType(
                f"window function {name_text} requires an OVER clause", position=statement.position(location)
            )
        return _window(level, resolved, tree, over, filtered, name_text, start_srfs)
    _only_aggregates(level, name_text, aggregate_like, tree, over)
    value = session_value(resolved.signature, tuple(resolved.args), resolved.type)
    if value is not None:
        return statement.at(value, location)
    if kind is Kind.SET_RETURNING:
        return set_returning(level, resolved, names[-1], location, start_srfs)
    return finish_call(level, resolved, location)


def finish_call(level: Level, resolved: Resolved, location: int) -> Scalar:
    """A plain function call. A function with several OUT columns gives a record whose fields are known."""
    if resolved.type.oid == RECORD:
        out = registry.output_columns(resolved.signature)
        call = Call(signature=resolved.signature, args=tuple(resolved.args), type=resolved.type)
        if out is not None:
            level.statement.records[id(call)] = (call, tuple((name, column_type(oid)) for name, oid in out))
        return level.statement.at(call, location)
    call = Call(signature=resolved.signature, args=tuple(resolved.args), type=resolved.type)
    return level.statement.at(call, location)


def _only_aggregates(level: Level, name: str, aggregate_like: bool, tree: Tree, over: Any) -> None:
    position = level.statement.position(tree.location)
    if tree.agg_star:
        raise WrongObjectType(f"{name}(*) specified, but {name} is not an aggregate function", position=position)
    if tree.agg_distinct:
        raise WrongObjectType(f"DISTINCT specified, but {name} is not an aggregate function", position=position)
    if tree.agg_within_group:
        raise WrongObjectType(f"WITHIN GROUP specified, but {name} is not an aggregate function", position=position)
    if tree.agg_order:
        raise WrongObjectType(f"ORDER BY specified, but {name} is not an aggregate function", position=position)
    if tree.HasField("agg_filter"):
        raise WrongObjectType(f"FILTER specified, but {name} is not an aggregate function", position=position)
    if over is not None:
        raise WrongObjectType(
            f"OVER specified, but {name} is not a window function nor an aggregate function", position=position
        )


# ---------------------------------------------------------------- aggregates


def sort_key(level: Level, tree: Tree, expr: Scalar) -> SortKey:
    """A SortBy clause over an expression, with the null order said."""
    from planner.expressions import sort_direction

    expr = resolve_unknown(level.statement, expr)
    descending, nulls_first = sort_direction(level, tree, expr)
    return SortKey(expr=expr, descending=descending, nulls_first=nulls_first)


def _aggregate(
    level: Level,
    resolved: Resolved,
    tree: Tree,
    filtered: Any,
    direct: int,
    within: list[tuple[Any, Scalar]],
    start_srfs: int,
    name: str,
) -> Scalar:
    from planner.expressions import bind

    statement = level.statement
    signature = resolved.signature
    position = statement.position(tree.location)
    if signature.ordered_set and not tree.agg_within_group:
        raise WrongObjectType(f"WITHIN GROUP is required for ordered-set aggregate {name}", position=position)
    if tree.agg_within_group and not signature.ordered_set:
        raise WrongObjectType(
            f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", position=position
        )
    if not tree.args and not tree.agg_star and not signature.ordered_set and signature.args == ():
        raise WrongObjectType(f"{name}(*) must be used to call a parameterless aggregate function", position=position)
    if len(level.srfs) > start_srfs:
        raise FeatureNotSupported("aggregate function calls cannot contain set-returning function calls",
                                  hint="You might be able to move the set-returning function into a LATERAL FROM item.",
                                  position=statement.position(level.srf_locations[start_srfs]))  # fmt: skip
    args = resolved.args
    order_by: tuple[SortKey, ...]
    if within:
        order_by = tuple(sort_key(level, sort, arg) for (sort, _), arg in zip(within, args[direct:], strict=True))
        args = args[:direct]
    else:
        order_by = tuple(
            sort_key(level, node.sort_by, _order_expression(level, node.sort_by, args)) for node in tree.agg_order
        )
    for key in order_by:
        check_sortable(level, key.expr)
    if tree.agg_distinct:
        for arg in args:
            check_groupable(level, arg)
        if any(key.expr not in args for key in order_by):
            raise InvalidColumnReference(
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                position=statement.position_of(order_by[0].expr),
            )
    condition: Scalar | None = None
    if filtered is not None:
        outer = level.clause
        level.clause = "FILTER"
        condition = to_boolean(statement, bind(level, filtered), "FILTER")
        level.clause = outer
    call = AggregateCall(
        signature=signature,
        args=tuple(args),
        type=resolved.type,
        distinct=tree.agg_distinct,
        filter=condition,
        order_by=order_by,
    )
    owner = _aggregate_level(level, call)
    forbidden = owner.clause
    if forbidden is not None and forbidden not in ALLOWED_FOR_AGGREGATES:
        raise GroupingError(f"aggregate functions are not allowed in {forbidden}", position=position)
    field = next((known for existing, known in owner.aggregates if existing == call), None)
    if field is None:
        field = statement.new_field(signature.name, call.type)
        owner.aggregates.append((call, field))
        statement.aggregate_owner[field.id] = owner
    result: Scalar = statement.at(ColumnRef(id=field.id, type=field.type), tree.location)
    return result


ALLOWED_FOR_AGGREGATES = frozenset({"SELECT", "HAVING", "ORDER BY", "DISTINCT ON", "window"})
"""Clauses in which aggregates may stand; other names of clauses go into the error."""


def _order_expression(level: Level, sort: Tree, args: list[Scalar]) -> Scalar:
    from planner.expressions import bind

    return bind(level, sort.node)


def _aggregate_level(level: Level, call: AggregateCall) -> Level:
    """The query level that an aggregate belongs to: the innermost whose columns it reads. Raises 42803 when it holds
    an aggregate or window function of that level."""
    statement = level.statement
    around: list[Level] = []
    current: Level | None = level
    while current is not None:
        around.append(current)
        current = current.parent
    best: int | None = None
    nested: dict[int, ColumnRef] = {}
    windows: ColumnRef | None = None
    for part in walk((call.args, call.order_by, call.filter)):
        if not isinstance(part, ColumnRef):
            continue
        owner = statement.owner.get(part.id) or statement.aggregate_owner.get(part.id)
        if part.id in statement.window_ids:
            windows = windows or part
        if owner is None or owner not in around:
            continue
        depth = around.index(owner)
        best = depth if best is None else min(best, depth)
        if part.id in statement.aggregate_owner:
            nested.setdefault(depth, part)
    depth = best or 0
    if windows is not None:
        raise GroupingError(
            "aggregate function calls cannot contain window function calls", position=statement.position_of(windows)
        )
    if depth in nested:
        raise GroupingError("aggregate function calls cannot be nested", position=statement.position_of(nested[depth]))
    return around[depth]


# ---------------------------------------------------------------- window functions


ALLOWED_FOR_WINDOWS = frozenset({"SELECT", "ORDER BY", "DISTINCT ON"})


@dataclass(slots=True)
class PendingWindow:
    """A window function whose window is bound when the query's FROM and WINDOW clauses are."""

    signature: Signature
    args: tuple[Scalar, ...]
    type: SqlType
    definition: Tree
    filter: Scalar | None


def _window(
    level: Level, resolved: Resolved, tree: Tree, over: Any, filtered: Any, name: str, start_srfs: int
) -> Scalar:
    from planner.expressions import bind

    statement = level.statement
    position = statement.position(tree.location)
    if level.clause not in ALLOWED_FOR_WINDOWS:
        if level.clause == "window":
            raise WindowingError("window functions are not allowed in window definitions", position=position)
        raise WindowingError(f"window functions are not allowed in {level.clause}", position=position)
    if len(level.srfs) > start_srfs:
        raise FeatureNotSupported(
            "window function calls cannot contain set-returning function calls",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            position=statement.position(level.srf_locations[start_srfs]),
        )
    if tree.agg_distinct:
        raise FeatureNotSupported("DISTINCT is not implemented for window functions", position=position)
    if tree.agg_order:
        raise FeatureNotSupported("aggregate ORDER BY is not implemented for window functions", position=position)
    if resolved.signature.kind is Kind.WINDOW and filtered is not None:
        raise FeatureNotSupported("FILTER is not implemented for non-aggregate window functions", position=position)
    if resolved.signature.kind is Kind.AGGREGATE and not tree.args and not tree.agg_star:
        raise WrongObjectType(f"{name}(*) must be used to call a parameterless aggregate function", position=position)
    for part in walk(tuple(resolved.args)):
        if isinstance(part, ColumnRef) and part.id in statement.window_ids:
            raise WindowingError("window function calls cannot be nested", position=statement.position_of(part))
    condition: Scalar | None = None
    if filtered is not None:
        outer = level.clause
        level.clause = "FILTER"
        condition = to_boolean(statement, bind(level, filtered), "FILTER")
        level.clause = outer
    field = statement.new_field(resolved.signature.name, resolved.type)
    statement.window_ids.add(field.id)
    pending = PendingWindow(resolved.signature, tuple(resolved.args), resolved.type, over, condition)
    level.windows.append((pending, field))
    result: Scalar = statement.at(ColumnRef(id=field.id, type=field.type), tree.location)
    return result


# ---------------------------------------------------------------- set-returning functions


_SET_PLACES = {"window": "window definitions", "": "this context"}
ALLOWED_FOR_SETS = frozenset({"SELECT", "ORDER BY", "DISTINCT ON", "GROUP BY"})


def output_fields(level: Level, resolved: Resolved, name: str) -> tuple[Any, ...]:
    """The columns of a function in FROM or of a set-returning one: its OUT columns, or one named after it."""
    statement = level.statement
    out = registry.output_columns(resolved.signature)
    if out is not None and resolved.type.oid == RECORD:
        concrete = _concrete_columns(resolved, out)
        return tuple(statement.new_field(column, type) for column, type in concrete)
    type = resolved.type
    if out is not None and len(out) == 1 and out[0][0]:
        return (statement.new_field(out[0][0], type),)
    return (statement.new_field(name, type),)


def _concrete_columns(resolved: Resolved, out: Sequence[tuple[str, int]]) -> list[tuple[str, SqlType]]:
    element = next((element_of(arg) for arg in resolved.signature.args if element_of(arg)), TEXT)
    return [(name, column_type(element if oid in (2283, 5077) else oid)) for name, oid in out]


def set_returning(level: Level, resolved: Resolved, name: str, location: int, start_srfs: int) -> Scalar:
    """A set-returning function in a select list: a reference to the column that a `ProjectSet` will compute."""
    statement = level.statement
    position = statement.position(location)
    if level.clause not in ALLOWED_FOR_SETS:
        raise FeatureNotSupported(
            f"set-returning functions are not allowed in {_SET_PLACES.get(level.clause or '', level.clause)}",
            position=position,
        )
    if level.srf_barrier is not None:
        raise FeatureNotSupported(
            f"set-returning functions are not allowed in {level.srf_barrier}",
            hint="You might be able to move the set-returning function into a LATERAL FROM item.",
            position=position,
        )
    fields = output_fields(level, resolved, name)
    depth = max((level.srf_depth[index] for index in range(start_srfs, len(level.srfs))), default=-1) + 1
    call = FunctionCall(signature=resolved.signature, args=tuple(resolved.args), fields=fields)
    level.srfs.append(call)
    level.srf_depth.append(depth)
    level.srf_locations.append(location)
    if resolved.type.oid == RECORD:
        if len(fields) == 1 and fields[0].type.oid == RECORD:
            raise FeatureNotSupported(f"function {name} returning record is only supported in FROM", position=position)
        items = tuple(ColumnRef(id=field.id, type=field.type) for field in fields)
        row = RowConstructor(items=items, names=tuple(field.name for field in fields), type=SqlType(RECORD))
        return statement.at(row, location)
    if resolved.type.oid == VOID:
        raise FeatureNotSupported(f"function {name} is not supported in a select list", position=position)
    return statement.at(ColumnRef(id=fields[0].id, type=fields[0].type), location)
