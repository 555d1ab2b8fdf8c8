"""Where a session keeps its temporary objects, from its first one to its end.

Their definitions are a value (`storage.catalog.temporary`), which a transaction changes in its `Pending`; what has
committed is `objects`. Their rows are in a storage transaction that is never committed: no store hears of them, but for
files of what does not fit into memory, which are uploads of this process that nobody refers to, and go with it. A
transaction that writes to temporary tables begins with a savepoint there; it ends by going back to it, or by forgetting
it. Both happen in memory and cannot fail, after what others see has been committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from planner.errors import FeatureNotSupported
from planner.types import derived_oids
from planner.types.user_types import mentioned, relations_mentioned, types_used
from storage.catalog.access import Policy
from storage.catalog.model import CatalogRecord, CatalogSnapshot, Constraint, DomainType, Index, Relation
from storage.catalog.routines import Function
from storage.catalog.sequences import LocalSequences
from storage.catalog.temporary import TemporaryObjects, is_temporary
from storage.catalog.types import UserRange
from storage.timestamps.csn import Csn
from storage.transactions.txn import PartWriter, Savepoint, Txn


class TemporarySpace:
    """See the module's contract. `number` tells the sessions of a process apart; `schema` is the schema's oid."""

    def __init__(self, number: int, schema: int, writer: PartWriter) -> None:
        self.number = number
        self.schema = schema
        self.objects: TemporaryObjects | None = None
        self.rows = Txn(writer, Csn(0))
        self.sequences = LocalSequences()
        self._begun: Savepoint | None = None

    @property
    def name(self) -> str:
        """What the session's temporary schema is called."""
        return f"pg_temp_{self.number}"

    def writable(self) -> Txn:
        """The rows, for the session's transaction to write to."""
        if self._begun is None:
            self._begun = self.rows.savepoint()
        return self.rows

    @property
    def changes(self) -> int | None:
        """How often rows were written to, for one transaction; None while that has written nothing."""
        return None if self._begun is None else self.rows.changes

    def savepoint(self) -> Savepoint | None:
        """A point to return to; None while the transaction has written nothing."""
        return None if self._begun is None else self.rows.savepoint()

    def undo(self, savepoint: Savepoint | None) -> None:
        """Take back what the transaction has written since `savepoint`."""
        if self._begun is not None:
            self.rows.rollback_to(self._begun if savepoint is None else savepoint)

    def roll_back(self) -> None:
        """The transaction is over, and nothing of it stays."""
        if self._begun is not None:
            self.rows.rollback_to(self._begun)
            self._end()

    def check(self, objects: TemporaryObjects | None) -> None:
        """0A000 when ON COMMIT DELETE ROWS would empty a table that another one refers to, which keeps its rows: for a
        transaction that is about to end with `objects`."""
        if objects is None or not objects.on_commit or (objects is self.objects and self._begun is None):
            return
        emptied = {oid for oid, action in objects.on_commit.items() if action == "delete"}
        dropped = {oid for oid, action in objects.on_commit.items() if action == "drop"}
        for key in objects.records.values():
            if isinstance(key, Constraint) and key.foreign_relation in emptied:
                child, parent = objects.records[key.relation], objects.records[key.foreign_relation]
                assert isinstance(child, Relation)
                assert isinstance(parent, Relation)
                if child.oid not in emptied | dropped:
                    raise FeatureNotSupported(
                        "unsupported ON COMMIT and foreign key combination",
                        detail=f'Table "{child.name}" references "{parent.name}", but they do not have the same '
                        "ON COMMIT setting.",
                    )

    def commit(self, objects: TemporaryObjects | None) -> None:
        """The transaction is over, and its temporary objects are `objects`: ON COMMIT happens to them."""
        wrote = self._begun is not None
        self._end()
        if objects is self.objects and not wrote:
            return
        if objects is not None:
            objects = objects.without([oid for oid, action in objects.on_commit.items() if action == "drop"])
            if objects.is_empty:
                objects = None
        self.objects = objects
        after = self._shards()
        for shard in self.rows.shards - after:
            self.rows.discard_rows(shard)
        if objects is not None:
            for oid in objects.on_commit:
                table = objects.records[oid]
                if isinstance(table, Relation) and table.shard is not None:
                    self.rows.discard_rows(table.shard)

    def close(self) -> None:
        """The session is over."""
        self.rows.abandon()

    def _shards(self) -> frozenset[str]:
        records = () if self.objects is None else self.objects.records.values()
        return frozenset(record.shard for record in records if isinstance(record, Relation) and record.shard)

    def _end(self) -> None:
        if self._begun is not None:
            self.rows.release(self._begun)
            self._begun = None


# ---------------------------------------------------------------- permanent objects


def refuse_temporary_uses(catalog: CatalogSnapshot, records: Iterable[CatalogRecord]) -> None:
    """0A000 when one of `records`, which are permanent, uses a temporary object of `catalog`.

    Who would see it later, or in another session, would miss that. PostgreSQL lets it, and drops such objects, or
    columns of them, when the session ends.
    """
    for record in records:
        used = next((catalog.get(oid) for oid in _used(record) if is_temporary(oid)), None)
        if used is not None:
            raise FeatureNotSupported(
                "permanent objects that use temporary objects are not supported",
                detail=f'"{_name(catalog, record)}" would use "{_name(catalog, used)}", which is gone when the '
                "session ends.",
                hint="Create it in the schema pg_temp.",
            )


def _used(record: CatalogRecord) -> Iterator[int]:
    """The oids of what `record` uses: relations, functions, types."""
    match record:
        case Relation():
            yield from record.depends_on
            yield from types_used(record)
            yield record.of_type
            for column in record.columns:
                yield from relations_mentioned(column.default or "")
        case DomainType() | UserRange():
            yield from types_used(record)
            if isinstance(record, DomainType):
                yield from relations_mentioned(record.default or "")
        case Function():
            yield from record.depends_on
            yield derived_oids.owner(record.result)
            for parameter in record.parameters:
                yield derived_oids.owner(parameter.type_oid)
            texts = (record.sql_body or "", *(parameter.default or "" for parameter in record.parameters))
            yield from _in_texts(texts)
        case Constraint():
            yield from _in_texts([record.expression or ""])
        case Policy():
            yield from record.depends_on
            yield from _in_texts([record.using or "", record.check or ""])
        case Index():
            yield from _in_texts([*record.expressions, record.predicate or ""])


def _in_texts(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        yield from mentioned(text)
        yield from relations_mentioned(text)


def _name(catalog: CatalogSnapshot, record: CatalogRecord) -> str:
    of = catalog.get(record.relation) if isinstance(record, Constraint | Index | Policy) else record
    return str(getattr(of, "name", record.oid))
