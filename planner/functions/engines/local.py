"""The functions in Python that the local engine calls, and their registration.

`UDFS` maps a name to its argument types, result type and the function of one row. A `SqlError` that one raises reaches
the client through the engine's own exception as text; `planner.lowering.engine_errors` decodes it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from planner.dialects.error_text import error_text
from planner.errors import SqlError
from planner.functions.udfs import arrays, dialects, formatting, json, json_populated, regex, samples, temporal, text
from planner.functions.udfs.extensions import fuzzy, hstore, pgcrypto, tablefunc, trigrams, uuids
from planner.functions.udfs.geometry import table as geometry
from planner.functions.udfs.numbers import floats, hashes, lists, numeric
from planner.functions.udfs.opaque import addresses, bits, jsonpath, money, network, ranges, timetz
from planner.functions.udfs.table import Udf

Connection: TypeAlias = Any

UDFS: Mapping[str, Udf] = {
    **numeric.UDFS, **floats.UDFS, **text.UDFS, **temporal.UDFS, **regex.UDFS, **json.UDFS, **formatting.UDFS,
    **network.UDFS, **addresses.UDFS, **dialects.UDFS, **arrays.UDFS, **ranges.UDFS, **bits.UDFS, **jsonpath.UDFS,
    **money.UDFS, **timetz.UDFS, **geometry.UDFS, **samples.UDFS, **hashes.UDFS, **json_populated.UDFS,
    **pgcrypto.UDFS, **uuids.UDFS, **trigrams.UDFS, **fuzzy.UDFS, **hstore.UDFS, **tablefunc.UDFS, **lists.UDFS,
}  # fmt: skip


def encode_error(error: SqlError) -> str:
    """The text by which an SqlError passes through an engine's exception."""
    return error_text(error.sqlstate, error.message, error.detail, error.hint)


def _wrapped(udf: Udf) -> Callable[..., Any]:
    call, nulls = udf.call, udf.nulls

    def run(*args: Any) -> Any:
        if not nulls and None in args:
            return None
        try:
            return call(*args)
        except SqlError as error:
            raise ValueError(encode_error(error)) from None

    kind = inspect.Parameter.POSITIONAL_ONLY
    parameters = [inspect.Parameter(f"a{number}", kind) for number in range(len(udf.args))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def register(connection: Connection) -> None:
    """Defines all of `UDFS` in the connection's database."""
    for name, udf in UDFS.items():
        connection.create_function(name, _wrapped(udf), list(udf.args), udf.result, null_handling="special")
