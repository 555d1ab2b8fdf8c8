"""CALL tidegate.restore_table('t', moment): the rows of a table become those that it had at a moment.

It is what a user could do with ``tidegate.as_of`` in FROM, and is done by such statements: rows that were not there
then are deleted, others are changed back, and those that are missing are inserted; rows that are the same stay as they
are, and so do the rows of other tables that refer to them. Rows are told apart by the primary key. A table without one
gets all its rows anew.

The definition stays that of today: a column that has been added since keeps its values in rows that are there still and
has its default in the others, and one that has been dropped stays dropped. Constraints hold. What was restored is a
change like others, so that it can be looked back behind it.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy

from adapter.access.ownership import require_owner
from adapter.execution.relation_names import find_relation
from adapter.execution.statement import Outcome, Running
from adapter.plans.plan_cache import make_plan
from adapter.queries.past.evaluated_moments import evaluated_moment
from adapter.results import Command
from adapter.transactions.locks import tags
from adapter.transactions.locks.modes import Mode
from adapter.transactions.past.looking_back import past_snapshot
from adapter.transactions.past.moments import moment
from planner.common_errors import missing_relation
from planner.errors import WrongObjectType
from planner.statements import records as st
from planner.syntax.identifiers import quote_identifier
from planner.syntax.parse import Parsed, split_and_parse
from planner.types.types import BOOL, INT2, INT4, INT8, UUID
from storage.catalog.model import CatalogSnapshot, Column, Constraint, Relation, Schema

_PLAIN = frozenset({BOOL, INT2, INT4, INT8, UUID})
"""Types whose values are the same when they are equal; others may be equal and look different (1.0 and 1.00), or cannot
be compared, and are compared as they look."""


async def restore_table(running: Running, statement: st.RestoreTable) -> Outcome:
    """Carry it out. Raises 42501 for who does not own the table, 42809 for what is none, 42P01 for one that was not
    there then, what `past_snapshot` does, and what its changes do."""
    session, transaction = running.session, running.transaction
    if isinstance(statement.moment, Parsed):
        csn = await evaluated_moment(running, statement.moment, "the moment of a table")
    else:
        csn = moment(statement.moment, session.values.flat["TimeZone"], "tidegate.as_of")
    catalog = transaction.catalog
    relation = find_relation(running, catalog, statement.table)
    if relation.kind != "r":
        raise WrongObjectType(f'"{relation.name}" is not a table')
    require_owner(catalog, session.values.identity.current, relation)
    await transaction.lock(((tags.relation(relation.oid), Mode.EXCLUSIVE),))
    then = (await past_snapshot(running.services.env, csn, session.database_oid)).catalog
    before = then.get(relation.oid)
    if not isinstance(before, Relation):
        raise missing_relation(relation.name, None)
    source = f"tidegate.as_of({_literal(_name(then, before))}, {csn})"
    for place, text in enumerate(_changes(catalog, relation, before, source), 1):
        await _carry_out(running, text, place)
    return Command(tag="CALL")


def _changes(catalog: CatalogSnapshot, relation: Relation, before: Relation, source: str) -> list[str]:
    """The statements."""
    target = _name(catalog, relation)
    was = {column.attnum: quote_identifier(column.name) for column in before.live_columns()}
    columns = [column for column in relation.live_columns() if column.attnum in was and not column.generated]
    names = ", ".join(quote_identifier(column.name) for column in columns)
    values = ", ".join(f"o.{was[column.attnum]}" for column in columns)
    insert = f"INSERT INTO {target} ({names}) OVERRIDING SYSTEM VALUE SELECT {values} FROM {source} AS o"
    key = _key(catalog, relation, was.keys())
    if key is None:
        return [f"DELETE FROM {target}", insert if columns else f"INSERT INTO {target} SELECT FROM {source} AS o"]
    keys = [column for column in columns if column.attnum in key]
    same = " AND ".join(f"o.{was[column.attnum]} = t.{quote_identifier(column.name)}" for column in keys)
    others = [column for column in columns if column.attnum not in key and column.identity != "a"]
    statements = [f"DELETE FROM {target} AS t WHERE NOT EXISTS (SELECT 1 FROM {source} AS o WHERE {same})"]
    if others:
        sets = ", ".join(f"{quote_identifier(column.name)} = o.{was[column.attnum]}" for column in others)
        differ = " OR ".join(
            f"{_shown(f't.{quote_identifier(column.name)}', column)} IS DISTINCT FROM"
            f" {_shown(f'o.{was[column.attnum]}', column)}"
            for column in others
        )
        statements.append(f"UPDATE {target} AS t SET {sets} FROM {source} AS o WHERE {same} AND ({differ})")
    missing = f"NOT EXISTS (SELECT 1 FROM {target} AS t WHERE {same})"
    return [*statements, f"{insert} WHERE {missing}"]


def _key(catalog: CatalogSnapshot, relation: Relation, known: Collection[int]) -> frozenset[int] | None:
    """The columns of the primary key, if the table had them then too."""
    for oid in relation.constraints:
        record = catalog.get(oid)
        if isinstance(record, Constraint) and record.kind == "p" and record.relation == relation.oid:
            return frozenset(record.columns) if all(attnum in known for attnum in record.columns) else None
    return None


def _shown(name: str, column: Column) -> str:
    return name if column.type_oid in _PLAIN else f"{name}::text"


def _name(catalog: CatalogSnapshot, relation: Relation) -> str:
    schema = catalog.get(relation.schema)
    assert isinstance(schema, Schema)
    return f"{quote_identifier(schema.name)}.{quote_identifier(relation.name)}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


async def _carry_out(running: Running, text: str, place: int) -> None:
    """One of the statements, which sees what those before it have changed."""
    session = running.session
    (parsed,) = split_and_parse(text)
    catalog = await running.transaction.begin_statement(running.services.env)
    await session.look_up_past(parsed)
    within = copy(running)
    within.parsed, within.params, within.declared = parsed, (), ()
    within.depth, within.in_block, within.may_retry = running.depth + 1, True, False
    within.token = f"{running.token}.{running.depth}.{place}"
    await running.run(within, make_plan(parsed, session.bind_context(catalog), ()))
