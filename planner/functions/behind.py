"""The functions behind operators and casts: ``int4eq(a, b)`` is ``a = b``, ``float8(x)`` is ``x::float8``.

PostgreSQL carries an operator out by a function that can be called as well (pg_operator.oprcode), and so it does casts
(pg_cast.castfunc). Here they have no form of their own: a call of one is the operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from planner.catalog_data.content import columns
from planner.functions.routines import Routine
from planner.types.signature import Kind, Signature

CAST = "CAST"


def functions_behind(
    catalog: Mapping[str, Routine], operators: Mapping[str, Sequence[Signature]]
) -> Iterator[Signature]:
    """Those of the `operators` that exist here, and those of casts between types that differ."""
    signatures = {
        routine.signature.oid: routine.signature
        for routine in catalog.values()
        if routine.signature.kind is Kind.FUNCTION
    }
    data = columns("pg_operator")
    behind = dict(zip(data["oid"], data["oprcode"], strict=True))
    means: dict[int, str] = {}
    for symbol, overloads in operators.items():
        for overload in overloads:
            function = signatures.get(behind[overload.oid])
            if function is not None and function.args == overload.args:
                means.setdefault(function.oid, symbol)
    casts = columns("pg_cast")
    for oid, source, target in zip(casts["castfunc"], casts["castsource"], casts["casttarget"], strict=True):
        function = signatures.get(oid)
        if function is not None and function.args == (source,) and function.result == target:
            means.setdefault(oid, CAST)
    return (replace(signatures[oid], means=meaning) for oid, meaning in means.items())
