"""The function call sub-protocol: arguments of FunctionCall to literals, and the answer's bytes.

Rules and texts are PostgreSQL's (fastpath.c).
"""

from __future__ import annotations

from collections.abc import Mapping

from frontend.decoding.binary import parse_binary
from frontend.decoding.held_as_text import LeftoverData
from frontend.decoding.text import parse_value
from frontend.encoding.encoders import BINARY_FORMAT, TEXT_FORMAT
from frontend.protocol import backend
from frontend.protocol.codec import BodyReader, decode_text
from frontend.protocol.messages import FunctionCall
from planner.calls.function_calls import CallableFunction, refuse_pseudo_type
from planner.common_errors import unsupported_format
from planner.errors import InvalidBinaryRepresentation, ProtocolViolation
from planner.ir.nodes import Literal
from planner.types.types import SqlType

_DATA_ROW_HEADER_BYTES = 7
"""Type, length and number of columns; a single column follows as FunctionCallResponse has it."""

NULL_RESULT = backend.message("V", b"\xff\xff\xff\xff")


def decode_arguments(
    call: FunctionCall, function: CallableFunction, settings: Mapping[str, str]
) -> tuple[tuple[Literal, ...], int]:
    """The arguments of a FunctionCall message, and the format of the result. Raises 08P01 for wrong counts and broken
    messages, and each type's input errors."""
    reader = BodyReader(call.rest)
    formats, count = reader.int16s(), reader.int16()
    if count != len(function.args):
        raise ProtocolViolation(
            f"function call message contains {count} arguments but function requires {len(function.args)}"
        )
    if len(formats) > 1 and len(formats) != count:
        raise ProtocolViolation(f"function call message contains {len(formats)} argument formats but {count} arguments")
    literals = []
    for index, type in enumerate(function.args):
        length = reader.int32()
        if length < -1:
            raise ProtocolViolation(f"invalid argument size {length} in function call message")
        raw = None if length == -1 else reader.raw(length)
        code = TEXT_FORMAT if not formats else formats[index] if len(formats) > 1 else formats[0]
        literals.append(Literal(value=_decode(index, raw, type, code, settings), type=type))
    result_format = reader.int16()
    reader.end()
    return tuple(literals), result_format


def _decode(index: int, raw: bytes | None, type: SqlType, code: int, settings: Mapping[str, str]) -> object:
    check_format(code)
    if raw is None:
        return None
    refuse_pseudo_type(type)
    if code == TEXT_FORMAT:
        return parse_value(decode_text(raw), type, settings)
    try:
        return parse_binary(raw, type)
    except LeftoverData:
        raise InvalidBinaryRepresentation(f"incorrect binary data format in function argument {index + 1}") from None


def check_format(code: int) -> None:
    """Raises 22023 for a format code that is neither text's nor binary's."""
    if code not in (TEXT_FORMAT, BINARY_FORMAT):
        raise unsupported_format(code)


def response(data_row: bytes) -> bytes:
    """FunctionCallResponse with the value of a DataRow of one column."""
    return backend.message("V", data_row[_DATA_ROW_HEADER_BYTES:])
