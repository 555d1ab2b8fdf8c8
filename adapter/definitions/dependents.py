"""What depends on what, and taking objects out of the catalog with what belongs to them.

Views depend on the relations that their queries read, sequences on the column that owns them, columns and whatever else
mentions it on a type, everything on its schema.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from adapter.definitions.common.catalog_changes import change, forget_shard, shards_of
from adapter.definitions.constraints.keys import forget_names, referring
from adapter.execution.relation_names import describe, shown_name
from adapter.execution.statement import Running
from adapter.results import Notice
from planner.errors import DependentObjectsStillExist
from planner.types import derived_oids
from planner.types.operator_classes import extension_of
from planner.types.user_types import mentioned, relations_mentioned, types_used
from storage.catalog.access import Policy, RowSecurity
from storage.catalog.acl import Acl, DefaultAcl
from storage.catalog.model import (
    CatalogRecord,
    CatalogSnapshot,
    Comment,
    Constraint,
    DomainType,
    EnumType,
    Index,
    Relation,
    Schema,
)
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.outside import Extension
from storage.catalog.record import ExtendedStatistics, Record
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, UserRange

MAX_LISTED = 100
"""PostgreSQL's MAX_REPORTED_DEPS."""

_TYPES = (EnumType, DomainType, UserRange, BaseType, Relation)
"""What types of users are recorded as, those of the rows of relations among them."""


class Dependents:
    """What depends on each object of a catalog: looked through once, for any number of objects."""

    def __init__(self, catalog: CatalogSnapshot) -> None:
        self._catalog = catalog
        self._found: defaultdict[int, dict[int, Record]] = defaultdict(dict)
        self._readers: defaultdict[int, dict[int, Relation]] = defaultdict(dict)
        """The relations whose queries read an object, through views or not."""
        extensions = [record for record in catalog.all() if isinstance(record, Extension)]
        members = {each for record in extensions for each in record.members}
        by_name = {record.name: record.oid for record in extensions}
        for record in catalog.all():
            for oid in _needed(catalog, record, members):
                self._found[oid][record.oid] = record
            if isinstance(record, Index):
                constraint = catalog.get(record.constraint or 0)
                if constraint is not None and not (isinstance(constraint, Constraint) and constraint.kind == "x"):
                    continue
                for name in filter(None, map(extension_of, record.operator_classes)):
                    if name in by_name:
                        needing = constraint or record
                        self._found[by_name[name]][needing.oid] = needing
            if isinstance(record, Relation):
                for oid in record.depends_on:
                    self._readers[oid][record.oid] = record

    def direct(self, oid: int) -> list[Record]:
        """What cannot exist without the object `oid`, apart from its own parts (comments, its own constraints)."""
        found = dict(self._found.get(oid, {}))
        readers = self._readers.get(oid, {})
        for view in readers.values():
            # Who reads it through another view depends on that one.
            if all(other == oid or other not in readers for other in view.depends_on):
                found[view.oid] = view
        record = self._catalog.get(oid)
        if isinstance(record, Extension):
            found.update((each, self._catalog.records[each]) for each in record.members)
        if isinstance(record, Index):
            found.update((each.oid, each) for each in referring(self._catalog, record))
        return [found[each] for each in sorted(found)]

    def of(self, targets: Mapping[int, Record]) -> list[tuple[Record, Record]]:
        """Everything that depends on `targets`, directly or not, with what it depends on, in the order in which
        PostgreSQL lists it: of the last target first; the older of what depends on an object, and before the next what
        depends on that in turn. What depends on several comes with the last of them."""
        collected: list[tuple[Record, Record]] = []
        known = set(targets)
        for target in targets.values():
            _collect(self, target, known, collected)
        return collected[::-1]


def _needed(catalog: CatalogSnapshot, record: Record, members: set[int]) -> Iterator[int]:
    """The objects that `record` cannot be without, but for the relations that a view's query reads."""
    match record:
        case Relation():
            if record.oid not in members:
                yield record.schema
            # The query of a view over a relation may name the type of its rows as well.
            types = (each for each in mentioned(record.definition or "") if each not in record.depends_on)
            yield from (each for each in types if isinstance(catalog.get(each), _TYPES))
            if record.foreign is not None:
                yield record.foreign.server
            if record.of_type:
                yield record.of_type
        case EnumType() | Extension() | ExtendedStatistics():
            yield record.schema
        case UserRange() if record.is_multirange:
            yield record.range  # With which it goes, wherever that is.
        case DomainType() | UserRange():
            yield record.schema
            if isinstance(record, DomainType):
                yield from relations_mentioned(record.default or "")
            yield from (each for each in types_used(record) if isinstance(catalog.get(each), _TYPES))
        case Function():
            if record.oid not in members:
                yield record.schema
            yield from record.depends_on
            yield from (derived_oids.owner(parameter.type_oid) for parameter in record.parameters)
            yield derived_oids.owner(record.result)
            for text in (record.sql_body or "", *(parameter.default or "" for parameter in record.parameters)):
                yield from mentioned(text)
                yield from relations_mentioned(text)
        case SequenceRecord():
            yield record.schema
            if record.owned_by is not None:
                yield record.owned_by[0]
        case Constraint():
            if record.foreign_relation and record.relation != record.foreign_relation:
                yield record.foreign_relation
            yield from (each for each in relations_mentioned(record.expression or "") if each != record.relation)
        case Policy():
            yield from record.depends_on
            for text in (record.using or "", record.check or ""):
                yield from (each for each in relations_mentioned(text) if each != record.relation)
        case Index():
            for text in (*record.expressions, record.predicate or ""):
                yield from (each for each in relations_mentioned(text) if each != record.relation)


