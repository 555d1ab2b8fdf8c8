"""The entry points: `lower` prints a plan as one engine's SQL, `capability` says whether that engine can run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from planner import ir
from planner.errors import FeatureNotSupported, SqlError
from planner.functions.forms import EngineName, SessionSettings
from planner.lowering.context import Context, ScanSource
from planner.lowering.relations import Relations, place_of
from planner.lowering.scalars import Scalars


class LoweredQuery(Struct, frozen=True):
    """A SELECT for an engine. Its columns are ``c<id>`` of `fields`, in order, with the types of `planner.physical`.

    `constants` are what the sources of relations have to hold besides their columns (`ScanSource.extended`). Of the
    parameters only those in `inlined` (indexes from 1) have their values in the text.
    """

    sql: str
    fields: tuple[ir.Field, ...]
    constants: Mapping[int, tuple[ir.Literal | ir.Param, ...]]
    inlined: frozenset[int]


def lower(
    rel: ir.Rel,
    engine: EngineName,
    tables: Mapping[int, ScanSource],
    params: Sequence[ir.Literal] = (),
    settings: SessionSettings | None = None,
) -> LoweredQuery:
    """`rel` as SQL for `engine`.

    `tables` is keyed by the oid of each relation that is scanned (RETURNING_ROWS for the affected rows of RETURNING);
    session values are already literals. Raises FeatureNotSupported for what the engine cannot run, and the errors that
    constants alone decide (a negative LIMIT).
    """
    return _lower(Context(engine, tables, params, settings or SessionSettings()), rel)


def capability(rel: ir.Rel, engine: EngineName) -> str | None:
    """Why `engine` cannot run `rel`, naming the construct; None when it can."""
    try:
        _lower(Context(engine, None, None, SessionSettings()), rel)
    except FeatureNotSupported as unsupported:
        return unsupported.message
    except SqlError:
        return None
    return None


def _lower(ctx: Context, rel: ir.Rel) -> LoweredQuery:
    relations = Relations(ctx, Scalars(ctx))
    select = relations.build(rel)
    if not ctx.local and select.source is None and select.set_operation is None:
        # Spark evaluates a projection of listed rows while it plans; for a missing FROM it runs a job.
        select.source = "VALUES (0)"
    sql = relations.text(select, rel.fields)
    constants = {relation: tuple(held) for relation, held in ctx.constants.items()}
    for relation, given in constants.items():
        assert ctx.tables is not None
        item = ctx.tables[relation].with_constants([constant.type for constant in given])
        sql = sql.replace(place_of(relation), item)
    return LoweredQuery(sql, rel.fields, constants, frozenset(ctx.inlined))
