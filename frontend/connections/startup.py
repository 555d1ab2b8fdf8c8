"""What a start-up packet asks for: user, database, settings, and the protocol version to speak.

Pure. `options` is split as PostgreSQL's server splits it: blanks separate arguments, a backslash takes the next
character literally; `-c name=value` and `--name=value` are settings, anything else is refused.
"""

from __future__ import annotations

from msgspec import Struct

from adapter.results import StartupParameters, TlsFacts
from frontend.protocol.messages import PROTOCOL_3_0, PROTOCOL_3_2, Startup
from planner.definitions.object_names import MAX_NAME_BYTES
from planner.errors import FeatureNotSupported, InvalidAuthorizationSpecification, SqlSyntaxError

_PROTOCOL_OPTION_PREFIX = "_pq_."


class Negotiated(Struct, frozen=True, kw_only=True):
    """The outcome: `version` is what both sides speak; `newest` is told to the client when it asked for more, together
    with the protocol options that nobody here knows."""

    parameters: StartupParameters
    version: int
    must_negotiate: bool
    unrecognized: tuple[str, ...]


def split_options(options: str) -> list[str]:
    """The arguments in an `options` parameter (PostgreSQL, pg_split_opts)."""
    arguments: list[str] = []
    current: list[str] = []
    started = False
    position = 0
    while position < len(options):
        character = options[position]
        if character.isspace():
            if started:
                arguments.append("".join(current))
                current, started = [], False
        else:
            started = True
            if character == "\\" and position + 1 < len(options):
                position += 1
                character = options[position]
            current.append(character)
        position += 1
    if started:
        arguments.append("".join(current))
    return arguments


def parse_options(options: str) -> list[tuple[str, str]]:
    """The settings in an `options` parameter. Raises 42601 for anything that is not a setting."""
    settings: list[tuple[str, str]] = []
    arguments = iter(split_options(options))
    for argument in arguments:
        if argument == "-c":
            assignment = next(arguments, None)
            if assignment is None:
                raise SqlSyntaxError(f"invalid command-line argument for server process: {argument}", fatal=True)
        elif argument.startswith("-c") or argument.startswith("--"):
            assignment = argument[2:]
        else:
            raise SqlSyntaxError(f"invalid command-line argument for server process: {argument}", fatal=True)
        name, equals, value = assignment.partition("=")
        if not equals:
            flag = "--" if argument.startswith("--") else "-c "
            raise SqlSyntaxError(f"{flag}{assignment} requires a value", fatal=True)
        settings.append((name.replace("-", "_"), value))
    return settings


def _cut(name: str) -> str:
    """A name as what makes roles and databases cuts it."""
    return name.encode()[:MAX_NAME_BYTES].decode(errors="ignore")


def negotiate(
    startup: Startup, remote_address: str | None, server_address: str | None, tls: TlsFacts | None = None
) -> Negotiated:
    """Reads a start-up packet. Raises fatal errors as PostgreSQL does."""
    user = database = ""
    settings: list[tuple[str, str]] = []
    option_settings: list[tuple[str, str]] = []
    unrecognized: list[str] = []
    for name, value in startup.parameters:
        if name == "user":
            user = _cut(value)
        elif name == "database":
            database = _cut(value)
        elif name == "options":
            option_settings = parse_options(value)
        elif name == "replication":
            if value.lower() not in ("false", "off", "no", "0"):
                raise FeatureNotSupported("replication connections are not supported", fatal=True)
        elif name.startswith(_PROTOCOL_OPTION_PREFIX):
            unrecognized.append(name)
        else:
            settings.append((name, value))
    if not user:
        raise InvalidAuthorizationSpecification("no PostgreSQL user name specified in startup packet", fatal=True)
    version = PROTOCOL_3_2 if startup.version >= PROTOCOL_3_2 else PROTOCOL_3_0
    return Negotiated(
        parameters=StartupParameters(
            user=user,
            database=database or user,
            settings=(*option_settings, *settings),
            remote_address=remote_address,
            server_address=server_address,
            tls=tls,
        ),
        version=version,
        must_negotiate=startup.version > PROTOCOL_3_2 or bool(unrecognized),
        unrecognized=tuple(unrecognized),
    )
