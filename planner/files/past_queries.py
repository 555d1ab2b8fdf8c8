"""Queries of a moment of the past inside statements of the present.

    INSERT INTO t SELECT ... AS OF moment
    CREATE TABLE t AS SELECT ... AS OF moment
    SELECT * FROM tidegate.as_of('view', moment)

Such a query is bound with the catalog of then; its scans read tables of the past (`PastTable`), as those of
``tidegate.as_of`` do. So what it reads is nothing of the statement's snapshot: it locks no table, and a serializable
transaction may commit whatever has happened to the tables since.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from planner.calls.user_functions import is_user_function
from planner.errors import FeatureNotSupported, ObjectNotInPrerequisiteState, ReadOnlySqlTransaction
from planner.ir.nodes import Call, Field, FunctionCall, Scan, SystemScan
from planner.ir.past_rows import PAST_ROWS, PastMoment, PastTable
from planner.ir.rewrite import transform, walk
from planner.resolution.statement import Statement
from planner.types.type_scope import types_of
from storage.catalog.model import Relation
from storage.catalog.routines import Function

_T = TypeVar("_T")

_NO_CATALOGS = "system catalogs cannot be read as they were in a statement of the present"


def moment_of(statement: Statement) -> PastMoment | None:
    """The moment at which the query of a statement that writes its rows is read, where it says one."""
    past, extension = statement.context.past, statement.parsed.extension
    if past.whole is None or past.text != statement.parsed.text or extension is None or extension.as_of is None:
        return None
    return past.whole


@contextmanager
def at_moment(statement: Statement, moment: PastMoment | None) -> Iterator[None]:
    """What is bound in the block is of `moment`; None: of the statement's own. Its relation then goes through
    `as_it_was`."""
    if moment is None:
        yield
        return
    outer = statement.context, statement.relations, statement.read_inside, statement.system
    foreign, locking, changes = len(statement.foreign), statement.locking, statement.with_changes
    changed = None if changes is None else changes.items
    statement.context = replace(moment.context, past=outer[0].past, files=outer[0].files)
    statement.relations, statement.read_inside, statement.system = set(), set(), False
    try:
        with statement.required.at(moment.then), types_of(moment.then, statement.context.search_path):
            yield
        if statement.system:
            raise FeatureNotSupported(_NO_CATALOGS)
        if len(statement.foreign) > foreign:
            raise FeatureNotSupported("foreign tables have no past that could be read")
        if statement.locking != locking:
            raise ReadOnlySqlTransaction(f"cannot execute SELECT {statement.locking} of rows as they were")
        if changes is not None and changes.items is not changed:
            raise FeatureNotSupported("AS OF is not for a WITH that changes rows")
    finally:
        statement.context, statement.relations, statement.read_inside, statement.system = outer


def as_it_was(statement: Statement, moment: PastMoment | None, rel: _T) -> _T:
    """`rel` (a relation or a common table), which was bound at `moment`, with its scans reading the rows of then.

    Raises 55000 for a materialized view that was not populated, and 0A000 for functions that read tables by themselves.
    """
    if moment is None:
        return rel
    for node in walk(rel):
        if isinstance(node, SystemScan):
            raise FeatureNotSupported(_NO_CATALOGS)
        if isinstance(node, (Call, FunctionCall)) and is_user_function(node.signature):
            function = moment.then.get(node.signature.oid)
            if not isinstance(function, Function) or function.volatility != "i":
                raise FeatureNotSupported(
                    f"function {node.signature.name} cannot be called in what is read as it was",
                    detail="It may read tables by itself, as they are.",
                )
    ids: dict[int, int] = {}

    def read_then(node: Any) -> Any:
        if not isinstance(node, Scan) or node.relation_oid <= PAST_ROWS:
            return None
        relation = moment.then.get(node.relation_oid)
        assert isinstance(relation, Relation)
        if relation.materialized is not None and not relation.materialized.populated:
            raise ObjectNotInPrerequisiteState(f'materialized view "{relation.name}" had not been populated')
        id = ids.get(relation.oid)
        if id is None:
            id = ids[relation.oid] = PAST_ROWS - len(statement.past)
            statement.past[id] = PastTable(relation=relation, then=moment.then, csn=moment.csn)
        fields = tuple([_of_table(field, id) for field in node.fields])
        return replace(node, relation_oid=id, fields=fields)

    return transform(rel, read_then)


def _of_table(field: Field, id: int) -> Field:
    """`field` as one of the table of the past that is read by `id`."""
    return field if field.origin is None else replace(field, origin=replace(field.origin, relation_oid=id))
