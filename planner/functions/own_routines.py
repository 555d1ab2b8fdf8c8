"""The routines of the schema `tidegate` as pg_proc shows them: functions that engines compute (`own`), those that are
queries in SQL (`own_bodies`), and what is no ordinary function: the rows of the past in FROM
(`planner.files.past_calls`), and what CALL does (`planner.utility.routines`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from planner.functions import own, own_bodies
from planner.types.signature import Signature
from planner.types.types import BOOL, RECORD, TEXT
from storage.catalog.model import BOOTSTRAP_SUPERUSER_OID, OWN_SCHEMA_OID
from storage.catalog.routines import Function, Parameter

_ANY = 2276
_TEXT_ARRAY = 1009

_COMMENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "transpile": ("a statement of one SQL dialect in another one", ("statement", "from_dialect", "to_dialect")),
    "format": ("a statement laid out for reading", ("statement",)),
    "current_csn": ("the moment that the statement reads at, a commit sequence number", ()),
    "csn_at": ("the moment at which everything is read that was committed up to a time", ("moment",)),
    "csn_time": ("the time of a moment", ("csn",)),
    "reset_statement_statistics": (
        "forgets what was counted of statements; 0 means all",
        ("userid", "dbid", "queryid"),
    ),
    "lineage": ("which columns of tables the columns of a view are made of", ()),
}
"""What the functions do that are for users, and the names of their arguments; the others are called by extensions and
by statements that come from other dialects."""

_PLACED = (
    (15940, "as_of", "f", (("table_name", TEXT), ("moment", _ANY)), "the rows of a table as they were at a moment"),
    (
        15941, "changes", "f", (("table_name", TEXT), ("from_moment", _ANY), ("to_moment", _ANY)),
        "what was done to the rows of a table after one moment up to another",
    ),
    (15942, "publish", "p", (("table_name", TEXT),), "publishes a table as an Iceberg table now"),
    (
        15943, "add_files", "p", (("table_name", TEXT), ("files", _TEXT_ARRAY), ("owned", BOOL), ("checksum", BOOL)),
        "makes Parquet files that are there files of a table",
    ),
    (
        15944, "clone_table", "p", (("table_name", TEXT), ("new_name", TEXT)),
        "makes a table like another one, with its rows, without copying files",
    ),
    (15945, "undrop_table", "p", (("table_name", TEXT),), "brings back a table that was dropped"),
    (
        15946, "restore_table", "p", (("table_name", TEXT), ("moment", _ANY)),
        "gives a table the rows that it had at a moment",
    ),
)  # fmt: skip
_DEFAULTS: Mapping[str, Mapping[str, str]] = {"add_files": {"owned": "false", "checksum": "true"}}

_FOR_OTHERS = "called by extensions, and by statements that come from other SQL dialects"


@cache
def own_routines() -> Mapping[int, Function]:
    """By oid. The body of what is no query is its name."""
    found = {**own_bodies.FUNCTIONS}
    found |= {signature.oid: _of_signature(signature) for signature in (*own.FORMS, *own.ACTING)}
    for oid, name, kind, arguments, _ in _PLACED:
        defaults = _DEFAULTS.get(name, {})
        found[oid] = Function(
            oid=oid,
            name=name,
            schema=OWN_SCHEMA_OID,
            owner=BOOTSTRAP_SUPERUSER_OID,
            kind=kind,
            parameters=tuple(Parameter(name=n, type_oid=type, default=defaults.get(n)) for n, type in arguments),
            result=RECORD if kind == "f" else 0,
            returns_set=kind == "f",
            volatility="s" if kind == "f" else "v",
            body=name,
        )
    return found


def own_routines_named(name: str) -> tuple[Function, ...]:
    """Those called `name`."""
    return tuple(record for record in own_routines().values() if record.name == name)


def routine_comment(oid: int) -> str:
    """What the routine with this oid does."""
    placed = next((comment for number, *_, comment in _PLACED if number == oid), None)
    return placed or _COMMENTS.get(own_routines()[oid].name, (_FOR_OTHERS,))[0]


def is_query(oid: int) -> bool:
    """Whether the routine with this oid is a query in SQL."""
    return oid in own_bodies.FUNCTIONS


def _of_signature(signature: Signature) -> Function:
    names = _COMMENTS.get(signature.name, ("", ()))[1] or ("",) * len(signature.args)
    last = len(signature.args) - 1
    return Function(
        oid=signature.oid,
        name=signature.name,
        schema=OWN_SCHEMA_OID,
        owner=BOOTSTRAP_SUPERUSER_OID,
        parameters=tuple(
            Parameter(name=name, type_oid=type, mode="v" if signature.variadic and place == last else "i")
            for place, (name, type) in enumerate(zip(names, signature.args, strict=True))
        ),
        result=signature.result,
        strict=signature.strict,
        volatility=signature.volatility.value,
        cost=1.0,
        body=signature.name,
    )
