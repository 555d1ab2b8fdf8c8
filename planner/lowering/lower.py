"""The entry point: `lower` prints a plan as one engine's SQL, with places for what it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from planner.dialects.engine_name import EngineName
from planner.errors import FeatureNotSupported, InternalError
from planner.functions.forms.form import SessionSettings
from planner.ir import nodes as ir
from planner.lowering.common_tables import hoisted
from planner.lowering.fragments.context import Context
from planner.lowering.fragments.fragment import Fragment
from planner.lowering.fragments.sources import ScanSource, place_of
from planner.lowering.relations.relations import Relations
from planner.lowering.scalars.handlers import new_scalars

TOKEN = "\0token\0"
"""Stands for the token of the execution, which functions that look into the catalog are called with, in text that is
kept. No value of a text has a NUL."""


class LoweredQuery(Struct, frozen=True):
    """A SELECT for an engine, but for the sources of the `relations` that it reads: `text` fills them in. Its columns
    are ``c<id>`` of `fields`, in order, with the types of `planner.ir.physical`.

    `constants` are what the sources of relations have to hold besides their columns (`ScanSource.extended`). Of the
    parameters only those in `inlined` (indexes from 1) have their values in the text.
    """

    sql: str
    fields: tuple[ir.Field, ...]
    relations: frozenset[int]
    constants: Mapping[int, tuple[ir.Literal | ir.Param, ...]]
    inlined: frozenset[int]
    values: tuple[str | bytes, ...] = ()
    """The parameters of the text itself: long values, which are kept out of it."""
    pairs_in_python: bool = False
    """Whether the engine would call a function in Python for each pair of rows of two queries."""

    def text(self, sources: Mapping[int, ScanSource]) -> str:
        """The SELECT over `sources`, keyed by the oid of each relation that is scanned (RETURNING_ROWS for the affected
        rows of RETURNING)."""
        sql = self.sql
        for relation in self.relations:
            source = sources.get(relation)
            if source is None:
                raise InternalError(f"no scan source for relation {relation}")
            item = source.with_constants([constant.type for constant in self.constants.get(relation, ())])
            sql = sql.replace(place_of(relation), item)
        return sql


def lower(
    rel: ir.Rel,
    engine: EngineName,
    extendable: frozenset[int] = frozenset(),
    params: Sequence[ir.Literal] | None = (),
    settings: SessionSettings | None = None,
) -> LoweredQuery:
    """`rel` as SQL for `engine`; session values are already literals.

    `extendable` are the relations whose sources can have constants (`ScanSource.extended`). Without values of
    parameters (`params` None) the text is of no use, but it is known whether there is one.

    Raises FeatureNotSupported for what the engine cannot run, naming the construct, and the errors that constants alone
    decide (a negative LIMIT).
    """
    ctx = Context(engine, extendable, params, settings or SessionSettings())
    relations = Relations(ctx, new_scalars(ctx))
    rel = hoisted(rel)
    select = relations.build(rel)
    if ctx.dialect.row_source is not None and select.source is None and select.set_operation is None:
        select.source = Fragment(ctx.dialect.row_source)
    sql = relations.complete(select, rel.fields).sql
    constants = {relation: tuple(held) for relation, held in ctx.constants.items()}
    return LoweredQuery(
        sql, rel.fields, frozenset(ctx.relations), constants, frozenset(ctx.inlined), tuple(ctx.long_values),
        ctx.pairs_in_python,
    )  # fmt: skip


def calls_python(expr: ir.Scalar, engine: EngineName) -> bool:
    """Whether `engine` would call a function in Python for `expr`, which has no columns, that looks into nothing else
    than its arguments and the session's settings. False where the engine refuses `expr`."""
    ctx = Context(engine, frozenset(), None, SessionSettings(token=TOKEN))
    try:
        lowered = new_scalars(ctx).lower(expr)
    except FeatureNotSupported:
        return False
    return lowered.python and TOKEN not in lowered.sql
