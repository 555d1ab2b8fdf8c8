"""Errors of collations."""

from __future__ import annotations

from planner.errors import SyntaxErrorOrAccessRuleViolation


class CollationMismatch(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P21"


class IndeterminateCollation(SyntaxErrorOrAccessRuleViolation):
    sqlstate = "42P22"
