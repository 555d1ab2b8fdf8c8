"""The arguments of a call: their names, the parameters that they are for, and what parameters get that are left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from planner.calls.user_functions import default_argument, is_user_function, record_of, taken_by
from planner.catalog_data.content import columns
from planner.errors import SqlSyntaxError
from planner.ir.nodes import Literal, Scalar
from planner.resolution.coercion import Candidate
from planner.resolution.statement import BindContext, Statement
from planner.syntax.parse import Tree, split_and_parse, tree_location
from planner.types.signature import Signature
from planner.types.types import FLOAT8, column_type
from storage.catalog.routines import Function


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
