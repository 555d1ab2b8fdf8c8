"""The tables that random sessions share, the materialized views over them, and what must hold of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tests.faults.audit.client import Client, Connection
from tests.faults.audit.key_loads import check_sum
from tests.faults.audit.ledger import Ledger

ACCOUNTS = 12
OPENING = 1000
TOTAL = ACCOUNTS * OPENING
TALLIES = 5
GROUPS = 6

MAX_ENTRIES = 800
"""Of the entries about so many are kept, the youngest."""

TABLES = (
    "CREATE TABLE account (id int PRIMARY KEY, owner int NOT NULL, balance bigint NOT NULL)",
    f"INSERT INTO account SELECT n, n % 3, {OPENING} FROM generate_series(0, {ACCOUNTS - 1}) n",
    "CREATE TABLE tally (k int PRIMARY KEY, n bigint NOT NULL)",
    "CREATE TABLE entry (id bigint PRIMARY KEY, g int NOT NULL, v int)",
    "CREATE INDEX ON entry (g)",
)


class View(Struct, frozen=True, kw_only=True):
    """A materialized view: its query, the same query over tables alone, and how it is refreshed."""

    query: str
    unfolded: str = ""
    refresh: str = "on commit"

    @property
    def definition(self) -> str:
        """What it shows, told by tables alone."""
        return self.unfolded or self.query


_BY_GROUP = "SELECT g, count(*) AS n, count(v) AS nv, sum(v) AS s FROM entry GROUP BY g"
_OWNERS = "SELECT owner, count(*) AS n, sum(balance) AS total FROM account GROUP BY owner"

VIEWS: Mapping[str, View] = {
    "by_owner": View(query=_OWNERS),
    "rich": View(query=f"SELECT id, owner, balance FROM account WHERE balance > {OPENING}"),
    "by_group": View(query=_BY_GROUP),
    "tallied": View(query="SELECT e.id, e.g, t.n FROM entry e LEFT JOIN tally t ON t.k = e.g WHERE e.id % 3 = 0"),
    "unseen": View(query="SELECT k, n FROM tally t WHERE NOT EXISTS (SELECT FROM entry e WHERE e.g = t.k)"),
    "last": View(query="SELECT g, max(id) AS id, bool_or(v > 3) AS some FROM entry GROUP BY g"),
    "sizes": View(
        query="SELECT n, count(*) AS groups FROM by_group GROUP BY n",
        unfolded=f"SELECT n, count(*) AS groups FROM ({_BY_GROUP}) b GROUP BY n",
    ),
    "ranked": View(query="SELECT id, rank() OVER (ORDER BY balance DESC, id) AS place FROM account"),
    "by_hand": View(query=_OWNERS, refresh="manual"),
    "now_and_then": View(query=_BY_GROUP, refresh="every 500 milliseconds"),
}

EXACT = tuple(name for name, view in VIEWS.items() if view.refresh == "on commit")
STORED = tuple(name for name, view in VIEWS.items() if view.refresh != "on commit")


def differs(name: str) -> str:
    """A query for the rows that the view has and its query has not, and the other way round."""
    definition = VIEWS[name].definition
    return (
        f"SELECT * FROM ((SELECT * FROM {name} EXCEPT ALL ({definition}))"
        f" UNION ALL (({definition}) EXCEPT ALL SELECT * FROM {name})) differences"
    )


SUM_KEPT = f"SELECT sum(balance), count(*) FROM account HAVING sum(balance) <> {TOTAL} OR count(*) <> {ACCOUNTS}"


class Shared:
    """The load that has the tables and views; others work with them."""

    name = "looks"
    tables = (
        *TABLES,
        *(
            f"CREATE MATERIALIZED VIEW {name} WITH (refresh = '{view.refresh}') AS {view.query}"
            for name, view in VIEWS.items()
        ),
        "CREATE UNIQUE INDEX ON by_hand (owner)",
    )
    rules: Sequence[str] = (
        SUM_KEPT,
        "SELECT id FROM entry GROUP BY id HAVING count(*) > 1",
        "SELECT k FROM tally GROUP BY k HAVING count(*) > 1",
        *(differs(name) for name in EXACT),
    )

    def step(self, client: Client) -> None:
        """See `Load`: whatever is read in one snapshot fits together."""
        rules = client.chance.sample(self.rules, 2)

        def work(connection: Connection, _: object) -> None:
            for rule in rules:
                broken = connection.execute(rule.encode()).fetchall()
                if broken:
                    client.ledger.fault(f"{client.name} sees {broken[:3]} of {rule}")

        client.transact(self.name, client.level(), work, ())

    def audit(self, connection: Connection, ledger: Ledger) -> None:
        """See `Load`."""
        check_sum(connection, ledger, "entries", "SELECT count(*) FROM entry")
        for key in range(TALLIES):
            text = f"SELECT coalesce((SELECT n FROM tally WHERE k = {key}), 0)"
            check_sum(connection, ledger, f"tally {key}", text)
