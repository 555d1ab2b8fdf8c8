"""Strict functions and operators are NULL when one of their arguments is, whatever the others are: no form of one may
look at the others first. Values that they are called with are in strict_values.txt."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL

from tests.support.server import TidegateServer

ENGINES = ("local", "spark") if os.environ.get("LONG_TESTS") else ("local",)
"""On Spark 3,200 statements take five minutes."""

POLYMORPHIC = {
    "anyarray": "int4[]", "anyelement": "int4", "anynonarray": "int4", "anycompatiblearray": "int4[]",
    "anycompatible": "int4", "anycompatiblenonarray": "int4", "anyrange": "int4range",
    "anymultirange": "int4multirange",
}  # fmt: skip

ACTING = ("pg_sleep", "lo_", "set_config", "setval", "pg_advisory", "pg_try", "pg_terminate", "pg_cancel")

FUNCTIONS = """
    select proname, array(select typname::text from unnest(proargtypes) with ordinality as given(oid, place)
            join pg_type using (oid) order by place)
    from pg_proc where proisstrict and prokind = 'f' and not proretset and pronargs between 1 and 4
        and pronamespace = 'pg_catalog'::regnamespace and provariadic = 0
        and prorettype not in ('internal'::regtype, 'trigger'::regtype, 'void'::regtype, 'cstring'::regtype)
    order by 1, 2
"""
OPERATORS = """
    select oprname, array[l.typname, r.typname]::text[]
    from pg_operator o join pg_proc p on p.oid = oprcode join pg_type l on l.oid = oprleft
        join pg_type r on r.oid = oprright
    where proisstrict order by 1, 2
"""


def values() -> dict[str, list[str]]:
    """The values of each type, as SQL."""
    lines = Path(__file__).with_name("strict_values.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return {name: [f"{value}::{name}" for value in text.split(", ")] for name, text in pairs}


def calls(session: psycopg.Connection) -> Iterator[tuple[str, Sequence[str]]]:
    """The calls, with a place for each argument, and the types of these."""
    for name, types in session.execute(FUNCTIONS).fetchall():
        if not name.startswith(ACTING):
            yield f'pg_catalog."{name}"({", ".join(["{}"] * len(types))})', types
    for name, types in session.execute(OPERATORS).fetchall():
        yield f"{{}} operator(pg_catalog.{name}) {{}}", types


@pytest.mark.parametrize("engine", ENGINES)
def test_null_whatever_the_others_are(engine: str, server: TidegateServer) -> None:
    known = values()
    wrong, right = list[str](), 0
    with psycopg.connect(host=server.host, port=server.port, user="postgres", autocommit=True) as session:
        session.execute(SQL("set engine = {}").format(engine))
        for call, internal in [*calls(session)]:
            types = [POLYMORPHIC.get(name, f"{name[1:]}[]" if name.startswith("_") else name) for name in internal]
            if not all(name in known for name in types):
                continue
            for absent in range(len(types)):
                given = [[f"null::{name}"] * 2 if place == absent else known[name] for place, name in enumerate(types)]
                sources = [f"(values ({'), ('.join(rows)})) as v{place}(x)" for place, rows in enumerate(given)]
                made = call.format(*(f"v{place}.x" for place in range(len(types))))
                statement = f"select count(*) from {', '.join(sources)} where ({made}) is not null"
                try:
                    found = session.execute(SQL(statement)).fetchone()
                except psycopg.Error as error:
                    # What the server or the engine does not have, and what is called with more than one type.
                    if error.sqlstate not in ("0A000", "42883", "42725"):
                        wrong.append(f"{error.sqlstate} {error.diag.message_primary}: {statement}")
                    continue
                if found == (0,):
                    right += 1
                else:
                    wrong.append(f"{found}: {statement}")
    assert not wrong, "\n".join(wrong)
    assert right > 3000
