"""Rows of JSON lines where Arrow's datasets do not read them as they were declared.

So dates and times, whose texts they take for numbers; text columns of values that are no texts (numbers, objects,
arrays), which are read as they are written; and columns of JSON, of which texts are too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from storage.lake.troubles import malformed

_DAY = r"^\d{4}-\d\d-\d\d$"
_ZONE = r"\d[T ]\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_decoder: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def is_readable(type: pa.DataType) -> bool:
    """Whether Arrow reads values of `type` from JSON."""
    return bool(_read_as(type) == type)


def _read_as(type: pa.DataType) -> pa.DataType:
    """As what Arrow reads values of `type`."""
    if pa.types.is_list(type):
        return pa.list_(_read_as(type.value_type))
    return pa.string() if pa.types.is_date(type) or pa.types.is_time(type) else type


def is_json(type: pa.DataType) -> bool:
    """Whether values of `type` are JSON of any kind, as texts."""
    return isinstance(type, pa.JsonType)


def inferred_schema(path: str, stream: Any, block_bytes: int) -> pa.Schema:
    """The columns of the opened file, by its first block: texts that are all times with a zone are moments, those that
    are all times without one timestamps, those that are all days dates; JSON (`is_json`) are objects, arrays of others
    than plain values of one kind, and values of several kinds. Raises FileTrouble (malformed), or what Arrow does."""
    import pyarrow.json as pj

    block = bytes(stream.read(block_bytes))
    if stream.read(1):
        block = block[: block.rfind(b"\n") + 1] or block
    options = pj.ReadOptions(block_size=block_bytes)
    try:
        schema = pj.open_json(pa.BufferReader(block), options).schema
        nested = any(_is_nested(field.type) for field in schema)
    except pa.ArrowInvalid:
        mixed = _mixed(path, block)
        if not mixed:
            raise
    else:
        mixed = _mixed(path, block) if nested else frozenset()
    if mixed:
        block = _rewritten(path, block, None, mixed, mixed)
        options = pj.ReadOptions(block_size=len(block) + 1)
        schema = pj.open_json(pa.BufferReader(block), options).schema
    return pa.schema(
        [field.with_type(pa.json_()) if field.name in mixed else field for field in _with_times(block, options, schema)]
    )


def _is_nested(type: pa.DataType) -> bool:
    return bool(pa.types.is_struct(type) or (pa.types.is_list(type) and pa.types.is_nested(type.value_type)))


def _mixed(path: str, block: bytes) -> frozenset[str]:
    """The names of the columns that no other type than JSON holds."""
    kinds: dict[str, set[str]] = {}
    for line in block.splitlines():
        if line.strip():
            for name, value in _decoded(path, line).items():
                kinds.setdefault(name, set()).add(_kind(bytes(value)))
    return frozenset(name for name, found in kinds.items() if len(found - {""}) > 1 or "nested" in found)


def _kind(value: bytes) -> str:
    """What `value` is: of an array, with the kind of its elements; empty for null."""
    if value.startswith(b"["):
        inner = {_kind(bytes(item)) for item in _array_decoder.decode(value)} - {""}
        return "nested" if len(inner) > 1 or any(kind.startswith(("nested", "array")) for kind in inner) else "array"
    return _KINDS.get(value[:1], "number")


_KINDS = {b'"': "text", b"{": "nested", b"t": "boolean", b"f": "boolean", b"n": ""}
_array_decoder: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


def _with_times(block: bytes, options: Any, schema: pa.Schema) -> pa.Schema:
    import pyarrow.json as pj

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
    if len(values) and pc.all(pc.match_substring_regex(values, _DAY)).as_py():
        return pa.date32() if _casts(values, pa.date32()) else pa.string()
    zoned = pc.sum(pc.match_substring_regex(values, _ZONE)).as_py() or 0
    if not len(values) or zoned not in (0, len(values)):
        return otherwise
    type = pa.timestamp("us", "UTC") if zoned else pa.timestamp("us")
    if not zoned and pa.types.is_timestamp(otherwise):
        return otherwise
    return type if _casts(values, type) else otherwise


def _casts(values: pa.Array, type: pa.DataType) -> bool:
    try:
        values.cast(type)
    except pa.ArrowInvalid:
        return False
    return True


def json_batches(
    path: str,
    stream: Any,
    columns: Sequence[tuple[str, pa.DataType]],
    as_written: frozenset[str],
    json: frozenset[str],
    block_bytes: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of the opened, unpacked file: `columns`, those of `as_written` with the texts of values that are none,
    those of them that are `json` also with the quotes of texts. Raises FileTrouble (malformed), or what Arrow does."""
    import pyarrow.json as pj

    given = pa.schema([(name, _read_as(type)) for name, type in columns])
    wanted = pa.schema(list(columns))
    parse = pj.ParseOptions(explicit_schema=given, unexpected_field_behavior="ignore")
    for block in _blocks(stream, block_bytes):
        lines = _rewritten(path, block, frozenset(wanted.names), as_written, json) if as_written else block
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


def _rewritten(
    path: str, block: bytes, wanted: frozenset[str] | None, as_written: frozenset[str], json: frozenset[str]
) -> bytes:
    """The lines with the `wanted` columns (None: all), what is no text in those of `as_written` made one, and texts in
    those of `json`."""
    lines: list[bytes] = []
    for line in block.splitlines():
        if not line.strip():
            continue
        kept = _decoded(path, line)
        if wanted is not None:
            kept = {name: value for name, value in kept.items() if name in wanted}
        for name in as_written.intersection(kept):
            text = bytes(kept[name])
            if text != b"null" and (name in json or not text.startswith(b'"')):
                kept[name] = msgspec.Raw(msgspec.json.encode(text.decode()))
        lines.append(msgspec.json.encode(kept))
    return b"\n".join(lines)


def _decoded(path: str, line: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError as error:
        raise malformed(path, error) from error
