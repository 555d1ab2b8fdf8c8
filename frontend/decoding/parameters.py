"""Parameters of Bind: bytes in text or binary format to literals of the statement's parameter types.

Errors carry PostgreSQL's context: ``unnamed portal parameter $1 = '...'`` (a text value is not shown, as with
PostgreSQL's default log_parameter_max_length_on_error).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frontend.decoding.binary import parse_binary
from frontend.decoding.held_as_text import LeftoverData
from frontend.decoding.text import parse_value
from frontend.encoding.encoders import BINARY_FORMAT, TEXT_FORMAT
from frontend.protocol.client_encoding import CLIENT_ENCODING
from frontend.protocol.codec import decode_text, decode_utf8
from frontend.protocol.messages import Bind
from planner.common_errors import unsupported_format
from planner.errors import InvalidBinaryRepresentation, ProtocolViolation, SqlError
from planner.ir.nodes import Literal
from planner.types.types import SqlType

MANY_PARAMS, MANY_BYTES = 512, 64 * 1024
"""Parameters, and bytes of them, that are decoded in a few milliseconds: more are better decoded on a thread."""


def decode_params(bind: Bind, types: Sequence[SqlType], settings: Mapping[str, str]) -> tuple[Literal, ...]:
    """The parameters of a Bind message. Raises 08P01 for wrong counts, and each type's input errors."""
    formats = bind.param_formats
    if len(formats) > 1 and len(formats) != len(bind.params):
        raise ProtocolViolation(f"bind message has {len(formats)} parameter formats but {len(bind.params)} parameters")
    if len(bind.params) != len(types):
        raise ProtocolViolation(
            f"bind message supplies {len(bind.params)} parameters, "
            f'but prepared statement "{bind.statement}" requires {len(types)}'
        )
    literals: list[Literal] = []
    for index, (raw, sql_type) in enumerate(zip(bind.params, types, strict=True)):
        code = TEXT_FORMAT if not formats else formats[index] if len(formats) > 1 else formats[0]
        literals.append(Literal(value=_decode(bind, index, raw, sql_type, code, settings), type=sql_type))
    return tuple(literals)


def shown_parameters(bind: Bind, types: Sequence[SqlType]) -> tuple[str | None, ...]:
    """The parameters for people, as far as they can be read; what cannot is shown as hexadecimal digits."""
    formats = bind.param_formats
    shown: list[str | None] = []
    for index, raw in enumerate(bind.params):
        code = TEXT_FORMAT if not formats else formats[index % len(formats)]
        if raw is None:
            shown.append(None)
        elif code == TEXT_FORMAT:
            shown.append(bytes(raw).decode("utf-8", "replace"))
        else:
            try:
                value = parse_binary(bytes(raw), types[index])
            except (SqlError, LeftoverData, IndexError):
                value = bytes(raw)
            shown.append(_shown(value))
    return tuple(shown)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "t" if value else "f"
    return "\\x" + value.hex() if isinstance(value, bytes) else str(value)


def _decode(
    bind: Bind, index: int, raw: bytes | memoryview | None, sql_type: SqlType, code: int, settings: Mapping[str, str]
) -> object:
    portal = f'portal "{bind.portal}"' if bind.portal else "unnamed portal"
    where = f"{portal} parameter ${index + 1}"
    try:
        if code not in (TEXT_FORMAT, BINARY_FORMAT):
            raise unsupported_format(code)
        if raw is None:
            return None
        if code == BINARY_FORMAT:
            return parse_binary(bytes(raw), sql_type)
        # A call less for nearly everybody.
        text = decode_utf8(raw) if CLIENT_ENCODING.get() is None else decode_text(raw)
        where += " = '...'"
        return parse_value(text, sql_type, settings)
    except LeftoverData:
        raise InvalidBinaryRepresentation(
            f"incorrect binary data format in bind parameter {index + 1}", where=where
        ) from None
    except SqlError as error:
        error.where = error.where or where
        raise
