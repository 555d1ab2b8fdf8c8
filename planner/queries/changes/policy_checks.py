"""Row-level security of changes: which rows they find, and what rows that they write have to meet (PostgreSQL's
rowsecurity.c).

A row that is written is held against the WITH CHECK of the policies for the command. Where the change has to be allowed
to read the table too, it must besides be a row that may be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from planner.ir.bound import PolicyChecks
from planner.ir.nodes import RETURNING_ROWS, BooleanTest, Case, CteScan, Field, Literal, Project, Rel, Scalar, Scan
from planner.ir.rewrite import transform
from planner.queries.changes.column_values import bound_query, row_scope
from planner.queries.changes.targets import ChangeTarget
from planner.resolution.operators import BOOLEAN
from planner.resolution.row_security import (
    INSERT,
    SELECT,
    UPDATE,
    Subject,
    any_of,
    bound_policy,
    secured,
    subject_to,
)
from planner.resolution.statement import Statement
from planner.types.types import INT4, SqlType
from storage.catalog.access import Policy


class _Rule(Struct, frozen=True):
    """A kind of check: against the policies for `command`; with `using`, against what they say of rows that are there.
    `what` is what the error calls the row."""

    command: str
    using: bool = False
    what: str = "new row"
    suffix: str = ""


def found_rows(statement: Statement, target: ChangeTarget, scan: Scan, commands: Sequence[str], rel: Rel) -> Rel:
    """`rel`, which reads `scan`, without the rows that the commands may not find. To be called when all else is
    bound."""
    subject = _subject(statement, target)
    if subject is None:
        return rel
    reading = [SELECT] if _reads(target) else []
    filtered = secured(statement, scan, subject, [*reading, *commands])
    return transform(rel, lambda node: filtered if node is scan else None)


def inserted_checks(statement: Statement, target: ChangeTarget, *, returned: bool = True) -> PolicyChecks | None:
    """What rows that INSERT proposes have to meet, or (not `returned`) MERGE, which need not see what it inserts."""
    return _checks(statement, target, [_Rule(INSERT), *(_visible(target) if returned else ())])


def updated_checks(statement: Statement, target: ChangeTarget) -> PolicyChecks | None:
    """What rows have to meet once they are updated."""
    return _checks(statement, target, [_Rule(UPDATE), *_visible(target)])


def conflicting_checks(statement: Statement, target: ChangeTarget) -> PolicyChecks | None:
    """What a row has to meet that ON CONFLICT DO UPDATE finds."""
    suffix = " (USING expression)"
    rules = [_Rule(UPDATE, using=True, suffix=suffix)]
    if _reads(target):
        rules.append(_Rule(SELECT, using=True, suffix=suffix))
    return _checks(statement, target, rules)


def merged_checks(statement: Statement, target: ChangeTarget, command: str) -> PolicyChecks | None:
    """What a row has to meet that MERGE is to update or delete."""
    return _checks(statement, target, [_Rule(command, using=True, what="target row", suffix=" (USING expression)")])


def _visible(target: ChangeTarget) -> list[_Rule]:
    return [_Rule(SELECT, using=True)] if _reads(target) else []


def _reads(target: ChangeTarget) -> bool:
    """Whether the change needs to be allowed to read its target."""
    return "r" in target.uses[0].required().privileges


def _subject(statement: Statement, target: ChangeTarget) -> Subject | None:
    return subject_to(statement, target.relation, target.uses[-1].role)


def _checks(statement: Statement, target: ChangeTarget, rules: Sequence[_Rule]) -> PolicyChecks | None:
    subject = _subject(statement, target)
    if subject is None:
        return None
    _, scan = row_scope(statement, target.relation)
    messages: list[str] = []
    whens: list[tuple[Scalar, Scalar]] = []
    for rule in rules:
        for message, condition in _conditions(statement, subject, rule, scan.fields):
            messages.append(message)
            number = Literal(value=len(messages), type=SqlType(INT4))
            whens.append((BooleanTest(arg=condition, test="true", negated=True, type=BOOLEAN), number))
    failing = statement.new_field("failing", SqlType(INT4))
    first = Case(whens=tuple(whens), otherwise=Literal(value=0, type=failing.type), type=failing.type)
    rows = CteScan(cte=RETURNING_ROWS, fields=scan.fields)
    query = bound_query(statement, Project(input=rows, exprs=(first,), fields=(failing,)))
    return PolicyChecks(messages=tuple(messages), query=query)


def _conditions(
    statement: Statement, subject: Subject, rule: _Rule, fields: Sequence[Field]
) -> list[tuple[str, Scalar]]:
    """The error for each condition that a rule makes: of permissive policies one is enough, restrictive ones count
    only beside these."""
    table = subject.relation.name

    def bound(policy: Policy) -> Scalar | None:
        text = policy.using if rule.using or policy.check is None else policy.check
        return None if text is None else bound_policy(statement, subject, text, fields)

    permissive, restrictive = subject.for_command(rule.command)
    alternatives = [condition for policy in permissive if (condition := bound(policy)) is not None]
    message = f'{rule.what} violates row-level security policy{rule.suffix} for table "{table}"'
    found = [(message, any_of(alternatives))]
    if alternatives:
        for policy in restrictive:
            condition = bound(policy)
            if condition is not None:
                named = f'policy "{policy.name}"{rule.suffix}'
                found.append((f'{rule.what} violates row-level security {named} for table "{table}"', condition))
    return found
