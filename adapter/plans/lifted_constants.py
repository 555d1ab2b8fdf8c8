"""Constants of a statement's text taken for parameters, so that a text with new constants finds the plan of the old.

``UPDATE t SET n = 5 WHERE id = 17`` is ``UPDATE t SET n = $1 WHERE id = $2`` with two values of type int4, and both
have the same plan. Not every constant is a parameter: ``LIMIT 5`` and ``ORDER BY 1`` look the same, ``date '...'`` has
none of its own, an unknown literal has the type that its context asks for. So a text is only *split* here, by its
tokens; whether the statement that comes of it may stand for the text is decided once for each template, by its plan:
only statements that touch rows of a key or a range of keys, and INSERTs of rows that are written out. What comes after
ORDER BY or GROUP BY, where a number is that of a column, stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from adapter.plans.computed.folded_constants import folds_parameters
from adapter.plans.plan_cache import PLAN_SETTINGS, Plan, PlanCache, make_plan_at_once
from adapter.plans.predicates import templates_of
from planner.analyze import BindContext
from planner.errors import SqlError
from planner.ir import nodes as ir
from planner.ir.bound import BoundDelete, BoundInsert, BoundQuery, BoundStatement, BoundUpdate
from planner.ir.rewrite import walk
from planner.resolution.statement import TakesLong
from planner.syntax.parse import Parsed, split_and_parse
from planner.types import types as t
from planner.types.types import SqlType
from storage.bounded_map import BoundedMap
from storage.cache_memory import aging
from storage.catalog.model import CatalogSnapshot

MAX_TEXT_CHARS = 2_000
"""Longer statements carry data; taking them apart costs what is saved."""

MAX_CONSTANTS = 64

_VERBS = ("insert", "update", "delete", "select")

_TOKEN = re.compile(r"""
    "(?:[^"]|"")*"                      # a quoted identifier stays
  | [\w&]'(?:[^']|'')*'                 # and so does a string with a prefix
  | (?P<text>'(?:[^']|'')*')
  | (?P<integer>(?<![\w.])-?\d+(?![\w.]))
