"""How an engine says a routine: a template of SQL text, or a function that chooses the template.

In a template ``{0}``, ``{1}`` ... stand for the arguments' SQL, ``{t}`` for the result type's SQL name on that engine.
An argument that a template names more than once is bound to a name first when it is more than a column or a literal,
so templates may repeat freely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from planner.dialects.dialect import Dialect
from planner.dialects.engine_name import EngineName
from planner.dialects.of_engine import dialect_of
from planner.types.types import SqlType


class SessionSettings(Struct, frozen=True, kw_only=True):
    """The settings that act inside expressions, and the token that catalog functions get as their first argument."""

    timezone: str = "UTC"
    datestyle: str = "ISO, MDY"
    intervalstyle: str = "postgres"
    extra_float_digits: int = 1
    token: str = ""


class CallSite(Struct, frozen=True, kw_only=True):
    """What a form may look at to choose its template: types, and constants where arguments are literals."""

    engine: EngineName
    arg_types: tuple[SqlType, ...]
    type: SqlType
    constants: tuple[object, ...]
    """The value of each argument that is a literal; `NOT_CONSTANT` for the others (a NULL literal is None)."""
    settings: SessionSettings
    distinct: bool = False
    """Whether an aggregate has DISTINCT."""
    subquery: bool = False
    """Whether an argument contains a subquery."""
    spread: bool = False
    """Whether the last argument is an array whose elements are the last arguments (VARIADIC)."""

    @property
    def dialect(self) -> Dialect:
        """The engine's SQL."""
        return dialect_of(self.engine)


class NotConstant:
    """The type of `NOT_CONSTANT`."""

    __slots__ = ()


NOT_CONSTANT = NotConstant()


def strict(site: CallSite, made: str, *arguments: int) -> str:
    """`made`, or NULL when one of the arguments is: for templates that would pass over it (greatest, least, CASE)."""
    doubtful = [f"{{{index}}} IS NOT NULL" for index in arguments if site.constants[index] in (None, NOT_CONSTANT)]
    return f"CASE WHEN {' AND '.join(doubtful)} THEN {made} END" if doubtful else made


Template: TypeAlias = str | Callable[[CallSite], str | None]
"""A template, or a function that gives one; None when this call cannot be said on that engine."""


class Form(Struct, frozen=True, kw_only=True):
    """A routine's form on each engine; None where the engine has none."""

    local: Template | None = None
    spark: Template | None = None
    local_table: Template | None = None
    """For a set-returning function in FROM with constant integer arguments: the engine's streaming table function."""
    spark_table: Template | None = None

    def on(self, engine: EngineName) -> Template | None:
        """The form on an engine."""
        return self.local if engine == "local" else self.spark

    def table_on(self, engine: EngineName) -> Template | None:
        """The streaming table function of an engine."""
        return self.local_table if engine == "local" else self.spark_table


def both(template: Template) -> Form:
    """The same template on both engines."""
    return Form(local=template, spark=template)


def local_only(template: Template) -> Form:
    """A form for the local engine only; the router sends statements that use it there."""
    return Form(local=template)
