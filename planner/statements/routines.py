"""CREATE, ALTER and the names of functions and procedures, and CALL."""

from __future__ import annotations

from msgspec import Struct

from planner.statements.settings import SetVariable
from planner.syntax.parse import Parsed
from planner.syntax.qualified_names import QualifiedName
from planner.types.type_names import UnknownName
from planner.types.types import SqlType


class RoutineParameter(Struct, frozen=True, kw_only=True):
    """A parameter as CREATE FUNCTION has it: its `mode` is that of `storage.catalog.routines.Parameter`, `set_of` says
    that its type was written with SETOF."""

    name: str
    type: SqlType
    mode: str
    set_of: bool = False
    default: Parsed | None = None
    position: int | None = None


class RoutineOptions(Struct, frozen=True, kw_only=True):
    """What stands behind the result of a function, and in ALTER FUNCTION; None where nothing is said. `settings` are
    those of SET, in which one without values goes (RESET); `reset_all` is RESET ALL."""

    language: str | None = None
    body: str | None = None
    body_position: int | None = None
    """Where the text of the body begins in the statement, from 0; None when that cannot be told."""
    link: str | None = None
    volatility: str | None = None
    strict: bool | None = None
    security_definer: bool | None = None
    leakproof: bool | None = None
    parallel: str | None = None
    cost: float | None = None
    rows: float | None = None
    window: bool = False
    support: bool = False
    transform: bool = False
    settings: tuple[SetVariable, ...] = ()
    reset_all: bool = False
    refused: tuple[tuple[str, int | None], ...] = ()
    """The options that are a function's alone, with their positions."""


class CreateRoutine(Struct, frozen=True, kw_only=True):
    """CREATE [OR REPLACE] FUNCTION or PROCEDURE (`kind`). `result` is None when RETURNS is not there. `statements` are
    those of a body that is no string."""

    kind: str
    name: QualifiedName
    parameters: tuple[RoutineParameter, ...]
    result: SqlType | None
    returns_set: bool
    options: RoutineOptions
    replace: bool = False
    statements: tuple[Parsed, ...] | None = None
    returns: tuple[bool, ...] = ()
    """Which of these are a RETURN."""
    is_return: bool = False
    """Whether that body is ``RETURN expression``."""


class RoutineName(Struct, frozen=True, kw_only=True):
    """A function or procedure (`kind`, or ``routine`` for either) by its name. `inputs` are the types in parentheses,
    None without these, as those of input parameters; `all_types` the same as those of all parameters, where no modes
    were written."""

    kind: str
    name: QualifiedName
    inputs: tuple[int, ...] | None
    written: tuple[str, ...] = ()
    """The names of `inputs` as the grammar has them."""
    all_types: tuple[int, ...] | None = None
    unknown: UnknownName | None = None
    """What is wrong with one of the types, where the routine need not be there."""


class AlterRoutine(Struct, frozen=True, kw_only=True):
    """ALTER FUNCTION, PROCEDURE or ROUTINE: one of the following."""

    routine: RoutineName
    new_name: str | None = None
    new_schema: str | None = None
    owner: str | None = None
    options: RoutineOptions | None = None


class Publish(Struct, frozen=True, kw_only=True):
    """CALL tidegate.publish(...): `table` is to be published, with all others that are."""

    table: QualifiedName


class RestoreTable(Struct, frozen=True, kw_only=True):
    """CALL tidegate.restore_table: the rows of `table` become those that it had at `moment`, a constant (its text) or a
    query of one value."""

    table: QualifiedName
    moment: str | Parsed


class AddFiles(Struct, frozen=True, kw_only=True):
    """CALL tidegate.add_files: the Parquet files that `patterns` mean are files of `table` from now on. `owned`: they
    go when the table needs them no more; `checksum`: each is read whole for one."""

    table: QualifiedName
    patterns: tuple[str, ...]
    owned: bool = False
    checksum: bool = True


class CloneTable(Struct, frozen=True, kw_only=True):
    """CALL tidegate.clone_table: a table `name` that is like `table`, with its rows."""

    table: QualifiedName
    name: QualifiedName


class UndropTable(Struct, frozen=True, kw_only=True):
    """CALL tidegate.undrop_table: the table that was called `table` when it was dropped is there again."""

    table: QualifiedName


class CallProcedure(Struct, frozen=True, kw_only=True):
    """CALL. `call` is the whole statement, `bound` what it is bound to (`planner.definitions.routines.BoundCall`)."""

    call: Parsed
    bound: object = None