""", re.VERBOSE)  # fmt: skip

_BEFORE_SIGN = tuple("(,=<>+*/")
"""What stands before a minus that is the sign of a number."""

_NEVER = re.compile(r"[\\$]|--|/\*|;\s*\S")
"""Escapes, parameters, comments, several statements: such texts are left alone."""

_NUMBERED = re.compile(r"\b(?:order|group)\s+by\b", re.IGNORECASE)

MAX_TEMPLATES = 1000
"""Templates of which it is known what they are."""

_TEXTS = frozenset({t.TEXT, t.VARCHAR})


class SplitText(Struct, frozen=True, kw_only=True):
    """A text with ``$1``, ``$2``, ... for its constants: `template`, the constants' values, and the oids of their types
    (0 for a literal whose type follows from the context)."""

    template: str
    values: tuple[int | str, ...]
    declared: tuple[int, ...]

    def params(self, types: Sequence[SqlType]) -> tuple[ir.Literal, ...]:
        """The constants as the values of parameters of `types`."""
        return tuple([ir.Literal(value=value, type=type_) for value, type_ in zip(self.values, types, strict=True)])


def split_text(text: str) -> SplitText | None:
    """`text` without its constants; None when it has none, or is of no kind that is worth it."""
    if len(text) > MAX_TEXT_CHARS or not text.lstrip()[:6].lower().startswith(_VERBS) or _NEVER.search(text):
        return None
    values: list[int | str] = []
    declared: list[int] = []
    numbered = _NUMBERED.search(text)
    end = len(text) if numbered is None else numbered.start()

    def lifted(token: re.Match[str]) -> str:
        found = token[0]
        if token.start() > end:
            return found
        if token.lastgroup == "integer":
            sign = ""
            if found[0] == "-" and text[: token.start()].rstrip()[-1:] not in _BEFORE_SIGN:
                sign, found = "-", found[1:]
            value = int(found)
            if abs(value) >= 2**63:
                return token[0]
            values.append(value)
            declared.append(t.INT4 if abs(value) < 2**31 else t.INT8)
            return f"{sign}${len(values)}"
        if token.lastgroup == "text":
            values.append(found[1:-1].replace("''", "'"))
            declared.append(0)
            return f"${len(values)}"
        return found

    template = _TOKEN.sub(lifted, text)
    if not values or len(values) > MAX_CONSTANTS:
        return None
    return SplitText(template=template, values=tuple(values), declared=tuple(declared))


def may_stand_for_text(plan: Plan, split: SplitText) -> bool:
    """Whether the plan of a template does the same as those of its texts: the types of its parameters are those that
    the constants have, and nothing but values follows from them."""
    if len(plan.param_types) != len(split.declared) or plan.steps:
        return False
    for declared, type_ in zip(split.declared, plan.param_types, strict=True):
        if (type_.oid not in _TEXTS) if declared == 0 else (type_.oid != declared):
            return False
    statement = plan.statement
    if isinstance(statement, BoundStatement) and folds_parameters(_besides_operands(plan, statement)):
        return False
    if plan.key_read is not None:
        return True
    return isinstance(statement, BoundInsert) and not _reads(plan, statement) and _is_written_out(statement.source.rel)


def _besides_operands(plan: Plan, statement: BoundStatement) -> BoundStatement:
    """`statement` without what is worked out before it anyway."""
    operands = plan.operands
    if operands is None:
        return statement
    match statement:
        case BoundQuery():
            return operands.query
        case BoundUpdate() | BoundDelete():
            return replace(statement, read=operands.query)
        case _:
            return statement


def _reads(plan: Plan, statement: BoundInsert) -> bool:
    """Whether an INSERT reads rows. One that takes numbers from sequences acts, but reads none."""
    if not plan.acts:
        return plan.reads
    returning = () if statement.returning is None else templates_of(statement.returning.query)
    return bool(plan.templates or returning) or plan.sizes or statement.source.system


def _is_written_out(rel: ir.Rel) -> bool:
    """Whether the rows of `rel` need no computing but casts."""
    while isinstance(rel, ir.Project):
        if not all(map(_is_value, rel.exprs)):
            return False
        rel = rel.input
    return isinstance(rel, ir.OneRow) or (
        isinstance(rel, ir.Values) and all(_is_value(expr) for row in rel.rows for expr in row)
    )


def _is_value(expr: ir.Scalar) -> bool:
    while isinstance(expr, (ir.Cast, ir.Collate)):
        expr = expr.arg
    return isinstance(expr, ir.Param) or not any(isinstance(node, ir.Param) for node in walk(expr))


class Lifted(Struct, frozen=True, kw_only=True):
    """A statement whose text had constants: what runs instead, with their values."""

    parsed: Parsed
    params: tuple[ir.Literal, ...]
    declared: tuple[int, ...]


class _Template(Struct, frozen=True, kw_only=True):
    """What a template is in one catalog; no `parsed`: it may not stand for its texts."""

    catalog: CatalogSnapshot
    parsed: Parsed | None
    types: tuple[SqlType, ...] = ()
    declared: tuple[int, ...] = ()


class Templates:
    """The templates of a server's statements. Belongs to the event loop."""

    def __init__(self, plans: PlanCache) -> None:
        self._plans = plans
        self._known: BoundedMap[tuple[object, ...], _Template] = aging(BoundedMap(max_entries=MAX_TEMPLATES))

    def lift(self, text: str, context: BindContext) -> Lifted | None:
        """The statement that `text` is, with its constants as parameters; None when it has to be taken as it is."""
        split = split_text(text)
        if split is None:
            return None
        settings = context.settings
        key = (
            split.template,
            split.declared,
            context.search_path,
            context.user,
            context.database,
            *map(settings.get, PLAN_SETTINGS),
        )
        known = self._known.get(key)
        if known is None or known.catalog is not context.catalog:
            known = self._judged(split, context)
            self._known.put(key, known)
        else:
            self._known.touch(key)
        if known.parsed is None:
            return None
        return Lifted(parsed=known.parsed, params=split.params(known.types), declared=known.declared)

    def _judged(self, split: SplitText, context: BindContext) -> _Template:
        try:
            statements = split_and_parse(split.template)
            if len(statements) == 1:
                plan = self._plans.plan(statements[0], context, split.declared, make_plan_at_once)
                if may_stand_for_text(plan, split):
                    types = plan.param_types
                    declared = tuple([type_.oid for type_ in types])
                    return _Template(catalog=context.catalog, parsed=statements[0], types=types, declared=declared)
        except (SqlError, TakesLong):
            pass  # The text itself says better what is wrong with it, or is planned on a thread.
        return _Template(catalog=context.catalog, parsed=None)
