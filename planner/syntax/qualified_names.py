"""The name of a relation or routine in a statement."""

from __future__ import annotations

from msgspec import Struct


class QualifiedName(Struct, frozen=True, kw_only=True):
    """A name as written: `schema` is None when the search path decides. `database` is checked against the current
    one by the binder's look-up. `position` is 1-based in the query string, for errors."""

    name: str
    schema: str | None = None
    database: str | None = None
    position: int | None = None

    def __str__(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.name) if part is not None)
