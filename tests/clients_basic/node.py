"""Knex, TypeORM, Sequelize and Drizzle over node-postgres, and postgres.js: `projects/node`, a script each that prints
what it sees."""

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
_SEQUELIZE, _DRIZZLE = "sequelize_session.js", "drizzle_session.js"
_POSTGRES = "postgresjs_session.js"

CLIENTS = (
    Client(
        name="postgres.js",
        version="3.4.9",
        install=lambda: node_packages("node"),
        checks=(
            Check(
                "rows of many types, fragments, descriptions, simple statements",
                _session(_POSTGRES, "rows"),
            ),
            Check("COPY in both directions, cursors, row by row", _session(_POSTGRES, "streams")),
            Check(
                "transactions, savepoints, errors, LISTEN, cancelling, pipelines",
                _session(_POSTGRES, "transactions"),
            ),
        ),
    ),
    Client(
        name="Knex",
        version="3.3.0 (pg 8.23.1)",
        install=lambda: node_packages("node"),
        checks=(
            Check("migrations: enums by CHECK and by type, indexes, alterations, views", _session(_KNEX, "migrate")),
            Check("columnInfo()", _session(_KNEX, "columnInfo")),
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
    Client(
        name="Sequelize",
        version="6.37.8 (pg 8.23.1)",
        install=lambda: node_packages("node"),
        checks=(
            Check("sync, with alter, and what it finds of tables, indexes and keys", _session(_SEQUELIZE, "sync")),
            Check("changes of tables: columns, indexes, constraints, names", _session(_SEQUELIZE, "changes")),
            Check("models with associations, soft deletes, versions, ranges, JSON", _session(_SEQUELIZE, "rows")),
            Check("upserts", _session(_SEQUELIZE, "upserts")),
            Check("errors of constraints", _session(_SEQUELIZE, "errors")),
            Check("transactions, savepoints, row locks", _session(_SEQUELIZE, "transactions")),
            Check(
                "ENUM columns",
                _session(_SEQUELIZE, "enums"),
                Gap(shows="DO is not supported", why="Their types are made in `DO`, which is refused: no plpgsql."),
            ),
        ),
    ),
    Client(
        name="Drizzle",
        version="0.45.4 (drizzle-kit 0.31.11, pg 8.23.1)",
        install=lambda: node_packages("node"),
        checks=(
            Check("generated migrations", _session(_DRIZZLE, "migrate")),
            Check("queries, relations, upserts, prepared statements", _session(_DRIZZLE, "rows")),
            Check("transactions and savepoints", _session(_DRIZZLE, "transactions")),
            Check("a migration from changed models", _session(_DRIZZLE, "change")),
            Check("push: changed models without migrations", _session(_DRIZZLE, "push")),
            Check("pull: models from a database", _session(_DRIZZLE, "pull")),
        ),
    ),
)
