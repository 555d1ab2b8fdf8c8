"""Functions and procedures of users, as the catalog has them."""

from __future__ import annotations

import msgspec

from storage.catalog.record import Record


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One parameter of a routine, or a column of RETURNS TABLE."""

    name: str = ""
    type_oid: int
    mode: str = "i"
    """As pg_proc.proargmodes: i IN, o OUT, b INOUT, v VARIADIC, t a column of TABLE."""
    default: str | None = None
    """SQL text of DEFAULT."""

    @property
    def is_input(self) -> bool:
        """Whether a call of a function gives a value for it."""
        return self.mode in "ibv"

    @property
    def is_output(self) -> bool:
        """Whether the result has it."""
        return self.mode in "obt"


class Function(Record, frozen=True, kw_only=True, tag="function"):
    """A function (kind ``f``) or procedure (``p``) in SQL. The fields are those of pg_proc."""

    name: str
    schema: int
    owner: int
    kind: str = "f"
    parameters: tuple[Parameter, ...] = ()
    result: int
    """Oid of the type that it returns; 0 for none (a procedure without OUT parameters returns void)."""
    returns_set: bool = False
    volatility: str = "v"
    strict: bool = False
    security_definer: bool = False
    leakproof: bool = False
    parallel: str = "u"
    cost: float = 100.0
    rows: float = 0.0
    settings: tuple[str, ...] = ()
    """What SET says, as pg_proc.proconfig has it: ``search_path=public``."""
    native: bool = False
    """Whether it is one that an extension has in no SQL, and `body` its name (`adapter.procedures.extensions`)."""
    body: str = ""
    """Its statements as they were written, whose names are looked up when it runs."""
    sql_body: str | None = None
    """In place of `body`: ``RETURN ...`` or ``BEGIN ATOMIC ... END``, every name qualified."""
    depends_on: tuple[int, ...] = ()
    """Relations and functions that `sql_body` uses."""

    @property
    def inputs(self) -> tuple[Parameter, ...]:
        """The parameters that a call gives values for."""
        return tuple(parameter for parameter in self.parameters if parameter.is_input)

    @property
    def outputs(self) -> tuple[Parameter, ...]:
        """The parameters that make up the result."""
        return tuple(parameter for parameter in self.parameters if parameter.is_output)

    @property
    def input_types(self) -> tuple[int, ...]:
        """The types by which it is told from others of its name (pg_proc.proargtypes)."""
        return tuple(parameter.type_oid for parameter in self.inputs)
