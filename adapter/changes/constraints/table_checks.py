"""The CHECK constraints of a table, bound: kept for as long as the table stays as it is."""

from __future__ import annotations

from msgspec import Struct

from adapter.execution.statement import Running
from adapter.plans.arrow_conditions import Vector, vector_of
from planner.common_errors import Held
from planner.definitions.row_expressions import RowConditions, bind_conditions, bind_domains
from planner.ir.domain_faults import DomainFault
from planner.resolution.statement import BindContext
from planner.types.user_types import domains_beneath
from storage.bounded_map import BoundedMap
from storage.catalog.model import CatalogSnapshot, Constraint, DomainType, Relation

MAX_KEPT = 1000
"""Tables whose checks are kept bound."""


class TableChecks(Struct, frozen=True, kw_only=True):
    """The CHECK constraints of a table in the order in which they are checked, bound. `vectors[i]` evaluates the i-th
    without an engine, where that can be."""

    relation: Relation
    constraints: tuple[Constraint, ...]
    conditions: RowConditions
    vectors: tuple[Vector | None, ...]


class DomainChecks(Struct, frozen=True, kw_only=True):
    """What the domains of a table's columns demand of its rows, as `TableChecks`; `domains` are their records. For
    one of the `faults` that is None computing the condition raises the error."""

    domains: tuple[DomainType, ...]
    faults: tuple[DomainFault | None, ...]
    conditions: RowConditions | None
    """None where nothing is demanded."""
    vectors: tuple[Vector | None, ...]


def domain_checks(running: Running, catalog: CatalogSnapshot, relation: Relation) -> DomainChecks | None:
    """What domains demand of rows of `relation`; None when none has rules."""
    domains = domains_beneath(catalog, relation)
    bound = bind_domains(relation, running.session.bind_context(catalog)) if domains else None
    if bound is None:
        return DomainChecks(domains=domains, faults=(), conditions=None, vectors=()) if domains else None
    columns = {field.id: place for place, field in enumerate(bound.conditions.fields)}
    return DomainChecks(
        domains=domains,
        faults=bound.faults,
        conditions=bound.conditions,
        vectors=tuple(
            None if fault is None else vector_of(condition, columns)
            for fault, condition in zip(bound.faults, bound.conditions.conditions, strict=True)
        ),
    )


_kept: BoundedMap[tuple[int, Held], TableChecks] = BoundedMap(max_entries=MAX_KEPT)
"""By oid of the table, and how numerics are held. An entry holds the very records that it was made from, which are
immutable: it never lies."""


def table_checks(running: Running, catalog: CatalogSnapshot, relation: Relation) -> TableChecks | None:
    """The checks that rows of `relation` have to pass, None when it has none."""
    checks = _records(catalog, relation)
    if not checks:
        return None
    return _known(relation, checks, running.session.held) or _made(
        relation, checks, running.session.bind_context(catalog)
    )


async def prepare_checks(running: Running, catalog: CatalogSnapshot, relation_oid: int) -> None:
    """Let `table_checks` of a table with many have its answer at hand, made on a thread."""
    relation = catalog.get(relation_oid)
    assert isinstance(relation, Relation)
    checks = _records(catalog, relation)
    if checks and _known(relation, checks, running.session.held) is None:
        context = running.session.bind_context(catalog)
        await running.services.plans.aside(_made, relation, checks, context)


def _records(catalog: CatalogSnapshot, relation: Relation) -> list[Constraint]:
    """The CHECK constraints of `relation` by name."""
    records = [catalog.get(oid) for oid in relation.constraints]
    checks = [record for record in records if isinstance(record, Constraint) and record.kind == "c"]
    checks.sort(key=lambda check: check.name)
    return checks


def _known(relation: Relation, checks: list[Constraint], held: Held) -> TableChecks | None:
    known = _kept.get((relation.oid, held))
    if (
        known is not None
        and known.relation is relation
        and len(known.constraints) == len(checks)
        and all(map(lambda one, other: one is other, known.constraints, checks))
    ):
        _kept.touch((relation.oid, held))
        return known
    return None


def _made(relation: Relation, checks: list[Constraint], context: BindContext) -> TableChecks:
    texts = [check.expression or "" for check in checks]
    conditions = bind_conditions(relation, texts, context)
    columns = {field.id: place for place, field in enumerate(conditions.fields)}
    found = TableChecks(
        relation=relation,
        constraints=tuple(checks),
        conditions=conditions,
        vectors=tuple(vector_of(condition, columns) for condition in conditions.conditions),
    )
    _kept.put((relation.oid, context.held), found)
    return found
