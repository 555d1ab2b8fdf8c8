"""The functions that PostgreSQL has not: Tidegate's own, in a schema of their name.

They are called with the schema (``tidegate.format(...)``), which no search path holds, so that no function of
PostgreSQL's is ever hidden. The schema is part of the server and not of any database: it is in no catalog, and dumps,
which are to be restored elsewhere, leave it out. The OIDs are ones that PostgreSQL never gives out.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.functions.forms.form import Form, local_only
from planner.types.signature import Kind, Signature, Volatility
from planner.types.types import INT8, TEXT, TIMESTAMPTZ

SCHEMA = "tidegate"


def _function(oid: int, name: str, args: int) -> Signature:
    return Signature(
        name=name,
        kind=Kind.FUNCTION,
        args=(TEXT,) * args,
        result=TEXT,
        oid=oid,
        strict=True,
        volatility=Volatility.IMMUTABLE,
    )


_TRANSPILE = _function(15901, "transpile", 3)
"""transpile(text, from_dialect, to_dialect): see `planner.syntax.dialects`."""
_FORMAT = _function(15902, "format", 1)
"""format(text): see `planner.syntax.formatting`."""


def _acting(oid: int, name: str, args: tuple[int, ...], result: int, volatility: Volatility) -> Signature:
    return Signature(name=name, kind=Kind.FUNCTION, args=args, result=result, oid=oid, volatility=volatility)


ACTING = (
    _acting(15903, "current_csn", (), INT8, Volatility.STABLE),
    _acting(15904, "csn_at", (TIMESTAMPTZ,), INT8, Volatility.IMMUTABLE),
    _acting(15905, "csn_time", (INT8,), TIMESTAMPTZ, Volatility.IMMUTABLE),
)
"""What is carried out by the adapter: current_csn() is the CSN that the statement reads at, csn_at(time) the one at
which everything is read that was committed up to then, csn_time(csn) the time of a CSN."""

FORMS: Mapping[Signature, Form] = {
    _TRANSPILE: local_only("tg_transpile({0}, {1}, {2})"),
    _FORMAT: local_only("tg_format_sql({0})"),
}


def functions(name: str) -> tuple[Signature, ...]:
    """The overloads of the function called `name`."""
    return tuple(signature for signature in (*FORMS, *ACTING) if signature.name == name)
