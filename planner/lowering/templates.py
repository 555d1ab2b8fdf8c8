"""Putting arguments into a template, binding those to a name that it repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from planner.dialects.quoting import BRACE
from planner.functions.engines.spark import without_lambda
from planner.lowering.context import Context, is_simple, is_volatile

_PLACE = re.compile(r"\{(\d+)\}")
MAX_REPEATED = 48
"""Characters of SQL up to which repeating an expression costs less than binding it to a name."""


@lru_cache(maxsize=4096)
def _repeated(template: str) -> tuple[int, ...]:
    places = _PLACE.findall(template)
    return tuple(sorted({int(place) for place in places if places.count(place) > 1}))


@lru_cache(maxsize=4096)
def _pieces(template: str) -> tuple[str | int, ...]:
    parts = _PLACE.split(template)
    return tuple(int(part) if index % 2 else part.replace(BRACE, "{") for index, part in enumerate(parts))


def fill(ctx: Context, template: str, args: Sequence[str]) -> str:
    """`template` with ``{i}`` replaced by ``args[i]``; arguments that it repeats are evaluated once."""
    repeated = _repeated(template)
    if not repeated and (ctx.local or "tg_" not in template):
        return _join(template, args)
    bound = [index for index in repeated if _needs_binding(ctx, args[index])]
    if not ctx.local and any("SELECT" in arg for arg in args):
        # Spark allows no subquery in or around a lambda; it computes equal subqueries once.
        return _join(without_lambda(template), args)
    if not bound or (not ctx.local and "tg_" in template):
        # Spark calls no function in Python inside a lambda; it computes equal expressions once.
        return _join(template, args)
    if ctx.local:
        bound += [index for index, arg in enumerate(args) if index not in bound and "SELECT" in arg]
    name = ctx.variable()
    if len(bound) == 1:
        value = args[bound[0]]
        places = {bound[0]: name}
    else:
        if ctx.local:
            value = "{" + ", ".join(f"'a{index}': {args[index]}" for index in bound) + "}"
        else:
            value = "named_struct(" + ", ".join(f"'a{index}', {args[index]}" for index in bound) + ")"
        places = {index: f"{name}.a{index}" for index in bound}
    body = _join(template, [places.get(index, arg) for index, arg in enumerate(args)])
    return ctx.dialect.let(value, name, body)


def _join(template: str, args: Sequence[str]) -> str:
    return "".join([part if isinstance(part, str) else args[part] for part in _pieces(template)])


def _needs_binding(ctx: Context, sql: str) -> bool:
    if is_simple(sql):
        return False
    return len(sql) > MAX_REPEATED or is_volatile(sql) or "SELECT" in sql
