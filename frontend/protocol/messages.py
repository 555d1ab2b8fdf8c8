"""The messages of PostgreSQL's frontend/backend protocol 3, as values.

What a client may send, decoded (`FrontendMessage`), and the codes of what a server sends. Names are PostgreSQL's
("Message Formats"). Text is already decoded from UTF-8; parameter values stay bytes.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

PROTOCOL_3_0 = 0x0003_0000
PROTOCOL_3_2 = 0x0003_0002
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104

MAX_STARTUP_BYTES = 10_000
"""PostgreSQL's MAX_STARTUP_PACKET_LENGTH."""
SMALL_MESSAGE_BYTES = 10_000
"""PostgreSQL's PQ_SMALL_MESSAGE_LIMIT: longest message of a type that carries no data."""
LARGE_MESSAGE_BYTES = 0x3FFF_FFFE
"""PostgreSQL's PQ_LARGE_MESSAGE_LIMIT: beyond it a length is taken for garbage and the connection ends."""


class SslRequest(Struct, frozen=True, kw_only=True):
    """Asks whether the server speaks TLS; answered by one byte."""


class GssEncRequest(Struct, frozen=True, kw_only=True):
    """Asks whether the server speaks GSSAPI encryption; answered by one byte."""


class CancelRequest(Struct, frozen=True, kw_only=True):
    """Cancels what the named session runs. `secret` is 4 bytes, or up to 256 with protocol 3.2."""

    backend_pid: int
    secret: bytes


class Startup(Struct, frozen=True, kw_only=True):
    """The start-up packet: requested protocol version and parameters in the client's order."""

    version: int
    parameters: tuple[tuple[str, str], ...]


StartupMessage: TypeAlias = SslRequest | GssEncRequest | CancelRequest | Startup


class Query(Struct, frozen=True, kw_only=True):
    text: str


class Parse(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    param_oids: tuple[int, ...]


class Bind(Struct, frozen=True, kw_only=True):
    portal: str
    statement: str
    param_formats: tuple[int, ...]
    params: tuple[bytes | memoryview | None, ...]
    result_formats: tuple[int, ...]


class Describe(Struct, frozen=True, kw_only=True):
    """`kind` is S (statement) or P (portal)."""

    kind: str
    name: str


class Execute(Struct, frozen=True, kw_only=True):
    portal: str
    max_rows: int


class Close(Struct, frozen=True, kw_only=True):
    """`kind` is S (statement) or P (portal)."""

    kind: str
    name: str


class Sync(Struct, frozen=True, kw_only=True):
    pass


class Flush(Struct, frozen=True, kw_only=True):
    pass


class Terminate(Struct, frozen=True, kw_only=True):
    pass


class CopyData(Struct, frozen=True, kw_only=True):
    data: bytes


class CopyDone(Struct, frozen=True, kw_only=True):
    pass


class CopyFail(Struct, frozen=True, kw_only=True):
    message: str


class FunctionCall(Struct, frozen=True, kw_only=True):
    """`rest` are the arguments and formats, which are read (frontend.connections.function_calls) once the function is
    known."""

    function_oid: int
    rest: bytes


class PasswordMessage(Struct, frozen=True, kw_only=True):
    """Any answer in authentication; which one it is the method in progress knows."""

    body: bytes


class Malformed(Struct, frozen=True, kw_only=True):
    """A message whose frame is right and whose content is not. `error` is what the client is told, as if the message
    had failed; `code` is its type byte."""

    code: str
    error: Exception


FrontendMessage: TypeAlias = (
    Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Sync
    | Flush
    | Terminate
    | CopyData
    | CopyDone
    | CopyFail
    | FunctionCall
    | PasswordMessage
    | Malformed
)

MESSAGE_CODES: dict[type, str] = {
    Query: "Q",
    Parse: "P",
    Bind: "B",
    Describe: "D",
    Execute: "E",
    Close: "C",
    Sync: "S",
    Flush: "H",
    Terminate: "X",
    CopyData: "d",
    CopyDone: "c",
    CopyFail: "f",
    FunctionCall: "F",
    PasswordMessage: "p",
}
