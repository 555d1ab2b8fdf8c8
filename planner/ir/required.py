"""What a statement needs to be allowed: noted while it is bound, checked by who runs it before it runs."""

from __future__ import annotations

from msgspec import Struct

from storage.catalog.model import CatalogSnapshot


class Required(Struct, frozen=True, kw_only=True):
    """Privileges on one relation or function, by the letters of `storage.catalog.acl`.

    `privileges` of a relation are of ``r`` SELECT, ``a`` INSERT, ``w`` UPDATE and ``d`` DELETE; the first three may be
    had on the relation, or on each of the columns (attnums) that are named here, or, where none is, on any.
    """

    oid: int
    kind: str = "r"
    """``r`` relation, ``f`` function."""
    role: int | None = None
    """Who needs them: the owner of the view whose query it is, or None for the current role."""
    privileges: str
    selected: frozenset[int] = frozenset()
    inserted: frozenset[int] = frozenset()
    updated: frozenset[int] = frozenset()
    then: CatalogSnapshot | None = None
    """The catalog of another moment, in which they are needed too: that of the rows which are read."""
