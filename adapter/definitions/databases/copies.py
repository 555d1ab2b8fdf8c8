"""The objects of one database as those of another: equal but for their oids.

Oids are unique in an environment, since transactions of all its databases commit to one catalog. So a copy has oids of
its own, and whatever names an object by its oid has to name the copy: references between records, types of columns
(`planner.types.derived_oids`), and the numbers that defaults hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from msgspec.structs import replace

from planner.types import derived_oids
from storage.catalog.access import AuthenticationSecret, Membership, Policy, Role, RowSecurity
from storage.catalog.acl import Acl, DefaultAcl
from storage.catalog.model import (
    PUBLIC_SCHEMA_OID,
    CatalogRecord,
    Column,
    Comment,
    Constraint,
    Database,
    DomainConstraint,
    DomainType,
    EnumType,
    Index,
    Relation,
    Schema,
    Setting,
    SystemSetting,
)
from storage.catalog.model import Sequence as SequenceRecord
from storage.catalog.outside import Extension, ForeignServer
from storage.catalog.record import LARGE_OBJECT_COMMENTS, ExtendedStatistics
from storage.catalog.routines import Function
from storage.catalog.types import BaseType, EnumLabel, UserRange
from storage.ids import ShardId

_BY_NUMBER = re.compile(r"""(?<=')\d+(?='::regclass)|(?<=\btidegate\.")\d+(?=")|(?<="tidegate\.)\d+(?=")""")
"""The oids in stored expressions: of sequences, and of types and functions of users, and of types whose operators are
named (`planner.types.user_types`)."""


def oids_for(records: Iterable[CatalogRecord]) -> int:
    """How many oids copies of `records` take."""
    return sum(1 + len(_parts(record)) for record in records)


def _parts(record: CatalogRecord) -> Sequence[EnumLabel | DomainConstraint]:
    """What of a record has an oid of its own."""
    match record:
        case EnumType():
            return record.labels
        case DomainType():
            return record.checks
        case _:
            return ()


class Copies:
    """The new oids of `records`, which are all of a database but what it shares with others. `new_oid` gives an oid
    that nothing has, `new_shard` an id for a new shard."""

    def __init__(
        self,
        records: Iterable[CatalogRecord],
        database: int,
        new_oid: Callable[[], int],
        new_shard: Callable[[], ShardId],
    ) -> None:
        self._records = sorted(records, key=lambda record: record.oid)
        self._database = database
        self._new_shard = new_shard
        self.oids: Mapping[int, int] = {
            oid: new_oid() for record in self._records for oid in (record.oid, *(part.oid for part in _parts(record)))
        }
        """By an object's oid that of its copy."""

    def made(self) -> list[CatalogRecord]:
        """The copies, in the order of the originals' oids. Tables have new shards, which are not registered yet."""
        return [self._copy(record) for record in self._records]

    def _oid(self, oid: int) -> int:
        """The copy of an object, or of what is derived from one; of what is not copied the oid itself."""
        found = self.oids.get(oid)
        if found is not None:
            return found
        owner = self.oids.get(derived_oids.owner(oid))
        return oid if owner is None else oid - derived_oids.owner(oid) + owner

    def _all(self, oids: Iterable[int]) -> tuple[int, ...]:
        return tuple(self._oid(oid) for oid in oids)

    def _some(self, oid: int | None) -> int | None:
        return None if oid is None else self._oid(oid)

    def _text(self, text: str | None) -> str | None:
        if text is None:
            return None
        return _BY_NUMBER.sub(lambda found: str(self._oid(int(found[0]))), text)

    def _texts(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(self._text(text) or "" for text in texts)

    def _copy(self, record: CatalogRecord) -> CatalogRecord:
        oid = self.oids[record.oid]
        match record:
            case Schema():
                origin = PUBLIC_SCHEMA_OID if record.oid == PUBLIC_SCHEMA_OID else record.origin
                return replace(record, oid=oid, database=self._database, origin=origin)
            case Relation():
                return replace(
                    record,
                    oid=oid,
                    schema=self._oid(record.schema),
                    columns=tuple(self._column(column) for column in record.columns),
                    shard=None if record.shard is None else self._new_shard(),
                    definition=self._text(record.definition),
                    depends_on=self._all(record.depends_on),
                    needs_keys=self._all(record.needs_keys),
                    of_type=self._oid(record.of_type) if record.of_type else 0,
                    constraints=self._all(record.constraints),
                    foreign=None
                    if record.foreign is None
                    else replace(record.foreign, server=self._oid(record.foreign.server)),
                    materialized=None
                    if record.materialized is None
                    else replace(record.materialized, journal=self._new_shard()),
                )
            case Comment() if record.object_oid > LARGE_OBJECT_COMMENTS:
                return replace(record, oid=oid, database=self._database)
            case Comment() | Acl():
                return replace(record, oid=oid, object_oid=self._oid(record.object_oid), database=self._database)
            case Policy():
                return replace(
                    record,
                    oid=oid,
                    relation=self._oid(record.relation),
                    using=self._text(record.using),
                    check=self._text(record.check),
                    depends_on=self._all(record.depends_on),
                    database=self._database,
                )
            case RowSecurity():
                return replace(record, oid=oid, relation=self._oid(record.relation), database=self._database)
            case DefaultAcl():
                return replace(record, oid=oid, schema=self._oid(record.schema), database=self._database)
            case Constraint():
                return replace(
                    record,
                    oid=oid,
                    relation=self._oid(record.relation),
                    expression=self._text(record.expression),
                    foreign_relation=self._some(record.foreign_relation),
                    index=self._some(record.index),
                )
            case Index():
                return replace(
                    record,
                    oid=oid,
                    schema=self._oid(record.schema),
                    relation=self._oid(record.relation),
                    expressions=self._texts(record.expressions),
                    predicate=self._text(record.predicate),
                    expression_types=tuple((self._oid(type_), typmod) for type_, typmod in record.expression_types),
                    constraint=self._some(record.constraint),
                )
            case ExtendedStatistics():
                return replace(
                    record,
                    oid=oid,
                    schema=self._oid(record.schema),
                    relation=self._oid(record.relation),
                    expressions=self._texts(record.expressions),
                )
            case SequenceRecord():
                owned_by = None if record.owned_by is None else (self._oid(record.owned_by[0]), record.owned_by[1])
                return replace(record, oid=oid, schema=self._oid(record.schema), owned_by=owned_by)
            case EnumType():
                labels = tuple(replace(label, oid=self._oid(label.oid)) for label in record.labels)
                return replace(record, oid=oid, schema=self._oid(record.schema), labels=labels)
            case DomainType():
                return replace(
                    record,
                    oid=oid,
                    schema=self._oid(record.schema),
                    base_oid=self._oid(record.base_oid),
                    default=self._text(record.default),
                    checks=tuple(self._check(check) for check in record.checks),
                )
            case UserRange():
                return replace(
                    record,
                    oid=oid,
                    schema=self._oid(record.schema),
                    range=self._oid(record.range),
                    multirange=self._oid(record.multirange),
                    subtype=self._oid(record.subtype),
                    difference=self._some(record.difference),
                )
            case BaseType():
                return replace(record, oid=oid, schema=self._oid(record.schema))
            case Function():
                return replace(
                    record,
                    oid=oid,
                    schema=self._oid(record.schema),
                    parameters=tuple(
                        replace(each, type_oid=self._oid(each.type_oid), default=self._text(each.default))
                        for each in record.parameters
                    ),
                    result=self._oid(record.result),
                    sql_body=self._text(record.sql_body),
                    depends_on=self._all(record.depends_on),
                )
            case Extension():
                members = self._all(record.members)
                return replace(record, oid=oid, schema=self._oid(record.schema), members=members)
            case ForeignServer():
                mappings = tuple(replace(each, oid=self._oid(each.oid)) for each in record.mappings)
                return replace(record, oid=oid, database=self._database, mappings=mappings)
            case Role() | Membership() | Database() | Setting() | SystemSetting() | AuthenticationSecret():
                raise ValueError(f"a database has no {type(record).__name__} of its own")
            case _:
                assert_never(record)

    def _check(self, check: DomainConstraint) -> DomainConstraint:
        return replace(check, oid=self._oid(check.oid), expression=self._text(check.expression) or "")

    def _column(self, column: Column) -> Column:
        return replace(
            column,
            type_oid=self._oid(column.type_oid),
            default=self._text(column.default),
            sequence=self._some(column.sequence),
        )
