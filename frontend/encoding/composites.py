"""Arrays and records as text and in binary.

Physical values: list<T> for arrays of any dimensions (a list of lists must be rectangular), struct for records. The
quoting rules are those of PostgreSQL's array_out and record_out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frontend.encoding.columns import (
    ArrowArray,
    BoolVector,
    ColumnEncoder,
    Encoded,
    as_binary,
    as_text,
    binary_from_lengths,
    fixed_to_binary,
    join_pieces,
    lengths_of,
    null_mask,
    without_nulls,
)
from planner.errors import DatatypeMismatch
from planner.ir import array_value
from planner.values.array_text import quote_element, show_array

_ARRAY_NEEDS_QUOTES = r'^$|[{}",\\ \t\n\v\f\r]|^(?i:null)$'
_RECORD_NEEDS_QUOTES = r'^$|[()",\\ \t\n\v\f\r]'


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _as_list(array: ArrowArray) -> ArrowArray:
    return array if pa.types.is_list(array.type) else pc.cast(array, pa.list_(array.type.value_type))


def _children(array: ArrowArray) -> tuple[ArrowArray, np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """(the elements of all rows, offsets into them starting at 0); NULL rows have no elements."""
    if array.null_count:
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    else:
        lengths = pc.list_value_length(array).to_numpy()
    offsets = np.zeros(len(array) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return array.flatten(), offsets


def _as_matrix_of_lengths(lengths: np.ndarray[tuple[int], np.dtype[np.int32]]) -> ArrowArray:
    return fixed_to_binary(lengths.astype(">i4").view(np.uint8).reshape(len(lengths), 4))


def array_text_encoder(
    element: ColumnEncoder, *, quoted: bool, separator: str = ",", of_lists: bool = False
) -> ColumnEncoder:
    """Arrays as text. `element` writes one element, which is a list itself with `of_lists`; `quoted` says that its text
    may need quotes."""

    def elements(array: ArrowArray) -> ArrowArray:
        if _is_list(array.type) and not of_lists:
            return nested(_as_list(array))
        text = as_text(element(array).as_nullable())
        if quoted:
            needs = pc.match_substring_regex(text, _ARRAY_NEEDS_QUOTES)
            if pc.any(needs).as_py():
                escaped = pc.replace_substring_regex(text, r'(["\\])', r"\\\1")
                text = pc.if_else(needs, pc.binary_join_element_wise('"', escaped, '"', ""), text)
        return pc.fill_null(text, "NULL")

    def nested(array: ArrowArray) -> ArrowArray:
        children, offsets = _children(array)
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), elements(children)), separator)
        return pc.binary_join_element_wise("{", joined, "}", "")

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        text = as_binary(nested(_as_list(array)))
        return Encoded(values=text, nulls=nulls)

    return encode


def dimensioned_text_encoder(
    element: ColumnEncoder, *, quoted: bool, separator: str = ",", of_lists: bool = False
) -> ColumnEncoder:
    """Arrays of any dimensions (`planner.ir.array_value`) as text."""
    lists = array_text_encoder(element, quoted=quoted, separator=separator, of_lists=of_lists)

    def texts(items: ArrowArray) -> list[str]:
        encoded = as_text(element(items).as_nullable()).to_pylist()
        return ["NULL" if text is None else quote_element(text) if quoted else text for text in encoded]

    def shown(items: ArrowArray, dims: list[int]) -> bytes:
        return show_array(texts(items), dims, separator).encode()

    return _dimensioned(lists, shown)


def dimensioned_binary_encoder(element: ColumnEncoder, *, element_oid: int, of_lists: bool = False) -> ColumnEncoder:
    """Arrays of any dimensions in binary."""

    def sent(items: ArrowArray, dims: list[int]) -> bytes:
        bounds = zip(array_value.lengths_of(dims), array_value.lower_bounds_of(dims), strict=True)
        has_null = int(items.null_count > 0)
        header = struct.pack(">iiI", dims[0], has_null, element_oid)
        pairs = b"".join([struct.pack(">ii", length, lower) for length, lower in bounds])
        return header + pairs + b"".join(_length_prefixed(element(items)).to_pylist())

    return _dimensioned(array_binary_encoder(element, element_oid=element_oid, of_lists=of_lists), sent)


def _dimensioned(lists: ColumnEncoder, other: Callable[[ArrowArray, list[int]], bytes]) -> ColumnEncoder:
    """Ordinary lists by `lists`, all at once; arrays of other dimensions by `other`, one at a time."""

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        items, dims = _struct_member(array, "items"), _struct_member(array, "dims")
        encoded = lists(items)
        if dims.null_count == len(dims):
            return Encoded(values=encoded.values, nulls=nulls)
        values = encoded.as_values().to_pylist()
        for row in np.flatnonzero(dims.is_valid().to_numpy(zero_copy_only=False)):
            values[row] = other(items[int(row)].values, dims[int(row)].as_py())
        return Encoded(values=pa.array(values, pa.binary()), nulls=nulls)

    return encode


def _struct_member(array: ArrowArray, name: str) -> ArrowArray:
    """A field of a struct, NULL where the struct is."""
    field = array.field(name)
    return field if array.null_count == 0 else pc.if_else(array.is_valid(), field, pa.scalar(None, field.type))


def vector_text_encoder(element: ColumnEncoder) -> ColumnEncoder:
    """int2vector and oidvector as text: elements between blanks."""

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        children, offsets = _children(_as_list(array))
        text = as_text(element(children).as_values())
        joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), text), " ")
        return Encoded(values=as_binary(joined), nulls=nulls)

    return encode


def _length_prefixed(encoded: Encoded) -> ArrowArray:
    """Each value after its int32 length; NULL is the length -1 alone."""
    values = encoded.as_values()
    lengths = lengths_of(values)
    if encoded.nulls is not None:
        lengths = np.where(encoded.nulls, -1, lengths)
    return join_pieces(_as_matrix_of_lengths(lengths), values)


def only_lists(lists: ColumnEncoder, name: str) -> ColumnEncoder:
    """Values of the type `name` that are held as arrays of any dimensions and have to be ordinary lists."""

    def encode(array: ArrowArray) -> Encoded:
        if _struct_member(array, "dims").null_count < len(array):
            raise DatatypeMismatch(f"array is not a valid {name}")
        return lists(_struct_member(array, "items"))

    return encode


def array_binary_encoder(
    element: ColumnEncoder, *, element_oid: int, lower_bound: int = 1, of_lists: bool = False
) -> ColumnEncoder:
    """Arrays in binary: int32 dimensions, has-null flag, element oid, (length, lower bound) each, then the elements."""

    def encode(array: ArrowArray) -> Encoded:
        nulls = null_mask(array)
        count = len(array)
        level = _as_list(array)
        level, offsets = _children(level)
        dimensions = [np.diff(offsets)]
        while _is_list(level.type) and not of_lists:
            inner, inner_offsets = _children(_as_list(level))
            inner_lengths = np.diff(inner_offsets)
            # Rectangular: the first inner list of a row stands for all of them.
            first = np.minimum(offsets[:-1], max(len(inner_lengths) - 1, 0))
            empty = np.zeros(count, dtype=np.int32)
            dimensions.append(np.where(dimensions[0] > 0, inner_lengths[first], 0) if len(inner_lengths) else empty)
            offsets = inner_offsets[offsets]
            level = inner
        present = np.ones(count, dtype=bool)
        for lengths in dimensions:
            present &= lengths > 0
        has_null = np.zeros(count, dtype=np.int64)
        if level.null_count:
            running = np.concatenate([[0], np.cumsum(level.is_null().to_numpy(zero_copy_only=False))])
            has_null = (running[offsets[1:]] - running[offsets[:-1]] > 0).astype(np.int64)
        header = np.empty((count, 3 + 2 * len(dimensions)), dtype=">i4")
        header[:, 0] = np.where(present, len(dimensions), 0)
        header[:, 1] = has_null
        header[:, 2] = element_oid
        for index, lengths in enumerate(dimensions):
            header[:, 3 + 2 * index] = lengths
            header[:, 4 + 2 * index] = lower_bound
        keep = np.ones(header.shape, dtype=bool)
        keep[:, 3:] = present[:, None]
        heads = binary_from_lengths(keep.sum(axis=1) * 4, header[keep], count)
        items = _length_prefixed(element(level))
        bodies = pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), items), b"")
        values = join_pieces(heads, bodies)
        return Encoded(values=values, nulls=nulls)

    return encode


def record_text_encoder(fields: list[ColumnEncoder]) -> ColumnEncoder:
    """Records as text: (a,"b c",,"")."""

    def field_text(encoded: Encoded) -> ArrowArray:
        text = as_text(encoded.as_nullable())
        needs = pc.match_substring_regex(text, _RECORD_NEEDS_QUOTES)
        if pc.any(needs).as_py():
            escaped = pc.replace_substring_regex(text, r'(["\\])', r"\1\1")
            text = pc.if_else(needs, pc.binary_join_element_wise('"', escaped, '"', ""), text)
        return without_nulls(as_binary(text))

    def encode(array: ArrowArray) -> Encoded:
        pieces: list[ArrowArray] = [pa.scalar(b"(", pa.binary())]
        for index, encoder in enumerate(fields):
            if index:
                pieces.append(pa.scalar(b",", pa.binary()))
            pieces.append(field_text(encoder(array.field(index))))
        pieces.append(pa.scalar(b")", pa.binary()))
        nulls = null_mask(array)
        text = join_pieces(*pieces) if fields else pa.array([b"()"] * len(array), pa.binary())
        return Encoded(values=text, nulls=nulls)

    return encode


def record_binary_encoder(fields: list[tuple[int, ColumnEncoder]]) -> ColumnEncoder:
    """Records in binary; `fields` are (oid, encoder)."""

    def encode(array: ArrowArray) -> Encoded:
        columns = [array.field(index) for index in range(len(fields))]
        return records_binary(fields, columns, null_mask(array), len(array))

    return encode


def records_binary(
    fields: list[tuple[int, ColumnEncoder]], columns: list[ArrowArray], nulls: BoolVector | None, count: int
) -> Encoded:
    """`count` records in binary, from the columns of their fields: int32 field count, then oid, length and bytes of
    each."""
    if not fields:
        return Encoded(values=pa.array([bytes(4)] * count, pa.binary()), nulls=nulls)
    pieces: list[ArrowArray] = [pa.scalar(len(fields).to_bytes(4, "big"), pa.binary())]
    for (oid, encoder), column in zip(fields, columns, strict=True):
        pieces.append(pa.scalar(oid.to_bytes(4, "big"), pa.binary()))
        pieces.append(_length_prefixed(encoder(column)))
    return Encoded(values=join_pieces(*pieces), nulls=nulls)
