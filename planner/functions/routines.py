"""PostgreSQL 15's routines by name and argument types, from the catalog data.

Only those over types that Tidegate has are read, the support functions of types, indexes and handlers are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from planner.catalog_data.content import read_columns
from planner.types.signature import Kind, Signature, Volatility

_SCHEMAS = (11, 13000)
"""pg_catalog and information_schema."""


class Routine(Struct, frozen=True):
    """A signature, and the OUT columns that it declares if it does."""

    signature: Signature
    columns: tuple[tuple[str, int], ...] | None


@cache
def routines() -> Mapping[str, Routine]:
    """Every routine of pg_catalog, keyed as families name them: ``left(text,int4)``."""
    types = read_columns("pg_type")
    names = dict(zip(types["oid"], types["typname"], strict=True))
    for array_oid, element in zip(types["typarray"], types["typname"], strict=True):
        if array_oid:
            names[array_oid] = element + "[]"
    found: dict[str, Routine] = {}
    ordered_sets = _ordered_sets()
    procs = read_columns("pg_proc")
    strictness: dict[int, tuple[bool, Volatility]] = {}
    for row in _rows(
        procs,
        "oid proname pronamespace prokind proretset proisstrict provolatile pronargdefaults prorettype proargtypes "
        "proallargtypes proargmodes proargnames provariadic",
    ):
        (oid, name, namespace, kind, retset, strict, volatile, defaults, result, args, all_args, modes, arg_names,
         variadic) = row  # fmt: skip
        if namespace not in _SCHEMAS:
            continue
        volatility = Volatility(volatile)
        strictness[oid] = (strict, volatility)
        if kind == "a":
            routine_kind = Kind.AGGREGATE
        elif kind == "w":
            routine_kind = Kind.WINDOW
        else:
            routine_kind = Kind.SET_RETURNING if retset else Kind.FUNCTION
        signature = Signature(
            name=name, kind=routine_kind, args=tuple(args), result=result, oid=oid, variadic=bool(variadic),
            strict=strict, volatility=volatility, ordered_set=oid in ordered_sets, defaults=defaults,
        )  # fmt: skip
        columns = None
        if modes is not None and all_args is not None:
            out = [
                (column, type)
                for column, type, mode in zip(arg_names or [""] * len(modes), all_args, modes, strict=True)
                if mode in "bot"
            ]
            if len(out) > 1 or (out and retset):
                columns = tuple(out)
        found[_key(name, args, names)] = Routine(signature, columns)
    for row in _rows(read_columns("pg_operator"), "oid oprname oprleft oprright oprresult oprcode"):
        oid, name, left, right, result, code = row
        args = [right] if left == 0 else [left, right]
        strict, volatility = strictness.get(code, (True, Volatility.IMMUTABLE))
        signature = Signature(
            name=name, kind=Kind.OPERATOR, args=tuple(args), result=result, oid=oid, strict=strict,
            volatility=volatility,
        )  # fmt: skip
        found[_key(name, args, names)] = Routine(signature, None)
    return found


def _key(name: str, args: list[int], names: Mapping[int, str]) -> str:
    return f"{name}({','.join(names.get(oid, str(oid)) for oid in args)})"


def _ordered_sets() -> frozenset[int]:
    return frozenset(oid for oid, kind in _rows(read_columns("pg_aggregate"), "aggfnoid aggkind") if kind != "n")


def _rows(data: dict[str, list[Any]], columns: str) -> Any:
    return zip(*(data[column] for column in columns.split()), strict=True)
