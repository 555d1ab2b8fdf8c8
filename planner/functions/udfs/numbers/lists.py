"""Functions over lists of numerics held as text, for engines that call none in Python for each element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planner.functions.udfs.numbers.numeric import fit, fit_decimal
from planner.functions.udfs.table import Udf


def fitted(texts: Sequence[str | None], typmod: int, decimals: bool) -> list[str | None]:
    """Values rounded to the scale of numeric(precision, scale), with `decimals` for a list that is held as decimals.
    Raises 22003 where one does not fit."""
    change = fit_decimal if decimals else fit
    return [None if text is None else change(text, typmod) for text in texts]


UDFS: Mapping[str, Udf] = {"tg_numerics_fit": Udf(("VARCHAR[]", "INTEGER", "BOOLEAN"), "VARCHAR[]", fitted)}
