"""Knex and TypeORM over node-postgres: `projects/node`, a script each that prints what it sees."""

from __future__ import annotations

from collections.abc import Callable

from tests.clients_basic.client import Check, Client, Gap, Place, run_tool
from tests.clients_basic.installing import node_packages


def _session(script: str, feature: str) -> Callable[[Place], str]:
    def check(place: Place) -> str:
        command = ("node", place.installed / script, place.url(), feature)
        return run_tool(*command, cwd=place.folder, environment={"TZ": "UTC", "NODE_PATH": str(place.installed)})

    return check


_KNEX, _TYPEORM = "knex_session.js", "typeorm_session.js"

CLIENTS = (
    Client(
        name="Knex",
        version="3.3.0 (pg 8.23.1)",
        install=lambda: node_packages("node"),
        checks=(
            Check("migrations: enums by CHECK and by type, indexes, alterations, views", _session(_KNEX, "migrate")),
            Check(
                "columnInfo()",
                _session(_KNEX, "columnInfo"),
                Gap(
                    shows="nextval('public.pets_id_seq'::regclass)",
                    why="Defaults in information_schema qualify sequences: `nextval('public.pets_id_seq'::regclass)`.",
                ),
            ),
            Check("inserts in batches, queries, errors of constraints", _session(_KNEX, "crud")),
            Check("upserts", _session(_KNEX, "upserts")),
            Check("transactions, savepoints, streams", _session(_KNEX, "transactions")),
        ),
    ),
    Client(
        name="TypeORM",
        version="1.1.1 (pg 8.23.1)",
        install=lambda: node_packages("node"),
        checks=(
            Check("synchronize, changed entities, nothing left to change", _session(_TYPEORM, "synchronize")),
            Check("the extension uuid-ossp", _session(_TYPEORM, "extension")),
            Check("entities with relations, soft deletes, versions", _session(_TYPEORM, "crud")),
            Check("upserts", _session(_TYPEORM, "upserts")),
            Check("transactions, savepoints, row locks", _session(_TYPEORM, "transactions")),
            Check("migrations, forth and back", _session(_TYPEORM, "migrations")),
        ),
    ),
)
