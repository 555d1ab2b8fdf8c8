"""Rows of JSON lines where Arrow's datasets do not read them as they were declared.

So dates and times, whose texts they take for numbers, and text columns of values that are no texts (numbers, objects,
arrays), which are read as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from storage.lake.troubles import malformed

_ZONE = r"\d[T ]\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_decoder: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_readable(type: pa.DataType) -> bool:
    """Whether Arrow reads values of `type` from JSON."""
    return not (pa.types.is_date(type) or pa.types.is_time(type))


def inferred_schema(stream: Any, block_bytes: int) -> pa.Schema:
    """The columns of an opened file, by its first block: texts that are all times with a zone are moments, those that
    are all times without one timestamps. Raises what Arrow does."""
    import pyarrow.json as pj

    block = bytes(stream.read(block_bytes))
    if stream.read(1):
        block = block[: block.rfind(b"\n") + 1] or block
    options = pj.ReadOptions(block_size=block_bytes)
    schema = pj.open_json(pa.BufferReader(block), options).schema
    texts = [field.name for field in schema if pa.types.is_timestamp(field.type) or pa.types.is_string(field.type)]
    if not texts or len(set(schema.names)) < len(schema.names):
        return schema
    explicit = pa.schema([(name, pa.string()) for name in texts])
    parse = pj.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="ignore")
    rows = pj.open_json(pa.BufferReader(block), options, parse).read_next_batch()
    for at, field in enumerate(schema):
        if field.name in texts:
            schema = schema.set(at, field.with_type(_time_type(rows.column(field.name), field.type)))
    return schema


def _time_type(values: pa.Array, otherwise: pa.DataType) -> pa.DataType:
    values = values.drop_null()
    zoned = pc.sum(pc.match_substring_regex(values, _ZONE)).as_py() or 0
    if not len(values) or zoned not in (0, len(values)):
        return otherwise
    type = pa.timestamp("us", "UTC") if zoned else pa.timestamp("us")
    if not zoned and pa.types.is_timestamp(otherwise):
        return otherwise
    try:
        values.cast(type)
    except pa.ArrowInvalid:
        return otherwise
    return type


def json_batches(
    path: str, stream: Any, columns: Sequence[tuple[str, pa.DataType]], as_written: frozenset[str], block_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The rows of the opened, unpacked file: `columns`, those of `as_written` with the texts of values that are none.
    Raises FileTrouble (malformed), or what Arrow does."""
    import pyarrow.json as pj

    given = pa.schema([(name, type if is_readable(type) else pa.string()) for name, type in columns])
    wanted = pa.schema(list(columns))
    parse = pj.ParseOptions(explicit_schema=given, unexpected_field_behavior="ignore")
    for block in _blocks(stream, block_bytes):
        lines = _rewritten(path, block, frozenset(wanted.names), as_written) if as_written else block
        if not lines.strip():
            continue
        options = pj.ReadOptions(block_size=len(lines) + 1, use_threads=False)
        rows = pj.read_json(pa.BufferReader(lines), options, parse).select(wanted.names).cast(wanted)
        yield from rows.to_batches()


def _blocks(stream: Any, block_bytes: int) -> Iterator[bytes]:
    """The file in pieces of whole lines."""
    rest = b""
    while data := stream.read(block_bytes):
        whole, newline, after = bytes(data).rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = after
        else:
            rest += after
    if rest:
        yield rest


def _rewritten(path: str, block: bytes, wanted: frozenset[str], as_written: frozenset[str]) -> bytes:
    """The lines with the `wanted` columns, what is no text in those of `as_written` made one."""
    lines: list[bytes] = []
    for line in block.splitlines():
        if not line.strip():
            continue
        try:
            row = _decoder.decode(line)
        except msgspec.DecodeError as error:
            raise malformed(path, error) from error
        kept = {name: value for name, value in row.items() if name in wanted}
        for name in as_written.intersection(kept):
            text = bytes(kept[name])
            if not text.startswith(b'"') and text != b"null":
                kept[name] = msgspec.Raw(msgspec.json.encode(text.decode()))
        lines.append(msgspec.json.encode(kept))
    return b"\n".join(lines)
