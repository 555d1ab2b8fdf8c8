"""Text inside templates: what keeps its braces from being taken for the places of arguments."""

from __future__ import annotations

BRACE = "\0\x01"
"""Stands for ``{`` in a template; filling the template puts it back. No text of a user has a NUL."""


def quoted(text: str) -> str:
    """Text of any content as part of a template: its braces are not places."""
    return text.replace("{", BRACE)