def direct_dependents(catalog: CatalogSnapshot, oid: int) -> list[Record]:
    """`Dependents.direct` of one object."""
    return Dependents(catalog).direct(oid)


def dependents_of(catalog: CatalogSnapshot, targets: Mapping[int, Record]) -> list[tuple[Record, Record]]:
    """`Dependents.of` for targets that are asked for once."""
    return Dependents(catalog).of(targets)


def _collect(dependents: Dependents, target: Record, known: set[int], collected: list[tuple[Record, Record]]) -> None:
    """Add what depends on `target` and is not `known`, newer objects first, each behind what depends on it."""

    def below(parent: Record) -> Iterator[tuple[Record, Record]]:
        return iter([(record, parent) for record in reversed(dependents.direct(parent.oid))])

    path: list[tuple[Iterator[tuple[Record, Record]], tuple[Record, Record] | None]] = [(below(target), None)]
    while path:
        rest, own = path[-1]
        pair = next(rest, None)
        if pair is None:
            path.pop()
            if own is not None:
                collected.append(own)
        elif pair[0].oid not in known:
            known.add(pair[0].oid)
            path.append((below(pair[0]), pair))


def named(running: Running, catalog: CatalogSnapshot, record: Record) -> str:
    if isinstance(record, Constraint):
        relation = catalog.get(record.relation)
        name = shown_name(running, catalog, relation) if isinstance(relation, Relation) else str(record.relation)
        return f"constraint {record.name} on table {name}"
    if isinstance(record, Policy):
        relation = catalog.get(record.relation)
        name = shown_name(running, catalog, relation) if isinstance(relation, Relation) else str(record.relation)
        return f"policy {record.name} on table {name}"
    return describe(running, catalog, record)


def refuse(
    running: Running, catalog: CatalogSnapshot, targets: dict[int, Record], lines: Sequence[tuple[str, str]]
) -> None:
    """2BP01 for what is to be dropped and others (dependent, on what) depend on."""
    if len(targets) == 1:
        what = f"cannot drop {named(running, catalog, next(iter(targets.values())))}"
    else:
        what = "cannot drop desired object(s)"
    raise DependentObjectsStillExist(
        f"{what} because other objects depend on {'it' if len(targets) == 1 else 'them'}",
        detail="\n".join(f"{dependent} depends on {parent}" for dependent, parent in lines[:MAX_LISTED]),
        hint="Use DROP ... CASCADE to drop the dependent objects too.",
    )


def notify(running: Running, message: str) -> None:
    running.session.notice(Notice(severity="NOTICE", sqlstate="00000", message=message))


def report_cascade(running: Running, lines: list[str]) -> None:
    """The notice of what CASCADE drops."""
    if len(lines) == 1:
        notify(running, lines[0])
        return
    running.session.notice(
        Notice(
            severity="NOTICE",
            sqlstate="00000",
            message=f"drop cascades to {len(lines)} other objects",
            detail="\n".join(lines[:MAX_LISTED]),
        )
    )


def remove(running: Running, catalog: CatalogSnapshot, records: Iterable[Record]) -> None:
    """Take objects out of the catalog with their comments and constraints, and forget their shards."""
    doomed: set[int] = set()
    for each in records:
        doomed.add(each.oid)
        if isinstance(each, DomainType):
            doomed.update(check.oid for check in each.checks)
    gone: dict[int, CatalogRecord] = {}
    for oid in doomed:
        record = catalog.get(oid)
        if record is not None:
            gone[oid] = record
    for record in catalog.all():
        if (
            (isinstance(record, Comment) and record.object_oid in doomed)
            or (
                isinstance(record, (Constraint, Index, Policy, RowSecurity, ExtendedStatistics))
                and record.relation in doomed
            )
            or (isinstance(record, Index) and record.constraint in doomed)
            or (isinstance(record, Acl) and doomed & {record.object_oid, derived_oids.owner(record.object_oid)})
            or (isinstance(record, DefaultAcl) and doomed & {record.role, record.schema})
        ):
            gone[record.oid] = record
    change(running, removed=gone.values())
    forget_names(running, gone.values())
    for record in gone.values():
        if isinstance(record, Relation):
            for shard in shards_of(record):
                forget_shard(running, shard)
        if isinstance(record, Schema):
            running.transaction.rely_on([record])
