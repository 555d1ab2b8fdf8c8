"""Putting arguments into a template, binding those to a name that it repeats.

fill(ctx, "({0} + {1})", [a, b])                        # (t1.c1 + t1.c2)
fill(ctx, "CASE WHEN {0} > 0 THEN {0} END", [random])   # list_transform([random()], lambda v1: CASE ...)[1]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from planner.dialects.dialect import Dialect
from planner.dialects.quoting import BRACE
from planner.errors import FeatureNotSupported
from planner.functions.engines.spark import without_lambda
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment, made, simple

MAX_REPEATED = 48
"""Characters of SQL up to which repeating an expression costs less than binding it to a name."""

_PLACE = re.compile(r"\{(\d+)\}")
_RAISES = re.compile(r"\b(?:raise_)?error\(")
_PYTHON = re.compile(r"\btg_\w+\(")


class _Template(Struct, frozen=True):
    pieces: tuple[str | int, ...]
    """Text, and the numbers of the arguments between it."""
    repeated: tuple[int, ...]
    """The arguments that stand in more than one place."""
    may_raise: bool
    python: bool


@lru_cache(maxsize=4096)
def _template(text: str, dialect: Dialect) -> _Template:
    parts = _PLACE.split(text)
    places = [int(part) for part in parts[1::2]]
    code = dialect.string_constant.sub("''", text)
    return _Template(
        pieces=tuple([int(part) if index % 2 else part.replace(BRACE, "{") for index, part in enumerate(parts)]),
        repeated=tuple(sorted({place for place in places if places.count(place) > 1})),
        may_raise=_RAISES.search(code) is not None,
        python=_PYTHON.search(code) is not None,
    )


def calls_python(template: str, dialect: Dialect) -> bool:
    """Whether a template itself calls a function in Python."""
    return _template(template, dialect).python


def fill(ctx: Context, template: str, args: Sequence[Fragment], *, repeats: int | None = None) -> Fragment:
    """`template` with ``{i}`` replaced by ``args[i]``; arguments that it repeats are evaluated once. The engine
    evaluates the argument `repeats` more than once where it stands, so that too is bound when it is volatile.

    Raises 0A000 where the engine can evaluate a volatile one only several times.
    """
    dialect = ctx.dialect
    read = _template(template, dialect)
    if repeats is not None and args[repeats].volatile:
        read = replace(read, repeated=tuple(sorted({*read.repeated, repeats})))
    if dialect.let_of_subqueries and "lambda " in template and any(arg.subquery for arg in args):
        # No subquery stands in a lambda: it is bound outside.
        read = replace(read, repeated=tuple(sorted({*read.repeated, *_subqueries(args)})))
    if not read.repeated and (dialect.python_in_lambdas or not read.python):
        return _join(read, args)
    if not dialect.let_of_subqueries and any(arg.subquery for arg in args):
        # The engine allows no subquery in or around a lambda; it computes equal subqueries once.
        if repeats is not None and args[repeats].volatile:
            raise _not_once(ctx)
        return _repeating(ctx, _template(without_lambda(template), dialect), args)
    bound = [index for index in read.repeated if _needs_binding(args[index])]
    if not bound or (read.python and not dialect.python_in_lambdas):
        # The engine calls no function in Python inside a lambda; it computes equal expressions once.
        return _repeating(ctx, read, args)
    # Nothing but a lambda's value may hold these.
    bound += [
        index
        for index, arg in enumerate(args)
        if index not in bound and (arg.subquery or (arg.python and not dialect.python_in_lambdas))
    ]
    name = ctx.variable()
    if len(bound) == 1:
        value = args[bound[0]].sql
        places = {bound[0]: simple(name)}
    else:
        value = dialect.struct([(f"a{index}", args[index].sql) for index in bound])
        places = {index: simple(f"{name}.a{index}") for index in bound}
    body = _join(read, [places.get(index, arg) for index, arg in enumerate(args)])
    return made(dialect.let(value, name, body.sql), body, *[args[index] for index in bound])


def _subqueries(args: Sequence[Fragment]) -> list[int]:
    return [index for index, arg in enumerate(args) if arg.subquery]


def let(ctx: Context, value: Fragment, name: str, body: Fragment) -> Fragment:
    """`body`, in which `name` stands for `value`. Raises 0A000 where the engine's binding cannot hold one of them."""
    dialect = ctx.dialect
    if body.subquery or (body.python and not dialect.python_in_lambdas):
        raise _not_once(ctx)
    if value.subquery and not dialect.let_of_subqueries:
        raise _not_once(ctx)
    return made(dialect.let(value.sql, name, body.sql), value, body)


def _repeating(ctx: Context, template: _Template, args: Sequence[Fragment]) -> Fragment:
    """The template with its arguments as they are, however often it names them."""
    if any(args[index].volatile for index in template.repeated):
        raise _not_once(ctx)
    if ctx.repeated is not None:
        ctx.repeated.repeated.extend([args[index] for index in template.repeated if args[index].subquery])
    return _join(template, args)


def _not_once(ctx: Context) -> FeatureNotSupported:
    return ctx.unsupported("a volatile expression in this place")


def _join(template: _Template, args: Sequence[Fragment]) -> Fragment:
    sql = "".join([part if isinstance(part, str) else args[part].sql for part in template.pieces])
    filled = made(sql, *args)
    if template.may_raise or template.python:
        return replace(
            filled, may_raise=filled.may_raise or template.may_raise, python=filled.python or template.python
        )
    return filled


def _needs_binding(arg: Fragment) -> bool:
    if arg.simple:
        return False
    return arg.inlined or len(arg.sql) > MAX_REPEATED or arg.volatile or arg.subquery
