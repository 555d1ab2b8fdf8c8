"""What one lowering carries along: the engine, its inputs, the names in scope and the counters that make new names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planner.errors import FeatureNotSupported, InternalError
from planner.functions.forms import UTC_NAMES, EngineName, SessionSettings
from planner.functions.spark_udfs import portable
from planner.ir import Literal
from planner.lowering.dialect import Dialect, dialect


@dataclass(frozen=True, slots=True)
class ScanSource:
    """A FROM item (a view's name or a parenthesised SELECT) whose columns are ``c<attnum>`` (system relations:
    position) and, when a row id is asked for, ``_row_id``."""

    sql: str


_SIMPLE = re.compile(
    r"(?:t\d+\.c\d+|[cv]\d+(?:\.a\d+)?|t\d+\._row_id|\(?-?\d+(?:\.\d+)?(?:e0|[LSD]|BD)?\)?|'[^']*'|TRUE|FALSE|NULL"
    r"|(?:DATE|TIME|TIMESTAMP|TIMESTAMPTZ|TIMESTAMP_NTZ) '[^']*'|CAST\((?:NULL|-?\d+|'[^']*') AS"
    r" [^()]*(?:\(\d+,\d+\))?\))"
)
_VOLATILE = re.compile(r"\b(?:random|rand|uuid|gen_random_uuid|tg_\w*volatile\w*)\(")


def is_simple(sql: str) -> bool:
    """Whether `sql` is a column or a literal, which may be repeated at no cost."""
    return _SIMPLE.fullmatch(sql) is not None


def is_volatile(sql: str) -> bool:
    """Whether evaluating `sql` twice could give two values."""
    return _VOLATILE.search(sql) is not None


@dataclass(slots=True)
class Context:
    """The state of one lowering. `columns` maps every field id in scope to its SQL."""

    engine: EngineName
    tables: Mapping[int, ScanSource] | None
    params: Sequence[Literal] | None
    settings: SessionSettings
    dialect: Dialect = field(init=False)
    columns: dict[int, str] = field(default_factory=dict)
    aliases: int = 0
    variables: int = 0

    def __post_init__(self) -> None:
        self.dialect = dialect(self.engine)

    @property
    def local(self) -> bool:
        """Whether the engine is the local one."""
        return self.engine == "local"

    @property
    def utc(self) -> bool:
        """Whether the session's time zone is UTC, so that no conversion is needed."""
        return self.settings.timezone.lower() in UTC_NAMES

    def alias(self) -> str:
        """A new table alias."""
        self.aliases += 1
        return f"t{self.aliases}"

    def variable(self) -> str:
        """A new name for a bound value."""
        self.variables += 1
        return f"v{self.variables}"

    def python(self, template: str) -> str:
        """A template of the local engine that calls functions in Python, as this engine says it."""
        if self.local:
            return template
        ported = portable(template)
        if ported is None:
            raise InternalError(f"{template} cannot be said on the spark engine")
        return ported

    def unsupported(self, what: str) -> FeatureNotSupported:
        """The error for a construct that this engine cannot run."""
        return FeatureNotSupported(f"{what} is not supported on the {self.engine} engine")
