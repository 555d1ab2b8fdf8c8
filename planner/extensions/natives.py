"""The functions of extensions that are in no SQL: they run the queries that their arguments are the texts of
(`adapter.procedures.extensions`), or are expressions over rows (`planner.expressions.extensions`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

ROW_TYPE = "tablefunc_crosstab_"
"""What the types are called that crosstab2, crosstab3 and crosstab4 return; their numbers follow."""


class Native(Struct, frozen=True, kw_only=True):
    """One such function. `args` and `result` are types of pg_catalog, or of the extension, by name. An `expression` is
    no set and takes NULLs; the others are sets of rows, and strict."""

    name: str
    args: tuple[str, ...]
    result: str = "record"
    symbol: str
    expression: bool = False
    """Which of the server's functions it is."""


def _tablefunc() -> Iterator[Native]:
    yield Native(name="crosstab", args=("text",), symbol="crosstab")
    yield Native(name="crosstab", args=("text", "int4"), symbol="crosstab")
    yield Native(name="crosstab", args=("text", "text"), symbol="crosstab_hash")
    for count in (2, 3, 4):
        yield Native(name=f"crosstab{count}", args=("text",), result=f"{ROW_TYPE}{count}", symbol="crosstab")
    for ordered, symbol in ((0, "connectby_text"), (1, "connectby_text_serial")):
        fixed = ("text",) * (4 + ordered)
        yield Native(name="connectby", args=(*fixed, "int4", "text"), symbol=symbol)
        yield Native(name="connectby", args=(*fixed, "int4"), symbol=symbol)


HSTORE: Sequence[Native] = (
    Native(name="hstore", args=("record",), result="hstore", symbol="hstore_from_record", expression=True),
    Native(
        name="populate_record",
        args=("anyelement", "hstore"),
        result="anyelement",
        symbol="hstore_populate_record",
        expression=True,
    ),
)
TABLEFUNC: Sequence[Native] = tuple(_tablefunc())
