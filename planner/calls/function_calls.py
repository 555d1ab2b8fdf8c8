"""Functions by oid, as the protocol's FunctionCall message names them: the query that calls one."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from planner.errors import FeatureNotSupported, UndefinedFunction
from planner.functions import registry
from planner.functions.routines import routines
from planner.resolution.session_values import session_signatures
from planner.syntax.identifiers import quote_identifier
from planner.types.signature import Kind, Signature
from planner.types.type_names import format_type, type_row
from planner.types.types import SqlType, column_type

_CSTRING = 2275


class CallableFunction(Struct, frozen=True, kw_only=True):
    """A function, and the query of one value that calls it with $1, $2, ... of types `args`. The result of one that is
    `strict` is NULL when an argument is."""

    name: str
    args: tuple[SqlType, ...]
    strict: bool
    query: str


def callable_function(oid: int) -> CallableFunction:
    """The function with this oid. Raises 42883 when there is none; 0A000 for aggregates and the like, and for what does
    not exist here."""
    signature = _signatures().get(oid)
    if signature is None:
        raise UndefinedFunction(f"function with OID {oid} does not exist")
    if signature.kind is not Kind.FUNCTION:
        raise FeatureNotSupported(f'cannot call function "{signature.name}" via fastpath interface')
    expression = _expression(signature)
    if expression is None:
        arguments = ", ".join(format_type(argument) for argument in signature.args)
        raise FeatureNotSupported(f"function {signature.name}({arguments}) is not supported")
    return CallableFunction(
        name=signature.name,
        args=tuple(column_type(argument) for argument in signature.args),
        strict=signature.strict,
        query=f"SELECT {expression}",
    )


def refuse_pseudo_type(type: SqlType) -> None:
    """Raises 0A000 for the types that no value can be given for: anyelement, internal, ..."""
    row = type_row(type.oid)
    if row is not None and row.type == "p" and type.oid != _CSTRING:
        raise FeatureNotSupported(f"cannot accept a value of type {row.name}")


@cache
def _signatures() -> dict[int, Signature]:
    found = (routine.signature for routine in routines().values())
    return {signature.oid: signature for signature in found if signature.kind is not Kind.OPERATOR}


def _expression(signature: Signature) -> str | None:
    known = registry.functions(signature.name) + session_signatures(signature.name)
    if all(candidate.oid != signature.oid for candidate in known):
        return None
    params = [f"${number}" for number in range(1, len(signature.args) + 1)]
    if signature.variadic:
        params[-1] = f"VARIADIC {params[-1]}"
    return f"pg_catalog.{quote_identifier(signature.name)}({', '.join(params)})"
