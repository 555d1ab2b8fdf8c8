"""Lowered queries, and what they scan, by bound query: a prepared statement is lowered once.

A bound query is immutable and lives in the plan cache, so it is known by its identity here; entries keep it alive.
The text also depends on the FROM items of its tables, the parameters and the settings that act inside expressions.
In text that names its execution (catalog functions) a placeholder stands for the token.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from adapter.engines.engine import EngineName, ExecutionContext
from adapter.engines.lookups import Lookup, lookup_of
from adapter.engines.result_batches import ResultShape
from adapter.engines.scan_sources import ScanNeeds, scan_needs
from planner import ir
from planner.errors import FeatureNotSupported, SqlError
from planner.ir import BoundQuery, Literal
from planner.lowering import LoweredQuery, ScanSource, SessionSettings, lower
from planner.rewrite import walk

MAX_QUERIES = 512
"""Bound queries known; about as many as plan caches hold between them."""

_TOKEN = "\0token\0"
"""Stands for the execution's token in kept text. No value of a text has a NUL."""

MAX_TEXTS = 8
"""Texts kept for one query: it may run with a few sets of parameters again and again, or with new ones each time."""


class EngineText(Struct, frozen=True):
    """A statement of the engine; `constants` is what the sources of its relations have to hold besides, by oid.
    `names_execution`: it calls functions that look for the execution's context."""

    sql: str
    constants: Mapping[int, tuple[Literal, ...]]
    names_execution: bool


class _Latest(Struct, frozen=True):
    """The text that was asked for last, with what it depends on but for parameters."""

    settings: Mapping[str, str]
    items: tuple[str, ...]
    """The FROM items of its sources."""
    lowered: LoweredQuery
    sql: str


class _Entry(Struct):
    query: BoundQuery
    needs: ScanNeeds
    judged: bool = False
    reason: str | None = None
    folds: bool | None = None
    texts: OrderedDict[object, LoweredQuery] = field(default_factory=OrderedDict)
    inlined: frozenset[int] = frozenset()
    """The parameters that any text so far has had inside."""
    latest: _Latest | None = None
    shape: ResultShape | None = None
    lookup: Lookup | None = None
    looked: bool = False
    """Whether `lookup` is known."""


class LoweredCache:
    """See the module's contract. Thread-safe."""

    def __init__(self, engine: EngineName) -> None:
        self._engine: EngineName = engine
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()

    def needs(self, query: BoundQuery) -> ScanNeeds:
        """What `query` scans."""
        return self._entry(query).needs

    def shape(self, query: BoundQuery) -> ResultShape:
        """The shape of its result."""
        entry = self._entry(query)
        if entry.shape is None:
            entry.shape = ResultShape(query.rel.fields)
        return entry.shape

    def folds(self, query: BoundQuery) -> bool:
        """Whether `query` only filters, projects and limits one table or a list of values, so that an optimiser can
        evaluate it over rows that are part of the plan."""
        entry = self._entry(query)
        if entry.folds is None:
            entry.folds = _folds(query.rel)
        return entry.folds

    def lookup(self, query: BoundQuery) -> Lookup | None:
        """`query` as a lookup in one table, or None when it is more than that."""
        entry = self._entry(query)
        if not entry.looked:
            entry.lookup = lookup_of(query.rel)
            entry.looked = True
        return entry.lookup

    def unsupported(self, query: BoundQuery) -> str | None:
        """Why the engine cannot run `query`, naming the construct, or None when it can."""
        entry = self._entry(query)
        if not entry.judged:
            try:
                self._lowered(
                    entry,
                    # Most reads of the local engine are of small tables, so this text will most likely do for them.
                    frozenset(entry.needs.tables) if self._engine == "local" else frozenset(),
                    None if query.param_types else (),
                    SessionSettings(token=_TOKEN),
                )
            except FeatureNotSupported as unsupported:
                entry.reason = unsupported.message
            except SqlError:
                # Running it says so.
                entry.reason = None
            entry.judged = True
        return entry.reason

    def text(
        self,
        query: BoundQuery,
        sources: Mapping[int, ScanSource],
        params: Sequence[Literal],
        context: ExecutionContext,
    ) -> EngineText:
        """`query` as the engine's SQL over `sources`. Raises what `planner.lowering.lower` raises."""
        entry = self._entry(query)
        items = tuple([source.sql for source in sources.values()])
        latest = entry.latest
        if (
            latest is None
            or latest.settings is not context.settings
            or latest.items != items
            or (params and entry.inlined)
        ):
            extendable = frozenset([oid for oid, source in sources.items() if source.extended is not None])
            lowered = self._lowered(entry, extendable, params, session_settings(context, token=_TOKEN))
            latest = entry.latest = _Latest(context.settings, items, lowered, lowered.text(sources))
        constants = {
            oid: tuple([params[given.index - 1] if isinstance(given, ir.Param) else given for given in held])
            for oid, held in latest.lowered.constants.items()
        }
        names_execution = _TOKEN in latest.sql
        sql = latest.sql.replace(_TOKEN, context.token) if names_execution else latest.sql
        return EngineText(sql, constants, names_execution)

    def _lowered(
        self, entry: _Entry, extendable: frozenset[int], params: Sequence[Literal] | None, settings: SessionSettings
    ) -> LoweredQuery:
        """The query lowered, kept unless values of parameters are missing."""
        acting = (settings.timezone, settings.datestyle, settings.intervalstyle, settings.extra_float_digits)

        def key(inlined: frozenset[int]) -> object:
            # By text: 0.0 equals -0.0 and 1.0 equals 1.00, but they are not the same value.
            values = [repr(param.value) for index, param in enumerate(params or (), 1) if index in inlined]
            return extendable, acting, inlined, tuple(values)

        known = None if params is None else entry.texts.get(key(entry.inlined))
        if known is not None:
            return known
        lowered = lower(entry.query.rel, self._engine, extendable, params, settings)
        if params is not None:
            with self._lock:
                entry.inlined |= lowered.inlined
                entry.texts[key(entry.inlined)] = lowered
                if len(entry.texts) > MAX_TEXTS:
                    entry.texts.popitem(last=False)
        return lowered

    def _entry(self, query: BoundQuery) -> _Entry:
        with self._lock:
            entry = self._entries.get(id(query))
            if entry is not None and entry.query is query:
                self._entries.move_to_end(id(query))
                return entry
        entry = _Entry(query=query, needs=scan_needs(query.rel))
        with self._lock:
            self._entries[id(query)] = entry
            if len(self._entries) > MAX_QUERIES:
                self._entries.popitem(last=False)
        return entry


def _folds(rel: ir.Rel) -> bool:
    if any(isinstance(node, _SUBQUERIES) for node in walk(rel)):
        return False
    while isinstance(rel, (ir.Project, ir.Filter, ir.Limit)):
        rel = rel.input
    return isinstance(rel, (ir.OneRow, ir.Values, ir.Scan))


_SUBQUERIES = (ir.ScalarSubquery, ir.Exists, ir.QuantifiedSubquery, ir.ArraySubquery)


def session_settings(context: ExecutionContext, *, token: str) -> SessionSettings:
    """The settings of `context` that act inside expressions. `context.settings` is keyed as SHOW spells the names."""
    values = context.settings
    return SessionSettings(
        timezone=values.get("TimeZone", "UTC"),
        datestyle=values.get("DateStyle", "ISO, MDY"),
        intervalstyle=values.get("IntervalStyle", "postgres"),
        extra_float_digits=int(values.get("extra_float_digits", "1")),
        token=token,
    )
