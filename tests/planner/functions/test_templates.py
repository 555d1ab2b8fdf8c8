"""Templates of functions and operators stand where operands do: operators around them must not get inside."""

from __future__ import annotations

import re

import pytest

from planner.dialects.engine_name import EngineName
from planner.errors import SqlError
from planner.functions.forms.form import NOT_CONSTANT, CallSite, SessionSettings
from planner.functions.registry import _registry
from planner.types.signature import Signature
from planner.types.types import SqlType

_CASE = re.compile(r"\bCASE\b.*\bEND\b", re.DOTALL)
_OPERATOR = re.compile(r"[-+*/%<>=|&^~#]|\b(AND|OR|IS|IN|BETWEEN|LIKE|NOT|DIV|AT)\b")


def outside(template: str) -> str:
    """What of a template stands in no parentheses, brackets, quotes or CASE."""
    kept, depth, quote = "", 0, ""
    for character in template:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0:
            kept += character
    return _CASE.sub("", kept)


def templates(engine: EngineName) -> list[tuple[Signature, str]]:
    """What each function and operator says of arguments that are columns, where the types alone decide it."""
    registry = _registry()
    found = []
    for signature in (each for overloads in registry.by_name.values() for each in overloads):
        for key in ((False, signature.oid), (True, signature.oid)):
            form = registry.forms.get(key)
            template = None if form is None else form.on(engine)
            if callable(template):
                site = CallSite(
                    engine=engine,
                    arg_types=tuple(SqlType(oid) for oid in signature.args),
                    type=SqlType(signature.result),
                    constants=(NOT_CONSTANT,) * len(signature.args),
                    settings=SessionSettings(),
                )
                try:
                    template = template(site)
                except (StopIteration, AssertionError, SqlError):
                    continue  # Without arguments of their own, or polymorphic ones, they say nothing.
            if isinstance(template, str):
                found.append((signature, template))
    return found


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_templates_are_operands(engine: EngineName) -> None:
    found = templates(engine)
    assert len(found) > 1000
    assert [(signature.name, text) for signature, text in found if _OPERATOR.search(outside(text))] == []
