"""Notes, while a statement is bound, of the privileges that it needs (PostgreSQL's RTEPermissionInfo).

Each relation that the text names, and each that a view's query names, gets a note of its own, in the order in which
they are met. Which of its columns are read is known when all is bound: by the references to what it offers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from planner.errors import InsufficientPrivilege
from planner.ir.required import Required
from storage.catalog.model import CatalogSnapshot


class Use:
    """One relation in the statement. `privileges` it needs in any case; SELECT, also when columns of it are read.
    `then`: the catalog of the moment at which it is read, if that is not the statement's."""

    __slots__ = ("inserted", "offers", "oid", "privileges", "role", "selected", "then", "updated")

    def __init__(self, oid: int, role: int | None, privileges: str) -> None:
        self.oid = oid
        self.role = role
        self.privileges = privileges
        self.selected: set[int] = set()
        self.inserted: set[int] = set()
        self.updated: set[int] = set()
        self.then: CatalogSnapshot | None = None
        self.offers: list[tuple[Sequence[int], Mapping[int, Sequence[int]]]] = []

    def offering(self, references: Sequence[int], columns: Mapping[int, Sequence[int]]) -> None:
        """Fields stand for columns: `columns` gives the attnums for a field's id, `references` are, once all is bound,
        the ids that were referred to."""
        self.offers.append((references, columns))

    def required(self) -> Required:
        """What is needed of it, once all is bound."""
        selected = self.selected | {
            attnum
            for references, columns in self.offers
            for id in columns.keys() & set(references)
            for attnum in columns[id]
        }
        privileges = self.privileges
        if selected and "r" not in privileges:
            privileges += "r"
        return Required(
            oid=self.oid,
            role=self.role,
            privileges=privileges,
            selected=frozenset(selected),
            inserted=frozenset(self.inserted),
            updated=frozenset(self.updated),
            then=self.then,
        )


class Requirements:
    """The notes of one statement. `role` is who needs what is met now, None for the current role; `stored`: names are
    those of a stored definition, whose schemas need not be open to who uses it."""

    def __init__(self) -> None:
        self.role: int | None = None
        self.stored = False
        self.unnoted = False
        self.then: CatalogSnapshot | None = None
        self._acting: int | None = None
        self._uses: list[Use] = []
        self._functions: dict[tuple[int, int | None], None] = {}

    def use(self, oid: int, privileges: str) -> Use:
        """A relation of which `privileges` are needed."""
        use = Use(oid, self.role, privileges)
        use.then = self.then
        if not self.unnoted:
            self._uses.append(use)
        return use

    def lock(self, oids: Collection[int]) -> None:
        """Rows of these relations are locked, for which those who read them need UPDATE too."""
        for use in self._uses:
            if use.oid in oids and use.role == self.role and "w" not in use.privileges:
                use.privileges += "w"

    def lock_inside(self, oids: Collection[int], *, invoked: bool) -> None:
        """Rows of these relations are locked through a view, for which its owner, or with `invoked` who uses it, needs
        UPDATE too."""
        for use in self._uses:
            if use.oid in oids and (invoked or use.role != self.role) and "w" not in use.privileges:
                use.privileges += "w"

    def call(self, oid: int) -> None:
        """A function is called."""
        if not self.unnoted:
            self._functions[oid, self._acting] = None

    @contextmanager
    def inside_view(self, owner: int | None) -> Iterator[None]:
        """A view's query is bound, whose relations `owner` needs; None: the current role."""
        outer = self.role
        self.role = self._acting if owner is None else owner
        try:
            yield
        finally:
            self.role = outer

    @contextmanager
    def inside_function(self, owner: int | None, *, stored: bool) -> Iterator[None]:
        """A function's body is bound, which runs as `owner`; None: as who calls it. `stored`: it was bound before."""
        outer = self.role, self._acting, self.stored
        if owner is not None:
            self._acting = owner
        self.role, self.stored = self._acting, stored
        try:
            yield
        finally:
            self.role, self._acting, self.stored = outer

    @contextmanager
    def at(self, then: CatalogSnapshot) -> Iterator[None]:
        """What is bound is read at another moment than that of the statement, of which `then` is the catalog."""
        outer, self.then = self.then, then
        try:
            yield
        finally:
            self.then = outer

    @contextmanager
    def without_notes(self) -> Iterator[None]:
        """What is bound needs nothing."""
        outer, self.unnoted = self.unnoted, True
        try:
            yield
        finally:
            self.unnoted = outer

    def all(self) -> tuple[Required, ...]:
        """Everything that is needed, once all is bound."""
        functions = (Required(oid=oid, kind="f", role=role, privileges="X") for oid, role in self._functions)
        return (*(use.required() for use in self._uses), *functions)


def closed_schema(name: str, position: int | None = None) -> InsufficientPrivilege:
    """42501 for a name in a schema on which the role has no USAGE."""
    return InsufficientPrivilege(f"permission denied for schema {name}", position=position)
