"""What one lowering carries along: the engine, its inputs, the names in scope and the counters that make new names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from planner.dialects.dialect import Dialect, dialect
from planner.dialects.engine_name import EngineName
from planner.errors import FeatureNotSupported, InternalError
from planner.functions.engines.spark import portable
from planner.functions.forms.form import UTC_NAMES, SessionSettings
from planner.ir.nodes import Literal, Param
from planner.types.types import SqlType


class ScanSource(Struct, frozen=True):
    """A FROM item (a view's name or a parenthesised SELECT) whose columns are ``c<attnum>`` (system relations:
    position) and, when a row id is asked for, ``_row_id``.

    A source that can have columns of constants besides, ``p1``, ``p2``, ..., has `extended`: the FROM item with them,
    where ``{columns}`` stands for their names (each after a comma) and ``{layout}`` for their types.
    """

    sql: str
    extended: str | None = None

    def with_constants(self, types: Sequence[SqlType]) -> str:
        """The FROM item with a column of constants of each of `types`."""
        if not types or self.extended is None:
            return self.sql
        columns = "".join([f", p{number}" for number in range(1, len(types) + 1)])
        return self.extended.replace("{columns}", columns).replace("{layout}", constants_layout(types))


def place_of(relation: int) -> str:
    """Stands for the source of a relation in text that is to be completed. No value of a text has a NUL."""
    return f"\0{relation}\0"


def constants_layout(types: Sequence[SqlType]) -> str:
    """What tells sources with constants of other types apart."""
    return "".join([f"_{type.oid}" for type in types])


_SIMPLE = re.compile(
    r"(?:t\d+\.[cp]\d+|[cv]\d+(?:\.a\d+)?|t\d+\._row_id|\(?-?\d+(?:\.\d+)?(?:e0|[LSD]|BD)?\)?|'[^']*'|TRUE|FALSE|NULL"
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
    extendable: frozenset[int]
    """The relations whose sources can have constants."""
    params: Sequence[Literal] | None
    settings: SessionSettings
    dialect: Dialect = field(init=False)
    columns: dict[int, str] = field(default_factory=dict)
    aliases: int = 0
    variables: int = 0
    scans: dict[str, int] = field(default_factory=dict)
    """By alias: the relation of each scan whose source can have constants. A scan leaves once its rows are grouped:
    only keys may be referred to from then on."""
    relations: set[int] = field(default_factory=set)
    """Whose sources the text reads."""
    constants: dict[int, list[Literal | Param]] = field(default_factory=dict)
    """By relation whose source can have constants: those that it is to have; p1 is the first."""
    inlined: set[int] = field(default_factory=set)
    """The parameters whose values the text depends on."""

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

    def value(self, param: Param) -> object:
        """The value of a parameter, which becomes part of the text."""
        assert self.params is not None
        self.inlined.add(param.index)
        return self.params[param.index - 1].value

    def beside(self, column: str, constants: Sequence[Literal | Param]) -> list[str] | None:
        """Columns of the source of `column` (``t1.c2``) that hold `constants`; None when it can have none."""
        alias, _, name = column.partition(".")
        relation = self.scans.get(alias)
        if relation is None or not name.startswith("c") or not name[1:].isdigit():
            return None
        held = self.constants[relation]
        held.extend(constants)
        return [f"{alias}.p{number}" for number in range(len(held) - len(constants) + 1, len(held) + 1)]

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
