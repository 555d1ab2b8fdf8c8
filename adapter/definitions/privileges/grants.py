"""GRANT, REVOKE and ALTER DEFAULT PRIVILEGES (PostgreSQL 15's ExecuteGrantStmt and SetDefaultACL)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from adapter.access.acls import LETTERS, OF_KIND, default_entries, entries_of, explicit_entries, held, in_order
from adapter.access.granting import Change, Entries, best_grantor, changed
from adapter.access.membership import has_privileges_of, is_member_of, roles_used_by
from adapter.access.privileges import refusal
from adapter.definitions.common.builtin_privileges import allow_privileges_on
from adapter.definitions.common.catalog_changes import change, named_role, new_oid, owner_oid
from adapter.definitions.privileges.targets import KINDS, SHOWN, Target, targets
from adapter.execution.guards import own_catalog
from adapter.execution.relation_names import require_schema
from adapter.execution.statement import Running
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from planner.common_errors import missing_column
from planner.errors import FeatureNotSupported, InsufficientPrivilege, InvalidGrantOperation, SqlSyntaxError
from planner.statements import records as st
from planner.types.system_relations import SYSTEM_COLUMNS
from storage.catalog.acl import PUBLIC, Acl, DefaultAcl
from storage.catalog.model import CatalogSnapshot, Relation
from storage.catalog.model import Sequence as SequenceRecord

_BY_NAME: Mapping[str, str] = {**{name.lower(): letter for letter, name in LETTERS.items()}, "temp": "T"}

_SYSTEM_COLUMNS = {attnum: name for name, attnum, _ in SYSTEM_COLUMNS}

_SEQUENCE = set(OF_KIND["s"])
_NOT_GRANTED, _NOT_REVOKED = "01007", "01006"


async def grant(running: Running, statement: st.Grant) -> None:
    """GRANT and REVOKE of privileges on objects. Raises 42501, 0LP01, 2BP01, 42704, and what finding the objects
    raises; warns (01006, 01007) of what the role may not grant."""
    grantees, letters = begin(running, statement)
    of_columns = [privilege for privilege in statement.privileges if privilege.columns]
    found = [*targets(running, statement)]
    # NOTE: PostgreSQL locks the row of the catalog. Here other definitions of the object are what has to be kept away.
    mode = Mode.SHARE_UPDATE_EXCLUSIVE
    await running.transaction.lock([(tags.relation(each.oid), mode) for each in found if each.kind in ("r", "s")])
    objects = [each.oid for each in found if each.kind not in ("d", "p")]
    await allow_privileges_on(running, objects, running.session.database_oid)
    for target in found:
        GrantOn(running, statement, target, grantees).apply(letters, of_columns)


def begin(running: Running, statement: st.Grant) -> tuple[tuple[int, ...], str | None]:
    """To or from whom a statement grants or revokes, and which privileges on the objects themselves, None for ALL.
    0A000, 42704, 42601, 0LP01."""
    if statement.grantor is not None and named_role(running, statement.grantor).oid != owner_oid(running):
        raise FeatureNotSupported("grantor must be current user")
    grantees = _grantees(running, statement)
    return grantees, _letters(statement)


def _grantees(running: Running, statement: st.Grant) -> tuple[int, ...]:
    return tuple(PUBLIC if name is None else named_role(running, name).oid for name in statement.grantees)


def _letter(name: str) -> str:
    letter = _BY_NAME.get(name)
    if letter is None:
        raise SqlSyntaxError(f'unrecognized privilege type "{name}"')
    return letter


def _letters(statement: st.Grant) -> str | None:
    """The privileges on the objects themselves, None for ALL. 42601, 0LP01."""
    if not statement.privileges:
        return None
    found: list[str] = []
    allowed = set(OF_KIND[KINDS[statement.kind]])
    if statement.kind == "table":
        allowed |= _SEQUENCE
    for privilege in statement.privileges:
        if privilege.columns:
            if statement.kind != "table":
                raise InvalidGrantOperation("column privileges are only valid for relations")
            continue
        letter = _letter(privilege.name or "")
        if letter not in allowed:
            raise InvalidGrantOperation(
                f"invalid privilege type {LETTERS[letter]} for {SHOWN.get(statement.kind, statement.kind)}"
            )
        found.append(letter)
    return in_order(found)


def _attnums(relation: Relation) -> list[int]:
    """The columns of a relation, those of the system first."""
    system = [] if relation.kind == "v" else sorted(_SYSTEM_COLUMNS)
    return [*system, *(column.attnum for column in relation.live_columns())]


class GrantOn:
    """One statement on one object."""

    def __init__(self, running: Running, statement: st.Grant, target: Target, grantees: tuple[int, ...]) -> None:
        self._running = running
        self._statement = statement
        self._target = target
        self._grantees = grantees
        self._role = owner_oid(running)

    def apply(self, letters: str | None, of_columns: Iterable[st.Privilege]) -> None:
        """Change the object's privileges, then those of its columns."""
        target, statement = self._target, self._statement
        wanted = self._on_object(letters)
        by_column: dict[int, set[str]] = {}
        if target.kind == "r" and isinstance(target.record, Relation):
            for privilege in of_columns:
                self._collect(by_column, target.record, privilege)
            if not statement.grant:
                # What is revoked on the whole is revoked on each column.
                for attnum in _attnums(target.record):
                    by_column.setdefault(attnum, set()).update(set(wanted) & set(OF_KIND["c"]))
        if wanted:
            self._change(0, wanted, all_privileges=letters is None)
        for attnum in sorted(by_column):
            if by_column[attnum]:
                self._change(attnum, in_order(by_column[attnum]), all_privileges=False)

    def _on_object(self, letters: str | None) -> str:
        target = self._target
        if letters is None:
            return in_order(OF_KIND[target.kind])
        if target.kind == "s" and self._statement.kind == "table":
            if not set(letters) <= _SEQUENCE:
                self._running.session.warn(
                    "0LP01", f'sequence "{target.name}" only supports USAGE, SELECT, and UPDATE privileges'
                )
            return in_order(set(letters) & _SEQUENCE)
        if target.kind == "r" and "U" in letters:
            raise InvalidGrantOperation("invalid privilege type USAGE for table")
        return letters

    def _collect(self, by_column: dict[int, set[str]], relation: Relation, privilege: st.Privilege) -> None:
        letters = OF_KIND["c"] if privilege.name is None else _letter(privilege.name)
        if not set(letters) <= set(OF_KIND["c"]):
            raise InvalidGrantOperation(f"invalid privilege type {LETTERS[letters]} for column")
        for name in privilege.columns:
            column = relation.column(name)
            if column is None:
                raise missing_column(relation.name, name)
            by_column.setdefault(column.attnum, set()).update(letters)

    def _entries(self, catalog: CatalogSnapshot, subid: int) -> Entries:
        target = self._target
        if target.kind == "p":
            known = catalog.acls.of_parameter(target.parameter)
            return default_entries("p", target.owner) if known is None else known.entries
        return entries_of(catalog, target.kind, target.oid, target.owner, subid)

    def _change(self, subid: int, letters: str, *, all_privileges: bool) -> None:
        running, target, statement = self._running, self._target, self._statement
        catalog = own_catalog(running)
        kind = "c" if subid else target.kind
        before = self._entries(catalog, subid)
        above = self._entries(catalog, 0)
        roles = (self._role, *sorted(roles_used_by(catalog, self._role)))
        acts_as_owner = has_privileges_of(catalog, self._role, target.owner)
        # Who may grant a privilege on the whole may grant it on each column.
        sources = (*before, *above) if subid else before
        grantor, available = best_grantor(
            sources, self._role, roles, target.owner, letters, acts_as_owner=acts_as_owner
        )
        granted = in_order(set(letters) & set(available))
        if not available:
            own = held(sources, frozenset(roles), target.owner, target.kind)
            if not own & set(OF_KIND[kind]):
                raise InsufficientPrivilege(self._refusal(catalog, subid))
        self._warn(subid, granted, letters, all_privileges=all_privileges)
        done = Change(
            grant=statement.grant,
            grantees=self._grantees,
            letters=granted,
            options=statement.grant_option,
            cascade=statement.cascade,
            kind=kind,
        )
        after = changed(before, done, grantor, target.owner, lambda role: roles_used_by(catalog, role) | {role})
        self._record(catalog, subid, before, after)

    def _refusal(self, catalog: CatalogSnapshot, subid: int) -> str:
        target = self._target
        if target.kind == "p":
            return f"permission denied for parameter {target.name}"
        if subid and isinstance(target.record, Relation):
            return f'permission denied for column "{self._column(subid)}" of relation "{target.name}"'
        return refusal(catalog, target.kind, target.oid)

    def _column(self, attnum: int) -> str:
        relation = self._target.record
        assert isinstance(relation, Relation)
        if attnum < 0:
            return _SYSTEM_COLUMNS[attnum]
        return next(column.name for column in relation.columns if column.attnum == attnum)

    def _warn(self, subid: int, granted: str, wanted: str, *, all_privileges: bool) -> None:
        where = f'"{self._target.name}"'
        if subid:
            where = f'column "{self._column(subid)}" of relation {where}'
        does = self._statement.grant
        state, verb = (_NOT_GRANTED, "were granted") if does else (_NOT_REVOKED, "could be revoked")
        if not granted:
            self._running.session.warn(state, f"no privileges {verb} for {where}")
        elif not all_privileges and granted != wanted:
            self._running.session.warn(state, f"not all privileges {verb} for {where}")

    def _record(self, catalog: CatalogSnapshot, subid: int, before: Entries, after: Entries) -> None:
        running, target = self._running, self._target
        if target.kind == "p":
            known = catalog.acls.of_parameter(target.parameter)
        else:
            known = catalog.acls.of(target.oid, subid)
        if after == before and (
            subid or known is not None or explicit_entries(catalog, target.kind, target.oid, subid)
        ):
            return
        added = []
        if not (subid and not after):
            added.append(
                Acl(
                    oid=known.oid if known is not None else new_oid(running, target.oid),
                    object_oid=target.oid,
                    subid=subid,
                    kind="c" if subid else target.kind,
                    entries=after,
                    parameter=target.parameter,
                    database=running.session.database_oid,
                )
            )
        if isinstance(target.record, (Relation, SequenceRecord)) or target.record is not None:
            running.transaction.rely_on([target.record])  # type: ignore[list-item]
        change(running, removed=[] if known is None else [known], added=added)


