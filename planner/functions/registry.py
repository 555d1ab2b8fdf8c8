"""The function registry: which PostgreSQL functions, operators, aggregates and window functions exist here.

A routine exists when a family (planner.functions.<family>) gives it a form on at least one engine, and a function also
when it is what an operator or a cast that exists does (`planner.functions.behind`); its OID,
strictness, volatility and defaults are PostgreSQL 15's own (planner.catalog_data.content). Families name routines as
``name(type,type)`` with pg_type's names, ``variadic`` left out: ``left(text,int4)``, ``+(int4,int4)``, ``-(NULL,int4)``
is written ``-(int4)``.

Look-ups return overloads in no particular order; choosing among them is the binder's work. Polymorphic signatures are
returned as PostgreSQL declares them; the binder puts the concrete types in with `msgspec.structs.replace`, and the OID
still finds the form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct

from planner.functions import of_extensions, own
from planner.functions.behind import functions_behind
from planner.functions.forms.form import Form
from planner.functions.routines import Routine, routines
from planner.types.numeric_shapes import numeric_result
from planner.types.signature import Kind, Signature
from planner.types.type_names import element_of
from planner.types.types import NUMERIC, SqlType

_NUMERIC_ARRAY = 1231


class _Registry(Struct, frozen=True):
    by_name: Mapping[tuple[str, str], tuple[Signature, ...]]
    forms: Mapping[tuple[bool, int], Form]
    columns: Mapping[int, tuple[tuple[str, int], ...]]


def functions(name: str) -> tuple[Signature, ...]:
    """The overloads of the plain and set-returning functions called `name` (no schema, already case-folded)."""
    return _registry().by_name.get(("function", name), ())


def operators(symbol: str) -> tuple[Signature, ...]:
    """The overloads of an operator, prefix operators with one argument."""
    return _registry().by_name.get(("operator", symbol), ())


def aggregates(name: str) -> tuple[Signature, ...]:
    """The overloads of the aggregates called `name`, ordered-set and hypothetical-set ones among them."""
    return _registry().by_name.get(("aggregate", name), ())


def window_functions(name: str) -> tuple[Signature, ...]:
    """The overloads of the pure window functions called `name` (row_number, lag, ...)."""
    return _registry().by_name.get(("window", name), ())


def result_type(signature: Signature, arg_types: Sequence[SqlType], constants: Sequence[object] = ()) -> SqlType:
    """The type of a call to `signature` with arguments of `arg_types`.

    `signature.result` is concrete. `constants[i]`, where given, is the value of argument i if that is a literal (else
    None): the shape of ``round(x, 2)`` and of ``extract(second from t)`` depends on it.
    """
    if signature.result == NUMERIC:
        return SqlType(NUMERIC, -1, numeric_result(signature, arg_types, constants))
    dimensioned = _dimensioned(signature, arg_types)
    if signature.result == _NUMERIC_ARRAY:
        return SqlType(_NUMERIC_ARRAY, -1, numeric_result(signature, arg_types, constants), dimensioned=dimensioned)
    return SqlType(signature.result, dimensioned=dimensioned)


_ANY_DIMENSIONS = frozenset({"array_fill", "array_agg"})
"""Routines whose results may have any dimensions, whatever their arguments; array_agg of arrays, that is."""
_FOR_EACH = frozenset({"percentile_cont", "percentile_disc"})
"""Those whose results have the dimensions of their first argument where that is an array of fractions."""
_KEEPING = frozenset({
    "||", "array_cat", "array_append", "array_prepend", "array_remove", "array_replace", "trim_array",
})  # fmt: skip
"""Routines whose results have the dimensions of their arguments."""


def _dimensioned(signature: Signature, arg_types: Sequence[SqlType]) -> bool:
    """Whether the result is an array that may be no ordinary list: such a one itself, or made of one."""
    if not element_of(signature.result):
        return False
    makes_some = of_extensions.dimensioned().get(signature.oid)
    if makes_some is not None:
        return makes_some or any(type.dimensioned for type in arg_types)
    if signature.name in _ANY_DIMENSIONS:
        return signature.name == "array_fill" or any(type.oid == signature.result for type in arg_types)
    if signature.name in _FOR_EACH and element_of(arg_types[0].oid):
        return arg_types[0].dimensioned
    chooses = signature.kind in (Kind.AGGREGATE, Kind.WINDOW) or signature.name in _KEEPING
    return chooses and any(type.dimensioned and type.oid == signature.result for type in arg_types)


def output_columns(signature: Signature) -> tuple[tuple[str, int], ...] | None:
    """Names and type OIDs of the columns that a function in FROM returns, where it declares OUT parameters; None for
    the functions that return one column named after them."""
    return _registry().columns.get(signature.oid)


def form(signature: Signature) -> Form | None:
    """How the engines say this routine."""
    return _registry().forms.get((signature.kind is Kind.OPERATOR, signature.oid))


@cache
def _registry() -> _Registry:
    from planner.functions.families import all as families

    named: dict[tuple[str, str], list[Signature]] = {}
    forms: dict[tuple[bool, int], Form] = {}
    columns: dict[int, tuple[tuple[str, int], ...]] = {}
    catalog = routines()
    for key, given in families.all_forms().items():
        routine = _routine(catalog, key)
        signature = routine.signature
        group = "function" if signature.kind in (Kind.FUNCTION, Kind.SET_RETURNING) else signature.kind.value
        named.setdefault((group, signature.name), []).append(signature)
        forms[(signature.kind is Kind.OPERATOR, signature.oid)] = given
        if routine.columns is not None:
            columns[signature.oid] = routine.columns
    forms.update({(False, signature.oid): given for signature, given in own.FORMS.items()})
    forms.update(of_extensions.forms())
    operators = {name: overloads for (group, name), overloads in named.items() if group == "operator"}
    exists = frozenset(oid for is_operator, oid in forms if not is_operator)
    for signature in functions_behind(catalog, operators):
        if signature.oid not in exists:
            named.setdefault(("function", signature.name), []).append(signature)
    return _Registry({name: tuple(overloads) for name, overloads in named.items()}, forms, columns)


def _routine(catalog: Mapping[str, Routine], key: str) -> Routine:
    try:
        return catalog[key]
    except KeyError:
        raise LookupError(f"PostgreSQL has no routine {key}") from None
