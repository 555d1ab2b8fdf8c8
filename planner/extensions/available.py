"""Which extensions there are, and the script of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from planner.extensions.natives import HSTORE, TABLEFUNC, Native


class Available(Struct, frozen=True, kw_only=True):
    """An extension that can be created, as pg_available_extensions has it."""

    name: str
    version: str
    comment: str
    relocatable: bool = True
    """Whether its functions can be moved to another schema."""
    is_trusted: bool = True
    """Whether those may create it who may create objects in the database, and not superusers alone."""
    types: tuple[str, ...] = ()
    """The types that it makes before its script (`planner.types.base_types`)."""
    natives: Sequence[Native] = ()
    """The functions that it makes after its script, which are in no SQL."""
    first_privileges: Mapping[tuple[str, str], Sequence[str]] = msgspec.field(default_factory=dict)
    """What the script grants and revokes: the privileges (aclitems) on each of its objects, by the catalog that has it
    and its name, where they are not the default ones (pg_init_privs)."""
    has_script: bool = True
    """False for one that adds nothing to what is there without it."""

    @property
    def script(self) -> str:
        """The statements that make it, which name no schema."""
        return _script(self.name) if self.has_script else ""


@cache
def _script(name: str) -> str:
    return (resources.files("planner.extensions") / "scripts" / f"{name}.sql").read_text()


PLPGSQL = Available(
    name="plpgsql", version="1.0", comment="PL/pgSQL procedural language", relocatable=False, has_script=False
)
"""What every database has from the start. There are no functions in that language yet."""

_READABLE = ("postgres=arwdDxt/postgres", "=r/postgres")

AVAILABLE: Mapping[str, Available] = {
    extension.name: extension
    for extension in (
        # Exclusion constraints, and indexes, have = of every type that has an order without them.
        Available(
            name="btree_gin", version="1.3", comment="support for indexing common datatypes in GIN", has_script=False
        ),
        Available(
            name="btree_gist", version="1.7", comment="support for indexing common datatypes in GiST", has_script=False
        ),
        Available(
            name="citext",
            version="1.6",
            comment="data type for case-insensitive character strings",
            types=("citext",),
        ),
        Available(name="fuzzystrmatch", version="1.1", comment="determine similarities and distance between strings"),
        Available(
            name="hstore",
            version="1.8",
            comment="data type for storing sets of (key, value) pairs",
            types=("hstore",),
            natives=HSTORE,
        ),
        Available(
            name="pg_stat_statements",
            version="1.10",
            comment="track planning and execution statistics of all SQL statements executed",
            is_trusted=False,
            first_privileges={
                ("pg_class", "pg_stat_statements"): _READABLE,
                ("pg_class", "pg_stat_statements_info"): _READABLE,
                ("pg_proc", "pg_stat_statements_reset"): ("postgres=X/postgres",),
            },
        ),
        Available(
            name="pg_trgm",
            version="1.6",
            comment="text similarity measurement and index searching based on trigrams",
        ),
        Available(name="pgcrypto", version="1.3", comment="cryptographic functions"),
        PLPGSQL,
        Available(
            name="tablefunc",
            version="1.0",
            comment="functions that manipulate whole tables, including crosstab",
            natives=TABLEFUNC,
        ),
        Available(name="uuid-ossp", version="1.1", comment="generate universally unique identifiers (UUIDs)"),
    )
}
"""By name, in order."""
