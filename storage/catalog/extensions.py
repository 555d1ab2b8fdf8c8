"""Extensions that have been created in a database, as the catalog has them."""

from __future__ import annotations

from storage.catalog.record import Record


class Extension(Record, frozen=True, kw_only=True, tag="extension"):
    """A row of pg_extension."""

    name: str
    schema: int
    owner: int
    version: str
    members: tuple[int, ...] = ()
    """Oids of the functions that its script made, in their order: they go with it, and not without it."""
