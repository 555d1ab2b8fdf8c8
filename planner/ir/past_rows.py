"""Rows of the past in a query: what a call of ``tidegate.as_of`` or ``tidegate.changes`` in FROM means.

Binding needs the definition of the table as it was at the moment, which who has a statement bound looks up first. What
was found is read as a `Scan` (``as_of``) or a `CteScan` (``changes``) of an id from `PAST_ROWS` down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from planner.errors import SqlError
from storage.catalog.model import CatalogSnapshot, Relation
from storage.timestamps.csn import Csn

PAST_ROWS = -250_000
"""From here down, above `planner.ir.file_rows.FILE_ROWS`: one for each call of a statement."""


class PastMoment(Struct, frozen=True, kw_only=True, eq=False):
    """The moment `csn` of which a query inside a statement is (INSERT ... SELECT ... AS OF; a view in
    ``tidegate.as_of``): `then` is the catalog of then, and `context` the `BindContext` with it."""

    csn: Csn
    then: CatalogSnapshot
    context: Any


class PastTable(Struct, frozen=True, kw_only=True, eq=False):
    """A table as it was at `csn`, `then` being the catalog of that moment; with `since`, how its rows changed after
    that CSN and up to `csn`. Of a view whose query is read in its place, `moment` is where that is bound, and
    `changes`, once somebody has said it, gives the rows of its changes: an Arrow table."""

    relation: Relation
    then: CatalogSnapshot
    csn: Csn
    since: Csn | None = None
    moment: PastMoment | None = None
    changes: Callable[[], Awaitable[Any]] | None = None


class PastTables(Struct, frozen=True, kw_only=True, eq=False):
    """What the calls of the query string `text` mean, by the places (bytes) where they stand: a table, or the error
    that looking it up has run into. `whole`: the moment of a query inside a statement that writes its rows."""

    text: str = ""
    calls: dict[int, PastTable | SqlError] = {}
    whole: PastMoment | None = None


NO_PAST = PastTables()
