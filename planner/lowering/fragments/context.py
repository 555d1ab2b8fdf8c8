"""What one lowering carries along: the engine, its inputs, the names in scope and the counters that make new names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.common_errors import too_deep
from planner.dialects.dialect import Dialect
from planner.dialects.engine_name import EngineName
from planner.dialects.of_engine import dialect_of
from planner.errors import FeatureNotSupported, InternalError
from planner.functions.engines.spark import checked, portable
from planner.functions.forms.form import SessionSettings
from planner.ir.nodes import Literal, Param, ScalarSubquery
from planner.lowering.fragments.decided import Decided
from planner.lowering.fragments.fragment import Fragment, column, simple
from planner.types import types
from planner.types.types import SqlType

_IN_PYTHON: Mapping[EngineName, Callable[[str], str | None]] = {"local": str, "spark": portable}
"""A template that calls functions in Python, written for the local engine, as each engine says it."""
_RAISING: Mapping[EngineName, Callable[[str], str]] = {"local": str, "spark": checked}

_FIRST_ADDED = 1 << 30

MAX_CHARS = 16 * 1024 * 1024
"""Characters of SQL that one expression may come to, beside those of its literals: some forms repeat what is in them,
and nested in themselves they double at each level."""


@dataclass(slots=True)
class Hoisted:
    """Subqueries taken out of an expression: they are to be the members of a struct called `name`."""

    name: str
    fragments: list[Fragment] = field(default_factory=list)

    def take(self, fragment: Fragment) -> Fragment:
        """Takes out a fragment; returns what stands for it."""
        self.fragments.append(fragment)
        return simple(f"{self.name}.a{len(self.fragments) - 1}")


@dataclass(slots=True)
class Repeated:
    """What is seen of subqueries while an expression is lowered for an engine that cannot bind them to a name."""

    lowered: list[tuple[ScalarSubquery, Fragment]] = field(default_factory=list)
    """The scalar ones, and their SQL."""
    repeated: list[Fragment] = field(default_factory=list)
    """What holds subqueries, and was named more than once."""

    def found(self) -> dict[int, Fragment]:
        """The SQL of those that stand in the text more than once, by the identity of their nodes."""
        return {
            id(node): fragment
            for node, fragment in self.lowered
            if any(fragment.sql in whole.sql for whole in self.repeated)
        }


MAX_CONSTANTS = 16
"""Constants that the source of a relation has at most."""


LONG_VALUE = 1024 * 1024
"""Characters or bytes of a value that is kept out of the text."""

_PLAIN_TEXTS = frozenset([types.TEXT, types.VARCHAR, types.JSON, types.JSONB])
"""Types whose values an engine has as they are."""


@dataclass(slots=True)
class Context:
    """The state of one lowering. `columns` maps every field id in scope to its SQL."""

    engine: EngineName
    extendable: frozenset[int]
    """The relations whose sources can have constants."""
    params: Sequence[Literal] | None
    settings: SessionSettings
    dialect: Dialect = field(init=False)
    columns: dict[int, Fragment] = field(default_factory=dict)
    held: dict[int, Fragment] = field(default_factory=dict)
    """By id of an `ir.Let`: what stands for its value."""
    decided: Decided = field(default_factory=dict)
    cases: int = 0
    """How many CASEs there are around what is being lowered."""
    hoisted: Hoisted | None = None
    """Where no subquery may stand: those taken out so far."""
    repeated: Repeated | None = None
    """Where subqueries that are named more than once can become columns."""
    literal_chars: int = 0
    """Characters of the literals so far."""
    aliases: int = 0
    variables: int = 0
    added: int = 0
    scans: dict[str, int] = field(default_factory=dict)
    """By alias: the relation of each scan whose source can have constants. A scan leaves once its rows are grouped:
    only keys may be referred to from then on."""
    relations: set[int] = field(default_factory=set)
    """Whose sources the text reads."""
    constants: dict[int, list[Literal | Param]] = field(default_factory=dict)
    """By relation whose source can have constants: those that it is to have; p1 is the first."""
    long_values: list[str | bytes] = field(default_factory=list)
    """Values that go beside the text, as its parameters: $1 is the first."""
    totalled: set[int] = field(default_factory=set)
    """By first column: the groups that have been united with the totals of nothing."""
    pairs_in_python: bool = False
    """Whether a function in Python is called for each pair of rows of two queries."""
    inlined: set[int] = field(default_factory=set)
    """The parameters whose values the text depends on."""

    def __post_init__(self) -> None:
        self.dialect = dialect_of(self.engine)

    def alias(self) -> str:
        """A new table alias."""
        self.aliases += 1
        return f"t{self.aliases}"

    def new_id(self) -> int:
        """The id of a column that the lowering adds; the fields of the IR count from 1."""
        self.added += 1
        return _FIRST_ADDED + self.added

    def variable(self) -> str:
        """A new name for a bound value."""
        self.variables += 1
        return f"v{self.variables}"

    def fits(self, fragment: Fragment) -> Fragment:
        """`fragment`, unless it has become larger than anything that a statement needs. Raises 54001."""
        if len(fragment.sql) > MAX_CHARS + 8 * self.literal_chars:
            raise too_deep()
        return fragment

    def value(self, param: Param) -> object:
        """The value of a parameter, which becomes part of the text."""
        assert self.params is not None
        self.inlined.add(param.index)
        return self.params[param.index - 1].value

    def beside(self, value: object, type: SqlType) -> str | None:
        """What stands for a `value` so long that making it part of the text, and looking at that text again and again,
        would take long; None where it is a literal."""
        if not isinstance(value, (str, bytes)) or len(value) <= LONG_VALUE or not self.dialect.takes_values:
            return None
        if isinstance(value, str) and type.oid not in _PLAIN_TEXTS:
            return None
        place = next((place for place, each in enumerate(self.long_values) if each is value), len(self.long_values))
        self.long_values[place:] = self.long_values[place:] or [value]
        return f"CAST(${place + 1} AS {'VARCHAR' if isinstance(value, str) else 'BLOB'})"

    def hold_constants(self, scanned: Fragment, constants: Sequence[Literal | Param]) -> list[Fragment] | None:
        """Columns of the source of the column `scanned` that hold `constants`; None when it can have none, or has many:
        every scan of the relation reads all of them."""
        relation = None if scanned.alias is None else self.scans.get(scanned.alias)
        if scanned.alias is None or relation is None:
            return None
        held = self.constants[relation]
        if len(held) + len(constants) > MAX_CONSTANTS:
            return None
        held.extend(constants)
        return [column(scanned.alias, f"p{number}") for number in range(len(held) - len(constants) + 1, len(held) + 1)]

    def python(self, template: str) -> str:
        """A template of the local engine that calls functions in Python, as this engine says it."""
        ported = _IN_PYTHON[self.engine](template)
        if ported is None:
            raise InternalError(f"{template} cannot be said on the {self.engine} engine")
        return ported

    def raising(self, template: str) -> str:
        """A template of this engine, whose calls of functions in Python raise their errors where the value is used."""
        return _RAISING[self.engine](template)

    def unsupported(self, what: str) -> FeatureNotSupported:
        """The error for a construct that this engine cannot run."""
        return FeatureNotSupported(f"{what} is not supported on the {self.engine} engine")
