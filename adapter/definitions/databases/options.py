"""What CREATE DATABASE and ALTER DATABASE may say of a database, checked.

Text is UTF-8 and in the order of its bytes in every database. A locale of another name is accepted with a warning, so
that the statements of pg_dump and createdb work; an encoding or a provider that would give other results is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from adapter.execution.statement import Running
from planner.errors import FeatureNotSupported, InvalidParameterValue, SqlSyntaxError, UndefinedObject
from storage.catalog.model import Database

_FLAGS = {"is_template": "is_template", "allow_connections": "allows_connections"}

_BYTE_ORDER = frozenset({"c", "posix", "c.utf-8", "c.utf8"})

_UTF8 = frozenset({"utf8", "unicode", "6"})
"""Spellings of the encoding without what PostgreSQL leaves out of names, and its number."""

_STRATEGIES = frozenset({"wal_log", "file_copy"})


class Options(Struct, frozen=True, kw_only=True):
    """The options that say something here; None for what is not said."""

    owner: str | None = None
    template: str | None = None
    is_template: bool | None = None
    allows_connections: bool | None = None
    connection_limit: int | None = None

    def applied_to(self, database: Database) -> Database:
        """`database` as the options have it."""
        said = {name: getattr(self, name) for name in ("is_template", "allows_connections", "connection_limit")}
        return replace(database, **{name: value for name, value in said.items() if value is not None})


def options_of(running: Running, given: Sequence[tuple[str, str | None]]) -> Options:
    """The options of a statement: names and values as written, None for DEFAULT.

    Raises 42601 for what there is not and for what is said twice, 22023, 42704 and 0A000 for values."""
    found: dict[str, object] = {}
    seen: set[str] = set()
    for name, value in given:
        if name in seen:
            raise SqlSyntaxError("conflicting or redundant options")
        seen.add(name)
        match name:
            case "owner" | "template":
                found[name] = value
            case "is_template" | "allow_connections":
                found[_FLAGS[name]] = None if value is None else _flag(name, value)
            case "connection_limit":
                found[name] = None if value is None else _limit(value)
            case "encoding":
                _check_encoding(value)
            case "locale" | "lc_collate" | "lc_ctype":
                _check_locale(running, value)
            case "locale_provider" | "icu_locale":
                _check_provider(name, value)
            case "tablespace":
                _check_tablespace(value)
            case "strategy":
                if value is not None and value.lower() not in _STRATEGIES:
                    raise InvalidParameterValue(
                        f'invalid create database strategy "{value}"',
                        hint='Valid strategies are "wal_log", and "file_copy".',
                    )
            case "collation_version":
                pass
            case "oid":
                raise FeatureNotSupported("the oid of a database cannot be chosen")
            case _:
                raise SqlSyntaxError(f'option "{name}" not recognized')
    return Options(**found)  # type: ignore[arg-type]


def _flag(name: str, value: str) -> bool:
    lowered = value.lower()
    if lowered in ("true", "on", "1"):
        return True
    if lowered in ("false", "off", "0"):
        return False
    raise SqlSyntaxError(f"{name} requires a Boolean value")


def _limit(value: str) -> int:
    try:
        limit = int(value)
    except ValueError:
        raise SqlSyntaxError("connection_limit requires an integer value") from None
    if limit < -1:
        raise InvalidParameterValue(f"invalid connection limit: {limit}")
    return limit


def _check_encoding(value: str | None) -> None:
    if value is None:
        return
    plain = "".join(c for c in value.lower() if c.isalnum())
    if plain in _UTF8:
        return
    raise FeatureNotSupported(f'databases with encoding "{value}" are not supported')


def _check_locale(running: Running, value: str | None) -> None:
    if value is not None and value.lower() not in _BYTE_ORDER:
        running.session.warn("01000", f'text is in the order of its bytes, not in that of the locale "{value}"')


def _check_provider(name: str, value: str | None) -> None:
    if value is not None and (name == "icu_locale" or value.lower() != "libc"):
        raise FeatureNotSupported("collations of ICU are not supported")


def _check_tablespace(value: str | None) -> None:
    if value not in (None, "pg_default"):
        raise UndefinedObject(f'tablespace "{value}" does not exist')
