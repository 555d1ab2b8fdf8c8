"""Columns of parts in the types that their tables have now, where these are wider than when the part was written.

A numeric without a precision is text. It was DECIMAL(38,16) once; the zeros at the end of such a value say nothing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def widened(stored: Any, type_: pa.DataType) -> Any:
    """`stored`, an array of any kind, as `type_`."""
    text = stored_as(stored, type_)
    if not (pa.types.is_decimal(stored.type) and pa.types.is_string(type_)) or stored.type.scale <= 0:
        return text
    return pc.utf8_rtrim(pc.utf8_rtrim(text, characters="0"), characters=".")


def stored_as(array: Any, type_: pa.DataType) -> Any:
    """Values of a column in the type in which it is stored: decimals with all digits of their scale, as text."""
    if array.type == type_:
        return array
    text = array.cast(type_)
    if not (pa.types.is_decimal(array.type) and pa.types.is_string(type_)):
        return text
    if pc.any(pc.match_substring(text, "E")).as_py():
        # Arrow writes numbers below 1e-6 in exponent form.
        plain = [None if value is None else f"{value:f}" for value in array.to_pylist()]
        text = pa.chunked_array([plain], type_) if isinstance(array, pa.ChunkedArray) else pa.array(plain, type_)
    return text