# ---------------------------------------------------------------- default privileges

_DEFAULT_KINDS: Mapping[str, tuple[str, str, str]] = {
    "table": ("r", "r", "relation"),
    "sequence": ("S", "s", "sequence"),
    "function": ("f", "f", "function"),
    "type": ("T", "T", "type"),
    "schema": ("n", "n", "schema"),
}
"""Of what defaults can be set: the letter in pg_default_acl, the kind of object, and what messages call it."""


async def alter_default_privileges(running: Running, statement: st.AlterDefaultPrivileges) -> None:
    """ALTER DEFAULT PRIVILEGES. Raises 42501 for a role that the current one is no member of, 0LP01, 3F000, 2BP01."""
    action = statement.action
    grantees = _grantees(running, action)
    kind, object_kind, shown = _DEFAULT_KINDS[action.kind]
    letters = OF_KIND[object_kind]
    if action.privileges:
        if any(privilege.columns for privilege in action.privileges):
            raise InvalidGrantOperation("default privileges cannot be set for columns")
        letters = in_order(_letter(privilege.name or "") for privilege in action.privileges)
        for letter in letters:
            if letter not in OF_KIND[object_kind]:
                raise InvalidGrantOperation(f"invalid privilege type {LETTERS[letter]} for {shown}")
    current = owner_oid(running)
    roles = [named_role(running, name) for name in statement.roles]
    for role in roles:
        if not is_member_of(own_catalog(running), current, role.oid):
            raise InsufficientPrivilege(f'must be member of role "{role.name}"')
    done = Change(
        grant=action.grant,
        grantees=grantees,
        letters=in_order(letters),
        options=action.grant_option,
        cascade=action.cascade,
        kind=object_kind,
    )
    for owner in [role.oid for role in roles] or [current]:
        if not statement.schemas:
            _set_default(running, owner, 0, kind, done)
        for name in statement.schemas:
            if kind == "n":
                raise InvalidGrantOperation("cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS")
            _set_default(running, owner, require_schema(own_catalog(running), name).oid, kind, done)


def _set_default(running: Running, owner: int, schema: int, kind: str, done: Change) -> None:
    catalog = own_catalog(running)
    database = running.session.database_oid
    start = () if schema else default_entries(done.kind, owner)
    known = next(
        (d for d in catalog.acls.defaults if (d.role, d.schema, d.kind) == (owner, schema, kind)),
        None,
    )
    before = start if known is None else known.entries
    after = changed(before, done, owner, owner, lambda role: roles_used_by(catalog, role) | {role})
    if after == before and (known is not None or after == start):
        return
    added = []
    if set(after) != set(start):
        oid = new_oid(running) if known is None else known.oid
        entries = tuple(sorted(after, key=lambda entry: (entry.grantee, entry.grantor)))
        added.append(DefaultAcl(oid=oid, role=owner, schema=schema, kind=kind, entries=entries, database=database))
    change(running, removed=[] if known is None else [known], added=added)
