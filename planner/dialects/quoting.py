"""TODO docstring."""

from __future__ import annotations

from planner.lowering.templates import BRACE


def quoted(text: str) -> str:
    """Text of any content as part of a template: its braces are not places."""
    return text.replace("{", BRACE)


BOOL_LETTERS = "CASE WHEN e THEN 't' WHEN NOT e THEN 'f' END"
"""The boolean `e` as boolout prints it."""
