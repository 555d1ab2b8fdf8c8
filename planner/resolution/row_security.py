"""Row-level security in what is bound: the policies of a table, as conditions on rows that are read (PostgreSQL's
rowsecurity.c).

Who is subject to a table's policies the context tells; here they become a `Filter` right above the table's `Scan`. Over
it stands a barrier, so that no condition of the statement is computed for a row that the policies hide, which could
tell of the row by an error; `planner.ir.barriers` takes it away where nothing in the statement could.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.errors import InvalidObjectDefinition
from planner.ir.barriers import barrier
from planner.ir.nodes import BoolOp, Field, Filter, Literal, Rel, Scalar, Scan
from planner.resolution.operators import BOOLEAN
from planner.resolution.statement import Statement
from storage.catalog.access import ALL_COMMANDS, Policy
from storage.catalog.model import Relation

SELECT, INSERT, UPDATE, DELETE = "r", "a", "w", "d"


class Subject(Struct, frozen=True, kw_only=True):
    """That `role` (None: the current one) is subject to these policies of a table; there may be none, which hides all
    rows."""

    relation: Relation
    role: int | None
    policies: tuple[Policy, ...]

    def for_command(self, command: str) -> tuple[list[Policy], list[Policy]]:
        """The permissive and the restrictive policies for a command."""
        matching = [policy for policy in self.policies if policy.command in (command, ALL_COMMANDS)]
        return (
            [policy for policy in matching if policy.permissive],
            [policy for policy in matching if not policy.permissive],
        )


def subject_to(statement: Statement, relation: Relation, role: int | None) -> Subject | None:
    """What of the table's policies holds for who uses it as `role`; None when none has to. Raises 42501 where
    row_security is off."""
    policies = statement.context.policies
    if policies is None or statement.outlined or statement.required.unnoted:
        return None
    found = policies(relation, role)
    return None if found is None else Subject(relation=relation, role=role, policies=found)


def readable(statement: Statement, scan: Scan, relation: Relation) -> Rel:
    """The rows of `scan` that who reads it may see."""
    subject = subject_to(statement, relation, statement.required.role)
    if subject is None:
        return scan
    if scan.fields:
        statement.subjects[scan.fields[0].id] = subject
    return secured(statement, scan, subject, [SELECT])


def lockable(statement: Statement, scan: Scan) -> Rel:
    """The rows of `scan`, which `readable` has got, that may also be locked: those that may be updated."""
    subject = statement.subjects.get(scan.fields[0].id)
    if subject is None:
        return scan
    return _filtered(scan, using(statement, subject, scan.fields, [UPDATE]))


def secured(statement: Statement, scan: Scan, subject: Subject, commands: Sequence[str]) -> Rel:
    """The rows of `scan` that each of the commands may find."""
    statement.has_barriers = True
    return barrier(_filtered(scan, using(statement, subject, scan.fields, commands)))


def _filtered(scan: Scan, conditions: Sequence[Scalar]) -> Rel:
    rel: Rel = scan
    for condition in conditions:
        rel = Filter(input=rel, condition=condition, fields=rel.fields)
    return rel


def using(statement: Statement, subject: Subject, fields: Sequence[Field], commands: Sequence[str]) -> list[Scalar]:
    """The conditions, all of which a row with these `fields` has to meet to be found by each of the commands."""
    conditions: dict[tuple[int, ...], Scalar] = {}
    for command in commands:
        permissive, restrictive = subject.for_command(command)
        for policy in restrictive:
            if policy.using is not None and (policy.oid,) not in conditions:
                conditions[policy.oid,] = bound_policy(statement, subject, policy.using, fields)
        texts = {policy.oid: policy.using for policy in permissive if policy.using is not None}
        key = (0, *texts)
        if key not in conditions:
            conditions[key] = any_of([bound_policy(statement, subject, text, fields) for text in texts.values()])
    return list(conditions.values())


def any_of(conditions: Sequence[Scalar]) -> Scalar:
    """Whether one of the conditions is true; with none of them nothing is."""
    if not conditions:
        return Literal(value=False, type=BOOLEAN)
    return conditions[0] if len(conditions) == 1 else BoolOp(op="or", args=tuple(conditions), type=BOOLEAN)


def bound_policy(statement: Statement, subject: Subject, text: str, fields: Sequence[Field]) -> Scalar:
    """A policy's expression over a row with these `fields`. What it reads is read as the subject's role. Raises 42P17
    for a policy that reads its own table."""
    relation = subject.relation
    if relation.oid in statement.securing:
        raise InvalidObjectDefinition(f'infinite recursion detected in policy for relation "{relation.name}"')
    statement.securing = (*statement.securing, relation.oid)
    try:
        with statement.required.inside_view(subject.role):
            return statement.grammar.policy(statement, relation, text, fields)
    finally:
        statement.securing = statement.securing[:-1]
